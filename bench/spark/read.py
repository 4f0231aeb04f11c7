#!/usr/bin/env python3
"""CPU a row of the Spark source beside Spark's own Parquet reader, on the same rows.

Starts a broker, fills a stream by Spark's sink, and reads them in alternation: over the network, from the data
directory, by the data source and by `forebay.spark.read`; and from uncompressed Parquet that Spark wrote of them.
Each way reads all rows and a sixteenth of them: the difference is what rows cost, without what a query costs.

usage: bench/spark/read.py [--rows 3000000] [--octets 1024] [--rounds 5] [--cores 2] [--folder DIR] [--only COLUMNS ...]
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness import Harness, Way, heading, noop, parser, table
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.spark import count_by, read

QUEUE = "bench"
PARQUET = "Parquet"
FEW = 16  # of the rows, one in so many
STORED = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
COLUMNS = {
    "as from Kafka": STORED,
    "value, offset": "value binary, offset bigint",
    "offset": "offset bigint",
    "count by key": "key binary",
}


class Reads:
    """The ways to read the rows."""

    def __init__(self, bench: Harness) -> None:
        self.bench = bench
        self.parquet = bench.folder / "parquet"
        self.few_parquet = bench.folder / "few"
        rows = bench.load(QUEUE, STORED)
        for folder, frame in ((self.parquet, rows), (self.few_parquet, rows.where(F.col("offset") < self.few))):
            frame.write.option("compression", "none").parquet(str(folder))

    @property
    def few(self) -> int:
        return self.bench.rows // FEW

    def options(self, way: str, end: int) -> dict[str, str]:
        """Those of a read of forebay up to an offset."""
        place = {"forebay.servers": self.bench.server} if "network" in way else {"forebay.data": str(self.bench.data)}
        return {**place, "endingOffsets": str(end)}

    def frame(self, way: str, schema: str, end: int) -> DataFrame:
        """The rows up to an offset."""
        names = [field.split()[0] for field in schema.split(", ")]
        if way == PARQUET:
            folder: Path = self.parquet if end > self.few else self.few_parquet
            return self.bench.spark.read.parquet(str(folder)).select(names)
        options = self.options(way, end)
        if "read()" in way:
            return read(self.bench.spark, QUEUE, options, columns=names)
        reader = self.bench.spark.read.format("forebay").options(**options).option("subscribe", QUEUE)
        return reader.schema(schema).load()

    def run(self, way: str, columns: str, end: int) -> int:
        if "count_by()" in way:
            noop(count_by(self.bench.spark, QUEUE, self.options(way, end), by=["key"]))
            return end
        frame = self.frame(way, COLUMNS[columns], end)
        noop(frame.groupBy("key").count() if columns == "count by key" else frame)
        return end

    def ways(self, columns: str) -> list[Way]:
        names = ["network", "network, read()", "data directory", "data directory, read()", PARQUET]
        if columns == "count by key":
            names[2:2] = ["network, count_by()"]
        rows = self.bench.rows
        return [
            Way(name, partial(self.run, name, columns, rows), few=partial(self.run, name, columns, self.few))
            for name in names
        ]


def main() -> None:
    options = parser(__doc__, rows=3_000_000)
    options.add_argument("--only", choices=COLUMNS, nargs="+", help="these columns only")
    given = options.parse_args()
    with Harness(given) as bench:
        bench.fill(QUEUE, bench.rows)
        reads = Reads(bench)
        print(heading("columns", "read from", anchor=PARQUET))
        for columns in given.only or COLUMNS:
            print(table(bench.alternate(reads.ways(columns)), PARQUET, columns), flush=True)


if __name__ == "__main__":
    main()
