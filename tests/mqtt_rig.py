"""A vhost on a real store with many MQTT clients, without sockets: turns, syncs, time and crashes come by hand."""

from __future__ import annotations

from pathlib import Path

from forebay.broker.auth import Auth
from forebay.broker.vhosts import Vhosts
from forebay.core.options import make_options
from forebay.log.store import Commit, Store
from forebay.session.mqtt import MqttSession
from tests.conformance.mqtt.raw import V5, Raw, connect
from tests.conformance.mqtt.v5.flows import LONG_S, expiry
from tests.stores import SMALL, SmallDisk, TestClock
from tests.vhosts import Wanted

TURNS_MAX = 10  # without an octet, after which nothing more can come
SECOND_US = 1_000_000


class RigClient(Raw):
    """One connection; reading from it ends turns until there is something."""

    def __init__(self, rig: MqttRig, id: int, version: int = V5) -> None:
        self.rig = rig
        self.version = version
        self.session = MqttSession(id, rig.vhosts, rig.auth, rig.options, True)
        self.unused = b""
        self.rest = b""
        self.lost = False

    def send(self, *octets: bytes) -> None:
        """What comes in one read."""
        if self.lost or self.session.closing:
            return
        data = self.unused + b"".join(octets)
        self.unused = data[self.session.receive(data) :]

    def flush(self) -> None:
        """Write as a connection does, which ends where the session says so."""
        session = self.session
        if session.hold_lsn > self.rig.store.durable:
            return
        self.rest += b"".join(session.parts) + session.out.getvalue()
        session.parts.clear()
        session.out.truncate(0)
        if session.closing:
            self.vanish()

    def read(self, octets: int) -> bytes:
        turns = 0
        while len(self.rest) < octets:
            assert turns < TURNS_MAX, f"nothing more comes after {self.rest!r}"
            assert not self.lost, f"the connection has ended: {self.session.reason}"
            turns += 1
            self.rig.turn()
        taken, self.rest = self.rest[:octets], self.rest[octets:]
        return taken

    def ended(self) -> bool:
        self.rig.turn()
        return self.lost and not self.rest

    def vanish(self) -> None:
        """The connection is gone."""
        if not self.lost:
            self.lost = True
            del self.rig.clients[int(self.session.id)]
            self.session.closed()

    def close(self) -> None:
        self.vanish()


class MqttRig:
    """The broker without its sockets and threads.

    commit  on its way to the disk, until `sync`
    """

    def __init__(self, folder: Path, **options: object) -> None:
        self.folder = folder
        self.options = make_options(options)
        self.clock = TestClock()
        self.next_id = 1
        self.open()

    def open(self) -> None:
        """Start on what the folder holds."""
        self.disk = SmallDisk(str(self.folder))
        self.store = Store(self.disk, self.clock, SMALL)
        entries = self.store.open().entries
        self.vhosts = Vhosts(self.store, self.options)
        self.vhost = self.vhosts.default
        self.vhosts.recover(entries, self.clock.us)
        self.store.start(self.vhosts.checkpoint())
        self.vhost.sweep(self.clock.us)
        self.auth = Auth(self.options.users)
        self.clients: dict[int, RigClient] = {}
        self.commit: Commit | None = None

    def client(self, version: int = V5) -> RigClient:
        """A connection of which nothing is known yet."""
        made = RigClient(self, self.next_id, version)
        self.clients[self.next_id] = made
        self.next_id += 1
        return made

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
        vhost = self.vhost
        taken, vhost.sessions.taken = vhost.sessions.taken, []
        for id in taken:
            if id in self.clients:
                self.clients[id].session.taken_over()
                self.clients[id].flush()
        for delivery in self.vhosts.end_turn(self.clock.us):
            receiver = self.clients.get(int(delivery.consumer.session_id))
            if receiver is not None:
                receiver.session.deliver(delivery)
        cancelled, vhost.cancelled = vhost.cancelled, []
        for consumer in cancelled:
            owner = self.clients.get(int(consumer.session_id))
            if owner is not None:
                owner.session.cancelled(consumer)
        vhost.note_sessions()
        if self.store.checkpoint_due():
            self.store.rotate(self.vhosts.checkpoint())
        lsn = self.store.due_lsn()
        self.commit = self.commit or self.store.commit()
        for client in list(self.clients.values()):
            client.session.end_turn(lsn, self.store.durable)
            client.flush()
            if client.session.meter.is_over:
                client.send()  # the rest of the last read
        if sync:
            self.sync()

    def sync(self) -> None:
        """What is on its way to the disk is there, and whoever waited for it hears so."""
        while self.commit is not None:
            self.commit.run()
            self.store.synced(self.commit)
            self.vhost.synced()
            for client in list(self.clients.values()):
                client.session.on_durable(self.store.durable)
                client.flush()
            self.commit = self.store.commit()

    def wait(self, seconds: float, sync: bool = True) -> None:
        """Time passes, and what it brings happens."""
        self.clock.us += int(seconds * SECOND_US)
        self.vhost.tick(self.clock.us)
        for client in list(self.clients.values()):
            client.session.tick(self.clock.us)
        self.vhost.sweep(self.clock.us)
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
        job = self.store.plan(Wanted(self.vhost), self.clock.us)
        if job is not None:
            job.run()
            self.store.done(job)

    def crash(self) -> None:
        """As after `kill -9`: only what was synced is there."""
        for client in self.clients.values():
            client.lost = True
        self.disk.close_all()
        self.open()

    def close(self) -> None:
        self.disk.close_all()
