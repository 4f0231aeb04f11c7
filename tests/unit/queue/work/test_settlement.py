"""Settlements of a group: what is noted in the write-ahead log says of each record whether it is settled, no more."""

from __future__ import annotations

from itertools import pairwise, permutations
from pathlib import Path
from random import Random

import pytest

from forebay.core.message import MQTT
from forebay.log.queue_log import QueueLog
from forebay.queue.leases.page import LEASED, PAGE_RECORDS
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


# ---- against sets of offsets, over several pages

END = 3 * PAGE_RECORDS + 17
NEAR_PAGES = [
    edge + step for edge in range(0, END, PAGE_RECORDS) for step in (-2, -1, 0, 1, 2) if 0 <= edge + step < END
]


def runs_of(offsets: set[int]) -> Runs:
    """Ascending intervals of these offsets."""
    found: Runs = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset:
            found[-1] = (found[-1][0], offset + 1)
        else:
            found.append((offset, offset + 1))
    return found


def some_runs(chance: Random, free: set[int]) -> Runs:
    """A few intervals of offsets that are free, of which many begin or end at the edge of a page."""
    found: Runs = []
    for _ in range(chance.randrange(1, 12)):
        first = chance.choice([*NEAR_PAGES, chance.randrange(END)])
        end = min(END, first + chance.choice([1, 2, 5, 300, PAGE_RECORDS, PAGE_RECORDS + 1]))
        for run in runs_of(free & set(range(first, end))):
            found.append(run)
            free -= set(range(*run))
    return found


def check(settlement: Settlement, settled: set[int], start: int) -> None:
    """Whatever is asked of the states agrees with the set of what was settled."""
    everything = set(range(start, END))
    committed = min(everything - settled, default=END)
    assert settlement.advance() == committed
    assert [settlement.is_settled(offset) for offset in NEAR_PAGES if offset >= start] == [
        offset in settled for offset in NEAR_PAGES if offset >= start
    ]
    unsettled = everything - settled
    assert settlement.unsettled(start, END) == runs_of(unsettled)
    for first, end in ((start, PAGE_RECORDS), (PAGE_RECORDS - 1, PAGE_RECORDS + 1), (2 * PAGE_RECORDS, END)):
        assert settlement.unsettled(first, end) == runs_of(unsettled & set(range(first, end)))
    assert settlement.settled_above() == runs_of({offset for offset in settled if offset >= committed})
    pages = {offset // PAGE_RECORDS for offset in unsettled}
    assert set(settlement.pages) <= pages | {END // PAGE_RECORDS}, "pages that are settled have gone"


@pytest.mark.parametrize("start", [0, 7, PAGE_RECORDS - 1, PAGE_RECORDS])
def test_states_notes_and_snapshot_agree_with_a_set_of_what_was_settled(tmp_path: Path, start: int) -> None:
    log = filled(tmp_path, END)
    for seed in range(12):
        chance = Random(f"{start} {seed}")
        settlement = delivered(log, start)
        settled: set[int] = set()
        notes: list[bytes] = []
        for _ in range(3):
            for first, end in some_runs(chance, set(range(start, END)) - settled):
                settlement.settle(first, end)
                settled |= set(range(first, end))
            notes.append(settlement.take_progress())
            check(settlement, settled, start)
        for again in (restored(log, *notes, start=start), restored(log, settlement.snapshot(), start=start)):
            last = max(settled) + 1
            assert again.cursor == last
            waiting = runs_of(set(range(start, last)) - settled)
            assert [(first, first + count) for first, count in again.passed_over()] == within_pages(waiting)
            again.mark(last, END, LEASED)
            again.cursor = END
            check(again, settled, start)


def within_pages(runs: Runs) -> Runs:
    """Runs as they are told: each ends at the end of its page."""
    found: Runs = []
    for first, end in runs:
        edges = range((first // PAGE_RECORDS + 1) * PAGE_RECORDS, end, PAGE_RECORDS)
        found += pairwise([first, *edges, end])
    return found


def test_a_group_that_starts_over_knows_nothing_of_before(tmp_path: Path) -> None:
    log = filled(tmp_path, 40)
    settlement = delivered(log)
    settlement.settle(3, 9)
    settlement.settle(20, 21)
    settlement.start_over(10, [(12, 15), (2, 11), (30, 33)])
    assert settlement.take_progress() == b""
    assert (settlement.committed, settlement.cursor) == (11, 33)
    assert settlement.unsettled(0, 40) == [(11, 12), (15, 30), (33, 40)]
    assert settlement.passed_over() == [(11, 1), (15, 15)]
    settlement.start_over(0, [])
    assert (settlement.committed, settlement.cursor, settlement.pages) == (0, 0, {})
    settlement.mark(0, 40, LEASED)
    settlement.cursor = 40
    settlement.settle(0, 3)  # touches the interval of before, which is forgotten
    assert settled_in(restored(log, settlement.take_progress()), 40) == [0, 1, 2]


def test_notes_below_what_is_committed_change_nothing(tmp_path: Path) -> None:
    log = filled(tmp_path, 10)
    settlement = delivered(log)
    settlement.settle(0, 4)
    before = settlement.take_progress()
    settlement.settle(2, 6)
    after = settlement.take_progress()
    again = restored(log, before, after, before)
    assert (again.committed, again.cursor) == (6, 6)
    assert again.unsettled(0, 10) == [(6, 10)]
