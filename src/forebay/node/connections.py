"""The server's connections, for administrators to list and to end."""

from __future__ import annotations

from forebay.broker.quota import Quota
from forebay.broker.vhost import Vhost
from forebay.management.control import Connections
from forebay.node.back_pressure.flow_control import FlowControl
from forebay.node.back_pressure.hold_view import HoldView
from forebay.node.link import Link


class OpenConnections(Connections):
    """The connections that have a handshake or a session.

    connections  by its number; the node's own
    view         says which of them are held, and why
    """

    def __init__(self, connections: dict[int, Link], flow: FlowControl, shares: Quota) -> None:
        self._connections = connections
        self.view = HoldView(flow, shares)

    def listed(self) -> list[dict[str, object]]:
        return [described(id, connection) for id, connection in sorted(self._connections.items())]

    def find(self, id: int) -> dict[str, object] | None:
        connection = self._connections.get(id)
        return None if connection is None else described(id, connection)

    def channels(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        for id, connection in sorted(self._connections.items()):
            if connection.session is None:
                continue
            known = described(id, connection)
            for channel in connection.session.describe_channels():
                found.append({"connection": id, "vhost": known["vhost"], "user": known.get("user"), **channel})
        return found

    def holds(self, id: int) -> list[dict[str, object]]:
        connection = self._connections.get(id)
        return [] if connection is None else self.view.of(connection)

    def close(self, id: int, text: str) -> bool:
        connection = self._connections.get(id)
        current = None if connection is None else connection.session or connection.handshake
        if connection is None or current is None:
            return False
        connection.attempt_with(current.dismiss, text)
        connection.broker.touch(connection)
        return True

    def end_deleted(self, gone: list[Vhost], users: list[str]) -> None:
        """End those whose vhost or user is gone."""
        for connection in list(self._connections.values()):
            session = connection.session
            if session is None:
                continue
            if session.vhost in gone:
                name = session.vhost.name.decode("utf-8", "replace")
                connection.attempt_with(session.dismiss, f"vhost '{name}' is deleted")
            elif session.rights.user in users:
                connection.attempt_with(session.dismiss, f"user '{session.rights.user}' is deleted")
            else:
                continue
            connection.broker.touch(connection)


def described(id: int, connection: Link) -> dict[str, object]:
    session = connection.session
    current = session or connection.handshake
    assert current is not None, "it is listed from the start of its handshake on"
    vhost = b"" if session is None else session.vhost.name
    return {
        "id": id,
        "peer": connection.peer,
        "since_ms": connection.opened_us // 1000,
        "vhost": vhost.decode("utf-8", "backslashreplace"),
        **current.describe(),
    }
