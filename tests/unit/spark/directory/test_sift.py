"""A filter over blocks of a data directory: the records that match, with their own offsets and nothing changed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.log.block import BlockWriter
from forebay.spark.arrow.batches import WHOLE_ROWS_MIN, BatchMaker, Buffer
from forebay.spark.directory.sift import sifted
from forebay.spark.schema import full_schema

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
