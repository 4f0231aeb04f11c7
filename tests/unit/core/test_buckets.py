"""Token buckets: what they let through in any time is never more than burst and rate allow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.buckets import Bucket
from forebay.core.units import US_PER_S


def test_it_gives_as_much_as_it_holds_and_then_what_flows_in() -> None:
    bucket = Bucket(2, 3, 0)
    assert [bucket.take(0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(US_PER_S // 2 - 1)
    assert bucket.take(US_PER_S // 2)
    assert [bucket.take(10 * US_PER_S) for _ in range(4)] == [True, True, True, False]


def test_a_debt_is_paid_in_time() -> None:
    bucket = Bucket(10, 5, 0)
    assert bucket.charge(5, 0) == 0
    assert bucket.charge(10, 0) == 1
    assert bucket.charge(0, US_PER_S) == 0
    assert bucket.charge(10, US_PER_S) == 1


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = Bucket(1, 1, 10 * US_PER_S)
    assert bucket.take(10 * US_PER_S)
    assert not bucket.take(0)
    assert not bucket.take(10 * US_PER_S)


@given(
    st.integers(1, 1000),
    st.integers(1, 1000),
    st.lists(st.integers(0, 3 * US_PER_S), max_size=200),
)
def test_no_more_comes_out_than_was_in_it_and_flowed_in(rate: int, burst: int, steps: list[int]) -> None:
    bucket = Bucket(rate, burst, 0)
    now_us = taken = 0
    for step_us in steps:
        now_us += step_us
        taken += bucket.take(now_us)
        assert taken <= burst + rate * now_us / US_PER_S + 1e-6
