"""Samples of numbers, taken in rounds, and RabbitMQ's rates made of them.

An object's sample is one array of numbers. All objects are sampled in one round, so that a round has one time; who is
idle has one array for all its rounds. Counters begin at zero when the broker does: what has no sample yet had zero.
Of some objects a sample every five minutes is kept for a day beside the rounds, packed, each with its time.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

Key = TypeVar("Key")
Numbers = Sequence[int]


@dataclass(frozen=True, slots=True)
class Fields:
    """The meanings of a sample's numbers, in RabbitMQ's names: counters, `gauges` that may fall, `more` counters."""

    names: tuple[str, ...]
    gauges: int = 0
    more: int = 0
    details: tuple[str, ...] = field(init=False)  # the names under which their rates are shown

    def __post_init__(self) -> None:
        object.__setattr__(self, "details", tuple(f"{name}_details" for name in self.names))

    @property
    def counters(self) -> int:
        """The number of those before the gauges."""
        return len(self.names) - self.gauges - self.more

    def grows(self, index: int) -> bool:
        """True for a counter."""
        return index < self.counters or index >= len(self.names) - self.more


SLOW_MS: Final = 300_000  # between two samples that are kept for a day
SLOW_SAMPLES: Final = 288  # a day
UNKNOWN: Final = -1  # a gauge of which there was nothing to measure
IDLE: Final[dict[str, object]] = {"rate": 0.0}


@dataclass(frozen=True, slots=True)
class SampleWindow:
    """The samples that a caller wants beside the rates: one every `step` seconds, `age` seconds back."""

    age: int
    step: int


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows of a request; None: rates only."""

    lengths: SampleWindow | None = None
    messages: SampleWindow | None = None
    octets: SampleWindow | None = None
    node: SampleWindow | None = None


class Series:
    """The samples of one object.

    numbers   of the last rounds, the newest last
    round     that of the newest
    rates     each number's, as they are shown; made once a round
    is_kept   for a day and over a restart, not just for a minute
    slow      samples of a day, the oldest first: of each its time in milliseconds, then its numbers
    first_ms  time of the first of all samples, before which, at `began_ms`, counters were 0; -1: of a broker before
    """

    __slots__ = ("began_ms", "first_ms", "is_kept", "numbers", "rates", "round", "slow")

    def __init__(self) -> None:
        self.numbers: list[array[int]] = []
        self.round = 0
        self.rates: list[dict[str, object]] = []
        self.is_kept = False
        self.slow: array[int] = array("q")
        self.first_ms = self.began_ms = -1

    def slow_times(self) -> list[int]:
        """The times of the samples of a day."""
        return self.slow[:: len(self.numbers[-1]) + 1].tolist() if self.slow else []


