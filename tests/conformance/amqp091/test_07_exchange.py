"""The exchange class: declare, delete, bind, unbind; bindings between exchanges and alternates are RabbitMQ's."""

from __future__ import annotations

from tests.broker_process import AnyBroker
from tests.conformance.amqp091.raw import (
    RETURN,
    Method,
    Raw,
    connect,
    method,
    number,
    publish,
    short,
    table,
)

DECLARE, DECLARE_OK, DELETE, DELETE_OK = (40, 10), (40, 11), (40, 20), (40, 21)
BIND, BIND_OK, UNBIND, UNBIND_OK = (40, 30), (40, 31), (40, 40), (40, 51)
QUEUE_BIND, QUEUE_BIND_OK, QUEUE_UNBIND, QUEUE_UNBIND_OK = (50, 20), (50, 21), (50, 50), (50, 51)
GET, GET_OK, GET_EMPTY = (60, 70), (60, 71), (60, 72)

PASSIVE, DURABLE, AUTO_DELETE, INTERNAL, NO_WAIT = 1, 2, 4, 8, 16
IF_UNUSED = 1
INEQUIVALENT = (
    "PRECONDITION_FAILED - inequivalent arg '{}' for exchange 'a' in vhost '/': received {} but current is {}"
)
DEFAULT = "ACCESS_REFUSED - operation not permitted on the default exchange"
MISSING = "NOT_FOUND - no exchange 'none' in vhost '/'"


def declare(name: str, kind: str = "direct", bits: int = DURABLE, arguments: dict[str, object] | None = None) -> bytes:
    return method(1, DECLARE, b"\0\0" + short(name) + short(kind) + number(bits, 1) + table(arguments))


def delete(name: str, bits: int = 0) -> bytes:
    return method(1, DELETE, b"\0\0" + short(name) + number(bits, 1))


def bound(which: Method, destination: str, source: str, key: str = "k", bits: int = 0) -> bytes:
    """exchange.bind or exchange.unbind"""
    args = b"\0\0" + short(destination) + short(source) + short(key) + number(bits, 1) + table()
    return method(1, which, args)


def queue_bound(which: Method, queue: str, exchange: str, key: str = "k") -> bytes:
    bits = b"\0" if which == QUEUE_BIND else b""
    return method(1, which, b"\0\0" + short(queue) + short(exchange) + short(key) + bits + table())


def bodies(raw: Raw, queue: str) -> list[bytes]:
    """All messages of a queue."""
    found: list[bytes] = []
    while True:
        raw.send(method(1, GET, b"\0\0" + short(queue) + b"\x01"))
        kind, _, payload = raw.frame()
        assert kind == 1
        if payload[:4] == number(GET_EMPTY[0], 2) + number(GET_EMPTY[1], 2):
            return found
        assert payload[:4] == number(GET_OK[0], 2) + number(GET_OK[1], 2)
        found.append(raw.content(1)[1])


def setup(raw: Raw) -> None:
    raw.send(declare("a"), declare("b", "fanout"), declare("inner", "fanout", DURABLE | INTERNAL))
    for _ in range(3):
        raw.expect(1, DECLARE_OK)
    raw.declare("q")


ERRORS = [
    (declare("x", "odd"), 406, "PRECONDITION_FAILED - unknown exchange type 'odd'"),
    (declare("a", "odd"), 406, "PRECONDITION_FAILED - unknown exchange type 'odd'"),
    (declare("amq.x", "odd"), 406, "PRECONDITION_FAILED - unknown exchange type 'odd'"),
    (declare("amq.x"), 403, "ACCESS_REFUSED - exchange name 'amq.x' contains reserved prefix 'amq.*'"),
    (declare(""), 403, DEFAULT),
    (declare("", "", PASSIVE), 403, DEFAULT),
    (declare("none", "", PASSIVE), 404, MISSING),
    (
        declare("a", "fanout"),
        406,
        INEQUIVALENT.format("type", "'fanout'", "'direct'"),
    ),
    (
        declare("a", "direct", DURABLE | AUTO_DELETE),
        406,
        INEQUIVALENT.format("auto_delete", "'true'", "'false'"),
    ),
    (
        declare("a", "direct", DURABLE, {"alternate-exchange": "x"}),
        406,
        INEQUIVALENT.format("alternate-exchange", "the value 'x' of type 'longstr'", "none"),
    ),
    (
        declare("x", "direct", DURABLE, {"alternate-exchange": True}),
        406,
        "PRECONDITION_FAILED - invalid type 'bool' for arg 'alternate-exchange' in exchange 'x' in vhost '/'",
    ),
    (
        declare("x", "x-delayed-message"),
        406,
        "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type",
    ),
    (
        declare("x", "x-consistent-hash", DURABLE, {"hash-property": "app_id"}),
        406,
        "PRECONDITION_FAILED - Unsupported property: app_id",
    ),
    (delete(""), 403, DEFAULT),
    (
        delete("amq.topic"),
        403,
        "ACCESS_REFUSED - deletion of system exchange 'amq.topic' in vhost '/' not allowed",
    ),
    (bound(BIND, "b", ""), 403, DEFAULT),
    (bound(BIND, "", "b"), 403, DEFAULT),
    (bound(BIND, "b", "none"), 404, MISSING),
    (bound(BIND, "none", "b"), 404, MISSING),
    (bound(BIND, "other", "none"), 404, MISSING),
    (bound(UNBIND, "b", ""), 403, DEFAULT),
    (bound(UNBIND, "", "b"), 403, DEFAULT),
    (queue_bound(QUEUE_BIND, "q", ""), 403, DEFAULT),
    (queue_bound(QUEUE_BIND, "none", ""), 403, DEFAULT),
    (queue_bound(QUEUE_BIND, "q", "none"), 404, MISSING),
    (queue_bound(QUEUE_BIND, "none", "a"), 404, "NOT_FOUND - no queue 'none' in vhost '/'"),
    (queue_bound(QUEUE_BIND, "other", "none"), 404, MISSING),
    (queue_bound(QUEUE_UNBIND, "q", ""), 403, DEFAULT),
]


