"""The node `<entity>/$management`, octet by octet: bad requests, and locks that are somebody else's."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.amqp10.raw import (
    ATTACH,
    DISPOSITION,
    MODIFIED,
    RECEIVER,
    REJECTED,
    Described,
    Raw,
    Symbol,
    Uint,
    attach,
    consumer,
    disposition,
    encode,
    flow,
    message,
    publisher,
    source,
    target,
    transfer,
)
from tests.conformance.amqp10.test_12_claims import OPTIONS, answer, azure, node, request

STATUS = ("statusCode", "statusDescription")
LOST = "com.microsoft:message-lock-lost"


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker(**OPTIONS)


class Array:
    """An AMQP array of uuids or longs, as raw octets."""

    def __init__(self, code: int, items: list[bytes]) -> None:
        inner = bytes([code]) + b"".join(items)
        self.octets = b"\xf0" + struct.pack(">II", len(inner) + 4, len(items)) + inner


def encoded(fields: dict[str, Any]) -> bytes:
    """A map with arrays in it."""
    inner = b"".join(
        encode(key) + (each.octets if isinstance(each, Array) else encode(each)) for key, each in fields.items()
    )
    return b"\xd1" + struct.pack(">II", len(inner) + 4, 2 * len(fields)) + inner


def longs(*numbers: int) -> Array:
    return Array(0x81, [struct.pack(">q", number) for number in numbers])


def uuids(*tags: bytes) -> Array:
    """Lock tokens, as the uuids that delivery-tags are."""
    return Array(0x98, [tag[3::-1] + tag[5:3:-1] + tag[7:5:-1] + tag[8:] for tag in tags])


def managed(broker: AnyBroker, queue: str = "jobs") -> Raw:
    """A connection of a user with the node of an entity: handles 2 and 3."""
    raw = azure(broker)
    raw.send(*node(f"{queue}/$management", 2), flow(3, 100))
    raw.expect(ATTACH)
    raw.flow(2)
    raw.expect(ATTACH)
    return raw


def ask(raw: Raw, operation: str, fields: dict[str, Any] | None, delivery: int = 1) -> tuple[int, str, Any]:
    body = request(operation, None)
    if fields is not None:
        body = body[:-1] + encoded(fields)  # in place of the null
    raw.send(transfer(delivery, body, handle=2, settled=True))
    status, text, _, found = answer(raw, STATUS)
    raw.flow(2)
    return status, text, found


def published(raw: Raw, *bodies: bytes) -> None:
    raw.send(publisher("jobs", 5))
    raw.expect(ATTACH)
    raw.flow(5)
    for number, body in enumerate(bodies):
        raw.send(transfer(100 + number, message(body), handle=5, settled=True))


def locked(raw: Raw, count: int = 1) -> list[list[Any]]:
    """Fields of so many transfers, from a link with handle 6."""
    raw.send(consumer("jobs", 6), flow(6, count, next_incoming=None))
    raw.expect(ATTACH)
    return [raw.delivery()[0] for _ in range(count)]


@pytest.mark.parametrize("operation", ["com.microsoft:add-rule", "com.microsoft:", "READ", "com.microsoft:get-rules"])
def test_unknown_operations(broker: AnyBroker, operation: str) -> None:
    status, text, _ = ask(managed(broker), operation, {})
    assert status == 501
    assert operation in text


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        ("peek-message", None),
        ("peek-message", {"from-sequence-number": "one", "message-count": 1}),
        ("peek-message", {"from-sequence-number": 1, "message-count": 0}),
        ("peek-message", {"from-sequence-number": 1, "message-count": 1, "session-id": 7}),
        ("renew-lock", {}),
        ("renew-lock", {"lock-tokens": []}),
        ("renew-lock", {"lock-tokens": ["text"]}),
        ("update-disposition", {"disposition-status": "eaten", "lock-tokens": uuids(bytes(16))}),
        ("update-disposition", {"lock-tokens": uuids(bytes(16))}),
        ("receive-by-sequence-number", {"sequence-numbers": longs(0), "receiver-settle-mode": Uint(1)}),
        ("receive-by-sequence-number", {"sequence-numbers": longs(1, 1), "receiver-settle-mode": Uint(1)}),
        ("receive-by-sequence-number", {"sequence-numbers": longs(1)}),
        ("schedule-message", {"messages": []}),
        ("schedule-message", {"messages": [{"message": "text"}]}),
        ("schedule-message", {"messages": [{"message": b"\x00\x53"}]}),
        ("cancel-scheduled-message", {"sequence-numbers": longs(-1)}),
        ("set-session-state", {"session-state": b"x"}),
        ("set-session-state", {"session-id": "x" * 200, "session-state": b"x"}),
        ("get-session-state", {"session-id": ""}),
        ("get-message-sessions", {"skip": -1, "top": 1}),
    ],
)
def test_bad_fields(broker: AnyBroker, operation: str, fields: dict[str, Any] | None) -> None:
    raw = managed(broker)
    assert ask(raw, f"com.microsoft:{operation}", fields)[0] == 400
    peek = {"from-sequence-number": 1, "message-count": 1}
    assert ask(raw, "com.microsoft:peek-message", peek, 2)[0] == 204, "the link goes on"


@pytest.mark.parametrize(
    ("operation", "fields", "status"),
    [
        ("renew-lock", {"lock-tokens": uuids(bytes(16))}, 410),
        ("update-disposition", {"disposition-status": "completed", "lock-tokens": uuids(b"\xff" * 16)}, 410),
        ("receive-by-sequence-number", {"sequence-numbers": longs(1 << 62), "receiver-settle-mode": Uint(1)}, 404),
        ("cancel-scheduled-message", {"sequence-numbers": longs(1 << 48)}, 404),
        ("cancel-scheduled-message", {"sequence-numbers": longs(5)}, 404),
        ("get-session-state", {"session-id": "s"}, 410),
        ("set-session-state", {"session-id": "s", "session-state": None}, 410),
        ("renew-session-lock", {"session-id": "s"}, 410),
    ],
)
def test_what_is_not_there(broker: AnyBroker, operation: str, fields: dict[str, Any], status: int) -> None:
    assert ask(managed(broker), f"com.microsoft:{operation}", fields)[0] == status


def test_a_body_that_is_no_map(broker: AnyBroker) -> None:
    raw = managed(broker)
    raw.send(transfer(1, request("com.microsoft:peek-message", "text"), handle=2, settled=True))
    assert answer(raw, STATUS)[0] == 400


def test_a_request_in_pieces(broker: AnyBroker) -> None:
    raw = managed(broker)
    octets = request("com.microsoft:no-such-thing", {"long": b"x" * 1000})
    raw.send(transfer(1, octets[:500], handle=2, settled=True, more=True))
    raw.send(transfer(1, octets[500:900], handle=2, settled=True, more=True))
    raw.send(transfer(1, octets[900:], handle=2, settled=True))
    assert answer(raw, STATUS)[0] == 501
    raw.flow(2)
    raw.send(transfer(2, octets[:500], handle=2, settled=True, more=True))
    raw.send(transfer(2, b"", handle=2, aborted=True))
    raw.flow(2)
    assert ask(raw, "com.microsoft:other", {}, 3)[0] == 501


def test_delivery_tags_are_lock_tokens(broker: AnyBroker) -> None:
    raw = managed(broker)
    published(raw, b"a", b"b")
    first, second = locked(raw, 2)
    assert len(first[2]) == len(second[2]) == 16
    assert first[2] != second[2]
    status, _, found = ask(raw, "com.microsoft:renew-lock", {"lock-tokens": uuids(first[2], second[2])})
    assert status == 200
    assert len(found["expirations"]) == 2
    fields = {"disposition-status": "completed", "lock-tokens": uuids(first[2])}
    assert ask(raw, "com.microsoft:update-disposition", fields, 2)[0] == 200
    assert ask(raw, "com.microsoft:update-disposition", fields, 3)[0] == 410, "it is settled"


def test_a_lock_is_its_connections(broker: AnyBroker) -> None:
    owner, thief = managed(broker), managed(broker)
    published(owner, b"a")
    (mine,) = locked(owner)
    for operation in ("renew-lock", "update-disposition"):
        fields = {"disposition-status": "completed", "lock-tokens": uuids(mine[2])}
        assert ask(thief, f"com.microsoft:{operation}", fields, 5)[0] == 410


def test_a_lock_of_another_queue(broker: AnyBroker) -> None:
    raw = managed(broker, "plain")
    published(raw, b"a")
    (mine,) = locked(raw)
    assert ask(raw, "com.microsoft:renew-lock", {"lock-tokens": uuids(mine[2])})[0] == 410


def test_dispositions_say_what_became_of_each(broker: AnyBroker) -> None:
    raw = managed(broker)
    published(raw, b"a", b"b", b"c")
    first, second, third = (each[1] for each in locked(raw, 3))
    raw.send(disposition(first, settled=False))
    assert raw.outcome() == (first, first, 0x24)
    raw.send(disposition(first, third, Described(MODIFIED, [True, True]), settled=False))
    lost = raw.expect(DISPOSITION)
    assert (lost[1], lost[4].code) == (first, REJECTED)
    assert lost[4].value[0].value[0] == LOST
    assert raw.outcome() == (second, third, MODIFIED)
    peeked = ask(raw, "com.microsoft:peek-message", {"from-sequence-number": 1, "message-count": 9})[2]
    assert len(peeked["messages"]) == 2, "deferred, and not gone"


def test_a_dead_letter_of_a_queue_that_has_none_stays_locked(broker: AnyBroker) -> None:
    raw = managed(broker, "plain")
    raw.send(publisher("plain", 5), transfer(100, message(b"a"), handle=5, settled=True))
    raw.send(consumer("plain", 6), flow(6, 1, next_incoming=None))
    raw.expect(ATTACH)
    raw.flow(5)
    raw.expect(ATTACH)
    fields, _ = raw.delivery()
    raw.send(disposition(fields[1], state=Described(REJECTED, []), settled=False))
    refused = raw.expect(DISPOSITION)
    assert refused[4].value[0].value[0] == "amqp:precondition-failed"
    assert ask(raw, "com.microsoft:renew-lock", {"lock-tokens": uuids(fields[2])})[0] == 200


def test_a_session_filter_of_another_type(broker: AnyBroker) -> None:
    raw = managed(broker)
    wanted = source("jobs", None, None, None, None, None, None, {Symbol("com.microsoft:session-filter"): 7})
    raw.send(attach("s", 6, RECEIVER, wanted, target(None), 0))
    assert raw.refused(RECEIVER)[0] == "amqp:invalid-field"
