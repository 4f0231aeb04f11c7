"""Publishes rows in transactions that a job numbers itself, for jobs that cannot use the stream sink."""

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
    """A function that stages the rows of one task. Called on executors."""

    def __init__(self, stager: WriteTarget, query: str, batch: int) -> None:
        self.stager = stager
        self.query = query
        self.batch = batch

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = self.stager.stage(self.query, self.batch, batches)
        yield pa.RecordBatch.from_pydict({"part": [part.name], "rows": [part.rows]})


def publish(rows: DataFrame, stager: WriteTarget, query: str, batch: int) -> int:
    """Publish rows in order as one batch of a query, and return the number of rows that this call staged.

    A batch is published once, even if it is passed again.
    """
    staged = rows.mapInArrow(RowStager(stager, query, batch), STAGED).collect()
    parts = [WrittenPart(query, row["part"], row["rows"]) for row in staged]
    stager.commit(query, batch, parts)
    return sum(part.rows for part in parts)
