#!/usr/bin/env python3
"""Rows a second of the Spark source beside Spark's own Parquet reader, on the same rows.

Starts a broker, publishes messages to a stream, and reads them in alternation: over the network, from the data
directory, and from uncompressed Parquet that Spark wrote of them; into Spark's noop sink. Prints medians.

usage: bench/spark/read.py [--rows 1000000] [--octets 1024] [--rounds 5] [--cores 2] [--folder DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pika
from pyspark.sql import DataFrame, SparkSession

from forebay.client.blocks import BlockClient
from forebay.log import block
from forebay.spark import session

QUEUE = "bench"
TICKS_S = os.sysconf("SC_CLK_TCK")
HOUSEKEEPING_S = 8  # full WAL files become segments after 5 s
COLUMNS = {
    "all columns": None,
    "as from Kafka": "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "timestampType int",
    "value, offset": "value binary, offset bigint",
}


def start_broker(data: Path) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A broker on free ports; its process and ready line."""
    command = [sys.executable, "-m", "forebay", "serve", "--data", str(data)]
    command += ["--amqp", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"]
    environment = {**os.environ, "FOREBAY_MQTT_WEBSOCKET": ""}  # its port is not free beside another broker
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline().removeprefix("ready "))


def publish(server: str, rows: int, octets: int) -> None:
    """Fill the stream, and wait until it is on the disk and housekeeping is through."""
    host, _, port = server.rpartition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    channel = connection.channel()
    channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "stream"})
    properties = pika.BasicProperties(content_type="application/octet-stream", delivery_mode=2)
    noise = os.urandom(octets + 4096)
    started = time.perf_counter()
    for row in range(rows):
        skip = row & 4095
        channel.basic_publish("", QUEUE, (b"%012d" % row + noise[skip : skip + octets])[:octets], properties)
    with BlockClient.connect(server, "guest", "guest") as client:
        while client.describe(QUEUE).end < rows:
            connection.process_data_events(0.05)
    print(f"published {rows} rows of {octets} octets in {time.perf_counter() - started:.0f} s", flush=True)
    connection.close()
    time.sleep(HOUSEKEEPING_S)


def cpu_s(root: int) -> dict[str, float]:
    """CPU seconds so far of a process and all below it, Java and Python apart."""
    parents: dict[int, list[int]] = {}
    used: dict[int, tuple[str, float]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            text = Path(f"/proc/{name}/stat").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        command, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        parents.setdefault(int(fields[1]), []).append(int(name))
        # Its own time and that of children who have ended.
        used[int(name)] = (command, sum(map(int, fields[11:15])) / TICKS_S)
    total = {"java": 0.0, "python": 0.0}
    queue = [root]
    while queue:
        pid = queue.pop()
        queue += parents.get(pid, [])
        command, seconds = used.get(pid, ("", 0.0))
        total["java" if command == "java" else "python"] += seconds
    return total


def measure(frame: DataFrame, broker: int, rows: int) -> dict[str, float]:
    """One read: rows a second, and CPU microseconds a row by who used it."""
    before, broker_before = cpu_s(os.getpid()), cpu_s(broker)["python"]
    started = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - started
    after, broker_after = cpu_s(os.getpid()), cpu_s(broker)["python"]
    # The broker is a child of this process: its share is counted once, as its own.
    served = broker_after - broker_before
    return {
        "krow/s": rows / seconds / 1000,
        "jvm": (after["java"] - before["java"]) / rows * 1e6,
        "python": (after["python"] - before["python"] - served) / rows * 1e6,
        "broker": served / rows * 1e6,
    }


def frames(spark: SparkSession, server: str, data: Path, parquet: Path, schema: str | None) -> dict[str, DataFrame]:
    """The ways to read the rows."""
    network = spark.read.format("forebay").option("forebay.servers", server).option("subscribe", QUEUE)
    files = spark.read.format("forebay").option("forebay.data", str(data)).option("subscribe", QUEUE)
    columns = spark.read.parquet(str(parquet))
    if schema is not None:
        network, files = network.schema(schema), files.schema(schema)
        columns = columns.select([field.split()[0] for field in schema.split(", ")])
    return {"network": network.load(), "data directory": files.load(), "parquet": columns}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--octets", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", help="where to put the data; a temporary folder if absent")
    options = parser.parse_args()
    if not str(block.__file__).endswith(".so"):
        print("warning: this is not the compiled build", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="forebay-bench-", dir=options.folder))
    process, ready = start_broker(folder / "data")
    config = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    spark = session(f"local[{options.cores}]", "bench", config)
    try:
        publish(str(ready["amqp"]), options.rows, options.octets)
        run(spark, ready, folder, options.rows, options.rounds)
    finally:
        spark.stop()
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder)


def run(spark: SparkSession, ready: dict[str, Any], folder: Path, rows: int, rounds: int) -> None:
    """All reads in alternation, and the table."""
    server, data, parquet = str(ready["amqp"]), folder / "data", folder / "parquet"
    whole = spark.read.format("forebay").option("forebay.servers", server).option("subscribe", QUEUE).load()
    whole.write.option("compression", "none").parquet(str(parquet))
    results: dict[tuple[str, str], list[dict[str, float]]] = {}
    for turn in range(rounds + 1):
        for columns, schema in COLUMNS.items():
            for way, frame in frames(spark, server, data, parquet, schema).items():
                result = measure(frame, int(ready["pid"]), rows)
                if turn:  # the first round warms up the JVM and the page cache
                    results.setdefault((columns, way), []).append(result)
    print(f"\n{'columns':15} {'read from':15} {'krow/s':>8} {'of parquet':>10}   CPU us/row: jvm  python  broker")
    for (columns, way), found in results.items():
        middle = {name: statistics.median(each[name] for each in found) for name in found[0]}
        anchor = statistics.median(each["krow/s"] for each in results[columns, "parquet"])
        print(
            f"{columns:15} {way:15} {middle['krow/s']:8.0f} {middle['krow/s'] / anchor:9.2f}x"
            f" {middle['jvm']:17.2f} {middle['python']:7.2f} {middle['broker']:7.2f}"
        )


if __name__ == "__main__":
    main()
