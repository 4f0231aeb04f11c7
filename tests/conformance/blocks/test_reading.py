"""The block protocol as frames.py and log/block.py draw it, octet by octet, with no code of the broker's."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pytest

from tests.broker_process import AnyBroker, Dialled
from tests.conformance.amqp091 import raw as amqp

pytestmark = pytest.mark.over_sockets
REQUEST, REPLY, ERROR, BLOCKS, PICKED = 1, 2, 3, 4, 6


class Raw:
    """One connection, octet by octet."""

    def __init__(self, broker: Dialled) -> None:
        self.socket = broker.dial("mqtt")
        self.socket.sendall(b"FBLK\x02\0\0\0")
        assert self.read(8) == b"FBLK\x02\0\0\0"

    def send(self, **request: object) -> None:
        payload = json.dumps(request).encode()
        self.socket.sendall(struct.pack("<IB3x", len(payload), REQUEST) + payload)

    def read(self, octets: int) -> bytes:
        found = b""
        while len(found) < octets:
            part = self.socket.recv(octets - len(found))
            assert part, "the broker closed the connection"
            found += part
        return found

    def frame(self) -> tuple[int, bytes]:
        head = self.read(8)
        octets, kind = struct.unpack("<IB3x", head)
        assert head[5:] == b"\0\0\0"
        return kind, self.read(octets)

    def ask(self, **request: object) -> dict[str, object]:
        self.send(**request)
        kind, payload = self.frame()
        assert kind in (REPLY, ERROR)
        values: dict[str, object] = json.loads(payload)
        assert ("error" in values) == (kind == ERROR)
        return values


@pytest.fixture
def raw(broker: AnyBroker) -> Iterator[Raw]:
    with amqp.connect(broker) as publisher:
        publisher.declare("q")
        publisher.fill("q", [b'{"n": %d}' % number for number in range(5)])
    made = Raw(broker)
    assert made.ask(op="auth", user="guest", password="guest") == {"user": "guest"}
    yield made
    made.socket.close()


def column_bodies(block: bytes) -> list[bytes]:
    """The bodies of a block, by its picture."""
    magic, _, octets, count, _, _, *columns, annotations, zeros = struct.unpack_from("<4sIIIqq4III", block)
    exchanges, keys, properties, bodies = columns
    assert (magic, octets, annotations, zeros) == (b"FBK2", len(block), 0, 0)
    at = 56 + 8 * count + (count + 7) // 8 * 8
    offsets_octets = (4 * (count + 1) + 7) // 8 * 8
    for column in (exchanges, keys, properties):
        at += offsets_octets + (column + 7) // 8 * 8
    ends = struct.unpack_from(f"<{count + 1}i", block, at)
    content = block[at + offsets_octets :][:bodies]
    return [content[ends[number] : ends[number + 1]] for number in range(count)]


def test_queues_and_ends(raw: Raw) -> None:
    described = raw.ask(op="describe", queue="q")
    assert {name: described[name] for name in ("queue", "kind", "start", "end")} == {
        "queue": "q",
        "kind": "classic",
        "start": 0,
        "end": 5,
    }
    assert set(described) == {"queue", "id", "kind", "start", "end", "octets"}
    assert raw.ask(op="queues", pattern="q") == {"queues": [described], "next": None}
    facts = {name: described[name] for name in ("id", "start", "end", "octets")}
    assert raw.ask(op="ends", queues={"q": 9}) == {"queues": {"q": facts}}
    assert raw.ask(op="ends", queues={"q": 4}, wait_ms=30_000) == {"queues": {"q": facts}}
    assert raw.ask(op="ends", queues={"q": 5}, wait_ms=50) == {"queues": {"q": facts}}
    assert raw.ask(op="ends", queues={}, wait_ms=50) == {"queues": {}}
    assert raw.ask(op="ends", queues={"r": 0})["reason"] == "not-found"


def test_fetches_with_and_without_a_filter(raw: Raw) -> None:
    raw.send(op="fetch", queue="q", first=0, end=5)
    kind, payload = raw.frame()
    assert (kind, struct.unpack_from("<qq", payload)) == (BLOCKS, (5, 0))
    found: list[bytes] = []
    at = 16
    while at < len(payload):
        octets = struct.unpack_from("<I", payload, at + 8)[0]
        found += column_bodies(payload[at : at + octets])
        at += octets
    assert found == [b'{"n": %d}' % number for number in range(5)]

    raw.send(op="fetch", queue="q", first=0, end=5, filter="/n IN (1, 3, 4)")
    kind, payload = raw.frame()
    assert (kind, struct.unpack_from("<qq", payload)) == (PICKED, (5, 0))
    octets, count = struct.unpack_from("<II", payload, 16 + 8)
    assert column_bodies(payload[16 : 16 + octets]) == [b'{"n": 1}', b'{"n": 3}', b'{"n": 4}']
    assert struct.unpack(f"<{count}q", payload[16 + octets :]) == (1, 3, 4)

    raw.send(op="fetch", queue="q", first=0, end=5, filter="/n = 9")
    assert raw.frame() == (PICKED, struct.pack("<qq", 5, 0))
    assert raw.ask(op="fetch", queue="q", first=0, end=5, filter="/n =")["reason"] == "invalid"


def test_holds(raw: Raw) -> None:
    assert raw.ask(op="hold", queue="q", group="g", offset=2, ttl_ms=60_000) == {"offset": 2, "start": 0}
    assert raw.ask(op="hold", queue="q", group="g", offset=2, ttl_ms=999)["reason"] == "invalid"
    assert raw.ask(op="hold", queue="r", group="g", offset=2, ttl_ms=60_000)["reason"] == "not-found"
    assert raw.ask(op="release", queue="q", group="g") == {}
    assert raw.ask(op="hold", queue="q", group="g", offset=2) == {
        "error": "request",
        "reason": "invalid",
        "text": "hold: ttl_ms is absent, not a whole number from 1 to 9223372036854775807",
    }
