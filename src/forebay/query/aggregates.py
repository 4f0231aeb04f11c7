"""Aggregate functions: each takes the value of one expression of every message of a group, and gives one value.

What is NULL is not taken. SUM, AVG and STDDEV take numbers, and texts that are numbers; of a list the first element.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from forebay.filter.values import GREATER, LESS, OPAQUE, compare_single, first, number, whole

AGGREGATES: Final = (
    "COUNT",
    "COUNT_DISTINCT",
    "SUM",
    "AVG",
    "MIN",
    "MAX",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
)
VALUE_OCTETS: Final = 64  # of memory that one distinct value takes beside its text


class Aggregate(ABC):
    """The value of one aggregate function over the messages that it was given so far."""

    @abstractmethod
    def take(self, value: object) -> int:
        """Add the value of one message. Return the bytes of memory that it takes from now on."""

    @abstractmethod
    def result(self) -> object:
        """Return the function's value."""


@final
class CountAggregate(Aggregate):
    """COUNT: how many values are not NULL."""

    def __init__(self) -> None:
        self.count = 0

    def take(self, value: object) -> int:
        if value is not None:
            self.count += 1
        return 0

    def result(self) -> object:
        return self.count


@final
class DistinctAggregate(Aggregate):
    """COUNT_DISTINCT: how many different values there are."""

    def __init__(self) -> None:
        self.seen: set[object] = set()

    def take(self, value: object) -> int:
        key = group_key(value)
        if key is None or key in self.seen:
            return 0
        self.seen.add(key)
        return VALUE_OCTETS + text_octets(value)

    def result(self) -> object:
        return len(self.seen)


@final
class SumAggregate(Aggregate):
    """SUM: an exact integer as long as all values are integers; NULL of no values."""

    def __init__(self) -> None:
        self.whole = 0
        self.broken = 0.0
        self.has_broken = False
        self.count = 0

    def take(self, value: object) -> int:
        read = number(first(value))
        if isinstance(read, int):
            self.whole += read
            self.count += 1
        elif isinstance(read, float):
            self.broken += read
            self.has_broken = True
            self.count += 1
        return 0

    def result(self) -> object:
        if self.count == 0:
            return None
        return float(self.whole) + self.broken if self.has_broken else whole(self.whole)


@final
class AverageAggregate(Aggregate):
    """AVG: NULL of no values."""

    def __init__(self) -> None:
        self.sum = SumAggregate()

    def take(self, value: object) -> int:
        return self.sum.take(value)

    def result(self) -> object:
        sum = self.sum
        return (float(sum.whole) + sum.broken) / sum.count if sum.count else None


@final
class ExtremeAggregate(Aggregate):
    """MIN or MAX, in the order of the filter language: numbers before texts."""

    def __init__(self, comparison: int) -> None:
        self.comparison = comparison
        self.value: object = None

    def take(self, value: object) -> int:
        single = first(value)
        if single is None or single is OPAQUE:
            return 0
        if self.value is None or compare_single(self.comparison, single, self.value) is True:
            self.value = single
        return 0

    def result(self) -> object:
        return self.value


@final
class DeviationAggregate(Aggregate):
    """STDDEV_POP or STDDEV_SAMP, by Welford's method; NULL of no values, or of one for STDDEV_SAMP."""

    def __init__(self, is_sample: bool) -> None:
        self.is_sample = is_sample
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0

    def take(self, value: object) -> int:
        read = number(first(value))
        if isinstance(read, int | float):
            self.count += 1
            single = float(read)
            apart = single - self.mean
            self.mean += apart / self.count
            self.squares += apart * (single - self.mean)
        return 0

    def result(self) -> object:
        divisor = self.count - 1 if self.is_sample else self.count
        return float((self.squares / divisor) ** 0.5) if divisor > 0 else None


def aggregate_named(name: str) -> Aggregate:
    """Return an aggregate function that has taken nothing yet; `name` is one of AGGREGATES."""
    if name == "COUNT":
        return CountAggregate()
    if name == "COUNT_DISTINCT":
        return DistinctAggregate()
    if name == "SUM":
        return SumAggregate()
    if name == "AVG":
        return AverageAggregate()
    if name == "MIN":
        return ExtremeAggregate(int(LESS))
    if name == "MAX":
        return ExtremeAggregate(int(GREATER))
    return DeviationAggregate(name != "STDDEV_POP")


def group_key(value: object) -> object:
    """Return what tells this value of the filter language from others; None for NULL and for what is no value."""
    if value is None or value is OPAQUE:
        return None
    if isinstance(value, bool):
        return ("bool", value)  # True is 1 to Python
    if isinstance(value, list):
        return tuple([group_key(each) for each in value])
    if isinstance(value, float) and value != value:  # noqa: PLR0124  NaN differs from itself
        return ("nan",)
    return value


def text_octets(value: object) -> int:
    """Return the length of the texts in a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum([text_octets(each) for each in value])
    return 0
