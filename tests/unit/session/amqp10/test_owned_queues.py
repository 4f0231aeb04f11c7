"""Queues that are there for one link: temporary ones, and durable subscriptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.amqp10.raw import (
    ATTACH,
    DETACH,
    RECEIVER,
    SENDER,
    SOURCE,
    TARGET,
    Described,
    Raw,
    Symbol,
    Uint,
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
from tests.node_rig import NodeRig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    made = NodeRig(tmp_path)
    yield made
    made.close()


def queues(rig: NodeRig) -> list[bytes]:
    rig.settle()
    return sorted(rig.vhost.catalog.queues)


def dynamic(code: int) -> Described:
    return Described(code, [None, Uint(0), None, Uint(0), True])


def durable(topic: str) -> Described:
    return source(topic, Uint(2), Symbol("never"))


def subscribe(raw: Raw, topic: str, name: str = "news", handle: int = 1) -> None:
    raw.send(attach(name, handle, RECEIVER, durable(topic), target(None)))
    assert raw.expect(ATTACH)[5] is not None


def detach(raw: Raw, handle: int, closed: bool) -> None:
    raw.send(performative(0, DETACH, Uint(handle), closed))
    assert bool(raw.expect(DETACH)[1]) is closed


@pytest.mark.parametrize("closed", [True, False])
def test_a_dynamic_target_ends_with_its_link(rig: NodeRig, closed: bool) -> None:
    raw = begun(rig)
    raw.send(attach("made", 0, SENDER, source(None), dynamic(TARGET)))
    address = raw.expect(ATTACH)[6].value[0]
    raw.flow(0)
    raw.consumer(address, 1, credit=1)
    raw.send(transfer(0, message(b"to myself")))
    assert body_of(raw.delivery()[1]) == b"to myself"
    raw.outcome()
    raw.send(performative(0, DETACH, Uint(0), closed))
    raw.expect(DETACH)
    assert queues(rig) == []
    assert raw.error(DETACH)[0] == "amqp:resource-deleted", "the consumer hears that its queue is gone"


def test_a_subscription_to_a_topic_ends_with_its_link(rig: NodeRig) -> None:
    raw = begun(rig)
    raw.consumer("a/b", 1)
    assert len(queues(rig)) == 1
    detach(raw, 1, False)
    assert queues(rig) == []


def test_a_refused_link_leaves_no_queue_behind(rig: NodeRig) -> None:
    raw = begun(rig)
    raw.send(attach("made", 0, RECEIVER, dynamic(SOURCE), target(None), properties={Symbol("priority"): "high"}))
    raw.refused(RECEIVER)
    assert queues(rig) == []


def test_a_durable_subscription_is_detached_taken_up_and_closed(rig: NodeRig) -> None:
    raw = begun(rig)
    subscribe(raw, "a/+")
    detach(raw, 1, False)
    raw.publisher("a/b", 2)
    raw.send(transfer(0, message(b"kept"), 2))
    assert raw.outcome()[2] == 0x24
    subscribe(raw, "a/+", handle=3)
    raw.send(flow(3, 1))
    assert body_of(raw.delivery()[1]) == b"kept"
    detach(raw, 3, True)
    assert queues(rig) == []


def test_a_durable_subscription_outlives_the_broker_ending_its_link(rig: NodeRig) -> None:
    raw = begun(rig)
    subscribe(raw, "a/+")
    raw.send(attach("news", 2, RECEIVER, durable("a/+"), target(None)))
    assert raw.error(DETACH)[0] == "amqp:link:stolen"
    raw.expect(ATTACH)
    assert len(queues(rig)) == 1


def test_a_durable_subscription_with_another_topic_begins_anew(rig: NodeRig) -> None:
    raw = begun(rig)
    subscribe(raw, "a/b")
    detach(raw, 1, False)
    subscribe(raw, "c/d", handle=2)
    raw.publisher("a/b", 3)
    raw.send(transfer(0, message(), 3))
    assert raw.outcome()[2] == 0x26, "nobody subscribes to the former topic any more"


def test_a_source_that_is_null_stands_for_the_subscription_of_the_name(rig: NodeRig) -> None:
    raw = begun(rig)
    raw.send(attach("news", 1, RECEIVER, None, target(None)))
    assert raw.refused(RECEIVER)[0] == "amqp:not-found"
    raw.send(performative(0, DETACH, Uint(1), True))
    subscribe(raw, "a/+", handle=2)
    detach(raw, 2, False)
    raw.send(attach("news", 3, RECEIVER, None, target(None)))
    found: list[Any] = raw.expect(ATTACH)[5].value
    assert found[:3] == ["a/+", 2, "never"]
    detach(raw, 3, True)
    assert queues(rig) == []
