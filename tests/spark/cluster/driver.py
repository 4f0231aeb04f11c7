"""A program of Spark for a cluster, as test_cluster.py runs it: prints a line of JSON for each step.

usage: driver.py MASTER SERVER ARCHIVE FOLDER first|last

It reads the queue `in`, copies it to `out`, tiers it into a table of Delta and one of Iceberg, and sends the letters of
`dead` back to `orders`, all at once. The first life goes on until it is killed; the last does what is left and ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.streaming.query import StreamingQuery

import forebay
from forebay.spark import read_tiered, redrive, session, tier
from forebay.spark.jobs.tier import Tiered

BATCH_ROWS = 4000
LETTERS_AT_ONCE = 100
TABLES = ("delta", "iceberg")


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def whereabouts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The executor's folder that this runs in, the place of its forebay, and the packages that only the driver has."""
    rows = sum(batch.num_rows for batch in batches)
    loaded = ",".join(sorted({name.partition(".")[0] for name in sys.modules} & {"uvicorn", "starlette", "rich"}))
    here = [[os.getcwd()], [os.path.realpath(str(forebay.__file__))], [loaded], [rows]]
    yield pa.RecordBatch.from_arrays([pa.array(each) for each in here], names=["folder", "package", "loaded", "rows"])


def totals(frame: DataFrame) -> list[int]:
    """Rows, distinct numbers in their bodies, and the sum of these."""
    number = F.col("value").cast("string").cast("long")
    row = frame.agg(F.count("*"), F.count_distinct(number), F.sum(number)).first()
    assert row is not None, "an aggregate has one row"
    return list(row)


class Jobs:
    """All that runs on the cluster at once."""

    def __init__(self, spark: SparkSession, server: str, folder: str) -> None:
        self.spark = spark
        self.options = {"forebay.servers": server}
        self.folder = folder

    def read(self) -> None:
        reader = self.spark.read.format("forebay").options(**self.options).option("subscribe", "in")
        queue = reader.option("minPartitions", "4").load()
        tasks = queue.mapInArrow(whereabouts, "folder string, package string, loaded string, rows long").collect()
        say(step="read", total=totals(queue), tasks=[row.asDict() for row in tasks])

    def copy(self, once: bool) -> StreamingQuery:
        source = self.spark.readStream.format("forebay").options(**self.options).option("subscribe", "in")
        source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(BATCH_ROWS))
        sink = source.load().select("value").writeStream.format("forebay").options(**self.options)
        sink = sink.option("topic", "out").option("checkpointLocation", f"{self.folder}/checkpoint")
        return (sink.trigger(availableNow=True) if once else sink.trigger(processingTime="0 seconds")).start()

    def tiered(self, format: str) -> StreamingQuery:
        limits = {**self.options, "maxOffsetsPerTrigger": str(BATCH_ROWS)}
        query = tier(self.spark, "in", limits, f"{self.folder}/{format}", format, partition_by=None)
        assert not isinstance(query, Tiered)
        return query

    def redrive_slowly(self) -> None:
        """The letters, a few at a time: one job of Spark for each."""
        while redrive(self.spark, "dead", self.options, to="orders", limit=LETTERS_AT_ONCE).chosen:
            pass

    def run_until_killed(self) -> None:
        threading.Thread(target=self.redrive_slowly, daemon=True).start()
        jobs = [self.copy(once=False)]
        for format in TABLES:
            wait_for_worker(jobs[-1])
            jobs.append(self.tiered(format))
        say(step="started")
        for job in jobs:
            job.awaitTermination()
        raise AssertionError("a stream without an end has ended")

    def finish(self) -> None:
        redrive(self.spark, "dead", self.options, to="orders")
        self.copy(once=True).awaitTermination()
        for format in TABLES:
            self.tier_the_rest(format)
        copied = self.spark.read.format("forebay").options(**self.options).option("subscribe", "out").load()
        tables = {each: totals(read_tiered(self.spark, "in", f"{self.folder}/{each}", self.options)) for each in TABLES}
        say(step="finished", out=totals(copied), **tables)

    def tier_the_rest(self, format: str) -> None:
        limits = {**self.options, "maxOffsetsPerTrigger": str(BATCH_ROWS)}
        tier(self.spark, "in", limits, f"{self.folder}/{format}", format, once=True, partition_by=None)


def wait_for_worker(query: StreamingQuery) -> None:
    """Wait until a stream works: Spark gives the worker of a source 10 s to start, which several at once exceed."""
    while query.lastProgress is None:
        query.awaitTermination(1)


def main() -> None:
    master, server, archive, folder, life = sys.argv[1:]
    config = {
        "spark.submit.pyFiles": archive,
        "spark.pyspark.python": "python3",  # of the worker's own environment
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.driver.memory": "768m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # Both executors are there before the first task is given to one: without a most, Spark waits for no core.
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }
    os.environ.pop("PYSPARK_PYTHON", None)  # `session` would send the workers the path of this one
    spark = session(master, f"cluster-{life}", config)
    jobs = Jobs(spark, server, folder)
    if life == "first":
        jobs.read()
        jobs.run_until_killed()
    jobs.finish()
    spark.stop()


if __name__ == "__main__":
    main()
