"""Exchanges, queues and bindings, and the codes that client suites expect of them."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.amqp091.raw import (
    CANCEL,
    CANCEL_OK,
    CLOSE,
    CLOSE_OK,
    CONSUME,
    GET,
    GET_EMPTY,
    GET_OK,
    QUEUE_DECLARE,
    Raw,
    connect,
    method,
    number,
    publish,
    short,
    table,
)

EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK, EXCHANGE_DELETE, EXCHANGE_DELETE_OK = (40, 10), (40, 11), (40, 20), (40, 21)
QUEUE_BIND, QUEUE_BIND_OK, QUEUE_UNBIND, QUEUE_UNBIND_OK = (50, 20), (50, 21), (50, 50), (50, 51)
QUEUE_PURGE, QUEUE_PURGE_OK, QUEUE_DELETE, QUEUE_DELETE_OK = (50, 30), (50, 31), (50, 40), (50, 41)

PASSIVE, DURABLE, EXCLUSIVE, AUTO_DELETE, NO_WAIT = 1, 2, 4, 8, 16
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration."
)


def declare_queue(name: str, bits: int = DURABLE, arguments: dict[str, object] | None = None) -> bytes:
    return method(1, QUEUE_DECLARE, b"\0\0" + short(name) + number(bits, 1) + table(arguments))


def declare_exchange(name: str, kind: str, bits: int = DURABLE) -> bytes:
    return method(1, EXCHANGE_DECLARE, b"\0\0" + short(name) + short(kind) + number(bits, 1) + table())


def delete_exchange(name: str, bits: int = 0) -> bytes:
    return method(1, EXCHANGE_DELETE, b"\0\0" + short(name) + number(bits, 1))


def bind(queue: str, exchange: str, key: str, arguments: dict[str, object] | None = None, bits: int = 0) -> bytes:
    args = b"\0\0" + short(queue) + short(exchange) + short(key) + number(bits, 1) + table(arguments)
    return method(1, QUEUE_BIND, args)


def unbind(queue: str, exchange: str, key: str) -> bytes:
    return method(1, QUEUE_UNBIND, b"\0\0" + short(queue) + short(exchange) + short(key) + table())


def delete_queue(name: str, bits: int = 0) -> bytes:
    return method(1, QUEUE_DELETE, b"\0\0" + short(name) + number(bits, 1))


def get(raw: Raw, queue: str) -> bytes | None:
    """The next message of a queue, acknowledged by being got."""
    raw.send(method(1, GET, b"\0\0" + short(queue) + b"\x01"))
    kind, _, payload = raw.frame()
    assert kind == 1
    if payload[:4] == number(GET_EMPTY[0], 2) + number(GET_EMPTY[1], 2):
        return None
    assert payload[:4] == number(GET_OK[0], 2) + number(GET_OK[1], 2)
    return raw.content(1)[1]


INEQUIVALENT = (
    "PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'amq.direct' in vhost '/': received 'fanout' but "
    "current is 'direct'"
)
ERRORS = [
    (declare_queue("none", PASSIVE), 404, "NOT_FOUND - no queue 'none' in vhost '/'"),
    (declare_queue("", PASSIVE), 404, "NOT_FOUND - no previously declared queue"),
    (declare_queue("amq.mine"), 403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"),
    (declare_exchange("none", "", PASSIVE), 404, "NOT_FOUND - no exchange 'none' in vhost '/'"),
    (
        declare_exchange("amq.mine", "direct"),
        403,
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
    ),
    (declare_exchange("", "direct"), 403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
    (declare_exchange("e", "odd"), 406, "PRECONDITION_FAILED - unknown exchange type 'odd'"),
    (
        declare_exchange("amq.direct", "fanout"),
        406,
        INEQUIVALENT,
    ),
    (bind("none", "amq.direct", "k"), 404, "NOT_FOUND - no queue 'none' in vhost '/'"),
    (bind("", "amq.direct", "k"), 404, "NOT_FOUND - no previously declared queue"),
    (method(1, QUEUE_PURGE, b"\0\0" + short("none") + b"\0"), 404, "NOT_FOUND - no queue 'none' in vhost '/'"),
    (method(1, GET, b"\0\0" + short("none") + b"\0"), 404, "NOT_FOUND - no queue 'none' in vhost '/'"),
    (
        method(1, CONSUME, b"\0\0" + short("none") + short("") + b"\0" + table()),
        404,
        "NOT_FOUND - no queue 'none' in vhost '/'",
    ),
]


@pytest.mark.parametrize(("request_octets", "code", "text"), ERRORS, ids=[text for _, _, text in ERRORS])
def test_what_cannot_be_ends_the_channel(broker: AnyBroker, request_octets: bytes, code: int, text: str) -> None:
    with connect(broker) as raw:
        raw.send(request_octets)
        raw.channel_closed(code, text)


def test_deleting_what_is_not_there_is_no_error(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(delete_queue("none"), delete_exchange("none"))
        assert raw.expect(1, QUEUE_DELETE_OK) == b"\0\0\0\0"
        raw.expect(1, EXCHANGE_DELETE_OK)


def test_the_default_exchange_takes_no_bindings(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.send(bind("q", "", "k"))
        raw.channel_closed(403, "ACCESS_REFUSED - operation not permitted on the default exchange", cause=QUEUE_BIND)


def test_a_redeclaration_must_say_the_same(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        assert raw.declare("q") == raw.declare("q") == "q"
        raw.send(declare_queue("q", 0))
        raw.channel_closed(
            406,
            "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'q' in vhost '/': received 'false' but "
            "current is 'true'",
            cause=QUEUE_DECLARE,
        )
        raw.open_channel()
        raw.send(declare_queue("q", DURABLE, {"x-queue-type": "stream"}))
        raw.channel_closed(
            406,
            "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'stream' but "
            "current is 'classic'",
        )


def test_server_named_queues(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        names = {raw.declare("", EXCLUSIVE) for _ in range(3)}
        assert len(names) == 3
        assert all(name.startswith("amq.gen-") for name in names)


def test_an_empty_name_means_the_last_queue_and_its_key(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.send(bind("", "amq.direct", ""))
        raw.expect(1, QUEUE_BIND_OK)
        raw.confirm()
        raw.send(publish(1, "q", b"hello", "amq.direct"))
        raw.confirmed(1)
        assert get(raw, "") == b"hello"
        raw.send(unbind("", "amq.direct", ""))
        raw.expect(1, QUEUE_UNBIND_OK)
        raw.send(publish(1, "q", b"nowhere", "amq.direct"))
        raw.confirmed(2)
        assert get(raw, "") is None


@pytest.mark.parametrize(
    ("kind", "key", "yes", "no"),
    [
        ("direct", "a.b", ["a.b"], ["a", "a.b.c", ""]),
        ("fanout", "ignored", ["a", "", "ignored"], []),
        ("topic", "a.*.#", ["a.b", "a.b.c", "a.b.c.d", "a."], ["a", "b.a.c", ""]),
    ],
)
def test_routing_by_key(broker: AnyBroker, kind: str, key: str, yes: list[str], no: list[str]) -> None:
    with connect(broker) as raw:
        raw.send(declare_exchange("e", kind))
        raw.expect(1, EXCHANGE_DECLARE_OK)
        raw.declare("q")
        raw.send(bind("q", "e", key))
        raw.expect(1, QUEUE_BIND_OK)
        raw.confirm()
        raw.send(*[publish(1, sent, sent.encode(), "e") for sent in yes + no])
        raw.confirmed(len(yes + no))
        assert [get(raw, "q") for _ in yes] == [sent.encode() for sent in yes]
        assert get(raw, "q") is None


def test_routing_by_headers(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("all")
        raw.declare("any")
        raw.send(bind("all", "amq.headers", "", {"x-match": "all", "a": 1, "b": "x"}))
        raw.send(bind("any", "amq.headers", "", {"x-match": "any", "a": 1, "b": "x"}))
        raw.expect(1, QUEUE_BIND_OK)
        raw.expect(1, QUEUE_BIND_OK)
        raw.confirm()
        for fields in ({"a": 1, "b": "x"}, {"a": 1}, {"a": 2}, {}):
            properties = b"\x20\0" + table(dict(fields))
            raw.send(publish(1, "", str(fields).encode(), "amq.headers", properties))
        raw.confirmed(4)
        assert (raw.count("all")[0], raw.count("any")[0]) == (1, 2)
        assert get(raw, "all") == b"{'a': 1, 'b': 'x'}"


def test_delete_if_unused_and_if_empty(broker: AnyBroker) -> None:
    with connect(broker, 2) as raw:
        raw.declare("q")
        raw.consume("q", channel=2)
        raw.send(delete_queue("q", 1))
        raw.channel_closed(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use", cause=QUEUE_DELETE)
        raw.send(method(2, CANCEL, short("t") + b"\0"))
        raw.expect(2, CANCEL_OK)
        raw.open_channel()
        raw.fill("q", [b"one", b"two"])
        raw.send(delete_queue("q", 2))
        raw.channel_closed(406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty", cause=QUEUE_DELETE)
        raw.open_channel()
        raw.send(bind("q", "amq.direct", "k"), declare_exchange("e", "direct"), bind("q", "e", "k"))
        raw.expect(1, QUEUE_BIND_OK)
        raw.expect(1, EXCHANGE_DECLARE_OK)
        raw.expect(1, QUEUE_BIND_OK)
        raw.send(delete_exchange("e", 1))
        raw.channel_closed(406, "PRECONDITION_FAILED - exchange 'e' in vhost '/' in use", cause=EXCHANGE_DELETE)
        raw.open_channel()
        raw.send(delete_queue("q"), delete_exchange("e", 1))
        assert raw.expect(1, QUEUE_DELETE_OK) == number(2, 4)
        raw.expect(1, EXCHANGE_DELETE_OK)


def test_purge_tells_how_many(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.fill("q", [b"one", b"two", b"three"])
        raw.send(method(1, QUEUE_PURGE, b"\0\0" + short("q") + b"\0"))
        assert raw.expect(1, QUEUE_PURGE_OK) == number(3, 4)
        assert raw.count("q") == (0, 0)


def test_no_wait_means_no_answer(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.send(
            declare_queue("q", DURABLE | NO_WAIT),
            declare_exchange("e", "direct", DURABLE | NO_WAIT),
            bind("q", "e", "k", bits=1),
            method(1, (60, 10), b"\0\0\0\0\0\x05\0"),
        )
        raw.expect(1, (60, 11))
        raw.send(
            method(1, CONSUME, b"\0\0" + short("q") + short("t") + b"\x08" + table()),
            method(1, CANCEL, short("t") + b"\x01"),
            method(1, QUEUE_PURGE, b"\0\0" + short("q") + b"\x01"),
            delete_exchange("e", 2),
            delete_queue("q", 4),
            method(1, (85, 10), b"\x01"),
        )
        raw.sync()


def test_an_exclusive_queue_is_its_connections_own(broker: AnyBroker) -> None:
    with connect(broker) as owner, connect(broker) as other:
        owner.declare("mine", EXCLUSIVE)
        owner.consume("mine")
        for octets in (
            declare_queue("mine", EXCLUSIVE),
            declare_queue("mine", PASSIVE),
            bind("mine", "amq.direct", "k"),
            method(1, QUEUE_PURGE, b"\0\0" + short("mine") + b"\0"),
            method(1, GET, b"\0\0" + short("mine") + b"\0"),
            method(1, CONSUME, b"\0\0" + short("mine") + short("") + b"\0" + table()),
            delete_queue("mine"),
        ):
            other.send(octets)
            other.channel_closed(405, LOCKED.format("mine"))
            other.open_channel()
        owner.send(method(0, CLOSE, number(200, 2) + short("") + b"\0\0\0\0"))
        owner.expect(0, CLOSE_OK)
        other.send(declare_queue("mine", PASSIVE))
        other.channel_closed(404, "NOT_FOUND - no queue 'mine' in vhost '/'")


def test_auto_delete_goes_with_the_last_consumer(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("brief", AUTO_DELETE)
        raw.consume("brief", "a")
        raw.consume("brief", "b")
        raw.send(method(1, CANCEL, short("a") + b"\0"))
        raw.expect(1, CANCEL_OK)
        assert raw.count("brief") == (0, 1)
        raw.send(method(1, CANCEL, short("b") + b"\0"))
        raw.expect(1, CANCEL_OK)
        raw.send(declare_queue("brief", PASSIVE))
        raw.channel_closed(404, "NOT_FOUND - no queue 'brief' in vhost '/'")


def test_topology_outlives_a_kill(broker_process: BrokerProcess) -> None:
    with connect(broker_process) as raw:
        raw.send(declare_exchange("e", "topic"), declare_queue("q"), bind("q", "e", "a.#"))
        raw.expect(1, EXCHANGE_DECLARE_OK)
        raw.expect(1, (50, 11))
        raw.expect(1, QUEUE_BIND_OK)
    broker_process.kill9()
    broker_process.start()
    with connect(broker_process) as raw:
        raw.send(declare_queue("q", PASSIVE))
        raw.expect(1, (50, 11))
        raw.confirm()
        raw.send(publish(1, "a.b", b"still routed", "e"))
        raw.confirmed(1)
        assert get(raw, "q") == b"still routed"


@pytest.mark.parametrize("bits", [DURABLE, PASSIVE])
def test_who_declares_a_queue_uses_it(broker: AnyBroker, bits: int) -> None:
    arguments: dict[str, object] = {"x-expires": 1500}
    with connect(broker) as raw:
        raw.declare("q", arguments=arguments)
        until = broker.now() + 2.5
        while broker.now() < until:
            assert raw.declare("q", bits, arguments) == "q"
            broker.pass_moment()


def test_names_are_without_line_ends(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        assert raw.declare("a\r\nb") == "ab"
        assert raw.declare("a\nb\n") == "ab"
        raw.send(declare_exchange("e\r\nx", "direct"))
        raw.expect(1, EXCHANGE_DECLARE_OK)
        raw.send(bind("ab\n", "ex\r", "k\n"))
        raw.expect(1, QUEUE_BIND_OK)
        raw.send(publish(1, "k\n", b"x", "ex"), unbind("a\nb", "e\nx", "k\n"))
        raw.expect(1, QUEUE_UNBIND_OK)
        assert raw.count("ab") == (1, 0)
        raw.send(delete_exchange("ex\n"), declare_exchange("ex", "", PASSIVE))
        raw.expect(1, EXCHANGE_DELETE_OK)
        raw.channel_closed(404, "NOT_FOUND - no exchange 'ex' in vhost '/'")
        raw.open_channel()
        raw.send(delete_queue("\nab"))
        assert raw.expect(1, QUEUE_DELETE_OK) == number(1, 4)
