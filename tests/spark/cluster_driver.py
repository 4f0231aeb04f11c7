"""A program of Spark for a cluster, as test_cluster.py runs it: prints a line of JSON for each step.

usage: cluster_driver.py MASTER SERVER ARCHIVE FOLDER ROWS
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

import forebay
from forebay.client.blocks import BlockClient
from forebay.spark import session

BATCH_ROWS = 2000
POLL_S = 0.1


def say(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def whereabouts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Which executor's folder this runs in, and where its forebay is."""
    rows = sum(batch.num_rows for batch in batches)
    here = pa.array([os.getcwd()]), pa.array([os.path.realpath(str(forebay.__file__))]), pa.array([rows])
    yield pa.RecordBatch.from_arrays(list(here), names=["folder", "package", "rows"])


def read(spark: SparkSession, server: str) -> None:
    reader = spark.read.format("forebay").option("forebay.servers", server).option("subscribe", "in")
    queue = reader.option("minPartitions", "4").load()
    total = queue.agg(F.count("*"), F.sum("offset"), F.sum(F.length("value"))).collect()[0]
    tasks = queue.mapInArrow(whereabouts, "folder string, package string, rows long").collect()
    say(step="read", total=list(total), tasks=[row.asDict() for row in tasks])


def copy(spark: SparkSession, server: str, folder: str, rows: int) -> None:
    """From one queue to another while the test kills executors; what arrived, at the end."""
    source = spark.readStream.format("forebay").option("forebay.servers", server).option("subscribe", "in")
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(BATCH_ROWS))
    sink = source.load().select("value").writeStream.format("forebay").option("forebay.servers", server)
    sink = sink.option("topic", "out").option("checkpointLocation", f"{folder}/checkpoint")
    query = sink.start()
    say(step="started")
    with BlockClient.connect(server, "guest", "guest") as client:
        while client.describe("out").end < rows:
            time.sleep(POLL_S)
            if (error := query.exception()) is not None:
                # Spark gives a process of Python ten seconds to start, which a busy machine may not keep.
                if "failed to connect back" not in str(error):
                    raise error
                query = sink.start()
    query.stop()
    queue = spark.read.format("forebay").option("forebay.servers", server).option("subscribe", "out").load()
    number = F.col("value").cast("string").cast("long")
    total = queue.agg(F.count("*"), F.count_distinct(number), F.sum(number)).collect()[0]
    say(step="copied", total=list(total))


def main() -> None:
    master, server, archive, folder, rows = sys.argv[1:]
    config = {
        "spark.archives": f"{archive}#packages",
        "spark.executorEnv.PYTHONPATH": "packages",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        # Both executors are there before the first task is given to one.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    }
    spark = session(master, "cluster", config)
    read(spark, server)
    copy(spark, server, folder, int(rows))
    spark.stop()


if __name__ == "__main__":
    main()
