"""Records as PUBLISH packets for one MQTT client: topic, properties, expiry, aliases, limits of size.

A packet is built from the record's octets where they are; nothing of it is parsed that has not to be changed. What
looks alike for many subscribers is encoded once: see `encodings_key`.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i32_le, write_i16_be
from mypy_extensions import i64, u8

from forebay.broker.consuming.primary import PrimaryGroup
from forebay.broker.mqtt.audience import Recipient
from forebay.core.message import FORMAT_MASK, MQTT, QOS_MASK, QOS_SHIFT, RETAIN, RETAINED
from forebay.core.pieces import Part
from forebay.core.units import US_PER_S
from forebay.log.block import LONG_OCTETS, Block
from forebay.message.formats.conversion import convert, delivered, delivered_block
from forebay.message.formats.table import format_of
from forebay.message.rendered import rendered_at
from forebay.queue.leases.lease import Consumer, Delivery, Encoded, Lease
from forebay.wire.mqtt.codes import V5, V311
from forebay.wire.mqtt.properties import (
    STRING_OCTETS_MAX,
    TOPIC_ALIAS,
    append_user_property,
    expiry_at,
    i16_of,
    rest_of_expiry,
    varint_octets,
    write_varint,
)

PACKET_OCTETS_MAX: Final = 268_435_455 + 5
QUEUE_PREFIX: Final = b"$queue/"
DEAD_LETTER_PREFIX: Final = b"$dlq/"
DOLLAR: Final = 0x24
PUBLISH_BITS: Final = 0x30
DUP: Final = 8
# Octets of a user property beside its value: identifier, two lengths and the name.
MESSAGE_ID_OCTETS: Final = 5 + 10
OFFSET_OCTETS: Final = 5 + 6
DELIVERY_COUNT_OCTETS: Final = 5 + 14
SWAP: Final = bytes.maketrans(b"/.+#", b"./*_")


@final
class QueueSubscription:
    """A subscription to a queue or a share of one, and what each of its deliveries says alike.

    arguments  as given to `Vhost.consume`, to tell whether a repeated SUBSCRIBE changes anything
    primary    of a stream: the work group whose progress its reader is told of
    recipient  of a shared subscription: the options of its member
    stream     it reads the queue as a stream
    """

    def __init__(
        self, filter: bytes, consumer: Consumer, arguments: dict[str, object], recipient: Recipient | None
    ) -> None:
        self.filter = filter
        self.consumer = consumer
        self.arguments = arguments
        self.recipient = recipient
        self.primary: PrimaryGroup | None = None
        self.stream = False
        self.name = consumer.queue_name
        # A dead-letter queue's name is its address.
        self.prefix = (b"" if self.name.startswith(DEAD_LETTER_PREFIX) else QUEUE_PREFIX) + self.name + b"/"
        self.message_id_prefix = self.name + b":"
        tail = BytesWriter()
        if not consumer.group_name.startswith(b"\0"):  # a stream cursor of its own has no name to tell
            append_user_property(tail, b"group-id", consumer.group_name)
        append_user_property(tail, b"queue", self.name)
        self.tail = tail.getvalue()


@final
class PacketEncoder:
    """The client's terms of CONNECT for the packets that it takes, and how many it was given.

    out, parts   of the session: long bodies go there uncopied, and into any other writer as they are
    aliases      topic -> alias, given in the order in which topics come until there are `alias_max`
    sent         PUBLISH packets, with `body_octets` of payload
    others_sent  packets of other types; whoever writes one counts it
    """

    def __init__(self) -> None:
        self.out: BytesWriter | None = None
        self.parts: list[Part] = []
        self.version: i64 = V311
        self.packet_octets_max: i64 = PACKET_OCTETS_MAX
        self.alias_max: i64 = 0
        self.aliases: dict[bytes, int] = {}
        self.now_us: i64 = 0
        self.mark: i64 = -1  # where the last packet's identifier stands in its writer
        self.sent: i64 = 0
        self.body_octets: i64 = 0
        self.others_sent: i64 = 0
        self.too_large: i64 = 0
        self.expired: i64 = 0

    # ---- messages to topics

    def encodings_key(self, recipient: Recipient) -> i64:
        """Clients with the same key get the same octets, but for packet identifiers; negative where none gets them."""
        if recipient.identifiers or self.alias_max or self.packet_octets_max != PACKET_OCTETS_MAX:
            return -1
        return self.version << 3 | (4 if recipient.keep_retain else 0) | recipient.qos

    def encode(self, delivery: Delivery, recipient: Recipient) -> Encoded:
        """The records of a delivery, with identifier 0 where there has to be one."""
        out = BytesWriter()
        starts: list[int] = []
        marks: list[int] = []
        sent = self.sent
        body_octets = self.body_octets
        for step in range(delivery.count):
            index = delivery.index + step
            starts.append(len(out))
            qos = qos_of(delivery.block, index, recipient)
            self.write(out, delivery.block, index, recipient, 0, qos, 0, False)
            marks.append(int(self.mark) if qos else -1)
        starts.append(len(out))
        made = Encoded(out.getvalue(), starts, marks, self.sent - sent, self.body_octets - body_octets)
        self.sent = sent  # nothing has been sent yet
        self.body_octets = body_octets
        return made

    def count_all(self, made: Encoded) -> None:
        """Encoded records have been sent."""
        self.sent += made.count
        self.body_octets += made.body_octets

    def count_part(self, made: Encoded, delivery: Delivery, count: i64) -> None:
        """The first `count` of them have been sent, without those that have no octets."""
        for step in range(count):
            if made.starts[step] < made.starts[step + 1]:
                self.sent += 1
                self.body_octets += delivery.block.body_span(delivery.index + step, 1)

    def write(
        self,
        out: BytesWriter,
        block: Block,
        index: i64,
        recipient: Recipient,
        id: i64,
        qos: i64,
        dup: i64,
        may_alias: bool,
    ) -> bool:
        """Append a PUBLISH of a record to a topic; False if it is too large for the client, or expired."""
        data = block.data
        at = block.key_at + 4 * index
        base = block.key_octets_at
        topic = data[base + i64(read_i32_le(data, at)) : base + i64(read_i32_le(data, at + 4))]
        whole = i64(data[block.formats_at + index])
        format = whole & FORMAT_MASK
        if format != MQTT:
            topic = topic_of_key(topic)
            if not format_of(format).has_plain_bodies:
                return self.write(out, in_mqtt(block, index, topic), 0, recipient, id, qos, dup, may_alias)
        bits = PUBLISH_BITS | dup | qos << 1
        if whole & RETAINED or (whole & RETAIN and recipient.keep_retain):
            bits |= 1
        at = block.properties_at + 4 * index
        base = block.properties_octets_at
        start = base + i64(read_i32_le(data, at))
        stop = base + i64(read_i32_le(data, at + 4))
        properties = b""
        if start < stop or format != MQTT:
            # What was sent at QoS 2 does not expire [MQTT-4.3.3-7].
            stored = data[start:stop] if format == MQTT else convert(format, data[start:stop], MQTT)
            kept = self.fresh(stored, block.timestamp_us(index), dup == 0 or qos < 2)
            if kept is None:
                return False
            properties = kept
        at = block.body_at + 4 * index
        base = block.body_octets_at
        start = base + i64(read_i32_le(data, at))
        stop = base + i64(read_i32_le(data, at + 4))
        if not topic:
            self.too_large += 1  # an empty routing key is no topic
            return False
        if self.version != V5:
            properties = b""
        elif self.alias_max or recipient.identifiers:
            properties = recipient.identifiers + properties
            if may_alias and self.alias_max:
                return self.write_aliased(out, bits, topic, id, properties, block.body(index))
        octets: i64 = len(properties)
        if not self.write_head(out, bits, topic, id, octets, stop - start):
            return False
        if octets:
            out.write(properties)
        if block.tail:
            self.write_body(out, block.tail)
        else:
            out.write(data[start:stop])
        return True

    def write_body(self, out: BytesWriter, body: bytes) -> None:
        """Append a body that may be long."""
        if len(body) < LONG_OCTETS or out is not self.out:
            out.write(body)
            return
        self.parts.append(out.getvalue())
        out.truncate(0)
        self.parts.append(body)

    def write_aliased(self, out: BytesWriter, bits: i64, topic: bytes, id: i64, properties: bytes, body: bytes) -> bool:
        """Write a PUBLISH by the topic's alias: instead of the topic where the client knows it, else along with it."""
        alias = self.aliases.get(topic)
        name = topic if alias is None else b""
        if alias is None and i64(len(self.aliases)) < self.alias_max:
            alias = len(self.aliases) + 1
        if alias is not None:
            properties = bytes([TOPIC_ALIAS, alias >> 8, alias & 255]) + properties
        if not self.write_head(out, bits, name, id, len(properties), len(body)):
            return False
        if alias is not None:
            self.aliases[topic] = alias
        out.write(properties)
        self.write_body(out, body)
        return True

    def fresh(self, properties: bytes, stamp_us: i64, may_expire: bool) -> bytes | None:
        """Return a record's properties with the rest of their expiry; None if there is no rest.

        may_expire  False for a message that has to be sent all the same, with the least rest: clients take 0 for never
        """
        cut = expiry_at(properties)
        if cut < 0:
            return properties
        waited_us = self.now_us - stamp_us
        expiry_s = i64(read_i32_be(properties, cut)) & 0xFFFF_FFFF
        if expiry_s <= waited_us // US_PER_S:
            if may_expire:
                self.expired += 1
                return None
            waited_us = (expiry_s - 1) * US_PER_S
        return rest_of_expiry(properties, waited_us)

    def write_head(self, out: BytesWriter, bits: i64, topic: bytes, id: i64, properties: i64, body: i64) -> bool:
        """Append a PUBLISH up to its properties, of which so many octets follow; False if it would be too large."""
        octets: i64 = len(topic)
        rest = 2 + octets + body
        with_id = bits & 6 != 0
        if with_id:
            rest += 2
        if self.version == V5:
            rest += varint_octets(properties) + properties
        if rest + 1 + varint_octets(rest) > self.packet_octets_max or octets > STRING_OCTETS_MAX:
            self.too_large += 1
            return False
        out.append(u8(bits))
        if rest < 128:
            out.append(u8(rest))
        else:
            write_varint(out, rest)
        write_i16_be(out, i16_of(octets))
        out.write(topic)
        if with_id:
            self.mark = len(out)
            write_i16_be(out, i16_of(id))
        if self.version == V5:
            if properties < 128:
                out.append(u8(properties))
            else:
                write_varint(out, properties)
        self.sent += 1
        self.body_octets += body
        return True

    # ---- messages from queues

    def write_queued(
        self, out: BytesWriter, queue: QueueSubscription, block: Block, index: i64, id: i64, lease: Lease | None
    ) -> bool:
        """Append a PUBLISH of a queue's record; False if it is too large, or expired."""
        deliveries = 1 if lease is None else lease.deliveries
        format = block.format(index) & FORMAT_MASK
        topic = queued_topic(queue, format, block.exchange(index), block.routing_key(index))
        bits = PUBLISH_BITS | (2 if id else 0)
        if format != MQTT:
            content = delivered(block, index, MQTT)
            kept, body = content.properties, content.body
        else:
            kept = rendered_at(block, index) if block.annotated else block.properties(index)
            body = block.body(index)
        properties = self.fresh(kept, block.timestamp_us(index), True)
        if properties is None:
            return False
        if self.version != V5:
            if not self.write_head(out, bits, topic, id, 0, len(body)):
                return False
            self.write_body(out, body)
            return True
        digits = str(int(block.base + index)).encode()
        octets: i64 = len(properties) + len(queue.tail) + MESSAGE_ID_OCTETS + len(queue.message_id_prefix)
        octets += OFFSET_OCTETS + 2 * len(digits)
        count = b""
        if deliveries > 1:
            count = str(int(deliveries)).encode()
            octets += DELIVERY_COUNT_OCTETS + len(count)
        told = b""
        if queue.stream:
            told = stream_properties(queue.primary, block, index)
            octets += len(told)
        elif queue.consumer.tells_lease:
            told = lease_properties(lease)
            octets += len(told)
        if not self.write_head(out, bits, topic, id, octets, len(body)):
            return False
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
        out.write(told)
        self.write_body(out, body)
        return True


