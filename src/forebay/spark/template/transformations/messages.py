"""A table with a row for each message of the queue, and a queue that gets something for each of them."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()

BROKER = {
    "forebay.servers": spark.conf.get("spark.forebay.servers"),
    "forebay.vhost": spark.conf.get("spark.forebay.vhost"),
    "forebay.user": spark.conf.get("spark.forebay.user"),
    "forebay.password": os.environ.get("FOREBAY_PASSWORD", "guest"),
}


@dp.table(format="parquet")
def messages() -> DataFrame:
    """Each run adds what has come since the last."""
    return (
        spark.readStream.format("forebay")
        .options(**BROKER)
        .option("subscribe", spark.conf.get("spark.forebay.queue"))
        .option("startingOffsets", "earliest")
        .schema("`offset` bigint, `timestamp` timestamp, routing_key string, value binary")
        .load()
    )


# Exactly once: what a run publishes, no later one publishes again.
dp.create_sink("into", "forebay", {**BROKER, "topic": spark.conf.get("spark.forebay.into")})


@dp.append_flow(target="into")
def results() -> DataFrame:
    """What is published for each message: change this."""
    answer = F.struct("offset", "routing_key", F.length("value").alias("octets"))
    return spark.readStream.table("messages").select(F.to_json(answer).alias("value"))
