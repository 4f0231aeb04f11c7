"""The last words of connections that another one has overtaken, where those wait for the disk.

Such a connection takes part in nothing any more. But its client has asked for a session and is answered: CONNACK, and
why it has to go. As that leaves when what the CONNACK promises is on disk, no connection stays for longer than a sync.
"""

from __future__ import annotations

from typing import final

from forebay.server.net import Connection


@final
class Farewells:
    """Connections whose session is over, and whose last octets may not leave yet."""

    def __init__(self) -> None:
        self.held: list[Connection] = []

    def say(self, connection: Connection) -> bool:
        """Send what a session has to say at its end, and close; whether it has to wait for the disk."""
        connection.attempt(connection.flush)
        session = connection.session
        if connection.closing or session is None:
            return False
        if session.hold_lsn <= connection.host.durable_lsn():
            connection.close()
            return False
        if not connection.closing_us:
            connection.closing_us = connection.host.now_us()  # from here on the host lets it stay for so long only
        self.held.append(connection)
        return True

    def written(self) -> None:
        """More is on the disk."""
        held, self.held = self.held, []
        for connection in held:
            self.say(connection)
