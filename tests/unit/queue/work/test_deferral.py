"""Deferred records: who gets them, what a restart finds, how many there may be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.errors import TOO_MANY, RequestError
from forebay.core.message import Properties
from forebay.queue.leases.lease import FAILED, UNTRIED, Consumer, Delivery, Lease
from forebay.queue.work import deferral
from forebay.queue.work.deferral import deferred_offsets
from forebay.queue.work.work_group import WorkGroup
from forebay.wire.amqp091.properties import encode_properties
from tests.vhosts import OneVhost

SECOND_US = 1_000_000


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[OneVhost]:
    made = OneVhost(tmp_path)
    made.declare(b"jobs")
    yield made
    made.close()


def grouped(name: str) -> bytes:
    said = Properties()
    said.headers = [("x-group-id", name)]
    return encode_properties(said)


def publish(rig: OneVhost, count: int, properties: bytes | None = None) -> None:
    for number in range(count):
        if properties is None:
            rig.publish(b"", b"jobs", b"%d" % number)
        else:
            rig.publish(b"", b"jobs", b"%d" % number, properties)
    rig.turn()


def group_of(rig: OneVhost) -> WorkGroup:
    found = rig.vhost.catalog.queue(b"jobs").find_group(b"")
    assert isinstance(found, WorkGroup)
    return found


def consume(rig: OneVhost, credit: int = 0) -> Consumer:
    return rig.vhost.consumers.consume(b"jobs", 1, 1, b"c", False, False, credit, {})


def leases(rig: OneVhost) -> list[Lease]:
    return [each.lease for each in rig.deliveries() if each.lease is not None]


def deferred(rig: OneVhost) -> list[int]:
    return sorted(deferred_offsets(group_of(rig), rig.clock.us))


def take(rig: OneVhost, consumer: Consumer, offset: int) -> Delivery | None:
    found = rig.vhost.settling.take_deferred(consumer, [offset])
    return found[0] if found else None


def test_a_deferred_record_is_delivered_to_who_asks_for_it(rig: OneVhost) -> None:
    publish(rig, 3)
    consumer = consume(rig)
    (lease,) = leases(rig)
    assert rig.vhost.settling.defer(lease, 1, UNTRIED) == 1
    assert rig.vhost.settling.defer(lease, 1, UNTRIED) == 0, "it is not held any more"
    rig.clock.us += 10**6 * SECOND_US
    assert [each.first for each in leases(rig)] == [0, 2], "the others' time is over"
    credit = consumer.credit
    delivery = take(rig, consumer, 1)
    assert delivery is not None and delivery.lease is not None
    assert delivery.block.body(delivery.index) == b"1"
    assert consumer.credit == credit, "it is none of the consumer's credit"
    assert take(rig, consumer, 1) is None, "it is held"
    assert rig.vhost.settling.ack(delivery.lease, 1, 1) == 1
    assert take(rig, consumer, 1) is None
    assert not deferred(rig)


@pytest.mark.parametrize("offset", [0, 2, 7, -1])
def test_no_other_record_is_taken(rig: OneVhost, offset: int) -> None:
    publish(rig, 3)
    consumer = consume(rig, 2)
    lease = leases(rig)[0]
    rig.vhost.settling.defer(lease, 1, UNTRIED)
    assert take(rig, consumer, offset) is None
    assert deferred(rig) == [1]


def test_several_are_taken_together_or_none(rig: OneVhost) -> None:
    publish(rig, 5)
    consumer = consume(rig)
    (lease,) = leases(rig)
    for offset in (0, 1, 3):
        rig.vhost.settling.defer(lease, offset, UNTRIED)
    assert rig.vhost.settling.take_deferred(consumer, [0, 2]) == []
    assert deferred(rig) == [0, 1, 3]
    assert [each.index for each in rig.vhost.settling.take_deferred(consumer, [3, 0])] == [3, 0]
    assert deferred(rig) == [1]


def test_a_delayed_record_is_not_deferred(rig: OneVhost) -> None:
    publish(rig, 1)
    consume(rig)
    (lease,) = leases(rig)
    rig.vhost.settling.nack(lease, 0, 1, 86_400_000, UNTRIED)
    assert not deferred(rig)


def test_a_failure_counts(rig: OneVhost) -> None:
    publish(rig, 1)
    consumer = consume(rig)
    (lease,) = leases(rig)
    rig.vhost.settling.defer(lease, 0, FAILED)
    delivery = take(rig, consumer, 0)
    assert delivery is not None
    assert (delivery.failures, delivery.deliveries) == (1, 2)


def test_a_restart_finds_what_is_deferred(rig: OneVhost) -> None:
    publish(rig, 4)
    consume(rig)
    (lease,) = leases(rig)
    rig.vhost.settling.defer(lease, 1, UNTRIED)
    rig.vhost.settling.defer(lease, 2, UNTRIED)
    rig.vhost.settling.ack(lease, 0, 1)
    rig.vhost.hurry()
    rig.settle()
    rig.restart()
    assert deferred(rig) == [1, 2]
    consumer = consume(rig)
    assert [(each.first, each.count) for each in leases(rig)] == [(3, 1)]
    assert take(rig, consumer, 2) is not None


def test_a_deferred_record_does_not_hold_its_message_group_up(rig: OneVhost) -> None:
    publish(rig, 3, grouped("g"))
    consumer = consume(rig)
    (lease,) = leases(rig)
    assert (lease.first, lease.count) == (0, 1)
    rig.vhost.settling.defer(lease, 0, UNTRIED)
    (second,) = leases(rig)
    assert second.first == 1
    delivery = take(rig, consumer, 0)
    assert delivery is not None and delivery.lease is not None
    rig.vhost.settling.ack(delivery.lease, 0, 1)
    assert not leases(rig), "the group's second record is out"
    rig.vhost.settling.ack(second, 1, 1)
    assert [each.first for each in leases(rig)] == [2]


def test_deferrals_are_not_without_end(rig: OneVhost, monkeypatch: pytest.MonkeyPatch) -> None:
    if not str(deferral.__file__).endswith(".py"):
        pytest.skip("compiled, a constant is not replaced")
    monkeypatch.setattr(deferral, "DEFERRED_MAX", 2)
    publish(rig, 3)
    consume(rig)
    (lease,) = leases(rig)
    rig.vhost.settling.defer(lease, 0, UNTRIED)
    rig.vhost.settling.defer(lease, 1, UNTRIED)
    with pytest.raises(RequestError) as refused:
        rig.vhost.settling.defer(lease, 2, UNTRIED)
    assert refused.value.reason == TOO_MANY
    assert rig.vhost.settling.ack(lease, 2, 1) == 1, "it is held as before"
