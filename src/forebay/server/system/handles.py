"""The number of files and sockets that this process may have open, and of those that are for connections."""

from __future__ import annotations

import logging
import resource
from typing import Final

OWN: Final = 512  # segments, write-ahead log, listeners: without them the broker could not go on
logger = logging.getLogger("forebay")


def raise_limit(connections_max: int) -> None:
    """Raise the limit of open files to what the system allows. Warn if that is too low for `connections_max`."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    room = room_for_connections()
    if room < connections_max:
        words = "the system allows %d open files: no more than %d connections are taken, though connections_max is %d"
        logger.warning(words, most, room, connections_max)


def room_for_connections() -> int:
    """Return the number of connections that leave enough handles for the broker's own files."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return 1 << 31
    return most - min(OWN, most // 2)
