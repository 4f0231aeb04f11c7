"""Avro schemas as columns, and bodies that the library of Avro's own users has written."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import OptionError
from forebay.spark.formats.avro import AvroFormat
from forebay.spark.formats.body_format import BodyReading

EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "tests",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": ["null", "long"]},
        {"name": "wide", "type": ["int", "long"]},
        {"name": "ratio", "type": ["float", "double"]},
        {"name": "octets", "type": "bytes"},
        {"name": "text", "type": "string"},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}},
        {"name": "checksum", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "there", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "clocks", "type": {"type": "array", "items": {"type": "long", "logicalType": "time-micros"}}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "id", "type": ["null", {"type": "string", "logicalType": "uuid"}]},
        {"name": "levels", "type": {"type": "map", "values": "long"}},
        {
            "name": "inner",
            "type": {"type": "record", "name": "Inner", "fields": [{"name": "four", "type": ["null", "Four"]}]},
        },
        {"name": "more", "type": {"type": "array", "items": "Inner"}},
    ],
}
SAID: dict[str, Any] = {
    "flag": True,
    "small": -7,
    "large": 1 << 40,
    "wide": 1 << 33,
    "ratio": 0.5,
    "octets": b"\0\xff",
    "text": "Grüße",
    "colour": "GREEN",
    "checksum": b"abcd",
    "day": date(2026, 11, 23),
    "at": datetime(2026, 11, 23, 12, 30, 1, 5000, tzinfo=UTC),
    "there": datetime(2026, 11, 23, 12, 30, 1, 7),  # noqa: DTZ001  local, as its type says
    "clock": time(1, 2, 3, 4000),
    "clocks": [time(0, 0, 0, 5)],
    "price": Decimal("1234.50"),
    "id": UUID("12345678-1234-5678-1234-567812345678"),
    "levels": {"a": 1, "b": 2},
    "inner": {"four": b"wxyz"},
    "more": [{"four": None}],
}


LARGE_DECIMAL = '"logicalType": "decimal", "precision": 50}}]}'


def written(schema: object, said: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), said)  # type: ignore[arg-type]
    return out.getvalue()


def read_all(bodies: list[bytes | None], schema: object, skip: int = 0) -> tuple[list[Any], list[str | None]]:
    """The bodies as an executor makes columns of them, and what is wrong with each."""
    batch = pa.RecordBatch.from_pydict({"value": pa.array(bodies, pa.binary())})
    reading = BodyReading(AvroFormat(json.dumps(schema)), skip, 0, "body", "error")
    (found,) = reading(iter([batch]))
    return found.column(1).to_pylist(maps_as_pydicts="strict"), found.column(2).to_pylist()


def test_every_type_becomes_a_column() -> None:
    (found,), errors = read_all([written(EVERYTHING, SAID)], EVERYTHING)
    assert errors == [None]
    changed = {
        "clock": 3_723_004,
        "clocks": [5],
        "id": "12345678-1234-5678-1234-567812345678",
    }
    assert found == {**SAID, **changed}
    assert AvroFormat(json.dumps(EVERYTHING)).columns().simpleString().startswith("struct<flag:boolean,small:int,")


def test_bad_bodies_are_told_apart_and_harm_no_other() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "text", "type": "string"}]}
    good = written(schema, {"text": "good"})
    found, errors = read_all([good, None, good[:-1], good + b"x", b"", b"\x02\xff"], schema)
    assert found == [{"text": "good"}, *[None] * 5]
    assert errors[:2] == [None, "there is no body"]
    assert errors[3] == "1 octets come after the Avro record"
    assert all(errors[1:])


def test_a_value_that_its_type_does_not_hold_is_bad() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    wide = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    found, errors = read_all([written(wide, {"n": 1 << 40}), written(wide, {"n": 5})], schema)
    assert found == [None, {"n": 5}]
    assert errors[0]
    assert errors[1] is None


def test_octets_in_front_are_skipped() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    body = b"\0\0\0\0\x07" + written(schema, {"n": 3})
    found, errors = read_all([body, b"\0\0"], schema, skip=5)
    assert found == [{"n": 3}, None]
    assert errors[1] == "it has 2 octets, and 5 of them were to be skipped"


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_octets_are_read_or_told(bodies: list[bytes]) -> None:
    found, errors = read_all(list(bodies), EVERYTHING)
    assert [each is None for each in found] == [each is not None for each in errors]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "schema: an Avro schema is JSON: "),
        ('"string"', "schema: the Avro schema is not that of a record"),
        ('{"type": "record", "name": "R"}', "schema: the Avro record has no fields"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "wrong"}]}', "schema: it is no Avro schema"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["int", "string"]}]}',
            r"schema\.a: a union of int, string: a column holds one type",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}',
            r"schema\.next: the record R holds itself",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "bytes", ' + LARGE_DECIMAL,
            r"schema\.a: a decimal of 50 digits",
        ),
    ],
)
def test_schemas_that_columns_cannot_hold_are_refused(text: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        AvroFormat(text)
