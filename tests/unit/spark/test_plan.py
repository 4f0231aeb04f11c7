"""Which tasks read which offsets."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from forebay.spark.plan import TASK_ROWS_MIN, Range, plan

RANGES = st.lists(
    st.tuples(st.integers(0, 2**40), st.integers(0, 10**6)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=5
).map(lambda pairs: [Range(f"q{at}", first, end) for at, (first, end) in enumerate(pairs)])


@given(RANGES, st.integers(1, 64), st.integers(0, 200))
def test_every_offset_is_in_one_task(ranges: list[Range], cores: int, min_partitions: int) -> None:
    parts = plan(ranges, cores, min_partitions)
    assert all(part.first < part.end for part in parts)
    for whole in ranges:
        mine = [part for part in parts if part.queue == whole.queue]
        if whole.count == 0:
            assert mine == []
            continue
        assert (mine[0].first, mine[-1].end) == (whole.first, whole.end)
        assert all(before.end == after.first for before, after in itertools.pairwise(mine))
    total = sum(each.count for each in ranges)
    assert len(parts) >= min(min_partitions, total)
    queues = sum(each.count > 0 for each in ranges)
    assert len(parts) <= max(cores, min_partitions, queues) + queues


def test_about_one_task_a_core() -> None:
    assert plan([Range("q", 0, 1_000_000)], 4, 0) == [
        Range("q", 0, 250_000),
        Range("q", 250_000, 500_000),
        Range("q", 500_000, 750_000),
        Range("q", 750_000, 1_000_000),
    ]


def test_few_records_are_one_task() -> None:
    assert plan([Range("q", 5, 5 + TASK_ROWS_MIN)], 8, 0) == [Range("q", 5, 5 + TASK_ROWS_MIN)]


def test_as_many_as_asked_for() -> None:
    assert len(plan([Range("q", 0, 100)], 1, 7)) == 7
    assert len(plan([Range("q", 0, 3)], 1, 7)) == 3


def test_a_long_queue_gets_more_of_the_tasks() -> None:
    parts = plan([Range("a", 0, 900_000), Range("b", 0, 100_000)], 10, 0)
    assert [part.queue for part in parts].count("a") == 9


def test_nothing_to_read() -> None:
    assert plan([Range("q", 7, 7)], 4, 3) == []
