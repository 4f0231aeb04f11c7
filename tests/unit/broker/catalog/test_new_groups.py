"""A group that comes to a queue late begins with the records that are there, and with no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.queue.leases.lease import Delivery
from forebay.queue.work.work_group import WorkGroup
from tests.vhosts import OneVhost

RECORDS = 4


def offset(delivery: Delivery) -> int:
    return int(delivery.block.base + delivery.index)


@pytest.mark.parametrize("is_done", [True, False], ids=["after housekeeping", "in the midst of it"])
def test_a_late_group_counts_no_record_that_housekeeping_leaves_out(tmp_path: Path, is_done: bool) -> None:
    rig = OneVhost(tmp_path)
    rig.declare(b"orders")
    for number in range(RECORDS):
        rig.publish(b"", b"orders", b"%d" % number)
        rig.turn()
    rig.vhost.consumers.consume(b"orders", 1, 1, b"early", False, False, 0, {"x-consumer-group": "early"})
    for delivery in rig.deliveries():
        assert delivery.lease is not None
        if 0 < offset(delivery) < RECORDS - 1:
            rig.vhost.settling.ack(delivery.lease, offset(delivery), 1)
    rig.turn()
    rig.checkpoint()
    assert rig.plan() is not None
    if is_done:
        rig.work()
    rig.vhost.consumers.consume(b"orders", 2, 1, b"late", False, False, 1, {"x-consumer-group": "late"})
    if not is_done:
        rig.work()
    queue = rig.vhost.catalog.queue(b"orders")
    group = queue.find_group(b"late")
    assert isinstance(group, WorkGroup)
    assert queue.log.missing(0) == [(1, RECORDS - 1)]
    assert group.ready() == 2
    assert [offset(delivery) for delivery in rig.deliveries()] == [0]
    assert group.settlement.unsettled(0, queue.log.end) == [(0, 1), (RECORDS - 1, RECORDS)]
    rig.close()


def asked(group: str) -> dict[str, object]:
    return {"x-consumer-group": group} if group else {}


@pytest.mark.parametrize("names", [("",), ("one", "two")], ids=["one group", "two groups"])
def test_what_was_purged_does_not_come_to_a_group_made_after_a_crash(tmp_path: Path, names: tuple[str, ...]) -> None:
    rig = OneVhost(tmp_path)
    rig.declare(b"orders")
    for number in range(RECORDS):
        rig.publish(b"", b"orders", b"%d" % number)
    for number, name in enumerate(names):
        rig.vhost.consumers.consume(b"orders", 1, 1, b"%d" % number, False, False, 1, asked(name))
    for delivery in rig.deliveries():
        assert delivery.lease is not None
        rig.vhost.settling.ack(delivery.lease, offset(delivery), 1)
        rig.vhost.consumers.cancel(delivery.consumer)
    rig.vhost.upkeep.purge(b"orders")
    rig.turn()
    rig.crash()
    rig.vhost.consumers.consume(b"orders", 2, 1, b"late", False, False, 0, {"x-consumer-group": "late"})
    assert rig.deliveries() == []
    for number, name in enumerate(names):
        rig.vhost.consumers.consume(b"orders", 1, 1, b"%d" % number, False, False, 0, asked(name))
    assert rig.deliveries() == []
    rig.close()


def test_an_offset_that_is_committed_once_more_is_on_the_disk_with_its_group(tmp_path: Path) -> None:
    rig = OneVhost(tmp_path)
    rig.declare(b"events", x_queue_type="stream")
    rig.publish(b"", b"events", b"first")
    rig.turn()
    arguments: dict[str, object] = {"x-consumer-group": "reader", "x-stream-offset": "first", "x-auto-commit": False}
    rig.vhost.consumers.consume(b"events", 1, 1, b"c", False, False, 0, arguments)
    rig.vhost.settling.commit_offset(b"events", b"reader", 0)
    rig.turn()
    rig.crash()
    group = rig.vhost.catalog.queue(b"events").find_group(b"reader")
    assert group is not None and group.next_offset() == 0
    rig.close()
