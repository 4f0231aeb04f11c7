"""Publishers that are not read for a moment, as an MQTT client to which they publish does not keep up.

They go on as soon as it does, or when they have waited for long enough (broker/limits/crowding.py). One that awaits
acknowledgements itself is read a little all the time: they may stand behind its publishes, and two clients that
publish to each other must not wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable

from forebay.broker.limits.crowding import Crowding
from forebay.broker.mqtt.client_session import ClientSession
from forebay.node.back_pressure.reading import Reading
from forebay.node.link import HELD, Link


class HeldPublishers:
    """Publishers that are held back, and the client that holds each."""

    def __init__(self, crowding: Crowding, reading: Reading) -> None:
        self.crowding = crowding
        self.reading = reading
        self.held: dict[Link, ClientSession] = {}

    def hold(self, connection: Link, client: ClientSession) -> None:
        """Read no more of a connection that has just published to this client."""
        session = connection.session
        if not client.crowded or session is None or connection in self.held:
            return
        self.held[connection] = client
        self.reading.hold(connection, HELD)

    def end_turn(self) -> None:
        """Let those go on whose client keeps up again, or is given up."""
        if self.crowding.relieved:
            self.crowding.relieved = False
            self.release([each for each, client in self.held.items() if not client.crowded])

    def tick(self) -> None:
        """Several times a second: time may have relieved somebody, and what readers have sent must come in."""
        self.end_turn()
        if self.held:
            self.release([each for each in self.held if each.session is not None and each.session.is_reader()])

    def release(self, connections: Iterable[Link]) -> None:
        for connection in connections:
            self.forget(connection)
            if not connection.closing:
                connection.go_on()

    def forget(self, connection: Link) -> None:
        """It is not held any more, or has gone."""
        if self.held.pop(connection, None) is not None:
            self.reading.let(connection, HELD)
