"""A program of Spark Connect, as test_connect.py runs it: its Spark is elsewhere. Prints what it counted, as JSON.

usage: connect_client.py URL SERVER FOLDER
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.spark import session

WAIT_S_MAX = 120  # a guard against a hang


def main() -> None:
    url, server, folder = sys.argv[1:]
    spark = session(url)
    source = {"forebay.servers": server, "subscribe": "in"}
    sink = {"forebay.servers": server}

    def publish(batch: DataFrame, number: int) -> None:
        """Runs in a process of the server's."""
        body = F.concat(F.lit(f"{number}:"), F.col("value").cast("string"))
        batch.select(body.alias("value")).write.format("forebay").options(**sink).option("topic", "each").mode(
            "append"
        ).save()

    rows = spark.read.format("forebay").options(**source).load()
    rows.select("value").write.format("forebay").options(**sink).option("topic", "batch").mode("append").save()
    for name in ("stream", "each"):
        stream = spark.readStream.format("forebay").options(**source).option("startingOffsets", "earliest").load()
        writer = stream.select("value").writeStream.option("checkpointLocation", f"{folder}/{name}")
        if name == "each":
            writer = writer.foreachBatch(publish)
        else:
            writer = writer.format("forebay").options(**sink).option("topic", name)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S_MAX)
        assert query.exception() is None, query.exception()
    every = spark.read.format("forebay").options(**{**source, "subscribe": "batch,stream,each"}).load()
    value = F.col("value").cast("string")
    counts = every.groupBy("topic").agg(F.count("*"), F.count_distinct(value), F.min(value)).orderBy("topic").collect()
    print(json.dumps({"read": rows.count(), "wrote": [list(row) for row in counts]}))
    spark.stop()


if __name__ == "__main__":
    main()
