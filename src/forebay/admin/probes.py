"""/health and /ready, as orchestrators ask: without a login, and nothing but yes or no.

`early.py` answers them until the web framework is loaded.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from forebay.admin.http.answer import as_json
from forebay.admin.login import Broker
from forebay.admin.web.router import RouteGroup
from forebay.server.probes import Probe, health_of, readiness_of

router = RouteGroup(tags=["health"])
YES: Final[dict[str, Any]] = {
    "description": "Yes.",
    "content": {"application/json": {"schema": {"type": "object", "properties": {"status": {"type": "string"}}}}},
}
NO: Final[dict[str, Any]] = {**YES, "description": "No: nobody should be sent here."}


@router.get("/health", responses={200: YES, 503: NO})
async def is_alive(app: Broker) -> Response:
    """Checks whether turns go on, which whoever gets an answer knows, and the disk answers."""
    return probe_answer(health_of(app))


@router.get("/ready", responses={200: YES, 503: NO})
async def is_ready(app: Broker) -> Response:
    """Checks whether clients should come: not where the broker is about to stop.

    While an alarm is set they should: those that consume make room.
    """
    return probe_answer(readiness_of(app))


def probe_answer(probe: Probe) -> Response:
    status, fields = probe
    return as_json(fields, status)
