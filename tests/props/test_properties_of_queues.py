"""What queues read off a message's octets is what a full decode says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mypy_extensions import u8

from forebay.broker.properties import MessageProperties
from forebay.core.message import AMQP091, EXPIRES, KEYED, MQTT, Properties
from forebay.log.block import BlockWriter
from forebay.message.formats.table import format_of
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX
from forebay.wire.amqp091.properties import decode_properties, encode_properties
from forebay.wire.mqtt.properties import decode_neutral, encode_neutral
from tests.props.test_amqp091_codec import properties

KEY = st.one_of(
    st.text(max_size=40), st.binary(max_size=9), st.integers(-5, 1 << 62), st.booleans(), st.none(), st.floats()
)


@st.composite
def messages(draw: st.DrawFn) -> Properties:
    """Properties that often have a message group."""
    made = draw(properties())
    if draw(st.booleans()):
        made.headers.insert(draw(st.integers(0, len(made.headers))), ("x-group-id", draw(KEY)))
    return made


def expected_key(made: Properties) -> bytes:
    value = dict(made.headers).get("x-group-id")
    if isinstance(value, bytes):
        return value
    if isinstance(value, bool) or not isinstance(value, int | str):
        return b""
    return str(value).encode()


def expected_expiration_us(made: Properties) -> int:
    return -1 if made.expiration_ms is None else min(made.expiration_ms, 1 << 50) * 1000


@given(messages())
def test_amqp_properties_say_what_their_decode_says(made: Properties) -> None:
    octets = encode_properties(made)
    found = decode_properties(octets, TABLE_DEPTH_MAX)
    assert format_of(AMQP091).priority(octets) == (-1 if found.priority is None else found.priority)
    assert format_of(AMQP091).expiration_us(octets) == expected_expiration_us(found)
    assert format_of(AMQP091).group_key(octets) == expected_key(found)


@given(messages())
def test_mqtt_properties_say_what_their_decode_says(made: Properties) -> None:
    octets = encode_neutral(made)
    found = decode_neutral(octets)
    assert format_of(MQTT).priority(octets) == (-1 if found.priority is None else found.priority)
    assert format_of(MQTT).expiration_us(octets) == expected_expiration_us(found)
    assert format_of(MQTT).group_key(octets) == expected_key(found)


@given(st.lists(st.tuples(st.sampled_from([AMQP091, MQTT]), messages()), min_size=1, max_size=6), st.data())
def test_records_in_any_order_say_what_their_properties_say(
    records: list[tuple[int, Properties]], data: st.DataObject
) -> None:
    writer = BlockWriter()
    octets = []
    for format, made in records:
        octets.append((format, encode_properties(made) if format == AMQP091 else encode_neutral(made)))
        writer.append(u8(format | format_of(octets[-1][0]).marks(octets[-1][1])), b"", b"key", octets[-1][1], b"body")
    block = writer.seal(7, 1, False)
    facts = MessageProperties()
    for index in data.draw(st.lists(st.integers(0, len(records) - 1), max_size=12)):
        assert facts.priority(block, index) == format_of(octets[index][0]).priority(octets[index][1])
        assert facts.expiration_us(block, index) == format_of(octets[index][0]).expiration_us(octets[index][1])
        assert facts.key(block, index) == format_of(octets[index][0]).group_key(octets[index][1])
        assert bool(block.format(index) & EXPIRES) == (facts.expiration_us(block, index) >= 0)
        assert bool(block.format(index) & KEYED) == (facts.key(block, index) != b"")
