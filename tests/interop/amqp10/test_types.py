"""Every type of AMQP 1.0, every field of its messages, and every kind of body: what one client sends, another gets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Described,
    Message,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    timestamp,
    ubyte,
    uint,
    ulong,
    ushort,
)
from proton.utils import BlockingConnection

from tests.broker_process import BrokerProcess, running
from tests.interop.amqp10.proton_client import QUEUE, connected, take
from tests.interop.amqp10.rhea_client import run

ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
LATE = timestamp(253402300799999)  # the last millisecond of the year 9999

# What proton takes and gives, how rhea is told to make it, and what rhea has of it.
VALUES: list[tuple[Any, list[Any], Any]] = [
    (None, ["null", ""], None),
    (True, ["boolean", True], True),
    (False, ["boolean", False], False),
    (ubyte(0), ["ubyte", "0"], 0),
    (ubyte(255), ["ubyte", "255"], 255),
    (ushort(65535), ["ushort", "65535"], 65535),
    (uint(0), ["uint", "0"], 0),
    (uint(255), ["uint", "255"], 255),
    (uint(2**32 - 1), ["uint", "4294967295"], 2**32 - 1),
    (ulong(0), ["ulong", "0"], 0),
    (ulong(255), ["ulong", "255"], 255),
    (ulong(2**64 - 1), ["ulong", "18446744073709551615"], {"hex": "ffffffffffffffff"}),
    (byte(-128), ["byte", "-128"], -128),
    (byte(127), ["byte", "127"], 127),
    (short(-32768), ["short", "-32768"], -32768),
    (int32(-128), ["int", "-128"], -128),
    (int32(-(2**31)), ["int", "-2147483648"], -(2**31)),
    (127, ["long", "127"], 127),
    (2**40, ["long", "1099511627776"], 2**40),
    (-(2**63), ["long", "-9223372036854775808"], {"hex": "8000000000000000"}),
    (float32(1.5), ["float", "1.5"], 1.5),
    (float32(-0.0), ["float", "-0"], "-0"),
    (2.5e300, ["double", "2.5e300"], 2.5e300),
    (math.inf, ["double", "Infinity"], "Infinity"),
    (char("€"), ["char", "€"], 0x20AC),
    (timestamp(0), ["timestamp", "0"], {"ms": 0}),
    (timestamp(-1), ["timestamp", "-1"], {"ms": -1}),
    (LATE, ["timestamp", str(int(LATE))], {"ms": int(LATE)}),
    (ID, ["uuid", ID.hex], {"hex": ID.hex}),
    (b"", ["binary", ""], {"hex": ""}),
    (bytes(range(256)), ["binary", bytes(range(256)).hex()], {"hex": bytes(range(256)).hex()}),
    ("", ["string", ""], ""),
    ("plain", ["string", "plain"], "plain"),
    ("€ 𝄞" * 100, ["string", "€ 𝄞" * 100], "€ 𝄞" * 100),
    (symbol("a.symbol"), ["symbol", "a.symbol"], "a.symbol"),
    (symbol("s" * 300), ["symbol", "s" * 300], "s" * 300),
]
SIMPLE = {f"k{number}": value[0] for number, value in enumerate(VALUES)}
SIMPLE_TYPED = {f"k{number}": value[1] for number, value in enumerate(VALUES)}
SIMPLE_SHOWN = {f"k{number}": value[2] for number, value in enumerate(VALUES)}

COMPOUND: list[tuple[Any, list[Any], Any]] = [
    ([], ["list", []], []),
    ([ubyte(1), "a", None], ["list", [["ubyte", "1"], ["string", "a"], ["null", ""]]], [1, "a", None]),
    ([[["deep"]]], ["list", [["list", [["list", [["string", "deep"]]]]]]], [[["deep"]]]),
    ({}, ["map", {}], {}),
    (
        {"a": uint(7), "b": {"c": [True]}},
        ["map", {"a": ["uint", "7"], "b": ["map", {"c": ["list", [["boolean", True]]]}]}],
        {"a": 7, "b": {"c": [True]}},
    ),
    (["x"] * 1000, ["list", [["string", "x"]] * 1000], ["x"] * 1000),
    (Array(UNDESCRIBED, Data.INT, int32(1), int32(-2)), ["array", [1, -2]], [1, -2]),
]
ONLY_PROTON = [
    decimal32(0x22400000),
    decimal64(0x2230000000000001),
    decimal128(bytes(range(16))),
    Array(UNDESCRIBED, Data.STRING, "a", "b"),
    Described(symbol("own:type"), [1]),
    Described(ulong(99), "v"),
]

FIELDS: dict[str, Any] = {
    "subject": "a subject",
    "reply_to": "/queues/answers",
    "content_type": symbol("text/plain"),
    "content_encoding": symbol("gzip"),
    "expiry_time": 253402300799.0,
    "creation_time": 1700000000.0,
    "group_id": "a group",
    "group_sequence": 2**32 - 1,
    "reply_to_group_id": "another group",
    "user_id": b"guest",
    "address": "$queue/fields",
}
IDS: list[tuple[Any, list[Any], Any]] = [
    ("text", ["string", "text"], "text"),
    (ulong(2**64 - 1), ["ulong", "18446744073709551615"], {"hex": "f" * 16}),
    (ulong(7), ["ulong", "7"], 7),
    (ID, ["uuid", ID.hex], {"hex": ID.hex}),
    (b"\x00\xff", ["binary", "00ff"], {"hex": "00ff"}),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that the tests of this module share."""
    folder: Path = tmp_path_factory.mktemp("types")
    with running(folder) as made:
        yield made


