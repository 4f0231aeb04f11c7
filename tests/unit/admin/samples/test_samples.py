"""Rates and samples, made of numbers that are known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.admin.samples.samples import Fields, Samples, SampleWindow, Series

FIELDS = Fields(("publish", "messages"), 1)
KEPT = 13
PUBLISH, MESSAGES = 0, 1


def sampled(numbers: list[tuple[int, int]], step_ms: int = 5000) -> tuple[Samples, Series]:
    """An object that was first seen at the first of these, one a round."""
    samples = Samples(0, KEPT)
    series = Series()
    for count, each in enumerate(numbers):
        samples.begin((count + 1) * step_ms)
        samples.note(series, FIELDS, each, KEPT)
    return samples, series


def test_a_rate_is_the_growth_between_the_last_two() -> None:
    samples, series = sampled([(10, 4), (60, 2)])
    assert samples.details(series, FIELDS, PUBLISH, None) == {"rate": 10.0}
    assert samples.details(series, FIELDS, MESSAGES, None) == {"rate": -0.4}


def test_a_counter_began_at_zero_and_a_length_did_not() -> None:
    samples, series = sampled([(10, 4)])
    assert samples.details(series, FIELDS, PUBLISH, None) == {"rate": 2.0}
    assert samples.details(series, FIELDS, MESSAGES, None) == {"rate": 0.0}


def test_who_is_idle_has_no_rate() -> None:
    samples, series = sampled([(10, 4), (10, 4)])
    assert samples.details(series, FIELDS, PUBLISH, None) == {"rate": 0.0}
    assert series.numbers[0] is series.numbers[1]


def test_what_nobody_has_sampled_yet() -> None:
    samples = Samples(0, KEPT)
    assert samples.stats(None, FIELDS, (7, 3), None, 0, 2) == {
        "publish": 7,
        "publish_details": {"rate": 0.0},
        "messages": 3,
        "messages_details": {"rate": 0.0},
    }
    assert samples.details(None, FIELDS, PUBLISH, SampleWindow(10, 5)) == {
        "rate": 0.0,
        "samples": [],
        "avg": 0.0,
        "avg_rate": 0.0,
    }


def test_samples_at_the_times_that_are_asked_for() -> None:
    samples, series = sampled([(10, 4), (20, 5), (50, 6)])
    found = samples.details(series, FIELDS, PUBLISH, SampleWindow(20, 5))
    assert found["samples"] == [
        {"sample": 50, "timestamp": 15_000},
        {"sample": 20, "timestamp": 10_000},
        {"sample": 10, "timestamp": 5_000},
        {"sample": 0, "timestamp": 0},
        {"sample": 0, "timestamp": -5_000},
    ]
    assert found["avg"] == 16.0
    assert found["avg_rate"] == 2.5
    lengths = samples.details(series, FIELDS, MESSAGES, SampleWindow(20, 10))
    assert lengths["samples"] == [{"sample": 6, "timestamp": 15_000}, {"sample": 4, "timestamp": 5_000}]


def test_between_two_samples_in_proportion() -> None:
    samples, series = sampled([(10, 4), (110, 4)], 10_000)
    found = samples.samples(series, PUBLISH, SampleWindow(20, 5), True)
    assert [each["sample"] for each in found] == [110, 60, 10, 5, 0]


def test_who_is_gone_is_forgotten() -> None:
    samples = Samples(0, KEPT)
    here, gone = Series(), Series()
    known = {"here": here, "gone": gone}
    samples.begin(1000)
    samples.note(here, FIELDS, (1, 1), KEPT)
    samples.note(gone, FIELDS, (1, 1), KEPT)
    samples.forget(known)
    assert set(known) == {"here", "gone"}
    samples.begin(2000)
    samples.note(here, FIELDS, (1, 1), KEPT)
    samples.forget(known)
    assert set(known) == {"here"}


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=3 * KEPT),
    st.integers(1, 120),
    st.integers(1, 60),
)
def test_samples_descend_in_time_and_are_what_was_noted(growths: list[tuple[int, int]], age: int, step: int) -> None:
    total = 0
    numbers = []
    for growth, length in growths:
        total += growth
        numbers.append((total, length))
    samples, series = sampled(numbers)
    assert len(series.numbers) <= KEPT
    found = samples.samples(series, PUBLISH, SampleWindow(age, step), True)
    times = [each["timestamp"] for each in found]
    values = [each["sample"] for each in found]
    assert times == sorted(times, reverse=True)
    if len(numbers) <= KEPT:  # else nobody knows what was before those that are kept
        assert len(found) == age // step + 1
    else:
        assert len(found) == min(age, (KEPT - 1) * 5) // step + 1
    assert values == sorted(values, reverse=True)
    assert values[0] == total
    if step == 5:
        assert set(values) <= {0, *(publish for publish, _ in numbers)}
    for each in found:
        since = each["timestamp"] // 5000 - 1  # the round at or before that time
        if since >= max(0, len(numbers) - KEPT):
            after = numbers[min(since + 1, len(numbers) - 1)][PUBLISH]
            assert numbers[since][PUBLISH] <= each["sample"] <= after
