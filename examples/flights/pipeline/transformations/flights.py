"""The flights as a table that grows, and the late ones as messages."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

spark = SparkSession.active()
SERVERS = spark.conf.get("spark.forebay.servers")
FLIGHT = """
    id INT, month INT, day INT, hour INT, carrier STRING, flight INT, origin STRING, dest STRING,
    dep_delay DOUBLE, arr_delay DOUBLE, distance DOUBLE
"""
LATE_MINUTES = 120


@dp.table
def flights() -> DataFrame:
    """One row a flight; one that did not take off has no delay."""
    messages = (
        spark.readStream.format("forebay")
        .option("forebay.servers", SERVERS)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .schema("value binary")
        .load()
    )
    return messages.select(F.from_json(F.col("value").cast("string"), FLIGHT).alias("flight")).select("flight.*")


dp.create_sink("late", "forebay", {"forebay.servers": SERVERS, "topic": "late-flights"})


@dp.append_flow(target="late")
def late_flights() -> DataFrame:
    """Everybody who subscribes to the queue gets them, over AMQP or MQTT."""
    late = spark.readStream.table("flights").where(F.col("dep_delay") > LATE_MINUTES)
    told = F.struct("id", "carrier", "flight", "origin", "dest", "dep_delay")
    return late.select(F.to_json(told).alias("value"), F.lit("application/json").alias("content_type"))
