#!/usr/bin/env python3
"""CPU a row of a source in Python that does nothing: the floor under every such source, and under forebay's.

Each batch is made once and handed to Spark again and again: no broker, no files, no work. `source` is PySpark's data
source, `mapInArrow` what `forebay.spark.read` is built on; each has the columns that bench/spark/read.py reads, in
batches as long as forebay's.

usage: bench/spark/floor.py [--rows 10000000] [--octets 1024] [--rounds 5] [--cores 2]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from harness import Harness, Run, Way, cpu_line, noop, parser
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType
from read import COLUMNS, FEW

from forebay.spark.arrow.batches import BATCH_ROWS
from forebay.spark.schema import arrow_schema

TASKS = 2


def batch_of(schema: StructType, rows: int, octets: int) -> pa.RecordBatch:
    """One batch: numbers are 0, keys of five octets, values as long as told."""
    named = arrow_schema(schema)
    values = {"key": b"bench", "value": b"x" * octets, "topic": "bench"}
    columns = [pa.array([values.get(field.name, 0)] * rows).cast(field.type) for field in named]
    return pa.RecordBatch.from_arrays(columns, schema=named)


def batches(schema: StructType, rows: int, octets: int) -> Iterator[pa.RecordBatch]:
    """So many rows, of the same batch."""
    batch = batch_of(schema, min(BATCH_ROWS, (4 << 20) // max(octets, 1)), octets)
    while rows > 0:
        yield batch.slice(0, rows)
        rows -= batch.num_rows


class NothingReader(DataSourceReader):
    """Shares its rows among the tasks."""

    def __init__(self, schema: StructType, rows: int, octets: int) -> None:
        self.schema = schema
        self.rows = rows
        self.octets = octets

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from batches(self.schema, self.rows // TASKS, self.octets)


class NothingSource(DataSource):
    """A source that does nothing."""

    @classmethod
    def name(cls) -> str:
        return "nothing"

    def reader(self, schema: StructType) -> DataSourceReader:
        return NothingReader(schema, int(self.options["rows"]), int(self.options["octets"]))


class NothingTasks:
    """The same for mapInArrow."""

    def __init__(self, schema: StructType, rows: int, octets: int) -> None:
        self.schema = schema
        self.rows = rows
        self.octets = octets

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for each in numbers:
            for _ in range(each.num_rows):
                yield from batches(self.schema, self.rows // TASKS, self.octets)


def frame(bench: Harness, way: str, columns: str, rows: int) -> DataFrame:
    """The rows."""
    schema = COLUMNS[columns]
    if way == "source":
        reader = bench.spark.read.format(NothingSource.name()).schema(schema)
        return reader.options(rows=str(rows), octets=str(bench.octets)).load()
    typed = StructType.fromDDL(schema)
    return bench.spark.range(0, TASKS, 1, TASKS).mapInArrow(NothingTasks(typed, rows, bench.octets), typed)


def run(bench: Harness, way: str, columns: str, rows: int) -> int:
    made = frame(bench, way, columns, rows)
    noop(made.groupBy("key").count() if columns == "count by key" else made)
    return rows


def main() -> None:
    options = parser(__doc__, rows=10_000_000)
    options.add_argument("--only", choices=COLUMNS, nargs="+", help="these columns only")
    given = options.parse_args()
    with Harness(given) as bench:
        bench.spark.dataSource.register(NothingSource)
        print("| columns | by | CPU µs/row: JVM + Python |\n|---|---|---|")
        for columns in given.only or COLUMNS:
            ways = [
                Way(
                    way,
                    partial(run, bench, way, columns, bench.rows),
                    few=partial(run, bench, way, columns, bench.rows // FEW),
                )
                for way in ("source", "mapInArrow")
            ]
            found: dict[str, list[Run]] = bench.alternate(ways)
            for way, runs in found.items():
                print(f"| {columns} | {way} | {cpu_line(runs)} |", flush=True)


if __name__ == "__main__":
    main()
