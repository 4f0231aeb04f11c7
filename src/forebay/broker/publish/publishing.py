"""Publishes: where a message goes, and how it gets there.

Nothing here knows who consumes. What was appended in a turn is sealed at its end, by `Vhost.end_turn`.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, u8

from forebay.broker import events
from forebay.broker.address import TOPIC_EXCHANGE
from forebay.broker.catalog.topology import Topology
from forebay.broker.common import Common
from forebay.broker.internal_log import ANNOTATION_OVERHEAD, RECORD_OVERHEAD
from forebay.broker.mqtt.client_session import ClientSession, Will
from forebay.broker.mqtt.fanout import DIRECT, LOGGED, Audience, Fanout, Recipient, identifier_property
from forebay.broker.mqtt.retained import Retained, RetainedMessage
from forebay.broker.mqtt.session_recovery import StoredSessions
from forebay.broker.publish.deduplication import Deduplication
from forebay.broker.publish.delayed import Delayed
from forebay.broker.publish.replies import Replies
from forebay.broker.publish.router import Route, Router
from forebay.broker.publish.staging import Staging
from forebay.broker.turn import Turn
from forebay.core.errors import RequestError
from forebay.core.message import (
    ACCEPTED,
    EXPIRES,
    FORMAT_MASK,
    KEYED,
    MQTT,
    QOS_MASK,
    QOS_SHIFT,
    REJECTED,
    RETAIN,
    RETAINED,
    UNROUTABLE,
)
from forebay.core.option_names import DROP, HOLD
from forebay.core.options import Options
from forebay.log.block import LONG_OCTETS, Block
from forebay.log.store import Store
from forebay.message.fields import marks_of
from forebay.queue.mqueue import HIGHEST, LOWEST, MqueueRules
from forebay.queue.queue import SHARE, STREAM, Queue
from forebay.routing.exchange import text
from forebay.wire.mqtt.properties import WILL_DELAY, rest_of_expiry, without

BLOCK_OCTETS: Final = 64 << 20  # a block longer than this is sealed before the turn ends
MILLISECOND_US: Final = 1000
MARKS: Final = EXPIRES | KEYED
KEPT: Final = FORMAT_MASK | QOS_MASK  # of the format octet, in queues; equals MQTT for a publish of QoS 0


class Publishing:
    """The publishing half of a vhost."""

    def __init__(
        self, name: bytes, store: Store, options: Options, number: i64 = 0, common: Common | None = None
    ) -> None:
        self.name = name
        self.number: i64 = number
        self.store = store
        self.common = Common() if common is None else common
        self.events = self.common.events
        self.turn = Turn(name, store, self.common)
        self.catalog = Topology(name, number, store, self.common, self.turn, options)
        self.fanout = Fanout(options.mqtt_mqueue_store_qos0)
        self.router = Router(self.catalog, self.fanout, options)
        self.sessions = StoredSessions(store, self.fanout, mqueue_rules(options), options.mqtt_sessions_max, number)
        self.retained = Retained(store, options.mqtt_retained_max, options.mqtt_retained_octets_max, number)
        self.delayed = Delayed(store, options.mqtt_delayed_max, number)
        window_ms, keys_max = options.deduplication_window_ms, options.deduplication_keys_max
        self.deduplication = Deduplication(store, window_ms, keys_max, number)
        memory_ms, expiry_ms, most = options.transaction_memory_ms, options.staging_expiry_ms, options.transactions_max
        self.staging = Staging(store, memory_ms, expiry_ms, most, number)
        self.turn.internals = [self.sessions, self.retained, self.delayed, self.deduplication, self.staging]
        self.replies = Replies(self.common)
        self.crowding = self.fanout.crowding = self.sessions.quota.crowding = self.common.crowding
        self.sessions.quota.octets_max = session_octets_of(options)
        self.crowding.hold_us = hold_us_of(options)
        self.refusal = ""
        self.published: i64 = 0
        self.rejected: i64 = 0

    # ---- publishing

    def publish(self, route: Route, format: u8, properties: bytes, body: bytes) -> i64:
        """Append a record wherever its route leads: ACCEPTED, UNROUTABLE, or REJECTED (see `refusal`).

        format  with the marks EXPIRES and KEYED, of AMQP; those of MQTT are found here
        """
        audience, queues, flow = route.audience, route.queues, route.flow
        if not queues and audience is None and not route.copies:
            flow.published_in += 1
            flow.unroutable += 1
            return UNROUTABLE
        if route.durable:
            octets = len(properties) + len(body) + RECORD_OVERHEAD + len(route.exchange) + len(route.routing_key)
            if (self.crowding.refusing and self.refuses(route, format)) or not self.take_room(octets * route.durable):
                return REJECTED
        self.published += 1
        flow.published_in += 1
        flow.published_out += route.reach
        is_long = len(body) >= LONG_OCTETS  # alone in its block, where it is not copied
        outcome: i64 = ACCEPTED
        stored = format
        if queues and format & FORMAT_MASK == MQTT:
            stored = format & KEPT | (u8(marks_of(MQTT, properties)) if properties else u8(0))
        for queue in queues:
            writer = queue.log.writer
            if queue.limits.refuses and queue.refuses(len(body)):
                self.refuse(queue, stored, route, properties, body)
                outcome = REJECTED
                continue
            if is_long and writer.count:
                self.turn.seal(queue)
            if queue.kind == SHARE:
                writer.append_annotated(format, route.exchange, route.routing_key, properties, body, route.publisher)
            else:
                if stored & MARKS:
                    self.heed(queue, i64(stored))
                writer.append(stored, route.exchange, route.routing_key, properties, body)
            if not queue.dirty:
                queue.dirty = True
                self.turn.dirty.append(queue)
            if queue.crowded:
                self.common.pressing = queue
            if is_long or writer.bodies.size() > BLOCK_OCTETS:
                self.turn.seal(queue)
        if audience is not None:
            if format & KEPT == MQTT:
                audience = audience.zero
            if audience.direct:
                self.fanout.append(audience, format, route.exchange, route.routing_key, properties, body)
            if audience.logged:
                self.sessions.append(audience, format, route.origin, route.routing_key, properties, body)
            if self.crowding.count and self.common.pressing is None:
                self.press(audience)
        if route.copies:
            self.publish_copies(route, format & FORMAT_MASK, properties, body)
        if self.events.publishes and outcome == ACCEPTED:
            self.tell_publish(route, i64(format), body)
        return outcome

    def publish_owed(self, route: Route, format: u8, properties: bytes, body: bytes) -> i64:
        """As `publish`, of what the broker has taken long ago: no session's quota refuses it."""
        refusing = self.crowding.refusing
        self.crowding.refusing = 0
        outcome = self.publish(route, format, properties, body)
        self.crowding.refusing = refusing
        return outcome

    def refuses(self, route: Route, format: u8) -> bool:
        """As `is_over_quota`, of a message that may be one of QoS 0, which such a session passes over."""
        return format & KEPT != MQTT and self.is_over_quota(route)

    def is_over_quota(self, route: Route) -> bool:
        """True if a message would go to a session for which too much waits; says `refusal`."""
        client = refusing_client(route.audience)
        for copy in route.copies:
            client = client or refusing_client(copy.audience)
        if client is None:
            return False
        waits = f"more than {self.sessions.quota.octets_max} octets wait for it, mqtt_session_octets_max"
        self.refusal = f"MQTT client '{text(client.client_id)}' takes no more: {waits}"
        self.rejected += 1
        return True

    def press(self, audience: Audience) -> None:
        """Somebody has published to these; the server holds it back where one of them does not keep up."""
        epoch = self.crowding.epoch
        if audience.epoch != epoch:
            audience.look(epoch)
        self.common.pressing = audience.crowded

    def tell_publish(self, route: Route, format: i64, body: bytes) -> None:
        """Somebody wants to hear of every message."""
        facts = events.message_facts(route.exchange, route.routing_key, format, body)
        self.events.note(events.PUBLISHED, self.name, facts)

    def publish_block(self, route: Route, block: Block, formats: bytes, marks: i64) -> bool:
        """Append all records of a block to the queues of a route, none of which refuses any; False without room for it.

        formats  one octet a record, marks included; those that any of them has are in `marks`
        """
        if route.durable and not self.take_room((block.octets() + RECORD_OVERHEAD) * route.durable):
            return False
        self.published += block.count
        route.flow.published_in += block.count
        route.flow.published_out += block.count * route.reach
        for queue in route.queues:
            if marks:
                self.heed(queue, marks)
            writer = queue.log.writer
            writer.append_all(block, formats)
            self.turn.mark(queue)
            if writer.bodies.size() > BLOCK_OCTETS:
                self.turn.seal(queue)
        if self.events.publishes:
            facts = events.block_facts(route.exchange, route.routing_key, block)
            self.events.note(events.PUBLISHED, self.name, facts)
        return True

    def publish_copies(self, route: Route, format: u8, properties: bytes, body: bytes) -> None:
        """For the subscribers whom further routing keys reach."""
        for copy in route.copies:
            if copy.audience.direct:
                self.fanout.append(copy.audience, format, route.exchange, copy.key, properties, body)
            for target in copy.audience.logged:
                # Alone: others who subscribed to this topic may have the message under another key already.
                alone = Audience()
                alone.logged.append(target)
                self.sessions.append_private(target.client, alone, format, copy.key, properties, body)

    def heed(self, queue: Queue, marks: i64) -> None:
        """Have the queue look for what a record's marks say that there is in its properties."""
        if queue.kind == STREAM:
            return
        if marks & KEYED and not queue.keyed:
            self.catalog.key_queue(queue)
        if marks & EXPIRES and queue.work_groups == 0:
            self.catalog.add_group(queue, b"", b"", True, queue.log.start, True)

    def refuse(self, queue: Queue, format: u8, route: Route, properties: bytes, body: bytes) -> None:
        """The queue does not take the message: it is full, or the message is too long for it."""
        self.rejected += 1
        queue.counts.refused += 1
        self.refusal = f"queue '{text(queue.name)}' in vhost '{text(self.name)}' {queue.refusal(len(body))}"

    def publish_topic(self, topic: bytes, format: u8, properties: bytes, body: bytes) -> i64:
        """Publish what nobody waits for: wills, delayed messages. Nobody hears of what is refused."""
        try:
            route = self.router.route_topic(topic, None)
        except RequestError:
            return REJECTED
        if format & RETAIN and not self.retain(topic, format, properties, body):
            return REJECTED
        if route.headers_exchange is not None:
            route = self.router.resolve(route, format, properties)
        pressing = self.common.pressing
        outcome = self.publish_owed(route, format, properties, body)
        self.common.pressing = pressing  # no connection has published that
        return outcome

    def retain(self, topic: bytes, format: u8, properties: bytes, body: bytes) -> bool:
        """Keep the message for those who subscribe later, or forget the one there is; False with a `refusal`."""
        octets = len(properties) + len(body) + RECORD_OVERHEAD + len(topic)
        if not self.take_room(octets):
            return False
        refusal = self.retained.put(topic, format, properties, body, self.turn.now_us)
        if refusal:
            self.rejected += 1
            self.refusal = refusal
        else:
            self.events.note(events.RETAINED, self.name, events.message_facts(TOPIC_EXCHANGE, topic, i64(format), body))
        return not refusal

    def give_retained(self, client: ClientSession, qos: i64, identifier: i64, message: RetainedMessage) -> None:
        """Deliver a retained message to a client that has just subscribed."""
        format = message.format | RETAINED
        qos = min(qos, (message.format & QOS_MASK) >> QOS_SHIFT)
        target = Recipient(client, LOGGED if qos and client.durable else DIRECT, qos)
        target.identifiers = identifier_property(identifier)
        properties = rest_of_expiry(message.properties, self.turn.now_us - message.stamp_us)
        audience = Audience()
        if target.queue == LOGGED:
            octets = len(properties) + len(message.body) + RECORD_OVERHEAD + len(message.topic)
            if self.take_room(octets):
                audience.logged.append(target)
                self.sessions.append_private(client, audience, u8(format), message.topic, properties, message.body)
            return
        audience.direct.append(target)
        self.fanout.append(audience, u8(format), TOPIC_EXCHANGE, message.topic, properties, message.body)

    def delay(
        self,
        key: bytes,
        due_us: i64,
        format: u8,
        topic: bytes,
        properties: bytes,
        body: bytes,
        exchange: bytes = b"",
    ) -> bool:
        """Publish the message later; False with a `refusal`."""
        overhead = RECORD_OVERHEAD + ANNOTATION_OVERHEAD + len(key)
        octets = len(properties) + len(body) + overhead + len(topic) + len(exchange)
        if not self.take_room(octets):
            return False
        self.delayed.put(key, due_us, format, topic, properties, body, exchange)
        return True

    def publish_will(self, will: Will) -> None:
        block = without(will.properties, 1 << WILL_DELAY)
        retain = RETAIN if will.retain else 0
        self.publish_topic(will.topic, u8(MQTT | will.qos << QOS_SHIFT | retain), block, will.body)

    def take_room(self, octets: i64) -> bool:
        """Count so much towards what the log has room for; False, with a `refusal`, if the disk is full."""
        common = self.common
        if octets > common.room and not self.make_room(octets):
            return False
        common.room -= octets
        return True

    def has_room(self, octets: i64) -> bool:
        """True if `take_room` would give so much."""
        return octets <= self.common.room or self.make_room(octets)

    def make_room(self, octets: i64) -> bool:
        """Let the log grow by so much; False if the disk is full."""
        common = self.common
        gathered = common.gathered()
        if self.store.reserve(gathered + octets):
            common.room = self.store.room() - gathered
            return True
        common.room = 0
        self.rejected += 1
        self.refusal = "no room on the disk"
        return False


