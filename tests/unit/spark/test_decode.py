"""Columns out of the properties of records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type

from forebay.core.message import AMQP091, MQTT, QOS_SHIFT, Properties
from forebay.message.formats.table import format_of
from forebay.message.properties import properties_of
from forebay.message.subject import NUMBERS, stated_property
from forebay.spark.arrow.properties import PROPERTY_TYPES, property_arrays

ARROW_TYPES = {name: to_arrow_type(type) for name, type in PROPERTY_TYPES.items()}


def said(**fields: object) -> Properties:
    made = Properties()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def columns(rows: list[tuple[int, bytes]]) -> dict[str, pa.Array]:
    formats = np.array([format for format, _ in rows], np.uint8)
    made = property_arrays(formats, pa.array([raw for _, raw in rows], pa.binary()), ARROW_TYPES)
    for name, array in made.items():
        array.validate(full=True)
        assert (array.type, len(array)) == (to_arrow_type(PROPERTY_TYPES[name]), len(rows))
    return made


FULL = said(
    content_type="application/json",
    content_encoding="gzip",
    message_id="m",
    correlation_id=b"c\xff",
    reply_to="answers",
    type="t",
    user_id="u",
    app_id="a",
    priority=7,
    expiration_ms=60_000,
    timestamp_s=77,
    headers=[("n", 1), ("x", "é"), ("b", b"\xfe"), ("none", None), ("yes", True), ("l", [1, {"k": "v"}]), ("f", 1.5)],
)


def test_amqp_properties_become_columns() -> None:
    raw = format_of(AMQP091).encode(FULL)
    made = columns([(AMQP091, raw), (AMQP091, format_of(AMQP091).encode(Properties())), (AMQP091, raw)])
    values = {name: array.to_pylist() for name, array in made.items()}
    assert values["headers"][0] == [
        {"key": "n", "value": b"1"},
        {"key": "x", "value": "é".encode()},
        {"key": "b", "value": b"\xfe"},
        {"key": "none", "value": None},
        {"key": "yes", "value": b"true"},
        {"key": "l", "value": b'[1, {"k": "v"}]'},
        {"key": "f", "value": b"1.5"},
    ]
    assert dict(values["properties"][0]) == {
        "content_type": "application/json",
        "content_encoding": "gzip",
        "message_id": "m",
        "correlation_id": "c\ufffd",
        "reply_to": "answers",
        "type": "t",
        "user_id": "u",
        "app_id": "a",
        "priority": "7",
        "expiration": "60000",
        "timestamp": "77",
        "header.n": "1",
        "header.x": "é",
        "header.b": "\ufffd",
        "header.none": None,
        "header.yes": "true",
        "header.l": '[1, {"k": "v"}]',
        "header.f": "1.5",
    }
    assert [values[name][0] for name in ("content_type", "correlation_id", "priority", "expiration_ms")] == [
        "application/json",
        "c\ufffd",
        7,
        60_000,
    ]
    for name, column in values.items():
        assert column[1] == ([] if name == "properties" else None), name
        assert column[2] == column[0], name


def test_the_same_octets_say_something_else_in_another_protocol() -> None:
    octets = format_of(MQTT).encode(said(headers=[("a", "1")]))
    made = columns([(MQTT | 2 << QOS_SHIFT, octets), (AMQP091, octets), (MQTT, octets), (MQTT, b"")])
    assert made["headers"].to_pylist() == [
        [{"key": "a", "value": b"1"}],
        None,
        [{"key": "a", "value": b"1"}],
        None,
    ]


def test_mqtt_properties_become_columns() -> None:
    raw = format_of(MQTT).encode(said(headers=[("amqp-priority", "7")], expiration_ms=1000))
    made = columns([(MQTT, raw)])
    assert (made["priority"].to_pylist(), made["expiration_ms"].to_pylist()) == ([7], [1000])


def test_no_rows_give_no_rows() -> None:
    assert columns([])["headers"].to_pylist() == []


def test_a_part_of_an_array_is_decoded() -> None:
    raw = pa.array(
        [b"x", *[format_of(MQTT).encode(said(content_type=str(n % 3))) for n in range(9)], b"x"], pa.binary()
    )
    made = property_arrays(np.full(9, MQTT, np.uint8), raw.slice(1, 9), {"content_type": pa.string()})
    assert made["content_type"].to_pylist() == ["0", "1", "2"] * 3


values = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3), st.binary(max_size=3))
messages = st.builds(
    said,
    content_type=st.sampled_from([None, "", "a", "b"]),
    priority=st.sampled_from([None, 0, 9]),
    headers=st.lists(st.tuples(st.sampled_from(["h", "i"]), values), max_size=3),
)


@pytest.mark.parametrize("formats", [[AMQP091], [MQTT], [AMQP091, MQTT]])
@given(st.lists(st.tuples(st.integers(0, 9), messages), min_size=1, max_size=12))
def test_each_row_has_what_its_properties_say(formats: list[int], drawn: list[tuple[int, Properties]]) -> None:
    rows = [(formats[at % len(formats)], message) for at, message in drawn]
    octets = [(format, format_of(format).encode(message)) for format, message in rows]
    made = columns(octets)
    for at, (format, raw) in enumerate(octets):
        said_there = properties_of(format, raw)
        assert made["content_type"][at].as_py() == stated_property(said_there, NUMBERS["content_type"])
        assert made["priority"][at].as_py() == said_there.priority
        found = made["headers"][at].as_py()
        assert [pair["key"] for pair in found or ()] == [name for name, _ in said_there.headers]
