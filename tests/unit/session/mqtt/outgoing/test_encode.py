"""Records as PUBLISH packets: what of a record a client gets, and in which octets."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from forebay.broker.mqtt.audience import LOGGED, Recipient, identifier_property
from forebay.broker.mqtt.client_session import ClientSession
from forebay.core.message import AMQP091, MQTT, RETAIN, RETAINED, Properties
from forebay.log.block import Block, BlockWriter
from forebay.queue.leases.lease import UNLIMITED, Consumer, Delivery, Lease
from forebay.queue.leases.page import Page
from forebay.queue.mqueue import LOWEST, MqueueRules
from forebay.session.mqtt.outgoing.encode import PacketEncoder, QueueSubscription, qos_of, queued_topic, topic_of_key
from forebay.wire.amqp091.properties import encode_properties
from forebay.wire.mqtt.codes import V5, V311
from forebay.wire.mqtt.packets import Publish, decode_publish, frame
from forebay.wire.mqtt.properties import number_of, user_property
from tests.conformance.mqtt.v5.flows import message_expiry

SECOND = 1_000_000
ALIAS = 0x23
CLIENT = ClientSession(1, b"c", False, 0, MqueueRules(0, True, {}, LOWEST))


def block_of(*records: tuple[int, bytes, bytes, bytes], stamp_us: int = 0) -> Block:
    """Records of format, topic or key, properties and body."""
    writer = BlockWriter()
    for format, key, properties, body in records:
        writer.append(format, b"x", key, properties, body)
    return writer.seal(0, stamp_us, False)


def target(qos: int, keep_retain: bool = False, identifier: int = 0) -> Recipient:
    made = Recipient(CLIENT, LOGGED, qos)
    made.keep_retain = keep_retain
    made.identifiers = identifier_property(identifier)
    return made


def encoder(version: int = V5, octets_max: int = 1 << 20, alias_max: int = 0) -> PacketEncoder:
    made = PacketEncoder()
    made.version = version
    made.packet_octets_max = octets_max
    made.alias_max = alias_max
    return made


def packets(octets: bytes, version: int = V5) -> list[Publish]:
    found: list[Publish] = []
    at = 0
    while at < len(octets):
        where = frame(octets, at, len(octets), 1 << 20)
        assert where
        made = Publish()
        decode_publish(made, octets, octets[at] & 15, at + (where & 7), where >> 3, version)
        found.append(made)
        at = where >> 3
    return found


def written(
    by: PacketEncoder, block: Block, to: Recipient, id: int = 0, qos: int = 0, may_alias: bool = False
) -> Publish | None:
    """The only packet that record 0 makes; None if it makes none."""
    out = BytesWriter()
    if not by.write(out, block, 0, to, id, qos, 0, may_alias):
        assert out.getvalue() == b""
        return None
    return packets(out.getvalue(), int(by.version))[0]


@pytest.mark.parametrize("version", [V311, V5])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_record_is_the_packet_that_was_published(version: int, qos: int) -> None:
    block = block_of((MQTT | qos << 4, b"a/b", message_expiry(9), b"body"))
    made = written(encoder(version), block, target(qos), 7, qos)
    assert made is not None
    assert (made.topic(), made.body(), made.qos, made.retain) == (b"a/b", b"body", qos, False)
    assert made.properties() == (message_expiry(9) if version == V5 else b"")
    if qos:
        assert made.packet_id == 7


def test_the_retain_flag_is_that_of_a_retained_message_or_of_the_publisher() -> None:
    for format, keep, expected in [
        (MQTT | RETAIN, False, False),
        (MQTT | RETAIN, True, True),
        (MQTT | RETAINED, False, True),
        (MQTT, True, False),
    ]:
        made = written(encoder(), block_of((format, b"a", b"", b"")), target(0, keep))
        assert made is not None and made.retain == expected


def test_identifiers_of_subscriptions_are_told_in_version_5() -> None:
    block = block_of((MQTT, b"a", message_expiry(9), b""))
    made = written(encoder(), block, target(0, identifier=200))
    assert made is not None and made.properties() == identifier_property(200) + message_expiry(9)
    made = written(encoder(V311), block, target(0, identifier=200))
    assert made is not None and made.properties() == b""


@pytest.mark.parametrize("version", [V311, V5])
def test_expiry_is_what_is_left(version: int) -> None:
    block = block_of((MQTT, b"a", message_expiry(10), b""), stamp_us=5 * SECOND)
    by = encoder(version)
    by.now_us = 14 * SECOND + SECOND // 2
    made = written(by, block, target(0))
    assert made is not None and made.properties() == (message_expiry(1) if version == V5 else b"")
    by.now_us = 15 * SECOND
    assert written(by, block, target(0)) is None
    assert (by.expired, by.sent) == (1, 1)


def test_a_packet_that_is_too_large_for_the_client_is_not_made() -> None:
    block = block_of((MQTT, b"topic", b"", b"x" * 20))
    whole = 2 + 2 + 5 + 1 + 20
    assert written(encoder(octets_max=whole), block, target(0)) is not None
    by = encoder(octets_max=whole - 1)
    assert written(by, block, target(0)) is None
    assert by.too_large == 1
    assert written(encoder(), block_of((AMQP091, b"", encode_properties(Properties()), b"")), target(0)) is None


def test_a_topic_is_sent_once_and_then_by_its_alias() -> None:
    by = encoder(alias_max=1)
    found: list[tuple[bytes, int]] = []
    for topic in (b"a", b"a", b"b", b"b", b"a"):
        made = written(by, block_of((MQTT, topic, b"", b"x")), target(0), may_alias=True)
        assert made is not None
        found.append((made.topic(), int(number_of(made.properties(), ALIAS, 0)) if made.properties() else 0))
    assert found == [(b"a", 1), (b"", 1), (b"b", 0), (b"b", 0), (b"", 1)]
    made = written(by, block_of((MQTT, b"a", b"", b"x")), target(0), may_alias=False)
    assert made is not None and made.topic() == b"a"


def test_an_alias_that_was_not_sent_is_not_known() -> None:
    by = encoder(alias_max=9, octets_max=30)
    assert written(by, block_of((MQTT, b"topic", b"", b"x" * 30)), target(0), may_alias=True) is None
    made = written(by, block_of((MQTT, b"topic", b"", b"x")), target(0), may_alias=True)
    assert made is not None and made.topic() == b"topic"


def test_what_amqp_published_has_a_topic_and_properties_of_mqtt() -> None:
    properties = Properties()
    properties.content_type = "text/plain"
    block = block_of((AMQP091, b"a.b/c", encode_properties(properties), b"x"))
    made = written(encoder(), block, target(2), 1, 1)
    assert made is not None
    assert (made.topic(), made.qos) == (b"a/b.c", 1)
    assert b"text/plain" in made.properties()
    assert qos_of(block, 0, target(2)) == 1
    assert qos_of(block, 0, target(0)) == 0


def test_many_get_the_same_octets_with_their_own_identifiers() -> None:
    by = encoder()
    expired = message_expiry(1)
    block = block_of((MQTT, b"a", b"", b"0"), (MQTT | 16, b"a", expired, b"1"), (MQTT | 16, b"a", b"", b"2"))
    by.now_us = 2 * SECOND
    to = target(1)
    made = by.encode(Delivery(to, block, 0, 3, None), to)
    assert made.marks[0] == -1
    assert made.starts[1] == made.starts[2]  # the expired one has no octets
    octets = bytearray(made.octets)
    octets[made.marks[2] : made.marks[2] + 2] = b"\x01\x02"
    found = [(each.body(), each.qos) for each in packets(bytes(octets))]
    assert found == [(b"0", 0), (b"2", 1)]
    assert packets(bytes(octets))[1].packet_id == 0x102


def test_who_gets_alike() -> None:
    keys = {
        encoder().encodings_key(target(0)),
        encoder().encodings_key(target(1)),
        encoder(V311).encodings_key(target(0)),
        encoder().encodings_key(target(0, keep_retain=True)),
    }
    assert keys == {-1}  # a limit of its own
    made = PacketEncoder()
    alike = {int(made.encodings_key(each)) for each in (target(0), target(1), target(0, True))}
    assert len(alike) == 3 and min(alike) >= 0
    assert made.encodings_key(target(0, identifier=1)) == -1
    made.alias_max = 1
    assert made.encodings_key(target(0)) == -1


def queue(name: bytes, group: bytes = b"g") -> QueueSubscription:
    consumer = Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED)
    consumer.queue_name = name
    consumer.group_name = group
    return QueueSubscription(b"$queue/" + name, consumer, {}, None)


@pytest.mark.parametrize(
    ("format", "exchange", "key", "topic"),
    [
        (MQTT, b"amq.topic", b"$queue/q/a/b", b"$queue/q/a/b"),
        (MQTT, b"amq.topic", b"a/b", b"$queue/q/a/b"),
        (AMQP091, b"", b"q", b"$queue/q"),
        (AMQP091, b"amq.topic", b"a.b", b"$queue/q/a/b"),
        (AMQP091, b"", b"$queue/q/a#b", b"$queue/q/a_b"),
    ],
)
def test_the_topic_of_a_delivery_from_a_queue(format: int, exchange: bytes, key: bytes, topic: bytes) -> None:
    assert queued_topic(queue(b"q"), format, exchange, key) == topic
    assert queued_topic(queue(b"$dlq/q"), MQTT, b"", b"k") == b"$dlq/q/k"


def lease_of(deliveries: int) -> Lease:
    """A lease of a record that was delivered so often, until 7 ms after the beginning of time."""
    lease = Lease(Consumer(1, 1, 1, 1, 0, b"", False, 1), Page(0), 0, 1, 7_000)
    lease.deliveries = deliveries
    return lease


def test_a_delivery_from_a_queue_says_its_lease_where_the_queue_asks_for_it() -> None:
    block = block_of((MQTT | 16, b"$queue/q/k", b"", b"x"))
    told = queue(b"q")
    out = BytesWriter()
    assert encoder().write_queued(out, told, block, 0, 5, lease_of(3))
    made = packets(out.getvalue())[0]
    assert user_property(made.properties(), b"lease-until") is None
    told.consumer.tells_lease = True
    out = BytesWriter()
    assert encoder().write_queued(out, told, block, 0, 5, lease_of(3))
    made = packets(out.getvalue())[0]
    assert user_property(made.properties(), b"lease-until") == b"7"
    assert user_property(made.properties(), b"lease-count") == b"3"


def test_a_delivery_from_a_queue_says_what_it_is() -> None:
    block = block_of((MQTT | 16, b"$queue/q/k", message_expiry(9), b"x"))
    out = BytesWriter()
    assert encoder().write_queued(out, queue(b"q"), block, 0, 5, lease_of(3))
    made = packets(out.getvalue())[0]
    told = [user_property(made.properties(), name) for name in (b"queue", b"group-id", b"message-id", b"offset")]
    assert told == [b"q", b"g", b"q:0", b"0"]
    assert user_property(made.properties(), b"delivery-count") == b"3"
    assert (made.packet_id, made.qos, made.topic(), made.body()) == (5, 1, b"$queue/q/k", b"x")
    out = BytesWriter()
    assert encoder(V311).write_queued(out, queue(b"q", b"\0anonymous"), block, 0, 0, None)
    assert packets(out.getvalue(), V311)[0].qos == 0


def test_keys_are_topics_by_their_separators() -> None:
    pairs = [
        (b"a.b", b"a/b"),
        (b"a/b", b"a.b"),
        (b"*", b"*"),
        (b"a.#", b"a/_"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}".encode()),
    ]
    assert [topic_of_key(key) for key, _ in pairs] == [topic for _, topic in pairs]