def in_mqtt(block: Block, index: i64, topic: bytes) -> Block:
    """Return a block with a record of another format, to be sent to a topic."""
    return delivered_block(block, index, MQTT, b"", topic)


def stream_properties(primary: PrimaryGroup | None, block: Block, index: i64) -> bytes:
    """The properties of a stream's record that say its time, and how far the queue's primary group has come."""
    offset = block.base + index
    out = BytesWriter()
    append_user_property(out, b"stream-timestamp", b"%d" % int(block.timestamp_us(index) // 1000))
    if primary is None:
        return out.getvalue()
    append_user_property(out, b"work-committed-offset", b"%d" % int(primary.committed()))
    append_user_property(out, b"work-acked", b"true" if primary.has_settled(offset) else b"false")
    append_user_property(out, b"work-group", primary.name)
    return out.getvalue()


def lease_properties(lease: Lease | None) -> bytes:
    """The properties that say when a record's lease ends, and how often it was leased; of no lease the count alone."""
    out = BytesWriter()
    if lease is not None and lease.page is not None:
        append_user_property(out, b"lease-until", b"%d" % int(lease.deadline_us // 1000))
    append_user_property(out, b"lease-count", b"%d" % (1 if lease is None else int(lease.deliveries)))
    return out.getvalue()


def qos_of(block: Block, index: i64, recipient: Recipient) -> i64:
    """The QoS of a delivery: the lower of what was published and what was granted; AMQP's publishes count as QoS 1."""
    whole = i64(block.data[block.formats_at + index])
    qos: i64 = (whole & QOS_MASK) >> QOS_SHIFT
    if whole & FORMAT_MASK != MQTT:
        qos = 1
    return min(qos, recipient.qos)


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
