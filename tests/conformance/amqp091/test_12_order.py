"""One after the other: whoever asks for what a queue has comes after all that was sent before."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.amqp091.raw import (
    ACK,
    CANCEL,
    CANCEL_OK,
    CONSUME,
    CONSUME_OK,
    GET,
    GET_EMPTY,
    GET_OK,
    QUEUE_DECLARE,
    QUEUE_DECLARE_OK,
    Raw,
    connect,
    method,
    number,
    publish,
    short,
    table,
)
from tests.waiting import until_past

PURGE, PURGE_OK, DELETE, DELETE_OK = (50, 30), (50, 31), (50, 40), (50, 41)
AT_ONCE = b"\x01\x00" + short("0")  # the property expiration
GET_IT = method(1, GET, b"\0\0" + short("q") + b"\1")
PASSIVE = method(1, QUEUE_DECLARE, b"\0\0" + short("q") + b"\1" + table())


def got(raw: Raw) -> bytes:
    raw.expect(1, GET_OK)
    return raw.content(1)[1]


@pytest.mark.parametrize(
    ("arguments", "properties"), [({"x-message-ttl": 0}, b"\0\0"), ({}, AT_ONCE), ({"x-max-priority": 3}, AT_ONCE)]
)
def test_what_may_not_wait_is_gone_for_who_gets(
    broker: AnyBroker, arguments: Mapping[str, object], properties: bytes
) -> None:
    with connect(broker) as raw:
        raw.declare("q", arguments=arguments)
        raw.send(publish(1, "q", b"x", properties=properties), GET_IT, PASSIVE)
        raw.expect(1, GET_EMPTY)
        assert raw.expect(1, QUEUE_DECLARE_OK) == short("q") + number(0, 4) + number(0, 4)


@pytest.mark.parametrize("arguments", [{"x-message-ttl": 0}, {}])
def test_who_comes_later_does_not_get_it_either(broker: AnyBroker, arguments: Mapping[str, object]) -> None:
    with connect(broker) as raw:
        raw.declare("q", arguments=arguments)
        consume = method(1, CONSUME, b"\0\0" + short("q") + short("t") + b"\0" + table())
        raw.send(publish(1, "q", b"x", properties=b"\0\0" if arguments else AT_ONCE), consume)
        assert raw.expect(1, CONSUME_OK) == short("t")
        raw.sync()
        raw.send(publish(1, "q", b"y", properties=AT_ONCE))
        assert raw.delivery() == (1, False, b"y")


def test_what_is_too_much_is_gone_for_who_gets_counts_and_purges(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q", arguments={"x-max-length": 1})
        raw.send(publish(1, "q", b"a"), publish(1, "q", b"b"), GET_IT)
        assert got(raw) == b"b"
        raw.send(publish(1, "q", b"c"), publish(1, "q", b"d"), PASSIVE)
        assert raw.expect(1, QUEUE_DECLARE_OK) == short("q") + number(1, 4) + number(0, 4)
        raw.send(publish(1, "q", b"e"), method(1, PURGE, b"\0\0" + short("q") + b"\0"))
        assert raw.expect(1, PURGE_OK) == number(1, 4)


def test_a_queue_is_empty_where_nothing_stays(broker: AnyBroker) -> None:
    with connect(broker) as raw:
        raw.declare("q", arguments={"x-message-ttl": 0})
        raw.send(publish(1, "q", b"x"), method(1, DELETE, b"\0\0" + short("q") + b"\2"))
        assert raw.expect(1, DELETE_OK) == number(0, 4)


@pytest.mark.parametrize("no_ack", [False, True])
def test_consumers_come_before_who_gets(broker: AnyBroker, no_ack: bool) -> None:
    with connect(broker, channels=2) as raw, connect(broker) as other:
        raw.declare("q")
        raw.prefetch(1)
        raw.consume("q", bits=2 * no_ack)
        other.send(publish(1, "q", b"1"), GET_IT, PASSIVE)
        other.expect(1, GET_EMPTY)
        other.expect(1, QUEUE_DECLARE_OK)
        assert raw.delivery() == (1, False, b"1")
        if no_ack:
            return
        raw.send(publish(1, "q", b"2"), publish(1, "q", b"3"))
        raw.sync()
        # The acknowledgement lets the consumer have one more; the next is for who gets.
        raw.send(method(1, ACK, number(1, 8) + b"\0"), GET_IT)
        assert sorted([either(raw), either(raw)]) == [(False, b"2"), (True, b"3")]


def either(raw: Raw) -> tuple[bool, bytes]:
    """Whether the next message is for who gets, and its body."""
    kind, channel, payload = raw.frame()
    assert (kind, channel) == (1, 1)
    assert payload[:4] in (number(60, 2) + number(60, 2), number(60, 2) + number(71, 2))
    return payload[3] == 71, raw.content(1)[1]


@pytest.mark.parametrize("no_ack", [False, True])
def test_who_cancels_gets_what_came_before(broker: AnyBroker, no_ack: bool) -> None:
    with connect(broker) as raw:
        raw.declare("q")
        raw.consume("q", bits=2 * no_ack)
        cancel = method(1, CANCEL, short("t") + b"\0")
        raw.send(publish(1, "q", b"1"), publish(1, "q", b"2"), cancel, publish(1, "q", b"3"), PASSIVE)
        assert [raw.delivery() for _ in range(2)] == [(1, False, b"1"), (2, False, b"2")]
        assert raw.expect(1, CANCEL_OK) == short("t")
        assert raw.expect(1, QUEUE_DECLARE_OK) == short("q") + number(1, 4) + number(0, 4)
        if not no_ack:
            raw.settle(ACK, 2, 1)
        raw.sync()
        assert raw.count("q") == (1, 0)


def test_nobody_gets_what_has_just_expired(broker_process: BrokerProcess) -> None:
    """The broker_process's own clock may have ticked last long before."""
    with connect(broker_process) as raw:
        raw.declare("q")
        raw.confirm()
        for tag in range(1, 11):
            raw.send(publish(1, "q", b"x", properties=b"\x01\x00" + short("5")))
            raw.confirmed(tag)
            until_past(time.time() + 0.005)
            raw.send(GET_IT)
            raw.expect(1, GET_EMPTY)


def test_who_follows_deliveries_hears_of_those_before_a_cancel(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(events=["message.delivered"])
    with connect(broker) as raw:
        raw.declare("q")
        raw.consume("q")
        raw.send(publish(1, "q", b"1"), method(1, CANCEL, short("t") + b"\0"))
        assert raw.delivery() == (1, False, b"1")
        raw.expect(1, CANCEL_OK)
        raw.prefetch(1)
        raw.consume("$events", arguments={"x-stream-offset": "first"})
        assert json.loads(raw.delivery()[2])["data"]["queue"] == "q"
