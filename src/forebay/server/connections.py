"""The server's connections, for administrators to list and to end."""

from __future__ import annotations

from collections.abc import Callable

from forebay.broker.control.operations import Connections
from forebay.broker.vhosts import Vhosts
from forebay.server.net import Connection


class OpenConnections(Connections):
    """Those that have a session.

    connections  by the session's number; the server's own
    touch        has a connection take part in the turn
    """

    def __init__(self, connections: dict[int, Connection], touch: Callable[[Connection], None]) -> None:
        self._connections = connections
        self._touch = touch

    def listed(self) -> list[dict[str, object]]:
        return [described(id, connection) for id, connection in sorted(self._connections.items())]

    def find(self, id: int) -> dict[str, object] | None:
        connection = self._connections.get(id)
        return None if connection is None or connection.session is None else described(id, connection)

    def channels(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for id, connection in sorted(self._connections.items()):
            known = described(id, connection)
            assert connection.session is not None
            for channel in connection.session.describe_channels():
                found.append({"connection": id, "vhost": known["vhost"], "user": known.get("user"), **channel})
        return found

    def close(self, id: int, text: str) -> bool:
        connection = self._connections.get(id)
        if connection is None or connection.session is None:
            return False
        connection.attempt(connection.session.dismiss, text)
        self._touch(connection)
        return True

    def end_deleted(self, vhosts: Vhosts) -> None:
        """End those whose vhost or user is gone."""
        gone, vhosts.deleted = vhosts.deleted, []
        users, vhosts.users.deleted = vhosts.users.deleted, []
        for connection in list(self._connections.values()):
            session = connection.session
            if session is None:
                continue
            if session.vhost in gone:
                name = session.vhost.name.decode("utf-8", "replace")
                connection.attempt(session.dismiss, f"vhost '{name}' is deleted")
            elif session.rights.user in users:
                connection.attempt(session.dismiss, f"user '{session.rights.user}' is deleted")
            else:
                continue
            self._touch(connection)


def described(id: int, connection: Connection) -> dict[str, object]:
    session = connection.session
    assert session is not None, "it is listed from the start of its session on"
    return {
        "id": id,
        "peer": connection.peer,
        "since_ms": connection.opened_us // 1000,
        "vhost": session.vhost.name.decode("utf-8", "backslashreplace"),
        **session.describe(),
    }
