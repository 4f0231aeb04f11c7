"""The news for systemd of a service of `Type=notify`: sd_notify(3), by datagrams to the socket it names."""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
WATCHDOG: Final = "WATCHDOG=1"
NANOSECONDS_US: Final = 1000


def notify(state: str) -> None:
    """Send a state to the service manager. Without one, do nothing."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    # A service manager that does not listen is no reason to end.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as out:
        out.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)


def reloading() -> str:
    """Return the state to notify while the configuration is read again. READY ends this state."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // NANOSECONDS_US}"


def is_watched() -> bool:
    """Return whether the service manager expects WATCHDOG now and then."""
    own = str(os.getpid())
    return bool(os.environ.get("WATCHDOG_USEC")) and os.environ.get("WATCHDOG_PID", own) == own
