"""Octets that are no text, and values that nothing can keep, over every protocol: refused or taken, never an error."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any, Final

import httpx
import pytest

from forebay.management.table import OPERATIONS
from tests.broker_process import BrokerProcess
from tests.conformance.amqp091 import raw as amqp
from tests.conformance.mqtt import raw as mqtt

WAIT_S_MAX: Final = 60
GUEST: Final = ("guest", "guest")
NO_TEXT: Final = (b"\xff\xfe", b"\xed\xa0\xbd", b"a\xc3", b"\0", b"\xf4\x90\x80\x80")
HALF: Final = "\ud83d"
LISTS: Final = (
    *("overview", "connections", "channels", "consumers", "exchanges", "queues", "bindings", "vhosts", "users"),
    *("policies", "parameters", "global-parameters", "definitions", "permissions", "queues/detailed"),
    *("forebay/sessions/%2F", "forebay/subscriptions/%2F", "forebay/retained/%2F", "forebay/groups/%2F"),
    *("forebay/leases/%2F", "forebay/delayed/%2F", "forebay/config", "forebay/stats", "forebay/dead-letters/%2F"),
)
Start = Callable[..., BrokerProcess]


@pytest.fixture
def broker(start_broker: Start) -> BrokerProcess:
    return start_broker(http="127.0.0.1:0", events=["*"])


def look_over(broker: BrokerProcess, lists: tuple[str, ...] = LISTS) -> None:
    """The broker lives, has had no error of its own, and says of itself what there is, also after a restart."""
    with httpx.Client(base_url=f"{broker.http_url}/api", auth=GUEST, timeout=WAIT_S_MAX) as api:
        for path in lists:
            answer = api.get(f"/{path}")
            assert answer.status_code == 200, (path, answer.text)
    assert "internal error" not in broker.log_text().lower()


# ---- AMQP


def field(kind: bytes, value: bytes, name: bytes = b"x-bound-from") -> bytes:
    return amqp.short(name) + kind + value


def nested(depth: int) -> bytes:
    """The value of a field that nests so deep."""
    octets = b""
    for _ in range(depth):
        octets = amqp.long(amqp.short("t") + b"F" + octets) if octets else amqp.long(b"")
    return octets


VALUES: Final = (
    *(field(b"S", amqp.long(octets)) for octets in NO_TEXT),
    *(field(b"x", amqp.long(octets)) for octets in NO_TEXT),
    field(b"d", struct.pack(">d", float("nan"))),
    field(b"d", struct.pack(">d", float("-inf"))),
    field(b"f", struct.pack(">f", float("inf"))),
    field(b"T", b"\xff" * 8),
    field(b"L", b"\xff" * 8),
    field(b"l", b"\x80" + b"\0" * 7),
    field(b"D", b"\xff\x7f\xff\xff\xff"),
    field(b"A", amqp.long(b"S" + amqp.long(b"\xff") + b"d" + struct.pack(">d", float("inf")))),
    field(b"F", amqp.long(field(b"S", amqp.long(b"\xff"), b"\xfe"))),
    field(b"F", nested(30)),
    field(b"F", nested(127)),
    field(b"F", nested(140)),
    field(b"?", b"\xff"),
)


def tables() -> list[bytes]:
    """Field tables of one field: values of every type, under names that are taken and names that are no text."""
    found = [amqp.long(each) for each in VALUES]
    for name in (b"x-ha-params", b"x-internal-purpose", b"x-match", b"x-dead-letter-exchange", b"x-priority", *NO_TEXT):
        found += [amqp.long(amqp.short(name) + each[1 + each[0] :]) for each in VALUES[:1]]
    return found


def logged_in(broker: BrokerProcess) -> amqp.Raw:
    """A new connection with channel 1."""
    raw = amqp.Raw(broker)
    raw.handshake()
    raw.open_channel()
    return raw


def ask(raw: amqp.Raw, octets: bytes) -> bool:
    """Send a method, and wait for any answer to it; whether the connection is still there."""
    raw.send(octets)
    try:
        kind, _, payload = raw.frame()
    except (AssertionError, OSError):
        return False
    assert kind == 1
    method = int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big")
    if method == amqp.CLOSE:
        raw.send(amqp.method(0, amqp.CLOSE_OK))
        assert int.from_bytes(payload[4:6], "big") != 541, payload
        return False
    if method == amqp.CHANNEL_CLOSE:
        assert int.from_bytes(payload[4:6], "big") != 541, payload
        raw.send(amqp.method(1, amqp.CHANNEL_CLOSE_OK))
        raw.open_channel(1)
    return True


def amqp_methods(number: int, table: bytes) -> list[bytes]:
    """Methods that bring a field table, each answered by one method."""
    name = amqp.short(f"n{number}")
    key = amqp.short(NO_TEXT[number % len(NO_TEXT)])
    return [
        amqp.method(1, amqp.QUEUE_DECLARE, b"\0\0" + name + b"\x02" + table),
        amqp.method(1, amqp.QUEUE_DECLARE, b"\0\0" + name + b"\x10" + table),
        amqp.method(1, (40, 10), b"\0\0" + name + amqp.short("headers") + b"\x02" + table),
        amqp.method(1, (50, 20), b"\0\0" + amqp.short("q") + amqp.short("amq.headers") + key + b"\0" + table),
        amqp.method(1, (50, 20), b"\0\0" + amqp.short("q") + amqp.short("amq.topic") + key + b"\0" + table),
        amqp.method(1, (40, 30), b"\0\0" + amqp.short("amq.fanout") + amqp.short("amq.headers") + key + b"\0" + table),
        amqp.method(1, amqp.CONSUME, b"\0\0" + amqp.short("q") + key + b"\0" + table),
        amqp.method(1, amqp.CANCEL, key + b"\0"),
    ]


def test_over_amqp(broker: BrokerProcess) -> None:
    for octets in NO_TEXT:
        raw = amqp.Raw(broker)
        raw.send(amqp.HEADER)
        raw.expect(0, amqp.START)
        properties = amqp.long(field(b"S", amqp.long(octets), octets) + field(b"S", amqp.long(octets), b"product"))
        login = amqp.short("PLAIN") + amqp.long(b"\0" + octets.replace(b"\0", b"z") + b"\0" + octets)
        raw.send(amqp.method(0, amqp.START_OK, properties + login + amqp.short("en_US")))
        ask(raw, b"")
        raw.socket.close()
    raw = logged_in(broker)
    raw.declare("q")
    for number, table in enumerate(tables()):
        for method in amqp_methods(number, table):
            if not ask(raw, method):
                raw.socket.close()
                raw = logged_in(broker)
    for octets in NO_TEXT:
        for method in (
            amqp.method(1, amqp.QUEUE_DECLARE, b"\0\0" + amqp.short(octets) + b"\x02" + amqp.table()),
            amqp.method(1, (40, 10), b"\0\0" + amqp.short(octets) + amqp.short("fanout") + b"\x02" + amqp.table()),
            amqp.method(1, (40, 10), b"\0\0" + amqp.short("new") + amqp.short(octets) + b"\x02" + amqp.table()),
            amqp.method(1, (50, 20), b"\0\0" + amqp.short(octets) * 2 + amqp.short(octets) + b"\0" + amqp.table()),
        ):
            assert ask(raw, method)
    look_over(broker)
    raw.socket.close()
    raw = logged_in(broker)
    for number, table in enumerate(tables()):
        head = amqp.number(1 << 13, 2) + table
        for exchange, key in (("amq.headers", NO_TEXT[number % len(NO_TEXT)]), ("", b"q")):
            target = b"\0\0" + amqp.short(exchange) + amqp.short(key) + b"\0"
            raw.send(amqp.method(1, amqp.PUBLISH, target), amqp.content(1, b"b", head))
            if not ask(raw, amqp.method(1, (20, 20), b"\x01")):
                raw.socket.close()
                raw = logged_in(broker)
    raw.socket.close()
    look_over(broker, ("forebay/queues/%2F/q/messages?limit=1000", *LISTS))
    broker.restart()
    look_over(broker)


# ---- MQTT


def test_over_mqtt(broker: BrokerProcess) -> None:
    packets: list[bytes] = []
    for octets in (*NO_TEXT, b"ok", "é🔑".encode()):
        user = b"\x26" + mqtt.text(octets) + mqtt.text(octets)
        for properties in (
            user,
            user * 40,
            b"\x26" + mqtt.text("filter") + mqtt.text(octets),
            b"\x26" + mqtt.text("consumer-group") + mqtt.text(octets),
            b"\x26" + mqtt.text("x-group-id") + mqtt.text(octets),
            b"\x03" + mqtt.text(octets),
            b"\x08" + mqtt.text(octets),
            b"\x09" + mqtt.text(octets),
            b"\x02\xff\xff\xff\xff",
        ):
            packets.append(mqtt.publish("$queue/a", b"b", 1, properties=properties))
            packets.append(mqtt.publish("kept/a", b"b", 1, bits=1, properties=properties))
            packets.append(mqtt.subscribe(1, ("a/#", 1), properties=properties))
            packets.append(mqtt.subscribe(1, ("$queue/a", 1), properties=properties))
        packets.append(mqtt.publish(octets, b"b", 1))
        packets.append(mqtt.publish(b"$queue/" + octets, b"b", 1))
        packets.append(mqtt.subscribe(1, (b"$share/" + octets + b"/t", 1)))
        packets.append(mqtt.subscribe(1, (b"x/" + octets, 1)))
    for number, packet in enumerate(packets):
        client = broker.dial("mqtt")
        client.sendall(mqtt.connect(f"c{number}", properties=b"\x11\0\0\1\0") + packet + mqtt.PINGREQ)
        read_out(client)
    for octets in NO_TEXT:
        for text in (octets, b"ok"):
            head = mqtt.connect_head(0xC6, properties=b"\x26" + mqtt.text(octets) * 2)
            will = mqtt.block(5, b"\x26" + mqtt.text(octets) * 2) + mqtt.text(octets) + mqtt.text(octets)
            rest = mqtt.text(text) + will + mqtt.text(octets) + mqtt.text(octets)
            for payload in (head + rest, mqtt.connect_head(0xC2) + mqtt.text(text) + mqtt.text(octets) * 2):
                client = broker.dial("mqtt")
                client.sendall(mqtt.packet(0x10, payload))
                read_out(client)
    look_over(broker)
    broker.restart()
    look_over(broker)


def read_out(client: Any) -> None:
    """Read until the broker has answered a ping, or has ended the connection."""
    found = b""
    while mqtt.PINGRESP not in found:
        try:
            more = client.recv(65536)
        except ConnectionResetError:
            break
        if not more:
            break
        found += more
    client.close()


# ---- the block protocol


class Blocks:
    """One connection of the block protocol whose requests are JSON as the test writes it."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.socket = broker.dial("mqtt")
        self.socket.sendall(b"FBLK\x02\0\0\0")
        assert self.read(8) == b"FBLK\x02\0\0\0"
        assert self.ask('{"op": "auth", "user": "guest", "password": "guest"}') == {"user": "guest"}

    def read(self, octets: int) -> bytes:
        found = b""
        while len(found) < octets:
            part = self.socket.recv(octets - len(found))
            assert part, "the broker closed the connection"
            found += part
        return found

    def ask(self, text: str) -> dict[str, Any]:
        payload = text.encode("utf-8", "surrogatepass")
        self.socket.sendall(struct.pack("<IB3x", len(payload), 1) + payload)
        octets, _ = struct.unpack("<IB3x", self.read(8))
        answer: dict[str, Any] = json.loads(self.read(octets))
        return answer