def test_what_cannot_be_ends_the_channel(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        setup(raw)
        for octets, code, text in ERRORS:
            raw.send(octets)
            raw.channel_closed(code, text)
            raw.open_channel()


def test_what_is_gone_already_may_go(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        setup(raw)
        raw.send(delete("none"))
        raw.expect(1, DELETE_OK)
        for destination, source in (("b", "a"), ("none", "a"), ("a", "none"), ("none", "nor")):
            raw.send(bound(UNBIND, destination, source))
            raw.expect(1, UNBIND_OK)
        for queue, exchange in (("q", "a"), ("none", "a"), ("q", "none"), ("none", "nor")):
            raw.send(queue_bound(QUEUE_UNBIND, queue, exchange))
            raw.expect(1, QUEUE_UNBIND_OK)


def test_messages_go_from_exchange_to_exchange_until_unbound(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        setup(raw)
        for octets in (bound(BIND, "b", "a"), bound(BIND, "b", "a"), bound(BIND, "inner", "b", "")):
            raw.send(octets)
            assert raw.expect(1, BIND_OK) == b""
        raw.send(queue_bound(QUEUE_BIND, "q", "inner"), queue_bound(QUEUE_BIND, "q", "b"))
        raw.expect(1, QUEUE_BIND_OK)
        raw.expect(1, QUEUE_BIND_OK)
        raw.send(publish(1, "k", b"1", "a"), publish(1, "other", b"2", "a"))
        assert bodies(raw, "q") == [b"1"]
        raw.send(bound(UNBIND, "b", "a"))
        assert raw.expect(1, UNBIND_OK) == b""
        raw.send(publish(1, "k", b"3", "a"), publish(1, "k", b"4", "b"))
        assert bodies(raw, "q") == [b"4"]


def test_no_wait_is_not_answered(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        setup(raw)
        raw.send(
            declare("c", "fanout", DURABLE | NO_WAIT),
            bound(BIND, "b", "c", "k", 1),
            bound(UNBIND, "b", "c", "k", 1),
            bound(BIND, "b", "c", "k", 1),
            declare("none", "fanout", DURABLE | NO_WAIT),
            delete("none", 2),
        )
        raw.sync()
        raw.send(delete("c", IF_UNUSED))
        raw.channel_closed(406, "PRECONDITION_FAILED - exchange 'c' in vhost '/' in use", cause=DELETE)


def test_an_exchange_is_used_by_what_it_leads_to(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        setup(raw)
        raw.send(bound(BIND, "b", "a"))
        raw.expect(1, BIND_OK)
        raw.send(delete("b", IF_UNUSED))  # only led to
        raw.expect(1, DELETE_OK)
        raw.send(delete("a", IF_UNUSED))  # its binding went with b
        raw.expect(1, DELETE_OK)


def test_auto_delete_goes_with_the_last_binding(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        setup(raw)
        raw.send(declare("x", "fanout", AUTO_DELETE), declare("y", "fanout", AUTO_DELETE))
        raw.expect(1, DECLARE_OK)
        raw.expect(1, DECLARE_OK)
        for octets in (bound(BIND, "y", "x"), bound(BIND, "b", "y")):
            raw.send(octets)
            raw.expect(1, BIND_OK)
        raw.send(declare("x", "", PASSIVE))
        raw.expect(1, DECLARE_OK)
        raw.send(bound(UNBIND, "b", "y"))  # y goes, and with it the last binding of x
        raw.expect(1, UNBIND_OK)
        raw.send(declare("x", "", PASSIVE))
        raw.channel_closed(404, "NOT_FOUND - no exchange 'x' in vhost '/'", cause=DECLARE)


def test_what_has_no_route_goes_to_the_alternate_and_is_not_returned(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        setup(raw)
        raw.send(declare("main", "direct", DURABLE, {"alternate-exchange": "inner"}))
        raw.expect(1, DECLARE_OK)
        raw.send(publish(1, "k", b"nowhere", "main", mandatory=True))
        assert raw.expect(1, RETURN)[:2] == number(312, 2)
        raw.content(1)
        raw.send(queue_bound(QUEUE_BIND, "q", "inner"))
        raw.expect(1, QUEUE_BIND_OK)
        raw.send(publish(1, "k", b"found", "main", mandatory=True))
        assert bodies(raw, "q") == [b"found"]


def test_nobody_publishes_to_an_internal_exchange(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        setup(raw)
        raw.send(publish(1, "k", b"", "inner"))
        raw.channel_closed(403, "ACCESS_REFUSED - cannot publish to internal exchange 'inner' in vhost '/'")
