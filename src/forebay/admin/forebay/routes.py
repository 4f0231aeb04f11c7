"""All routes under /api/forebay that ask and change queues, groups, sessions and single messages."""

from __future__ import annotations

from typing import Final

from forebay.admin.forebay import (
    config,
    explain,
    groups,
    letters,
    mqtt,
    operations,
    policies,
    query,
    queues,
    samples,
    trace,
)
from forebay.admin.web.router import RouteGroup

ROUTERS: Final[tuple[RouteGroup, ...]] = tuple(
    part.router
    for part in (config, operations, policies, queues, query, letters, groups, mqtt, explain, trace, samples)
)
