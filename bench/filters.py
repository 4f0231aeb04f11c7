#!/usr/bin/env python3
"""What consumers with filters cost, in microseconds of the processor a message of a queue: found, delivered, settled.

The first line is a queue whose consumer has no filter. Build the compiled broker first (`python setup.py build_ext
--inplace`), or the figures are those of the interpreter.

usage: bench/filters.py [MESSAGES]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from forebay.broker.properties import MessageProperties
from forebay.core.message import AMQP091, Properties
from forebay.filter.parser import parse
from forebay.log.block_files import BlockFiles
from forebay.log.queue_log import BlockCache, QueueLog
from forebay.queue.declaration.limits import Limits
from forebay.queue.leases.lease import UNLIMITED, Consumer, Delivery
from forebay.queue.work import work_group
from forebay.queue.work.work_group import WorkGroup
from forebay.server.system.disk import DataDisk
from forebay.wire.amqp091.properties import encode_properties

ROUNDS = 5
BLOCK = 256  # messages of one turn
IDLE_TURNS = 1000
REGIONS = ("eu", "us", "asia")

# What the consumers of one queue want.
SCENARIOS: list[tuple[str, list[str]]] = [
    ("no filter", [""]),
    ("routing key", ["routing_key = 'orders.7'"]),
    ("routing key, LIKE", ["routing_key LIKE '^orders[.]7$'"]),
    ("header", ["header.region = 'eu'"]),
    ("body, nothing wanted", ["/order/qty > 1000"]),
    ("body, each second in runs of 50", ["/order/qty >= 50"]),
    ("body, two conditions, 1 of 33 wanted", ["/order/symbol = 'IBM' AND /order/qty > 90"]),
    ("four filters on the body, nothing wanted", [f"/order/qty > {most}" for most in (1000, 2000, 3000, 4000)]),
    ("four that share all among them", [f"/n % 4 = {part}" for part in range(4)]),
]


def body(number: int) -> bytes:
    """An order of some 200 octets."""
    order = {"symbol": ("IBM", "AAPL", "SAP")[number % 3], "qty": number % 100, "price": 12.5, "side": "buy"}
    return json.dumps({"n": number, "order": order, "customer": f"customer-{number:08}", "note": "x" * 80}).encode()


def filled(folder: str, count: int) -> QueueLog:
    """A log in memory of so many orders."""
    log = QueueLog(1, "orders", False, BlockFiles(DataDisk(folder)), BlockCache(1 << 30))
    regions = []
    for region in REGIONS:
        made = Properties()
        made.headers = [("region", region), ("desk", "ny")]
        regions.append(encode_properties(made))
    for number in range(count):
        log.append(AMQP091, b"", b"orders.%d" % (number % 50), regions[number % len(regions)], body(number))
        if number % BLOCK == BLOCK - 1:
            log.seal(1)
    log.seal(1)
    return log


def group_of(log: QueueLog, texts: list[str]) -> WorkGroup:
    group = WorkGroup(1, b"", b"", log, 0, Limits(), MessageProperties())
    for number, text in enumerate(texts):
        consumer = Consumer(number, 1, 1, number, 0, b"t", False, UNLIMITED)
        consumer.queue_name = b"orders"
        if text:
            group.select(consumer, parse(text))
        group.add(consumer)
    return group


def drain(group: WorkGroup) -> int:
    """Turns until there is nothing more to deliver, all of it acknowledged; how many were."""
    taken = 0
    more = True
    while more:
        out: list[Delivery] = []
        more = group.dispatch(1, out) or bool(out)
        for delivery in out:
            assert delivery.lease is not None
            taken += delivery.count
            group.ack(delivery.lease, delivery.lease.first, delivery.lease.count)
        group.look_after(1)
    return taken


def measure(log: QueueLog, texts: list[str]) -> tuple[float, float, int]:
    """Microseconds a message and an idle turn, the best of some rounds, and how many messages were wanted."""
    best = idle = float("inf")
    taken = 0
    for _ in range(ROUNDS):
        group = group_of(log, texts)
        begin = time.process_time()
        taken = drain(group)
        best = min(best, time.process_time() - begin)
        begin = time.process_time()
        for _ in range(IDLE_TURNS):
            group.dispatch(1, [])
        idle = min(idle, time.process_time() - begin)
    return best / (log.end - log.start) * 1e6, idle / IDLE_TURNS * 1e6, taken


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    build = "compiled" if work_group.__file__.endswith(".so") else "interpreted"
    with tempfile.TemporaryDirectory() as folder:
        log = filled(folder, count)
        print(f"{count:,} messages of {len(body(count))} octets, {build}\n")
        print("| consumers want | µs a message | µs an idle turn | messages given |")
        print("|---|---|---|---|")
        for name, texts in SCENARIOS:
            each, idle, taken = measure(log, texts)
            print(f"| {name} | {each:.2f} | {idle:.2f} | {taken:,} |")


if __name__ == "__main__":
    main()
