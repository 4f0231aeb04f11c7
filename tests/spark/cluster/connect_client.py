"""A program of Spark Connect, as test_cluster.py runs it: its Spark is elsewhere. Prints a line of JSON for each step.

usage: connect_client.py URL SERVER FOLDER ROWS first|last

It reads the queue `in` and writes it to others, by a batch, by a stream, and by foreachBatch. In its first life the
streams go on until their server is killed; the last does what is left, and counts.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.streaming.query import StreamingQuery

from forebay.spark import session

BATCHES = 3


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Program:
    """What is done with the queue `in`."""

    def __init__(self, spark: SparkSession, server: str, folder: str, rows: int) -> None:
        self.spark = spark
        self.source = {"forebay.servers": server, "subscribe": "in"}
        self.sink = {"forebay.servers": server}
        self.folder = folder
        self.rows = rows

    def batch(self) -> None:
        rows = self.spark.read.format("forebay").options(**self.source).load()
        rows.select("value").write.format("forebay").options(**self.sink).option("topic", "batch").mode("append").save()
        say(step="batch", rows=rows.count())

    def start(self, name: str, once: bool) -> StreamingQuery:
        sink = self.sink

        def publish(batch: DataFrame, number: int) -> None:
            """Runs in a process of the server's."""
            writer = batch.select("value").write.format("forebay").options(**sink).option("topic", "each")
            writer.option("transactionId", f"each-{number}").mode("append").save()

        stream = self.spark.readStream.format("forebay").options(**self.source).option("startingOffsets", "earliest")
        stream = stream.option("maxOffsetsPerTrigger", str(self.rows // BATCHES))
        writer = stream.load().select("value").writeStream.option("checkpointLocation", f"{self.folder}/{name}")
        if name == "each":
            writer = writer.foreachBatch(publish)
        else:
            writer = writer.format("forebay").options(**sink).option("topic", name)
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="0 seconds")).start()

    def count(self) -> list[list[object]]:
        every = self.spark.read.format("forebay").options(**{**self.source, "subscribe": "batch,stream,each"}).load()
        number = F.col("value").cast("string").cast("long")
        counts = every.groupBy("topic").agg(F.count("*"), F.count_distinct(number), F.sum(number)).orderBy("topic")
        return [list(row) for row in counts.collect()]


def main() -> None:
    url, server, folder, rows, life = sys.argv[1:]
    spark = session(url)
    program = Program(spark, server, folder, int(rows))
    is_last = life == "last"
    if not is_last:
        program.batch()
    queries: list[StreamingQuery] = []
    for name in ("stream", "each"):
        queries.append(program.start(name, once=is_last))
        # One after the other: Spark gives the worker of a source 10 s to start, which several at once exceed.
        while queries[-1].lastProgress is None and not queries[-1].awaitTermination(1):
            pass
    say(step="started")
    # Each for a moment: whichever fails is to be told.
    while [query for query in queries if not query.awaitTermination(1)]:
        pass
    say(step="finished", wrote=program.count())
    spark.stop()


if __name__ == "__main__":
    main()
