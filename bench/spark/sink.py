#!/usr/bin/env python3
"""Rows a second of the Spark sink: into a queue that keeps next to nothing, and into a durable stream.

Starts a broker, writes rows to uncompressed Parquet, and from there in alternation: to Spark's noop sink, which is what
reading them costs, and to the two queues, each write one transaction that is over when all of it is on the disk. Prints
medians; what the sink itself costs is the difference to noop.

usage: bench/spark/sink.py [--rows 1000000] [--octets 1024] [--rounds 5] [--cores 2] [--folder DIR]
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from harness import Harness, Way, heading, noop, parser, table

NULL = "null"
STREAM = "stream"
NOOP = "noop"
KEPT_OCTETS = 256 << 20  # of the stream, so that a long run does not fill the disk


def make_rows(bench: Harness, parquet: Path) -> None:
    """Bodies that are all different and do not compress."""
    blocks = (bench.octets + 63) // 64
    parts = ", ".join(f"sha2(concat(id, '.', {part}), 256)" for part in range(blocks))
    rows = bench.spark.range(bench.rows).selectExpr(f"substring(binary(concat({parts})), 1, {bench.octets}) value")
    rows.write.option("compression", "none").parquet(str(parquet))


def write(bench: Harness, parquet: Path, queue: str) -> None:
    rows = bench.spark.read.parquet(str(parquet))
    if queue == NOOP:
        noop(rows)
        return
    rows.write.format("forebay").mode("append").option("forebay.servers", bench.server).option("topic", queue).save()


def main() -> None:
    with Harness(parser(__doc__).parse_args()) as bench:
        connection = bench.connect()
        connection.channel().queue_declare(NULL, durable=False, arguments={"x-max-length": 1000})
        connection.close()
        bench.declare(STREAM, max_length_bytes=KEPT_OCTETS)
        parquet = bench.folder / "parquet"
        make_rows(bench, parquet)
        print(heading("octets", "written to", anchor=NOOP))
        ways = [Way(queue, partial(write, bench, parquet, queue)) for queue in (NOOP, NULL, STREAM)]
        print(table(bench.alternate(ways), NOOP, str(bench.octets)), flush=True)


if __name__ == "__main__":
    main()
