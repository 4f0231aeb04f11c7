#!/usr/bin/env python3
"""What tiering costs beside Spark's own way, and how soon a message is in a table.

The first table: all records of a stream into a new table of each format, in alternation with Spark reading the same
stream into Parquet files by its own writer. The second: messages published over MQTT at QoS 1 one after the other while
a tier job runs; from the publish until a look at the table shows the message.

usage: bench/spark/tier.py [--rows 1000000] [--octets 1024] [--rounds 5] [--cores 2] [--folder DIR]
                           [--messages 200] [--trigger "200 milliseconds"] [--only cost|latency]
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import sys
import threading
import time
from functools import partial
from pathlib import Path

import paho.mqtt.client as mqtt
from harness import Harness, Way, heading, noise, parser, table

from forebay.spark.jobs.tier import Tiered, tier
from forebay.spark.tables.opening import open_table

QUEUE = "bench"
LIVE = "live"
SPARK = "Spark's Parquet writer"
FORMATS = ("parquet", "delta", "iceberg")
COLUMNS = (
    "offset bigint, timestamp timestamp, key binary, value binary, exchange string, routing_key string, format int, "
    "raw_properties binary"
)
PAUSE_S = 0.05  # between two messages, and no multiple of a trigger
LOOK_S = 0.01
WARMING = 10  # messages, one after the other, each after the one before is in the table

numbers = itertools.count()


def fresh(bench: Harness) -> Path:
    return bench.folder / f"table-{next(numbers)}"


def clear(bench: Harness) -> None:
    """What earlier runs wrote: a disk has room for some of them only."""
    for folder in bench.folder.glob("table-*"):
        shutil.rmtree(folder)


def by_us(bench: Harness, format: str, compression: str) -> int:
    """All of the stream into a new table."""
    options = {"forebay.servers": bench.server}
    done = tier(
        bench.spark, QUEUE, options, str(fresh(bench)), format, once=True, compression=compression, compact=False
    )
    assert isinstance(done, Tiered)
    return done.rows


def by_spark(bench: Harness, compression: str) -> None:
    """The same by Spark: a stream as well, so that both pay for a micro-batch and its checkpoint."""
    folder = fresh(bench)
    rows = bench.spark.readStream.format("forebay").option("forebay.servers", bench.server).option("subscribe", QUEUE)
    frame = rows.option("startingOffsets", "earliest").schema(COLUMNS).load()
    frame = frame.selectExpr("*", f"'{QUEUE}' AS queue", "to_date(timestamp) AS day")
    writer = frame.writeStream.format("parquet").option("compression", compression).partitionBy("queue", "day")
    writer = writer.option("checkpointLocation", f"{folder}-checkpoint").trigger(availableNow=True)
    writer.start(str(folder)).awaitTermination()


def cost(bench: Harness) -> None:
    """CPU and rows a second of each way."""
    bench.publish(QUEUE, bench.rows, noise(bench.octets))
    print(heading("codec", "written by", anchor=SPARK))
    for compression in ("none", "zstd"):
        prepare = partial(clear, bench)
        ways = [Way(SPARK, partial(by_spark, bench, compression), prepare)]
        ways += [Way(f"tier, {format}", partial(by_us, bench, format, compression), prepare) for format in FORMATS]
        print(table(bench.alternate(ways), SPARK, compression), flush=True)


class Watcher:
    """Notes when the table has the record of each offset."""

    def __init__(self, folder: Path) -> None:
        self.table = open_table(str(folder))
        self.seen_s: list[float] = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.look)
        self.thread.start()

    def look(self) -> None:
        while not self.stopped.wait(LOOK_S):
            self.table.refresh()
            end = self.table.ends().get(LIVE, 0)
            now_s = time.perf_counter()
            self.seen_s += [now_s] * (end - len(self.seen_s))


def latency(bench: Harness, format: str, messages: int, trigger: str) -> list[float]:
    """Seconds from each publish until the table has the message."""
    host, _, port = str(bench.ready["mqtt"]).rpartition(":")
    folder = fresh(bench)
    connection = bench.connect()
    connection.channel().queue_delete(LIVE)
    connection.close()
    bench.declare(LIVE)
    query = tier(bench.spark, LIVE, {"forebay.servers": bench.server}, str(folder), format, trigger=trigger)
    assert not isinstance(query, Tiered)
    client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.connect(host, int(port))
    client.loop_start()
    watcher = Watcher(folder)
    published_s: list[float] = []
    try:
        for number in range(messages + WARMING):
            published_s.append(time.perf_counter())
            client.publish(f"$queue/{LIVE}/m", b"%012d" % number, qos=1).wait_for_publish()
            time.sleep(PAUSE_S)
            while len(watcher.seen_s) < min(len(published_s), WARMING):
                assert query.isActive, query.exception()
                time.sleep(LOOK_S)
        while len(watcher.seen_s) < len(published_s):
            assert query.isActive, query.exception()
            time.sleep(LOOK_S)
        print(f"{format}: {query.recentProgress[-1]['durationMs']}", file=sys.stderr)
    finally:
        watcher.stopped.set()
        watcher.thread.join()
        client.loop_stop()
        query.stop()
    pairs = list(zip(published_s, watcher.seen_s, strict=True))[WARMING:]
    return [seen_s - sent_s for sent_s, seen_s in pairs]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--messages", type=int, default=200)
    options.add_argument("--trigger", default="200 milliseconds")
    options.add_argument("--only", choices=["cost", "latency"])
    given = options.parse_args()
    with Harness(given) as bench:
        print(f"load average {os.getloadavg()[0]:.1f}", file=sys.stderr)
        if given.only != "latency":
            cost(bench)
        if given.only != "cost":
            print(f"\n{'from MQTT to':14} {'median s':>8} {'p95 s':>8} {'most s':>8}")
            for format in FORMATS:
                found = latency(bench, format, given.messages, given.trigger)
                p95 = statistics.quantiles(found, n=20)[-1]
                print(f"{format:14} {statistics.median(found):8.2f} {p95:8.2f} {max(found):8.2f}", flush=True)


if __name__ == "__main__":
    main()
