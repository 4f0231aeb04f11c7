"""The catalog of a vhost: how exchanges, queues, bindings and groups come and go, and are found again at a start.

Each entry says what a client asks for as commands, which `Topology.execute` makes; recovery applies the same ones.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.catalog.commands.exchanges import (
    Bind,
    BindingEnds,
    DeclareExchange,
    RemoveExchange,
    Unbind,
    binding_as_made,
    exchange_as_declared,
    refuse_default,
)
from forebay.broker.catalog.commands.of_vhost import TOPOLOGY
from forebay.broker.catalog.commands.policies import SetPolicy
from forebay.broker.catalog.commands.queues import (
    AddGroup,
    CountQueues,
    DeclareQueue,
    KeepTtls,
    KeyQueue,
    MarkCrash,
    PauseGroup,
    PauseQueue,
    RemoveQueue,
    group_as_added,
    is_anonymous,
    left_out,
    queue_as_declared,
)
from forebay.broker.catalog.commands.topology_command import TopologyCommand
from forebay.broker.catalog.topology import RESERVED, Topology
from forebay.broker.catalog.views import has_keys, resolve_source
from forebay.broker.limits.topology_memory import queue_octets
from forebay.core.errors import PRECONDITION, REFUSED, TOO_MANY, RequestError, note_half_change
from forebay.core.message import EXPIRES, KEYED
from forebay.core.option_names import CLASSIC_TYPE
from forebay.core.stored.entry_kinds import CATALOG, CURSOR, HELD, INTAKE, RELEASED, RETURNS, SETTLED
from forebay.directory.command import decoded
from forebay.log.store import FrameEntry
from forebay.message.address import TOPIC_EXCHANGE, named_queue
from forebay.queue.declaration.spec import check_declaration
from forebay.queue.group import Group
from forebay.queue.queue import EPHEMERAL, STREAM, Queue
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import binding_octets, exchange_octets, frozen, text
from forebay.routing.topic_trie import check_filter, swap_key


@final
class Catalog(Topology):
    """The topology of a vhost, as clients and administrators change it."""

    # ---- exchanges

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
        try:
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
            self.memory.check(0, exchange_octets(name, wanted.arguments), f"cannot declare exchange '{text(name)}'")
            self.execute(wanted)
        except Exception as error:
            note_half_change(error)
            raise

    def delete_exchange(self, name: bytes, if_unused: bool) -> None:
        """Take an exchange away, and all bindings from it and to it; no error where there is none."""
        try:
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
        except Exception as error:
            note_half_change(error)
            raise

    # ---- queues

    def declare_queue(
        self,
        name: bytes,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: dict[str, object],
        session_id: i64,
        user: str = "",
    ) -> Queue:
        """Make a queue, or check that the one there is was declared alike; an empty name asks for a new one.

        user  the name of the user that declares it; empty for the broker itself
        """
        try:
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
            self.memory.check(
                session_id if exclusive else 0, queue_octets(name, arguments), f"cannot declare queue '{text(name)}'"
            )
            if not name:
                check_declaration(self.place_of(name), True, durable, exclusive, auto_delete, arguments)
                name = b"amq.gen-%d-%d" % (session_id, self.next_queue)
            owner = int(session_id) if exclusive else 0
            id = int(self.next_queue)
            command = DeclareQueue(id, name, arguments, durable, auto_delete, exclusive, owner, user=user)
            return self.add_queue(command)
        except Exception as error:
            note_half_change(error)
            raise

    def add_queue(self, command: DeclareQueue) -> Queue:
        """Make a queue of a name that none has."""
        command = resolve_source(self, command)
        self.execute(command)
        queue = self.queues_by_id[command.id]
        if queue.intake is not None:
            self.turn.mark(queue)  # it looks at what is there already
        if queue.is_view and has_keys(queue.log, queue.start()):
            self.key_queue(queue)
        return queue

    def check_queue_count(self, name: bytes) -> None:
        most = self.settings.queues_max
        if most >= 0 and len(self.queues) >= most:
            limit = f"queue limit in vhost '{text(self.name)}' ({most}) is reached"
            raise RequestError(TOO_MANY, f"cannot declare queue '{text(name)}': {limit}")

    def with_queue_type(self, arguments: dict[str, object]) -> dict[str, object]:
        """The arguments of a queue that may be of any type, with the vhost's type where they have none."""
        if "x-queue-type" in arguments or self.settings.default_queue_type == CLASSIC_TYPE:
            return arguments
        typed = dict(arguments)
        typed["x-queue-type"] = self.settings.default_queue_type
        return typed

    def ephemeral_queue(self, name: bytes, by_address: bool = False) -> Queue:
        """A queue in memory that nobody declared."""
        id = int(self.next_queue)
        return self.add_queue(DeclareQueue(id, name, durable=False, by_address=by_address, kind=EPHEMERAL))

    def delete_queue(self, name: bytes, if_unused: bool, if_empty: bool) -> int:
        """Take a queue and its messages away; how many were ready. No error where there is none."""
        try:
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
        except Exception as error:
            note_half_change(error)
            raise

    def remove_queue(self, queue: Queue) -> None:
        self.execute(RemoveQueue(int(queue.id)))

    def key_queue(self, queue: Queue) -> None:
        """A message of the queue names its group: from now on all of one group go out one at a time."""
        self.execute(KeyQueue(int(queue.id)))

    def note_marks(self, queue: Queue, marks: i64) -> None:
        """Enable message groups and expiry in a queue whose records have the marks for them."""
        if queue.kind == STREAM:
            return
        if marks & KEYED and not queue.keyed and queue.last_values is None:
            self.key_queue(queue)
        if marks & EXPIRES and queue.work_groups == 0:
            self.add_group(queue, b"", b"", True, queue.start(), True)

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
        try:
            bind = Bind(ends)
            bind.check(self)
            if not ends.is_there(self):
                octets = binding_octets(ends.key, frozen(ends.arguments))
                self.memory.check(0, octets, f"cannot bind to exchange '{text(ends.exchange)}'")
                self.execute(bind)
        except Exception as error:
            note_half_change(error)
            raise

    def remove_binding(self, ends: BindingEnds) -> None:
        try:
            ends.check_names()
            if ends.is_there(self):
                self.execute(Unbind(ends))
        except Exception as error:
            note_half_change(error)
            raise

    # ---- groups

    def add_group(self, queue: Queue, name: bytes, filter: bytes, work: bool, start: i64, auto: bool) -> Group:
        """Make a group of a queue; its progress outlives a restart if it has a name or takes work."""
        try:
            id = int(queue.next_group)
            if self.queues_by_id.get(queue.id) is not queue:
                return queue.add_group(id, name, filter, work, start, auto)  # the queue has gone in this very turn
            self.execute(AddGroup(int(queue.id), id, name, filter, work, int(start), auto))
            group = queue.groups[id]
            if isinstance(group, WorkGroup) and queue.start() < queue.log.end:
                group.pass_over(left_out(self, queue))
            return group
        except Exception as error:
            note_half_change(error)
            raise

    def note_released(self, queue: Queue, urgent: bool) -> None:
        """Write down where a queue starts, if the start of its log does not say it."""
        if queue.log.durable and (queue.is_view or queue.source.is_shared):
            self.store.note(RELEASED, int(queue.id), 0, queue.released_note(), urgent)

    # ---- recovery

    def noted(self, command: TopologyCommand[Topology]) -> FrameEntry:
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
        if queue.released > queue.log.start and not queue.is_view:
            entries.append(FrameEntry(RELEASED, queue.id, 0, queue.released_note()))
        if queue.paused:
            entries.append(self.noted(PauseQueue(int(queue.id), True)))
        if queue.keyed:
            entries.append(self.noted(KeyQueue(int(queue.id))))
        if queue.limits.earlier_ttls:
            entries.append(self.noted(KeepTtls(int(queue.id), queue.limits.earlier_ttls)))
        if queue.crash_end > queue.log.start:
            entries.append(self.noted(MarkCrash(int(queue.id), int(queue.crash_end))))
        for pin in queue.pins.by_name.values():
            entries.append(FrameEntry(HELD, queue.id, 0, pin.note()))
        taken = b"" if queue.intake is None else queue.intake.snapshot(queue.start())
        if taken:
            entries.append(FrameEntry(INTAKE, queue.id, 0, taken))
        for group in queue.groups.values():
            if not is_anonymous(group):
                group.take_progress()
                kind = SETTLED if isinstance(group, WorkGroup) else CURSOR
                entries.append(self.noted(group_as_added(queue, group)))
                if group.paused:
                    entries.append(self.noted(PauseGroup(int(queue.id), int(group.id), True)))
                entries.append(FrameEntry(kind, queue.id, group.id, group.snapshot()))
                returns = group.snapshot_returns() if isinstance(group, WorkGroup) else b""
                if returns:
                    entries.append(FrameEntry(RETURNS, queue.id, group.id, returns))
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
            elif entry.kind == RELEASED:
                if queue is not None:
                    queue.restore_released(entry.payload)
            elif entry.kind == INTAKE:
                if queue is not None and queue.intake is not None:
                    queue.intake.restore(entry.payload)
            elif entry.kind == RETURNS:
                if isinstance(group, WorkGroup):
                    group.attempts.restore(entry.payload)
            elif group is not None:
                group.restore(entry.payload)

    def finish_recovery(self, now_us: int, in_order: bool) -> None:
        """All entries are applied; `in_order`: nobody held anything when the log was written."""
        self.past_queues = 0  # of this start on
        for queue in self.queues.values():
            if not in_order:
                queue.mark_crash(queue.log.end)
            queue.pins.recovered(now_us)
            queue.source.hold_pinned()
            if queue.kind != STREAM and not queue.work_groups and queue.log.missing(queue.start()):
                # Housekeeping left out what was settled, and the note of that, the group's first, came to no disk.
                queue.add_group(queue.next_group, b"", b"", True, queue.start(), True)
            queue.find_last_values()
            for group in queue.groups.values():
                if isinstance(group, WorkGroup):
                    group.finish_restore(now_us)
                    if group.attempts.early.runs:
                        queue.has_early_acks = True
                elif isinstance(group, StreamGroup):
                    group.pass_over(queue.released)
        for queue in self.queues.values():
            queue.source.truncate()  # no disk may have it: a later group begins there
