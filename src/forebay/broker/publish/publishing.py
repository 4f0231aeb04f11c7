"""Publishes: a message is appended to the queues and for the subscribers to which its route leads.

Nothing here knows who consumes. What was appended in a turn is sealed at its end, by `Vhost.end_turn`.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.internal_log import ANNOTATION_OVERHEAD, RECORD_OVERHEAD
from forebay.broker.mqtt.audience import Audience
from forebay.broker.mqtt.retained import Retained
from forebay.broker.mqtt.sessions import Sessions
from forebay.broker.publish.admission import Admission
from forebay.broker.publish.deduplication import Deduplication, address_of
from forebay.broker.publish.delayed import Delayed
from forebay.broker.publish.headers import PublishHeaders
from forebay.broker.publish.last_value_publish import LastValuePublisher
from forebay.broker.publish.outcome import NO_ROOM, NO_WAY, TAKEN, PublishOutcome
from forebay.broker.publish.publishing_contract import PublishingContract
from forebay.broker.publish.route import Route
from forebay.broker.publish.router import Router
from forebay.broker.turn import Turn
from forebay.core.errors import RequestError, note_half_change
from forebay.core.message import (
    ACCEPTED,
    EXPIRES,
    KEYED,
    REJECTED,
    RETAIN,
    STORED_MASK,
)
from forebay.log.block import LONG_OCTETS, Block
from forebay.message import events
from forebay.message.address import QUEUE_PREFIX, TOPIC_EXCHANGE, queue_address
from forebay.message.formats.table import AT_QOS_0, MARKED_LATE, format_of
from forebay.message.record import StoredRecord
from forebay.message.recurrence import next_time_us
from forebay.message.rendered import rendered
from forebay.message.subject import PublishedSubject
from forebay.queue.declaration.limits import REJECT_PUBLISH_DLX
from forebay.queue.queue import SHARE, Queue
from forebay.queue.ready.selector import look_cost
from forebay.routing.cut_work import WorkInHand
from forebay.routing.exchange import text
from forebay.routing.flow import ExchangeCounts

BLOCK_OCTETS: Final = 64 << 20  # a block longer than this is sealed before the turn ends
MARKS: Final = EXPIRES | KEYED
SUBJECT_OCTETS_MAX: Final = 1 << 16  # of the body of a message that is remembered for the next queue with a filter


@final
class RefusedMessage:
    """A message that a full queue did not take, for the queue's dead-letter exchange."""

    def __init__(self, queue: Queue, record: StoredRecord) -> None:
        self.queue = queue
        self.record = record


