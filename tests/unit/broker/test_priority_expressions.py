"""A queue that an expression orders, over every end of a broker, and piece by piece where much waits."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from forebay.queue.leases.lease import UNTRIED, Lease
from forebay.queue.work.work_group import WorkGroup
from tests.restarts import ENDS, RestartRig
from tests.vhosts import leased

EVERY_END = pytest.mark.parametrize("way", ENDS)
EVERY_KIND = pytest.mark.parametrize("kind", ["classic", "quorum"])
EXPRESSION: Final = "/n"


def rig_with(folder: Path, way: str, kind: str, values: list[int]) -> RestartRig:
    rig = RestartRig(folder, way)
    rig.declare(b"q", x_queue_type=kind, x_priority_expression=EXPRESSION)
    for value in values:
        rig.publish(b"", b"q", b'{"n": %d}' % value)
    rig.settle()
    return rig


def next_value(rig: RestartRig) -> tuple[bytes, int]:
    """The body and offset of the next message, which is settled."""
    lease = rig.taken(b"q")
    block = rig.vhost.catalog.queue(b"q").log.block(lease.first)
    assert block is not None
    rig.vhost.settling.ack(lease, lease.first, 1)
    rig.settle()
    return bytes(block.body(lease.first - block.base)), int(lease.first)


@EVERY_KIND
@EVERY_END
def test_the_order_outlives_every_end(tmp_path: Path, kind: str, way: str) -> None:
    rig = rig_with(tmp_path, way, kind, [3, 9, 1, 9, 5])
    assert next_value(rig) == (b'{"n": 9}', 1)
    lease = rig.taken(b"q")
    assert lease.first == 3
    rig.vhost.settling.nack(lease, lease.first, 1, 0, UNTRIED)
    rig.publish(b"", b"q", b'{"n": 7}')  # the note of what was settled goes along
    rig.settle()
    rig.end(0)
    assert [next_value(rig)[1] for _ in range(5)] == [3, 5, 4, 0, 2]


def first_delivery(rig: RestartRig) -> Lease:
    """The lease of the first message that a new consumer gets, after as many turns as that takes."""
    rig.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 1, {})
    for _ in range(100):
        found = rig.deliveries()
        if found:
            return leased(found)
    raise AssertionError("nothing was delivered")


def test_a_long_queue_is_put_in_order_piece_by_piece(tmp_path: Path) -> None:
    rig = rig_with(tmp_path, ENDS[1], "classic", list(range(5000)))
    lease = first_delivery(rig)
    assert lease.first == 4999
    rig.vhost.settling.ack(lease, 4999, 1)
    rig.publish(b"", b"q", b'{"n": 1}')  # the note of what was settled goes along
    rig.settle()
    rig.end(0)
    group = rig.vhost.catalog.queue(b"q").find_group(b"")
    assert isinstance(group, WorkGroup)
    assert group.ready() == 5000
    assert group.next_offset() >= 5000, "all of it had been in order"
    found = next_value(rig)[1]
    assert 0 < found < 4998, "basic.get takes the first of those that are in order"
    assert first_delivery(rig).first == 4998
