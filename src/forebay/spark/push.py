"""Spark's own conditions, as far as they say which records need not be read at all.

Only what is certain is left out, and Spark checks every row again: so a condition that is not understood costs time and
never a row. Offsets and times cut the ranges, names of queues drop some; exchange and routing key go to the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from forebay.spark.options import ReadOptions
from forebay.spark.plan import Range

if TYPE_CHECKING:
    from forebay.spark.logs import Logs

QUEUE_COLUMNS: Final = ("topic", "queue")
BROKER_COLUMNS: Final = ("routing_key", "exchange")  # facts of the filter language by the same names
ITEMS_MAX: Final = 100  # of IN: more make the broker slower than Spark
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Interval:
    """Whole numbers from `first` to below `end`, where there is a limit."""

    first: int | None = None
    end: int | None = None

    def cut(self, first: int | None, end: int | None) -> None:
        """Leave out what is outside of another one too."""
        if first is not None:
            self.first = first if self.first is None else max(self.first, first)
        if end is not None:
            self.end = end if self.end is None else min(self.end, end)


@dataclass(slots=True)
class Needed:
    """What the conditions of a query leave to be read.

    queues      None means all
    conditions  in the filter language
    """

    offsets: Interval = field(default_factory=Interval)
    times_us: Interval = field(default_factory=Interval)
    queues: set[str] | None = None
    conditions: list[str] = field(default_factory=list)

    def take(self, condition: Filter) -> None:
        """Learn from one of the conditions, all of which hold for every row that is wanted."""
        column = getattr(condition, "attribute", ("",))
        name = column[0] if len(column) == 1 else ""
        if name == "offset":
            cut(self.offsets, condition, as_offset)
        elif name == "timestamp":
            cut(self.times_us, condition, as_microseconds)
        elif name in QUEUE_COLUMNS:
            texts = texts_of(condition)
            if texts is not None:
                self.queues = set(texts) if self.queues is None else self.queues & set(texts)
        elif name in BROKER_COLUMNS:
            texts = texts_of(condition)
            # Empty text is NULL to the filter language; U+FFFD stands for octets that are no text.
            if texts and len(texts) <= ITEMS_MAX and all(text and "\ufffd" not in text for text in texts):
                self.conditions.append(f"{name} IN ({', '.join([quoted(text) for text in texts])})")

    def options(self, options: ReadOptions) -> ReadOptions:
        """The options with what the broker is to sift out; files are sifted faster by Spark."""
        if options.access.data or not self.conditions:
            return options
        given = [f"({options.filter})"] if options.filter else []
        return replace(options, filter=" AND ".join(given + self.conditions))

    def range(self, whole: Range, logs: Logs) -> Range:
        """The part of a range that is needed; it may be empty."""
        if self.queues is not None and whole.queue not in self.queues:
            return replace(whole, end=whole.first)
        left = Interval(whole.first, whole.end)
        left.cut(self.offsets.first, self.offsets.end)
        # Times of a log never decrease.
        first_us, end_us = self.times_us.first, self.times_us.end
        left.cut(
            None if first_us is None else logs.offset_at(whole.queue, first_us),
            None if end_us is None else logs.offset_at(whole.queue, end_us),
        )
        assert left.first is not None
        assert left.end is not None
        return replace(whole, first=min(left.first, left.end), end=left.end)


class Push:
    """What a reader has as `pushFilters`.

    With `spark.sql.python.filterPushdown.enabled` off, which is Spark's default, PySpark refuses every reader whose
    method is another one than the base class's. It compares `__func__`, so here that says what it wants to see.
    """

    def __init__(self, needed: Needed) -> None:
        self.needed = needed
        self.__func__ = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what helps; all are given back, so Spark checks them too."""
        for condition in filters:
            self.needed.take(condition)
        return filters


def cut(interval: Interval, condition: Filter, number: Callable[[object], int | None]) -> None:
    """Cut an interval by a comparison with a value that `number` understands."""
    if isinstance(condition, In):
        numbers = [number(value) for value in condition.value if value is not None]
        found = [each for each in numbers if each is not None]
        if found and len(found) == len(numbers):
            interval.cut(min(found), max(found) + 1)
        return
    value = number(getattr(condition, "value", None))
    if value is None:
        return
    if isinstance(condition, EqualTo | EqualNullSafe):
        interval.cut(value, value + 1)
    elif isinstance(condition, GreaterThan):
        interval.cut(value + 1, None)
    elif isinstance(condition, GreaterThanOrEqual):
        interval.cut(value, None)
    elif isinstance(condition, LessThan):
        interval.cut(None, value)
    elif isinstance(condition, LessThanOrEqual):
        interval.cut(None, value + 1)


def texts_of(condition: Filter) -> list[str] | None:
    """The texts one of which a column must be; None where the condition does not say so."""
    values: list[object] = []
    if isinstance(condition, EqualTo | EqualNullSafe):
        values = [condition.value]
    elif isinstance(condition, In):
        values = [value for value in condition.value if value is not None]
    texts = [value for value in values if isinstance(value, str)]
    return texts if texts and len(texts) == len(values) else None


def as_offset(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_microseconds(value: object) -> int | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - EPOCH) // timedelta(microseconds=1)


def quoted(text: str) -> str:
    """Text as the filter language writes it."""
    return "'" + text.replace("'", "''") + "'"
