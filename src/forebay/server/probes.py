"""The answers to orchestrators, which have no login: whether the broker is alive, and whether clients should come."""

from __future__ import annotations

from typing import Final

from forebay.server.broker_view import BrokerView

HEALTH: Final = "/health"
READY: Final = "/ready"
OK: Final = 200
UNAVAILABLE: Final = 503
Probe = tuple[int, dict[str, str]]  # status and fields of an answer


def health_of(app: BrokerView) -> Probe:
    """Return the answer of /health: turns go on, or nobody would answer, and the disk answers."""
    fault = app.readings.disk_fault()
    if fault:
        return UNAVAILABLE, {"status": "unhealthy", "reason": fault}
    return OK, {"status": "healthy"}


def readiness_of(app: BrokerView) -> Probe:
    """Return the answer of /ready: clients should come, unless the broker is about to stop.

    While an alarm is set they should: those that consume make room.
    """
    if app.leaving:
        return UNAVAILABLE, {"status": "leaving", "reason": "the broker is about to stop"}
    return OK, {"status": "degraded" if app.readings.alarm_names() else "ready"}
