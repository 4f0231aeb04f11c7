"""Messages of AMQP 1.0 in other formats and back: every field, every type of value, and bodies."""

from __future__ import annotations

from typing import Any

import pytest

from forebay.core.message import (
    AMQP091,
    AMQP10,
    AMQP_SECTIONS,
    MQTT,
    NUMBER_ID,
    OCTETS_ID,
    PLAIN_BODY,
    TEXT_ID,
    UNTYPED_ID,
    UUID_ID,
    Properties,
)
from forebay.message.deaths import Death, DeathMarks, Deaths
from forebay.message.formats.conversion import convert, convert_content
from forebay.message.formats.table import format_of
from forebay.wire.amqp091.properties import decode_properties
from forebay.wire.amqp10.decoder import decode_value
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    DATA,
    FOOTER,
    HEADER,
    value_at,
)
from forebay.wire.amqp10.values import (
    UBYTE,
    Array,
    Byte,
    Char,
    Decimal,
    Described,
    Int,
    Map,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    float_of,
)
from forebay.wire.mqtt.properties import decode_neutral
from tests.unit.message.formats.test_amqp10 import FORMAT, ID, ID_TEXT, annotations_of, message, neutral, section, split

# ---- to the neutral form and back


def test_all_that_a_message_says() -> None:
    octets = message(
        [True, Ubyte(7), Uint(60_000)],
        [(Symbol("x-basic-type"), "order"), (Symbol("x-a"), Byte(1)), (Ulong(4), "numbered"), (Symbol("plain"), 1)],
        {
            0: "id",
            1: b"guest",
            2: "/exchanges/x/k",
            3: "news",
            4: "/queues/replies",
            5: Ulong(77),
            6: Symbol("text/plain"),
            7: Symbol("gzip"),
            8: Timestamp(1_700_000_060_000),
            9: Timestamp(1_700_000_000_123),
            10: "g",
            11: Uint(9),
            12: "rg",
        },
        [("k", "v")],
    )
    made = FORMAT.decode(octets)
    assert (made.durable, made.priority, made.expiration_ms) == (True, 7, 60_000)
    assert (made.message_id, made.message_id_type) == ("id", UNTYPED_ID)
    assert (made.correlation_id, made.correlation_id_type) == (b"77", NUMBER_ID)
    assert (made.user_id, made.to, made.subject, made.reply_to) == ("guest", "/exchanges/x/k", "news", "replies")
    assert (made.content_type, made.content_encoding) == ("text/plain", "gzip")
    assert (made.absolute_expiry_ms, made.timestamp_s, made.timestamp_rest_ms) == (
        1_700_000_060_000,
        1_700_000_000,
        123,
    )
    assert (made.group_id, made.group_sequence, made.reply_to_group_id) == ("g", 9, "rg")
    assert (made.type, made.headers) == ("order", [("k", "v")])
    assert made.message_annotations == [("x-a", 1), (4, "numbered"), ("plain", 1)]
    assert made.header("x-a") == 1
    assert made.header("plain") is None
    again = FORMAT.decode(FORMAT.encode(made))
    for name in ("durable", "priority", "expiration_ms", "message_id", "correlation_id", "correlation_id_type", "to"):
        assert getattr(again, name) == getattr(made, name)
    for name in ("subject", "reply_to", "content_type", "absolute_expiry_ms", "timestamp_s", "timestamp_rest_ms"):
        assert getattr(again, name) == getattr(made, name)
    for name in ("group_id", "group_sequence", "reply_to_group_id", "type", "headers", "message_annotations"):
        assert getattr(again, name) == getattr(made, name)


IDS: list[tuple[object, str, int]] = [
    ("text", "text", UNTYPED_ID),
    (Ulong(5), "5", NUMBER_ID),
    (Ulong((1 << 64) - 1), "18446744073709551615", NUMBER_ID),
    (ID, ID_TEXT, UUID_ID),
    (b"\x00\xff", "00ff", OCTETS_ID),
]


