"""The consumers of a vhost's queues, and how they settle what they were given."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.broker.address import DEAD_LETTER_PREFIX, dead_letter_address, queue_address
from forebay.broker.catalog.topology import FOREVER_MS
from forebay.broker.common import Common
from forebay.broker.consumer_arguments import ConsumerArguments, stream_start
from forebay.broker.events import QUEUE_NAME
from forebay.broker.mqtt.shares import Shares
from forebay.broker.primary import primary_name
from forebay.broker.publish.properties import MessageFacts
from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.replies import ReplyConsumer
from forebay.broker.publish.router import QUEUE_PREFIX
from forebay.core.errors import (
    INVALID,
    LOCKED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION,
    REFUSED,
    DamagedBlock,
    RequestError,
)
from forebay.core.options import Options
from forebay.log.store import Store
from forebay.queue.group import Group, leave
from forebay.queue.leases.lease import NACKED, UNLIMITED, Consumer, Delivery, Lease
from forebay.queue.queue import SHARE, STREAM, Queue, group_key
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.stream.stream_values import Selection, StreamValues
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text
from forebay.routing.topic_trie import check_filter


class Consuming(Publishing):
    """The consuming half of a vhost."""

    def __init__(
        self, name: bytes, store: Store, options: Options, number: i64 = 0, common: Common | None = None
    ) -> None:
        super().__init__(name, store, options, number, common)
        # Without a timeout: longer than anybody waits, and no overflow when it is added to the time of day.
        self.consumer_timeout_us: i64 = options.consumer_timeout_ms * 1000 or FOREVER_MS * 1000
        self.shares = Shares(options.mqtt_shared_strategy)
        self.stream_values = StreamValues(MessageFacts(self.common.looks))
        self.consumers: dict[int, list[Consumer]] = {}  # by session
        self.paused: set[int] = set()  # sessions whose connection takes no more octets
        self.getters: dict[int, dict[tuple[int, int], Consumer]] = {}  # by session; then by channel and queue
        self.next_consumer_id: i64 = 1
        self.early: list[Delivery] = []  # of this turn, before its end: see `catch_up`

    # ---- consuming

    def catch_up(self, queue: Queue) -> None:
        """Do for the queue what the turn's end would do with all that has happened so far.

        For whoever asks what is left of it then: consumers come first, and what is too much or too old is not there.
        """
        if not queue.dirty:
            return
        self.turn.now_us = self.store.clock.now_us()
        if queue.log.writer.count:
            self.turn.seal(queue)
        if queue.work_groups == 0 and queue.needs_group():
            self.catalog.add_group(queue, b"", b"", True, queue.log.start, True)
        queue.dispatch(self.turn.now_us, self.early)

    def take_early(self, consumer: Consumer) -> list[Delivery]:
        """The deliveries that a consumer about to go would get at the turn's end; nobody else delivers them."""
        queue = self.catalog.queues_by_id.get(consumer.queue)
        if queue is None or not queue.dirty:
            return []
        self.catch_up(queue)
        own: list[Delivery] = []
        others: list[Delivery] = []
        for delivery in self.early:
            if delivery.consumer is consumer:
                own.append(delivery)
            else:
                others.append(delivery)
        self.early = others
        self.common.delivered += own
        return own

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

        queue      name, `$queue/<name>[/<filter>]` or `$dlq/<name>[/<filter>]`; the second makes a queue where there is
                   none (see `addressed_queue`)
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
        if is_address and queue not in self.catalog.queues:
            self.router.addressed_queue(queue)
        where = self.catalog.queue(queue)
        self.catalog.check_owner(where, session_id)
        self.catch_up(where)
        asked = ConsumerArguments(arguments, self.name, where.name)
        work = is_work(where, asked)
        asked.check_kind(arguments, where, work)
        group = self.group_for(where, asked, filter, work)
        group.reader.check_sound()
        check_exclusive(self.name, where, group, exclusive)
        consumer = Consumer(
            self.next_consumer_id, where.id, group.id, session_id, channel, tag, no_ack, credit or UNLIMITED
        )
        self.next_consumer_id += 1
        consumer.prefetch = credit
        consumer.exclusive = exclusive
        consumer.priority = asked.priority
        consumer.arguments = arguments or None
        self.set_timeout(where, consumer, cancels, asked.timeout_us)
        consumer.queue_name = where.name
        consumer.group_name = group_key(group.name, group.filter)
        consumer.paused = session_id in self.paused
        self.join(where, group, consumer, asked)
        where.had_consumer = True
        where.unused_since_us = 0
        self.consumers.setdefault(session_id, []).append(consumer)
        self.turn.mark(where)
        self.tell_consumer("consumer.created", where, consumer)
        return consumer

    def tell_consumer(self, type: str, queue: Queue, consumer: Consumer) -> None:
        """Tell listeners to events of a consumer, unless that is how they listen."""
        if queue.kind == SHARE or queue.name == QUEUE_NAME:
            return
        facts: dict[str, object] = {
            "queue": queue.name,
            "consumer": consumer.tag,
            "connection": int(consumer.session_id),
            "channel": int(consumer.channel),
        }
        self.events.note(type, self.name, facts)

    def join(self, queue: Queue, group: Group, consumer: Consumer, asked: ConsumerArguments) -> None:
        """Have the group serve a new consumer, as it asks for it."""
        consumer.headers = asked.headers
        filter = asked.filter
        if filter is not None:
            consumer.filter = filter.text
        if isinstance(group, WorkGroup):
            if filter is not None:
                group.select(consumer, filter)
            if queue.kind == SHARE:
                self.shares.equip(group)
        group.add(consumer)

    def set_timeout(self, queue: Queue, consumer: Consumer, cancels: bool, asked_us: i64) -> None:
        """The time for which the consumer may hold a record, and what becomes of it then."""
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
            offset = (
                queue.log.start if work else stream_start(queue, asked.start, self.turn.now_us, len(asked.group) > 0)
            )
            group = self.catalog.add_group(queue, name, filter, work, offset, asked.auto_commit)
        elif isinstance(group, WorkGroup) != work:
            raise RequestError(INVALID, f"group '{text(name)}' of queue '{text(queue.name)}' is of the other kind")
        elif isinstance(group, StreamGroup) and asked.start not in (None, "resume") and not group.consumers:
            group.commit(stream_start(queue, asked.start, self.turn.now_us))
        if isinstance(group, StreamGroup):
            self.select(queue, group, asked)
        return group

    def select(self, queue: Queue, group: StreamGroup, asked: ConsumerArguments) -> None:
        """Have a stream group deliver what its consumers want, who must all want the same."""
        wanted: Selection | None = None
        if asked.values is not None or asked.filter is not None:
            wanted = Selection(asked.values, asked.unfiltered, self.stream_values, asked.filter, queue.name)
        found = group.wanted.selection
        if group.consumers:
            same = wanted is found if wanted is None or found is None else wanted.same(found)
            if not same:
                raise RequestError(
                    PRECONDITION,
                    f"group '{text(group.name)}' of queue '{text(queue.name)}' reads with another filter",
                )
            return
        group.select(wanted)

    def detach(self, consumer: Consumer) -> None:
        """Give a consumer nothing more; it may settle what it holds, and `cancel` takes that back."""
        queue = self.catalog.queues_by_id.get(consumer.queue)
        group = None if queue is None else queue.groups.get(consumer.group)
        if queue is not None and group is not None:
            group.detach(consumer)
            self.leave_unused(queue)

    def set_window(self, consumer: Consumer, size: i64) -> None:
        """From now on a consumer may hold so many records; UNLIMITED for any number."""
        consumer.set_window(size)
        queue = self.catalog.queues_by_id.get(consumer.queue)
        if queue is not None:
            self.turn.mark(queue)

    def flow(self, consumer: Consumer, credit: i64, drains: bool) -> None:
        """From now on a consumer may have so many more records, whatever it settles.

        drains  what is left of it when there is nothing more to hand out is lost: `consumer.drains` is False then
        """
        queue = self.catalog.queues_by_id.get(consumer.queue)
        group = None if queue is None else queue.groups.get(consumer.group)
        if queue is not None and group is not None:
            group.flow(consumer, credit, drains)
            self.turn.mark(queue)

    def leave_unused(self, queue: Queue) -> None:
        """A queue may end with its last consumer."""
        if queue.spec.auto_delete and queue.had_consumer and not queue.consumer_count():
            self.catalog.remove_queue(queue)

    def cancel(self, consumer: Consumer) -> None:
        """Detach a consumer; what it held returns at once. No error where its queue is gone."""
        own = self.consumers.get(consumer.session_id)
        if own is not None:
            leave(own, consumer)
        queue = self.catalog.queues_by_id.get(consumer.queue)
        if queue is None:
            return
        group = queue.groups.get(consumer.group)
        if group is None:
            return
        group.remove(consumer)
        if self.early:
            self.early = still_held(self.early, consumer)
        if isinstance(group, StreamGroup) and not group.consumers and group.name.startswith(b"\0"):
            queue.drop_group(group)
        self.turn.mark(queue)
        self.tell_consumer("consumer.deleted", queue, consumer)
        self.leave_unused(queue)

    def get(self, queue: bytes, session_id: i64, channel: i64, no_ack: bool) -> Delivery | None:
        """One record of the queue's nameless work group, at once; None where none is ready."""
        where = self.catalog.queue(queue)
        self.catalog.check_owner(where, session_id)
        if where.kind == STREAM:
            raise RequestError(
                NOT_IMPLEMENTED,
                f"basic.get not supported by stream queues queue '{text(where.name)}' in vhost '{text(self.name)}'",
            )
        group = self.group_for(where, ConsumerArguments({}, self.name, where.name), b"", True)
        assert isinstance(group, WorkGroup)
        check_gettable(self.name, where)
        group.reader.check_sound()
        getters = self.getters.setdefault(int(session_id), {})
        key = (int(channel), int(where.id))
        getter = getters.get(key)
        if getter is None:
            getter = Consumer(0, where.id, group.id, session_id, channel, b"", False, UNLIMITED)
            getter.queue_name = where.name
            self.set_timeout(where, getter, True, 0)
            getters[key] = getter
        self.turn.now_us = self.store.clock.now_us()
        self.catch_up(where)
        getter.no_ack = no_ack
        where.unused_since_us = self.turn.now_us
        self.turn.mark(where)
        try:
            return group.take_one(getter, self.turn.now_us)
        except DamagedBlock as error:
            group.reader.halt(error)
            raise

    def purge(self, name: bytes) -> int:
        """Take away all ready messages of every work group, or of the stream; how many these were.

        It is on the disk with this turn's commit.
        """
        queue = self.catalog.queue(name)
        self.store.hurry()
        self.catch_up(queue)
        count = queue.ready()
        if queue.kind == STREAM or queue.work_groups == 0:
            queue.log.truncate(queue.log.end)
            queue.counts.purged += count
        for group in queue.groups.values():
            group.purge()
        self.store.note_start(queue.log)  # a queue that nobody ever consumed from has no settlements to be noted
        self.turn.mark(queue)
        return count

    def delete_queue(self, name: bytes, if_unused: bool, if_empty: bool) -> int:
        """As `Topology.delete_queue`, of the queue as it is after all that has happened so far."""
        queue = self.catalog.queues.get(name)
        if queue is not None:
            self.catch_up(queue)
        return self.catalog.delete_queue(name, if_unused, if_empty)

    def truncate(self, name: bytes, below: i64) -> i64:
        """Have a stream forget its records below an offset; where it starts by then. RequestError for other queues.

        It is on the disk with this turn's commit.
        """
        queue = self.catalog.queue(name)
        if queue.kind != STREAM:
            raise RequestError(INVALID, f"queue: '{text(name)}' is no stream: it keeps what is not settled")
        self.store.hurry()
        queue.log.truncate(below)
        self.store.note_start(queue.log)
        self.turn.mark(queue)
        return queue.log.start

    # ---- settling

    def group_of(self, lease: Lease) -> Group | None:
        queue = self.catalog.queues_by_id.get(lease.consumer.queue)
        if queue is None:
            return None
        if not queue.dirty:
            queue.dirty = True
            self.turn.dirty.append(queue)
        return queue.groups.get(lease.consumer.group)

    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records of a lease; how many were held by it until now."""
        group = self.group_of(lease)
        return 0 if group is None else group.ack(lease, first, count)

    def nack(self, lease: Lease, first: i64, count: i64, delay_ms: i64, how: i64 = NACKED) -> i64:
        """Give records of a lease back: to the front of the queue, or to be leased again after a delay.

        how  NACKED by who held them, FAILED, or UNTRIED
        """
        group = self.group_of(lease)
        if group is None:
            return 0
        return group.give_back(lease, first, count, self.turn.now_us + delay_ms * 1000 if delay_ms > 0 else 0, how)

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
        return group.leases.extend(lease, first, count, self.turn.now_us + length_us)

    def find_lease(self, queue: bytes, group: bytes, offset: i64) -> Lease | None:
        """The lease of this record, if anybody holds it; RequestError if there is no such queue or group."""
        where = self.catalog.queue(queue)
        found = where.find_group(group)
        if found is None:
            raise RequestError(NOT_FOUND, f"no group '{text(group)}' on queue '{text(queue)}'")
        return found.leases.find(offset) if isinstance(found, WorkGroup) else None

    def may_settle(self, lease: Lease, session_id: i64) -> bool:
        """True if a connection may settle what the lease holds: its holder, and where the queue is sublet its group."""
        if lease.consumer.session_id == session_id:
            return True
        queue = self.catalog.queues_by_id.get(lease.consumer.queue)
        group = None if queue is None else queue.groups.get(lease.consumer.group)
        if queue is None or group is None or not queue.limits.sublet:
            return False
        for other in group.consumers:  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
            if other.session_id == session_id:
                return True
        return False

    def commit_offset(self, queue: bytes, group: bytes, offset: i64) -> None:
        """Make a stream group resume at `offset`; RequestError if there is no such group or offset."""
        where = self.catalog.queue(queue)
        found = where.find_group(group)
        if not isinstance(found, StreamGroup):
            raise RequestError(NOT_FOUND, f"no stream group '{text(group)}' on queue '{text(queue)}'")
        if offset < 0 or offset > where.log.end:
            raise RequestError(INVALID, f"offset {offset} is not within 0 .. {where.log.end} of queue '{text(queue)}'")
        found.commit(offset)
        self.turn.mark(where)


def still_held(deliveries: list[Delivery], gone: Consumer) -> list[Delivery]:
    """These without those of a consumer that has just given back everything."""
    kept: list[Delivery] = []
    for delivery in deliveries:
        if delivery.consumer is not gone or delivery.lease is None:
            kept.append(delivery)
    return kept


def is_work(queue: Queue, asked: ConsumerArguments) -> bool:
    """True if a consumer takes from a work group, and does not read the queue as a stream."""
    if asked.start is not None:
        return False
    return queue.kind != STREAM or asked.group == primary_name(queue)


def check_gettable(vhost: bytes, queue: Queue) -> None:
    """RequestError where records are for one consumer after the other; an exclusive consumer is in nobody's way."""
    if queue.limits.single_active:
        raise RequestError(
            LOCKED,
            f"cannot obtain access to locked queue '{text(queue.name)}' in vhost '{text(vhost)}'. basic.get operations "
            f"are not supported by {queue.spec.type} queues with single active consumer",
        )


def check_exclusive(vhost: bytes, queue: Queue, group: Group, exclusive: bool) -> None:
    """RequestError where a consumer has the queue for itself, or wants it and there are others, or may be."""
    refused = exclusive and queue.limits.single_active
    if group.consumers:  # who has it for itself is alone
        refused = refused or exclusive or group.consumers[0].exclusive
    if refused:
        raise RequestError(REFUSED, f"queue '{text(queue.name)}' in vhost '{text(vhost)}' in exclusive use")
