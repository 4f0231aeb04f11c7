"""Histograms: buckets, quantiles, the last minute."""

from __future__ import annotations

import pytest

from forebay.server.telemetry.histograms import BUCKETS, MINUTE_S, Histogram, Histograms, bound


@pytest.mark.parametrize(("value", "bucket"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11)])
def test_a_bucket_ends_below_a_power_of_two(value: int, bucket: int) -> None:
    histogram = Histogram("us")
    histogram.record(value)
    assert histogram.counts.index(1) == bucket
    assert value <= bound(bucket)


def test_what_is_too_large_is_in_the_last_bucket() -> None:
    histogram = Histogram("us")
    histogram.record(1 << 60)
    assert histogram.counts[BUCKETS - 1] == 1
    assert histogram.total == 1 << 60


def test_quantiles_are_within_their_bucket() -> None:
    histogram = Histogram("us")
    for _ in range(99):
        histogram.record(10)
    histogram.record(5000)
    facts = histogram.fields()["total"]
    assert isinstance(facts, dict)
    assert facts["count"] == 100
    assert facts["mean"] == pytest.approx(59.9)
    assert 8 <= facts["p50"] <= 15
    assert 8 <= facts["p99"] <= 15


def test_nothing_recorded_has_no_quantiles() -> None:
    facts = Histogram("us").fields()["minute"]
    assert facts == {"count": 0, "mean": 0.0, "p50": 0.0, "p90": 0.0, "p99": 0.0}


def test_the_last_minute_forgets_what_was_before() -> None:
    histograms = Histograms()
    histograms.turn.record(7)
    for second in range(1, 2 * MINUTE_S + 1):
        histograms.every_second(second)
        if second == 100:
            histograms.turn.record(900)
    counts, total = histograms.turn.last_minute()
    assert sum(counts) == 1
    assert total == 900
    assert sum(histograms.turn.counts) == 2


def test_a_confirm_is_timed_from_the_turn_of_its_publish() -> None:
    histograms = Histograms()
    histograms.begin_turn()
    histograms.await_disk(5)
    histograms.await_disk(5)
    histograms.on_durable(4)
    assert sum(histograms.confirm.counts) == 0
    histograms.on_durable(5)
    assert sum(histograms.confirm.counts) == 1