@pytest.fixture(scope="module")
def connection(broker: BrokerProcess) -> Iterator[BlockingConnection]:
    with connected(broker) as made:
        yield made


def send(connection: BlockingConnection, queue: str, messages: list[Message]) -> None:
    sender = connection.create_sender(queue, options=[QUEUE])
    for message in messages:
        sender.send(message)
    sender.close()


def received(connection: BlockingConnection, queue: str, count: int) -> list[Message]:
    receiver = connection.create_receiver(queue, options=[QUEUE], credit=100)
    found = take(receiver, count)
    receiver.close()
    return found


def same(found: Any, sent: Any) -> bool:
    """Whether two values are equal and of one type, all the way down."""
    if isinstance(found, memoryview):  # proton's way to give binaries
        found = bytes(found)
    if isinstance(sent, list):
        return isinstance(found, list) and len(found) == len(sent) and all(map(same, found, sent))
    if isinstance(sent, dict):
        return isinstance(found, dict) and found.keys() == sent.keys() and all(same(found[k], sent[k]) for k in sent)
    if isinstance(sent, float):
        return type(found) is type(sent) and repr(found) == repr(sent)
    return type(found) is type(sent) and bool(found == sent)


def plain(value: Any) -> Any:
    """An id as proton gives it: those that are numbers have no type there."""
    return int(value) if isinstance(value, ulong) else value


def test_proton_to_proton(connection: BlockingConnection) -> None:
    bodies = [each[0] for each in VALUES + COMPOUND] + ONLY_PROTON
    annotations = {symbol("x-opt-list"): [1, {"a": symbol("b")}], symbol("x-opt-u"): ubyte(3)}
    send(connection, "pp", [Message(body, properties=SIMPLE, annotations=annotations) for body in bodies])
    values = dict(SIMPLE)
    for found, body in zip(received(connection, "pp", len(bodies)), bodies, strict=True):
        assert same(found.body, body), (found.body, body)
        assert same(dict(found.properties), values), [
            key for key in values if not same(found.properties[key], values[key])
        ]
        assert same({key: found.annotations[key] for key in annotations}, annotations)


def test_proton_to_rhea(broker: BrokerProcess, connection: BlockingConnection) -> None:
    cases = VALUES + COMPOUND
    send(connection, "pr", [Message(body, properties=SIMPLE) for body, _, _ in cases])
    found = run(broker, "receive", address="$queue/pr", count=len(cases))
    for got, (_, _, shown) in zip(found, cases, strict=True):
        body = got.get("body")
        assert (body["content"] if isinstance(body, dict) and "section" in body else body) == shown
        assert got["application_properties"] == SIMPLE_SHOWN


def test_rhea_to_proton(broker: BrokerProcess, connection: BlockingConnection) -> None:
    cases = VALUES + COMPOUND
    messages = [{"body": typed, "application_properties": SIMPLE_TYPED} for _, typed, _ in cases]
    assert run(broker, "send", address="$queue/rp", messages=messages) == ["accepted"] * len(cases)
    for found, (body, _, _) in zip(received(connection, "rp", len(cases)), cases, strict=True):
        assert same(found.body, body), (found.body, body)
        assert same(found.properties, SIMPLE)


def test_fields_from_proton(broker: BrokerProcess, connection: BlockingConnection) -> None:
    sent = [
        Message("x", durable=True, priority=9, ttl=3600.0, id=each[0], correlation_id=each[0], **FIELDS) for each in IDS
    ]
    send(connection, "fields", sent)
    for found, (value, _, _) in zip(received(connection, "fields", len(sent)), IDS, strict=True):
        assert same(found.id, plain(value))
        assert same(found.correlation_id, plain(value))
        assert {name: getattr(found, name) for name in FIELDS} == FIELDS
        assert (found.durable, found.priority, found.first_acquirer) == (True, 9, True)
        assert 3500 < found.ttl <= 3600
    send(connection, "fields", sent)
    for got, (_, _, shown) in zip(run(broker, "receive", address="$queue/fields", count=len(sent)), IDS, strict=True):
        assert (got["message_id"], got["correlation_id"]) == (shown, shown)
        assert (got["subject"], got["to"], got["reply_to"]) == ("a subject", "$queue/fields", "/queues/answers")
        assert (got["content_type"], got["content_encoding"]) == ("text/plain", "gzip")
        assert (got["creation_time"], got["absolute_expiry_time"]) == ({"ms": 1700000000000}, {"ms": int(LATE) - 999})
        assert (got["group_id"], got["group_sequence"], got["reply_to_group_id"]) == (
            "a group",
            2**32 - 1,
            "another group",
        )
        assert (got["user_id"], got["durable"], got["priority"]) == ({"hex": b"guest".hex()}, True, 9)


