"""Filters of a source that look at messages: selectors, SQL filters and property filters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    ATTACH,
    DETACH,
    RECEIVER,
    REJECTED,
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
    performative,
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
        (Symbol("forebay:filter"), "header.color = 'red' AND BOOKMARK() > 0 AND topic IS NOT NULL", [b"2", b"4"]),
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


# ---- subscriptions


def subscribed(raw: Raw, name: str, handle: int, selector: str, is_durable: bool = False) -> None:
    """Subscribe to the topic `news` with a selector."""
    filters = {Symbol("selector"): Described(Symbol(SELECTOR), selector)}
    lasting = [Uint(2), Symbol("never")] if is_durable else [None, None]
    terminus = source("news", *lasting, *[None] * 4, filters, None, None, [Symbol("topic")])
    raw.send(attach(name, handle, RECEIVER, terminus, target(None)))
    assert raw.expect(ATTACH)[5].value[7]


def publish_news(broker: AnyBroker, *numbers: int) -> list[int]:
    """Publish numbered messages to the topic, and return the outcomes' codes."""
    raw = begun(broker)
    raw.publisher("news", 9)
    for place, each in enumerate(numbers):
        marks = encode(Described(APPLICATION_PROPERTIES, {"n": each}))
        raw.send(transfer(place, marks + message(b"%d" % each), 9))
    codes: list[int] = []
    while len(codes) < len(numbers):
        first, last, code = raw.outcome()
        codes += [code] * (last - first + 1)
    return codes


def queue_lengths(raw: Raw, broker: AnyBroker, name: str) -> int:
    """Return the number of messages that a queue has, by a link without a filter."""
    raw.send(attach("counter", 8, RECEIVER, source(f"/queues/{name}"), target(None)))
    raw.expect(ATTACH)
    raw.send(flow(8, 0, echo=True))
    ready = raw.flow(8)[7]
    raw.send(performative(0, DETACH, Uint(8), True))
    raw.expect(DETACH)
    return int(ready)


def test_a_subscription_stores_only_what_its_selector_wants(broker: AnyBroker) -> None:
    raw = begun(broker)
    subscribed(raw, "lasting", 1, "n > 2", is_durable=True)
    subscribed(raw, "passing", 2, "n = 1")
    assert publish_news(broker, 1, 2, 3, 4) == [ACCEPTED] * 4
    assert queue_lengths(raw, broker, "subscription.raw.lasting") == 2
    raw.send(flow(2, 9))
    assert body_of(raw.delivery()[1]) == b"1"
    raw.send(flow(1, 9))
    assert [body_of(raw.delivery()[1]) for _ in range(2)] == [b"3", b"4"]
    raw.quiet_session()


def test_what_no_selector_wants_is_accepted_and_gone(broker: AnyBroker) -> None:
    raw = begun(broker)
    subscribed(raw, "passing", 2, "n = 1")
    assert publish_news(broker, 5) == [ACCEPTED]
    raw.send(flow(2, 9, echo=True))
    assert raw.flow(2)[7] == 0


def test_a_durable_subscription_comes_back_with_its_selector(broker: AnyBroker) -> None:
    raw = begun(broker)
    subscribed(raw, "lasting", 1, "n > 2", is_durable=True)
    raw.send(performative(0, DETACH, Uint(1), False))
    raw.expect(DETACH)
    publish_news(broker, 1, 3)
    raw.send(attach("lasting", 2, RECEIVER, None, target(None)))
    assert raw.expect(ATTACH)[5].value[0] == "news"
    raw.send(flow(2, 9))
    assert body_of(raw.delivery()[1]) == b"3"
    raw.quiet_session()
    publish_news(broker, 2, 4)
    assert body_of(raw.delivery()[1]) == b"4"


def test_another_selector_is_another_subscription(broker: AnyBroker) -> None:
    raw = begun(broker)
    subscribed(raw, "lasting", 1, "n > 2", is_durable=True)
    publish_news(broker, 3)
    raw.send(performative(0, DETACH, Uint(1), False))
    raw.expect(DETACH)
    subscribed(raw, "lasting", 2, "n < 2", is_durable=True)
    raw.send(flow(2, 9, echo=True))
    assert raw.flow(2)[7] == 0, "it begins anew"
    publish_news(broker, 1, 3)
    assert body_of(raw.delivery()[1]) == b"1"
    raw.quiet_session()


def test_a_filter_on_what_only_the_queue_knows_is_the_consumers(broker: AnyBroker) -> None:
    raw = begun(broker)
    wanted = {Symbol("x-filter"): "offset > 0"}
    raw.send(attach("r", 1, RECEIVER, source("news"), target(None), properties=wanted))
    raw.expect(ATTACH)
    raw.send(flow(1, 9))
    publish_news(broker, 1, 2)
    assert body_of(raw.delivery()[1]) == b"2"
    raw.quiet_session()


def test_a_queue_with_a_filter_looks_at_every_message(broker: AnyBroker) -> None:
    declare(broker, "wide", {"x-publish-filter": "routing_key = 'wide' AND /a = 1", "x-max-length": 1,
                             "x-overflow": "reject-publish"})  # fmt: skip
    raw = begun(broker)
    raw.publisher("/queues/wide", 9)
    codes = []
    for number, body in enumerate((b'{"a": 2}', b'{"a": 1}', b"no JSON", b'{"a": 1}')):
        raw.send(transfer(number, message(body), 9))
        codes.append(raw.outcome()[2])
    assert codes == [ACCEPTED, ACCEPTED, ACCEPTED, REJECTED], "it is full for those that it wants alone"
    raw.consumer("/queues/wide", 1, credit=9)
    assert body_of(raw.delivery()[1]) == b'{"a": 1}'
    raw.quiet_session()
