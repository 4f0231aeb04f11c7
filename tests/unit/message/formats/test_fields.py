"""Priority, expiration, message group and headers of one message."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from forebay.core.message import AMQP091, AMQP10, EXPIRES, KEYED, MQTT, Properties
from forebay.message.formats.table import format_of
from forebay.wire.amqp091.codec import put_table
from forebay.wire.amqp091.properties import encode_properties
from forebay.wire.mqtt.properties import encode_neutral


def message(**fields: object) -> Properties:
    made = Properties()
    made.durable = False
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_a_message_that_says_nothing_of_itself() -> None:
    for format, octets in ((AMQP091, b"\0\0"), (MQTT, b"")):
        assert format_of(format).priority(octets) == -1
        assert format_of(format).expiration_us(octets) == -1
        assert format_of(format).group_key(octets) == b""
        assert format_of(format).marks(octets) == 0


def test_a_format_that_nobody_knows_is_an_error_that_names_it() -> None:
    for octet in (0, 4, 0x40):
        with pytest.raises(AssertionError, match=f"^format octet {octet}: no format has the number {octet & 3}$"):
            format_of(octet)


def test_a_message_that_says_everything() -> None:
    made = message(priority=9, expiration_ms=2000, headers=[("a", 1), ("x-group-id", "blue"), ("z", [1])])
    for format in (AMQP091, MQTT, AMQP10):
        octets = format_of(format).encode(made)
        assert format_of(format).priority(octets) == 9
        assert format_of(format).expiration_us(octets) == 2_000_000
        assert format_of(format).group_key(octets) == b"blue"
        assert format_of(format).marks(octets) == EXPIRES | KEYED


def test_an_expiration_of_nothing_expires_at_once() -> None:
    octets = encode_properties(message(expiration_ms=0))
    assert format_of(AMQP091).expiration_us(octets) == 0
    assert format_of(AMQP091).marks(octets) == EXPIRES


def test_an_expiration_beyond_all_time_stays_within_the_numbers() -> None:
    octets = encode_properties(message(expiration_ms=10**18 - 1))
    assert 1 << 59 < format_of(AMQP091).expiration_us(octets) < 1 << 61


def test_an_expiration_that_is_no_number_is_none() -> None:
    assert format_of(AMQP091).expiration_us(b"\x01\x00\x02-5") == -1
    assert format_of(AMQP091).expiration_us(b"\x01\x00\x00") == -1


def test_of_two_headers_with_one_name_the_last_stands() -> None:
    table = BytesWriter()
    put_table(table, [("x-group-id", "first"), ("x-group-i", "short"), ("x-group-id", "second"), ("y-group-id", "y")])
    assert format_of(AMQP091).group_key(b"\x20\x00" + table.getvalue()) == b"second"


def test_a_key_that_is_a_number_is_its_digits() -> None:
    assert format_of(AMQP091).group_key(encode_properties(message(headers=[("x-group-id", 17)]))) == b"17"


def test_an_empty_key_or_one_of_another_kind_is_none() -> None:
    for value in ("", b"", True, None, 1.5, [1], {"a": 1}):
        octets = encode_properties(message(headers=[("x-group-id", value)]))
        assert format_of(AMQP091).group_key(octets) == b""
        assert format_of(AMQP091).marks(octets) == 0


def test_an_mqtt_priority_that_cannot_be_is_none() -> None:
    for text in ("256", "-1", "1000", "", "x"):
        assert format_of(MQTT).priority(encode_neutral(message(headers=[("amqp-priority", text)]))) == -1
    assert format_of(MQTT).priority(encode_neutral(message(headers=[("amqp-priority", "255")]))) == 255


def test_headers_of_each_format_decoded() -> None:
    over_amqp = encode_properties(message(headers=[("a", 1), ("a", [None, "x"]), ("b", True)]))
    assert format_of(AMQP091).headers(over_amqp) == {"a": [None, "x"], "b": True}
    over_mqtt = encode_neutral(message(content_type="t", headers=[("a", "1"), ("a", "ä")]))
    assert format_of(MQTT).headers(over_mqtt) == {"a": "ä"}
    assert format_of(AMQP091).headers(b"\0\0") == format_of(MQTT).headers(b"") == {}
