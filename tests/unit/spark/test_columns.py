"""Filters over Arrow arrays, as Spark's workers have them."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from forebay.core.errors import OptionError, RequestError
from forebay.filter.parser import parse
from forebay.filter.values import condition_of
from forebay.spark import matching, needs
from forebay.spark.filters.columns import COLUMNS, PROPERTY_COLUMNS, SAID, evaluator, matches_of
from forebay.spark.schema import TYPES
from tests.records import Stored, filters, records

ARROW = {
    "topic": pa.string(),
    "offset": pa.int64(),
    "exchange": pa.string(),
    "routing_key": pa.string(),
    "format": pa.int32(),
    "raw_properties": pa.binary(),
    "value": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "delivery_count": pa.int32(),
}


def struct_of(stored: list[Stored]) -> pa.Array:
    table = [each.row() for each in stored]
    return pa.StructArray.from_arrays(
        [pa.array([row[name] for row in table], type) for name, type in ARROW.items()], list(ARROW)
    )


@given(filters, st.lists(records, min_size=1, max_size=3))
def test_rows_of_a_struct_are_what_the_records_are(filter: str, stored: list[Stored]) -> None:
    # Twice and more: what rows have in common is evaluated once.
    twice = [*stored, *stored, *stored]
    held = [condition_of(parse(filter).root.evaluate(each.subject())) for each in twice]
    made = matches_of(pa.array([filter] * len(twice), pa.string()), struct_of(twice))
    made.validate(full=True)
    assert made.to_pylist() == held
    part = matches_of(pa.array(["offset < 0", *[filter] * 4, None], pa.string())[1:3], struct_of(twice)[1:3])
    assert part.to_pylist() == held[1:3]


@given(st.lists(records, min_size=1, max_size=3))
def test_each_row_may_have_a_filter_of_its_own(stored: list[Stored]) -> None:
    texts = [f"offset = {int(each.block.base)}" for each in stored]
    rows = [*stored, stored[0], stored[0]]
    made = matches_of(pa.array([*texts, None, "offset < 0"], pa.string()), struct_of(rows))
    assert made.to_pylist() == [True] * len(stored) + [None, False]


def test_what_is_sent_to_workers_evaluates_some_of_the_conjuncts() -> None:
    filter = "routing_key = 'never' AND (/a = 1 AND content_type IS NULL)"
    dumps: Any = cloudpickle.dumps
    sent = dumps(evaluator(filter, (1, 2), ["bodies", "raw", "formats"]))
    evaluate = pickle.loads(sent)
    bodies = pa.array([b'{"a": 1}', b'{"a": 2}', b"", None], pa.binary())
    made = evaluate(bodies, pa.array([None] * 4, pa.binary()), pa.array([None] * 4, pa.int32()))
    assert made.to_pylist() == [True, False, None, None]


def test_no_rows_give_no_rows() -> None:
    evaluate = evaluator("routing_key LIKE 'a'", (0,), ["keys"])
    assert evaluate(pa.array([], pa.string())).to_pylist() == []


def test_a_filter_says_what_it_needs() -> None:
    assert needs("/a = 1 AND offset > 5 AND octets > 2") == ["offset", "value"]
    assert needs("header.x = 1 OR death_reason = 'expired'") == ["format", "raw_properties"]
    assert needs("topic = 'a' AND NOT (qos = 1 OR IF(age_ms > 1, queue, exchange) = 'x')") == [
        "topic",
        "exchange",
        "routing_key",
        "format",
        "timestamp",
    ]
    assert needs("1 = 1") == []


def test_every_column_that_a_filter_needs_is_one_of_the_source() -> None:
    assert set(COLUMNS) <= set(TYPES)
    assert {name for names in PROPERTY_COLUMNS.values() for name in names} | set(SAID) == set(COLUMNS)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(OptionError, match="'failures' a table knows nothing"):
        matching("failures > 1")
    with pytest.raises(OptionError, match=r"^no column 'body'; known are topic, offset, "):
        matching("/a = 1", body="payload")
    for wrong in (matching, needs):
        with pytest.raises(RequestError, match="filter, position 10, 'AN'"):
            wrong("/qty > 5 AN /sym = 'A'")
    with pytest.raises(OptionError, match="it needs the column 'exchange'; the table has value"):
        matches_of(pa.array(["exchange = 1"]), pa.StructArray.from_arrays([pa.array([b"x"])], ["value"]))
