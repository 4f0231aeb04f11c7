"""Files are rewritten only on the strength of what is durable: a power cut takes the rest back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vhosts import OneVhost

RECORDS = 150


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[OneVhost]:
    made = OneVhost(tmp_path)
    yield made
    made.close()


def later_files(rig: OneVhost) -> None:
    """What was published so far is in files that are full, and old enough to be rewritten."""
    rig.checkpoint()
    rig.clock.us += 60_000_000
    rig.flush()


def rewrite(rig: OneVhost, seconds: int) -> None:
    """Seconds go by in which the disk syncs nothing of the log, and all the work on files is done."""
    for _ in range(seconds):
        rig.broker.every_second(rig.clock.us)
        rig.do(rig.node.turn())
        while rig.jobs:
            rig.work()
        rig.clock.us += 1_000_000


def with_one_held(rig: OneVhost, **arguments: object) -> None:
    rig.declare(b"q", **arguments)
    rig.declare(b"dead")
    for number in range(RECORDS):
        rig.publish(b"", b"q", b"%d" % number + bytes(100))
        rig.turn()
    later_files(rig)


def test_a_rejected_message_or_its_dead_letter_is_there_after_a_power_cut(rig: OneVhost) -> None:
    with_one_held(rig, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    leases = [rig.taken(b"q") for _ in range(RECORDS)]
    for lease in leases[1:]:
        rig.vhost.settling.reject(lease, lease.first, 1)
    rewrite(rig, 3)
    rig.crash()
    there = len(rig.kept(b"q")) + len(rig.kept(b"dead"))
    assert there == RECORDS


def test_what_waits_for_the_disk_is_rewritten_once_the_disk_has_it(rig: OneVhost) -> None:
    with_one_held(rig)
    leases = [rig.taken(b"q") for _ in range(RECORDS)]
    for lease in leases[1:]:
        rig.vhost.settling.ack(lease, lease.first, 1)
    rig.vhost.settling.nack(leases[0], 0, 1, 0)
    rewrite(rig, 3)
    queue = rig.vhost.catalog.queue(b"q")
    assert queue.log.missing(0) == []
    for _ in range(20):
        rig.flush()
        rig.broker.every_second(rig.clock.us)
        rig.settle()
        rig.clock.us += 1_000_000
    assert queue.log.missing(0)[0][0] == 1
    rig.crash()
    assert len(rig.kept(b"q")) == 1
