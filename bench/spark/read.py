#!/usr/bin/env python3
"""Rows a second of the Spark source beside Spark's own Parquet reader, on the same rows.

Starts a broker, publishes messages to a stream, and reads them in alternation: over the network, from the data
directory, and from uncompressed Parquet that Spark wrote of them; into Spark's noop sink. Prints medians.

usage: bench/spark/read.py [--rows 1000000] [--octets 1024] [--rounds 5] [--cores 2] [--folder DIR]
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness import Harness, Way, heading, noise, noop, parser, table
from pyspark.sql import DataFrame

QUEUE = "bench"
PARQUET = "Parquet"
KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
COLUMNS = {
    "and ours": f"{KAFKA}, exchange string, routing_key string, format int, raw_properties binary",
    "as from Kafka": KAFKA,
    "value, offset": "value binary, offset bigint",
}


def frames(bench: Harness, parquet: Path, schema: str | None) -> dict[str, DataFrame]:
    """The ways to read the rows."""
    files = bench.spark.read.format("forebay").option("forebay.data", str(bench.data)).option("subscribe", QUEUE)
    columns = bench.spark.read.parquet(str(parquet))
    if schema is not None:
        files = files.schema(schema)
        columns = columns.select([field.split()[0] for field in schema.split(", ")])
    return {"network": bench.load(QUEUE, schema), "data directory": files.load(), PARQUET: columns}


def read(bench: Harness, parquet: Path, schema: str | None, way: str) -> None:
    noop(frames(bench, parquet, schema)[way])


def main() -> None:
    with Harness(parser(__doc__).parse_args()) as bench:
        bench.publish(QUEUE, bench.rows, noise(bench.octets))
        parquet = bench.folder / "parquet"
        bench.load(QUEUE, COLUMNS["and ours"]).write.option("compression", "none").parquet(str(parquet))
        print(heading("columns", "read from", anchor=PARQUET))
        for columns, schema in COLUMNS.items():
            ways = [Way(way, partial(read, bench, parquet, schema, way)) for way in frames(bench, parquet, schema)]
            print(table(bench.alternate(ways), PARQUET, columns), flush=True)


if __name__ == "__main__":
    main()