@pytest.mark.parametrize(("value", "text", "kind"), IDS)
def test_ids_keep_their_types(value: object, text: str, kind: int) -> None:
    octets = message(None, None, {0: value, 5: value})
    made = FORMAT.decode(octets)
    assert (made.message_id, made.message_id_type) == (text, kind)
    assert (made.correlation_id, made.correlation_id_type) == (
        value if isinstance(value, bytes) else text.encode(),
        TEXT_ID if kind == UNTYPED_ID else kind,
    )
    fields = decode_fields(FORMAT.encode(made))
    assert (fields[0], fields[5]) == (value, value)


def decode_fields(octets: bytes) -> list[object]:
    found = split(octets)
    value = value_at(octets, found.properties, found.end)
    assert isinstance(value, list)
    return value + [None] * (13 - len(value))


def test_ids_without_a_type() -> None:
    for text, value in ((ID_TEXT, ID), ("5", "5"), ("urn:uuid:no", "urn:uuid:no"), (ID_TEXT.upper(), ID_TEXT.upper())):
        fields = decode_fields(FORMAT.encode(neutral(message_id=text, correlation_id=text.encode())))
        assert (fields[0], fields[5]) == (value, value)
    assert decode_fields(FORMAT.encode(neutral(correlation_id=b"\xff\x00")))[5] == b"\xff\x00"


VALUES: list[tuple[object, object]] = [
    (None, None),
    (True, True),
    (Ubyte(255), 255),
    (Ushort(1), 1),
    (Uint(1), 1),
    (Ulong((1 << 64) - 1), (1 << 64) - 1),
    (Byte(-1), -1),
    (Short(-1), -1),
    (Int(-1), -1),
    (-1, -1),
    (float_of(1.5), 1.5),
    (2.5, 2.5),
    (Char(0x1F600), "\U0001f600"),
    (Timestamp(1_700_000_000_999), 1_700_000_000),
    (ID, ID_TEXT[9:]),
    (b"\x00", b"\x00"),
    ("é", "é"),
    (Symbol("s"), "s"),
    ([1, "a"], [1, "a"]),
    (Map([("k", Ubyte(1)), (Symbol("s"), [None])]), {"k": 1, "s": [None]}),
    (Array(UBYTE, [Ubyte(1)]), [1]),
    (Described(Symbol("d"), Ubyte(1)), 1),
]


@pytest.mark.parametrize(("value", "found"), VALUES)
def test_values_of_every_type_are_headers(value: object, found: object) -> None:
    octets = message(None, [(Symbol("x-v"), value)], None, [("v", value)])
    made = FORMAT.decode(octets)
    assert made.headers == [("v", found)]
    assert made.message_annotations == [("x-v", found)]
    assert type(made.headers[0][1]) is type(found)
    assert decode_properties(convert(AMQP10, octets, AMQP091), 8).header("x-v") == (
        str(found) if found == (1 << 64) - 1 else found
    )
    decode_neutral(convert(AMQP10, octets, MQTT))


def test_a_decimal_is_dropped() -> None:
    octets = message(None, [(Symbol("x-v"), Decimal(bytes(4)))], None, [("v", Decimal(bytes(8))), ("w", 1)])
    made = FORMAT.decode(octets)
    assert (made.headers, made.message_annotations) == ([("w", 1)], None)


BACK: list[tuple[object, object]] = [
    (None, None),
    (False, False),
    (5, Int(5)),
    (-(1 << 31), Int(-(1 << 31))),
    (1 << 31, 1 << 31),
    ((1 << 64) - 1, Ulong((1 << 64) - 1)),
    (1 << 64, str(1 << 64)),
    (1.5, 1.5),
    ("é", "é"),
    (b"\xff", b"\xff"),
]


@pytest.mark.parametrize(("value", "made"), BACK)
def test_headers_become_typed_values(value: object, made: object) -> None:
    octets = FORMAT.encode(neutral(headers=[("n", value), ("x-n", [value, {"k": value}])]))
    FORMAT.check(octets, b"", 8)
    found = split(octets)
    assert value_at(octets, found.application_properties, found.end) == Map([("n", made)])
    assert annotations_of(octets) == Map([(Symbol("x-n"), [made, Map([("k", made)])])])


def test_lists_and_tables_are_no_application_properties() -> None:
    octets = FORMAT.encode(neutral(headers=[("l", [1]), ("t", {"a": 1}), ("BCC", ["k"]), ("a", 1), ("a", 2)]))
    found = split(octets)
    assert value_at(octets, found.application_properties, found.end) == Map([("a", Int(1))])


