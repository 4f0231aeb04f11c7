"""How consumers come by credit: by a window, or by flow alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import MQTT
from forebay.log.queue_log import QueueLog
from forebay.queue.declaration.spec import QueueSpec
from forebay.queue.leases.lease import LEASE_US, UNLIMITED, UNTRIED, Consumer, Delivery
from forebay.queue.queue import CLASSIC, STREAM, Queue
from forebay.queue.source.source import LogSource
from tests.logs import memory_log


class Rig:
    """A queue with ten records, and one consumer."""

    def __init__(self, folder: Path, kind: int, no_ack: bool, window: int) -> None:
        self.log: QueueLog = memory_log(str(folder))
        self.queue = Queue(1, b"q", kind, QueueSpec(False, False, False, {}, 30_000), LogSource(self.log))
        self.group = self.queue.add_group(1, b"", b"", kind == CLASSIC, 0, True)
        self.consumer = Consumer(1, 1, 1, 1, 0, b"", no_ack, window)
        self.group.add(self.consumer)
        self.publish(10)

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.log.append(MQTT, b"", b"k", b"", b"x")
        self.log.seal(1)

    def turn(self, now_us: int = 1) -> list[Delivery]:
        out: list[Delivery] = []
        self.queue.dispatch(now_us, out)
        return out

    def taken(self, now_us: int = 1) -> int:
        return sum(int(each.count) for each in self.turn(now_us))


KINDS = pytest.mark.parametrize("kind", [CLASSIC, STREAM])


@KINDS
def test_what_leaves_a_window_makes_room_for_as_many_others(tmp_path: Path, kind: int) -> None:
    rig = Rig(tmp_path, kind, False, 4)
    (delivery,) = rig.turn()
    assert delivery.count == 4 and delivery.lease is not None and rig.taken() == 0
    rig.group.ack(delivery.lease, 0, 3)
    assert rig.consumer.credit == 3 and rig.taken() == 3


@KINDS
def test_a_window_may_shrink_below_what_is_held(tmp_path: Path, kind: int) -> None:
    rig = Rig(tmp_path, kind, False, 4)
    (delivery,) = rig.turn()
    assert delivery.lease is not None
    rig.consumer.set_window(2)
    rig.group.ack(delivery.lease, 0, 2)
    assert rig.taken() == 0
    rig.group.ack(delivery.lease, 2, 2)
    assert rig.taken() == 2
    rig.consumer.set_window(UNLIMITED)
    assert rig.taken() == 4 and not rig.consumer.refills


@KINDS
def test_nothing_but_flow_gives_credit_to_who_has_no_window(tmp_path: Path, kind: int) -> None:
    rig = Rig(tmp_path, kind, False, UNLIMITED)
    rig.group.flow(rig.consumer, 2, False)
    (delivery,) = rig.turn()
    assert delivery.count == 2 and delivery.lease is not None
    assert rig.group.ack(delivery.lease, 0, 2) == 2
    assert (rig.consumer.credit, rig.consumer.held) == (0, 0) and rig.taken() == 0
    rig.group.flow(rig.consumer, 3, False)
    assert rig.taken() == 3


def test_what_returns_gives_no_credit_to_who_has_no_window(tmp_path: Path) -> None:
    rig = Rig(tmp_path, CLASSIC, False, UNLIMITED)
    rig.group.flow(rig.consumer, 2, False)
    (delivery,) = rig.turn()
    assert delivery.lease is not None
    assert rig.group.give_back(delivery.lease, 0, 1, 0, UNTRIED) == 1
    assert rig.taken(2 * LEASE_US) == 0, "nor what was held for too long"
    assert (rig.consumer.credit, rig.consumer.held) == (0, 0)


@KINDS
def test_flow_counts_what_needs_no_acknowledgement(tmp_path: Path, kind: int) -> None:
    rig = Rig(tmp_path, kind, True, UNLIMITED)
    rig.group.flow(rig.consumer, 4, False)
    assert rig.taken() == 4 and rig.taken() == 0
    rig.consumer.set_window(5)
    assert rig.taken() == 6, "a window holds back nobody who holds nothing"


@KINDS
def test_credit_that_drains_is_lost_once_there_is_nothing_more(tmp_path: Path, kind: int) -> None:
    rig = Rig(tmp_path, kind, False, UNLIMITED)
    rig.group.flow(rig.consumer, 100, True)
    assert rig.taken() == 10
    assert rig.consumer.credit == 0 and not rig.consumer.drains
    rig.publish(1)
    assert rig.taken() == 0


@KINDS
def test_who_takes_nothing_for_now_drains_later(tmp_path: Path, kind: int) -> None:
    rig = Rig(tmp_path, kind, False, UNLIMITED)
    rig.consumer.paused = True
    rig.group.flow(rig.consumer, 100, True)
    assert rig.taken() == 0 and rig.consumer.drains
    rig.consumer.paused = False
    assert rig.taken() == 10
    assert rig.consumer.credit == 0 and not rig.consumer.drains
