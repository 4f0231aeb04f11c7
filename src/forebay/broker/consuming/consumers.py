"""The consumers of a vhost's queues: how they come and go, and what they ask for."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.catalog.topology import FOREVER_MS
from forebay.broker.consuming.consumer_arguments import ConsumerArguments, stream_start
from forebay.broker.consuming.consuming_contract import ConsumingContract
from forebay.broker.consuming.dispatcher import Dispatcher
from forebay.broker.consuming.primary import primary_name
from forebay.broker.consuming.shares import Shares
from forebay.broker.limits.topology_memory import consumer_octets
from forebay.broker.properties import MessageProperties
from forebay.broker.publish.replies import Replies, ReplyConsumer
from forebay.broker.publish.router import QUEUE_PREFIX, Router
from forebay.broker.query.queries import Queries
from forebay.core.errors import (
    INVALID,
    LOCKED,
    NOT_IMPLEMENTED,
    PRECONDITION,
    REFUSED,
    DamagedBlock,
    RequestError,
    note_half_change,
)
from forebay.message.address import DEAD_LETTER_PREFIX, dead_letter_address, queue_address
from forebay.message.events import QUEUE_NAME
from forebay.queue.group import Group, leave
from forebay.queue.leases.lease import FAILED, UNLIMITED, Consumer, Delivery
from forebay.queue.queue import SHARE, STREAM, Queue, group_key
from forebay.queue.stream.browse_group import BrowseGroup
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.stream.stream_values import Selection, StreamValues
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text
from forebay.routing.topic_trie import check_filter


@final
class Consumers(ConsumingContract):
    """The consumers of a vhost.

    by_session  those of each session
    getters     of each session what holds the records it got one by one; by channel and queue
    paused      sessions whose connection takes no more octets
    timeout_us  for which a consumer may hold a record where neither it nor its queue says
    parting     how records return whose consumer goes: UNTRIED once the broker itself sends all consumers away
    """

    def __init__(
        self,
        router: Router,
        dispatcher: Dispatcher,
        replies: Replies,
        shares: Shares,
        queries: Queries,
        timeout_ms: i64,
    ) -> None:
        self.name = router.catalog.name
        self.catalog = router.catalog
        self.turn = dispatcher.turn
        self.router = router
        self.dispatcher = dispatcher
        self.replies = replies
        self.shares = shares
        self.queries = queries
        self.events = router.catalog.events
        # Without a timeout: longer than anybody waits, and no overflow when it is added to the time of day.
        self.timeout_us: i64 = timeout_ms * 1000 or FOREVER_MS * 1000
        self.stream_values = StreamValues(MessageProperties(dispatcher.filter_budget))
        self.by_session: dict[int, list[Consumer]] = {}
        self.paused: set[int] = set()
        self.getters: dict[int, dict[tuple[int, int], Consumer]] = {}
        self.next_id: i64 = 1
        self.parting: i64 = FAILED

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

        queue      name, `$queue/<name>[/<filter>]`, which makes the queue if there is none, or `$dlq/<name>[/<filter>]`
        credit     records it may hold unsettled; 0 is no limit
        arguments  see `ConsumerArguments`
        cancels    it is cancelled when it holds a record for too long; else the record just returns
        """
        try:
            is_address = queue.startswith(QUEUE_PREFIX)
            queue, filter = queue_and_filter(queue)
            if is_address and queue not in self.catalog.queues:
                self.router.addressed_queue(queue)
            where = self.catalog.queue(queue)
            self.catalog.check_owner(where, session_id)
            self.dispatcher.catch_up(where)
            asked = ConsumerArguments(arguments, self.name, where.name)
            query = None if asked.query is None else self.queries.begin_for(where, asked.query, session_id, tag)
            if query is not None:
                asked.start = int(query.query.end)
            work = is_work(where, asked)
            asked.check_kind(arguments, where, work)
            check_unfiltered(self.name, where, asked, work)
            octets = consumer_octets(tag, arguments)
            self.catalog.memory.check(session_id, octets, f"consumer of '{text(where.name)}'")
            group = self.group_for(where, asked, filter, work)
            group.reader.check_sound()
            check_exclusive(self.name, where, group, exclusive)
            consumer = Consumer(self.next_id, where.id, group.id, session_id, channel, tag, no_ack, credit or UNLIMITED)
            self.next_id += 1
            consumer.prefetch = credit
            consumer.exclusive = exclusive
            consumer.priority = asked.priority
            consumer.arguments = arguments or None
            self.set_timeout(where, consumer, cancels, asked.timeout_us)
            limit_backlog(where, consumer, credit or UNLIMITED)
            name_places(where, group, consumer)
            consumer.paused = session_id in self.paused
            self.join(where, group, consumer, asked)
            self.by_session.setdefault(session_id, []).append(consumer)
            self.catalog.memory.add(session_id, octets)
            self.turn.mark(where)
            self.tell_consumer("consumer.created", where, consumer)
            if query is not None:
                self.queries.asked.append(query)
            return consumer
        except Exception as error:
            note_half_change(error)
            raise

    def browse(
        self, queue: bytes, session_id: i64, channel: i64, tag: bytes, no_ack: bool, arguments: dict[str, object]
    ) -> Consumer:
        """Attach a consumer that gets copies of what waits in a queue, the oldest first, and takes nothing of it.

        The parameters are those of `consume`. Of the arguments a name of a group, and a filter, have a meaning.
        """
        try:
            name, filter = queue_and_filter(queue)
            where = self.catalog.queue(name)
            self.catalog.check_owner(where, session_id)
            self.dispatcher.catch_up(where)
            asked = ConsumerArguments(arguments, self.name, where.name)
            octets = consumer_octets(tag, arguments)
            self.catalog.memory.check(session_id, octets, f"consumer of '{text(where.name)}'")
            id = -self.next_id
            group = BrowseGroup(
                id, asked.group, filter, where.log, where.start(), where.limits, where.properties, asked.filter
            )
            consumer = Consumer(self.next_id, where.id, id, session_id, channel, tag, no_ack, UNLIMITED)
            self.next_id += 1
            consumer.arguments = arguments or None
            consumer.filter = "" if asked.filter is None else asked.filter.text
            consumer.queue_name = where.name
            consumer.paused = session_id in self.paused
            group.add(consumer)
            where.browsers[int(id)] = group
            where.unused_since_us = 0
            self.by_session.setdefault(session_id, []).append(consumer)
            self.catalog.memory.add(session_id, octets)
            self.turn.mark(where)
            return consumer
        except Exception as error:
            note_half_change(error)
            raise

    def tell_consumer(self, type: str, queue: Queue, consumer: Consumer) -> None:
        """Tell listeners to events of a consumer, unless that is how they listen."""
        if queue.kind == SHARE or queue.name == QUEUE_NAME:
            return
        fields: dict[str, object] = {
            "queue": queue.name,
            "consumer": consumer.tag,
            "connection": int(consumer.session_id),
            "channel": int(consumer.channel),
        }
        self.events.note(type, self.name, fields)

    def join(self, queue: Queue, group: Group, consumer: Consumer, asked: ConsumerArguments) -> None:
        """Have the group serve a new consumer, as it asks for it."""
        consumer.headers = asked.headers
        consumer.counts = asked.counts
        filter = asked.filter
        if filter is not None:
            consumer.filter = filter.text
        if isinstance(group, WorkGroup):
            if filter is not None:
                group.select(consumer, filter)
            if queue.kind == SHARE:
                self.shares.equip(group)
        group.add(consumer)
        queue.had_consumer = True
        queue.unused_since_us = 0

    def set_timeout(self, queue: Queue, consumer: Consumer, cancels: bool, asked_us: i64) -> None:
        """Set how long a consumer may hold a record, and whether the consumer is cancelled after that."""
        limits = queue.limits
        consumer.tells_lease = limits.tells_leases
        consumer.settles_at_send = consumer.no_ack or limits.settles_at_send
        if limits.visibility_us or not cancels:
            consumer.timeout_us = limits.visibility_us or queue.spec.visibility_ms * 1000
            return
        consumer.timeout_us = asked_us or limits.consumer_timeout_us or self.timeout_us
        consumer.cancels = True

    def consume_replies(self, session_id: i64, channel: i64, tag: bytes) -> ReplyConsumer:
        """Attach a consumer of answers, see `Replies`."""
        try:
            opened = self.replies.open(self.next_id, session_id, channel, tag)
            self.next_id += 1
            opened.consumer.paused = session_id in self.paused
            self.by_session.setdefault(session_id, []).append(opened.consumer)
            return opened
        except Exception as error:
            note_half_change(error)
            raise

    def group_for(self, queue: Queue, asked: ConsumerArguments, filter: bytes, work: bool) -> Group:
        """Return the group that a consumer asks for. Creates the group if it does not exist."""
        name = asked.group
        if not work and not name:
            name = b"\0%d" % self.next_id  # a cursor of its own
        group = queue.find_group(group_key(name, filter))
        if group is None:
            offset = queue.start() if work else stream_start(queue, asked.start, self.turn.now_us, len(asked.group) > 0)
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
        try:
            queue = self.catalog.queues_by_id.get(consumer.queue)
            group = None if queue is None else queue.group_of(consumer)
            if queue is not None and group is not None:
                group.detach(consumer)
                self.leave_unused(queue)
        except Exception as error:
            note_half_change(error)
            raise

    def set_window(self, consumer: Consumer, size: i64) -> None:
        """Let a consumer hold so many records from now on; UNLIMITED for any number."""
        try:
            consumer.set_window(size)
            queue = self.catalog.queues_by_id.get(consumer.queue)
            if queue is not None:
                self.turn.mark(queue)
        except Exception as error:
            note_half_change(error)
            raise

    def flow(self, consumer: Consumer, credit: i64, drains: bool) -> None:
        """Let a consumer have so many more records from now on, whatever it settles.

        credit  what it has been delivered in this turn already, and its session has not been handed yet, counts for it
        drains  what is left of it when there is nothing more to deliver is lost: `consumer.drains` is False then
        """
        try:
            queue = self.catalog.queues_by_id.get(consumer.queue)
            group = None if queue is None else queue.group_of(consumer)
            if queue is not None and group is not None:
                group.flow(consumer, max(0, credit - self.dispatcher.count_early(consumer)), drains)
                self.turn.mark(queue)
        except Exception as error:
            note_half_change(error)
            raise

    def leave_unused(self, queue: Queue) -> None:
        """Remove an auto-delete queue that has lost its last consumer."""
        if queue.spec.auto_delete and queue.had_consumer and not queue.consumer_count():
            self.catalog.remove_queue(queue)

    def cancel(self, consumer: Consumer) -> None:
        """Detach a consumer; what it held returns at once. No error where its queue is gone."""
        try:
            own = self.by_session.get(consumer.session_id)
            if own is not None and leave(own, consumer) >= 0:
                self.give_back(consumer)
            queue = self.catalog.queues_by_id.get(consumer.queue)
            if queue is None:
                return
            group = queue.group_of(consumer)
            if group is None:
                return
            group.remove(consumer, self.parting)
            self.dispatcher.forget(consumer)
            if isinstance(group, BrowseGroup):
                del queue.browsers[group.id]
                return
            if isinstance(group, StreamGroup) and not group.consumers and group.name.startswith(b"\0"):
                queue.drop_group(group)
            self.turn.mark(queue)
            self.tell_consumer("consumer.deleted", queue, consumer)
            self.leave_unused(queue)
        except Exception as error:
            note_half_change(error)
            raise

    def get(self, queue: bytes, session_id: i64, channel: i64, no_ack: bool) -> Delivery | None:
        """One record of the queue's nameless work group, at once; None where none is ready."""
        try:
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
                getter.log_number = where.source.number
                self.set_timeout(where, getter, True, 0)
                getters[key] = getter
            self.turn.now_us = self.catalog.store.clock.now_us()
            self.dispatcher.catch_up(where)
            getter.no_ack = no_ack
            getter.settles_at_send = no_ack or where.limits.settles_at_send
            where.unused_since_us = self.turn.now_us
            self.turn.mark(where)
            if where.paused or group.paused:
                return None
            try:
                delivery = group.take_one(getter, self.turn.now_us)
            except DamagedBlock as error:
                group.reader.halt(error)
                raise
            if delivery is not None and where.limits.notes_deliveries:
                group.note_delivery(delivery)
                self.turn.sync_first(where, session_id)
            return delivery
        except Exception as error:
            note_half_change(error)
            raise

    def close_session(self, session_id: i64) -> None:
        """Take back everything that a connection's consumers had: leases at once."""
        for consumer in reversed(self.by_session.pop(session_id, [])):
            self.give_back(consumer)
            self.cancel(consumer)
        for getter in self.getters.pop(session_id, {}).values():
            self.return_gotten(getter)
        self.paused.discard(session_id)

    def give_back(self, consumer: Consumer) -> None:
        """Count what the arguments of a consumer take no more."""
        if consumer.queue > 0:
            self.catalog.memory.add(consumer.session_id, -consumer_octets(consumer.tag, consumer.arguments))

    def close_channel(self, session_id: i64, channel: i64) -> None:
        """Take back what a channel got one by one; its consumers are cancelled by the session."""
        try:
            getters = self.getters.get(session_id, {})
            for key in [key for key in getters if key[0] == channel]:
                self.return_gotten(getters.pop(key))
        except Exception as error:
            note_half_change(error)
            raise

    def take_early(self, consumer: Consumer) -> list[Delivery]:
        """Return the deliveries that a consumer about to go would get at the end of the turn."""
        return self.dispatcher.take_early(consumer)

    def has_consumers(self, session_id: i64) -> bool:
        """Return whether a session has consumers."""
        return bool(self.by_session.get(session_id))

    def is_paused(self, session_id: i64) -> bool:
        """Return whether a session's connection takes no more octets for now."""
        paused = self.paused
        return len(paused) > 0 and session_id in paused

    def return_gotten(self, getter: Consumer) -> None:
        queue = self.catalog.queues_by_id.get(getter.queue)
        if queue is not None:
            queue.groups[getter.group].remove(getter, self.parting)  # the nameless one, which is not deleted
            self.turn.mark(queue)

    def pause(self, session_id: i64, paused: bool) -> None:
        """Stop or resume deliveries to a session whose connection does not keep up."""
        try:
            if paused:
                self.paused.add(session_id)
            else:
                self.paused.discard(session_id)
            for consumer in self.by_session.get(session_id, []):
                consumer.paused = paused
                queue = self.catalog.queues_by_id.get(consumer.queue)
                if queue is not None and not paused:
                    self.turn.mark(queue)
        except Exception as error:
            note_half_change(error)
            raise


