#!/usr/bin/env python3
"""What a micro-batch costs, and how long a message takes from a sensor to a row.

Starts a broker. First a backlog is read in batches of fixed length: their time, and what of it Spark spends on what.
Then messages are published over MQTT at a steady rate while a query runs: the time from publishing each to the call
of the sink with its row. Prints medians and 99th percentiles, in milliseconds.

usage: bench/spark/stream.py [--rows 100000] [--octets 1024] [--batch 2000] [--rate 500] [--seconds 20] [--cores 2]
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from typing import Any

import paho.mqtt.client as mqtt
from harness import Harness, noise, parser
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

BACKLOG = "backlog"
SENSORS = "sensors"
WARM_BATCHES = 10
WARM_S = 5
PARTS = ("triggerExecution", "latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")


def stream(bench: Harness, queue: str, **options: object) -> DataFrame:
    reader = bench.spark.readStream.format("forebay").option("forebay.servers", bench.server)
    named = {name: str(value) for name, value in options.items()}
    return reader.option("subscribe", queue).options(**named).schema("value binary, offset bigint").load()


def backlog(bench: Harness, batch: int) -> list[dict[str, Any]]:
    """Progress of each batch of a query that reads what is there."""
    frame = stream(bench, BACKLOG, startingOffsets="earliest", maxOffsetsPerTrigger=batch)
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", tempfile.mkdtemp(dir=bench.folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [json.loads(each.json) if hasattr(each, "json") else each for each in query.recentProgress]


class Sensor:
    """A publisher at a steady rate; each body is the time it was sent."""

    def __init__(self, bench: Harness, rate: int) -> None:
        self.pause_s = 1 / rate
        self.stopped = threading.Event()
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
        host, _, port = str(bench.ready["mqtt"]).rpartition(":")
        self.client.connect(host, int(port))
        self.client.loop_start()
        self.thread = threading.Thread(target=self.publish)

    def publish(self) -> None:
        due = time.time()
        while not self.stopped.is_set():
            self.client.publish(SENSORS, b"%d" % time.time_ns(), qos=1)
            due += self.pause_s
            time.sleep(max(0.0, due - time.time()))

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()
        self.client.loop_stop()
        self.client.disconnect()


def end_to_end(bench: Harness, rate: int, seconds: int) -> list[float]:
    """Milliseconds from publishing to the sink, of each message after the warm-up."""
    bench.declare(SENSORS)
    connection = bench.connect()
    connection.channel().queue_bind(SENSORS, "amq.topic", SENSORS)
    found: list[float] = []
    warm = time.time() + WARM_S

    def sink(batch: DataFrame, _: int) -> None:
        rows = batch.select("value").collect()
        now_ns = time.time_ns()
        if time.time() > warm:
            found.extend([(now_ns - int(bytes(row[0]))) / 1e6 for row in rows])

    frame = stream(bench, SENSORS)
    query: StreamingQuery = (
        frame.writeStream.foreachBatch(sink).option("checkpointLocation", tempfile.mkdtemp(dir=bench.folder)).start()
    )
    sensor = Sensor(bench, rate)
    sensor.thread.start()
    time.sleep(WARM_S + seconds)
    sensor.stop()
    query.stop()
    connection.close()
    return found


def shown(name: str, values: Sequence[float]) -> str:
    ordered = sorted(values)
    worst = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"| {name} | {statistics.median(ordered):.0f} | {worst:.0f} |"


def main() -> None:
    options = parser(__doc__, rows=100_000)
    options.add_argument("--batch", type=int, default=2000, help="offsets a batch of the backlog")
    options.add_argument("--rate", type=int, default=500, help="messages a second over MQTT")
    options.add_argument("--seconds", type=int, default=20)
    given = options.parse_args()
    with Harness(given) as bench:
        bench.publish(BACKLOG, bench.rows, noise(bench.octets))
        batches = [each for each in backlog(bench, given.batch) if each["numInputRows"]][WARM_BATCHES:]
        print(f"| ms, batches of {given.batch} rows | median | 99 % |\n|---|---:|---:|")
        for part in PARTS:
            print(shown(part, [each["durationMs"].get(part, 0) for each in batches]))
        print(shown("MQTT publish to sink", end_to_end(bench, given.rate, given.seconds)), flush=True)


if __name__ == "__main__":
    main()
