"""Commands about queues and the groups of their readers."""

from __future__ import annotations

from typing import ClassVar

from forebay.broker.catalog.commands.exchanges import removals
from forebay.broker.catalog.commands.topology_command import TopologyCommand
from forebay.broker.catalog.topology import Topology
from forebay.broker.limits.topology_memory import queue_octets
from forebay.core.errors import PRECONDITION, RequestError
from forebay.filter.parser import parse
from forebay.message.address import check_queue_name
from forebay.queue.declaration.last_value_arguments import check_same_key
from forebay.queue.declaration.spec import QueueSpec, check_declaration
from forebay.queue.declaration.view_arguments import check_same_source
from forebay.queue.group import Group
from forebay.queue.queue import EPHEMERAL, KIND_NAMES, SHARE, Queue, kind_of
from forebay.queue.source.intake import Intake
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text


class DeclareQueue(TopologyCommand[Topology], frozen=True, tag="queue"):
    """Make a queue.

    id          its number in the log, never used again
    owner       the session that alone may use it; 0 for all
    by_address  nobody declared it: the first who used its address makes it
    next_group  number of its next group
    kind        as in queue/queue.py; 0: as the arguments say
    user        name of the user that declares it; empty for the broker itself
    source      number of the source that it reads, which is another queue's; 0: one of its own
    start       its first offset in a source of another queue
    filter      it takes of that source only what matches; "": everything
    """

    id: int
    name: bytes
    arguments: dict[str, object] = {}
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    owner: int = 0
    by_address: bool = False
    next_group: int = 1
    kind: int = 0
    user: str = ""
    source: int = 0
    start: int = 0
    filter: str = ""

    def check(self, where: Topology) -> None:
        place = where.place_of(self.name)
        if self.name in where.queues:
            raise RequestError(PRECONDITION, f"there is a {place} already")
        if self.kind != SHARE:
            check_queue_name(self.name)
            check_declaration(place, False, self.durable, self.exclusive, self.auto_delete, self.arguments)
            where.placement.check_arguments(self.arguments, place)

    def is_durable(self, where: Topology) -> bool:
        return self.durable and not self.exclusive and self.kind != EPHEMERAL

    def spec(self, where: Topology) -> QueueSpec:
        """The declaration that it makes."""
        return QueueSpec(self.durable, self.auto_delete, self.exclusive, self.arguments, where.visibility_ms)

    def kind_of(self, spec: QueueSpec) -> int:
        """The kind of a queue of that declaration."""
        return self.kind or int(kind_of(spec))

    def tell(self, where: Topology) -> None:
        if self.kind != SHARE and "queue.created" in where.events.wanted:
            fields = {
                "queue": self.name,
                "type": KIND_NAMES[self.kind_of(self.spec(where))],
                "durable": self.is_durable(where),
                "auto_delete": self.auto_delete,
                "exclusive": self.exclusive,
                "arguments": self.arguments,
            }
            where.events.note("queue.created", where.name, fields)

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        spec = self.spec(where)
        source = where.open_source(self.source or self.id, self.name, self.is_durable(where))
        queue = where.make_queue(self.id, self.name, self.kind_of(spec), spec, source)
        queue.released = self.start
        if self.filter:
            queue.intake = Intake(parse(self.filter), queue.name, queue.properties, queue.counts)
        queue.next_group = self.next_group
        queue.by_address = self.by_address
        queue.declared_by = self.user
        where.queues_by_address += int(self.by_address)
        if self.owner:
            queue.owner = self.owner
            where.memory.own(self.owner, queue_octets(self.name, spec.arguments))
            where.owned.setdefault(self.owner, []).append(queue)
        return []


