"""A vhost is composed of parts, and says what goes from one to the other at the end of a turn.

Sessions and the node call; nothing here knows a session, a socket or a clock. What is due to somebody else is a return
value: deliveries from `end_turn`, cancelled consumers in `turn.cancelled`.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.audit import Origin
from forebay.broker.catalog.catalog import Catalog
from forebay.broker.catalog.topology_requests import Requester, TopologyOutcome, TopologyRequest
from forebay.broker.clients import Clients
from forebay.broker.consuming.block_reads import BlockReads
from forebay.broker.consuming.consumers import Consumers
from forebay.broker.consuming.dispatcher import Dispatcher
from forebay.broker.consuming.message_sessions import MessageSessions, QueueSessions
from forebay.broker.consuming.settling import Settling
from forebay.broker.consuming.shares import Shares
from forebay.broker.contract import ANY_SESSION, VhostContract
from forebay.broker.dead_letter.dead_letters import DeadLetters, dead_letter_queue
from forebay.broker.joining import Joining
from forebay.broker.mqtt.fanout import Fanout
from forebay.broker.mqtt.retained import Retained
from forebay.broker.mqtt.session_recovery import StoredSessions
from forebay.broker.mqtt.session_rules import hold_us_of, mqueue_rules, session_octets_of
from forebay.broker.publish.admission import Admission
from forebay.broker.publish.deduplication import Deduplication
from forebay.broker.publish.delayed import Delayed
from forebay.broker.publish.mover import Mover
from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.replies import Replies
from forebay.broker.publish.route import Route
from forebay.broker.publish.router import Router
from forebay.broker.publish.staged_rows import StagedRows
from forebay.broker.publish.staging import Staging
from forebay.broker.query.queries import Queries
from forebay.broker.shared.parts import SharedParts
from forebay.broker.topology_changes import TopologyChanges
from forebay.broker.turn import Turn
from forebay.broker.upkeep import Upkeep
from forebay.core.errors import note_half_change
from forebay.core.options import Options
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.directory.vhost_list import VhostEntry
from forebay.log.store import FrameEntry, Store
from forebay.message.address import Addresses
from forebay.queue.leases.lease import Consumer, Delivery, Lease
from forebay.queue.queue import SHARE, Queue
from forebay.routing.exchange import Exchange

__all__ = ["Route", "Vhost"]


@final
class Vhost(VhostContract):
    """One vhost.

    turn          the queues that the end of the turn has to look at
    catalog       exchanges, queues, bindings, groups, policies
    router        the ways from addresses to queues and subscribers
    admission     what is taken, and why something was not
    publishing    appends messages
    mover         appends there what is settled here
    dispatcher    hands records out at the end of a turn
    consumers     who gets them
    settling      what became of them
    upkeep        what queues forget
    queries       what somebody asks of queues, a few messages at a time
    dead_letters  what died, and where it goes
    sessions      MQTT sessions; `clients` has what a connection does with one
    reads         readers of blocks
    changes       makes the changes of the topology that sessions ask for
    touched       it takes part in the next turn
    entered       sessions that are logged in
    """

    def __init__(self, entry: VhostEntry, store: Store, options: Options, shared: SharedParts) -> None:
        name, number = entry.name, i64(entry.number)
        self.name = name
        self.number: i64 = number
        self.store = store
        self.events = shared.events
        self.audit = shared.audit
        self.next_turn = shared.next_turn
        self.deletions = shared.deletions
        self.joins = shared.joins
        self.budgets = shared.budgets
        self.touched = False
        self.entered: set[int] = set()
        self.turn = Turn(name, store, shared.next_turn, shared.shares, shared.trace)
        shared.room.holders.append(self.turn)
        filter_budget = shared.budgets.filters
        self.catalog = Catalog(entry, store, self.turn, shared.queue_numbers, shared.events, filter_budget, options)
        self.fanout = Fanout(options.mqtt_mqueue_store_qos0, shared.crowding, self.catalog.bindings.routes)
        self.routes = self.router = Router(self.catalog, self.fanout, options)
        memory = self.memory = self.catalog.memory
        rules, most = mqueue_rules(options), options.mqtt_sessions_max
        self.sessions = StoredSessions(store, self.fanout, rules, most, memory, number)
        self.retained = Retained(store, options.mqtt_retained_max, options.mqtt_retained_octets_max, number)
        self.delayed = Delayed(store, options.mqtt_delayed_max, number)
        window_ms, keys_max = options.deduplication_window_ms, options.deduplication_keys_max
        self.deduplication = Deduplication(store, window_ms, keys_max, number)
        memory_ms, expiry_ms, most = options.transaction_memory_ms, options.staging_expiry_ms, options.transactions_max
        self.staging = Staging(store, memory_ms, expiry_ms, most, number)
        self.message_sessions = MessageSessions(store, number)
        self.add_internal_logs()
        shared.crowding.hold_us = hold_us_of(options)
        self.sessions.quota.octets_max = session_octets_of(options)
        self.admission = Admission(shared.room, shared.crowding, self.sessions.quota)
        self.messages = self.publishing = Publishing(
            self.catalog,
            self.turn,
            self.router,
            self.admission,
            self.sessions,
            self.retained,
            self.delayed,
            self.deduplication,
        )
        self.batches = self.staged_rows = StagedRows(self.publishing, self.staging)
        self.mover = Mover(self.publishing, shared.shares)
        self.dead_letters = DeadLetters(self.mover)
        self.dispatcher = Dispatcher(self.catalog, self.turn, self.dead_letters, filter_budget)
        self.upkeep = Upkeep(self.catalog, self.turn, self.dispatcher, options.ephemeral_expiry_ms)
        self.settlement = self.settling = Settling(self.catalog, self.turn)
        self.direct_replies = self.replies = Replies(shared.secret)
        self.query_requests = self.queries = Queries(self.publishing, self.replies)
        self.shares = Shares(self.catalog, options.mqtt_shared_strategy)
        self.consuming = self.consumers = Consumers(
            self.router, self.dispatcher, self.replies, self.shares, self.queries, options.consumer_timeout_ms
        )
        self.mqtt_clients = self.clients = Clients(self.publishing, self.sessions, self.retained, self.shares)
        self.block_reads = self.reads = BlockReads(self.catalog, self.turn, shared.next_turn)
        self.changes = TopologyChanges(self.catalog, self.upkeep)

    def add_internal_logs(self) -> None:
        """Have the turn end those of the vhost's own logs, and the catalog know their sources."""
        kept = [self.sessions, self.retained, self.delayed, self.deduplication, self.staging, self.message_sessions]
        self.turn.internals = kept
        for internal in kept:
            self.catalog.sources[internal.number] = internal.source

    def touch(self) -> None:
        if not self.touched:
            self.touched = True
            # It may not have taken part in the last turns, and looks at times before the end of this one.
            self.turn.now_us = self.budgets.filters.now_us = max(self.turn.now_us, self.next_turn.now_us)
            self.next_turn.vhosts.append(int(self.number))

    def fill(self, session_id: i64, is_full: bool) -> None:
        self.clients.fill(session_id, is_full)

    def abandon(self) -> None:
        """The vhost is no more: forget its logs, and let what is still published in it go nowhere."""
        self.reads.abandoned = True
        self.catalog.abandon()
        self.admission.room.holders.remove(self.turn)

    # ---- the contract: names, time, the disk

    def now_us(self) -> i64:
        return self.turn.now_us

    def lsn(self) -> int:
        return self.store.settled_lsn()

    def hurry(self) -> None:
        self.store.hurry()

    def note_event(self, what: str, fields: dict[str, object]) -> None:
        self.events.note(what, self.name, fields)

    def note_change(self, origin: Origin, what: str, fields: dict[str, object]) -> None:
        fields["vhost"] = self.name
        self.audit.note(origin, what, fields)

    def join_body(self, joining: Joining) -> None:
        self.joins.waiting.append(joining)

    # ---- the contract: queues, exchanges and bindings. Each raises RequestError and changes nothing if it is refused

    def find_queue(self, name: bytes) -> Queue | None:
        return self.catalog.queues.get(name)

    def queue(self, name: bytes, session_id: i64) -> Queue:
        queue = self.catalog.queue(name)
        if session_id != ANY_SESSION:
            self.catalog.check_owner(queue, session_id)
        return queue

    def queue_of(self, consumer: Consumer) -> Queue:
        return self.catalog.queues_by_id[consumer.queue]

    def change(self, requester: Requester, request: TopologyRequest) -> TopologyOutcome:
        return self.changes.change(requester, request)

    def check_owner(self, name: bytes, session_id: i64) -> None:
        self.changes.check_owner(name, session_id)

    def catch_up(self, queue: Queue) -> None:
        self.dispatcher.catch_up(queue)

    def find_exchange(self, name: bytes) -> Exchange | None:
        return self.catalog.bindings.exchanges.get(name)

    def exchange(self, name: bytes) -> Exchange:
        return self.catalog.check_exchange(name)

    def is_topic_exchange(self, name: bytes) -> bool:
        return self.catalog.is_topic_exchange(name)

    # ---- the contract: entities of Azure Service Bus

    def message_sessions_of(self, queue: Queue) -> QueueSessions:
        return QueueSessions(self.message_sessions, queue)

    def take_room(self, octets: i64) -> bool:
        return self.admission.take_room(octets)

    def has_room(self, octets: i64) -> bool:
        return self.admission.has_room(octets)

    def refuses(self, route: Route) -> bool:
        return self.admission.refuses(route)

    def dead_letter_queue(self, name: bytes) -> Queue:
        return dead_letter_queue(self.publishing, name)

    def reject_for(
        self, lease: Lease, offset: i64, reason: bytes, headers: list[tuple[str, object]] | None = None
    ) -> None:
        self.dead_letters.reject(lease, offset, reason, headers)

    # ---- the directory

    def end_sessions_of(self, user: str) -> None:
        """End the MQTT sessions of a user, as those of nobody who comes under this name from here on."""
        self.clients.end_sessions_of(user)
        self.touch()

    def user_deleted(self, user: str) -> None:
        """End the MQTT sessions of a user who is gone, and have the server end its connections."""
        self.deletions.pending = True
        self.end_sessions_of(user)

    def addresses(self) -> Addresses:
        """Return what using an address of the vhost does."""
        return self.router.addresses

    # ---- recovery

    def checkpoint(self) -> list[FrameEntry]:
        """Everything durable as commands and progress: what recovery has to apply to come to this state."""
        entries = self.catalog.checkpoint()
        for internal in self.turn.internals:
            entries += internal.checkpoint()
        return entries

    def recover_entry(self, entry: FrameEntry) -> None:
        """Apply one entry of this vhost."""
        if entry.kind == INTERNAL:
            for internal in self.turn.internals:
                if internal.number == entry.queue:
                    internal.restore(entry.group, entry.payload)
        else:
            self.catalog.recover_entry(entry)

    def finish_recovery(self, now_us: int, in_order: bool) -> None:
        """All entries are applied; `in_order`: nobody held anything when the log was written."""
        self.turn.now_us = now_us  # for who comes and goes before the first turn
        self.catalog.finish_recovery(now_us, in_order)
        for internal in self.turn.internals:
            internal.recovered(now_us)
        self.shares.recovered(list(self.sessions.by_number.values()), now_us)
        for queue in self.catalog.queues.values():
            # The consumers' unsettled records have come back.
            limits = queue.limits
            is_over = 0 <= limits.max_messages < queue.ready() or 0 <= limits.max_octets < queue.log.octets
            has_more = limits.notes_deliveries or queue.last_values is not None  # spent and replaced records go now
            if (is_over and queue.needs_group()) or has_more:
                self.turn.mark(queue)

    # ---- sessions

    def session_closed(self, session_id: i64) -> None:
        try:
            self.consumers.close_session(session_id)
            self.queries.close_session(session_id)
            for queue in list(self.catalog.owned.get(session_id, [])):
                self.catalog.remove_queue(queue)
            self.entered.discard(session_id)
        except Exception as error:
            note_half_change(error)
            raise

    def pause(self, session_id: i64, paused: bool) -> None:
        try:
            client = self.sessions.connected.get(int(session_id))
            if client is not None:
                client.paused = paused
            self.consumers.pause(session_id, paused)
        except Exception as error:
            note_half_change(error)
            raise

    # ---- the turn

    def end_turn(self, now_us: i64) -> list[Delivery]:
        """Seal what was published, deliver what may go, note what was settled; the deliveries of this turn."""
        self.turn.now_us = self.budgets.filters.now_us = now_us
        self.clients.end_sessions()
        if self.staging.open:
            self.staged_rows.publish()
        if self.queries.asked:
            self.queries.do_turn()
        self.dead_letters.forward_refused()
        for internal in self.turn.internals:
            internal.end_turn(now_us)
        out = self.sessions.take_deliveries()
        self.fanout.dispatch(now_us, out)
        if self.fanout.wide.has_work():
            self.sessions.deliver_wide(out)
        self.replies.dispatch(now_us, out)
        self.dispatcher.end_turn(out)
        if self.sessions.log.writer.count:  # dead letters to durable sessions
            self.sessions.end_turn(now_us)
            out += self.sessions.take_deliveries()
        return out

    def note_sessions(self) -> None:
        """Note in which packets the deliveries of a turn went out."""
        self.sessions.note_changes()
        for queue in self.turn.dirty:
            if queue.kind == SHARE:  # what moved from it to a session must not be in both places after a crash
                self.dispatcher.note_progress(queue)

    def has_work(self) -> bool:
        """True if another turn is due though nobody has sent anything."""
        sessions = self.sessions
        if sessions.log.writer.count > 0 or sessions.out or sessions.changed or sessions.wills or sessions.left:
            return True
        if self.staging.open and not self.staged_rows.waits:
            return True
        if self.turn.dirty or self.publishing.refused or self.fanout.has_work():
            return True
        return bool(self.queries.asked)

    def tick(self, now_us: i64) -> None:
        """Do what time alone brings, several times a second: leases that end, delays that are over, queues unused."""
        self.turn.now_us = self.budgets.filters.now_us = now_us  # on a quiet broker the turn before may be long ago
        self.upkeep.tick(now_us)
        self.staged_rows.waits = False
        if not self.store.full:
            self.mover.release(now_us)

    def sweep(self, now_us: i64) -> None:
        """About once a second: what expires, and what streams need not keep."""
        self.sessions.tick(now_us)
        self.retained.sweep(now_us)
        self.staging.sweep(now_us)
        self.dead_letters.retry(now_us)
        self.upkeep.apply_retention(now_us)
        self.queries.sweep(now_us)
        if self.message_sessions.states:
            self.message_sessions.forget_queues(self.catalog.queues_by_id)
