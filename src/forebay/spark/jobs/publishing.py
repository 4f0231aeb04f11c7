"""Rows published by a job itself, as transactions that it numbers: where the sink of a stream does not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from forebay.spark.sink.writer import WriteTarget, WrittenPart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

STAGED: Final = StructType([StructField("part", StringType()), StructField("rows", LongType())])


class RowStager:
    """Stages the rows of one task; executor."""

    def __init__(self, stager: WriteTarget, query: str, batch: int) -> None:
        self.stager = stager
        self.query = query
        self.batch = batch

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = self.stager.stage(self.query, self.batch, batches)
        yield pa.RecordBatch.from_pydict({"part": [part.name], "rows": [part.rows]})


def publish(rows: DataFrame, stager: WriteTarget, query: str, batch: int) -> int:
    """Publish rows in their order as one batch of a query, once however often; how many this call staged."""
    staged = rows.mapInArrow(RowStager(stager, query, batch), STAGED).collect()
    parts = [WrittenPart(query, row["part"], row["rows"]) for row in staged]
    stager.commit(query, batch, parts)
    return sum(part.rows for part in parts)