WRONG: Final = (
    '"\\ud83d"',
    '{"\\ud83d": 1}',
    '{"a": ["\\udc00"]}',
    "NaN",
    "-Infinity",
    "1e999",
    str(1 << 70),
    "[" * 300 + "]" * 300,
)
FILLED: Final = {
    "vhost": "/",
    "queue": "q",
    "exchange": "amq.topic",
    "destination": "q",
    "policy": "p",
    "pattern": "^p",
    "definition": {"max-length": 5},
    "component": "c",
    "name": "n",
    "value": 1,
    "user": "u",
    "configure": "",
    "write": "",
    "read": "",
    "tags": [],
    "limits": {},
    "client_id": "c",
    "topic": "t",
    "offset": 0,
    "group": "g",
    "to": "first",
    "below": 0,
    "time_ms": 0,
    "id": 1,
    "node": "n",
}


def test_over_the_block_protocol(broker: BrokerProcess) -> None:
    blocks = Blocks(broker)
    assert "error" not in blocks.ask('{"op": "control", "do": "queue.declare", "queue": "q"}')
    for name, operation in OPERATIONS.items():
        base = {each.name: FILLED[each.name] for each in operation.parameters if each.required}
        for each in operation.parameters:
            for value in WRONG:
                request = json.dumps({"op": "control", "do": name, **base, each.name: "HOLE"})
                answer = blocks.ask(request.replace('"HOLE"', value))
                assert "error" in answer, (name, each.name, value, answer)
    blocks.socket.close()
    look_over(broker)
    broker.restart()
    look_over(broker)
