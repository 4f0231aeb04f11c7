"""The table of all operations: importing this module fills it."""

from __future__ import annotations

from forebay.management.control import OPERATIONS, Control
from forebay.management.operations import (
    broker,
    cluster,
    exchanges,
    explain,
    groups,
    letters,
    messages,
    pending,
    policies,
    query,
    queues,
    sessions,
    streams,
    users,
    vhosts,
)

__all__ = ["OPERATIONS", "PARTS", "Control"]

PARTS = (
    broker,
    cluster,
    exchanges,
    explain,
    groups,
    letters,
    messages,
    pending,
    policies,
    query,
    queues,
    sessions,
    streams,
    users,
    vhosts,
)
