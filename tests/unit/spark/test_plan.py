"""Which tasks read which offsets."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from forebay.spark.reading.plan import TASK_OCTETS_MAX, TASK_OCTETS_MIN, TASK_ROWS_MIN, BatchLimits, Range, plan

RANGES = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 10**6), st.integers(0, 2**33)), max_size=5).map(
    lambda made: [Range(f"q{at}", first, first + count, None, size) for at, (first, count, size) in enumerate(made)]
)
LIMITS = st.builds(
    BatchLimits,
    tasks_min=st.integers(0, 200),
    rows_max=st.just(0) | st.integers(10**4, 10**6),
    octets_max=st.integers(2**25, 2**34),
)


@given(RANGES, st.integers(1, 64), LIMITS)
def test_every_offset_is_in_one_task(ranges: list[Range], cores: int, limits: BatchLimits) -> None:
    parts = plan(ranges, cores, limits)
    assert all(part.first < part.end for part in parts)
    for whole in ranges:
        mine = [part for part in parts if part.queue == whole.queue]
        if whole.count == 0:
            assert mine == []
            continue
        assert (mine[0].first, mine[-1].end) == (whole.first, whole.end)
        assert all(before.end == after.first for before, after in itertools.pairwise(mine))
    total = sum(each.count for each in ranges)
    assert len(parts) >= min(limits.tasks_min, total)
    for part in parts:
        assert part.count <= (limits.rows_max or part.count)
        # Records are not cut: a task may have one more than would fit.
        assert part.octets - part.octets // part.count <= limits.octets_max
    queues = sum(each.count > 0 for each in ranges)
    by_size = sum(each.octets // limits.octets_max + each.count // (limits.rows_max or 2**60) for each in ranges)
    assert len(parts) <= max(cores, limits.tasks_min, queues) + queues + by_size


def counts(parts: list[Range]) -> list[int]:
    return [part.count for part in parts]


def test_about_one_task_a_core() -> None:
    assert plan([Range("q", 0, 1_000_000, 7, 80)], 4, BatchLimits()) == [
        Range("q", 0, 250_000, 7, 20),
        Range("q", 250_000, 500_000, 7, 20),
        Range("q", 500_000, 750_000, 7, 20),
        Range("q", 750_000, 1_000_000, 7, 20),
    ]


def test_few_short_records_are_one_task() -> None:
    assert plan([Range("q", 5, 5 + TASK_ROWS_MIN)], 8, BatchLimits()) == [Range("q", 5, 5 + TASK_ROWS_MIN)]
    assert counts(plan([Range("q", 0, 100, None, 4 * TASK_OCTETS_MIN)], 8, BatchLimits())) == [25] * 4


def test_as_many_as_asked_for() -> None:
    assert counts(plan([Range("q", 0, 100)], 1, BatchLimits(tasks_min=7))) == [14, 14, 14, 15, 14, 14, 15]
    assert counts(plan([Range("q", 0, 3)], 1, BatchLimits(tasks_min=7))) == [1, 1, 1]


def test_no_task_is_larger_than_asked_for() -> None:
    billion = Range("q", 0, 10**9, None, 10**12)
    parts = plan([billion], 2, BatchLimits())
    assert len(parts) == -(-(10**12) // TASK_OCTETS_MAX)
    assert max(part.octets for part in parts) <= TASK_OCTETS_MAX
    assert len(plan([billion], 2, BatchLimits(octets_max=10**13))) == 2
    assert max(counts(plan([billion], 2, BatchLimits(rows_max=300_000)))) <= 300_000
    assert counts(plan([Range("q", 0, 2, None, 10**12)], 8, BatchLimits())) == [1, 1], "a record is in one task"


def test_a_long_queue_gets_more_of_the_tasks() -> None:
    parts = plan([Range("a", 0, 900_000), Range("b", 0, 100_000)], 10, BatchLimits())
    assert [part.queue for part in parts].count("a") == 9


def test_many_queues_are_planned_in_one_pass() -> None:
    ranges = [Range(f"q{at}", 0, 1000 + at) for at in range(20_000)]
    assert len(plan(ranges, 4, BatchLimits(tasks_min=30_000))) == 30_000


def test_nothing_to_read() -> None:
    assert plan([Range("q", 7, 7)], 4, BatchLimits(tasks_min=3)) == []
