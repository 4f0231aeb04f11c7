"""What of Spark's conditions is taken: no more than what surely leaves rows out."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from forebay.filter.parser import parse
from forebay.spark.logs import Logs
from forebay.spark.options import parse_options
from forebay.spark.plan import Range
from forebay.spark.push import Interval, Needed, Push

NO_LOGS: Logs = None  # type: ignore[assignment]  # conditions on offsets and names ask nothing
OPTIONS = parse_options({"forebay.servers": "a:1", "subscribe": "q"})


def needed(*conditions: Filter) -> Needed:
    found = Needed()
    assert list(Push(found)(list(conditions))) == list(conditions)
    return found


@pytest.mark.parametrize(
    ("condition", "first", "end"),
    [
        (EqualTo(("offset",), 7), 7, 8),
        (EqualNullSafe(("offset",), 7), 7, 8),
        (GreaterThan(("offset",), 7), 8, 100),
        (GreaterThanOrEqual(("offset",), 7), 7, 100),
        (LessThan(("offset",), 7), 0, 7),
        (LessThanOrEqual(("offset",), 7), 0, 8),
        (In(("offset",), (9, 7, 8)), 7, 10),
        (In(("offset",), (9, None)), 9, 10),
        (Not(EqualTo(("offset",), 7)), 0, 100),
        (IsNotNull(("offset",)), 0, 100),
        (EqualTo(("value",), b"7"), 0, 100),
        (EqualTo(("headers", "offset"), 7), 0, 100),
        (GreaterThan(("offset",), 200), 100, 100),
        (EqualTo(("topic",), "q"), 0, 100),
        (EqualTo(("queue",), "r"), 0, 0),
        (In(("topic",), ("r", "q")), 0, 100),
        (StringStartsWith(("topic",), "r"), 0, 100),
    ],
)
def test_the_range_that_is_left(condition: Filter, first: int, end: int) -> None:
    assert needed(condition).range(Range("q", 0, 100, 5), NO_LOGS) == Range("q", first, end, 5)


def test_all_conditions_hold() -> None:
    found = needed(
        GreaterThan(("offset",), 3), LessThan(("offset",), 9), In(("topic",), ("q", "r")), EqualTo(("queue",), "q")
    )
    assert found.range(Range("q", 5, 100), NO_LOGS) == Range("q", 5, 9)
    assert found.range(Range("r", 5, 100), NO_LOGS).count == 0


def test_times_in_microseconds() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    stamp_us = 1_767_323_045_678_901
    assert needed(GreaterThanOrEqual(("timestamp",), at)).times_us == Interval(stamp_us, None)
    assert needed(LessThanOrEqual(("timestamp",), at)).times_us == Interval(None, stamp_us + 1)
    assert needed(EqualTo(("timestamp",), at.replace(tzinfo=None))).times_us == Interval()


def test_texts_go_to_the_broker() -> None:
    found = needed(EqualTo(("routing_key",), "it's"), In(("exchange",), ("a", "b")))
    assert found.options(OPTIONS).filter == "routing_key IN ('it''s') AND exchange IN ('a', 'b')"
    parse(found.options(OPTIONS).filter)
    own = parse_options({"forebay.servers": "a:1", "subscribe": "q", "filter": "/a = 1 OR /b = 2"})
    assert found.options(own).filter.startswith("(/a = 1 OR /b = 2) AND routing_key IN")
    files = parse_options({"forebay.data": "/d", "subscribe": "q"})
    assert found.options(files) is files


@pytest.mark.parametrize(
    "condition",
    [
        EqualTo(("routing_key",), ""),  # NULL to the filter language
        EqualTo(("routing_key",), "\ufffd"),  # stands for octets that are no text
        In(("exchange",), ("a", "")),
        In(("exchange",), tuple(str(at) for at in range(101))),
        Not(EqualTo(("routing_key",), "a")),
        StringStartsWith(("routing_key",), "a"),
    ],
)
def test_texts_that_do_not(condition: Filter) -> None:
    assert needed(condition).options(OPTIONS) is OPTIONS


def test_pyspark_takes_it_for_the_method_of_the_base_class() -> None:
    push = pickle.loads(pickle.dumps(Push(Needed())))
    assert push.__func__ is DataSourceReader.pushFilters
