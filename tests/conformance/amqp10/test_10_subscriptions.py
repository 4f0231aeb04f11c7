"""Subscriptions that links share, as JMS clients ask for them (3.5.6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    ATTACH,
    BEGIN,
    DETACH,
    OPEN,
    RECEIVER,
    RELEASED,
    TRANSFER,
    Described,
    Raw,
    Symbol,
    Uint,
    attach,
    begin,
    begun,
    disposition,
    flow,
    message,
    opened,
    performative,
    source,
    target,
    transfer,
)


def shared_source(topic: str | None, *more: str, is_durable: bool = False) -> Described:
    """A topic as the source of a shared subscription."""
    capabilities = [Symbol(each) for each in ("topic", "shared", *more)]
    kept = (Uint(2), Symbol("never")) if is_durable else (None, None)
    return source(topic, *kept, *[None] * 7, capabilities)


@pytest.mark.parametrize("is_durable", [False, True])
def test_links_share_a_subscription_by_the_name_before_the_bar(broker: AnyBroker, is_durable: bool) -> None:
    raw = begun(broker)
    for handle, name in ((1, "sub"), (2, "sub|2")):
        raw.send(attach(name, handle, RECEIVER, shared_source("news", is_durable=is_durable), target(None)))
        assert raw.expect(ATTACH)[5] is not None
        raw.send(flow(handle, 1))
    raw.publisher("news", 0)
    for number in range(2):
        raw.send(transfer(number, message(b"%d" % number)))
    by: list[int] = []
    while len(by) < 2:
        got = raw.frame()
        if got[2] == TRANSFER:
            by.append(got[3][0])
    assert sorted(by) == [1, 2], "each link has one of them"
    raw.send(disposition(0, 1))
    raw.send(performative(0, DETACH, Uint(1), True))
    raw.send(transfer(2, message(b"2")), flow(2, 2))
    while (got := raw.frame())[2] != TRANSFER:
        pass
    assert got[3][0] == 2, "what one link leaves is the other's"


def test_a_volatile_shared_subscription_ends_with_its_last_link(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher("news", 0)
    for handle in (1, 2):
        raw.send(attach(f"sub|volatile{handle}", handle, RECEIVER, shared_source("news"), target(None)))
        raw.expect(ATTACH)
    for handle in (1, 2):
        raw.send(transfer(handle - 1, message(b"")))
        assert raw.outcome()[2] == ACCEPTED
        raw.send(performative(0, DETACH, Uint(handle), True))
        raw.expect(DETACH)
    raw.send(transfer(2, message(b"")))
    assert raw.outcome()[2] == RELEASED, "nobody takes it"


def test_a_global_subscription_is_found_from_another_container(broker: AnyBroker) -> None:
    one, other = begun(broker), Raw(broker)
    one.send(attach("sub|global", 1, RECEIVER, shared_source("news", "global", is_durable=True), target(None)))
    assert one.expect(ATTACH)[5] is not None
    one.send(performative(0, DETACH, Uint(1), False))
    one.expect(DETACH)
    other.log_in()
    other.send(opened("another"), begin())
    other.expect(OPEN)
    other.expect(BEGIN)
    desired = [Symbol("shared"), Symbol("global")]
    nothing = [None] * 5
    fields: list[Any] = ["sub|global2", Uint(1), RECEIVER, None, None, None, target(None), *nothing, desired]
    other.send(performative(0, ATTACH, *fields))
    found = other.expect(ATTACH)[5]
    assert (found.value[0], found.value[1]) == ("news", 2)
    other.send(performative(0, DETACH, Uint(1), True))
    other.expect(DETACH)
    other.send(performative(0, ATTACH, *fields))
    assert other.expect(ATTACH)[5] is None
    assert other.error(DETACH)[0] == "amqp:not-found"
