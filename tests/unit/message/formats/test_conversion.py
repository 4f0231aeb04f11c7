"""Properties between AMQP 0.9.1 and MQTT 5: every row of docs/reference/properties.md, both ways."""

from __future__ import annotations

import pytest

from forebay.core.message import AMQP091, AMQP_SECTIONS, MQTT, NUMBER_ID, OCTETS_ID, UUID_ID, Properties
from forebay.message.formats.conversion import MEMO, MEMO_OCTETS_MAX, convert
from forebay.message.formats.table import format_of
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


# What only AMQP 1.0 has, and what the others make of it.


def neutral(**fields: object) -> Properties:
    made = Properties()
    for name, value in fields.items():
        assert hasattr(made, name)
        setattr(made, name, value)
    return made


def over_amqp(**fields: object) -> Properties:
    return decode_properties(format_of(AMQP091).encode(neutral(**fields)), 4)


def over_mqtt(**fields: object) -> Properties:
    return decode_neutral(format_of(MQTT).encode(neutral(**fields)))


def test_typed_ids() -> None:
    octets = over_amqp(
        message_id="00ff", message_id_type=OCTETS_ID, correlation_id=b"\x01\xff", correlation_id_type=OCTETS_ID
    )
    assert (octets.message_id, octets.correlation_id) == (None, None)
    assert octets.headers == [("x-correlation-id", b"\x01\xff"), ("x-message-id", b"\x00\xff")]
    uuid = "urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
    texts = {"message_id": uuid, "message_id_type": UUID_ID, "correlation_id": b"17", "correlation_id_type": NUMBER_ID}
    for found in (over_amqp(**texts), over_mqtt(**texts)):
        assert (found.message_id, found.correlation_id) == (uuid, b"17")


def test_message_annotations() -> None:
    annotations = [
        ("x-cc", ["a", "b"]),
        ("x-exchange", "x"),
        ("x-routing-key", "k"),
        ("x-opt-rabbitmq-received-time", 1700000000123),
        ("x-opt-colour", "red"),
        ("unknown", 1),
        (7, 1),
    ]
    found = over_amqp(message_annotations=annotations)
    assert found.headers == [("CC", ["a", "b"]), ("timestamp_in_ms", 1700000000123), ("x-opt-colour", "red")]
    seen = over_mqtt(message_annotations=annotations)
    assert seen.headers == [("x-opt-rabbitmq-received-time", "1700000000123"), ("x-opt-colour", "red")]


def test_groups_replies_and_sections() -> None:
    found = over_amqp(group_id="g", body_kind=AMQP_SECTIONS, reply_to="q", reply_topic="a/b")
    assert (found.app_id, found.type, found.reply_to) == ("g", "amqp-1.0", "q")
    assert found.headers == [("x-group-id", "g")]
    assert over_amqp(group_id="g", app_id="shop").app_id == "shop"
    seen = over_mqtt(group_id="g", body_kind=AMQP_SECTIONS, reply_to="q", reply_topic="a/b")
    assert seen.headers == [("x-group-id", "g")]
    assert (seen.content_type, seen.reply_to, seen.reply_topic) == ("message/vnd.rabbitmq.amqp", "a/b", "a/b")


def test_what_has_no_place_is_left_out() -> None:
    fields: dict[str, object] = {
        "to": "/queues/q",
        "subject": "s",
        "absolute_expiry_ms": 1,
        "group_sequence": 2,
        "reply_to_group_id": "r",
        "timestamp_rest_ms": 5,
        "delivery_annotations": [("x-a", 1)],
        "footer": [("x-b", 1)],
    }
    for number in (AMQP091, MQTT):
        assert format_of(number).encode(neutral(**fields)) == format_of(number).encode(neutral())
