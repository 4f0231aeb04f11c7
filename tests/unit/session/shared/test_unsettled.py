"""Runs of deliveries that are not settled, as both versions of AMQP remember them."""

from __future__ import annotations

import random
import time
from pathlib import Path

from forebay.queue.counts import Counts
from forebay.queue.leases.lease import UNLIMITED, Consumer, Lease
from forebay.session.shared.unsettled import ACCEPT, RETURN, DeliveryHolder, UnsettledDeliveries
from tests.node_rig import NodeRig


def deliveries(rig: NodeRig, counts: tuple[int, ...], holder: DeliveryHolder) -> UnsettledDeliveries:
    """Runs of so many deliveries each, of a queue that is gone: settling them does nothing."""
    made = UnsettledDeliveries(rig.vhost.settling, Counts())
    tag = 0
    for count in counts:
        consumer = Consumer(1, 12345, 1, 1, 1, b"", False, UNLIMITED)
        made.add(holder, Lease(consumer, None, 0, count, 0), tag, 0, count)
        tag += count
    return made


def test_any_order_settles_each_delivery_once(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path)
    chance = random.Random(5)
    for _ in range(200):
        counts = tuple(chance.randrange(1, 9) for _ in range(5))
        holder = DeliveryHolder()
        made = deliveries(rig, counts, holder)
        left = set(range(sum(counts)))
        while left:
            first = chance.randrange(sum(counts))
            last = first + chance.randrange(6)
            asked = {tag for tag in left if first <= tag <= last}
            ranges = made.unsettled_ranges(first, last)
            assert {tag for low, high in ranges for tag in range(low, high + 1)} == asked
            assert made.settle(first, last, ACCEPT) == len(asked)
            left -= asked
            assert made.unsettled == holder.unsettled == len(left)
        assert not made.runs
    rig.close()


def test_holes_cost_no_more_the_more_there_are(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path)
    count = 20_000
    made = deliveries(rig, (count,), DeliveryHolder())
    begun = time.process_time()
    for tag in range(1, count, 2):
        made.settle(tag, tag, ACCEPT)
    for tag in range(0, count, 2):
        made.settle(tag, tag, ACCEPT)
    assert made.unsettled == 0 and not made.runs
    assert time.process_time() - begun < 5, "it takes a tenth of a second, and minutes where each looks at all holes"
    rig.close()


def test_everything_of_one_holder_or_of_all_is_taken_back(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path)
    one, other = DeliveryHolder(), DeliveryHolder()
    made = deliveries(rig, (3,), one)
    made.add(other, made.runs[0].lease, 3, 3, 4)
    made.settle(4, 4, ACCEPT)
    made.take_back(one, RETURN)
    assert (one.unsettled, other.unsettled, made.unsettled) == (0, 3, 3)
    made.take_back_all(RETURN)
    assert (other.unsettled, made.unsettled, made.runs) == (0, 0, [])
    made = deliveries(rig, (3, 4), one)
    made.forget_all()
    assert (one.unsettled, made.unsettled, made.runs) == (0, 0, [])
    assert made.settle(0, 100, ACCEPT) == 0
    rig.close()