# ---- AMQP 0.9.1


def from_amqp091(**fields: object) -> bytes:
    made = neutral(**fields)
    return convert(AMQP091, format_of(AMQP091).encode(made), AMQP10)


def to_amqp091(octets: bytes) -> Properties:
    return decode_properties(convert(AMQP10, octets, AMQP091), 8)


def test_headers_of_amqp091_that_are_annotations() -> None:
    octets = from_amqp091(
        headers=[("CC", ["a"]), ("x-a", {"k": 1}), ("timestamp_in_ms", 1_700_000_000_123), ("b", 1)], type="order"
    )
    annotations = annotations_of(octets)
    assert annotations is not None
    assert annotations.get(Symbol("x-cc")) == ["a"]
    assert annotations.get(Symbol("x-a")) == Map([("k", Int(1))])
    assert annotations.get(Symbol("x-opt-rabbitmq-received-time")) == Timestamp(1_700_000_000_123)
    assert annotations.get(Symbol("x-basic-type")) == "order"
    back = to_amqp091(octets)
    assert back.type == "order"
    headers = dict(back.headers)
    assert headers == {"CC": ["a"], "x-a": {"k": 1}, "timestamp_in_ms": 1_700_000_000_123, "b": 1}


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("/queues/q", "q"),
        ("/queues/a%20b%2Fc", "a b/c"),
        ("/exchanges/x/k", "/exchanges/x/k"),
        ("/queues/a/b", "/queues/a/b"),
    ],
)
def test_addresses_of_replies(address: str, name: str) -> None:
    assert to_amqp091(message(None, None, {4: address})).reply_to == name
    assert decode_fields(from_amqp091(reply_to=name))[4] == address


def test_deaths_that_amqp091_tells_of_have_the_form_of_amqp10() -> None:
    """Deliveries to readers of AMQP 1.0 render deaths in the record's own format first."""
    deaths = Deaths()
    deaths.add(Death(b"first", b"expired", 1_700_000_000, b"x", [b"k1", b"k2"], b"5000"))
    deaths.add(Death(b"second", b"rejected", 1_700_000_005, b"", [b"first"], b""))
    deaths.marks = DeathMarks(b"1-2-3", b"second", 3, b"g", b"rejected", 2, 1_700_000_005_000)
    plain = format_of(AMQP091).encode(neutral(headers=[("a", 1)]))
    theirs = convert(AMQP091, format_of(AMQP091).with_deaths(plain, deaths), AMQP10)
    ours = FORMAT.with_deaths(convert(AMQP091, plain, AMQP10), deaths)
    assert names_of(theirs) == names_of(ours)
    for name in names_of(ours):
        first, second = annotation(theirs, name), annotation(ours, name)
        if name == "x-opt-deaths":
            assert [sorted_pairs(each) for each in first.items] == [sorted_pairs(each) for each in second.items]
        elif isinstance(second, str):
            assert first == second
    assert convert(AMQP10, ours, MQTT)


def names_of(octets: bytes) -> set[str]:
    found = annotations_of(octets)
    assert found is not None
    return {key.text for key, _ in found.pairs if isinstance(key, Symbol)}


def annotation(octets: bytes, name: str) -> Any:
    found = annotations_of(octets)
    assert found is not None
    return found.get(Symbol(name))


def sorted_pairs(value: Map) -> list[tuple[object, object]]:
    return sorted(value.pairs, key=repr)


def test_deaths_of_another_form_are_no_error() -> None:
    said: list[object] = [{"queue": 5, "reason": "é", "count": -1, "time": "t", "routing-keys": "k", "é": 1}, "text"]
    for value in ([], "text", said, [{"original-expiration": "soon", "count": True}]):
        octets = from_amqp091(headers=[("x-death", value)])
        FORMAT.check(octets, b"", 8)
        FORMAT.decode(octets)


def test_durable_messages_are_persistent() -> None:
    for durable in (True, False):
        assert FORMAT.decode(from_amqp091(durable=durable)).durable == durable
        assert to_amqp091(message([durable])).durable == durable
    assert not to_amqp091(b"").durable


