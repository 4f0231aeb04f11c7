"""Leases as a queue wants them: how many, how long, and records that are settled when they are sent."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from forebay.broker.policy_changes import set_policy
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.work.work_group import WorkGroup
from tests.restarts import ENDS, RestartRig

KINDS: Final[dict[str, dict[str, object]]] = {
    "classic": {},
    "quorum": {"x_queue_type": "quorum"},
    "priority": {"x_max_priority": 5},
    "single": {"x_single_active_consumer": True},
}
EVERY_KIND = pytest.mark.parametrize("kind", sorted(KINDS))


def rig_with(folder: Path, kind: str, count: int, way: str = ENDS[0], **arguments: object) -> RestartRig:
    """A broker with a queue that has so many messages."""
    rig = RestartRig(folder, way)
    rig.declare(b"q", **KINDS[kind], **arguments)
    for number in range(count):
        rig.publish(b"", b"q", b"%d" % number)
    rig.settle()
    return rig


def consumer(rig: RestartRig, session: int = 1, credit: int = 0, no_ack: bool = False) -> Consumer:
    return rig.vhost.consumers.consume(b"q", session, 1, b"c", no_ack, False, credit, {})


def offsets(deliveries: list[Delivery]) -> list[int]:
    return [int(each.block.base + index) for each in deliveries for index in range(each.index, each.index + each.count)]


def ack(rig: RestartRig, deliveries: list[Delivery]) -> None:
    for each in deliveries:
        assert each.lease is not None
        rig.vhost.settling.ack(each.lease, each.lease.first, each.count)


def group(rig: RestartRig) -> WorkGroup:
    found = rig.vhost.catalog.queue(b"q").find_group(b"")
    assert isinstance(found, WorkGroup)
    return found


# ---- how many


@EVERY_KIND
def test_a_group_holds_no_more_than_its_backlog(tmp_path: Path, kind: str) -> None:
    rig = rig_with(tmp_path, kind, 10, x_max_backlog=3)
    consumer(rig, 1)
    if kind != "single":
        consumer(rig, 2)
    first = rig.deliveries()
    assert len(offsets(first)) == 3
    assert rig.deliveries() == []
    assert rig.vhost.consuming.get(b"q", 3, 1, False) is None if kind != "single" else True
    assert rig.publish(b"", b"q", b"more") == 0, "intake goes on"
    ack(rig, first[:1])
    assert len(offsets(rig.deliveries())) == first[0].count


def test_who_acknowledges_nothing_waits_for_no_backlog(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 10, x_max_backlog=3)
    consumer(rig, 1, no_ack=True)
    assert len(offsets(rig.deliveries())) == 10


def test_each_group_has_a_backlog_of_its_own(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 5, x_max_backlog=2)
    consumer(rig)
    rig.vhost.consumers.consume(b"q", 2, 1, b"c", False, False, 0, {"x-consumer-group": "other"})
    assert sorted(offsets(rig.deliveries())) == [0, 0, 1, 1]


@EVERY_KIND
@pytest.mark.parametrize(("credit", "expected"), [(0, 3), (2, 2), (9, 3)])
def test_the_smaller_of_prefetch_and_backlog_counts(tmp_path: Path, kind: str, credit: int, expected: int) -> None:
    rig = rig_with(tmp_path, kind, 10, x_max_subscription_backlog=3)
    reader = consumer(rig, 1, credit)
    found = rig.deliveries()
    assert len(offsets(found)) == expected
    rig.vhost.consuming.set_window(reader, 8)
    more = rig.deliveries()
    assert len(offsets(found + more)) == 3
    ack(rig, found)
    assert len(offsets(rig.deliveries())) == expected


def test_credit_beyond_the_backlog_is_withheld(tmp_path: Path) -> None:
    """As over AMQP 1.0, where what is settled gives no credit."""
    rig = rig_with(tmp_path, "classic", 10, x_max_subscription_backlog=2)
    reader = consumer(rig)
    rig.vhost.consuming.flow(reader, 5, False)
    seen: list[int] = []
    for expected in (2, 2, 1, 0):
        found = rig.deliveries()
        assert len(offsets(found)) == expected
        seen += offsets(found)
        ack(rig, found)
    assert seen == [0, 1, 2, 3, 4]


def test_a_policy_changes_the_backlog(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 10)
    set_policy(rig.vhost, "narrow", "^q$", {"max-backlog": 3})
    consumer(rig)
    assert offsets(rig.deliveries()) == [0, 1, 2]
    set_policy(rig.vhost, "narrow", "^q$", {"max-backlog": 5})
    assert offsets(rig.deliveries()) == [3, 4]


# ---- how long


def test_a_lease_period_is_the_visibility_timeout_and_is_told(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 1, x_lease_period=2_000)
    reader = consumer(rig)
    (found,) = rig.deliveries()
    assert reader.tells_lease and found.lease is not None
    assert found.lease.deadline_us - rig.clock.us <= 2_000_000
    rig.wait(3)
    assert rig.given[-1].deliveries == 2, "it came back"


# ---- at most once


@EVERY_KIND
@pytest.mark.parametrize("way", ENDS)
def test_what_was_sent_at_most_once_never_comes_again(tmp_path: Path, kind: str, way: str) -> None:
    rig = rig_with(tmp_path, kind, 6, way, x_semantics="at-most-once")
    reader = consumer(rig, 1, 4)
    found = rig.deliveries()
    assert offsets(found) == [0, 1, 2, 3]
    assert reader.held == 4 and group(rig).leases.count == 0
    assert rig.kept(b"q") == [b"4", b"5"]
    rig.vhost.settling.nack(found[0].lease, 0, 1, 0)  # type: ignore[arg-type]
    assert offsets(rig.deliveries()) == [4], "an answer of any kind makes room for one more"
    rig.end(0)
    consumer(rig)
    assert offsets(rig.deliveries()) == [5]


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_message_is_sent_once_its_settlement_is_on_disk(tmp_path: Path, no_ack: bool) -> None:
    rig = rig_with(tmp_path, "classic", 1, x_semantics="at-most-once")
    consumer(rig, 1, 1, no_ack)
    rig.given = []
    rig.turn(sync=False)
    assert len(rig.given) == 1
    session = rig.broker.connections[1].session
    assert session is not None and session.hold_lsn > rig.store.durable
    rig.sync()
    assert session.hold_lsn <= rig.store.durable


def test_get_waits_for_its_settlement_too(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 1, x_semantics="at-most-once")
    assert rig.vhost.consuming.get(b"q", 1, 1, False) is not None
    rig.turn(sync=False)
    session = rig.broker.connections[1].session
    assert session is not None and session.hold_lsn > rig.store.durable


def test_other_queues_wait_for_nothing(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 1)
    consumer(rig, 1, 1)
    rig.turn(sync=False)
    session = rig.broker.connections[1].session
    assert session is not None and session.hold_lsn == 0


def test_who_goes_takes_what_it_was_sent_with_it(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, "classic", 3, x_semantics="at-most-once")
    reader = consumer(rig, 1, 2)
    assert offsets(rig.deliveries()) == [0, 1]
    rig.vhost.consumers.cancel(reader)
    consumer(rig, 2, 2)
    assert offsets(rig.deliveries()) == [2]


def test_credit_given_twice_in_a_turn_counts_what_was_delivered_between(tmp_path: Path) -> None:
    """As two flows of AMQP 1.0 in one write, with something between them for which the queue catches up."""
    rig = rig_with(tmp_path, "classic", 10)
    reader = consumer(rig)
    rig.vhost.consuming.flow(reader, 0, False)
    rig.deliveries()
    rig.vhost.consuming.flow(reader, 3, False)
    rig.vhost.dispatcher.catch_up(rig.vhost.catalog.queue(b"q"))
    rig.vhost.consuming.flow(reader, 3, False)
    assert len(offsets(rig.deliveries())) == 3