class Samples:
    """The rounds of all objects.

    times    of the last rounds in milliseconds, the newest last; `round` is the newest one's number
    kept     how many rounds of an object are kept at most
    is_slow  this round is one of those that are kept for a day
    slot     the five minutes since 1970 in which the newest round is; -1: none yet
    """

    def __init__(self, now_ms: int, kept: int) -> None:
        self.round = 0
        self.kept = kept
        self.times: list[int] = [now_ms]
        self.is_slow = False
        self.slot = -1

    def begin(self, now_ms: int) -> None:
        """A round begins."""
        self.round += 1
        self.times.append(now_ms)
        del self.times[: -self.kept - 1]
        slot = now_ms // SLOW_MS
        self.is_slow = slot != self.slot
        self.slot = slot

    def note(self, series: Series, fields: Fields, numbers: Numbers, most: int) -> None:
        """Add this round's sample of one object, and find its rates."""
        self.catch_up(series, most, self.round - 1)
        known = series.numbers
        sample = array("q", numbers)
        if known and known[-1] == sample:
            sample = known[-1]
            series.rates = [IDLE] * len(sample)
        else:
            if not known:
                series.first_ms, series.began_ms = self.times[-1], self.times[-2]
            elapsed_s = max(1, self.times[-1] - self.times[-2]) / 1000
            series.rates = rates_of(known[-1] if known else zero(sample, fields), sample, elapsed_s)
        known.append(sample)
        if len(known) > most:
            del known[0]
        series.round = self.round

    def catch_up(self, series: Series, most: int, round: int) -> None:
        """Give an object that was idle since its newest sample the same one for every round up to this."""
        known = series.numbers
        missing = round - series.round
        if missing <= 0 or not known:
            return
        known.extend([known[-1]] * min(missing, most))
        del known[:-most]
        series.rates = [IDLE] * len(known[-1])
        series.round = round

    def note_slow(self, series: Series, numbers: Numbers) -> None:
        """Add this round's sample to those of a day."""
        slow = series.slow
        slow.append(self.times[-1])
        slow.extend(numbers)
        if len(slow) > SLOW_SAMPLES * (len(numbers) + 1):
            del slow[: len(numbers) + 1]

    def forget(self, known: dict[Key, Series]) -> None:
        """Drop what was not there in this round."""
        for key in [key for key, series in known.items() if series.round != self.round]:
            del known[key]

    def details(
        self, series: Series | None, fields: Fields, index: int, asked: SampleWindow | None
    ) -> dict[str, object]:
        """The `..._details` of one number of an object."""
        if series is None or not series.numbers:
            return IDLE if asked is None else {"rate": 0.0, "samples": [], "avg": 0.0, "avg_rate": 0.0}
        rate = series.rates[index]
        if asked is None:
            return rate
        samples = self.samples(series, index, asked, index < fields.counters)
        values = [each["sample"] for each in samples]
        span_s = max(1, samples[0]["timestamp"] - samples[-1]["timestamp"]) / 1000 if samples else 1.0
        average = sum(values) / len(values) if values else 0.0
        growth = (values[0] - values[-1]) / span_s if values else 0.0
        return {**rate, "samples": samples, "avg": average, "avg_rate": growth}

    def samples(self, series: Series, index: int, asked: SampleWindow, is_counter: bool) -> list[dict[str, int]]:
        """One number at the times that are asked for, the newest first: between two samples, in proportion.

        Before the object was there a counter was 0, and anything else is left out; so is what is not kept any more.
        """
        newest_ms = self.time_of(series, 0)
        points = self.points(series, index, newest_ms - asked.age * 1000)
        if is_counter and points[-1][0] == series.first_ms:
            points.append((series.began_ms, 0))
        found: list[dict[str, int]] = []
        at = 0
        for age_ms in range(0, asked.age * 1000 + 1, asked.step * 1000):
            wanted_ms = newest_ms - age_ms
            while at < len(points) and points[at][0] > wanted_ms:
                at += 1
            if at < len(points):
                value = between(points[at], points[at - 1], wanted_ms) if at else points[0][1]
            elif is_counter and points[-1][0] == series.began_ms:
                value = 0
            else:
                break
            found.append({"sample": value, "timestamp": wanted_ms})
        return found

    def points(self, series: Series, index: int, since_ms: int) -> list[tuple[int, int]]:
        """One number's times and values, the newest first, back to a time and one further."""
        found: list[tuple[int, int]] = []
        for back, numbers in enumerate(reversed(series.numbers)):
            found.append((self.time_of(series, back), numbers[index]))
            if found[-1][0] <= since_ms:
                return found
        width = len(series.numbers[-1]) + 1
        oldest_ms = found[-1][0]
        for at in range(len(series.slow) - width, -1, -width):
            ms = series.slow[at]
            if ms < oldest_ms:
                found.append((ms, series.slow[at + 1 + index]))
                if ms <= since_ms:
                    break
        return found

    def time_of(self, series: Series, back: int) -> int:
        """The time of an object's sample, so many rounds before its newest."""
        at = len(self.times) - 1 - (self.round - series.round) - back
        return self.times[max(0, at)]

    def stats(
        self, series: Series | None, fields: Fields, numbers: Numbers, asked: SampleWindow | None, first: int, end: int
    ) -> dict[str, object]:
        """Numbers `first` to `end` of an object as they are now, each with its details."""
        names, details = fields.names, fields.details
        found: dict[str, object] = {}
        if asked is None and series is not None and series.rates:  # as it mostly is, for thousands of queues
            rates = series.rates
            for index in range(first, end):
                found[names[index]] = numbers[index]
                found[details[index]] = rates[index]
            return found
        for index in range(first, end):
            found[names[index]] = numbers[index]
            found[details[index]] = self.details(series, fields, index, asked)
        return found


def between(older: tuple[int, int], newer: tuple[int, int], wanted_ms: int) -> int:
    """The value at a time between those of two samples."""
    span_ms = newer[0] - older[0]
    return older[1] + (newer[1] - older[1]) * (wanted_ms - older[0]) // span_ms


def zero(sample: array[int], fields: Fields) -> array[int]:
    """An object's numbers before there was anything: what is no counter has not changed since."""
    before = array("q", sample)
    for index in range(len(sample)):
        if fields.grows(index):
            before[index] = 0
    return before


def rates_of(before: Numbers, after: Numbers, elapsed_s: float) -> list[dict[str, object]]:
    """The rate of each number, as it is shown."""
    return [
        IDLE if new == old else {"rate": round((new - old) / elapsed_s, 2)}
        for old, new in zip(before, after, strict=True)
    ]