def test_groups_and_applications() -> None:
    assert decode_fields(from_amqp091(app_id="shop"))[10] == "shop"
    assert decode_fields(from_amqp091(app_id="shop", headers=[("x-group-id", "g")]))[10] == "g"
    found = to_amqp091(message(None, None, {10: "g"}))
    assert (found.app_id, found.header("x-group-id")) == ("g", "g")


# ---- MQTT


def test_topics_of_replies() -> None:
    octets = message(None, None, {4: "/exchanges/amq.topic/a.b%2Fc"})
    assert decode_neutral(convert(AMQP10, octets, MQTT)).reply_to == "a/b.c"
    there = convert(AMQP10, octets, MQTT)
    assert decode_fields(convert(MQTT, there, AMQP10))[4] == "/exchanges/amq.topic/a.b%2Fc"
    assert to_amqp091(octets).reply_to == "/exchanges/amq.topic/a.b%2Fc"


def test_a_message_of_mqtt() -> None:
    block = format_of(MQTT).encode(
        neutral(
            content_type="text/plain",
            correlation_id=b"\xff",
            expiration_ms=5000,
            body_is_text=True,
            headers=[("a", "1"), ("a", "2"), ("x-b", "3")],
        )
    )
    octets = convert(MQTT, block, AMQP10)
    found = split(octets)
    assert value_at(octets, found.application_properties, found.end) == Map(
        [("mqtt-payload-format", Int(1)), ("a", "1")]
    )
    assert annotations_of(octets) == Map([(Symbol("x-b"), "3")])
    fields = decode_fields(octets)
    assert (fields[5], fields[6]) == (b"\xff", Symbol("text/plain"))
    assert FORMAT.expiration_us(octets) == 5_000_000
    assert FORMAT.decode(octets).body_is_text


# ---- bodies


@pytest.mark.parametrize(
    ("body", "payload", "kind"),
    [
        (section(DATA, b"octets"), b"octets", PLAIN_BODY),
        (section(DATA, b"a") + section(DATA, b"b"), b"ab", PLAIN_BODY),
        (section(DATA, b"a") + section(FOOTER, Map([])), b"a", PLAIN_BODY),
        (section(AMQP_VALUE, "é"), "é".encode(), PLAIN_BODY),
        (section(AMQP_VALUE, b"o"), b"o", PLAIN_BODY),
        (section(AMQP_VALUE, 5), section(AMQP_VALUE, 5), AMQP_SECTIONS),
        (section(AMQP_SEQUENCE, [1]), section(AMQP_SEQUENCE, [1]), AMQP_SECTIONS),
    ],
)
def test_bodies_for_other_formats(body: bytes, payload: bytes, kind: int) -> None:
    assert FORMAT.payload(body) == payload
    assert FORMAT.body_kind(b"", body) == kind
    there = convert_content(AMQP10, b"", body, AMQP091)
    assert there.body == payload
    assert decode_properties(there.properties, 8).type == ("amqp-1.0" if kind == AMQP_SECTIONS else None)
    over_mqtt = convert_content(AMQP10, b"", body, MQTT)
    assert over_mqtt.body == payload
    back = convert_content(AMQP091, there.properties, there.body, AMQP10)
    assert back.body == (body if kind == AMQP_SECTIONS else section(DATA, payload))
    again = convert_content(MQTT, over_mqtt.properties, over_mqtt.body, AMQP10)
    assert again.body == back.body


def test_a_body_that_only_says_that_it_is_sections() -> None:
    for payload in (b"", b"octets", section(HEADER, [True]) + section(DATA, b""), section(FOOTER, Map([]))):
        assert FORMAT.body_of(payload, AMQP_SECTIONS) == section(DATA, payload)
    assert FORMAT.body_of(section(DATA, b"x"), PLAIN_BODY) == section(DATA, section(DATA, b"x"))


def test_a_body_that_was_never_checked_is_its_own_payload() -> None:
    for body in (b"octets", section(DATA, b"") + b"rest"):
        assert FORMAT.payload(body) == body
        assert FORMAT.body_kind(b"", body) == PLAIN_BODY


def test_addresses_are_those_of_exchanges() -> None:
    assert FORMAT.topic(b"a.b") == b"a/b"
    assert FORMAT.amqp_address(b"x", b"k") == (b"x", b"k")
    assert not FORMAT.keys_are_topics
    assert decode_value(encode_value(1), 0, 2) == 1
