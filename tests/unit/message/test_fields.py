"""Priority, expiration, message group and headers of one message."""

from __future__ import annotations

from librt.strings import BytesWriter

from forebay.core.message import AMQP091, AMQP10, EXPIRES, KEYED, MQTT, Properties
from forebay.message.fields import expiration_of, headers_of, key_of, marks_of, priority_of
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
    for format, octets in ((AMQP091, b"\0\0"), (MQTT, b""), (AMQP10, b"")):
        assert priority_of(format, octets) == -1
        assert expiration_of(format, octets) == -1
        assert key_of(format, octets) == b""
        assert marks_of(format, octets) == 0


def test_a_message_that_says_everything() -> None:
    made = message(priority=9, expiration_ms=2000, headers=[("a", 1), ("x-group-id", "blue"), ("z", [1])])
    for format, octets in ((AMQP091, encode_properties(made)), (MQTT, encode_neutral(made))):
        assert priority_of(format, octets) == 9
        assert expiration_of(format, octets) == 2_000_000
        assert key_of(format, octets) == b"blue"
        assert marks_of(format, octets) == EXPIRES | KEYED


def test_an_expiration_of_nothing_expires_at_once() -> None:
    octets = encode_properties(message(expiration_ms=0))
    assert expiration_of(AMQP091, octets) == 0
    assert marks_of(AMQP091, octets) == EXPIRES


def test_an_expiration_beyond_all_time_stays_within_the_numbers() -> None:
    octets = encode_properties(message(expiration_ms=10**18 - 1))
    assert 1 << 59 < expiration_of(AMQP091, octets) < 1 << 61


def test_an_expiration_that_is_no_number_is_none() -> None:
    assert expiration_of(AMQP091, b"\x01\x00\x02-5") == -1
    assert expiration_of(AMQP091, b"\x01\x00\x00") == -1


def test_of_two_headers_with_one_name_the_last_stands() -> None:
    table = BytesWriter()
    put_table(table, [("x-group-id", "first"), ("x-group-i", "short"), ("x-group-id", "second"), ("y-group-id", "y")])
    assert key_of(AMQP091, b"\x20\x00" + table.getvalue()) == b"second"


def test_a_key_that_is_a_number_is_its_digits() -> None:
    assert key_of(AMQP091, encode_properties(message(headers=[("x-group-id", 17)]))) == b"17"


def test_an_empty_key_or_one_of_another_kind_is_none() -> None:
    for value in ("", b"", True, None, 1.5, [1], {"a": 1}):
        octets = encode_properties(message(headers=[("x-group-id", value)]))
        assert key_of(AMQP091, octets) == b""
        assert marks_of(AMQP091, octets) == 0


def test_an_mqtt_priority_that_cannot_be_is_none() -> None:
    for text in ("256", "-1", "1000", "", "x"):
        assert priority_of(MQTT, encode_neutral(message(headers=[("amqp-priority", text)]))) == -1
    assert priority_of(MQTT, encode_neutral(message(headers=[("amqp-priority", "255")]))) == 255


def test_headers_of_each_format_decoded() -> None:
    over_amqp = encode_properties(message(headers=[("a", 1), ("a", [None, "x"]), ("b", True)]))
    assert headers_of(AMQP091, over_amqp) == {"a": [None, "x"], "b": True}
    over_mqtt = encode_neutral(message(content_type="t", headers=[("a", "1"), ("a", "ä")]))
    assert headers_of(MQTT, over_mqtt) == {"a": "ä"}
    assert headers_of(AMQP091, b"\0\0") == headers_of(MQTT, b"") == {}
