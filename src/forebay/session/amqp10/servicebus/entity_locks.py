"""Requests about messages of an entity: to look at them, to lock them, and to settle those that are locked."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.contract import ANY_SESSION
from forebay.core.errors import INVALID, PRECONDITION, RequestError
from forebay.core.units import US_PER_MS
from forebay.queue.leases.lease import Consumer
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.outgoing.sending import SendingLink
from forebay.session.amqp10.servicebus.entity_messages import EntityMessages
from forebay.session.amqp10.servicebus.fields import (
    lock_tokens_in,
    sequence_numbers_in,
    session_in,
    text_field,
)
from forebay.session.amqp10.servicebus.locks import MessageLock, PeekLocks, uuid_order
from forebay.session.amqp10.servicebus.node_requests import number_in
from forebay.session.amqp10.servicebus.settlement import (
    ABANDON,
    COMPLETE,
    DEAD_LETTER,
    DEFER,
    LOCK_LOST,
    LOST_TEXT,
    LockOutcome,
    settle_lock,
)
from forebay.wire.amqp10.values import TIMESTAMP, Array, Map, Timestamp, Uuid

MESSAGE_NOT_FOUND: Final = "com.microsoft:message-not-found"
OUTCOMES: Final = {"completed": COMPLETE, "abandoned": ABANDON, "defered": DEFER, "suspended": DEAD_LETTER}
RECEIVE_AND_DELETE: Final = 0
PEEKED_MAX: Final = 1000
LOOK_SHIFT: Final = 4  # of the meter: runs of records that wait for a time, a point
SHARE_SHIFT: Final = 1  # of message_octets_max, that the messages of one answer take


@final
class EntityLocks:
    """The requests about messages of one queue, for one connection."""

    def __init__(self, context: LinkContext, queue: bytes) -> None:
        self.context = context
        self.vhost = context.vhost
        self.queue = queue

    def find_queue(self) -> Queue:
        """Return the queue, which may have gone; RequestError(NOT_FOUND)."""
        queue = self.vhost.queue(self.queue, ANY_SESSION)
        self.vhost.catch_up(queue)
        return queue

    def find_group(self, queue: Queue) -> WorkGroup | None:
        """Return the work group that entities stand for; None while nobody has ever received from the queue."""
        found = queue.find_group(b"")
        return found if isinstance(found, WorkGroup) else None

    def peek_locks(self) -> PeekLocks:
        locks = self.context.locks
        assert locks is not None, "entities are for clients of Azure Service Bus alone"
        return locks

    # ---- looking

    def peek(self, fields: dict[str, object]) -> Map:
        """Return messages from a sequence number on, whoever has locked them."""
        first = number_in(fields, "from-sequence-number")
        count = number_in(fields, "message-count")
        if count < 1:
            raise RequestError(INVALID, f"field 'message-count': {count} must be at least 1")
        session = session_in(fields)
        queue = self.find_queue()
        group = self.find_group(queue)
        if group is not None:
            self.take_points(group)
        octets = self.context.message_octets_max >> SHARE_SHIFT
        messages = EntityMessages(self.vhost, queue)
        first = min(max(first, 1), 1 << 62) - 1
        return Map([("messages", messages.peek(group, first, min(count, PEEKED_MAX), octets, session))])

    # ---- locks

    def find_locks(self, fields: dict[str, object]) -> list[MessageLock]:
        """Return the locks that a request names; RequestError(LOCK_LOST) if one is lost, or of another queue."""
        locks = self.peek_locks()
        queue = self.find_queue()
        found: list[MessageLock] = []
        for token in lock_tokens_in(fields):
            lock = locks.find(token)
            if lock is None or lock.lease.consumer.queue != queue.id:
                raise RequestError(LOCK_LOST, LOST_TEXT)
            found.append(lock)
        return found

    def renew(self, fields: dict[str, object]) -> Map:
        """Renew locks, and return until when they are."""
        expirations: list[object] = []
        for lock in self.find_locks(fields):
            self.vhost.settlement.extend(lock.lease, lock.offset, 1, 0)
            until_us = self.vhost.now_us() + lock.lease.consumer.timeout_us
            expirations.append(Timestamp(int(until_us // US_PER_MS)))
        return Map([("expirations", Array(TIMESTAMP, expirations))])

    def settle(self, fields: dict[str, object]) -> Map:
        """Settle locked messages."""
        status = text_field(fields, "disposition-status")
        kind = OUTCOMES.get(status)
        if kind is None:
            raise RequestError(INVALID, f"field 'disposition-status': '{status}' is none of {', '.join(OUTCOMES)}")
        outcome = LockOutcome(
            kind, text_field(fields, "deadletter-reason", ""), text_field(fields, "deadletter-description", "")
        )
        locks = self.peek_locks()
        for lock in self.find_locks(fields):
            settle_lock(self.vhost, locks, lock, outcome)
        self.context.vhost.hurry()
        self.context.committed = True
        return Map([])

    # ---- deferred messages

    def receive(self, fields: dict[str, object]) -> Map:
        """Lock deferred messages, or take them for good, and return them; all that are named, or none."""
        numbers = sequence_numbers_in(fields)
        mode = number_in(fields, "receiver-settle-mode")
        locks = self.peek_locks()
        queue = self.find_queue()
        group = self.find_group(queue)
        if group is None:
            raise not_deferred(self.queue)
        self.take_points(group)
        locks.check_room(len(numbers))
        consumer = self.find_consumer(queue, group)
        messages = EntityMessages(self.vhost, queue)
        found: list[object] = []
        for delivery in self.vhost.settlement.take_deferred(consumer, [number - 1 for number in numbers]):
            offset = delivery.block.base + delivery.index
            pairs: list[tuple[object, object]] = [("message", messages.encode(delivery, True))]
            lease = delivery.lease
            if lease is not None and mode == RECEIVE_AND_DELETE:
                self.vhost.settlement.ack(lease, offset, 1)
            elif lease is not None:
                pairs.insert(0, ("lock-token", Uuid(uuid_order(locks.hold(lease, offset).token))))
            found.append(Map(pairs))
        if not found:
            raise not_deferred(self.queue)
        self.context.vhost.hurry()
        self.context.committed = True
        return Map([("messages", found)])

    def take_points(self, group: WorkGroup) -> None:
        """Count the work of a look at all records that wait for a time."""
        self.context.meter.take(i64(len(group.delayed.heap)) >> LOOK_SHIFT)

    def find_consumer(self, queue: Queue, group: WorkGroup) -> Consumer:
        """Return a consumer of this connection by which deferred messages are locked.

        It is that of a link that receives, or one that gets nothing else.
        """
        for link in self.context.receivers.values():
            if isinstance(link, SendingLink) and link.is_attached and not link.consumer.no_ack:
                consumer = link.consumer
                if consumer.queue == queue.id and consumer.group == group.id:
                    return consumer
        if queue.limits.single_active:
            name = text(queue.name)
            raise RequestError(PRECONDITION, f"queue '{name}' has a single active consumer, which no link of this is")
        locks = self.peek_locks()
        found = locks.consumers.get(int(queue.id))
        if found is None or found not in group.consumers:
            session = self.context.session
            found = self.vhost.consuming.consume(self.queue, session.id, 0, b"", False, False, 0, {})
            self.vhost.consuming.flow(found, 0, False)
            locks.consumers[int(queue.id)] = found
        return found


def not_deferred(queue: bytes) -> RequestError:
    """Return the error of messages that cannot be received by their numbers."""
    return RequestError(MESSAGE_NOT_FOUND, f"queue '{text(queue)}': not all of these messages are deferred")
