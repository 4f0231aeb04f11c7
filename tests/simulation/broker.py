"""A node in the hand, with what a server does around it: turns, syncs, seconds and ends come by hand.

The rest of this folder knows the broker by this module alone: by what goes through its lines, and by `stored`, which
says what is in its queues.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from forebay.broker.vhost import Vhost
from forebay.core.options import Options, make_options
from forebay.core.ports import Clock, Disk, Random
from forebay.log.queue_log import QueueLog
from forebay.log.store import Commit, Job, Store
from forebay.node.broker import NodeBroker
from forebay.node.group.lone_member import LoneMember, NodeMember
from forebay.node.link import Link
from forebay.node.node import Node
from forebay.node.peer import peer_at
from forebay.node.ready import Ready
from forebay.node.shutdown import say_goodbye, stop_reading
from forebay.queue.queue import Queue
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup
from forebay.session.amqp091.connection import Amqp091Session
from forebay.session.amqp091.handshake import Amqp091Handshake
from tests.node_rig import LOOPBACK, Counted
from tests.simulation.disk import SimDisk
from tests.simulation.overdue import overdue
from tests.stores import SMALL, TestClock, bodies

DATA_SECTION: Final = b"\0\x80" + (0x75).to_bytes(8, "big") + b"\xb0"  # as the client of AMQP 1.0 writes it
TURNS_MAX: Final = 1000  # of a broker that nobody talks to: then it goes round
TICKS_A_SECOND: Final = 10
DELAYED_MAX: Final = 1 << 20
DAY_MS: Final = 24 * 3600 * 1000
# Nobody loses a message because it was held for too long: clients here have no haste.
# And whoever guesses passwords may do so for ever.
OPTIONS: Final[Options] = make_options(
    {"consumer_timeout_ms": 0, "visibility_timeout_ms": 10 * DAY_MS, "login_failures_free": 0}
)


class SimStore(Store):
    """A store with small files.

    turn_lsn  the frame that has what the last turn brought
    """

    turn_lsn = 0

    def due_lsn(self) -> int:
        self.turn_lsn = self.lsn
        return super().due_lsn()


class SimBroker(NodeBroker):
    """What serves clients, on small files; planted bugs are others.

    swept_us  when it did last what is due each second; 0: not since the start
    """

    store: SimStore
    swept_us = 0

    @classmethod
    def make_store(cls, disk: Disk, clock: Clock) -> SimStore:
        return SimStore(disk, clock, SMALL)

    def every_second(self, now_us: int) -> None:
        self.swept_us = now_us
        super().every_second(now_us)


class SimNode(Node):
    """A node whose broker is of some kind."""

    def __init__(self, kind: type[SimBroker], member: NodeMember, clock: Clock, chance: Random) -> None:
        super().__init__(OPTIONS, member, clock, chance)
        self.kind = kind

    def make_broker(self) -> SimBroker:
        return self.kind(self.options, self.member.store, self.clock, self.chance)


class Line(Link):
    """A connection, as both its ends have it.

    sent  what the broker has sent, and nobody has read
    lost  the broker has ended it, or it was cut
    farewell  the last words of a leader that is drained
    """

    __slots__ = ("farewell", "lost", "sent")

    def __init__(self, broker: SimBroker, port: int) -> None:
        super().__init__(broker, "amqp", peer_at(LOOPBACK, port))
        self.sent = bytearray()
        self.farewell = b""
        self.lost = False

    @property
    def used(self) -> int:
        """Octets that the broker has taken in."""
        return self.octets_received - (len(self.rest) if self.parts is None else self.parts_octets)

    def is_ending(self) -> bool:
        """The broker has made up its mind to end it, and nobody knows which of the last octets it heeded."""
        current = self.session or self.handshake
        return self.closing or (current is not None and current.closing)

    def is_in(self, vhost: int) -> bool:
        """It has come to the vhost of this number."""
        return self.session is not None and self.session.vhost.number == vhost

    def is_told(self) -> bool:
        """It has been told that it ends; a client of AMQP has yet to say that it has heard so."""
        current = self.session or self.handshake
        return self.is_ending() or (
            isinstance(current, Amqp091Session | Amqp091Handshake) and current.farewell is not None
        )


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """The content of a queue: bodies by age with their offsets, and what the queue says of their number."""

    id: int
    name: str
    bodies: list[bytes]
    offsets: list[int]
    end: int
    counted: int


class Broker:
    """One node that leads, and `real`, which serves its clients.

    commit  is on its way to the disk until `sync`
    job     runs in the background until `end_job`
    delivers_committed  nothing leaves before it cannot be lost any more
    is_tight  the disk has little room
    """

    delivers_committed = False
    is_tight = False

    def __init__(self, disk: SimDisk, clock: TestClock, kind: type[SimBroker] = SimBroker) -> None:
        self.disk = disk
        node = SimNode(kind, LoneMember(kind.make_store(disk, clock)), clock, Counted())
        node.open()
        assert node.take().leads
        self.begin(clock, node)
        node.load()
        self.real.begin()

    def begin(self, clock: TestClock, node: SimNode) -> None:
        self.clock = clock
        self.commit: Commit | None = None
        self.job: Job | None = None
        self.was_full = False
        self.swept_us = clock.us  # when it did last what is due each second
        self.next_port = 40_000
        self.node = node
        self.real = cast("SimBroker", node.lead())
        self.store = self.real.store

    # ---- lines

    def connect(self) -> Line:
        self.next_port += 1
        line = Line(self.real, self.next_port)
        self.real.opened(line)
        return line

    def receive(self, line: Line, octets: bytes) -> None:
        """Octets of the client have come."""
        if not line.lost:
            line.received(octets)

    def cut(self, line: Line) -> None:
        """The connection is gone."""
        if not line.lost:
            line.lost = True
            self.real.lost(line)

    # ---- the turn

    def turn(self) -> int:
        """End a turn; what must be durable for everything that it settled to be so."""
        self.do(self.node.turn())
        self.was_full = self.was_full or self.store.full
        return self.store.turn_lsn

    def do(self, ready: Ready) -> None:
        """Do what the node is ready with."""
        if ready.stop is not None:
            raise ready.stop.error
        for fault in ready.faults:
            raise fault.error
        self.commit = ready.commit or self.commit
        self.job = ready.job or self.job
        for line in cast("list[Line]", ready.send):
            line.sent += b"".join(line.take_passed())
            if line.session is not None and line.session.hold_lsn <= self.store.durable:
                line.sent += b"".join(line.take_written())
        for line in cast("list[Line]", ready.close):
            line.sent += b"".join(line.take())
            self.cut(line)
        for line in cast("list[Line]", ready.cut):
            self.cut(line)
        for proof in ready.proofs:
            proof.run()
            self.real.answered(proof)
        self.real.sent()

    def sync(self) -> None:
        """What is on its way to the disk comes there, and whoever waited for it hears so. StorageError: it did not."""
        commit, self.commit = self.commit, None
        if commit is not None:
            commit.run()
            self.node.synced(commit)
            self.do(self.node.take())

    def later(self, ms: int, ticks: int = 0) -> None:
        """Time goes by, and the broker looks at the clock so many times."""
        ticks = ticks or (1 if ms < 1000 else TICKS_A_SECOND)
        for _ in range(ticks):
            self.clock.us += ms * 1000 // ticks
            self.real.tick(self.clock.us)
            if self.real.ticks % TICKS_A_SECOND == 0:
                self.swept_us = self.clock.us

    def end_job(self) -> None:
        job, self.job = self.job, None
        if job is not None:
            job.run()
            self.node.job_done(job)

    def quiet(self) -> int:
        """Turns and syncs until nothing more happens by itself; the mark of the last turn."""
        for _ in range(TURNS_MAX):
            mark = self.turn()
            self.sync()
            if not self.real.is_due and self.commit is None:
                return mark
        raise AssertionError("a broker that nobody talks to has work without end")

    def close(self) -> None:
        """Stop in good order."""
        stop_reading(self.real)
        self.quiet()
        say_goodbye(self.real)
        self.real.vhosts.commit_streams()
        self.quiet()
        self.real.ended = True
        self.end_job()
        self.store.close()

    # ---- what is in it

    def mark(self) -> int:
        """What must be durable for all that was done so far to be so."""
        return int(self.store.lsn)

    def durable(self) -> int:
        return int(self.store.durable)

    def inside(self, vhost: str = "/") -> Inside:
        """The content of the vhost of that name, whichever that is."""
        return Inside(self, vhost)

    def vhost_number(self, name: str) -> int:
        """The number of a vhost, which no other ever has; -1 where there is none."""
        vhost = self.real.vhosts.by_name.get(name.encode())
        return -1 if vhost is None else int(vhost.number)

    def vhost_numbers(self) -> set[int]:
        return {int(number) for number in self.real.vhosts.by_number}


class Inside:
    """The content of one vhost, beside what its model has to know of the whole broker."""

    def __init__(self, broker: Broker, vhost: str) -> None:
        self.broker = broker
        self.name = vhost

    @property
    def vhost(self) -> Vhost:
        return self.broker.real.vhosts.by_name[self.name.encode()]

    @property
    def was_full(self) -> bool:
        return self.broker.was_full

    @property
    def delivers_committed(self) -> bool:
        return self.broker.delivers_committed

    @property
    def is_tight(self) -> bool:
        return self.broker.is_tight

    @property
    def swept_us(self) -> int:
        return self.broker.swept_us

    def mark(self) -> int:
        return self.broker.mark()

    def durable(self) -> int:
        return self.broker.durable()

    # ---- queues

    def queue_id(self, name: str) -> int:
        """The number of a queue, which no other ever has; 0 where there is none."""
        queue = self.vhost.catalog.queues.get(name.encode())
        return 0 if queue is None else int(queue.id)

    def stored(self, id: int) -> StoredQueue | None:
        """The content of the queue of that number."""
        queue = self.vhost.catalog.queues_by_id.get(id)
        if queue is None:
            return None
        found = payloads(queue.log)
        live = queue.needed(0, queue.log.end)
        offsets = [offset for first, end in live for offset in range(first, end) if offset in found]
        counted = int(sum(end - first for first, end in live))
        if queue.intake is not None:  # what it has not looked at yet, after a start, counts as its own
            offsets = [offset for offset in offsets if is_taken(queue, offset)]
            counted = len(offsets)
        kept = [found[offset] for offset in offsets]
        return StoredQueue(id, queue.name.decode(), kept, offsets, int(queue.log.end), counted)

    def records(self, id: int) -> dict[int, bytes]:
        """The bodies in the log of the queue of that number by offset, whoever has settled them."""
        queue = self.vhost.catalog.queues_by_id.get(id)
        return {} if queue is None else payloads(queue.log)

    def end(self, id: int) -> int:
        """The offset of the next record of a queue."""
        queue = self.vhost.catalog.queues_by_id.get(id)
        return 0 if queue is None else int(queue.log.end)

    def work_groups(self, id: int) -> dict[str, int]:
        """The named work groups of a queue, with their numbers."""
        queue = self.vhost.catalog.queues_by_id.get(id)
        groups = [] if queue is None else queue.groups.values()
        return {each.name.decode(): int(each.id) for each in groups if isinstance(each, WorkGroup) and each.name}

    def left_to(self, id: int, group: int) -> StoredQueue | None:
        """What a work group of a queue has not settled."""
        queue = self.vhost.catalog.queues_by_id.get(id)
        found = None if queue is None else queue.groups.get(group)
        if queue is None or not isinstance(found, WorkGroup):
            return None
        there = payloads(queue.log)
        live = found.settlement.unsettled(queue.log.start, queue.log.end)
        offsets = [offset for first, end in live for offset in range(first, end)]
        kept = [there[offset] for offset in offsets if offset in there]
        return StoredQueue(group, found.name.decode(), kept, offsets, int(queue.log.end), len(offsets))

    def bindings(self) -> set[tuple[str, int, str]]:
        """Exchange, queue and key of each binding."""
        bound = self.vhost.catalog.bindings.list_all()
        return {(each.exchange.decode(), int(each.destination), each.routing_key.decode()) for each in bound}

    def waiting(self, number_of: Callable[[bytes], int]) -> set[int]:
        """The numbers of the delayed messages that wait for their time."""
        return {number_of(each.body) for each in self.vhost.delayed.listed(DELAYED_MAX)}

    # ---- what administrators and publishers have it keep

    def users(self) -> dict[str, object]:
        """Tags, and the hash of the password, of each user that was made while it ran; they are of "/" here."""
        if self.name != "/":
            return {}
        users = self.broker.real.vhosts.directory.users.by_name.values()
        return {each.name: (each.tags, each.hash) for each in users if not each.configured}

    def permissions(self) -> dict[str, object]:
        """The rights of each of these users in the vhost."""
        users = self.users()
        found: dict[str, object] = {}
        for each in self.broker.real.vhosts.directory.users.list_permissions(None, self.name.encode()):
            fields = dict(each)
            name = str(fields.pop("user"))
            del fields["vhost"]
            if name in users:
                found[name] = fields
            else:
                assert name == "guest", f"{name} is no user, and has permissions"
        return found

    def policies(self) -> dict[str, object]:
        """Definition and priority of each policy; the one that applies to a queue is among them."""
        vhost = self.vhost
        return {each.name: (dict(each.definition), each.priority) for each in vhost.catalog.policies.listed(False)}

    def places(self, group: str) -> dict[str, object]:
        """The place at which this group of readers of a stream goes on, by the stream's number."""
        queues = self.vhost.catalog.queues_by_id.values()
        found = [(queue.id, queue.find_group(group.encode())) for queue in queues]
        return {f"{id}/{group}": int(each.committed) for id, each in found if isinstance(each, StreamGroup)}

    def overdue(self) -> list[str]:
        """What time should have brought, and has not; nobody knows it where the disk was full."""
        real = self.broker.real
        return [] if self.broker.was_full else overdue(self.vhost, self.broker.clock.us, real.swept_us)

    def retained(self, number_of: Callable[[bytes], int]) -> dict[str, object]:
        """The number of the message that is retained on each topic of clients."""
        retained = self.vhost.retained
        return {each.topic.decode(): number_of(each.body) for each in retained.matching(b"#", 0)}


def payloads(log: QueueLog) -> dict[int, bytes]:
    """The bodies in a log by offset, as clients know them."""
    head = len(DATA_SECTION) + 4
    found = bodies(log)
    return {at: body[head:] if body.startswith(DATA_SECTION) else body for at, body in found.items()}


def is_taken(queue: Queue, offset: int) -> bool:
    """Return whether the filter of a view has, or would have, taken a record."""
    block = queue.log.block(offset)
    return block is not None and block.base <= offset and queue.has(block, offset - block.base)
