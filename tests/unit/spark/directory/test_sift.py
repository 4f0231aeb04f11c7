"""A filter over blocks of a data directory: the records that match, with their own offsets and nothing changed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.message import AMQP091, MQTT, QOS_SHIFT, Properties
from forebay.filter.parser import parse
from forebay.log.block import BlockWriter
from forebay.message.deaths import Death, Deaths, with_deaths
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.spark.arrow.batches import WHOLE_ROWS_MIN, BatchMaker, Buffer, as_readers_see
from forebay.spark.directory.sift import matching, places_of, sifted
from tests.spark_schema import full_schema

NOW_US = 1_700_000_000_000_000
BLOCKS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=20), max_size=6)


def read(blocks: list[list[int]], filter: str, first: int, end: int) -> pa.Table:
    """The rows of [first, end), as a task reads them; block by block the numbers of the bodies."""
    octets, base = b"", 0
    for numbers in blocks:
        writer = BlockWriter()
        for number in numbers:
            writer.append(1, b"x", b"k%d" % number, b"", b'{"n": %d}' % number)
        block = writer.seal(base, NOW_US + base, True)
        octets += block.head + block.data
        base += len(numbers)
    views = sifted(Buffer(octets, "test").blocks(), filter, "q")
    schema = full_schema()
    batches = list(BatchMaker(schema, "q").batches(views, first, end))
    for batch in batches:
        batch.validate(full=True)
    return pa.Table.from_batches(batches, BatchMaker(schema, "q").schema)


@given(BLOCKS, st.integers(0, 60), st.integers(0, 120))
def test_the_records_that_match(blocks: list[list[int]], first: int, end: int) -> None:
    wanted = [
        (offset, b'{"n": %d}' % number, f"k{number}")
        for offset, number in enumerate([number for numbers in blocks for number in numbers])
        if number >= 5 and first <= offset < end
    ]
    rows = read(blocks, "/n >= 5", first, end)
    found = zip(*[rows.column(name).to_pylist() for name in ("offset", "value", "routing_key")], strict=True)
    assert list(found) == wanted


@pytest.mark.parametrize(("filter", "kept"), [("offset < 5", range(5)), ("TRUE = TRUE", range(3000)), ("/n = 77", ())])
def test_long_blocks(filter: str, kept: range) -> None:
    count = 3000
    assert count > WHOLE_ROWS_MIN
    rows = read([[at % 10 for at in range(count)]], filter, 0, count)
    assert rows.column("offset").to_pylist() == list(kept)


def test_times_stay() -> None:
    rows = read([[1, 2], [3]], "/n != 2", 0, 3)
    stamps = [int(each.timestamp() * 1_000_000) for each in rows.column("timestamp").to_pylist()]
    assert stamps == [NOW_US, NOW_US + 2]


@pytest.mark.parametrize(
    "filter",
    [
        "qos = 1",
        "qos = 2 OR protocol = 'amqp091'",
        "topic LIKE 'a/%' AND octets > 3",
        "routing_key = 'a.1' OR exchange = 'x' AND offset > 20",
        "header.h = '2' AND /n < 30",
        "priority = 3 OR content_type = 'text/plain'",
        "deliveries = 0 AND failures < 1",
        "stored_ms >= 1700000000000 AND age_ms > 5 AND queue = 'q'",
        "NOT (death_reason = 'rejected')",
        "1 = 1",
        "octets BETWEEN 5 AND 9",
    ],
)
def test_what_is_asked_of_all_records_at_once_is_what_each_would_say(filter: str) -> None:
    writer = BlockWriter()
    for at in range(60):
        said = Properties()
        said.headers = [("h", str(at % 4))]
        said.priority = at % 5
        if at % 3:
            format = AMQP091
            raw = EXCHANGE_FORMAT.encode(said)
        else:
            format, raw = MQTT | (at % 2 + 1) << QOS_SHIFT, b""
        writer.append(
            format, b"x" if at % 2 else b"", b"a.%d" % (at % 6) if at % 3 else b"a/%d" % at, raw, b'{"n": %d}' % at
        )
    block = writer.seal(7, NOW_US, True)
    (view,) = Buffer(block.head + block.data, "test").blocks()
    parsed = parse(filter)
    by_record = matching(block, parsed, b"q")
    assert [int(at) - 7 for each in sifted([view], filter, "q") for at in each.offsets(0, each.count)] == by_record
    if "failures" not in filter:
        assert places_of(view, parsed.root, "q") == by_record


def test_a_dead_letter_shows_where_it_died() -> None:
    deaths = Deaths()
    deaths.add(Death(b"orders", b"expired", 1, b"", [b"orders"], b""))
    writer = BlockWriter()
    for at in range(4):
        annotations = with_deaths(b"", deaths) if at % 2 else b""
        writer.append_annotated(AMQP091, b"", b"k", EXCHANGE_FORMAT.encode(Properties()), b"%d" % at, annotations)
    block = writer.seal(7, NOW_US, True)
    (view,) = Buffer(block.head + block.data, "test").blocks()
    (found,) = sifted([view], "death_reason = 'expired' AND header.x-first-death-queue = 'orders'", "q")
    assert found.offsets(0, found.count).tolist() == [8, 10]
    assert as_readers_see(found) is found
    (batch,) = BatchMaker(full_schema(), "q").batches([view], 7, 11)
    assert batch.column("value").to_pylist() == [b"0", b"1", b"2", b"3"]
    said = [dict(each).get("header.x-last-death-reason") for each in batch.column("properties").to_pylist()]
    assert said == [None, "expired", None, "expired"]
    stamps = {int(each.timestamp() * 1_000_000) for each in batch.column("timestamp").to_pylist()}
    assert stamps == {NOW_US}
