"""Samples of charts over a restart, and as lines; of a real broker in this process, and of numbers that are known."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from forebay.admin.samples.history import FILE, MAGIC, ChartHistory, unpack
from forebay.admin.samples.lines import lines
from forebay.admin.samples.rates import BROKER_KEPT, KEPT_MAX, NODE_KEPT, QUEUE_KEPT, DayPlaces, RateSamples
from forebay.admin.samples.samples import SLOW_MS, SLOW_SAMPLES, UNKNOWN, Fields, Samples, SampleWindow, Series
from forebay.server.system.small_file import read_small_file, write_small_file
from tests.held_app import held_app

FIELDS = Fields(("publish", "messages", "rejected"), 1, 1)
STEP_MS = 5000
QUEUE_ID = 7
QUEUE_WIDTH = len(QUEUE_KEPT.names)
HEAD: dict[str, object] = {
    "order": sys.byteorder,
    "times": [1],
    "fields": {"queue": list(QUEUE_KEPT.names)},
    "series": [["queue", 1, 2, 0]],
}


def taken(rounds: int, kept: int = 121, start_ms: int = 0) -> tuple[Samples, Series]:
    """An object that got ten messages a round, one of which it lost."""
    samples, series = Samples(start_ms, kept), Series()
    for count in range(1, rounds + 1):
        samples.begin(start_ms + count * STEP_MS)
        numbers = (count * 10, count % 7, count)
        samples.note(series, FIELDS, numbers, kept)
        if samples.is_slow:
            samples.note_slow(series, numbers)
    return samples, series


def shown(samples: Samples, series: Series, name: str, age_s: int, after_ms: int = 0) -> list[tuple[int, int | None]]:
    """The samples of one number, the oldest first."""
    details = lines(samples, [(series, FIELDS)], age_s, after_ms)[f"{name}_details"]
    assert isinstance(details, dict)
    return [(each["timestamp"], each["sample"]) for each in reversed(details["samples"])]


def test_ten_minutes_are_kept_in_steps_of_five_seconds_and_a_day_in_steps_of_five_minutes() -> None:
    rounds = 2 * 24 * 720
    samples, series = taken(rounds)
    end_ms = rounds * STEP_MS
    assert len(series.numbers) == 121
    assert len(series.slow) == SLOW_SAMPLES * 4
    fast = shown(samples, series, "publish", 600)
    assert [ms for ms, _ in fast] == list(range(end_ms - 600_000, end_ms + 1, STEP_MS))
    assert fast[-1] == (end_ms, rounds * 10)
    day = shown(samples, series, "publish", 86_400)
    assert [ms for ms, _ in day] == list(range(end_ms - 287 * SLOW_MS, end_ms + 1, SLOW_MS))
    assert all(value == ms // STEP_MS * 10 for ms, value in day)
    assert shown(samples, series, "publish", 3600)[0][0] == end_ms - 3_600_000
    assert [ms for ms, _ in shown(samples, series, "publish", 600, end_ms - 2 * STEP_MS)] == [end_ms - STEP_MS, end_ms]


def test_the_windows_of_rabbitmq_reach_back_a_day() -> None:
    samples, series = taken(3000)
    found = samples.details(series, FIELDS, 0, SampleWindow(7200, 300))["samples"]
    assert found == [
        {"sample": 30_000 - back * 600, "timestamp": 15_000_000 - back * SLOW_MS} for back in range(7200 // 300 + 1)
    ]


def test_what_is_not_kept_any_more_is_left_out() -> None:
    samples, series = taken(30, kept=13)
    series.slow = series.slow[:0]
    found = samples.samples(series, 0, SampleWindow(600, 5), True)
    assert [each["sample"] for each in found] == list(range(300, 170, -10))


def test_a_gap_and_what_nobody_could_measure_are_none() -> None:
    samples, series = taken(3)
    samples.begin(60_000)
    samples.note(series, FIELDS, (40, UNKNOWN, UNKNOWN), 121)
    assert shown(samples, series, "messages", 600)[-3:] == [(15_000, 3), (20_000, None), (60_000, None)]
    assert shown(samples, series, "rejected", 600)[-1] == (60_000, -1)  # a counter of a broker before may be that


def test_only_so_many_objects_are_kept_for_a_day() -> None:
    places = DayPlaces()
    known = {number: Series() for number in range(KEPT_MAX + 2)}
    assert sum(places.give(series) for series in known.values()) == KEPT_MAX
    assert not places.give(known[KEPT_MAX])
    del known[0]
    places.count(known)
    assert places.give(known[KEPT_MAX]) and not places.give(known[KEPT_MAX + 1])


def sampled(rates: RateSamples, rounds: int) -> None:
    """So many rounds of the broker's numbers, and of a queue's that is the only one."""
    now_ms = rates.now_ms() - (rounds + 1) * STEP_MS
    rates.times = [now_ms]
    series = rates.queues[QUEUE_ID] = Series()
    for count in range(1, rounds + 1):
        rates.begin(now_ms + count * STEP_MS)
        rates.note_kept(series, rates.queue_places, QUEUE_KEPT, [count * index for index in range(QUEUE_WIDTH)])
        numbers = [count] * len(BROKER_KEPT.names)
        rates.note(rates.broker, BROKER_KEPT, numbers, 121)
        rates.note_slow(rates.broker, numbers)
        rates.note(rates.node, NODE_KEPT, [UNKNOWN] * len(NODE_KEPT.names), 121)


def test_samples_outlive_the_broker(tmp_path: Path) -> None:
    async def come() -> None:
        async with held_app(tmp_path) as app:
            before = RateSamples(app)
            kept = ChartHistory(before)
            assert not await kept.load()
            sampled(before, 150)
            before.queues[QUEUE_ID + 1] = Series()  # which has no samples yet
            await kept.save()
            after = RateSamples(app)
            assert await ChartHistory(after).load()
            assert after.times == before.times
            for old, new, fields in (
                (before.queues[QUEUE_ID], after.queues[QUEUE_ID], QUEUE_KEPT),
                (before.broker, after.broker, BROKER_KEPT),
                (before.node, after.node, NODE_KEPT),
            ):
                last = [value if fields.grows(at) else 0 for at, value in enumerate(old.numbers[-1])]
                expected = [[value - less for value, less in zip(each, last, strict=True)] for each in old.numbers]
                assert [list(each) for each in new.numbers] == expected
                assert new.slow_times() == old.slow_times()
            assert list(after.queues) == [QUEUE_ID]
            await after.take()  # in which there is no such queue
            assert list(after.queues) == []
            told = lines(after, [(after.broker, BROKER_KEPT)], 600, 0)["publish_details"]
            assert isinstance(told, dict)
            values = [each["sample"] for each in told["samples"]]
            assert len(values) > 100
            assert values == [0, *(-back for back in range(len(values) - 1))]

    uvloop.run(come())


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "it begins with": lambda octets: b"?" + octets[1:],
    "its checksum does not match": lambda octets: octets[:-1],
    "incorrect header check": lambda octets: whole(b"no zlib"),
    "is_json": lambda octets: whole(zlib.compress(b"{")),
    "'times'": lambda octets: whole(zlib.compress(b"{}\n")),
    "has 2 rounds": lambda octets: whole(zlib.compress(orjson.dumps(HEAD) + b"\n" + bytes(8))),
    "of another machine": lambda octets: whole(zlib.compress(orjson.dumps({**HEAD, "times": [2, 1]}) + b"\n")),
    "of a time to come": lambda octets: whole(
        zlib.compress(orjson.dumps({**HEAD, "times": [1 << 50], "series": []}) + b"\n")
    ),
}


def whole(body: bytes) -> bytes:
    return MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


@pytest.mark.parametrize("reason", DAMAGES)
def test_a_damaged_file_is_passed_over_with_a_line_in_the_log(
    reason: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def come() -> None:
        async with held_app(tmp_path) as app:
            rates = RateSamples(app)
            sampled(rates, 3)
            await ChartHistory(rates).save()
            write_small_file(app.disk, FILE, DAMAGES[reason](read_small_file(app.disk, FILE)))
            fresh = RateSamples(app)
            assert not await ChartHistory(fresh).load()
            assert not fresh.queues and not fresh.broker.numbers
            await fresh.take()

    uvloop.run(come())
    (line,) = [each.getMessage() for each in caplog.records if "history of charts" in each.getMessage()]
    assert line.startswith(f"history of charts is lost: {FILE}: ")
    assert reason in line or reason == "is_json"


def test_numbers_of_another_build_are_passed_over() -> None:
    head = {**HEAD, "times": [1, 2], "fields": {"queue": ["publish"]}, "series": [["queue", 1, 2, 0]]}
    times, found = unpack(whole(zlib.compress(orjson.dumps(head) + b"\n" + bytes(16))))
    assert (times, found) == ([1, 2], {})


@given(st.binary(max_size=200).filter(lambda octets: not octets.startswith(MAGIC)))
def test_no_file_is_taken_for_one_that_it_is_not(octets: bytes) -> None:
    with pytest.raises(ValueError, match="it begins with"):
        unpack(octets)
