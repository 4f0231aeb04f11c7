"""Samples of numbers, taken in rounds, and RabbitMQ's rates made of them.

An object's sample is one array of numbers. All objects are sampled in one round, so that a round has one time; who is
idle has one array for all its rounds. Counters begin at zero when the broker does: what has no sample yet had zero.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

Key = TypeVar("Key")
Facts = dict[str, object]
Numbers = Sequence[int]


@dataclass(frozen=True, slots=True)
class Fields:
    """The meanings of a sample's numbers, in RabbitMQ's names; the last `gauges` of them may fall, too."""

    names: tuple[str, ...]
    gauges: int = 0
    details: tuple[str, ...] = field(init=False)  # the names under which their rates are shown

    def __post_init__(self) -> None:
        object.__setattr__(self, "details", tuple(f"{name}_details" for name in self.names))

    @property
    def counters(self) -> int:
        """The number of those that only ever grow."""
        return len(self.names) - self.gauges


IDLE: Final[Facts] = {"rate": 0.0}


@dataclass(frozen=True, slots=True)
class SampleWindow:
    """The samples that a caller wants beside the rates: one every `step` seconds, `age` seconds back."""

    age: int
    step: int


@dataclass(frozen=True, slots=True)
class Windows:
    """Those of a request; None: rates only."""

    lengths: SampleWindow | None = None
    messages: SampleWindow | None = None
    octets: SampleWindow | None = None
    node: SampleWindow | None = None


class Series:
    """The samples of one object.

    numbers  of the last rounds, the newest last
    round    that of the newest
    rates    each number's, as they are shown; made once a round
    """

    __slots__ = ("numbers", "rates", "round")

    def __init__(self) -> None:
        self.numbers: list[array[int]] = []
        self.round = 0
        self.rates: list[Facts] = []


class Samples:
    """The rounds of all objects.

    times  of the last rounds in milliseconds, the newest last; `round` is the newest one's number
    kept   how many rounds of an object are kept at most
    """

    def __init__(self, now_ms: int, kept: int) -> None:
        self.round = 0
        self.kept = kept
        self.times: list[int] = [now_ms]

    def begin(self, now_ms: int) -> None:
        """A round begins."""
        self.round += 1
        self.times.append(now_ms)
        del self.times[: -self.kept - 1]

    def note(self, series: Series, fields: Fields, numbers: Numbers, most: int) -> None:
        """Add this round's sample of one object, and find its rates."""
        known = series.numbers
        sample = array("q", numbers)
        if known and known[-1] == sample:
            sample = known[-1]
            series.rates = [IDLE] * len(sample)
        else:
            elapsed_s = max(1, self.times[-1] - self.times[-2]) / 1000
            series.rates = rates_of(known[-1] if known else zero(sample, fields), sample, elapsed_s)
        known.append(sample)
        if len(known) > most:
            del known[0]
        series.round = self.round

    def forget(self, known: dict[Key, Series]) -> None:
        """Drop what was not there in this round."""
        for key in [key for key, series in known.items() if series.round != self.round]:
            del known[key]

    def details(self, series: Series | None, fields: Fields, index: int, asked: SampleWindow | None) -> Facts:
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
        """One number at the times that are asked for, the newest first: between two rounds, in proportion.

        What is older than the object was 0 for a counter, and is left out for anything else.
        """
        newest_ms = self.time_of(series, 0)
        rounds = len(series.numbers)
        found: list[dict[str, int]] = []
        back = 0  # rounds before the newest
        for age_ms in range(0, asked.age * 1000 + 1, asked.step * 1000):
            wanted_ms = newest_ms - age_ms
            while back < rounds and self.time_of(series, back) > wanted_ms:
                back += 1
            if back < rounds:
                older = series.numbers[-1 - back][index]
                value = self.between(series, index, back, older, wanted_ms) if back else older
            elif is_counter:
                value = self.between(series, index, back, 0, wanted_ms)
            else:
                continue
            found.append({"sample": value, "timestamp": wanted_ms})
        return found

    def between(self, series: Series, index: int, back: int, older: int, wanted_ms: int) -> int:
        """One number at a time between a round, where it was `older`, and the one after it."""
        older_ms = self.time_of(series, back)
        if wanted_ms <= older_ms:
            return older
        newer = series.numbers[-back][index]
        span_ms = self.time_of(series, back - 1) - older_ms
        return older + (newer - older) * (wanted_ms - older_ms) // span_ms

    def time_of(self, series: Series, back: int) -> int:
        """The time of an object's sample, so many rounds before its newest."""
        at = len(self.times) - 1 - (self.round - series.round) - back
        return self.times[max(0, at)]

    def stats(
        self, series: Series | None, fields: Fields, numbers: Numbers, asked: SampleWindow | None, first: int, end: int
    ) -> Facts:
        """Numbers `first` to `end` of an object as they are now, each with its details."""
        names, details = fields.names, fields.details
        found: Facts = {}
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


def zero(sample: array[int], fields: Fields) -> array[int]:
    """An object's numbers before there was anything: what is no counter has not changed since."""
    before = array("q", sample)
    for index in range(fields.counters):
        before[index] = 0
    return before


def rates_of(before: Numbers, after: Numbers, elapsed_s: float) -> list[Facts]:
    """The rate of each number, as it is shown."""
    return [
        IDLE if new == old else {"rate": round((new - old) / elapsed_s, 2)}
        for old, new in zip(before, after, strict=True)
    ]