class ChangeQueue(TopologyCommand[Topology], frozen=True, tag="queue-change"):
    """Let a queue go on as if it had been declared with these arguments; its type stays."""

    id: int
    arguments: dict[str, object]

    def check(self, where: Topology) -> None:
        queue = where.queues_by_id[self.id]
        spec = queue.spec
        check_declaration(
            where.place_of(queue.name), False, spec.durable, spec.exclusive, spec.auto_delete, self.arguments
        )
        check_same_source(where.place_of(queue.name), spec.arguments, self.arguments)
        check_same_key(where.place_of(queue.name), spec.arguments, self.arguments)

    def is_durable(self, where: Topology) -> bool:
        return where.queues_by_id[self.id].log.durable

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        queue = where.queues_by_id[self.id]
        old = queue.spec
        octets = queue_octets(queue.name, self.arguments) - queue_octets(queue.name, old.arguments)
        where.memory.add(queue.owner, octets)
        queue.spec = QueueSpec(old.durable, old.auto_delete, old.exclusive, self.arguments, where.visibility_ms)
        return governed(where, queue)


class RemoveQueue(TopologyCommand[Topology], frozen=True, tag="queue-delete"):
    """Take a queue away, with its messages."""

    id: int

    def is_durable(self, where: Topology) -> bool:
        return where.queues_by_id[self.id].log.durable

    def tell(self, where: Topology) -> None:
        queue = where.queues_by_id[self.id]
        if queue.kind != SHARE:
            fields: dict[str, object] = {"queue": queue.name}
            views = where.views_of(queue)
            if views:
                fields["views"] = [text(view.name) for view in views]
            where.events.note("queue.deleted", where.name, fields)

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        return removals(where.drop_queue(where.queues_by_id[self.id]))


class KeyQueue(TopologyCommand[Topology], frozen=True, tag="queue-keyed"):
    """Messages of the queue name their groups from now on."""

    id: int

    def is_durable(self, where: Topology) -> bool:
        return where.queues_by_id[self.id].log.durable

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        where.queues_by_id[self.id].make_keyed()
        return []


class KeepTtls(TopologyCommand[Topology], frozen=True, tag="queue-ttls"):
    """Let what waits in a queue expire as it would have before its time to live changed.

    ttls_us  (end, time to live in microseconds), ascending: what holds for the records below `end`
    """

    urgent: ClassVar[bool] = False
    id: int
    ttls_us: list[tuple[int, int]]

    def is_durable(self, where: Topology) -> bool:
        return where.queues_by_id[self.id].log.durable

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        where.queues_by_id[self.id].limits.earlier_ttls = self.ttls_us
        return []


class MarkCrash(TopologyCommand[Topology], frozen=True, tag="queue-crash"):
    """Messages of a queue below `end` were in it when a broker crashed: they may have been delivered."""

    urgent: ClassVar[bool] = False
    id: int
    end: int

    def is_durable(self, where: Topology) -> bool:
        return where.queues_by_id[self.id].log.durable

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        where.queues_by_id[self.id].mark_crash(self.end)
        return []


class AddGroup(TopologyCommand[Topology], frozen=True, tag="group"):
    """Make a group of a queue, whose first record is `start`."""

    urgent: ClassVar[bool] = False
    queue: int
    id: int
    name: bytes = b""
    filter: bytes = b""
    work: bool = False
    start: int = 0
    auto: bool = False

    def is_durable(self, where: Topology) -> bool:
        is_anonymous = not self.work and self.name.startswith(b"\0")
        return where.queues_by_id[self.queue].log.durable and not is_anonymous

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        queue = where.queues_by_id[self.queue]
        queue.add_group(self.id, self.name, self.filter, self.work, self.start, self.auto)
        return []


class MoveGroup(TopologyCommand[Topology], frozen=True, tag="group-move"):
    """Let a work group begin anew at an offset."""

    queue: int
    id: int
    offset: int

    def is_durable(self, where: Topology) -> bool:
        return where.queues_by_id[self.queue].log.durable

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        queue = where.queues_by_id[self.queue]
        group = queue.groups[self.id]
        assert isinstance(group, WorkGroup)
        end = queue.log.end + queue.log.writer.count
        group.move(min(self.offset, end), left_out(where, queue))
        queue.released = min(int(queue.released), self.offset)
        return []


