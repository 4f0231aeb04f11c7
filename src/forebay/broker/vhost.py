"""The flow through a vhost: publishes in, deliveries and settlements out, once a turn.

Sessions call; nothing here knows a session, a socket or a clock. What is due to somebody else is a return value:
deliveries from `end_turn`, cancelled consumers in `cancelled`.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.catalog.topology import CURSOR, RETURNS, SETTLED
from forebay.broker.common import Common
from forebay.broker.consuming import Consuming
from forebay.broker.dead_letter.dead_letters import DeadLetters
from forebay.broker.internal_log import INTERNAL
from forebay.broker.mqtt.client_session import ClientSession, Subscription, Will
from forebay.broker.mqtt.sessions import is_topic
from forebay.broker.mqtt.shares import SHARE_PREFIX
from forebay.broker.publish.headers import publish_due
from forebay.broker.publish.router import Route
from forebay.broker.publish.staged_rows import StagedRows
from forebay.broker.retention_pins import end_expired
from forebay.core.message import REJECTED
from forebay.core.options import Options
from forebay.log.store import FrameEntry, Store
from forebay.queue.declaration.limits import REJECT_PUBLISH_DLX
from forebay.queue.group import Group
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.queue import EPHEMERAL, SHARE, STREAM, Queue
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.topic_trie import check_filter

__all__ = ["Route", "Vhost"]

DELAYED_AT_ONCE: Final = 10_000  # messages whose time has come that one tick publishes
PASSES_MAX: Final = 16  # through the queues in one turn, each for the dead letters of the one before
RETRY_US: Final = 1_000_000  # after which a delayed message for which the disk had no room is tried again


@final
class Vhost(Consuming):
    """One vhost: its topology, and the messages of the current turn."""

    def __init__(
        self, name: bytes, store: Store, options: Options, number: i64 = 0, common: Common | None = None
    ) -> None:
        super().__init__(name, store, options, number, common)
        self.ephemeral_expiry_us: i64 = options.ephemeral_expiry_ms * 1000
        self.dead_letters = DeadLetters()
        self.staged_rows = StagedRows()
        self.entered: set[int] = set()  # sessions that are logged in
        self.touched = False  # it takes part in the next turn

    # ---- sessions

    def touch(self) -> None:
        """Somebody has done something here, or may have: the next turn looks."""
        if not self.touched:
            self.touched = True
            self.common.touched.append(int(self.number))

    def lsn(self) -> int:
        """The lsn at which everything changed so far is on disk."""
        return self.store.settled_lsn()

    def abandon(self) -> None:
        """The vhost is no more: forget its logs, and let what is still published in it go nowhere."""
        self.catalog.abandon()
        for internal in self.turn.internals:
            self.store.drop_log(internal.number)
        self.common.parts.remove(self.turn)
        self.common.addresses.pop(self.name, None)

    # ---- recovery

    def checkpoint(self) -> list[FrameEntry]:
        """Everything durable as commands and progress: what recovery has to apply to come to this state."""
        entries = self.catalog.checkpoint()
        for internal in self.turn.internals:
            entries += internal.checkpoint()
        return entries

    def recover(self, entries: list[FrameEntry], now_us: int) -> None:
        """Apply what the log gave back, in its order."""
        for entry in entries:
            self.recover_entry(entry)
        self.finish_recovery(now_us)

    def recover_entry(self, entry: FrameEntry) -> None:
        """Apply one entry of this vhost."""
        if entry.kind == INTERNAL:
            for internal in self.turn.internals:
                if internal.number == entry.queue:
                    internal.restore(entry.group, entry.payload)
        else:
            self.catalog.recover_entry(entry)

    def finish_recovery(self, now_us: int) -> None:
        """All entries are applied."""
        self.turn.now_us = now_us  # for who comes and goes before the first turn
        self.catalog.finish_recovery(now_us)
        for internal in self.turn.internals:
            internal.recovered(now_us)
        self.shares.recovered(self.catalog, list(self.sessions.by_number.values()), now_us)
        for queue in self.catalog.queues.values():
            # What consumers held has come back.
            if queue.needs_group() and 0 <= queue.limits.max_messages < queue.ready():
                self.turn.mark(queue)

    def attach_client(
        self, client_id: bytes, connection: i64, clean_start: bool, expiry_s: i64, will: Will | None
    ) -> ClientSession:
        """The MQTT session of a client that connects (see `Sessions.attach`)."""
        self.catalog.epoch += 1
        return self.sessions.attach(client_id, connection, clean_start, expiry_s, will)

    def subscribe_client(self, client: ClientSession, wanted: Subscription) -> bool:
        """Add or change a subscription of an MQTT session; whether it is new. RequestError(INVALID) for no filter."""
        self.catalog.epoch += 1
        if wanted.filter.startswith(SHARE_PREFIX):
            self.shares.join(self.catalog, wanted.filter, client, self.turn.now_us)
        elif is_topic(wanted.filter):
            check_filter(wanted.filter)
        is_new = self.sessions.subscribe(client, wanted)
        if is_new:
            facts: dict[str, object] = {"client_id": client.client_id, "filter": wanted.filter, "qos": int(wanted.qos)}
            self.events.note("subscription.created", self.name, facts)
        return is_new

    def unsubscribe_client(self, client: ClientSession, filter: bytes) -> bool:
        """End a subscription of an MQTT session; False where there is none."""
        self.catalog.epoch += 1
        if filter.startswith(SHARE_PREFIX):
            self.shares.leave(self.catalog, filter, client.number)
        was_there = self.sessions.unsubscribe(client, filter)
        if was_there:
            self.events.note("subscription.removed", self.name, {"client_id": client.client_id, "filter": filter})
        return was_there

    def detach_client(self, client: ClientSession, connection: i64) -> None:
        """The connection of an MQTT session is gone."""
        self.catalog.epoch += 1
        self.sessions.detach(client, connection, self.turn.now_us)

    def forget_client(self, client: ClientSession) -> None:
        """End an MQTT session whatever its expiry says; the connection that has it, if any, is the server's to end."""
        self.catalog.epoch += 1
        self.sessions.connected.pop(int(client.connection), None)
        self.sessions.end(client)

    def session_closed(self, session_id: i64) -> None:
        """Take back everything that a connection had: leases at once, consumers, exclusive queues."""
        for consumer in reversed(self.consumers.pop(session_id, [])):
            self.cancel(consumer)
        for getter in self.getters.pop(session_id, {}).values():
            self.return_gotten(getter)
        for queue in list(self.catalog.owned.get(session_id, [])):
            self.catalog.remove_queue(queue)
        self.paused.discard(session_id)
        self.entered.discard(session_id)

    def channel_closed(self, session_id: i64, channel: i64) -> None:
        """Take back what a channel got one by one; its consumers are cancelled by the session."""
        getters = self.getters.get(session_id, {})
        for key in [key for key in getters if key[0] == channel]:
            self.return_gotten(getters.pop(key))

    def return_gotten(self, getter: Consumer) -> None:
        queue = self.catalog.queues_by_id.get(getter.queue)
        if queue is not None:
            queue.groups[getter.group].remove(getter)  # the nameless one, which is not deleted
            self.turn.mark(queue)

    def pause(self, session_id: i64, paused: bool) -> None:
        """Stop or resume deliveries to a session whose connection does not keep up."""
        if paused:
            self.paused.add(session_id)
        else:
            self.paused.discard(session_id)
        client = self.sessions.connected.get(int(session_id))
        if client is not None:
            client.paused = paused
        for consumer in self.consumers.get(session_id, []):
            consumer.paused = paused
            queue = self.catalog.queues_by_id.get(consumer.queue)
            if queue is not None and not paused:
                self.turn.mark(queue)

    def fill(self, session_id: i64, full: bool) -> None:
        """A connection has more to send than it should, or less again: who publishes to it is held back meanwhile."""
        client = self.sessions.connected.get(int(session_id))
        if client is not None:
            client.full = full
            if full:
                self.crowding.check(client, self.turn.now_us)
            else:
                self.crowding.look(client, self.turn.now_us)

    # ---- the turn

    def end_turn(self, now_us: i64) -> list[Delivery]:
        """Seal what was published, hand out what may go, note what was settled; the deliveries of this turn."""
        self.turn.now_us = self.common.looks.now_us = now_us
        self.end_sessions()
        if self.staging.open:
            self.staged_rows.publish(self)
        for internal in self.turn.internals:
            internal.end_turn(now_us)
        out = self.sessions.take_deliveries()
        if self.early:
            out += self.early
            self.early = []
        self.fanout.dispatch(now_us, out)
        self.replies.dispatch(now_us, out)
        again: list[Queue] = []
        for _ in range(PASSES_MAX):
            if not self.turn.dirty:
                break
            dirty = self.turn.dirty
            self.turn.dirty = []
            for queue in dirty:
                queue.dirty = False
                self.turn.watch(queue)
            for queue in dirty:
                self.end_turn_of(queue, now_us, out, again)
        for (
            queue
        ) in self.turn.dirty:  # dead letters that go round: they are in one frame with their settlement all the same
            if queue.log.writer.count:
                self.turn.seal(queue)
        if self.common.looks.left <= 0:
            again = again[1:] + again[:1]  # so that each queue with filters is the first in its turn
        for queue in again:
            self.turn.mark(queue)
        return out

    def end_turn_of(self, queue: Queue, now_us: i64, out: list[Delivery], again: list[Queue]) -> None:
        """Do one queue's part of `end_turn`; what dies in it may give others something to do in the same turn."""
        if queue.log.writer.count:
            self.turn.seal(queue)
        if queue.work_groups == 0 and queue.needs_group():
            self.catalog.add_group(queue, b"", b"", True, queue.log.start, True)
        if queue.dispatch(now_us, out):
            again.append(queue)
        for group in list(queue.groups.values()):
            if group.reader.damage is not None and group.consumers:
                self.lose_consumers(group, group.reader.damage.error().text)
            if isinstance(group, WorkGroup):
                if group.overdue:
                    self.turn.cancelled += group.overdue
                    group.overdue = []
                if group.dead_letters.runs and self.dead_letters.move(self, queue, group, now_us):
                    again.append(queue)
        self.note_progress(queue)
        if self.dead_letters.awaited:
            self.dead_letters.made_room(self, queue)

    def lose_consumers(self, group: Group, why: str) -> None:
        """These get nothing any more: what they would get next cannot be read."""
        for consumer in list(group.consumers):
            consumer.lost = why
            group.detach(consumer)
            self.turn.cancelled.append(consumer)

    def refuse(self, queue: Queue, format: u8, route: Route, properties: bytes, body: bytes) -> None:
        super().refuse(queue, format, route, properties, body)
        if queue.limits.overflow == REJECT_PUBLISH_DLX:
            self.dead_letters.refused(self, queue, format, route.exchange, route.routing_key, properties, body)

    def end_sessions(self) -> None:
        """Take care of what ended sessions leave behind: wills, and places in shared subscriptions."""
        sessions = self.sessions
        while sessions.wills or sessions.left:
            wills, sessions.wills = sessions.wills, []
            for will in wills:
                self.publish_will(will)
            left, sessions.left = sessions.left, []
            for subscription in left:
                if subscription.filter.startswith(SHARE_PREFIX):
                    self.shares.leave(self.catalog, subscription.filter, subscription.client.number)

    def note_sessions(self) -> None:
        """After the deliveries of a turn: note which packets they went out in."""
        self.sessions.note_changes()
        for queue in self.turn.dirty:
            if queue.kind == SHARE:  # what moved from it to a session must not be in both places after a crash
                self.note_progress(queue)

    def has_work(self) -> bool:
        """True if another turn is due though nobody has sent anything."""
        sessions = self.sessions
        if sessions.log.writer.count > 0 or sessions.out or sessions.changed or sessions.wills or sessions.left:
            return True
        if self.staging.open and not self.staged_rows.waits:
            return True
        return bool(self.turn.dirty) or self.fanout.has_work()

    def note_progress(self, queue: Queue) -> None:
        """Log the settlements of a queue, and let its log forget what all work groups have settled."""
        log = queue.log
        for group in queue.groups.values():
            if isinstance(group, WorkGroup):
                progress = group.take_progress()
                returns = group.attempts.take_notes()
                if progress:
                    group.active_us = self.turn.now_us
                if log.durable:
                    if returns:
                        self.store.note(RETURNS, queue.id, group.id, returns, False)
                    if progress:
                        self.store.note(SETTLED, queue.id, group.id, progress, False)
        floor = queue.floor()
        if floor > log.start:
            log.truncate(floor)

    def synced(self) -> None:
        """Take note that what the store had in hand is on disk: readers that wait for that may have it."""
        awaiting = self.turn.awaiting
        self.turn.awaiting = []
        for queue in awaiting:
            if queue.log.durable_end < queue.log.end:
                self.turn.awaiting.append(queue)
            if has_readers(queue):
                self.turn.mark(queue)
            if queue.watches:
                self.turn.wake_watches(queue)

    def tick(self, now_us: i64) -> None:
        """Do what time alone brings, several times a second: leases that end, delays that are over, queues unused."""
        self.turn.now_us = self.common.looks.now_us = now_us  # on a quiet broker the turn before may be long ago
        timed = self.turn.timed
        self.turn.timed = []
        for queue in timed:
            if self.catalog.queues_by_id.get(queue.id) is not queue:
                continue  # it is gone
            if self.has_expired(queue, now_us):
                self.catalog.remove_queue(queue)
                continue
            due = next_due_us(queue)
            if due and due <= now_us:
                self.turn.mark(queue)
            if due or queue.kind == EPHEMERAL or queue.limits.expires_us:
                self.turn.timed.append(queue)
            else:
                queue.timed = False  # until something happens in it
        self.staged_rows.waits = False
        if self.store.full:
            return
        for message in self.delayed.due(now_us, DELAYED_AT_ONCE):
            outcome = publish_due(self, message)
            if outcome == REJECTED and self.common.room == 0:  # not for what the topic or a limit refuses
                self.delayed.put_back(message, now_us + RETRY_US)

    def has_expired(self, queue: Queue, now_us: i64) -> bool:
        """True if nobody has used the queue for as long as it may stand idle."""
        expires_us = self.ephemeral_expiry_us if queue.kind == EPHEMERAL else queue.limits.expires_us
        if expires_us == 0 or queue.consumer_count() or queue.pins.by_name:
            return False
        if not queue.unused_since_us:
            queue.unused_since_us = now_us
        return now_us - queue.unused_since_us > expires_us

    def sweep(self, now_us: i64) -> None:
        """About once a second: what expires, and what streams need not keep."""
        expired = self.sessions.expired
        self.sessions.tick(now_us)
        if self.sessions.expired != expired:
            self.catalog.epoch += 1  # routes may lead to sessions that are no more
        self.retained.sweep(now_us)
        self.staging.sweep(now_us)
        self.dead_letters.retry(self, now_us)
        self.apply_retention(now_us)

    def apply_retention(self, now_us: i64) -> None:
        """Let streams forget what is over their limits, and everybody what nobody holds any more."""
        for queue in self.catalog.queues.values():
            if queue.pins.by_name:
                end_expired(self.catalog, queue, now_us)
            if queue.kind == STREAM:
                limits = queue.limits  # 0 is no limit of a stream, whoever sets it
                queue.log.retain(now_us, limits.max_age_us, max(limits.max_octets, 0), max(limits.max_messages, 0))

    def commit_streams(self) -> None:
        """Log how far the stream groups have read: those that commit by themselves, at the interval of the option."""
        for queue in self.catalog.queues.values():
            for group in queue.groups.values():
                if isinstance(group, StreamGroup) and not group.name.startswith(b"\0"):
                    if group.auto:
                        group.commit_read()
                    progress = group.take_progress()
                    if progress:
                        group.active_us = self.turn.now_us
                        if queue.log.durable:
                            self.store.note(CURSOR, queue.id, group.id, progress, False)

    def live(self, queue: i64, first: i64, end: i64) -> list[tuple[int, int]]:
        """The intervals of a queue's log within [first, end) that somebody may still want."""
        for internal in self.turn.internals:
            if internal.number == queue:
                return internal.live(first, end)
        where = self.catalog.queues_by_id.get(queue)
        return [] if where is None else where.retained(first, end)


def next_due_us(queue: Queue) -> i64:
    """The time at which the first of its groups has something to do though nobody asks; 0 for never."""
    due: i64 = 0
    for group in queue.groups.values():
        if isinstance(group, WorkGroup):
            own = group.next_due_us()
            if own and (due == 0 or own < due):
                due = own
    return due


def has_readers(queue: Queue) -> bool:
    for group in queue.groups.values():  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
        if isinstance(group, StreamGroup) and group.consumers:
            return True
    return False
