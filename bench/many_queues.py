#!/usr/bin/env python3
"""What a broker with many queues and topic bindings costs: while nothing happens, and for one more of each.

usage: bench/many_queues.py [--queues 10000] [--bindings 3] [--seconds 30] [--times 300] [--beside VENV/bin/python ...]

CPU is that of the broker's process, user and system. Idle is a share of one core. An operation is one request of AMQP
and its answer: declare and delete of a durable queue, a bind to a topic exchange, and a publish with a confirm right
after a bind, which finds no route in the memo. Each is measured on an empty broker, then beside the queues.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pika
from pika.adapters.blocking_connection import BlockingChannel

EXCHANGE = "amq.topic"
SETTLE_S = 8  # more than the broker's interval between two samples


def start(python: str, folder: Path) -> tuple[subprocess.Popen[str], int]:
    """Start a broker of this Python's build with all listeners; its process and AMQP port."""
    config = folder / "options.yaml"
    values = dict.fromkeys(("amqp", "mqtt", "mqtt_websocket", "http", "prometheus"), "127.0.0.1:0")
    config.write_text(json.dumps(values), encoding="utf-8")  # JSON is YAML
    command = [python, "-m", "forebay", "serve", "--config", str(config), "--data", str(folder / "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=folder)
    assert process.stdout is not None
    line = process.stdout.readline()
    while not line.startswith("ready "):
        assert line, f"{python} starts no broker"
        line = process.stdout.readline()
    return process, int(json.loads(line.removeprefix("ready "))["amqp"].rpartition(":")[2])


def cpu_s(pid: int) -> float:
    """CPU seconds of a process, by its clock."""
    return time.clock_gettime((~pid << 3) | 2)


def idle_share(pid: int, seconds: float) -> float:
    """The share of a core that the broker takes while nobody asks anything, in percent."""
    time.sleep(SETTLE_S)
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - began)


def each_ms(pid: int, times: int, act: Callable[[int], object]) -> float:
    """CPU milliseconds of an operation."""
    before = cpu_s(pid)
    for number in range(times):
        act(number)
    return 1000 * (cpu_s(pid) - before) / times


def operations(pid: int, channel: BlockingChannel, times: int) -> dict[str, float]:
    """CPU milliseconds of each operation; all that was made is gone afterwards."""
    found: dict[str, float] = {}
    found["declare"] = each_ms(pid, times, lambda at: channel.queue_declare(f"new-{at}", durable=True))
    found["bind"] = each_ms(pid, times, lambda at: channel.queue_bind(f"new-{at}", EXCHANGE, f"new.{at}.*"))
    found["delete"] = each_ms(pid, times, lambda at: channel.queue_delete(f"new-{at}"))
    channel.queue_declare("target", durable=True)
    used = 0.0
    for at in range(times):
        channel.queue_bind("target", EXCHANGE, f"target.{at}.*")
        before = cpu_s(pid)
        channel.basic_publish(EXCHANGE, f"target.{at}.x", b"x")
        used += cpu_s(pid) - before
    found["publish after a bind"] = 1000 * used / times
    channel.queue_delete("target")
    return found


def fill(channel: BlockingChannel, queues: int, bindings: int) -> None:
    for number in range(queues):
        channel.queue_declare(f"queue-{number}", durable=True)
        for binding in range(bindings):
            channel.queue_bind(f"queue-{number}", EXCHANGE, f"sensor.{number}.{binding}.*")


def measure(python: str, options: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        process, port = start(python, Path(folder))
        try:
            connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port, heartbeat=0))
            channel = connection.channel()
            channel.confirm_delivery()
            operations(process.pid, channel, options.times)  # warm
            idle = idle_share(process.pid, options.seconds)
            empty = operations(process.pid, channel, options.times)
            fill(channel, options.queues, options.bindings)
            print(f"{python}, {options.queues} queues with {options.bindings} topic bindings each", flush=True)
            print(f"  idle: {idle:.2f} % empty, {idle_share(process.pid, options.seconds):.2f} % of a core", flush=True)
            for name, ms in operations(process.pid, channel, options.times).items():
                print(f"  {name}: {empty[name]:.3f} ms empty, {ms:.3f} ms, ratio {ms / empty[name]:.2f}", flush=True)
        finally:
            process.terminate()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--bindings", type=int, default=3, help="of each queue")
    parser.add_argument("--seconds", type=float, default=30, help="that the broker is idle")
    parser.add_argument("--times", type=int, default=300, help="that each operation is done")
    parser.add_argument("--beside", nargs="*", default=[], help="Pythons of other builds")
    options = parser.parse_args()
    for python in (sys.executable, *options.beside):
        measure(python, options)


if __name__ == "__main__":
    main()