@final
class Publishing(PublishingContract):
    """Appends messages wherever their routes lead.

    published  messages so far
    refused    by queues that want them at their dead-letter exchange, which the end of the turn sends there
    last_value  appends to last-value queues
    subject    the message that a queue's filter has looked at last
    """

    def __init__(
        self,
        catalog: Catalog,
        turn: Turn,
        router: Router,
        admission: Admission,
        sessions: Sessions,
        retained: Retained,
        delayed: Delayed,
        deduplication: Deduplication,
    ) -> None:
        self.catalog = catalog
        self.turn = turn
        self.router = router
        self.admission = admission
        self.sessions = sessions
        self.retained = retained
        self.delayed = delayed
        self.deduplication = deduplication
        self.fanout = router.fanout
        self.crowding = admission.crowding
        self.events = catalog.events
        self.last_value = LastValuePublisher(turn)
        self.published: i64 = 0
        self.refused: list[RefusedMessage] = []
        self.subject: PublishedSubject | None = None

    def publish(
        self, route: Route, format: u8, properties: bytes, body: bytes, annotations: bytes = b"", owed: bool = False
    ) -> PublishOutcome:
        """Append a record wherever its route leads. Return what became of it.

        format       with the marks EXPIRES and KEYED, except those of formats with `marks_late`, which are found here
        annotations  of a record that was in a queue already; subscribers get the headers that they stand for
        owed         the broker has taken it long ago: no session's quota refuses it
        """
        try:
            audience, queues, flow = route.audience, route.queues, route.flow
            if not queues and audience is None and not route.copies:
                return self.miss(flow)
            if route.durable:
                refusal = self.admission.admit(route, format, len(properties) + len(body) + len(annotations), owed)
                if refusal is not None:
                    return refusal
            self.published += 1
            flow.published_in += 1
            flow.published_out += route.reach
            outcome, stored, is_long = TAKEN, format, len(body) >= LONG_OCTETS  # a long one is alone in its block
            if queues and MARKED_LATE[i64(format)]:
                stored = format & STORED_MASK | (u8(format_of(i64(format)).marks(properties)) if properties else u8(0))
            for queue in queues:
                writer = queue.log.writer
                if queue.limits.refuses and self.leaves_out(queue, route, format, properties, body, annotations):
                    outcome = self.refuse(outcome, queue, stored, route, properties, body, annotations)
                    continue
                if is_long and writer.count:
                    self.turn.seal(queue)
                if queue.kind == SHARE or annotations:
                    self.append_annotated(queue, route, format, stored, properties, body, annotations)
                else:
                    if stored & MARKS:
                        self.catalog.note_marks(queue, i64(stored))
                    writer.append(stored, route.exchange, route.routing_key, properties, body)
                if not queue.dirty:
                    queue.dirty = True
                    self.turn.dirty.append(queue)
                if queue.crowded:
                    outcome = outcome.pressed(queue)
                if is_long or writer.bodies.size() > BLOCK_OCTETS:
                    self.turn.seal(queue)
            if annotations and (audience is not None or route.copies):
                properties = rendered(i64(format), properties, annotations)
            if audience is not None:
                if AT_QOS_0[i64(format)]:
                    audience = audience.zero
                if audience.direct:
                    self.fanout.append(audience, format, route.exchange, route.routing_key, properties, body)
                if audience.logged:
                    self.sessions.append(audience, format, route.origin, route.routing_key, properties, body)
            if route.copies:
                self.publish_copies(route, u8(format_of(i64(format)).number), properties, body)
            if self.events.publishes or (audience is not None and self.crowding.count):
                outcome = self.conclude(route, audience, format, body, outcome)
            return outcome
        except Exception as error:
            note_half_change(error)
            raise

    def leaves_out(
        self, queue: Queue, route: Route, format: u8, properties: bytes, body: bytes, annotations: bytes
    ) -> bool:
        """Return whether a queue does not take a message, or not as it is: see `refuse`."""
        if queue.last_values is not None:
            return True
        return queue.refuses(len(body)) or not self.wants(queue, route, format, properties, body, annotations)

    def wants(self, queue: Queue, route: Route, format: u8, properties: bytes, body: bytes, annotations: bytes) -> bool:
        """Return whether the filter of a queue, if it has one, lets a message in."""
        condition = queue.limits.publish_filter
        if condition is None:
            return True
        subject = self.subject
        if subject is None or not subject.is_of(i64(format), route.routing_key, properties, body):
            subject = PublishedSubject(i64(format), route.exchange, route.routing_key, properties, body, annotations)
        self.subject = subject if len(body) <= SUBJECT_OCTETS_MAX else None
        matches = condition.matches(subject)
        queue.properties.looks.charge(look_cost(condition, i64(len(body))), subject)
        return matches

    def replace(
        self,
        outcome: PublishOutcome,
        queue: Queue,
        format: u8,
        route: Route,
        properties: bytes,
        body: bytes,
        annotations: bytes,
    ) -> PublishOutcome:
        """Append a record to a last-value queue. Return the outcome of the publish with what became of it there."""
        last_values = queue.last_values
        assert last_values is not None
        if not self.wants(queue, route, format, properties, body, annotations):
            return outcome
        stored = i64(format) & ~KEYED  # of one key there is one record
        record = StoredRecord(stored, route.exchange, route.routing_key, properties, body, annotations)
        reason = self.last_value.append(queue, last_values, record)
        if reason:
            return self.note_refusal(outcome, queue, record, reason)
        if stored & EXPIRES:
            self.catalog.note_marks(queue, stored & EXPIRES)
        self.turn.mark(queue)
        if queue.log.writer.bodies.size() > BLOCK_OCTETS:
            self.turn.seal(queue)
        return outcome.pressed(queue) if queue.crowded else outcome

    def miss(self, flow: ExchangeCounts) -> PublishOutcome:
        """Count a message as unroutable, and return the outcome."""
        flow.published_in += 1
        flow.unroutable += 1
        return NO_WAY

    def append_annotated(
        self, queue: Queue, route: Route, format: u8, stored: u8, properties: bytes, body: bytes, annotations: bytes
    ) -> None:
        """Append a record to a shared subscription, or one that was in a queue already."""
        writer = queue.log.writer
        if queue.kind == SHARE:
            shown = rendered(i64(format), properties, annotations) if annotations else properties
            writer.append_annotated(format, route.exchange, route.routing_key, shown, body, route.publisher)
            return
        if stored & MARKS:
            self.catalog.note_marks(queue, i64(stored))
        writer.append_annotated(stored, route.exchange, route.routing_key, properties, body, annotations)

    def conclude(
        self, route: Route, audience: Audience | None, format: u8, body: bytes, outcome: PublishOutcome
    ) -> PublishOutcome:
        """Return the outcome of a publish with one of its subscribers that does not keep up; note the publish."""
        if audience is not None and self.crowding.count and outcome.pressing is None:
            if audience.epoch != self.crowding.epoch:
                audience.look(self.crowding.epoch)
            if audience.crowded is not None:
                outcome = outcome.pressed(audience.crowded)
        if self.events.publishes and outcome.status == ACCEPTED:
            fields = events.message_fields(route.exchange, route.routing_key, i64(format), body)
            self.events.note(events.PUBLISHED, self.catalog.name, fields)
        return outcome

    def publish_block(self, route: Route, block: Block, formats: bytes, marks: i64) -> bool:
        """Append all records of a block to the queues of a route, none of which refuses any; False without room for it.

        formats  one octet a record, marks included; those that any of them has are in `marks`
        """
        if route.durable and not self.admission.take_room((block.octets() + RECORD_OVERHEAD) * route.durable):
            return False
        self.published += block.count
        route.flow.published_in += block.count
        route.flow.published_out += block.count * route.reach
        for queue in route.queues:
            if marks:
                self.catalog.note_marks(queue, marks)
            writer = queue.log.writer
            writer.append_all(block, formats)
            self.turn.mark(queue)
            if writer.bodies.size() > BLOCK_OCTETS:
                self.turn.seal(queue)
        if self.events.publishes:
            fields = events.block_fields(route.exchange, route.routing_key, block)
            self.events.note(events.PUBLISHED, self.catalog.name, fields)
        return True

    def publish_copies(self, route: Route, format: u8, properties: bytes, body: bytes) -> None:
        """Publish for the subscribers whom further routing keys reach."""
        for copy in route.copies:
            if copy.audience.direct:
                self.fanout.append(copy.audience, format, route.exchange, copy.key, properties, body)
            for recipient in copy.audience.logged:
                # Alone: others who subscribed to this topic may have the message under another key already.
                alone = Audience()
                alone.logged.append(recipient)
                self.sessions.append_private(recipient.client, alone, format, copy.key, properties, body)

    def refuse(
        self,
        outcome: PublishOutcome,
        queue: Queue,
        format: u8,
        route: Route,
        properties: bytes,
        body: bytes,
        annotations: bytes,
    ) -> PublishOutcome:
        """Return the outcome of a publish that a queue refuses, too: it is full, or the message is too long for it.

        A message that the queue's filter leaves out is none of its publisher's business. A last-value queue takes most.
        """
        if queue.last_values is not None:
            return self.replace(outcome, queue, format, route, properties, body, annotations)
        if not self.wants(queue, route, format, properties, body, annotations):
            return outcome
        record = StoredRecord(i64(format), route.exchange, route.routing_key, properties, body, annotations)
        return self.note_refusal(outcome, queue, record, queue.refusal(len(body)))

    def note_refusal(self, outcome: PublishOutcome, queue: Queue, record: StoredRecord, why: str) -> PublishOutcome:
        """Return the outcome of a publish with a queue that refuses it, and dead-letter it if the queue does that."""
        self.admission.rejected += 1
        queue.counts.refused += 1
        if queue.limits.overflow == REJECT_PUBLISH_DLX and queue.limits.dead_letter_exchange is not None:
            self.refused.append(RefusedMessage(queue, record))
        reason = f"queue '{text(queue.name)}' in vhost '{text(self.catalog.name)}' {why}"
        return PublishOutcome(REJECTED, reason, [*outcome.queues, queue], outcome.pressing)

    def take_refused(self) -> list[RefusedMessage]:
        """Messages that full queues have refused since the last call, and that go to a dead-letter exchange."""
        refused = self.refused
        if refused:
            self.refused = []
        return refused

    def publish_topic(self, topic: bytes, format: u8, properties: bytes, body: bytes) -> PublishOutcome:
        """Publish what no client waits for: wills, delayed messages."""
        try:
            route = self.router.route_topic(topic, None)
        except RequestError as error:
            return PublishOutcome(REJECTED, error.text)
        if format & RETAIN:
            retained = self.retain(topic, format, properties, body)
            if retained is not TAKEN:
                return retained
        if route.headers_exchange is not None:
            route = self.router.resolve(route, format, properties)
        return self.publish(route, format, properties, body, b"", True)

    def retain(self, topic: bytes, format: u8, properties: bytes, body: bytes) -> PublishOutcome:
        """Keep the message for those who subscribe later, or forget the one there is: TAKEN, or why not."""
        try:
            octets = len(properties) + len(body) + RECORD_OVERHEAD + len(topic)
            if not self.admission.take_room(octets):
                return NO_ROOM
            refusal = self.retained.put(topic, format, properties, body, self.turn.now_us)
            if refusal:
                self.admission.rejected += 1
                return PublishOutcome(REJECTED, refusal)
            self.events.note(
                events.RETAINED, self.catalog.name, events.message_fields(TOPIC_EXCHANGE, topic, i64(format), body)
            )
            return TAKEN
        except Exception as error:
            note_half_change(error)
            raise

    def delay(
        self,
        key: bytes,
        due_us: i64,
        format: u8,
        topic: bytes,
        properties: bytes,
        body: bytes,
        exchange: bytes = b"",
        recurrence: bytes = b"",
    ) -> PublishOutcome:
        """Keep a message until its time: TAKEN, or why not. RequestError as `Delayed.put`, or for a view's address."""
        try:
            if topic.startswith(QUEUE_PREFIX):
                self.router.named_queue(queue_address(topic)[0])
            overhead = RECORD_OVERHEAD + ANNOTATION_OVERHEAD + len(key) + len(recurrence)
            octets = len(properties) + len(body) + overhead + len(topic) + len(exchange)
            if not self.admission.take_room(octets):
                return NO_ROOM
            self.delayed.put(key, due_us, format, topic, properties, body, exchange, recurrence)
            return TAKEN
        except Exception as error:
            note_half_change(error)
            raise

    # ---- what headers ask for

    def publish_with_headers(
        self, route: Route, headers: PublishHeaders, format: u8, body: bytes, user: bytes, found: Route | None = None
    ) -> PublishOutcome:
        """Publish for a user with what the headers ask for; what was taken before is TAKEN, and not published again.

        found  the message's route by all its keys and headers, where it is known already
        """
        identity = headers.identity
        if identity is None:
            return self.publish_or_delay(route, headers, format, body, found)
        identity.user = user
        seen = self.deduplication
        if seen.is_known(address_of(route.exchange, route.routing_key), identity, self.turn.now_us):
            return TAKEN
        if not self.admission.take_room(seen.octets(identity)):
            return NO_ROOM
        outcome = self.publish_or_delay(route, headers, format, body, found)
        if outcome.status == ACCEPTED:
            seen.remember(identity)
        return outcome

    def publish_or_delay(
        self, route: Route, headers: PublishHeaders, format: u8, body: bytes, found: Route | None
    ) -> PublishOutcome:
        due_us = headers.due_us
        if due_us == 0 and headers.delay_us:
            due_us = self.turn.now_us + headers.delay_us
        if headers.recurrence:
            due_us = next_time_us(headers.recurrence, self.turn.now_us)
        if due_us <= self.turn.now_us:
            found = found or self.route_with_headers(route, headers, format)
            return self.publish(found, format, headers.properties, body)
        try:
            return self.delay(
                headers.delay_id,
                due_us,
                format,
                route.routing_key,
                headers.delayed,
                body,
                route.exchange,
                headers.recurrence,
            )
        except RequestError as error:  # too many wait already
            return PublishOutcome(REJECTED, error.text)

    def route_with_headers(
        self, route: Route, headers: PublishHeaders, format: u8, work: WorkInHand | None = None
    ) -> Route:
        """Return the route of a message by all its routing keys."""
        router = self.router
        if headers.keys:
            keys = [route.routing_key, *headers.keys]
            return router.route_all(route.exchange, keys, format, headers.properties, work)
        return route if route.headers_exchange is None else router.resolve(route, format, headers.properties, work)
