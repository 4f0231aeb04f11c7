"""Once a second each connection is asked, and the node told of its machine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from forebay.core.options import Options
from forebay.node.link import Link

NO_LIMIT: Final = 1 << 62


class Surroundings:
    """The fields of the machine that a node is told, about once a second.

    memory_octets  that the process has
    free_octets    that the disk has left
    asked_us       when the disk was asked something that it has not answered, beside commits; 0 for nothing
    """

    def __init__(self) -> None:
        self.memory_octets = 0
        self.free_octets = NO_LIMIT
        self.asked_us = 0


def look_at(connections: Iterable[Link], options: Options, now_us: int) -> None:
    """Advance the timers of connections. End those that time out in the handshake, the close or the login."""
    silent_us = options.handshake_timeout_ms * 1000
    leave_us = options.drain_timeout_ms * 1000
    for connection in connections:
        if connection.closing or connection.closing_us:
            if connection.closing_us and now_us - connection.closing_us > leave_us:
                connection.broker.cut(connection)  # it does not read: what it held must return all the same
        elif connection.session is not None:
            connection.attempt_with(connection.session.tick, now_us)
            if 0 < connection.session.principal.until_us <= now_us:
                connection.attempt_with(connection.session.dismiss, "the token has expired")
            connection.broker.touch(connection)
        elif connection.handshake is not None:
            connection.attempt_with(connection.handshake.tick, now_us)
            connection.broker.touch(connection)
        elif now_us - connection.opened_us > silent_us:
            connection.broker.cut(connection)  # the protocol is unknown, so no error can be sent
