"""What flows through a vhost: publishes in, deliveries and settlements out, once a turn.

Sessions call; nothing here knows a session, a socket or a clock. What is due to somebody else is a return value:
deliveries from `end_turn`, cancelled consumers in `cancelled`.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.arguments import ConsumerArguments, stream_start
from forebay.broker.client_session import ClientSession, Subscription, Will
from forebay.broker.common import Common
from forebay.broker.dead_letters import DeadLetters
from forebay.broker.facts import MessageFacts
from forebay.broker.primary import primary_name
from forebay.broker.publishing import Publishing
from forebay.broker.routes import QUEUE_PREFIX, Route
from forebay.broker.replies import ReplyConsumer
from forebay.broker.sessions import is_topic
from forebay.broker.shares import SHARE_PREFIX, Shares
from forebay.broker.special import publish_due
from forebay.broker.topology import (
    CURSOR,
    DEAD_LETTER_PREFIX,
    FOREVER_MS,
    RETURNS,
    SETTLED,
    check_queue_name,
    dead_letter_address,
    queue_address,
    queue_command,
)
from forebay.core.errors import INVALID, LOCKED, NOT_FOUND, NOT_IMPLEMENTED, PRECONDITION, REFUSED, RequestError
from forebay.core.message import REJECTED
from forebay.core.options import Options
from forebay.log.store import Store
from forebay.queue.group import Group
from forebay.queue.leases import UNLIMITED, Consumer, Delivery, Lease
from forebay.queue.limits import REJECT_PUBLISH_DLX
from forebay.queue.queue import EPHEMERAL, SHARE, STREAM, Queue, group_key, kind_of
from forebay.queue.spec import QueueSpec
from forebay.queue.stream_group import StreamGroup
from forebay.queue.stream_values import Selection, StreamValues
from forebay.queue.work_group import WorkGroup
from forebay.routing.exchange import text
from forebay.routing.topic_trie import check_filter

__all__ = ["Route", "Vhost"]

DELAYED_AT_ONCE: Final = 10_000  # messages whose time has come that one tick publishes
PASSES_MAX: Final = 16  # through the queues in one turn, each for the dead letters of the one before
RETRY_US: Final = 1_000_000  # after which a delayed message for which the disk had no room is tried again


@final
class Vhost(Publishing):
    """One vhost: its topology, and the messages of the current turn."""

    def __init__(
        self, name: bytes, store: Store, options: Options, number: i64 = 0, common: Common | None = None
    ) -> None:
        super().__init__(name, store, options, number, common)
        # Without a timeout: longer than anybody waits, and no overflow when it is added to the time of day.
        self.consumer_timeout_us: i64 = options.consumer_timeout_ms * 1000 or FOREVER_MS * 1000
        self.ephemeral_expiry_us: i64 = options.ephemeral_expiry_ms * 1000
        self.dead_letters = DeadLetters()
        self.shares = Shares(self, options.mqtt_shared_strategy)
        self.stream_values = StreamValues(MessageFacts())
        self.consumers: dict[int, list[Consumer]] = {}  # by session
        self.entered: set[int] = set()  # sessions that are logged in
        self.paused: set[int] = set()  # sessions whose connection takes no more octets
        self.getters: dict[tuple[int, int, int], Consumer] = {}
        self.next_consumer_id: i64 = 1

    # ---- consuming

    def consume(
        self,
        queue: bytes,
        session_id: i64,
        channel: i64,
        tag: bytes,
        no_ack: bool,
        exclusive: bool,
        credit: i64,
        arguments: dict[str, object],
        cancels: bool = False,
    ) -> Consumer:
        """Attach a consumer to a group of a queue.

        queue      name, `$queue/<name>[/<filter>]` or `$dlq/<name>[/<filter>]`; the second makes an ephemeral queue
                   where there is none
        credit     records it may hold unsettled; 0 is no limit
        arguments  see `ConsumerArguments`
        cancels    it is cancelled when it holds a record for too long; else the record just returns
        """
        filter = b""
        is_address = queue.startswith(QUEUE_PREFIX)
        if is_address:
            queue, filter = queue_address(queue)
        elif queue.startswith(DEAD_LETTER_PREFIX):
            queue, filter = dead_letter_address(queue)
        if filter == b"#":
            filter = b""
        if filter:
            check_filter(filter)
        if is_address and queue not in self.queues:
            self.ephemeral_queue(queue)
        where = self.queue(queue)
        self.check_owner(where, session_id)
        asked = ConsumerArguments(arguments, self.name, where.name)
        work = is_work(where, asked)
        asked.check_kind(arguments, where, work)
        group = self.group_for(where, asked, filter, work)
        check_exclusive(self.name, where, group, exclusive)
        consumer = Consumer(
            self.next_consumer_id, where.id, group.id, session_id, channel, tag, no_ack, credit or UNLIMITED
        )
        self.next_consumer_id += 1
        consumer.exclusive = exclusive
        consumer.priority = asked.priority
        self.set_timeout(where, consumer, cancels, asked.timeout_us)
        consumer.queue_name = where.name
        consumer.group_name = group_key(group.name, group.filter)
        consumer.paused = session_id in self.paused
        if where.kind == SHARE and isinstance(group, WorkGroup):
            self.shares.equip(group)
        group.add(consumer)
        where.had_consumer = True
        where.unused_since_us = 0
        self.consumers.setdefault(session_id, []).append(consumer)
        self.mark(where)
        return consumer

    def set_timeout(self, queue: Queue, consumer: Consumer, cancels: bool, asked_us: i64) -> None:
        """How long the consumer may hold a record, and what becomes of it then."""
        limits = queue.limits
        if limits.visibility_us or not cancels:
            consumer.timeout_us = limits.visibility_us or queue.spec.visibility_ms * 1000
            return
        consumer.timeout_us = asked_us or limits.consumer_timeout_us or self.consumer_timeout_us
        consumer.cancels = True

    def consume_replies(self, session_id: i64, channel: i64, tag: bytes) -> ReplyConsumer:
        """Attach a consumer of answers, see `Replies`."""
        opened = self.replies.open(self.next_consumer_id, session_id, channel, tag)
        self.next_consumer_id += 1
        opened.consumer.paused = session_id in self.paused
        self.consumers.setdefault(session_id, []).append(opened.consumer)
        return opened

    def group_for(self, queue: Queue, asked: ConsumerArguments, filter: bytes, work: bool) -> Group:
        """The group that a consumer asks for, made where there is none."""
        name = asked.group
        if not work and not name:
            name = b"\0%d" % self.next_consumer_id  # a cursor of its own
        group = queue.find_group(group_key(name, filter))
        if group is None:
            offset = queue.log.start if work else stream_start(queue, asked.start, self.now_us)
            group = self.add_group(queue, name, filter, work, offset, asked.auto_commit)
        elif isinstance(group, WorkGroup) != work:
            raise RequestError(INVALID, f"group '{text(name)}' of queue '{text(queue.name)}' is of the other kind")
        elif isinstance(group, StreamGroup) and asked.start is not None and asked.start != "resume":
            if not group.consumers:
                group.commit(stream_start(queue, asked.start, self.now_us))
        if isinstance(group, StreamGroup):
            self.select(queue, group, asked)
        return group

    def select(self, queue: Queue, group: StreamGroup, asked: ConsumerArguments) -> None:
        """Have a stream group deliver what its consumers want, who must all want the same."""
        wanted: Selection | None = None
        if asked.values is not None:
            wanted = Selection(asked.values, asked.unfiltered, self.stream_values)
        found = group.selection
        if group.consumers:
            same = wanted is found if wanted is None or found is None else wanted.same(found)
            if not same:
                raise RequestError(
                    PRECONDITION,
                    f"group '{text(group.name)}' of queue '{text(queue.name)}' reads with another x-stream-filter",
                )
            return
        group.select(wanted)

    def detach(self, consumer: Consumer) -> None:
        """Give a consumer nothing more; it may settle what it holds, and `cancel` takes that back."""
        queue = self.queues_by_id.get(consumer.queue)
        group = None if queue is None else queue.groups.get(consumer.group)
        if queue is not None and group is not None:
            group.detach(consumer)
            self.leave_unused(queue)

    def leave_unused(self, queue: Queue) -> None:
        """A queue may end with its last consumer."""
        if queue.spec.auto_delete and queue.had_consumer and not queue.consumer_count():
            self.remove_queue(queue)

    def cancel(self, consumer: Consumer) -> None:
        """Detach a consumer; what it held returns at once. No error where its queue is gone."""
        own = self.consumers.get(consumer.session_id)
        if own is not None and consumer in own:
            own.remove(consumer)
        queue = self.queues_by_id.get(consumer.queue)
        if queue is None:
            return
        group = queue.groups.get(consumer.group)
        if group is None:
            return
        group.remove(consumer)
        if isinstance(group, StreamGroup) and not group.consumers and group.name.startswith(b"\0"):
            queue.drop_group(group)
        self.mark(queue)
        self.leave_unused(queue)

    def get(self, queue: bytes, session_id: i64, channel: i64, no_ack: bool) -> Delivery | None:
        """One record of the queue's nameless work group, at once; None where none is ready."""
        where = self.queue(queue)
        self.check_owner(where, session_id)
        if where.kind == STREAM:
            raise RequestError(NOT_IMPLEMENTED, f"basic.get is not supported by stream queue '{text(where.name)}'")
        group = self.group_for(where, ConsumerArguments({}, self.name, where.name), b"", True)
        assert isinstance(group, WorkGroup)
        check_gettable(self.name, where, group)
        key = (int(session_id), int(channel), int(where.id))
        getter = self.getters.get(key)
        if getter is None:
            getter = Consumer(0, where.id, group.id, session_id, channel, b"", False, UNLIMITED)
            getter.queue_name = where.name
            self.set_timeout(where, getter, True, 0)
            self.getters[key] = getter
        if where.log.writer.count:
            self.seal(where, self.now_us)
        getter.no_ack = no_ack
        where.unused_since_us = self.now_us
        self.mark(where)
        return group.take_one(getter, self.now_us)

    def purge(self, name: bytes) -> int:
        """Take away all ready messages of every work group, or of the stream; how many the nameless group had."""
        queue = self.queue(name)
        if queue.log.writer.count:
            self.seal(queue, self.now_us)
        count = queue.ready()
        if queue.kind == STREAM or not queue.groups:
            queue.log.truncate(queue.log.end)
        for group in queue.groups.values():
            group.purge()
        self.mark(queue)
        return count

    # ---- settling

    def group_of(self, lease: Lease) -> Group | None:
        queue = self.queues_by_id.get(lease.consumer.queue)
        if queue is None:
            return None
        if not queue.dirty:
            queue.dirty = True
            self.dirty.append(queue)
        return queue.groups.get(lease.consumer.group)

    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records of a lease; how many were held by it until now."""
        group = self.group_of(lease)
        return 0 if group is None else group.ack(lease, first, count)

    def nack(self, lease: Lease, first: i64, count: i64, delay_ms: i64, failed: bool = False) -> i64:
        """Give records of a lease back: to the front of the queue, or to be leased again after a delay.

        failed  something went wrong with them: a queue's delivery limit counts that
        """
        group = self.group_of(lease)
        if group is None:
            return 0
        return group.give_back(lease, first, count, self.now_us + delay_ms * 1000 if delay_ms > 0 else 0, failed)

    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        """Have records of a lease die: to the queue's dead-letter exchange if it has one, else for good."""
        group = self.group_of(lease)
        return 0 if group is None else group.reject(lease, first, count)

    def extend(self, lease: Lease, first: i64, count: i64, extend_ms: i64) -> i64:
        """Let records of a lease be held for so long from now on, or for 0 as long as if they were handed out now.

        Never shorter than before; how many of them were held by the lease.
        """
        group = self.group_of(lease)
        if not isinstance(group, WorkGroup):
            return 0
        length_us = extend_ms * 1000 if extend_ms > 0 else lease.consumer.timeout_us
        return group.extend(lease, first, count, self.now_us + length_us)

    def find_lease(self, queue: bytes, group: bytes, offset: i64) -> Lease | None:
        """Who holds this record, if anybody does; RequestError if there is no such queue or group."""
        where = self.queue(queue)
        found = where.find_group(group)
        if found is None:
            raise RequestError(NOT_FOUND, f"no group '{text(group)}' on queue '{text(queue)}'")
        return found.find(offset) if isinstance(found, WorkGroup) else None

    def commit_offset(self, queue: bytes, group: bytes, offset: i64) -> None:
        """Make a stream group resume at `offset`; RequestError if there is no such group or offset."""
        where = self.queue(queue)
        found = where.find_group(group)
        if not isinstance(found, StreamGroup):
            raise RequestError(NOT_FOUND, f"no stream group '{text(group)}' on queue '{text(queue)}'")
        if offset < 0 or offset > where.log.end:
            raise RequestError(INVALID, f"offset {offset} is not within 0 .. {where.log.end} of queue '{text(queue)}'")
        found.commit(offset)
        self.mark(where)

    # ---- sessions

    def finish_recovery(self, now_us: int) -> None:
        self.now_us = now_us  # for who comes and goes before the first turn
        super().finish_recovery(now_us)
        self.shares.recovered(list(self.sessions.by_number.values()), now_us)

    def attach_client(
        self, client_id: bytes, connection: i64, clean_start: bool, expiry_s: i64, will: Will | None
    ) -> ClientSession:
        """The MQTT session of a client that connects (see `Sessions.attach`)."""
        self.epoch += 1
        return self.sessions.attach(client_id, connection, clean_start, expiry_s, will)

    def subscribe_client(self, client: ClientSession, wanted: Subscription) -> bool:
        """Add or change a subscription of an MQTT session; whether it is new. RequestError(INVALID) for no filter."""
        self.epoch += 1
        if wanted.filter.startswith(SHARE_PREFIX):
            self.shares.join(wanted.filter, client, self.now_us)
        elif is_topic(wanted.filter):
            check_filter(wanted.filter)
        return self.sessions.subscribe(client, wanted)

    def unsubscribe_client(self, client: ClientSession, filter: bytes) -> bool:
        """End a subscription of an MQTT session; False where there is none."""
        self.epoch += 1
        if filter.startswith(SHARE_PREFIX):
            self.shares.leave(filter, client.number)
        return self.sessions.unsubscribe(client, filter)

    def detach_client(self, client: ClientSession, connection: i64) -> None:
        """The connection of an MQTT session is gone."""
        self.epoch += 1
        self.sessions.detach(client, connection, self.now_us)

    def session_closed(self, session_id: i64) -> None:
        """Take back everything that a connection had: leases at once, consumers, exclusive queues."""
        for consumer in self.consumers.pop(session_id, []):
            self.cancel(consumer)
        for key in [key for key in self.getters if key[0] == session_id]:
            self.return_gotten(key)
        for queue in [queue for queue in self.queues.values() if queue.owner == session_id]:
            self.remove_queue(queue)
        self.paused.discard(session_id)
        self.entered.discard(session_id)

    def channel_closed(self, session_id: i64, channel: i64) -> None:
        """Take back what a channel got one by one; its consumers are cancelled by the session."""
        for key in [key for key in self.getters if key[0] == session_id and key[1] == channel]:
            self.return_gotten(key)

    def return_gotten(self, key: tuple[int, int, int]) -> None:
        getter = self.getters.pop(key)
        queue = self.queues_by_id.get(getter.queue)
        if queue is not None:
            queue.groups[getter.group].remove(getter)
            self.mark(queue)

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
            queue = self.queues_by_id.get(consumer.queue)
            if queue is not None and not paused:
                self.mark(queue)

    # ---- the turn

    def end_turn(self, now_us: i64) -> list[Delivery]:
        """Seal what was published, hand out what may go, note what was settled; the deliveries of this turn."""
        self.now_us = now_us
        self.end_sessions()
        for internal in self.internals:
            internal.end_turn(now_us)
        out = self.sessions.take_deliveries()
        self.fanout.dispatch(now_us, out)
        self.replies.dispatch(now_us, out)
        again: list[Queue] = []
        for _ in range(PASSES_MAX):
            if not self.dirty:
                break
            dirty = self.dirty
            self.dirty = []
            for queue in dirty:
                queue.dirty = False
            for queue in dirty:
                self.end_turn_of(queue, now_us, out, again)
        for queue in self.dirty:  # dead letters that go round: they are in one frame with their settlement all the same
            if queue.log.writer.count:
                self.seal(queue, now_us)
        for queue in again:
            self.mark(queue)
        return out

    def end_turn_of(self, queue: Queue, now_us: i64, out: list[Delivery], again: list[Queue]) -> None:
        """What `end_turn` does with one queue; what dies in it may give others something to do in the same turn."""
        if queue.log.writer.count:
            self.seal(queue, now_us)
        if not queue.groups and queue.needs_group():
            self.add_group(queue, b"", b"", True, queue.log.start, True)
        if queue.dispatch(now_us, out):
            again.append(queue)
        for group in list(queue.groups.values()):
            if isinstance(group, WorkGroup):
                if group.overdue:
                    self.cancelled += group.overdue
                    group.overdue = []
                if group.dying:
                    self.dead_letters.move(self, queue, group, now_us)
        self.note_progress(queue)
        if self.dead_letters.awaited:
            self.dead_letters.made_room(self, queue)

    def refuse(self, queue: Queue, format: u8, route: Route, properties: bytes, body: bytes) -> None:
        super().refuse(queue, format, route, properties, body)
        if queue.limits.overflow == REJECT_PUBLISH_DLX:
            self.dead_letters.refused(self, queue, format, route.exchange, route.routing_key, properties, body)

    def end_sessions(self) -> None:
        """What sessions that have ended leave behind: wills, and places in shared subscriptions."""
        sessions = self.sessions
        while sessions.wills or sessions.left:
            wills, sessions.wills = sessions.wills, []
            for will in wills:
                self.publish_will(will)
            left, sessions.left = sessions.left, []
            for subscription in left:
                if subscription.filter.startswith(SHARE_PREFIX):
                    self.shares.leave(subscription.filter, subscription.client.number)

    def note_sessions(self) -> None:
        """After the deliveries of a turn: note which packets they went out in."""
        self.sessions.note_changes()
        for queue in self.dirty:
            if queue.kind == SHARE:  # what moved from it to a session must not be in both places after a crash
                self.note_progress(queue)

    def has_work(self) -> bool:
        """Whether another turn is due though nobody has sent anything."""
        sessions = self.sessions
        if sessions.log.writer.count > 0 or sessions.out or sessions.changed or sessions.wills or sessions.left:
            return True
        return bool(self.dirty) or self.fanout.writer.count > 0

    def note_progress(self, queue: Queue) -> None:
        """Log the settlements of a queue, and let its log forget what all work groups have settled."""
        log = queue.log
        for group in queue.groups.values():
            if isinstance(group, WorkGroup):
                progress = group.take_progress()
                returns = group.take_returns()
                if log.durable:
                    if returns:
                        self.store.note(RETURNS, queue.id, group.id, returns, False)
                    if progress:
                        self.store.note(SETTLED, queue.id, group.id, progress, False)
        floor = queue.floor()
        if floor > log.start:
            log.truncate(floor)

    def synced(self) -> None:
        """What the store had in hand is on disk: readers that wait for that may have it."""
        awaiting = self.awaiting
        self.awaiting = []
        for queue in awaiting:
            if queue.log.durable_end < queue.log.end:
                self.awaiting.append(queue)
            if has_readers(queue):
                self.mark(queue)

    def tick(self, now_us: i64) -> None:
        """What time alone brings, several times a second: leases that end, delays that are over, queues unused."""
        self.now_us = now_us  # on a quiet broker the turn before may be long ago
        for queue in list(self.queues.values()):
            if self.has_expired(queue, now_us):
                self.remove_queue(queue)
                continue
            for group in queue.groups.values():
                if isinstance(group, WorkGroup):
                    due = group.next_due_us()
                    if due and due <= now_us:
                        self.mark(queue)
        if self.store.full:
            return
        for message in self.delayed.due(now_us, DELAYED_AT_ONCE):
            outcome = publish_due(self, message)
            if outcome == REJECTED and self.common.room == 0:  # not for what the topic or a limit refuses
                self.delayed.put_back(message, now_us + RETRY_US)

    def has_expired(self, queue: Queue, now_us: i64) -> bool:
        """Whether nobody has used the queue for as long as it may stand idle."""
        expires_us = self.ephemeral_expiry_us if queue.kind == EPHEMERAL else queue.limits.expires_us
        if expires_us == 0 or queue.consumer_count():
            return False
        if not queue.unused_since_us:
            queue.unused_since_us = now_us
        return now_us - queue.unused_since_us > expires_us

    def sweep(self, now_us: i64) -> None:
        """About once a second: what expires, and what streams need not keep."""
        expired = self.sessions.expired
        self.sessions.tick(now_us)
        if self.sessions.expired != expired:
            self.epoch += 1  # routes may lead to sessions that are no more
        self.retained.sweep(now_us)
        self.dead_letters.retry(self, now_us)
        self.apply_retention(now_us)

    def apply_retention(self, now_us: i64) -> None:
        for queue in self.queues.values():
            if queue.kind == STREAM:
                limits = queue.limits  # 0 is no limit of a stream, whoever sets it
                queue.log.retain(now_us, limits.max_age_us, max(limits.max_octets, 0), max(limits.max_messages, 0))

    def commit_streams(self) -> None:
        """Log how far the stream groups have read: those that commit by themselves, at the interval of the option."""
        for queue in self.queues.values():
            for group in queue.groups.values():
                if isinstance(group, StreamGroup) and not group.name.startswith(b"\0"):
                    if group.auto:
                        group.commit_read()
                    progress = group.take_progress()
                    if progress and queue.log.durable:
                        self.store.note(CURSOR, queue.id, group.id, progress, False)

    def live(self, queue: i64, first: i64, end: i64) -> list[tuple[int, int]]:
        """The intervals of a queue's log within [first, end) that somebody may still want."""
        for internal in self.internals:
            if internal.number == queue:
                return internal.live(first, end)
        where = self.queues_by_id.get(queue)
        return [] if where is None else where.live(first, end)

    def configure_queue(self, name: bytes, spec: QueueSpec, topics: list[bytes], fallback: bool) -> Queue:
        """Make a queue of the configuration, or bring the one there is up to date."""
        queue = self.queues.get(name)
        if queue is None:
            check_queue_name(name)
            queue = self.make_queue(self.next_queue, name, kind_of(spec), spec)
            if fallback:
                self.fallback = queue
            self.command(queue_command(queue, fallback))
        for filter in topics:
            self.bind_topic(queue, filter)
        return queue


def is_work(queue: Queue, asked: ConsumerArguments) -> bool:
    """Whether a consumer takes from a work group, and does not read the queue as a stream."""
    if asked.start is not None:
        return False
    return queue.kind != STREAM or asked.group == primary_name(queue)


def has_readers(queue: Queue) -> bool:
    for group in queue.groups.values():  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
        if isinstance(group, StreamGroup) and group.consumers:
            return True
    return False


def check_gettable(vhost: bytes, queue: Queue, group: Group) -> None:
    """RequestError where records of a queue are for certain consumers only."""
    if queue.limits.single_active:
        raise RequestError(
            LOCKED,
            f"cannot obtain access to locked queue '{text(queue.name)}' in vhost '{text(vhost)}'. basic.get operations "
            f"are not supported by {queue.spec.type} queues with single active consumer",
        )
    check_exclusive(vhost, queue, group, False)


def check_exclusive(vhost: bytes, queue: Queue, group: Group, exclusive: bool) -> None:
    """RequestError where a consumer has the queue for itself, or wants it and there are others."""
    for other in group.consumers:
        if exclusive or other.exclusive:
            raise RequestError(REFUSED, f"queue '{text(queue.name)}' in vhost '{text(vhost)}' in exclusive use")
