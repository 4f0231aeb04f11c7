"""Properties between AMQP 0.9.1 and MQTT 5: every row of docs/reference/properties.md, both ways."""

from __future__ import annotations

import pytest

from forebay.core.message import AMQP091, MQTT, Properties
from forebay.message.formats.conversion import MEMO, MEMO_OCTETS_MAX, convert
from forebay.wire.amqp091.properties import decode_properties, encode_properties
from forebay.wire.mqtt.properties import decode_neutral


def user(name: str, value: str) -> bytes:
    return b"\x26" + text(name) + text(value)


def text(value: str) -> bytes:
    octets = value.encode()
    return len(octets).to_bytes(2, "big") + octets


def amqp(**fields: object) -> bytes:
    made = Properties()
    made.durable = False
    for name, value in fields.items():
        assert hasattr(made, name)
        setattr(made, name, value)
    return encode_properties(made)


# A field as AMQP has it, and the MQTT property block that says the same: true in both directions.
BOTH_WAYS = [
    ({"content_type": "text/plain"}, b"\x03" + text("text/plain")),
    ({"reply_to": "answers/here"}, b"\x08" + text("answers/here")),
    ({"correlation_id": b"\x00\xff"}, b"\x09\x00\x02\x00\xff"),
    ({"expiration_ms": 5000}, b"\x02\x00\x00\x00\x05"),
    ({"body_is_text": True}, b"\x01\x01"),
    ({"headers": [("name", "value")]}, user("name", "value")),
    ({"headers": [("a", "1"), ("b", "é")]}, user("a", "1") + user("b", "é")),
    ({"message_id": "m-1"}, user("amqp-message-id", "m-1")),
    ({"type": "order"}, user("amqp-type", "order")),
    ({"app_id": "shop"}, user("amqp-app-id", "shop")),
    ({"cluster_id": "west"}, user("amqp-cluster-id", "west")),
    ({"timestamp_s": 1_700_000_000}, user("amqp-timestamp", "1700000000")),
    ({"priority": 7}, user("amqp-priority", "7")),
    ({"content_encoding": "gzip"}, user("amqp-content-encoding", "gzip")),
    ({"reply_to": "with/#"}, user("amqp-reply-to", "with/#")),
]


@pytest.mark.parametrize(("fields", "block"), BOTH_WAYS, ids=[str(fields) for fields, _ in BOTH_WAYS])
def test_both_ways(fields: dict[str, object], block: bytes) -> None:
    assert convert(AMQP091, amqp(**fields), MQTT) == block
    assert convert(MQTT, block, AMQP091) == amqp(durable=True, **fields)


# What only AMQP can say, and what MQTT makes of it.
ONE_WAY = [
    ({"expiration_ms": 1}, b"\x02\x00\x00\x00\x01"),
    ({"expiration_ms": 5001}, b"\x02\x00\x00\x00\x06"),
    ({"user_id": "guest"}, user("amqp-user-id", "guest")),
    (
        {"headers": [("n", 1), ("f", 1.5), ("y", True), ("x", None)]},
        b"".join([user("n", "1"), user("f", "1.5"), user("y", "true"), user("x", "")]),
    ),
    ({"headers": [("l", [1, "a", None]), ("t", {"k": True})]}, user("l", '[1, "a", null]') + user("t", '{"k": true}')),
    ({"headers": [("b", b"text"), ("o", b"\xff\x00")]}, user("b", "text") + user("o", "ff00")),
    ({"durable": True}, b""),
]


@pytest.mark.parametrize(("fields", "block"), ONE_WAY, ids=[str(fields) for fields, _ in ONE_WAY])
def test_amqp_to_mqtt(fields: dict[str, object], block: bytes) -> None:
    assert convert(AMQP091, amqp(**fields), MQTT) == block


def test_of_user_properties_with_one_name_amqp_gets_the_last() -> None:
    made = convert(MQTT, user("a", "1") + user("b", "2") + user("a", "3"), AMQP091)
    assert decode_properties(made, 1).headers == [("a", "3"), ("b", "2")]


def test_a_user_name_of_no_proof_stays_a_header() -> None:
    found = decode_properties(convert(MQTT, user("amqp-user-id", "root"), AMQP091), 1)
    assert (found.user_id, found.headers) == (None, [("amqp-user-id", "root")])


@pytest.mark.parametrize(("name", "value"), [("amqp-priority", "256"), ("amqp-timestamp", "-1"), ("amqp-other", "x")])
def test_fields_that_cannot_be_stay_headers(name: str, value: str) -> None:
    found = decode_properties(convert(MQTT, user(name, value), AMQP091), 1)
    assert (found.priority, found.timestamp_s, found.headers) == (None, None, [(name, value)])


def test_payload_format_of_octets_says_nothing() -> None:
    assert convert(MQTT, b"\x01\x00", AMQP091) == convert(MQTT, b"", AMQP091) == amqp(durable=True)


def test_texts_longer_than_amqp_holds_become_headers() -> None:
    made = decode_properties(convert(MQTT, b"\x03" + text("c" * 300) + b"\x09" + text("r" * 300), AMQP091), 1)
    assert made.content_type is None
    assert dict(made.headers) == {"x-content-type": "c" * 300, "x-correlation-id": b"r" * 300}


def test_the_same_format_is_the_same_octets() -> None:
    octets = b"not even properties"
    assert convert(MQTT, octets, MQTT) is octets
    assert convert(AMQP091, octets, AMQP091) is octets


def test_what_was_converted_is_remembered_within_a_bound() -> None:
    MEMO.known.clear()
    MEMO.octets = 0
    block = user("again", "x" * 1000)
    assert convert(MQTT, block, AMQP091) is convert(MQTT, block, AMQP091)
    for index in range(1000):
        found = decode_neutral(convert(AMQP091, convert(MQTT, user("n", str(index) * 300), AMQP091), MQTT))
        assert found.headers == [("n", str(index) * 300)]
        assert MEMO.octets <= MEMO_OCTETS_MAX
    assert 0 < len(MEMO.known) < 2000
    assert convert(MQTT, block, AMQP091) == convert(MQTT, block, AMQP091)


def test_long_properties_are_not_remembered() -> None:
    before = len(MEMO.known)
    block = user("long", "x" * 5000)
    assert convert(MQTT, block, AMQP091) == convert(MQTT, block, AMQP091)
    assert len(MEMO.known) == before
