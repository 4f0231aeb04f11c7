"""Rows are counted a part at a time, whatever batches they come in."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from forebay.spark.reading.direct import COUNT, counts_of

ROWS = [("a", 1), ("b", 1), ("a", 1), (None, 2), ("a", 2), ("a", 1), (None, 2), ("", 0)]


@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize("of_a_batch", [1, 2, 8])
def test_counts_add_up(at_once: int, of_a_batch: int) -> None:
    table = pa.table({"key": [key for key, _ in ROWS], "number": [number for _, number in ROWS]})
    batches = list(counts_of(table.to_batches(of_a_batch), at_once))
    assert all(batch.schema.names == ["key", "number", COUNT] for batch in batches)
    found: Counter[tuple[str | None, int]] = Counter()
    for row in [row for batch in batches for row in batch.to_pylist()]:
        found[row["key"], row["number"]] += row[COUNT]
    assert found == Counter(ROWS)
    if at_once > len(ROWS):
        assert [batch.num_rows for batch in batches] == [5]


def test_nothing_is_counted_of_nothing() -> None:
    assert list(counts_of([])) == []
