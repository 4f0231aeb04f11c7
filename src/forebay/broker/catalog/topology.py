"""The parts of a vhost: exchanges, queues, bindings, groups, and how they come and go.

Every change is a command (`command.py`), and `Topology.execute` makes them all: what a restart keeps is written down
before the answer to the client leaves, and recovery applies it again in the same order. `epoch` grows with every
change, so that whoever remembers a route knows when to forget it.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.address import TOPIC_EXCHANGE, named_queue
from forebay.broker.auth.permissions import allows
from forebay.broker.catalog.command import decoded
from forebay.broker.catalog.commands import TOPOLOGY
from forebay.broker.catalog.exchange_commands import (
    Bind,
    BindingEnds,
    DeclareExchange,
    RemoveExchange,
    Unbind,
    binding_as_made,
    exchange_as_declared,
    refuse_default,
    removals,
)
from forebay.broker.catalog.policies import Policies
from forebay.broker.catalog.policy_commands import SetPolicy
from forebay.broker.catalog.queue_commands import (
    AddGroup,
    CountQueues,
    DeclareQueue,
    KeepTtls,
    KeyQueue,
    RemoveQueue,
    group_as_added,
    is_anonymous,
    left_out,
    queue_as_declared,
)
from forebay.broker.catalog.settings import VhostSettings
from forebay.broker.catalog.topology_command import TopologyCommand
from forebay.broker.common import Common
from forebay.broker.publish.properties import MessageProperties
from forebay.broker.turn import Turn
from forebay.core.errors import NOT_FOUND, PRECONDITION, REFUSED, TOO_MANY, RequestError
from forebay.core.options import Options
from forebay.log.store import FrameEntry, Store
from forebay.queue.counts import Counts
from forebay.queue.declaration.arguments import CLASSIC_TYPE
from forebay.queue.declaration.placement import Placement
from forebay.queue.declaration.spec import QueueSpec, check_declaration, locked
from forebay.queue.group import Group
from forebay.queue.properties import PropertyReader
from forebay.queue.queue import EPHEMERAL, SHARE, STREAM, Queue
from forebay.queue.trace import QueueTrace, Trace
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.bindings import Bindings
from forebay.routing.exchange import Exchange, TopicExchange, text
from forebay.routing.flow import Flow
from forebay.routing.kinds import make_exchange
from forebay.routing.topic_trie import check_filter, swap_key

SETTLED: Final = 3  # kinds of entries in the write-ahead log; 1 and 2 are the log's own
CURSOR: Final = 4
RETURNS: Final = 8  # 5 is CATALOG, 6 INTERNAL, 7 BROKER
CATALOG: Final = 5
HELD: Final = 9

FOREVER_MS: Final = 10**12  # a member of a shared subscription holds a message as long as its connection lasts
RESERVED: Final = b"amq."
BUILT_IN: Final = (
    (b"", b"direct"),
    (b"amq.direct", b"direct"),
    (b"amq.fanout", b"fanout"),
    (TOPIC_EXCHANGE, b"topic"),
    (b"amq.headers", b"headers"),
    (b"amq.match", b"headers"),
)


@final
class Topology:
    """Exchanges, queues, bindings and groups of one vhost.

    number   0 is that of "/"; the catalog's entries carry it
    delivery_limit      of classic queues for which nobody sets one; -1 is no limit
    placement           the nodes that queues are on
    queue_type_relaxed  a redeclaration may ask for another type of queue
    past_counts, past_flow  of queues and exchanges that are gone, of which there were `past_queues`
    """

    def __init__(self, name: bytes, number: i64, store: Store, common: Common, turn: Turn, options: Options) -> None:
        self.name = name
        self.number: i64 = number
        self.store = store
        self.common = common
        self.turn = turn
        self.events = common.events
        self.settings = VhostSettings()
        self.settings.default_queue_type = options.default_queue_type
        self.policies = Policies()
        self.visibility_ms: i64 = options.visibility_timeout_ms
        self.properties: PropertyReader = MessageProperties(self.common.looks)
        self.delivery_limit: i64 = options.delivery_limit
        self.queue_type_relaxed = options.queue_type_equivalence_relaxed
        cluster = options.cluster
        self.placement = Placement(cluster.members, True) if cluster.name else Placement()
        self.past_counts = Counts()
        self.past_queues: i64 = 0
        self.past_flow = Flow()
        self.epoch: i64 = 1
        self.bindings = Bindings(name)
        self.queues: dict[bytes, Queue] = {}
        self.queues_by_id: dict[int, Queue] = {}
        self.queues_by_address: i64 = 0  # of them: made by the first who used their address
        self.owned: dict[int, list[Queue]] = {}  # exclusive queues by session
        self.fallback: Queue | None = None  # takes `$queue/` publishes that no other queue takes
        self.traces: list[Trace] = []
        for exchange, kind in BUILT_IN:
            self.bindings.add_exchange(make_exchange(kind, exchange, True, False, False, {}))
        topics = self.bindings.exchange(TOPIC_EXCHANGE)
        assert isinstance(topics, TopicExchange)
        self.topics = topics

    def execute(self, command: TopologyCommand) -> None:
        """Make a change, and those that follow from it; RequestError, with nothing changed, where it cannot be."""
        command.check(self)
        if command.is_durable(self):
            self.store.note(CATALOG, int(self.number), 0, command.encoded(), command.urgent)
        command.tell(self)
        for following in self.apply(command):
            self.execute(following)

    def apply(self, command: TopologyCommand) -> list[TopologyCommand]:
        """Do what a command says, and nothing of what follows from it."""
        self.epoch += 1
        return command.apply(self)

    @property
    def next_queue(self) -> i64:
        """Number of the next queue."""
        return self.common.next_queue

    def abandon(self) -> None:
        """The vhost is no more: forget its logs, and let what is still published in it go nowhere."""
        for queue in self.queues.values():
            self.bindings.remove_destination(queue.id)
            self.store.drop_log(queue.id)
            self.past_counts.add(queue.counts)
            self.past_queues += 1
        for exchange in self.bindings.exchanges.values():
            self.past_flow.add(exchange.flow)
        self.queues = {}
        self.queues_by_id = {}
        self.owned = {}  # their sessions end later than this
        self.epoch += 1

    # ---- exchanges

    def check_exchange(self, name: bytes) -> Exchange:
        """The exchange of that name; RequestError(NOT_FOUND)."""
        return self.bindings.exchange(name)

    def is_topic_exchange(self, name: bytes) -> bool:
        """True if there is a topic exchange of that name: rights may depend on routing keys then."""
        exchange = self.bindings.exchanges.get(name)
        return exchange is not None and exchange.kind == b"topic"

    def declare_exchange(
        self,
        name: bytes,
        kind: bytes,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, object],
    ) -> None:
        """Make an exchange; RequestError if there is one of that name that differs."""
        self.add_exchange(DeclareExchange(name, kind, arguments, durable, auto_delete, internal))

    def add_exchange(self, wanted: DeclareExchange) -> None:
        """Make an exchange; RequestError if there is one of that name that differs."""
        name = wanted.name
        wanted.check(self)
        old = self.bindings.exchanges.get(name)
        if old is not None:
            old.check_equivalent(
                self.name, wanted.kind, wanted.durable, wanted.auto_delete, wanted.internal, wanted.arguments
            )
            return
        if name.startswith(RESERVED):
            raise RequestError(REFUSED, f"exchange name '{text(name)}' contains reserved prefix 'amq.*'")
        self.execute(wanted)

    def delete_exchange(self, name: bytes, if_unused: bool) -> None:
        """Take an exchange away, and all bindings from it and to it; no error where there is none."""
        refuse_default(name)
        if name.startswith(RESERVED):
            raise RequestError(
                REFUSED, f"deletion of system exchange '{text(name)}' in vhost '{text(self.name)}' not allowed"
            )
        exchange = self.bindings.exchanges.get(name)
        if exchange is not None and if_unused and not exchange.is_unused():
            raise RequestError(PRECONDITION, f"exchange '{text(name)}' in vhost '{text(self.name)}' in use")
        if exchange is not None:
            self.execute(RemoveExchange(name))

    # ---- queues

    def queue(self, name: bytes) -> Queue:
        """The queue of that name, also as `$queue/<name>`; RequestError(NOT_FOUND)."""
        name = named_queue(name)
        queue = self.queues.get(name)
        if queue is None:
            raise RequestError(NOT_FOUND, f"no queue '{text(name)}' in vhost '{text(self.name)}'")
        return queue

    def check_owner(self, queue: Queue, session_id: i64) -> None:
        """RequestError(LOCKED) where the queue is exclusive to another session."""
        if queue.owner and queue.owner != session_id:
            raise locked(self.place_of(queue.name))

    def declare_queue(
        self,
        name: bytes,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: dict[str, object],
        session_id: i64,
    ) -> Queue:
        """Make a queue, or check that the one there is was declared alike; an empty name asks for a new one."""
        if name and durable and not exclusive and not auto_delete:
            arguments = self.with_queue_type(arguments)
        old = self.queues.get(name)
        if old is not None:
            self.check_owner(old, session_id)
            any_type = self.queue_type_relaxed
            old.spec.check_equivalent(self.place_of(name), durable, exclusive, auto_delete, arguments, any_type)
            old.unused_since_us = 0  # who declares it uses it
            return old
        if name.startswith(RESERVED):
            raise RequestError(REFUSED, f"queue name '{text(name)}' contains reserved prefix 'amq.*'")
        self.check_queue_count(name)
        if not name:
            check_declaration(self.place_of(name), True, durable, exclusive, auto_delete, arguments)
            name = b"amq.gen-%d-%d" % (session_id, self.next_queue)
        owner = int(session_id) if exclusive else 0
        id = int(self.next_queue)
        return self.add_queue(DeclareQueue(id, name, arguments, durable, auto_delete, exclusive, owner))

    def add_queue(self, command: DeclareQueue) -> Queue:
        """Make a queue of a name that none has."""
        self.execute(command)
        return self.queues_by_id[command.id]

    def check_queue_count(self, name: bytes) -> None:
        most = self.settings.queues_max
        if most >= 0 and len(self.queues) >= most:
            limit = f"queue limit in vhost '{text(self.name)}' ({most}) is reached"
            raise RequestError(TOO_MANY, f"cannot declare queue '{text(name)}': {limit}")

    def place_of(self, queue: bytes) -> str:
        """A queue as errors name it."""
        return f"queue '{text(queue)}' in vhost '{text(self.name)}'"

    def with_queue_type(self, arguments: dict[str, object]) -> dict[str, object]:
        """The arguments of a queue that may be of any type, with the vhost's type where they have none."""
        if "x-queue-type" in arguments or self.settings.default_queue_type == CLASSIC_TYPE:
            return arguments
        typed = dict(arguments)
        typed["x-queue-type"] = self.settings.default_queue_type
        return typed

    def make_queue(self, id: i64, name: bytes, kind: i64, spec: QueueSpec, durable: bool) -> Queue:
        log = self.store.create_log(id, text(name), durable)
        if kind == SHARE:
            spec.visibility_ms = FOREVER_MS
        queue = Queue(id, name, kind, spec, log, self.properties)
        self.policies.govern_queue(queue, self.delivery_limit)
        self.queues[name] = queue
        self.queues_by_id[id] = queue
        self.common.next_queue = max(self.common.next_queue, id + 1)
        self.turn.watch(queue)
        if self.traces:
            self.trace_queue(queue)
        return queue

    def trace_queue(self, queue: Queue) -> None:
        """Have the traces of this vhost that mean the queue write down what happens in it; the latest of them does."""
        found: QueueTrace | None = None
        for trace in self.traces:
            if allows(trace.pattern, text(queue.name)):
                found = QueueTrace(trace, queue.name, queue.log, self.properties)
        queue.set_trace(found)

    def govern(self, queue: Queue) -> list[TopologyCommand]:
        """Put in force what applies to the queue now; the command by which what waits there expires as it would."""
        limits = queue.limits
        before_us = limits.message_ttl_us
        self.policies.govern_queue(queue, self.delivery_limit)
        self.turn.watch(queue)
        if limits.message_ttl_us == before_us:
            return []
        log = queue.log
        ttls_us = limits.ttls_after(before_us, log.start, log.end + log.writer.count)
        return [] if ttls_us == limits.earlier_ttls else [KeepTtls(int(queue.id), ttls_us)]

    def ephemeral_queue(self, name: bytes, by_address: bool = False) -> Queue:
        """A queue in memory that nobody declared."""
        id = int(self.next_queue)
        return self.add_queue(DeclareQueue(id, name, durable=False, by_address=by_address, kind=EPHEMERAL))

    def delete_queue(self, name: bytes, if_unused: bool, if_empty: bool) -> int:
        """Take a queue and its messages away; how many were ready. No error where there is none."""
        queue = self.queues.get(name)
        if queue is None:
            return 0
        if if_unused and queue.consumer_count():
            raise RequestError(PRECONDITION, f"queue '{text(name)}' in vhost '{text(self.name)}' in use")
        ready = queue.ready()
        if if_empty and ready:
            raise RequestError(PRECONDITION, f"queue '{text(name)}' in vhost '{text(self.name)}' not empty")
        self.remove_queue(queue)
        return ready

    def remove_queue(self, queue: Queue) -> None:
        self.execute(RemoveQueue(int(queue.id)))

    def drop_queue(self, queue: Queue) -> list[TopologyCommand]:
        """Forget a queue with its bindings; what follows from it."""
        del self.queues[queue.name]
        del self.queues_by_id[queue.id]
        own = self.owned.get(int(queue.owner))
        if own is not None:
            own.remove(queue)
            if not own:
                del self.owned[int(queue.owner)]
        if queue.by_address:
            self.queues_by_address -= 1
        self.past_counts.add(queue.counts)
        self.past_queues += 1
        if queue is self.fallback:
            self.fallback = None
        self.turn.cancelled += queue.consumers()
        for watch in queue.watches:
            self.common.wake(watch)
        self.store.drop_log(queue.id)
        return removals(self.bindings.remove_destination(queue.id))

    def key_queue(self, queue: Queue) -> None:
        """A message of the queue names its group: from now on all of one group go out one at a time."""
        self.execute(KeyQueue(int(queue.id)))

    # ---- bindings

    def bind(self, queue: bytes, exchange: bytes, routing_key: bytes, arguments: dict[str, object]) -> None:
        """Bind a queue to an exchange; no error where it is bound so already."""
        self.add_binding(BindingEnds(exchange, named_queue(queue), routing_key, arguments))

    def bind_exchange(
        self, destination: bytes, source: bytes, routing_key: bytes, arguments: dict[str, object]
    ) -> None:
        """Bind an exchange to another, the source; no error where it is bound so already."""
        self.add_binding(BindingEnds(source, destination, routing_key, arguments, True))

    def bind_topic(self, queue: Queue, filter: bytes) -> None:
        """Append what is published on matching topics to the queue; RequestError where the filter is none."""
        check_filter(filter)
        self.bind(queue.name, TOPIC_EXCHANGE, swap_key(filter), {})

    def unbind(self, queue: bytes, exchange: bytes, routing_key: bytes, arguments: dict[str, object]) -> None:
        """Take a queue's binding away; no error where there is none."""
        self.remove_binding(BindingEnds(exchange, queue, routing_key, arguments))

    def unbind_exchange(
        self, destination: bytes, source: bytes, routing_key: bytes, arguments: dict[str, object]
    ) -> None:
        """Take a binding between exchanges away; no error where there is none."""
        self.remove_binding(BindingEnds(source, destination, routing_key, arguments, True))

    def add_binding(self, ends: BindingEnds) -> None:
        bind = Bind(ends)
        bind.check(self)
        if not ends.is_there(self):
            self.execute(bind)

    def remove_binding(self, ends: BindingEnds) -> None:
        ends.check_names()
        if ends.is_there(self):
            self.execute(Unbind(ends))

    # ---- groups

    def add_group(self, queue: Queue, name: bytes, filter: bytes, work: bool, start: i64, auto: bool) -> Group:
        """Make a group of a queue; its progress outlives a restart if it has a name or takes work."""
        id = int(queue.next_group)
        if self.queues_by_id.get(queue.id) is not queue:
            return queue.add_group(id, name, filter, work, start, auto)  # the queue has gone in this very turn
        self.execute(AddGroup(int(queue.id), id, name, filter, work, int(start), auto))
        group = queue.groups[id]
        if isinstance(group, WorkGroup) and queue.log.start < queue.log.end:
            group.pass_over(left_out(self, queue))
        return group

    # ---- recovery

    def noted(self, command: TopologyCommand) -> FrameEntry:
        """A command as it stands in a frame."""
        return FrameEntry(CATALOG, int(self.number), 0, command.encoded())

    def checkpoint(self) -> list[FrameEntry]:
        """Everything durable as commands and progress: what recovery has to apply to come to this state."""
        entries = [self.noted(SetPolicy(policy)) for policy in self.policies.listed_all()]
        for exchange in self.bindings.exchanges.values():
            if exchange.durable and exchange.name and not exchange.name.startswith(RESERVED):
                entries.append(self.noted(exchange_as_declared(exchange)))
        for queue in self.queues.values():
            if queue.log.durable:
                entries += self.queue_entries(queue)
        for binding in self.bindings.list_all():
            bind = binding_as_made(self.bindings, binding)
            if bind.is_durable(self):
                entries.append(self.noted(bind))
        entries.append(self.noted(CountQueues(int(self.next_queue))))
        return entries

    def queue_entries(self, queue: Queue) -> list[FrameEntry]:
        """A durable queue, its groups and their progress."""
        entries = [self.noted(queue_as_declared(queue))]
        if queue.keyed:
            entries.append(self.noted(KeyQueue(int(queue.id))))
        if queue.limits.earlier_ttls:
            entries.append(self.noted(KeepTtls(int(queue.id), queue.limits.earlier_ttls)))
        for pin in queue.pins.by_name.values():
            entries.append(FrameEntry(HELD, queue.id, 0, pin.note()))
        for group in queue.groups.values():
            if not is_anonymous(group):
                group.take_progress()
                kind = SETTLED if isinstance(group, WorkGroup) else CURSOR
                entries.append(self.noted(group_as_added(queue, group)))
                entries.append(FrameEntry(kind, queue.id, group.id, group.snapshot()))
                if isinstance(group, WorkGroup) and group.attempts.by_offset:
                    group.attempts.take_notes()
                    entries.append(FrameEntry(RETURNS, queue.id, group.id, group.attempts.snapshot()))
        return entries

    def recover_entry(self, entry: FrameEntry) -> None:
        """Apply one entry of the catalog, or of a queue's progress."""
        if entry.kind == CATALOG:
            self.apply(decoded(TOPOLOGY, entry.payload))
        else:
            queue = self.queues_by_id.get(entry.queue)
            group = None if queue is None else queue.groups.get(entry.group)
            if entry.kind == HELD:
                if queue is not None:
                    queue.pins.restore(entry.payload)
            elif entry.kind == RETURNS:
                if isinstance(group, WorkGroup):
                    group.attempts.restore(entry.payload)
            elif group is not None:
                group.restore(entry.payload)

    def finish_recovery(self, now_us: int) -> None:
        """All entries are applied."""
        self.past_queues = 0  # of this start on
        for queue in self.queues.values():
            queue.pins.recovered(now_us)
            queue.log.hold_from(queue.pins.floor())
            if queue.kind != STREAM and not queue.work_groups and queue.log.missing(queue.log.start):
                # Housekeeping left out what was settled, and the note of that, the group's first, came to no disk.
                queue.add_group(queue.next_group, b"", b"", True, queue.log.start, True)
            for group in queue.groups.values():
                if isinstance(group, WorkGroup):
                    group.finish_restore()
