"""The heap of records that an expression orders."""

from __future__ import annotations

import random

import pytest

from forebay.queue.ready.ranked import RANK_LAST, VALUE_MAX, RankedRecords, rank_of


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (None, 0),
        (0, 0),
        (-5, 0),
        (True, 0),
        ("none", 0),
        (float("nan"), 0),
        (float("-inf"), 0),
        (float("inf"), VALUE_MAX),
        (2.9, 2),
        ("12", 12),
        ([8, 9], 8),
        (VALUE_MAX, VALUE_MAX),
        (1 << 63, 1 << 63),
        (1e300, VALUE_MAX),
    ],
)
def test_the_rank_of_a_value(value: object, number: int) -> None:
    assert rank_of(value) == RANK_LAST - number


def test_the_highest_value_goes_first_and_the_oldest_among_equals() -> None:
    chance = random.Random(31)
    ranked = RankedRecords()
    wanted: list[tuple[int, int]] = []
    got: list[tuple[int, int]] = []
    first = 0
    for _ in range(3000):
        if chance.random() < 0.6:
            count = chance.randint(1, 4)
            value = chance.choice([0, 1, 1 << 62, 1 << 63, VALUE_MAX])
            rank = rank_of(value)
            ranked.place(rank, first, count)
            wanted += [(rank, first + at) for at in range(count)]
            first += count
        elif ranked.count:
            lowest = min(wanted)
            assert ranked.first() == lowest[1]
            count = chance.randint(1, ranked.length())
            for at in range(count):
                got.append((lowest[0], lowest[1] + at))
                wanted.remove(got[-1])
            ranked.take(count)
        assert ranked.count == len(wanted)
    assert sorted(at for start, count in ranked.all_runs() for at in range(start, start + count)) == sorted(
        offset for _, offset in wanted
    )
    ranked.clear()
    assert (ranked.count, ranked.entries()) == (0, 0)
