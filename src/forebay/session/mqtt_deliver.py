"""What leaves for an MQTT client: records become PUBLISH packets, within the client's window.

Packet identifiers run through a ring of slots not much larger than the window. A slot holds the run of consecutive
identifiers that its message was sent in, so that a message in flight costs a reference and no object of its own. What
the window has no room for waits as runs that refer to their block.

A delivery from a queue is at QoS 1 or, where nothing is to be settled, at QoS 0. A 3.1.1 client settles by PUBACK; a
version 5 client by a publish to `$queue/<queue>/$ack`, and its PUBACK only frees the window, unless it is an error:
then the record returns to the queue. What was read from a stream is settled by PUBACK in both.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, write_i16_be
from mypy_extensions import i64, u8

from forebay.broker.vhost import Vhost
from forebay.core.message import MQTT
from forebay.log.block import Block
from forebay.queue.leases import Consumer, Delivery, Lease
from forebay.wire.convert import convert
from forebay.wire.mqtt_codes import FAILURE, V5, V311
from forebay.wire.mqtt_properties import (
    STRING_OCTETS_MAX,
    append_user_property,
    i16_of,
    varint_octets,
    write_varint,
)

FORMAT_MASK: Final = 15  # the bits above hold the QoS of an MQTT publish
QUEUE_PREFIX: Final = b"$queue/"
DOLLAR: Final = 0x24
QOS_0: Final = 0x30
QOS_1: Final = 0x32
IDS_MAX: Final = 65_535
IDS_LEAST: Final = 64
PACKET_OCTETS_MAX: Final = 268_435_455 + 5
# Octets of a user property beside its value: identifier, two lengths and the name.
MESSAGE_ID_OCTETS: Final = 5 + 10
OFFSET_OCTETS: Final = 5 + 6
DELIVERY_COUNT_OCTETS: Final = 5 + 14
SWAP: Final = bytes.maketrans(b"/.+#", b"./*_")


@final
class QueueSubscription:
    """A subscription to `$queue/<name>[/<filter>]`, and what each of its deliveries says alike.

    arguments  as given to `Vhost.consume`, to tell whether a repeated SUBSCRIBE changes anything
    """

    def __init__(self, filter: bytes, consumer: Consumer, arguments: dict[str, object]) -> None:
        self.filter = filter
        self.consumer = consumer
        self.arguments = arguments
        self.name = consumer.queue_name
        self.prefix = QUEUE_PREFIX + consumer.queue_name + b"/"
        self.message_id_prefix = consumer.queue_name + b":"
        tail = BytesWriter()
        if not consumer.group_name.startswith(b"\0"):  # a stream cursor of its own has no name to tell
            append_user_property(tail, b"group-id", consumer.group_name)
        append_user_property(tail, b"queue", consumer.queue_name)
        self.tail = tail.getvalue()


@final
class Flight:
    """Messages in flight under consecutive packet identifiers; `lease` is None where PUBACK settles nothing."""

    def __init__(self, first_id: i64, first_offset: i64, lease: Lease | None) -> None:
        self.first_id: i64 = first_id
        self.first_offset: i64 = first_offset
        self.lease = lease


@final
class Waiting:
    """Records block[index .. end) for which the window has no room yet."""

    def __init__(self, consumer: Consumer, block: Block, index: i64, end: i64, lease: Lease | None) -> None:
        self.consumer = consumer
        self.block = block
        self.index: i64 = index
        self.end: i64 = end
        self.lease = lease


@final
class Outbox:
    """The sending half of one MQTT connection."""

    def __init__(self, session_id: i64, vhost: Vhost, out: BytesWriter, backlog_octets_max: i64) -> None:
        self.session_id = session_id
        self.vhost = vhost
        self.out = out
        self.version: i64 = V311
        self.window: i64 = 1
        self.packet_octets_max: i64 = PACKET_OCTETS_MAX
        self.queues: dict[int, QueueSubscription] = {}  # by consumer
        self.slots: list[Flight | None] = []  # by packet identifier; made with the first message
        self.ids: i64 = 0
        self.last_id: i64 = 0
        self.inflight: i64 = 0
        self.direct = Flight(0, 0, None)  # stands for every message of a topic subscription
        self.backlog: deque[Waiting] = deque()
        self.backlog_octets: i64 = 0  # of topic subscriptions; a queue's consumer is bounded by its credit
        self.backlog_octets_max: i64 = backlog_octets_max
        # PUBACKs of neighbours, to be settled as one run
        self.acked: Lease | None = None
        self.acked_first: i64 = 0
        self.acked_count: i64 = 0
        self.sent: i64 = 0
        self.dropped: i64 = 0
        self.too_large: i64 = 0
        self.unknown_acks: i64 = 0

    # ---- deliveries

    def deliver(self, delivery: Delivery) -> None:
        """Write what the window allows; the rest waits."""
        consumer = delivery.consumer
        block = delivery.block
        index = delivery.index
        end = index + delivery.count
        if consumer.queue < 0 and consumer.qos == 0:
            while index < end:
                self.write_direct(block, index, 0)
                index += 1
            return
        # What is not to be settled needs no window; and while the connection is paused no queue delivers.
        if (consumer.queue >= 0 and consumer.no_ack) or (not self.backlog and not self.is_paused()):
            index = self.send(consumer, block, index, end, delivery.lease)
        if index < end:
            self.wait(Waiting(consumer, block, index, end, delivery.lease))

    def is_paused(self) -> bool:
        """Whether the connection takes no more octets for now."""
        paused = self.vhost.paused
        return len(paused) > 0 and self.session_id in paused

    def send(self, consumer: Consumer, block: Block, index: i64, end: i64, lease: Lease | None) -> i64:
        """Write records until the window is full; index of the first one not written."""
        if consumer.queue >= 0:
            queue = self.queues.get(consumer.id)
            if queue is None:
                return end  # cancelled: its leases have returned
            return self.send_queued(queue, block, index, end, lease)
        data = block.data
        while index < end:
            format = i64(data[block.formats_at + index])
            if format == MQTT:
                self.write_direct(block, index, 0)
            else:
                if self.inflight >= self.window:
                    return index
                id = self.next_id()
                if self.write_direct(block, index, id):
                    self.slots[id] = self.direct
                    self.inflight += 1
            index += 1
        return end

    def send_queued(self, queue: QueueSubscription, block: Block, index: i64, end: i64, lease: Lease | None) -> i64:
        if lease is None:
            while index < end:
                self.write_queued(queue, block, index, 0, 1)
                index += 1
            return end
        flight: Flight | None = None
        offset = block.base + index
        while index < end:
            if self.inflight >= self.window:
                return index
            id = self.next_id()
            if flight is None or id - flight.first_id != offset - flight.first_offset:
                flight = Flight(id, offset, lease)
            if self.write_queued(queue, block, index, id, lease.deliveries):
                self.slots[id] = flight
                self.inflight += 1
            else:
                self.vhost.reject(lease, offset, 1)  # it cannot be sent to this client, ever [MQTT-3.1.2-25]
            offset += 1
            index += 1
        return end

    def next_id(self) -> i64:
        """The next free packet identifier; there is one, as there are more of them than the window is wide."""
        if self.ids == 0:
            ids = 2 * self.window
            ids = max(ids, IDS_LEAST)
            self.ids = min(IDS_MAX, ids)
            self.slots = [None] * (self.ids + 1)
        id = self.last_id + 1
        while True:
            if id > self.ids:
                id = 1
            if self.slots[id] is None:
                self.last_id = id
                return id
            id += 1

    # ---- packets

    def write_direct(self, block: Block, index: i64, id: i64) -> bool:
        """Append a PUBLISH for a topic subscription, at QoS 1 if it has an identifier; False if it is too large."""
        data = block.data
        at = block.key_at + 4 * index
        base = block.key_octets_at
        topic = data[base + i64(read_i32_le(data, at)) : base + i64(read_i32_le(data, at + 4))]
        format = i64(data[block.formats_at + index]) & FORMAT_MASK
        if format != MQTT:
            topic = topic_of_key(topic)
        properties = b""
        if self.version == V5:
            at = block.properties_at + 4 * index
            base = block.properties_octets_at
            start = base + i64(read_i32_le(data, at))
            stop = base + i64(read_i32_le(data, at + 4))
            if format != MQTT:
                properties = convert(int(format), data[start:stop], MQTT)
            elif start < stop:
                properties = data[start:stop]
        at = block.body_at + 4 * index
        base = block.body_octets_at
        start = base + i64(read_i32_le(data, at))
        stop = base + i64(read_i32_le(data, at + 4))
        octets: i64 = len(properties)
        if not self.write_head(topic, id, octets, stop - start):
            return False
        out = self.out
        if octets:
            out.write(properties)
        out.write(data[start:stop])
        return True

    def write_head(self, topic: bytes, id: i64, properties: i64, body: i64) -> bool:
        """Append a PUBLISH up to its properties, of which so many octets follow; False if it would be too large."""
        octets: i64 = len(topic)
        rest = 2 + octets + body
        if id:
            rest += 2
        if self.version == V5:
            rest += varint_octets(properties) + properties
        if rest + 1 + varint_octets(rest) > self.packet_octets_max or octets > STRING_OCTETS_MAX or octets == 0:
            self.too_large += 1
            return False
        out = self.out
        out.append(QOS_1 if id else QOS_0)
        if rest < 128:
            out.append(u8(rest))
        else:
            write_varint(out, rest)
        write_i16_be(out, i16_of(octets))
        out.write(topic)
        if id:
            write_i16_be(out, i16_of(id))
        if self.version == V5:
            if properties < 128:
                out.append(u8(properties))
            else:
                write_varint(out, properties)
        self.sent += 1
        return True

    def write_queued(self, queue: QueueSubscription, block: Block, index: i64, id: i64, deliveries: i64) -> bool:
        """Append a PUBLISH for a queue subscription; False if it is too large."""
        format = block.format(index) & FORMAT_MASK
        topic = queued_topic(queue, format, block.exchange(index), block.routing_key(index))
        body = block.body(index)
        if self.version != V5:
            if not self.write_head(topic, id, 0, len(body)):
                return False
            self.out.write(body)
            return True
        properties = block.properties(index)
        if format != MQTT:
            properties = convert(int(format), properties, MQTT)
        digits = str(int(block.base + index)).encode()
        octets: i64 = len(properties) + len(queue.tail) + MESSAGE_ID_OCTETS + len(queue.message_id_prefix)
        octets += OFFSET_OCTETS + 2 * len(digits)
        count = b""
        if deliveries > 1:
            count = str(int(deliveries)).encode()
            octets += DELIVERY_COUNT_OCTETS + len(count)
        if not self.write_head(topic, id, octets, len(body)):
            return False
        out = self.out
        out.write(properties)
        out.write(queue.tail)
        out.write(b"\x26\x00\x0amessage-id")
        write_i16_be(out, i16_of(len(queue.message_id_prefix) + len(digits)))
        out.write(queue.message_id_prefix)
        out.write(digits)
        out.write(b"\x26\x00\x06offset")
        write_i16_be(out, i16_of(len(digits)))
        out.write(digits)
        if deliveries > 1:
            append_user_property(out, b"delivery-count", count)
        out.write(body)
        return True

    # ---- the backlog

    def wait(self, waiting: Waiting) -> None:
        """Keep records until the window opens; of topic subscriptions the oldest go when they are too many."""
        self.backlog.append(waiting)
        if waiting.consumer.queue >= 0:
            return
        self.backlog_octets += span(waiting.block, waiting.index, waiting.end)
        while self.backlog_octets > self.backlog_octets_max:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        for waiting in self.backlog:
            if waiting.consumer.queue < 0:
                self.backlog_octets -= span(waiting.block, waiting.index, waiting.index + 1)
                waiting.index += 1
                self.dropped += 1
                if waiting.index == waiting.end:
                    self.backlog.remove(waiting)
                return
        raise AssertionError("octets wait for topic subscriptions, and no record does")

    def drain(self) -> None:
        """Send what waits, as far as window and connection allow."""
        backlog = self.backlog
        while backlog and not self.is_paused():
            waiting = backlog[0]
            index = waiting.index
            lease = waiting.lease
            if lease is not None and lease.left == 0:
                backlog.popleft()  # expired while it waited: the records are somebody else's
                continue
            next = self.send(waiting.consumer, waiting.block, index, waiting.end, lease)
            if waiting.consumer.queue < 0:
                self.backlog_octets -= span(waiting.block, index, next)
            if next < waiting.end:
                waiting.index = next
                return
            backlog.popleft()

    def forget(self, consumer: Consumer) -> None:
        """A queue's consumer is cancelled: what waits for it is not its own any more."""
        self.queues.pop(consumer.id, None)
        self.backlog = deque([waiting for waiting in self.backlog if waiting.consumer is not consumer])

    def sweep(self) -> None:
        """Let go of blocks whose lease has expired while they waited, then send what may be sent."""
        if self.backlog:
            kept: deque[Waiting] = deque()
            for waiting in self.backlog:
                if waiting.lease is None or waiting.lease.left:
                    kept.append(waiting)
            self.backlog = kept
            self.drain()

    # ---- acknowledgements

    def acknowledged(self, id: i64, code: i64) -> None:
        """PUBACK: the window has one place more, and the record is settled where that is how the client settles."""
        flight = self.slots[id] if id <= self.ids and self.ids else None
        if flight is None:
            self.unknown_acks += 1
            return
        self.slots[id] = None
        self.inflight -= 1
        lease = flight.lease
        if lease is None:
            return
        offset = flight.first_offset + id - flight.first_id
        if code >= FAILURE:
            self.settle()
            self.vhost.nack(lease, offset, 1, 0)
        elif self.version == V311 or lease.page is None:
            if lease is self.acked and offset == self.acked_first + self.acked_count:
                self.acked_count += 1
                return
            self.settle()
            self.acked = lease
            self.acked_first = offset
            self.acked_count = 1

    def settle(self) -> None:
        """Settle the run of records that the last PUBACKs acknowledged."""
        lease = self.acked
        if lease is not None:
            self.vhost.ack(lease, self.acked_first, self.acked_count)
            self.acked = None


