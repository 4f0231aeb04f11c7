"""Blocks to Arrow: every record once, whatever the blocks' lengths, gaps between them and the range asked for."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from forebay.core.errors import CorruptFile, OptionError
from forebay.core.message import AMQP091, AMQP10, Properties
from forebay.log.block import Block, BlockWriter
from forebay.spark.arrow.batches import BATCH_ROWS, WHOLE_ROWS_MIN, BatchMaker, Buffer
from forebay.spark.schema import TYPES, check_schema
from forebay.wire.amqp091.properties import encode_properties
from tests.spark_schema import full_schema

NOW_US = 1_700_000_000_123_456
Record = tuple[int, bytes, bytes, bytes, bytes]
RECORDS = st.tuples(
    st.integers(1, 2), st.binary(max_size=4), st.binary(max_size=6), st.binary(max_size=3), st.binary(max_size=9)
)
BLOCKS = st.lists(st.tuples(st.integers(0, 5), st.lists(RECORDS, min_size=1, max_size=6)), max_size=6)


def sealed(base: int, records: list[Record], stamp_us: int = NOW_US) -> Block:
    writer = BlockWriter()
    for record in records:
        writer.append(*record)
    return writer.seal(base, stamp_us, True)


def some(count: int, size: int = 3) -> list[Record]:
    return [(1, b"x", b"k%d" % at, b"", b"%0*d" % (size, at)) for at in range(count)]


def read(blocks: list[Block], first: int, end: int, schema: StructType | None = None) -> list[pa.RecordBatch]:
    octets = b"".join(block.head + block.data for block in blocks)
    maker = BatchMaker(schema or full_schema(), "q")
    batches = list(maker.batches(Buffer(octets, "test").blocks(), first, end))
    for batch in batches:
        batch.validate(full=True)
        assert 0 < batch.num_rows <= BATCH_ROWS
    return batches


@given(BLOCKS, st.integers(0, 40), st.integers(0, 60))
def test_every_record_of_the_range_once(made: list[tuple[int, list[Record]]], first: int, end: int) -> None:
    blocks, expected, base = [], [], 0
    for gap, records in made:
        base += gap
        blocks.append(sealed(base, records, NOW_US + base))
        expected += [
            (base + at, NOW_US + base, record) for at, record in enumerate(records) if first <= base + at < end
        ]
        base += len(records)
    rows = [row for batch in read(blocks, first, end) for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == [offset for offset, _, _ in expected]
    for row, (_, stamp_us, (format, exchange, key, properties, body)) in zip(rows, expected, strict=True):
        assert row["timestamp"] == datetime.fromtimestamp(stamp_us // 10**6, UTC).replace(microsecond=stamp_us % 10**6)
        assert (row["format"], row["raw_properties"], row["value"], row["key"]) == (format, properties, body, key)
        assert row["exchange"] == exchange.decode("utf-8", "replace")
        assert row["routing_key"] == key.decode("utf-8", "replace")
        assert (row["topic"], row["partition"], row["timestampType"]) == ("q", 0, 1)


@pytest.mark.parametrize("size", [4, WHOLE_ROWS_MIN])
def test_records_that_come_again_are_taken_once(size: int) -> None:
    """As where a read goes on after its connection was lost, and the broker has merged small blocks meanwhile."""
    whole = some(3 * size)
    blocks = [sealed(0, whole[:size]), sealed(0, whole[: 2 * size]), sealed(size, whole[size : 2 * size])]
    blocks += [sealed(size + 1, whole[size + 1 :])]
    found = [row for batch in read(blocks, 2, 3 * size) for row in batch.to_pylist()]
    assert [row["offset"] for row in found] == list(range(2, 3 * size))
    assert [row["value"] for row in found] == [record[4] for record in whole[2:]]


def test_a_long_block_is_not_copied() -> None:
    block = sealed(0, some(WHOLE_ROWS_MIN, 100))
    octets = block.head + block.data
    buffer = Buffer(octets, "test")
    schema = StructType([full_schema()["value"]])
    (batch,) = BatchMaker(schema, "q").batches(buffer.blocks(), 0, WHOLE_ROWS_MIN)
    start, end = buffer.arrow.address, buffer.arrow.address + len(octets)
    assert all(start <= part.address < end for part in batch.column(0).buffers() if part is not None)


@pytest.mark.parametrize("count", [1, WHOLE_ROWS_MIN - 1, WHOLE_ROWS_MIN, BATCH_ROWS, BATCH_ROWS + 1, 3 * BATCH_ROWS])
def test_long_blocks_are_cut_into_batches(count: int) -> None:
    batches = read([sealed(10, some(count))], 12, 10 + count)
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == list(range(12, 10 + count))
    values = [value for batch in batches for value in batch["value"].to_pylist()]
    assert values == [b"%03d" % at for at in range(2, count)]


def test_short_blocks_are_gathered_and_stay_in_order_with_long_ones() -> None:
    blocks, base = [], 0
    for count in [5, 7, WHOLE_ROWS_MIN, 3, *([900] * 6)]:
        blocks.append(sealed(base, some(count)))
        base += count
    batches = read(blocks, 0, base)
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == list(range(base))
    assert [batch.num_rows for batch in batches] == [12, WHOLE_ROWS_MIN, 3 + 4 * 900, 2 * 900]


def test_only_the_columns_asked_for_in_their_order() -> None:
    schema = StructType([full_schema()[name] for name in ("offset", "value")])
    (batch,) = read([sealed(0, some(3))], 0, 3, schema)
    assert batch.schema.names == ["offset", "value"]


@pytest.mark.parametrize("rows", [3, WHOLE_ROWS_MIN])
def test_the_value_of_a_message_of_amqp10_is_its_payload(rows: int) -> None:
    """The body column has sections: data, a text, a list, and octets that are no sections at all."""
    data, text = b"\x00\x53\x75\xa0\x01a" * 2, b"\x00\x53\x77\xa1\x01t"
    others = b"\x00\x53\x77\xc0\x02\x01\x40"
    annotated = b"\x00\x53\x72\xc1\x09\x02\xa3\x03x-a\xa1\x01v"
    bodies = [data, text, others, b"octets", b""]
    records = [(AMQP10, b"", b"q", annotated, body) for body in bodies]
    records += [(AMQP091, b"", b"q", b"\0\0", data)] * rows
    schema = StructType([full_schema()[name] for name in ("value", "properties", "format")])
    (batch,) = read([sealed(0, records)], 0, len(records), schema)
    assert batch.column("value").to_pylist() == [b"aa", b"t", others, b"octets", b"", *[data] * rows]
    assert batch.column("format").to_pylist() == [AMQP10] * 5 + [AMQP091] * rows
    assert dict(batch.column("properties").to_pylist()[0])["header.x-a"] == "v"
    (batch,) = read([sealed(0, records)], 0, len(records), StructType([StructField("value", StringType())]))
    assert batch.column("value").to_pylist()[:2] == ["aa", "t"]


def test_texts_that_are_no_utf8_keep_their_octets_as_binary() -> None:
    """As text they have U+FFFD; nothing else of the row says which octets these were."""
    raw = encode_properties(said_of(b"id-\xff\xfe"))
    records = [
        (AMQP091, b"x\xff", b"k\xfe", raw, b"body"),
        (AMQP091, b"x", b"k", encode_properties(said_of(None)), b""),
    ]
    schema = StructType([StructField(name, BinaryType()) for name in ("exchange", "routing_key", "correlation_id")])
    check_schema(schema)
    (batch,) = read([sealed(0, records)], 0, 2, schema)
    assert batch.to_pylist() == [
        {"exchange": b"x\xff", "routing_key": b"k\xfe", "correlation_id": b"id-\xff\xfe"},
        {"exchange": b"x", "routing_key": b"k", "correlation_id": None},
    ]
    schema = StructType([StructField(name, StringType()) for name in schema.names])
    check_schema(schema)
    (batch,) = read([sealed(0, records)], 0, 2, schema)
    assert batch.to_pylist()[0] == {
        "exchange": "x\ufffd",
        "routing_key": "k\ufffd",
        "correlation_id": "id-\ufffd\ufffd",
    }


def said_of(correlation: bytes | None) -> Properties:
    made = Properties()
    made.correlation_id = correlation
    return made


def test_nullability_follows_the_schema() -> None:
    schema = StructType([StructField("offset", LongType(), nullable=False)])
    (batch,) = read([sealed(0, some(3))], 0, 3, schema)
    assert not batch.schema.field("offset").nullable


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(OptionError, match=f"no column 'body'; known are {', '.join(TYPES)}"):
        check_schema(StructType([StructField("body", StringType())]))


def test_a_wrong_type_is_named() -> None:
    with pytest.raises(OptionError, match="column 'offset' is bigint, not string"):
        check_schema(StructType([StructField("offset", StringType())]))
    with pytest.raises(OptionError, match="column 'correlation_id' is string or binary, not bigint"):
        check_schema(StructType([StructField("correlation_id", LongType())]))
    with pytest.raises(OptionError, match="column 'message_id' is string, not binary"):
        check_schema(StructType([StructField("message_id", BinaryType())]))


@pytest.mark.parametrize("at", [4, 9, 13, 20, 40, 48, 60, -9])
def test_a_damaged_block_is_refused(at: int) -> None:
    block = sealed(7, some(4))
    octets = bytearray(block.head + block.data)
    octets[at] ^= 1
    with pytest.raises(CorruptFile, match="test: at octet 0"):
        list(Buffer(bytes(octets), "test").blocks())


def test_half_a_block_is_refused() -> None:
    block = sealed(7, some(4))
    with pytest.raises(CorruptFile, match="test: at octet 0"):
        list(Buffer((block.head + block.data)[:-8], "test").blocks())
