"""A whole broker in the hand: its turns, syncs, seconds and ends come by hand, its octets through lines.

The rest of this folder knows the broker by this module alone: by what goes through its lines, and by `stored`, which
says what is in its queues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.broker.auth import Auth
from forebay.broker.vhosts import Vhosts
from forebay.core.options import make_options
from forebay.log.store import Commit, Entry, Job, Store
from forebay.node.wanted import Wanted
from forebay.queue.leases import Consumer
from forebay.session.amqp091 import Amqp091Session
from forebay.session.effects import Session
from forebay.session.mqtt import MqttSession
from tests.simulation.disk import SimDisk
from tests.stores import SMALL, TestClock, bodies

TURNS_MAX: Final = 1000  # of a broker that nobody talks to: then it goes round
MQTT_CONNECT: Final = 0x10


class Line:
    """A connection, as both its ends have it.

    taken    octets that the broker has taken in
    sent     what the broker has sent, and nobody has read
    session  None before the first octets
    lost     the broker has ended it, or it was cut
    """

    def __init__(self) -> None:
        self.session: Session | None = None
        self.rest = b""
        self.received = 0
        self.sent = bytearray()
        self.lost = False

    @property
    def taken(self) -> int:
        return self.received - len(self.rest)

    def is_ending(self) -> bool:
        """The broker has made up its mind to end it, and nobody knows which of the last octets it heeded."""
        return self.lost or (self.session is not None and self.session.closing)


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """What is in a durable queue: bodies by age, and what the queue says of their number."""

    id: int
    name: str
    bodies: list[bytes]
    counted: int


class Broker:
    """One node.

    commit  is on its way to the disk until `sync`
    job     runs in the background until `end_job`
    """

    def __init__(self, disk: SimDisk, clock: TestClock, options: dict[str, object]) -> None:
        self.disk = disk
        self.clock = clock
        self.options = make_options(options)
        self.store = self.make_store()
        recovery = self.store.open()
        self.report = recovery.report
        self.vhosts = Vhosts(self.store, self.options)
        self.vhosts.common.secret = bytes(32)
        self.vhosts.recover(recovery.entries, clock.us)
        self.store.start(self.checkpoint())
        self.vhosts.sweep(clock.us)
        self.auth = Auth(self.options.users)
        self.wanted = Wanted(self.vhosts)
        self.lines: dict[int, Line] = {}
        self.next_line = 1
        self.commit: Commit | None = None
        self.job: Job | None = None
        self.flush_due = False
        self.was_full = False

    # ---- what a planted bug has done otherwise

    def make_store(self) -> Store:
        return Store(self.disk, self.clock, SMALL)

    def checkpoint(self) -> list[Entry]:
        return self.vhosts.checkpoint()

    # ---- lines

    def connect(self) -> Line:
        line = Line()
        self.lines[self.next_line] = line
        self.next_line += 1
        return line

    def receive(self, line: Line, octets: bytes) -> None:
        """Octets of the client have come."""
        if line.lost:
            return
        line.received += len(octets)
        line.rest += octets
        if line.session is None:
            if len(line.rest) < 4:
                return
            number = next(number for number, each in self.lines.items() if each is line)
            kind = MqttSession if line.rest[0] == MQTT_CONNECT else Amqp091Session
            line.session = kind(number, self.vhosts, self.auth, self.options, True)
        if not line.session.closing:
            line.rest = line.rest[line.session.receive(line.rest) :]

    def cut(self, line: Line) -> None:
        """The connection is gone."""
        if not line.lost:
            line.lost = True
            self.lines = {number: each for number, each in self.lines.items() if each is not line}
            if line.session is not None:
                line.session.closed()
                line.session.vhost.touch()

    def write(self, line: Line) -> None:
        """Send what the session has written, as far as it may leave."""
        session = line.session
        if session is None or line.lost or session.hold_lsn > self.store.durable:
            return
        for part in session.parts:
            line.sent += part
        session.parts.clear()
        line.sent += session.out.getvalue()
        session.out.truncate(0)
        if session.closing:
            self.cut(line)

    # ---- the turn

    def turn(self) -> int:
        """End a turn; what must be durable for everything that it settled to be so."""
        taken = self.vhosts.take_taken()
        for id in taken:
            line = self.lines.get(id)
            if line is not None and line.session is not None:
                line.session.taken_over()
                self.write(line)
        self.hand_out()
        self.vhosts.note_sessions()
        if self.store.checkpoint_due():
            self.store.rotate(self.checkpoint())
        mark = self.store.lsn
        lsn = self.store.due_lsn()
        commit = self.store.flush() if self.flush_due else self.store.commit()
        if commit is not None:
            self.flush_due = False
            self.commit = commit
        durable = self.store.durable
        for line in list(self.lines.values()):
            if line.session is not None:
                line.session.end_turn(lsn, durable)
                self.write(line)
                if line.session.meter.is_over:
                    self.receive(line, b"")
        self.was_full = self.was_full or self.store.full
        return mark

    def hand_out(self) -> None:
        for delivery in self.vhosts.end_turn(self.clock.us):
            line = self.line_of(delivery.consumer)
            if line is not None and line.session is not None:
                line.session.deliver(delivery)
        self.vhosts.common.woken.clear()
        self.vhosts.common.delivered.clear()
        for consumer in self.vhosts.take_cancelled():
            line = self.line_of(consumer)
            if line is not None and line.session is not None:
                line.session.cancelled(consumer)

    def line_of(self, consumer: Consumer) -> Line | None:
        return self.lines.get(int(consumer.session_id))

    def sync(self) -> None:
        """What is on its way to the disk comes there, and whoever waited for it hears so. StorageError: it did not."""
        commit, self.commit = self.commit, None
        if commit is None:
            return
        commit.run()
        self.back(commit)

    def back(self, commit: Commit) -> None:
        """A commit is back from the disk."""
        self.store.synced(commit)
        self.vhosts.synced()
        for line in list(self.lines.values()):
            if line.session is not None:
                line.session.on_durable(self.store.durable)
                self.write(line)

    def second(self) -> None:
        """What a broker does about once a second; the next turn takes to the disk also what nobody waits for."""
        self.vhosts.tick(self.clock.us)
        self.vhosts.commit_streams()
        self.vhosts.sweep(self.clock.us)
        for line in list(self.lines.values()):
            if line.session is not None:
                line.session.tick(self.clock.us)
        self.store.look_for_room()
        self.flush_due = True
        self.job = self.job or self.store.plan(self.wanted, self.clock.us)

    def tick(self) -> None:
        self.vhosts.tick(self.clock.us)

    def end_job(self) -> None:
        job, self.job = self.job, None
        if job is not None:
            job.run()
            self.store.done(job)

    def quiet(self) -> int:
        """Turns and syncs until nothing more happens by itself; the mark of the last turn."""
        for _ in range(TURNS_MAX):
            mark = self.turn()
            self.sync()
            if not self.vhosts.has_work() and self.store.commit_running is None and not self.is_reading():
                return mark
        raise AssertionError("a broker that nobody talks to has work without end")

    def is_reading(self) -> bool:
        return any(line.session is not None and bool(line.session.meter.is_over) for line in self.lines.values())

    def close(self) -> None:
        """Stop in good order."""
        for line in list(self.lines.values()):
            if line.session is not None:
                line.session.shut_down()
                self.write(line)
            self.cut(line)
        self.quiet()
        self.end_job()
        self.store.close()

    # ---- what is in it

    def mark(self) -> int:
        """What must be durable for all that was done so far to be so."""
        return int(self.store.lsn)

    def durable(self) -> int:
        return int(self.store.durable)

    def queue_id(self, name: str) -> int:
        """The number of a queue, which no other ever has; 0 where there is none."""
        queue = self.vhosts.default.queues.get(name.encode())
        return 0 if queue is None else int(queue.id)

    def stored(self, id: int) -> StoredQueue | None:
        """What is in the queue of that number."""
        queue = self.vhosts.default.queues_by_id.get(id)
        if queue is None:
            return None
        found = bodies(queue.log)
        live = queue.live(0, queue.log.end)
        kept = [found[offset] for first, end in live for offset in range(first, end) if offset in found]
        return StoredQueue(id, queue.name.decode(), kept, int(sum(end - first for first, end in live)))

    def bindings(self) -> set[tuple[str, int, str]]:
        """Exchange, queue and key of each binding."""
        bound = self.vhosts.default.bindings.list_all()
        return {(each.exchange.decode(), int(each.destination), each.routing_key.decode()) for each in bound}
