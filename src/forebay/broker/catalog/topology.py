"""The parts of a vhost: exchanges, queues, bindings, groups, and how they come and go.

Every change of something durable is one command in the write-ahead log (`catalog`): it is noted before the answer to
the client leaves, and applied again in the same order at recovery. `epoch` grows with every change, so that whoever
remembers a route knows when to forget it.
"""

from __future__ import annotations

from typing import Final, final

import msgspec
from mypy_extensions import i64

from forebay.broker.address import TOPIC_EXCHANGE, check_queue_name, named_queue
from forebay.broker.auth.permissions import allows
from forebay.broker.catalog.bindings import apply_binding, apply_exchange, binding_command, exchange_command
from forebay.broker.catalog.checked import octets, table, whole
from forebay.broker.catalog.policies import Policies
from forebay.broker.catalog.queues import (
    GROUP_OPS,
    apply_group,
    apply_ttls,
    group_command,
    is_anonymous,
    keyed_command,
    queue_command,
    ttls_command,
)
from forebay.broker.catalog.settings import VhostSettings
from forebay.broker.common import Common
from forebay.broker.events import binding_facts, queue_facts
from forebay.broker.publish.properties import MessageFacts
from forebay.broker.turn import Turn
from forebay.core.errors import NOT_FOUND, PRECONDITION, REFUSED, TOO_MANY, RequestError
from forebay.core.options import Options
from forebay.log.store import FrameEntry, Store
from forebay.queue.counts import Counts
from forebay.queue.declaration.arguments import CLASSIC_TYPE
from forebay.queue.declaration.spec import QueueSpec, check_declaration, locked
from forebay.queue.facts import Facts
from forebay.queue.group import Group
from forebay.queue.queue import EPHEMERAL, SHARE, STREAM, Queue, kind_of
from forebay.queue.trace import QueueTrace, Trace
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.bindings import Bindings
from forebay.routing.exchange import Exchange, TopicExchange, check_arguments, check_binding, text
from forebay.routing.flow import Flow
from forebay.routing.kinds import check_kind, make_exchange
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
        self.facts: Facts = MessageFacts(self.common.looks)
        self.delivery_limit: i64 = options.delivery_limit
        self.queue_type_relaxed = options.queue_type_equivalence_relaxed
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

    def command(self, fields: dict[str, object], urgent: bool = True) -> None:
        self.epoch += 1
        self.store.note(CATALOG, int(self.number), 0, msgspec.msgpack.encode(fields), urgent)

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
        refuse_default(name)
        check_kind(kind)
        check_arguments(self.name, name, arguments)
        old = self.bindings.exchanges.get(name)
        if old is not None:
            old.check_equivalent(self.name, kind, durable, auto_delete, internal, arguments)
            return
        if name.startswith(RESERVED):
            raise RequestError(REFUSED, f"exchange name '{text(name)}' contains reserved prefix 'amq.*'")
        exchange = make_exchange(kind, name, durable, auto_delete, internal, arguments)
        self.bindings.add_exchange(exchange)
        self.policies.govern_exchange(exchange)
        self.events.note("exchange.created", self.name, {"exchange": name, "type": kind, "durable": durable})
        if durable:
            self.command(exchange_command(exchange))
        else:
            self.epoch += 1

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
        self.drop_exchanges([name])

    def drop_exchanges(self, names: list[bytes]) -> None:
        """Take exchanges away, and the auto-delete exchanges that lose their last binding with them."""
        while names:
            name = names.pop()
            exchange = self.bindings.exchanges.get(name)
            if exchange is None:
                continue
            names += self.bindings.remove_exchange(name)
            self.past_flow.add(exchange.flow)
            self.events.note("exchange.deleted", self.name, {"exchange": name})
            if exchange.durable:
                self.command({"op": "exchange-delete", "name": name})
            else:
                self.epoch += 1

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
        where = self.place_of(name)
        if name and durable and not exclusive and not auto_delete:
            arguments = self.with_queue_type(arguments)
        old = self.queues.get(name)
        if old is not None:
            self.check_owner(old, session_id)
            any_type = self.queue_type_relaxed
            old.spec.check_equivalent(where, durable, exclusive, auto_delete, arguments, any_type)
            old.unused_since_us = 0  # who declares it uses it
            return old
        if name.startswith(RESERVED):
            raise RequestError(REFUSED, f"queue name '{text(name)}' contains reserved prefix 'amq.*'")
        check_queue_name(name)
        check_declaration(where, not name, durable, exclusive, auto_delete, arguments)
        self.check_queue_count(name)
        spec = QueueSpec(durable, auto_delete, exclusive, arguments, self.visibility_ms)
        if not name:
            name = b"amq.gen-%d-%d" % (session_id, self.next_queue)
        queue = self.make_queue(self.next_queue, name, kind_of(spec), spec)
        if exclusive:
            queue.owner = session_id
            self.owned.setdefault(int(session_id), []).append(queue)
        if queue.log.durable:
            self.command(queue_command(queue))
        return queue

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

    def make_queue(self, id: i64, name: bytes, kind: i64, spec: QueueSpec, by_address: bool = False) -> Queue:
        durable = spec.durable and not spec.exclusive and kind != EPHEMERAL
        log = self.store.create_log(id, text(name), durable)
        if kind == SHARE:
            spec.visibility_ms = FOREVER_MS
        queue = Queue(id, name, kind, spec, log, self.facts)
        queue.by_address = by_address
        if by_address:
            self.queues_by_address += 1
        self.policies.govern_queue(queue, self.delivery_limit)
        self.queues[name] = queue
        self.queues_by_id[id] = queue
        self.common.next_queue = max(self.common.next_queue, id + 1)
        self.epoch += 1
        self.turn.watch(queue)
        if self.traces:
            self.trace_queue(queue)
        if kind != SHARE:
            self.events.note("queue.created", self.name, queue_facts(queue))
        return queue

    def trace_queue(self, queue: Queue) -> None:
        """Have the traces of this vhost that mean the queue write down what happens in it; the latest of them does."""
        found: QueueTrace | None = None
        for trace in self.traces:
            if allows(trace.pattern, text(queue.name)):
                found = QueueTrace(trace, queue.name, queue.log, self.facts)
        queue.set_trace(found)

    def govern(self, queue: Queue) -> None:
        """Put in force what applies to the queue now; what waits in it expires as it would have."""
        limits = queue.limits
        before_us = limits.message_ttl_us
        self.policies.govern_queue(queue, self.delivery_limit)
        if limits.message_ttl_us != before_us:
            log = queue.log
            if limits.keep_ttl(before_us, log.start, log.end + log.writer.count) and log.durable:
                self.command(ttls_command(queue), False)
        self.turn.watch(queue)

    def change_spec(self, queue: Queue, spec: QueueSpec) -> None:
        """Let a queue go on as if it had been declared so; its type and what it was durable for stay."""
        queue.spec = spec
        self.policies.govern_queue(queue, self.delivery_limit)

    def ephemeral_queue(self, name: bytes, by_address: bool = False) -> Queue:
        """A queue in memory that nobody declared."""
        check_queue_name(name)
        spec = QueueSpec(False, False, False, {}, self.visibility_ms)
        return self.make_queue(self.next_queue, name, EPHEMERAL, spec, by_address)

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
        del self.queues[queue.name]
        del self.queues_by_id[queue.id]
        if queue.by_address:
            self.queues_by_address -= 1
        self.past_counts.add(queue.counts)
        self.past_queues += 1
        if queue is self.fallback:
            self.fallback = None
        self.turn.cancelled += queue.consumers()
        for watch in queue.watches:
            self.common.wake(watch)
        self.drop_exchanges(self.bindings.remove_destination(queue.id))
        self.store.drop_log(queue.id)
        if queue.kind != SHARE:
            self.events.note("queue.deleted", self.name, {"queue": queue.name})
        if queue.log.durable:
            self.command({"op": "queue-delete", "id": int(queue.id)})
        else:
            self.epoch += 1
        own = self.owned.get(queue.owner)
        if own is not None:
            own.remove(queue)
            if not own:
                del self.owned[queue.owner]

    # ---- bindings

    def bind(self, queue: bytes, exchange: bytes, routing_key: bytes, arguments: dict[str, object]) -> None:
        """Bind a queue to an exchange; no error where it is bound so already."""
        refuse_default(exchange)
        check_binding(self.name, self.check_exchange(exchange), arguments)
        bound = self.queue(queue)
        self.add_binding(exchange, bound.id, bound.name, routing_key, arguments)

    def bind_exchange(
        self, destination: bytes, source: bytes, routing_key: bytes, arguments: dict[str, object]
    ) -> None:
        """Bind an exchange to another, the source; no error where it is bound so already."""
        refuse_default(source)
        refuse_default(destination)
        check_binding(self.name, self.check_exchange(source), arguments)
        bound = self.check_exchange(destination)
        self.add_binding(source, bound.number, bound.name, routing_key, arguments)

    def bind_topic(self, queue: Queue, filter: bytes) -> None:
        """Append what is published on matching topics to the queue; RequestError where the filter is none."""
        check_filter(filter)
        self.bind(queue.name, TOPIC_EXCHANGE, swap_key(filter), {})

    def unbind(self, queue: bytes, exchange: bytes, routing_key: bytes, arguments: dict[str, object]) -> None:
        """Take a queue's binding away; no error where there is none."""
        refuse_default(exchange)
        bound = self.queues.get(queue)
        if bound is not None:
            self.remove_binding(exchange, bound.id, routing_key, arguments)

    def unbind_exchange(
        self, destination: bytes, source: bytes, routing_key: bytes, arguments: dict[str, object]
    ) -> None:
        """Take a binding between exchanges away; no error where there is none."""
        refuse_default(source)
        refuse_default(destination)
        bound = self.bindings.exchanges.get(destination)
        if bound is not None:
            self.remove_binding(source, bound.number, routing_key, arguments)

    def add_binding(
        self, exchange: bytes, destination: i64, label: bytes, routing_key: bytes, arguments: dict[str, object]
    ) -> None:
        if self.bindings.bind(exchange, destination, routing_key, arguments, label):
            self.binding_changed("bind", exchange, destination, routing_key, arguments)

    def remove_binding(
        self, exchange: bytes, destination: i64, routing_key: bytes, arguments: dict[str, object]
    ) -> None:
        if exchange not in self.bindings.exchanges:
            return
        if not self.bindings.has(exchange, destination, routing_key, arguments):
            return
        orphans = self.bindings.unbind(exchange, destination, routing_key, arguments)
        self.binding_changed("unbind", exchange, destination, routing_key, arguments)
        self.drop_exchanges(orphans)

    def binding_changed(
        self, op: str, exchange: bytes, destination: i64, routing_key: bytes, arguments: dict[str, object]
    ) -> None:
        if destination > 0:
            facts = binding_facts(exchange, self.queues_by_id[destination].name, "queue", routing_key)
        else:
            facts = binding_facts(exchange, self.bindings.by_number[destination].name, "exchange", routing_key)
        self.events.note("binding.created" if op == "bind" else "binding.deleted", self.name, facts)
        if self.is_durable(destination) and self.bindings.exchange(exchange).durable:
            self.command(binding_command(op, self.bindings, exchange, int(destination), routing_key, arguments))
        else:
            self.epoch += 1

    def is_durable(self, destination: i64) -> bool:
        """True if what a binding leads to is there again after a restart."""
        if destination < 0:
            return self.bindings.by_number[destination].durable
        return self.queues_by_id[destination].log.durable

    # ---- groups

    def add_group(self, queue: Queue, name: bytes, filter: bytes, work: bool, start: i64, auto: bool) -> Group:
        """Make a group of a queue; its progress outlives a restart if it has a name or takes work."""
        group = queue.add_group(queue.next_group, name, filter, work, start, auto)
        if queue.log.durable and not is_anonymous(group):
            self.command(group_command(queue, group), False)
        return group

    # ---- recovery

    def catalog_entry(self, fields: dict[str, object]) -> FrameEntry:
        return FrameEntry(CATALOG, int(self.number), 0, msgspec.msgpack.encode(fields))

    def checkpoint(self) -> list[FrameEntry]:
        """Everything durable as commands and progress: what recovery has to apply to come to this state."""
        entries = [self.catalog_entry(command) for command in self.policies.commands()]
        for exchange in self.bindings.exchanges.values():
            if exchange.durable and exchange.name and not exchange.name.startswith(RESERVED):
                entries.append(self.catalog_entry(exchange_command(exchange)))
        for queue in self.queues.values():
            if not queue.log.durable:
                continue
            entries.append(self.catalog_entry(queue_command(queue, queue is self.fallback)))
            if queue.keyed:
                entries.append(self.catalog_entry(keyed_command(queue)))
            if queue.limits.earlier_ttls:
                entries.append(self.catalog_entry(ttls_command(queue)))
            for pin in queue.pins.by_name.values():
                entries.append(FrameEntry(HELD, queue.id, 0, pin.note()))
            for group in queue.groups.values():
                if not is_anonymous(group):
                    group.take_progress()
                    kind = SETTLED if isinstance(group, WorkGroup) else CURSOR
                    entries.append(self.catalog_entry(group_command(queue, group)))
                    entries.append(FrameEntry(kind, queue.id, group.id, group.snapshot()))
                    if isinstance(group, WorkGroup) and group.attempts.by_offset:
                        group.attempts.take_notes()
                        entries.append(FrameEntry(RETURNS, queue.id, group.id, group.attempts.snapshot()))
        for binding in self.bindings.list_all():
            where = binding.exchange
            if self.bindings.exchanges[where].durable and self.is_durable(binding.destination):
                fields = binding_command(
                    "bind", self.bindings, where, binding.destination, binding.routing_key, binding.arguments
                )
                entries.append(self.catalog_entry(fields))
        entries.append(self.catalog_entry({"op": "next-queue", "id": int(self.next_queue)}))
        return entries

    def recover_entry(self, entry: FrameEntry) -> None:
        """Apply one entry of the catalog, or of a queue's progress."""
        if entry.kind == CATALOG:
            self.apply(msgspec.msgpack.decode(entry.payload))
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
        for exchange in self.bindings.exchanges.values():
            self.policies.govern_exchange(exchange)
        for queue in self.queues.values():
            self.policies.govern_queue(queue, self.delivery_limit)
            queue.pins.recovered(now_us)
            queue.log.hold_from(queue.pins.floor())
            if queue.kind != STREAM and not queue.work_groups and queue.log.missing(queue.log.start):
                # Housekeeping left out what was settled, and the note of that, the group's first, came to no disk.
                queue.add_group(queue.next_group, b"", b"", True, queue.log.start, True)
            for group in queue.groups.values():
                if isinstance(group, WorkGroup):
                    group.finish_restore()

    def apply(self, fields: dict[str, object]) -> None:
        """One catalog command, in recovery."""
        op = fields["op"]
        if op == "queue":
            apply_queue(self, fields)
        elif op == "queue-delete":
            gone = self.queues_by_id.get(whole(fields["id"]))
            if gone is not None:
                del self.queues[gone.name]
                del self.queues_by_id[gone.id]
                if gone.by_address:
                    self.queues_by_address -= 1
                self.bindings.remove_destination(gone.id)
                self.store.drop_log(gone.id)
        elif op == "queue-keyed":
            keyed = self.queues_by_id.get(whole(fields["id"]))
            if keyed is not None:
                keyed.make_keyed()
        elif op == "queue-ttls":
            apply_ttls(self.queues_by_id, fields)
        elif op == "exchange":
            apply_exchange(self.bindings, fields)
        elif op == "exchange-delete":
            self.bindings.remove_exchange(octets(fields["name"]))
        elif op in GROUP_OPS:
            apply_group(self.queues_by_id, fields)
        elif op in ("policy", "policy-clear"):
            self.policies.apply(fields)
        elif op == "next-queue":
            self.common.next_queue = max(self.common.next_queue, i64(whole(fields["id"])))
        else:
            assert op in ("bind", "unbind"), op
            apply_binding(self.bindings, self.queues_by_id, fields)


def apply_queue(topology: Topology, fields: dict[str, object]) -> None:
    id = whole(fields["id"])
    spec = QueueSpec(True, fields["auto_delete"] is True, False, table(fields["arguments"]), topology.visibility_ms)
    old = topology.queues_by_id.get(id)
    if old is not None:
        if old.spec.arguments != spec.arguments:
            topology.change_spec(old, spec)
        return
    by_address = fields.get("by_address") is True
    queue = topology.make_queue(id, octets(fields["name"]), whole(fields["kind"]), spec, by_address)
    queue.next_group = whole(fields.get("next_group", 1))
    if fields["fallback"] is True:
        topology.fallback = queue


def refuse_default(exchange: bytes) -> None:
    """RequestError where this names the default exchange: it is as it is."""
    if not exchange:
        raise RequestError(REFUSED, "operation not permitted on the default exchange")
