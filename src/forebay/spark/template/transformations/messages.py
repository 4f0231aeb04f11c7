"""A table with a row for each message of the queue, and a queue that gets a message for each row."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()


def setting(name: str) -> str:
    """Return a setting of spark-pipeline.yml."""
    return str(spark.conf.get(f"spark.forebay.{name}"))


BROKER = {
    "forebay.servers": setting("servers"),
    "forebay.vhost": setting("vhost"),
    "forebay.user": setting("user"),
    "forebay.password": os.environ.get("FOREBAY_PASSWORD", "guest"),
}


@dp.table
def messages() -> DataFrame:
    """Return the messages that have arrived since the last run."""
    return (
        spark.readStream.format("forebay")
        .options(**BROKER)
        .option("subscribe", setting("queue"))
        .option("startingOffsets", "earliest")
        .schema("`offset` bigint, `timestamp` timestamp, routing_key string, value binary")
        .load()
    )


# Exactly once: no later run publishes the same message again.
dp.create_sink("into", "forebay", {**BROKER, "topic": setting("into")})


@dp.append_flow(target="into")
def results() -> DataFrame:
    """Return the message to publish for each row. Change this to your needs."""
    answer = F.struct("offset", "routing_key", F.length("value").alias("octets"))
    return spark.readStream.table("messages").select(F.to_json(answer).alias("value"))
