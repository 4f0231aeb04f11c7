"""A broker in the test's hand with many MQTT clients: turns, syncs, time and crashes come by hand."""

from __future__ import annotations

from pathlib import Path

from forebay.broker.auth import Auth
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.log.store import Store
from forebay.session.mqtt import MqttSession
from tests.conformance.mqtt.raw import V5, Raw, connect
from tests.conformance.mqtt.v5.flows import LONG_S, expiry
from tests.node_rig import NodeRig

TURNS_MAX = 10  # without an octet, after which nothing more can come
SECOND_US = 1_000_000


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
    """The broker without its sockets and threads; `commit` is on its way to the disk until `sync`."""

    def __init__(self, folder: Path, **options: object) -> None:
        super().__init__(folder, None, **options)

    @property
    def vhosts(self) -> Vhosts:
        return self.node.vhosts

    @property
    def vhost(self) -> Vhost:
        return self.node.vhosts.default

    @property
    def store(self) -> Store:
        return self.node.store

    @property
    def auth(self) -> Auth:
        return self.node.auth

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

    # ---- what the server does

    def turn(self, sync: bool = True) -> None:
        """End a turn; `sync`: and have it on the disk."""
        self.do(self.node.turn())
        if sync:
            self.sync()

    def sync(self) -> None:
        """What is on its way to the disk is there, and whoever waited for it hears so."""
        while self.commit is not None:
            super().sync()
            self.commit = self.store.commit()

    def wait(self, seconds: float, sync: bool = True) -> None:
        """Time passes, and what it brings happens."""
        self.clock.us += int(seconds * SECOND_US)
        self.node.tick(self.clock.us)
        self.node.every_second(self.clock.us)
        self.turn(sync)
        if sync:
            self.flush()

    def flush(self) -> None:
        """To the disk, also what nobody waits for."""
        self.sync()
        self.commit = self.store.flush()
        self.sync()

    def checkpoint(self) -> None:
        """Begin a new file of the log."""
        self.turn()
        if self.store.finished is None:
            self.store.rotate(self.vhosts.checkpoint())
        self.turn()

    def housekeep(self) -> None:
        """One piece of what the store does in the background."""
        if not self.jobs:
            job = self.store.plan(self.node.wanted, self.clock.us)
            if job is not None:
                self.jobs.append(job)
        if self.jobs:
            job = self.jobs.popleft()
            job.run()
            self.node.job_done(job)