def refusing_client(audience: Audience | None) -> ClientSession | None:
    """The first of them that takes nothing of QoS 1 and 2."""
    if audience is not None:
        for target in audience.logged:
            if target.qos and target.client.refuses:
                return target.client
    return None


def session_octets_of(options: Options) -> int:
    """The octets that may wait for one session; who has the oldest give way goes by their number."""
    return 0 if options.mqtt_mqueue_overflow == DROP else options.mqtt_session_octets_max


def mqueue_rules(options: Options) -> MqueueRules:
    """The rules for message queues of sessions, out of the options."""
    limit = options.mqtt_max_mqueue_len if options.mqtt_mqueue_overflow == DROP else 0
    priorities = {topic.encode(): priority for topic, priority in options.mqtt_mqueue_priorities.items()}
    default = HIGHEST if options.mqtt_mqueue_default_priority == "highest" else LOWEST
    rules = MqueueRules(limit, options.mqtt_mqueue_store_qos0, priorities, default)
    rules.qos0_bypass = options.mqtt_mqueue_qos0_bypass
    if options.mqtt_mqueue_overflow == HOLD:
        rules.crowd_at = options.mqtt_max_mqueue_len
    return rules


def hold_us_of(options: Options) -> int:
    """The time for which a publisher is held back for a client that does not keep up."""
    return 0 if options.mqtt_mqueue_overflow == DROP else options.mqtt_publisher_hold_ms * MILLISECOND_US
