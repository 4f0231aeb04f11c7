"""A format whose bodies are sections reaches readers of the other protocols with its payload and its deaths."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from librt.strings import BytesWriter

from forebay.broker.mqtt.audience import LOGGED, Recipient
from forebay.broker.mqtt.client_session import ClientSession
from forebay.core.message import AMQP091, AMQP10, AMQP_SECTIONS, MQTT, PLAIN_BODY, Properties
from forebay.log.block import Block, BlockWriter
from forebay.message.deaths import Death, Deaths, with_deaths
from forebay.message.formats.conversion import MEMO, convert_content, delivered, for_exchange
from forebay.message.formats.format import Format
from forebay.message.formats.table import BY_NUMBER, format_of
from forebay.message.record import StoredRecord
from forebay.message.requests import PublishRequests
from forebay.queue.leases.lease import UNLIMITED, Consumer, Delivery
from forebay.queue.mqueue import LOWEST, MqueueRules
from forebay.session.amqp091.deliver import Outlet, write_get
from forebay.session.mqtt.outgoing.encode import PacketEncoder, QueueSubscription
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX
from forebay.wire.amqp091.properties import decode_properties
from forebay.wire.amqp091.properties import headers_of as amqp_headers
from forebay.wire.mqtt.codes import V5
from forebay.wire.mqtt.packets import Publish, decode_publish, frame
from forebay.wire.mqtt.properties import decode_neutral

FRAME_MAX = 4096


class SectionsFormat(Format):
    """A message id as properties; a body begins with D for data, or with V for a value."""

    def __init__(self) -> None:
        super().__init__(AMQP10, "sections", keys_are_topics=False, has_plain_bodies=False, marks_late=False)

    def may_publish(self, octet: int) -> bool:
        return False

    def topic(self, routing_key: bytes) -> bytes:
        return routing_key

    def amqp_address(self, exchange: bytes, routing_key: bytes) -> tuple[bytes, bytes]:
        return exchange, routing_key

    def priority(self, properties: bytes) -> int:
        return -1

    def expiration_us(self, properties: bytes) -> int:
        return -1

    def header(self, properties: bytes, name: bytes) -> bytes | None:
        return None

    def headers(self, properties: bytes) -> dict[str, object]:
        return {}

    def reply_to(self, properties: bytes) -> bytes:
        return b""

    def check(self, properties: bytes, user: bytes, depth_max: int) -> int:
        return 0

    def requests(self, properties: bytes) -> int:
        return 0

    def read_requests(self, properties: bytes) -> PublishRequests:
        return PublishRequests(properties)

    def further_keys(self, properties: bytes) -> list[bytes]:
        return []

    def edit(self, properties: bytes, dropped: list[bytes], added: list[tuple[str, object]]) -> bytes:
        return properties

    def without_further_keys(self, properties: bytes) -> bytes:
        return properties

    def without_expiration(self, properties: bytes) -> bytes:
        return properties

    def expiration_digits(self, properties: bytes) -> bytes:
        return b""

    def aged(self, properties: bytes, waited_us: int) -> bytes:
        return properties

    def with_deaths(self, properties: bytes, deaths: Deaths) -> bytes:
        return properties + b"+%d" % len(deaths.deaths)

    def decode(self, properties: bytes) -> Properties:
        made = Properties()
        made.message_id = properties.decode()
        return made

    def encode(self, properties: Properties) -> bytes:
        return (properties.message_id or "").encode()

    def body_kind(self, properties: bytes, body: bytes) -> int:
        return AMQP_SECTIONS if body.startswith(b"V") else PLAIN_BODY

    def payload(self, body: bytes) -> bytes:
        return body if body.startswith(b"V") else body[1:]

    def body_of(self, payload: bytes, kind: int) -> bytes:
        return payload if kind == AMQP_SECTIONS else b"D" + payload


@pytest.fixture(autouse=True)
def sections() -> Iterator[None]:
    before = BY_NUMBER[AMQP10]
    BY_NUMBER[AMQP10] = SectionsFormat()
    MEMO.known.clear()
    yield
    BY_NUMBER[AMQP10] = before
    MEMO.known.clear()


def block_of(*records: tuple[int, bytes, bytes], annotations: bytes = b"") -> Block:
    """Records of format, properties and body."""
    writer = BlockWriter()
    for format, properties, body in records:
        writer.append_annotated(format, b"amq.topic", b"a.b", properties, body, annotations)
    return writer.seal(40, 1, False)


def died() -> bytes:
    deaths = Deaths()
    deaths.add(Death(b"q", b"rejected", 1, b"", [b"a.b"], b""))
    return with_deaths(b"", deaths)


def frames(octets: bytes) -> list[tuple[int, bytes]]:
    """The frames of AMQP 0.9.1: type and payload."""
    found = []
    at = 0
    while at < len(octets):
        end = at + 7 + int.from_bytes(octets[at + 3 : at + 7], "big")
        assert octets[end] == 0xCE
        found.append((octets[at], octets[at + 7 : end]))
        at = end + 1
    return found


def messages(octets: bytes) -> list[tuple[Properties, bytes]]:
    """The properties and body of each delivery."""
    found: list[tuple[Properties, bytes]] = []
    for kind, payload in frames(octets):
        if kind == 2:
            found.append((decode_properties(payload[12:], TABLE_DEPTH_MAX), b""))
            sizes = int.from_bytes(payload[4:12], "big")
            assert sizes >= 0
        elif kind == 3:
            found[-1] = (found[-1][0], found[-1][1] + payload)
    return found


def outlet(stream: bool = False) -> tuple[Outlet, Consumer]:
    consumer = Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED)
    return Outlet(consumer, 1, b"c", stream, FRAME_MAX, []), consumer


@pytest.mark.parametrize("stream", [False, True])
def test_deliveries_over_amqp(stream: bool) -> None:
    records = [(AMQP10, b"m", b"Done"), (AMQP10, b"m", b"Dtwo"), (AMQP10, b"m", b"Value"), (AMQP10, b"m", b"D")]
    block = block_of(*records, (AMQP091, b"\0\0", b"Dplain"), (AMQP10, b"m", b"D" + b"x" * 5000))
    to, consumer = outlet(stream)
    out = BytesWriter()
    to.write(out, Delivery(consumer, block, 0, 6, None), 6, 7)
    found = messages(out.getvalue())
    assert [body for _, body in found] == [b"one", b"two", b"Value", b"", b"Dplain", b"x" * 5000]
    assert [each.message_id for each, _ in found] == ["m", "m", "m", "m", None, "m"]
    assert [each.type for each, _ in found] == [None, None, "amqp-1.0", None, None, None]
    if stream:
        assert [each.header("x-stream-offset") for each, _ in found] == list(range(40, 46))


def test_a_single_message_over_amqp() -> None:
    _, consumer = outlet()
    out = BytesWriter()
    delivery = Delivery(consumer, block_of((AMQP10, b"m", b"Done")), 0, 1, None)
    write_get(out, [], 1, delivery, 1, 0, FRAME_MAX, None, False)
    (found,) = messages(out.getvalue())
    assert (found[0].message_id, found[1]) == ("m", b"one")


def packet(octets: bytes) -> Publish:
    where = frame(octets, 0, len(octets), 1 << 20)
    made = Publish()
    decode_publish(made, octets, octets[0] & 15, where & 7, where >> 3, V5)
    return made


def test_deliveries_over_mqtt() -> None:
    by = PacketEncoder()
    by.version = V5
    block = block_of((AMQP10, b"m", b"Done"), (AMQP10, b"m", b"Value"))
    to = Recipient(ClientSession(1, b"c", False, 0, MqueueRules(0, True, {}, LOWEST)), LOGGED, 1)
    consumer = Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED)
    consumer.queue_name = b"q"
    for index, expected in enumerate((b"one", b"Value")):
        for queued in (False, True):
            out = BytesWriter()
            if queued:
                assert by.write_queued(out, QueueSubscription(b"$queue/q", consumer, {}, None), block, index, 1, None)
            else:
                assert by.write(out, block, index, to, 1, 1, 0, False)
            made = packet(out.getvalue())
            assert made.topic() == (b"$queue/q/a/b" if queued else b"a/b")
            assert made.body() == expected
            neutral = decode_neutral(made.properties())
            assert neutral.message_id == "m"
            assert neutral.content_type == (None if index == 0 else "message/vnd.rabbitmq.amqp")


def test_deaths_are_in_the_form_of_the_reader() -> None:
    block = block_of((AMQP10, b"m", b"Done"), (AMQP091, b"\0\0", b"two"), annotations=died())
    headers = dict(amqp_headers(delivered(block, 0, AMQP091).properties, TABLE_DEPTH_MAX))
    assert isinstance(headers["x-death"], list)
    assert delivered(block, 1, AMQP10).properties == b"+1"
    assert delivered(block, 0, AMQP10).properties == b"m+1"


def test_bodies_of_other_formats_become_sections_and_come_back() -> None:
    made = convert_content(MQTT, b"", b"payload", AMQP10)
    assert made.body == b"Dpayload"
    there = convert_content(AMQP10, b"m", b"Value", AMQP091)
    assert decode_properties(there.properties, TABLE_DEPTH_MAX).type == "amqp-1.0"
    assert convert_content(AMQP091, there.properties, there.body, AMQP10).body == b"Value"
    over_mqtt = convert_content(AMQP10, b"m", b"Value", MQTT)
    assert convert_content(MQTT, over_mqtt.properties, over_mqtt.body, AMQP10).body == b"Value"


def test_one_that_names_exchanges_stays_what_it_is() -> None:
    record = StoredRecord(AMQP10, b"x", b"a.b", b"m", b"Done", b"")
    assert for_exchange(record) is record
    assert format_of(for_exchange(StoredRecord(MQTT, b"amq.topic", b"a/b", b"", b"", b"")).format).name == "amqp091"