def queue_and_filter(address: bytes) -> tuple[bytes, bytes]:
    """Return the name of the queue that a consumer names, and its filter, which is "" for all messages."""
    filter = b""
    if address.startswith(QUEUE_PREFIX):
        address, filter = queue_address(address)
    elif address.startswith(DEAD_LETTER_PREFIX):
        address, filter = dead_letter_address(address)
    if filter == b"#":
        return address, b""
    if filter:
        check_filter(filter)
    return address, filter


def is_work(queue: Queue, asked: ConsumerArguments) -> bool:
    """Return whether a consumer takes from a work group rather than reading the queue as a stream."""
    if asked.start is not None:
        return False
    return queue.kind != STREAM or asked.group == primary_name(queue)


def check_unfiltered(vhost: bytes, queue: Queue, asked: ConsumerArguments, work: bool) -> None:
    """Refuse a consumer that wants only some of the records, where the rounds of a fair key choose them."""
    if work and asked.filter is not None and queue.limits.fair_key is not None:
        raise RequestError(
            PRECONDITION,
            f"queue '{text(queue.name)}' in vhost '{text(vhost)}' has x-fair-key: its consumers cannot have filters. "
            "Leave the filter out, or declare a view with x-filter over a stream",
        )


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


def limit_backlog(queue: Queue, consumer: Consumer, credit: i64) -> None:
    """Let a consumer hold at most what its queue allows to each; its own credit is the limit where that is smaller."""
    if queue.limits.max_subscription_backlog and not consumer.no_ack:
        consumer.backlog_max = queue.limits.max_subscription_backlog
        consumer.set_window(credit)


def name_places(queue: Queue, group: Group, consumer: Consumer) -> None:
    """Tell a consumer the names of its queue and group, and the number of the log that it reads."""
    consumer.queue_name = queue.name
    consumer.log_number = queue.source.number
    consumer.group_name = group_key(group.name, group.filter)
