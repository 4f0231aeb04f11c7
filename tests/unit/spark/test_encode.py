"""Record batches to blocks: what stands in them, where they are cut, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from forebay.core.errors import OptionError
from forebay.core.message import AMQP091, Properties
from forebay.log.block import Block, check_columns, parse_block
from forebay.message.properties import properties_of
from forebay.spark.sink.encode import BlockEncoder
from forebay.spark.sink.options import SinkOptions, parse_sink, sink_columns

SERVER = {"forebay.servers": "localhost:5672"}
TYPES = {
    "value": pa.binary(),
    "topic": pa.string(),
    "exchange": pa.string(),
    "routing_key": pa.string(),
    "headers": pa.map_(pa.string(), pa.string()),
    "priority": pa.int32(),
    "expiration_ms": pa.int64(),
    "delay_ms": pa.int64(),
    "message_id": pa.string(),
    "correlation_id": pa.binary(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
PLAIN = b"\x10\x00\x02"  # delivery mode 2, and nothing else


def options(**given: object) -> SinkOptions:
    return parse_sink({**SERVER, **{name: str(value) for name, value in given.items()}})


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, TYPES[name]) for name, values in columns.items()], names=list(columns))


def blocks(made: pa.RecordBatch, given: SinkOptions) -> list[Block]:
    encoder = BlockEncoder(given, {name: at for at, name in enumerate(made.schema.names)})
    found = []
    for rows, (head, data) in encoder.blocks(made):
        block = parse_block(head, data)
        check_columns(block)
        assert block.count == rows
        found.append(block)
    return found


def rows(blocks: list[Block]) -> list[tuple[bytes, bytes, bytes, bytes]]:
    return [
        (block.exchange(at), block.routing_key(at), block.properties(at), block.body(at))
        for block in blocks
        for at in range(block.count)
    ]


@given(
    st.lists(st.binary(max_size=40), min_size=1, max_size=50),
    st.integers(1, 9),
    st.integers(1, 100),
    st.integers(0, 5),
)
def test_any_values_come_out_as_they_went_in(values: list[bytes], most: int, octets: int, skipped: int) -> None:
    given = options(topic="q", batchRows=most, batchOctets=octets)
    made = blocks(batch(value=values).slice(skipped), given)
    assert rows(made) == [(b"", b"q", PLAIN, value) for value in values[skipped:]]
    for block in made:
        assert block.count <= most
        assert block.count == 1 or block.body_span(0, block.count) <= octets
        assert {block.format(at) for at in range(block.count)} == {AMQP091}


@pytest.mark.parametrize("type", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_values_may_be_of_any_type_that_spark_hands_over(type: pa.DataType) -> None:
    made = pa.record_batch([pa.array(["", "é", "x" * 300], type)], names=["value"])
    assert [body for _, _, _, body in rows(blocks(made, options(topic="q")))] == [b"", "é".encode(), b"x" * 300]


@pytest.mark.parametrize(
    ("given", "columns", "expected"),
    [
        ({}, {"topic": ["a", "b"]}, [(b"", b"a"), (b"", b"b")]),
        ({"topic": "q"}, {"topic": ["a", "b"]}, [(b"", b"q"), (b"", b"q")]),
        ({"topic": "q"}, {"routing_key": ["a", "b"]}, [(b"", b"q"), (b"", b"q")]),
        ({"exchange": "x"}, {}, [(b"x", b""), (b"x", b"")]),
        ({"exchange": "x"}, {"topic": ["a", "b"]}, [(b"x", b"a"), (b"x", b"b")]),
        ({"exchange": "x"}, {"topic": ["a", "b"], "routing_key": ["c", "d"]}, [(b"x", b"c"), (b"x", b"d")]),
        ({"exchange": "x", "topic": "t"}, {"exchange": ["a", "b"]}, [(b"x", b"t"), (b"x", b"t")]),
        ({}, {"exchange": ["x", None], "topic": ["a", "b"]}, [(b"x", b"a"), (b"", b"b")]),
        ({}, {"exchange": ["x", ""], "topic": [None, "b"]}, [(b"x", b""), (b"", b"b")]),
        ({"topic": "t"}, {"exchange": ["x", ""], "routing_key": ["k", "l"]}, [(b"x", b"k"), (b"", b"t")]),
    ],
)
def test_where_rows_go(
    given: dict[str, str], columns: dict[str, list[Any]], expected: list[tuple[bytes, bytes]]
) -> None:
    made = blocks(batch(value=[b"1", b"2"], **columns), options(**given))
    assert [(exchange, key) for exchange, key, _, _ in rows(made)] == expected


def test_what_rows_say_is_in_their_properties() -> None:
    made = batch(
        value=[b"1", b"2", b"3"],
        topic=["q", "q", "q"],
        headers=[[("a", "1"), ("none", None)], None, []],
        priority=[7, None, 0],
        expiration_ms=[1000, None, 0],
        delay_ms=[5, None, None],
        message_id=["m", None, None],
        correlation_id=[b"\xff", None, None],
        timestamp=[1_700_000_000_500_000, 0, -5],
    )
    first, second, third = [said(octets) for _, _, octets, _ in rows(blocks(made, options()))]
    assert first.headers == [("a", "1"), ("x-delay", 5)]
    assert (first.priority, first.expiration_ms, first.message_id) == (7, 1000, "m")
    assert (first.correlation_id, first.timestamp_s, first.durable) == (b"\xff", 1_700_000_000, True)
    assert (second.headers, second.priority, second.expiration_ms, second.timestamp_s) == ([], None, None, 0)
    assert (third.headers, third.priority, third.expiration_ms) == ([], 0, 0)


def said(octets: bytes) -> Properties:
    return properties_of(AMQP091, octets)


def test_headers_may_be_octets() -> None:
    type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "a", "value": b"\0"}, {"key": "a", "value": b"1"}], None], type)
    made = pa.record_batch([pa.array([b"1", b"2"], pa.binary()), headers], names=["value", "headers"])
    found = [said(octets).headers for _, _, octets, _ in rows(blocks(made, options(topic="q")))]
    assert found == [[("a", b"1")], []]


def test_what_rows_cannot_say_names_column_and_value() -> None:
    for column, value, text in [
        ("priority", 256, "column 'priority': 256 is not a number from 0 to 255"),
        ("expiration_ms", -1, "column 'expiration_ms': -1 is not"),
        ("delay_ms", -1, "column 'delay_ms': -1 is not"),
        ("headers", [("n" * 256, "")], "column 'headers': the name 'nnn"),
        ("topic", None, "column 'topic': null in row 1"),
        ("topic", "t" * 256, "column 'topic': a value of 256 octets, at most 255"),
        ("value", None, "column 'value': null in row 1"),
    ]:
        columns: dict[str, list[Any]] = {"value": [b"1", b"2"], "topic": ["q", "q"]}
        good = {"headers": [], "topic": "q", "value": b""}.get(column, 1)
        columns[column] = [good, value]
        with pytest.raises(OptionError, match=text.replace("(", r"\(")):
            blocks(batch(**columns), options())
    with pytest.raises(OptionError, match="column 'topic': null in row 0 of a batch, which names no exchange"):
        blocks(batch(value=[b""], exchange=[None], topic=[None]), options())
    with pytest.raises(OptionError, match="column 'exchange': a value of 256 octets"):
        blocks(batch(value=[b""], exchange=["x" * 256], topic=[None]), options())


def test_an_empty_batch_makes_no_block() -> None:
    assert blocks(batch(value=[], topic=[]), options()) == []


def schema(text: str) -> StructType:
    """A schema in Spark's words, without a session."""
    types = {"b": "binary", "s": "string", "i": "integer", "t": "timestamp"}
    fields = [each.split(":") for each in text.split()]
    made = [{"name": name, "type": types[type], "nullable": True, "metadata": {}} for name, type in fields]
    return StructType.fromJson({"type": "struct", "fields": made})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("value:s topic:s", {"value": 0, "topic": 1}),
        ("queue:s key:b value:b", {"topic": 0, "routing_key": 1, "value": 2}),
        ("queue:s topic:s value:b", {"topic": 1, "value": 2}),
        (
            "key:b value:b topic:s partition:i timestamp:t timestampType:i",
            {"routing_key": 0, "value": 1, "topic": 2, "timestamp": 4},
        ),
    ],
)
def test_columns_have_kafkas_names_too(text: str, expected: dict[str, int]) -> None:
    assert sink_columns(schema(text), options()) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("value:s", "topic: missing"),
        ("topic:s", "column 'value': missing"),
        ("value:s topic:s expiraton_ms:i", "column 'expiraton_ms': no column of the forebay sink; known are value, "),
        ("value:i topic:s", "column 'value': int cannot be its type"),
        ("value:s topic:s headers:s", "column 'headers': string cannot be its type"),
        ("value:s topic:s key:i", "column 'key': int cannot be its type"),
    ],
)
def test_columns_that_cannot_be_are_named(text: str, error: str) -> None:
    with pytest.raises(OptionError, match=error.replace("(", r"\(")):
        sink_columns(schema(text), options())


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, "give either forebay.servers"),
        ({"forebay.servers": "nowhere"}, "forebay.servers: 'nowhere'"),
        ({**SERVER, "subscribe": "q"}, "subscribe: no option of the forebay sink"),
        ({**SERVER, "forebay.data": "/data"}, "forebay.data: no option of the forebay sink"),
        ({**SERVER, "topic": ""}, "topic: '' is not text of 1 to 255 octets"),
        ({**SERVER, "exchange": "x" * 256}, "exchange: 'xxx"),
        ({**SERVER, "commitTimeoutMs": "0"}, "commitTimeoutMs: '0' is not a number from 1 to"),
        ({**SERVER, "batchRows": "0"}, "batchRows: '0' is not a number from 1"),
        ({**SERVER, "batchOctets": "33554433"}, "batchOctets: '33554433' is not a number from 1"),
    ],
)
def test_options_that_cannot_be_are_named(given: dict[str, str], error: str) -> None:
    with pytest.raises(OptionError, match=error):
        parse_sink(given)
