"""Links that are attached again with deliveries that were not settled (2.6.13, 2.7.5): these are not resumed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    ATTACH,
    DETACH,
    RECEIVED,
    RECEIVER,
    SENDER,
    TRANSFER,
    Described,
    Raw,
    Symbol,
    Ubyte,
    Uint,
    Ulong,
    attach,
    begun,
    body_of,
    flow,
    message,
    performative,
    source,
    target,
    transfer,
)
from tests.conformance.amqp10.test_04_consume import QUEUE, fill, taken

LASTING = source("news", Uint(2), Symbol("never"), *[None] * 5, None, None, [Symbol("topic")])


def again(role: bool, unsettled: Any, is_incomplete: bool | None = None, handle: int = 3) -> bytes:
    """An attach of a link that was there before."""
    count = None if role is RECEIVER else Uint(0)
    ends = [LASTING, target(None)] if role is RECEIVER else [source(None), target(QUEUE)]
    fields = ["again", Uint(handle), role, Ubyte(0), Ubyte(0), *ends, unsettled, is_incomplete, count]
    return performative(0, ATTACH, *fields)


def resumed(delivery: int, payload: bytes, more: bool = False, settled: bool = False) -> bytes:
    fields = [Uint(0), Uint(delivery), b"%d" % delivery, Uint(0), settled, more, None, None, True]
    return performative(0, TRANSFER, *fields, payload=payload)


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
@pytest.mark.parametrize(
    ("unsettled", "is_incomplete"),
    [
        ({b"tag": None}, None),
        ({b"tag": Described(ACCEPTED, [])}, None),
        ({b"1": Described(RECEIVED, [Uint(0), Ulong(7)]), b"2": None}, True),
        (None, True),
        ({}, True),
    ],
)
def test_a_map_is_refused(broker: AnyBroker, role: bool, unsettled: Any, is_incomplete: bool | None) -> None:
    raw = begun(broker)
    raw.send(again(role, unsettled, is_incomplete))
    assert raw.refused(role)[0] == "amqp:not-implemented"
    raw.send(performative(0, DETACH, Uint(3), True))
    raw.send(again(role, None))
    assert raw.expect(ATTACH)[7:9] == [None, None], "the same link without one"


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_an_empty_map_is_none(broker: AnyBroker, role: bool) -> None:
    raw = begun(broker)
    raw.send(again(role, {}, False))
    assert raw.expect(ATTACH)[7] is None


def test_a_durable_subscription_outlives_a_refused_map(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(again(RECEIVER, None))
    raw.expect(ATTACH)
    fill(raw, 2, "news")
    raw.send(flow(3, 5))
    taken(raw, 1)
    raw.socket.close()
    raw = begun(broker)
    raw.send(again(RECEIVER, {b"\0\0\0\0": None}))
    assert raw.refused(RECEIVER)[0] == "amqp:not-implemented"
    raw.send(performative(0, DETACH, Uint(3), False))
    raw.send(again(RECEIVER, None))
    assert raw.expect(ATTACH)[7] is None
    raw.send(flow(3, 5))
    assert taken(raw, 2) == [b"0", b"1"], "all of it, once more"


def test_nobody_takes_over_the_deliveries_of_another(broker: AnyBroker) -> None:
    """The subscription of one container is none for another, whatever it says it has unsettled."""
    raw = begun(broker)
    raw.send(again(RECEIVER, None))
    raw.expect(ATTACH)
    raw.send(performative(0, DETACH, Uint(3), False))
    raw.expect(DETACH)
    fill(raw, 1, "news")
    other = Raw(broker)
    other.log_in()
    other.send(performative(0, 0x10, "another"), performative(0, 0x11, None, Uint(0), Uint(100), Uint(100)))
    other.expect(0x10)
    other.expect(0x11)
    other.send(attach("again", 1, RECEIVER, None, target(None), unsettled={b"0": None}))
    assert other.refused(RECEIVER)[0] in {"amqp:not-implemented", "amqp:not-found"}
    other.send(attach("again", 2, RECEIVER, None, target(None)))
    assert other.refused(RECEIVER)[0] == "amqp:not-found"


def test_resumed_transfers_are_ignored(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(resumed(0, message(b"never")), resumed(1, message(b"never"), settled=True))
    raw.send(resumed(2, message(b"ne")[:5], more=True), transfer(2, b"ver"))
    raw.quiet_session()
    raw.send(transfer(3, message(b"new")))
    assert raw.outcome() == (3, 3, ACCEPTED)
    raw.consumer(QUEUE, credit=5)
    assert body_of(raw.delivery()[1]) == b"new"
    raw.quiet_session()


def test_resumed_transfers_take_credit(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    for number in range(499):
        raw.send(resumed(number, b""))
    raw.quiet_session()
    raw.send(resumed(499, b""))
    fields = raw.flow(0)
    assert (fields[5], fields[6]) == (500, 1000)


def test_a_resumed_transfer_that_is_aborted(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    fields = [Uint(0), Uint(0), b"0", Uint(0), False, True, None, None, True, False]
    raw.send(performative(0, TRANSFER, *fields, payload=b"xxxx"))
    raw.send(transfer(0, b"", aborted=True), transfer(1, message(b"new")))
    assert raw.outcome() == (1, 1, ACCEPTED)
