"""Filters of a source that look at messages: selectors, SQL filters and property filters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ATTACH,
    DETACH,
    RECEIVER,
    Described,
    Raw,
    Symbol,
    Uint,
    Ulong,
    attach,
    begun,
    body_of,
    encode,
    flow,
    message,
    source,
    target,
    transfer,
)
from tests.conformance.amqp10.test_03_publish import declare

APPLICATION_PROPERTIES = 0x74
SELECTOR = "apache.org:selector-filter:string"


def filled(broker: AnyBroker, kind: str) -> Raw:
    """Return a session with a queue of six messages, numbered, of two colours by turns."""
    declare(broker, "filtered", {"x-queue-type": kind})
    raw = begun(broker)
    raw.publisher("/queues/filtered", 9)
    for each in range(6):
        marks = encode(Described(APPLICATION_PROPERTIES, {"n": each, "color": ("red", "blue")[each % 2]}))
        sections = message(b"%d" % each, message_id=f"id-{each}")
        cut = len(sections) - len(encode(Described(0x75, b"%d" % each)))
        raw.send(transfer(each, sections[:cut] + marks + sections[cut:], 9))
    last = -1
    while last < 5:
        last = raw.outcome()[1]
    return raw


def attach_filtered(raw: Raw, filters: dict[Any, Any]) -> None:
    raw.send(attach("reader", 1, RECEIVER, source("/queues/filtered", *[None] * 6, filters), target(None)))


@pytest.mark.parametrize("kind", ["classic", "stream"])
@pytest.mark.parametrize(
    ("descriptor", "value", "expected"),
    [
        (Symbol(SELECTOR), "color = 'red' AND n > 1", [b"2", b"4"]),
        (Ulong(0x468C00000004), "JMSMessageID LIKE 'id-_' AND n BETWEEN 2 AND 3", [b"2", b"3"]),
        (Symbol("amqp:sql-filter"), "properties.message_id IN ('id-1', 'id-5')", [b"1", b"5"]),
        (Ulong(0x120), "header.priority = 4 AND a.n % 2 = 1 AND n > 1", [b"3", b"5"]),
        (Symbol("amqp:properties-filter"), {Symbol("message-id"): "&s:-4"}, [b"4"]),
        (Ulong(0x174), {"color": "&p:bl", "n": 3}, [b"3"]),
    ],
)
def test_only_messages_that_match_are_delivered(
    broker: AnyBroker, kind: str, descriptor: Any, value: Any, expected: list[bytes]
) -> None:
    raw = filled(broker, kind)
    filters: dict[Any, Any] = {Symbol("some-key"): Described(descriptor, value), Symbol("other"): "x"}
    if kind == "stream":
        filters[Symbol("rabbitmq:stream-offset-spec")] = "first"
    attach_filtered(raw, filters)
    in_force = raw.expect(ATTACH)[5].value[7]
    assert set(in_force) == {str(key) for key in filters} - {"other"}, "what is not in force is left out"
    raw.send(flow(1, 9))
    assert [body_of(raw.delivery()[1]) for _ in expected] == expected
    raw.quiet_session()


@pytest.mark.parametrize(
    ("descriptor", "value", "text"),
    [
        (Symbol(SELECTOR), "color = ", "position 9"),
        (Symbol(SELECTOR), "JMSType = 'x'", "position 1, 'JMSType'"),
        (Ulong(0x120), "n = 1 OR properties.subject = 'x'", "position 10, 'properties.subject'"),
        (Ulong(0x173), {Symbol("to"): "x"}, "entry 1, 'to'"),
        (Ulong(0x174), {"color": "&x"}, "entry 1, 'color'"),
        (Ulong(0x174), {str(each): each for each in range(17)}, "at most 16"),
    ],
)
def test_an_invalid_filter_is_refused_where_it_is_wrong(
    broker: AnyBroker, descriptor: Any, value: Any, text: str
) -> None:
    raw = filled(broker, "classic")
    attach_filtered(raw, {Symbol("selector"): Described(descriptor, value)})
    assert raw.expect(ATTACH)[5] is None
    error = raw.expect(DETACH)[2].value
    assert error[0] == "amqp:invalid-field"
    assert text in error[1]


def test_a_subscription_with_an_invalid_filter_leaves_no_queue(broker: AnyBroker) -> None:
    raw = begun(broker)
    filters = {Symbol("selector"): Described(Symbol(SELECTOR), "x =")}
    lasting = source("news", Uint(2), Symbol("never"), *[None] * 4, filters, None, None, Symbol("topic"))
    raw.send(attach("lasting", 1, RECEIVER, lasting, target(None)))
    assert raw.expect(ATTACH)[5] is None
    assert raw.expect(DETACH)[2].value[0] == "amqp:invalid-field"
    raw.send(attach("lasting", 2, RECEIVER, None, target(None)))
    assert raw.expect(ATTACH)[5] is None
    assert raw.expect(DETACH)[2].value[0] == "amqp:not-found"