def span(block: Block, index: i64, end: i64) -> i64:
    """About how many octets of packets these records are."""
    data = block.data
    octets = block.body_span(index, end - index) + 8 * (end - index)
    at = block.key_at
    octets += i64(read_i32_le(data, at + 4 * end)) - i64(read_i32_le(data, at + 4 * index))
    at = block.properties_at
    return octets + i64(read_i32_le(data, at + 4 * end)) - i64(read_i32_le(data, at + 4 * index))


def queued_topic(queue: QueueSubscription, format: i64, exchange: bytes, key: bytes) -> bytes:
    """The topic of a delivery from a queue: as published if that was to `$queue/…`, else below `$queue/<queue>/`."""
    if len(key) > 6 and key[0] == DOLLAR and key.startswith(QUEUE_PREFIX):
        return key if format == MQTT else clean_topic(key)
    if format == MQTT:
        return queue.prefix + key
    if not exchange and key == queue.name:
        return queue.prefix[:-1]  # AMQP's default exchange: the queue's name is the whole address
    return queue.prefix + topic_of_key(key)


def topic_of_key(key: bytes) -> bytes:
    """An AMQP routing key as a topic name: '.' and '/' change places; what no topic may contain becomes '_' or '*'."""
    return clean_topic(key.translate(SWAP))


def clean_topic(topic: bytes) -> bytes:
    if b"+" in topic or b"#" in topic or b"\0" in topic:
        topic = topic.replace(b"+", b"*").replace(b"#", b"_").replace(b"\0", b"_")
    if topic.isascii():
        return topic
    return topic.decode("utf-8", "replace").encode("utf-8")
