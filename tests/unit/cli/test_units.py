"""Figures as people read them."""

from __future__ import annotations

import pytest

from forebay.cli.bench.clients import Latencies
from forebay.cli.units import messages, objects, octets_said, period_said, rate_said, rates, seconds_between
from forebay.queue.counts import Counts


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 << 10, "1.5 MiB"),
        (3 << 30, "3.0 GiB"),
        (1 << 41, "2.0 TiB"),
    ],
)
def test_octets(octets: int, said: str) -> None:
    assert octets_said(octets) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.9, "0 s"), (59, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (3_600, "1 h"), (3_659, "1 h"), (90_061, "1 d 1 h")],
)
def test_periods(seconds: float, said: str) -> None:
    assert period_said(seconds) == said


def test_objects() -> None:
    assert [objects(1, "users"), objects(1, "policies"), objects(5_000, "queues")] == [
        "1 user",
        "1 policy",
        "5,000 queues",
    ]


def test_rates_are_of_the_time_between_two_looks() -> None:
    before = {"time_us": 1_000_000, "counts": Counts().fields()}
    counts = Counts()
    counts.published, counts.delivered, counts.got_settled, counts.acked = 50, 20, 5, 3
    after = {"time_us": 3_000_000, "counts": counts.fields()}
    assert rates(before, after, seconds_between(before, after)) == {"in": 25.0, "out": 12.5, "acked": 1.5}
    assert set(rates(after, before, 1).values()) == {0.0}  # a queue of this name was made anew
    assert set(rates(before, after, 0).values()) == {0.0}
    assert [rate_said(rate) for rate in (0, 0.5, 12.4, 1234.5)] == ["0/s", "0.5/s", "12/s", "1,234/s"]
    assert (messages(1, "is", "are"), messages(1200, "is", "are")) == ("1 message is", "1,200 messages are")


def test_latencies_are_told_within_two_percent() -> None:
    latencies, others = Latencies(), Latencies()
    assert latencies.quantile_ms(0.5) is None
    for ms in range(1, 101):
        (latencies if ms % 2 else others).add((0).to_bytes(8, "little"), ms * 1_000_000)
    latencies.merge(others)
    for part in (0.5, 0.99, 1.0):
        told = latencies.quantile_ms(part)
        assert told is not None
        assert 100 * part <= told <= 102.1 * part
    assert latencies.most_us == 100_000
