"""Many MQTT clients of a node in the test's hand."""

from __future__ import annotations

from forebay.session.mqtt.connection import MqttSession
from tests.conformance.mqtt.raw import V5, Raw, connect
from tests.conformance.mqtt.v5.flows import LONG_S, expiry
from tests.node_rig import NodeRig

TURNS_MAX = 10  # without an octet, after which nothing more can come


class RigClient(Raw):
    """One connection; reading from it ends turns until there is something."""

    def __init__(self, rig: MqttRig, version: int = V5) -> None:
        self.rig = rig
        self.version = version
        self.line = rig.connect("mqtt")

    @property
    def rest(self) -> bytes:
        """The octets that have come and were not read."""
        return bytes(self.line.sent)

    @rest.setter
    def rest(self, octets: bytes) -> None:
        self.line.sent[:] = octets

    @property
    def session(self) -> MqttSession:
        """The node's end."""
        session = self.line.session
        assert isinstance(session, MqttSession)
        return session

    @property
    def lost(self) -> bool:
        """The connection is gone."""
        return self.line.gone

    def send(self, *octets: bytes) -> None:
        """What comes in one read."""
        if not self.line.gone:
            self.line.received(b"".join(octets))
            self.rig.check()

    def read(self, octets: int) -> bytes:
        turns = 0
        while len(self.line.sent) < octets:
            assert turns < TURNS_MAX, f"nothing more comes after {self.rest!r}"
            assert not self.lost, f"the connection has ended: {self.session.reason}"
            turns += 1
            self.rig.turn()
        taken = bytes(self.line.sent[:octets])
        del self.line.sent[:octets]
        return taken

    def ended(self) -> bool:
        self.rig.turn()
        return self.lost and not self.rest

    def vanish(self) -> None:
        """The connection is gone."""
        self.line.close()

    def close(self) -> None:
        self.vanish()


class MqttRig(NodeRig):
    """A node with clients of MQTT."""

    def client(self, version: int = V5) -> RigClient:
        """A connection of which nothing is known yet."""
        return RigClient(self, version)

    def connected(self, name: str, properties: bytes = b"", clean: bool = True, present: bool = False) -> RigClient:
        """A connection that has its CONNACK."""
        made = self.client()
        made.send(connect(name, V5, properties, clean=clean))
        made.connack(present=present)
        return made

    def durable(self, name: str, present: bool = False, properties: bytes = b"") -> RigClient:
        """A connection whose session outlives it."""
        return self.connected(name, expiry(LONG_S) + properties, False, present)