def test_fields_from_rhea(broker: BrokerProcess, connection: BlockingConnection) -> None:
    fields: dict[str, Any] = {
        "durable": True,
        "priority": 3,
        "ttl": 3_600_000,
        "subject": "a subject",
        "to": "$queue/fields",
        "reply_to": "/queues/answers",
        "content_type": "text/plain",
        "content_encoding": "gzip",
        "creation_time": 1700000000000,
        "absolute_expiry_time": 253402300799000,
        "group_id": "a group",
        "group_sequence": 5,
        "reply_to_group_id": "another group",
        "user_id": "guest",
        "message_annotations": {"x-opt-a": ["ubyte", "5"], "other": ["string", "kept"]},
    }
    messages = [
        {**fields, "message_id": typed, "correlation_id": typed, "body": ["string", "x"]} for _, typed, _ in IDS
    ]
    assert run(broker, "send", address="$queue/rfields", messages=messages) == ["accepted"] * len(IDS)
    for found, (value, _, _) in zip(received(connection, "rfields", len(IDS)), IDS, strict=True):
        assert same(found.id, plain(value))
        assert same(found.correlation_id, plain(value))
        assert {name: getattr(found, name) for name in FIELDS} == {
            **FIELDS,
            "group_sequence": 5,
            "address": "$queue/fields",
        }
        assert (found.durable, found.priority) == (True, 3)
        assert found.annotations[symbol("x-opt-a")] == ubyte(5)
        assert found.annotations[symbol("other")] == "kept"


def test_kinds_of_bodies_from_rhea(broker: BrokerProcess, connection: BlockingConnection) -> None:
    """Data in one section and in several, a sequence, a value: none becomes another."""
    specs = [
        {"data": "00ff"},
        {"datas": ["61", "62"]},
        {"sequence": [["int", "1"], ["string", "a"]]},
        {"body": ["null", ""]},
    ]
    assert run(broker, "send", address="$queue/kinds", messages=specs) == ["accepted"] * 4
    found = run(broker, "receive", address="$queue/kinds", count=4)
    assert found[0]["body"] == {"section": 0x75, "content": {"hex": "00ff"}}
    assert found[1]["body"] == {"section": 0x75, "content": [{"hex": "61"}, {"hex": "62"}]}
    assert found[2]["body"]["section"] == 0x76
    assert found[3].get("body") is None
    assert run(broker, "send", address="$queue/kinds", messages=specs) == ["accepted"] * 4
    (data, _, sequence, value) = received(connection, "kinds", 4)
    assert (data.body, data.inferred) == (b"\x00\xff", True)
    assert (sequence.body, sequence.inferred) == ([int32(1), "a"], True)
    assert (value.body, value.inferred) == (None, False)


@pytest.mark.parametrize("kind", range(6))
def test_messages_of_jms(connection: BlockingConnection, kind: int) -> None:
    """What Qpid JMS marks its messages with: bytes that stay bytes, and a body for each kind."""
    bodies: list[tuple[Any, bool]] = [
        (None, False),
        (b"\xac\xed\x00\x05", True),
        ({"a": int32(1), "b": b"x", "c": char("c"), "d": float32(0.5)}, False),
        (b"bytes", True),
        ([int32(1), "two", 3.0, byte(4)], True),
        ("text", False),
    ]
    marks = {
        symbol("x-opt-jms-msg-type"): byte(kind),
        symbol("x-opt-jms-dest"): byte(0),
        symbol("x-opt-jms-reply-to"): byte(2),
    }
    body, inferred = bodies[kind]
    properties = {"JMSXGroupID": "g", "number": int32(5), "JMS_AMQP_TTL": ulong(7)}
    sent = Message(
        body, inferred=inferred, annotations=marks, properties=properties, id="ID:1", group_id="g", group_sequence=1
    )
    send(connection, "jms", [sent])
    (found,) = received(connection, "jms", 1)
    assert same(found.body, body)
    assert found.inferred is inferred
    assert same({key: found.annotations[key] for key in marks}, marks)
    assert same(found.properties, properties)
    assert (found.id, found.group_id, found.group_sequence) == ("ID:1", "g", 1)
