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
