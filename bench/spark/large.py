#!/usr/bin/env python3
"""A log of 10 GB: written, counted, read, aggregated and tiered by Spark, with the most memory that each party had.

Then a publisher's rate beside nothing, and beside a read of the whole log: at full speed, and at a quarter of it.

usage: bench/spark/large.py [--rows 10000000] [--octets 1024] [--cores 2] [--folder DIR]
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pika
from harness import Harness, noise, noop, parser
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.spark import read, tier

QUEUE = "large"
BESIDE = "beside"
ROWS_A_WRITE = 2_000_000
LOOK_S = 0.2
PUBLISH_S = 15.0
PACED = 0.25  # of full speed: what leaves a reader its share of two cores
SLOT_S = 0.005
MEBIBYTE = 1 << 20
PARTIES = ("driver", "JVM", "Python workers", "broker")


class Memory:
    """The most that the JVM, Python and the broker had in memory, sampled; Python is this process and all workers."""

    def __init__(self, broker: int) -> None:
        self.broker = broker
        self.most: dict[str, int] = {}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def sample(self) -> None:
        while not self.ended.wait(LOOK_S):
            for party, octets in self.now().items():
                self.most[party] = max(self.most.get(party, 0), octets)

    def now(self) -> dict[str, int]:
        """Resident octets, shared ones counted in each process."""
        parents: dict[int, tuple[int, str, int]] = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                text = Path(f"/proc/{name}/stat").read_text(encoding="ascii", errors="replace")
                pages = int(Path(f"/proc/{name}/statm").read_text(encoding="ascii").split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            command, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
            parents[int(name)] = int(fields[1]), command, pages * os.sysconf("SC_PAGE_SIZE")
        found = dict.fromkeys(PARTIES, 0)
        for pid, (_, command, octets) in parents.items():
            above = pid
            while above in parents and above != os.getpid():
                above = parents[above][0]
            if above != os.getpid():
                continue
            party = "driver" if pid == os.getpid() else "broker" if pid == self.broker else ""
            found[party or ("JVM" if command == "java" else "Python workers")] += octets
        return found


def step(bench: Harness, memory: Memory, name: str, work: Callable[[], object]) -> None:
    """One line of the table."""
    memory.most = {}
    before, started = bench.cpu(), time.perf_counter()
    work()
    seconds, cpu = time.perf_counter() - started, bench.cpu().since(before).us_a_row(bench.rows)
    most = " | ".join(
        f"{memory.most.get(party, 0) // MEBIBYTE}" for party in ("driver", "JVM", "Python workers", "broker")
    )
    used = f"{cpu.jvm:.2f} + {cpu.python:.2f} + {cpu.broker:.2f}"
    print(f"| {name} | {seconds:.0f} | {bench.rows / seconds / 1000:.0f} | {used} | {most} |", flush=True)


def write(bench: Harness) -> None:
    """Bodies that are all different, each some number and noise."""
    body = noise(bench.octets)(0)[16:]
    bench.declare(QUEUE)
    for first in range(0, bench.rows, ROWS_A_WRITE):
        rows = bench.spark.range(first, min(first + ROWS_A_WRITE, bench.rows), 1, 8)
        bodies = rows.select(
            F.concat(F.lpad(F.col("id").cast("string"), 16, "0").cast("binary"), F.lit(body)).alias("value")
        )
        sink = bodies.write.format("forebay").option("forebay.servers", bench.server).option("topic", QUEUE)
        sink.mode("append").save()


def publish_rate(bench: Harness, pace: float = 0.0) -> float:
    """Messages a second of one AMQP publisher with confirms, for a while: at full speed, or at so many a second."""
    connection = bench.connect()
    channel = connection.channel()
    body = bytes(bench.octets)
    with bench.client() as client:
        first = client.describe(BESIDE).end
        started = time.perf_counter()
        sent = 0
        while (passed := time.perf_counter() - started) < PUBLISH_S:
            if pace and sent >= passed * pace:
                connection.process_data_events(SLOT_S)
                continue
            channel.basic_publish("", BESIDE, body, pika.BasicProperties(delivery_mode=2))
            sent += 1
        seconds = time.perf_counter() - started
        done = client.describe(BESIDE).end - first
    connection.close()
    return done / seconds


def main() -> None:
    with Harness(parser(__doc__, rows=10_000_000).parse_args()) as bench:
        memory = Memory(bench.process.pid)
        options = {"forebay.servers": bench.server}
        heads = ["", "seconds", "krow/s", "CPU µs/row: JVM + Python + broker", *[f"{each}, MiB" for each in PARTIES]]
        print("| " + " | ".join(heads) + " |")
        print("|---|---:|---:|---|---:|---:|---:|---:|")
        step(bench, memory, "write", lambda: write(bench))
        step(bench, memory, "count", lambda: read(bench.spark, QUEUE, options, columns=["offset"]).count())
        step(bench, memory, "read", lambda: noop(bench.load(QUEUE)))
        kind = F.substring(F.col("value"), 15, 2)
        step(
            bench, memory, "aggregate", lambda: noop(bench.load(QUEUE).groupBy(kind).agg(F.count("*"), F.sum("offset")))
        )
        lake = str(bench.folder / "lake")
        step(bench, memory, "tier into Parquet", lambda: tier(bench.spark, QUEUE, options, lake, "parquet", once=True))
        bench.declare(BESIDE)
        alone = publish_rate(bench)
        ended = threading.Event()

        def reading() -> None:
            while not ended.is_set():
                noop(bench.load(QUEUE))

        thread = threading.Thread(target=reading)
        thread.start()
        time.sleep(3)
        beside = publish_rate(bench)
        paced = publish_rate(bench, alone * PACED)
        ended.set()
        thread.join()
        print(f"publisher alone {alone:.0f} messages/s, beside a reader {beside:.0f}: {beside / alone:.2f}x")
        print(f"publisher that sends {alone * PACED:.0f} messages/s, beside a reader: {paced / alone / PACED:.2f}x")


if __name__ == "__main__":
    main()
