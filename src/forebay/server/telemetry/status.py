"""The part of the broker's state that only the server knows, for administrators."""

from __future__ import annotations

import os
import platform
from typing import Final

from forebay.broker.limits.hold_reasons import SEND_BUFFER, SESSION_QUOTA, SLOW_SUBSCRIBER
from forebay.core.units import US_PER_S
from forebay.log import block
from forebay.management.control import ServerStatus
from forebay.management.requests.broker import ServerFields
from forebay.node.telemetry.losses import messages_lost, sessions_over_quota
from forebay.server.app import App
from forebay.server.system.heap import resident_octets

COMPILED: Final = not block.__file__.endswith(".py")


class AppStatus(ServerStatus):
    """The status of one broker."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._started_us = app.clock.now_us()

    def now_us(self) -> int:
        return self._app.clock.now_us()

    def fields(self) -> ServerFields:
        app = self._app
        held = app.broker.flow.held
        used = os.times()
        return {
            "build": "compiled" if COMPILED else "interpreted",
            "python": platform.python_version(),
            "pid": os.getpid(),
            "data": app.disk.root,
            "started_ms": self._started_us // 1000,
            "uptime_s": (app.clock.now_us() - self._started_us) // US_PER_S,
            "cpu_s": round(used.user + used.system, 2),
            "listeners": dict(app.addresses),
            "alarms": app.alarms.names(),
            "damages": app.alarms.damages(),
            "connections": len(app.connections),
            "connections_max": app.options.connections_max,
            "memory_octets": resident_octets(),
            "memory_octets_max": app.options.memory_octets_max,
            "disk_free_octets": app.disk.free_octets(),
            "disk_free_min_octets": app.options.disk_free_min_octets,
            "slowed_publishers": app.pressure.choked(),
            "slow_readers": len(held[SEND_BUFFER]),
            "held_publishers": len(held[SLOW_SUBSCRIBER]) + len(held[SESSION_QUOTA]),
            "messages_lost": messages_lost(app.vhosts),
            "sessions_over_quota": sessions_over_quota(app.vhosts),
        }