class RedeliverRecords(TopologyCommand[Topology], frozen=True, tag="group-redeliver"):
    """Have records of a work group that are settled wait once more.

    runs  (first, end) of records that the log still has
    ms    when that was asked for, in milliseconds since 1970: what consumers are told
    """

    queue: int
    id: int
    runs: list[tuple[int, int]]
    ms: int

    def is_durable(self, where: Topology) -> bool:
        return where.queues_by_id[self.queue].log.durable

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        queue = where.queues_by_id[self.queue]
        group = queue.groups[self.id]
        assert isinstance(group, WorkGroup)
        for first, end in self.runs:
            group.settlement.reopen(first, end)
            group.attempts.redelivered.add(first, end, self.ms)
        queue.released = min(int(queue.released), self.runs[0][0])
        return []


class PauseQueue(TopologyCommand[Topology], frozen=True, tag="queue-pause"):
    """Deliver nothing to the consumers of a queue from now on, or deliver again."""

    id: int
    paused: bool

    def is_durable(self, where: Topology) -> bool:
        return where.queues_by_id[self.id].log.durable

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        queue = where.queues_by_id[self.id]
        queue.paused = self.paused
        where.turn.mark(queue)
        return []


class PauseGroup(TopologyCommand[Topology], frozen=True, tag="group-pause"):
    """Deliver nothing to the consumers of a group from now on, or deliver again."""

    queue: int
    id: int
    paused: bool

    def is_durable(self, where: Topology) -> bool:
        queue = where.queues_by_id[self.queue]
        return queue.log.durable and not is_anonymous(queue.groups[self.id])

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        queue = where.queues_by_id[self.queue]
        queue.groups[self.id].paused = self.paused
        where.turn.mark(queue)
        return []


class RemoveGroup(TopologyCommand[Topology], frozen=True, tag="group-delete"):
    """Take a group of a queue away."""

    queue: int
    id: int

    def is_durable(self, where: Topology) -> bool:
        return where.queues_by_id[self.queue].log.durable

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        queue = where.queues_by_id[self.queue]
        queue.needed_from()  # what all groups have settled stays settled without this one
        queue.drop_group(queue.groups[self.id])
        return []


class CountQueues(TopologyCommand[Topology], frozen=True, tag="next-queue"):
    """No queue gets a number below this one any more: one that is gone may have had it."""

    id: int

    def is_durable(self, where: Topology) -> bool:
        return True

    def apply(self, where: Topology) -> list[TopologyCommand[Topology]]:
        where.queue_numbers.pass_by(self.id - 1)
        return []


def governed(where: Topology, queue: Queue) -> list[TopologyCommand[Topology]]:
    """Put in force what applies to the queue now; the command by which what waits there expires as it would."""
    ttls_us = where.govern(queue)
    return [] if ttls_us == queue.limits.earlier_ttls else [KeepTtls(int(queue.id), ttls_us)]


def left_out(where: Topology, queue: Queue) -> list[tuple[int, int]]:
    """The intervals of a queue that a file being rewritten leaves out: they were settled, and are to go yet."""
    job = where.store.rewriting(int(queue.source.number))
    rewrites = [] if job is None else [each for each in job.rewrites if each.log is queue.log]
    return [span for rewrite in rewrites for span in rewrite.left_out()]


def queue_as_declared(queue: Queue) -> DeclareQueue:
    """The command that makes a durable queue as it is."""
    spec = queue.spec
    return DeclareQueue(
        int(queue.id),
        queue.name,
        spec.arguments,
        auto_delete=spec.auto_delete,
        by_address=queue.by_address,
        next_group=int(queue.next_group),
        kind=SHARE if queue.kind == SHARE else 0,
        user=queue.declared_by,
        source=int(queue.source.number) if queue.is_view else 0,
        start=int(queue.released) if queue.is_view else 0,
        filter="" if queue.intake is None else queue.intake.filter.text,
    )


def group_as_added(queue: Queue, group: Group) -> AddGroup:
    """The command that makes a group as it is."""
    work = isinstance(group, WorkGroup)
    start = group.settlement.start if isinstance(group, WorkGroup) else group.next_offset()
    auto = isinstance(group, StreamGroup) and group.auto
    return AddGroup(int(queue.id), int(group.id), group.name, group.filter, work, int(start), auto)


def is_anonymous(group: Group) -> bool:
    """A stream cursor without a name: it ends with its consumer."""
    return isinstance(group, StreamGroup) and group.name.startswith(b"\0")
