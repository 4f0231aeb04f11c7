"""Settlements of a group: what is noted in the write-ahead log says of each record whether it is settled, no more."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from forebay.core.message import MQTT
from forebay.log.queue_log import QueueLog
from forebay.queue.leases.page import LEASED
from forebay.queue.work.settlement import Settlement
from tests.logs import memory_log

Runs = list[tuple[int, int]]


def filled(folder: Path, count: int) -> QueueLog:
    log = memory_log(str(folder))
    for _ in range(count):
        log.append(MQTT, b"", b"k", b"", b"x")
    log.seal(1)
    return log


def delivered(log: QueueLog, start: int = 0, end: int | None = None) -> Settlement:
    """A group whose records have all been leased; none is settled."""
    settlement = Settlement(log, start)
    last = int(log.end) if end is None else end
    settlement.mark(start, last, LEASED)
    settlement.cursor = last
    return settlement


def settled_in(settlement: Settlement, end: int) -> list[int]:
    return [offset for offset in range(end) if settlement.is_settled(offset)]


def restored(log: QueueLog, *notes: bytes, start: int = 0) -> Settlement:
    again = Settlement(log, start)
    for each in notes:
        again.restore(each)
    return again


def test_every_order_of_settling_is_noted_as_it_was(tmp_path: Path) -> None:
    """Whatever is merged into an interval, no record is in the notes that was not settled, and none is missing."""
    records = 6
    log = filled(tmp_path, records)
    for count in range(1, records + 1):
        for order in permutations(range(records), count):
            settlement = delivered(log)
            for offset in order:
                settlement.settle(offset, offset + 1)
            found = settled_in(restored(log, settlement.take_progress()), records)
            assert found == sorted(order), f"settled in the order {order}"


@pytest.mark.parametrize(
    ("settled", "noted"),
    [
        ([(0, 3), (3, 5)], [(0, 5)]),
        ([(0, 3), (4, 6)], [(0, 3), (4, 6)]),  # one record between them is not settled
        ([(0, 3), (5, 6)], [(0, 3), (5, 6)]),
        ([(4, 6), (3, 4)], [(4, 6), (3, 4)]),
        ([(2, 3), (0, 1)], [(2, 3), (0, 1)]),
        ([(1, 3), (1, 3)], [(1, 3), (1, 3)]),
    ],
)
def test_intervals_are_merged_only_where_they_touch(tmp_path: Path, settled: Runs, noted: Runs) -> None:
    settlement = delivered(filled(tmp_path, 8))
    for first, end in settled:
        settlement.settle(first, end)
    progress = settlement.take_progress()
    bounds = [int.from_bytes(progress[at : at + 8], "little") for at in range(0, len(progress), 8)]
    assert list(zip(bounds[::2], bounds[1::2], strict=True)) == noted
    assert settlement.take_progress() == b""


def test_an_interval_does_not_grow_any_more_once_it_is_taken(tmp_path: Path) -> None:
    log = filled(tmp_path, 8)
    settlement = delivered(log)
    settlement.settle(1, 3)
    first = settlement.take_progress()
    settlement.settle(3, 4)
    second = settlement.take_progress()
    settlement.settle(6, 7)
    third = settlement.take_progress()
    assert [len(each) for each in (first, second, third)] == [16, 16, 16]
    assert settled_in(restored(log, first), 8) == [1, 2]
    assert settled_in(restored(log, first, second), 8) == [1, 2, 3]
    assert settled_in(restored(log, first, second, third), 8) == [1, 2, 3, 6]
