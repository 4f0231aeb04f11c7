#!/usr/bin/env python3
"""What it costs to start, to start again with many queues full of messages, and to stop.

usage: bench/restart.py [--queues 1000] [--octets 200000000] [--size 1024] [--spread] [--rounds 3]

Prints the CPU time of `forebay --help`, `forebay --version` and `forebay queue list --help`, and of a broker on an
empty folder until it is ready. Then durable queues are declared and messages published with confirms, queue by queue,
or with `--spread` one to each queue in turn, so that nearly every message is a block of its own. The broker is killed
with SIGKILL and started again; then stopped with SIGTERM and started again. Each start is measured until its ready
line, in seconds of the process and on the clock. `--rounds` starts are made of each kind: the least time is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from forebay.client.amqp import AmqpClient

FOREBAY = (sys.executable, "-m", "forebay")
COMMANDS = ("--help", "--version", "queue list --help")
OPTIONS = ("amqp", "http", "mqtt", "mqtt_websocket", "prometheus")
WINDOW = 2000  # messages without a confirm
SETTLE_S = 15.0  # full files of the write-ahead log are rewritten in the background, folders get their names
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_OCTETS = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Started:
    """A broker that is ready, and what that took."""

    process: subprocess.Popen[str]
    amqp: str
    used_s: float
    took_s: float

    def text(self) -> str:
        return f"{self.used_s:.2f} s of CPU, {self.took_s:.2f} s, {resident_mib(self.process.pid)} MiB resident"


def used_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mib(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE_OCTETS >> 20


def start(folder: Path) -> Started:
    """A broker on the data folder in there."""
    config = folder / "options.yaml"
    config.write_text(json.dumps(dict.fromkeys(OPTIONS, "127.0.0.1:0")), encoding="utf-8")  # JSON is YAML
    began = time.monotonic()
    process = subprocess.Popen(
        [*FOREBAY, "serve", "--config", str(config), "--data", str(folder / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the audit log: a line for each queue
        text=True,
    )
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline().removeprefix("ready "))
    return Started(process, ready["amqp"], used_s(process.pid), time.monotonic() - began)


def stop(broker: Started, how: signal.Signals) -> str:
    """End a broker; what that took."""
    before = used_s(broker.process.pid)
    began = time.monotonic()
    broker.process.send_signal(how)
    _, _, used = os.wait4(broker.process.pid, 0)
    took_s = time.monotonic() - began
    broker.process.returncode = 0  # it is known to have ended
    return f"{used.ru_utime + used.ru_stime - before:.2f} s of CPU, {took_s:.2f} s"


def command_s(words: str) -> float:
    """CPU seconds of one command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*FOREBAY, *words.split()], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def fill(address: str, queues: int, octets: int, size: int, spread: bool) -> None:
    """Declare the queues and publish so many octets to them; all are confirmed on return."""
    names = [f"orders-{number}" for number in range(queues)]
    body = b"x" * size
    count = octets // size
    with AmqpClient.connect(address, "guest", "guest") as client:
        began = time.monotonic()
        for name in names:
            client.declare_queue(name)
        print(f"{queues} durable queues declared in {time.monotonic() - began:.1f} s", flush=True)
        client.select_confirms()
        began = time.monotonic()
        for number in range(count):
            client.publish("", names[number % queues if spread else number * queues // count], b"\0\0", body)
            if client.unconfirmed >= WINDOW:
                client.settle(WINDOW // 2)
        client.settle(0)
        print(f"{count} messages of {size} octets published in {time.monotonic() - began:.1f} s", flush=True)


def best_start(folder: Path, rounds: int, how: signal.Signals) -> tuple[Started, str]:
    """Start so often, ending each but the last so; the last, and what the cheapest took."""
    texts: list[tuple[float, str]] = []
    while True:
        broker = start(folder)
        texts.append((broker.used_s, broker.text()))
        if len(texts) == rounds:
            return broker, min(texts)[1]
        stop(broker, how)


def measure(folder: Path, options: argparse.Namespace) -> None:
    for words in COMMANDS:
        print(f"forebay {words}: {min(command_s(words) for _ in range(options.rounds)):.2f} s of CPU")
    broker, text = best_start(folder, options.rounds, signal.SIGTERM)
    print(f"start on an empty folder: {text}")
    try:
        fill(broker.amqp, options.queues, options.octets, options.size, options.spread)
        before = used_s(broker.process.pid)
        time.sleep(SETTLE_S)
        idle = 100 * (used_s(broker.process.pid) - before) / SETTLE_S
        print(f"idle for {SETTLE_S:.0f} s, background work included: {idle:.1f} % of a core")
        stop(broker, signal.SIGKILL)
        broker, text = best_start(folder, options.rounds, signal.SIGKILL)
        print(f"start after SIGKILL: {text}")
        print(f"stop: {stop(broker, signal.SIGTERM)}")
        broker, text = best_start(folder, options.rounds, signal.SIGTERM)
        print(f"start after SIGTERM: {text}")
        time.sleep(SETTLE_S)
        before = used_s(broker.process.pid)
        time.sleep(SETTLE_S)
        idle = 100 * (used_s(broker.process.pid) - before) / SETTLE_S
        print(f"idle: {idle:.1f} % of a core, {resident_mib(broker.process.pid)} MiB resident")
    finally:
        if broker.process.poll() is None:
            broker.process.kill()
            broker.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--octets", type=int, default=200_000_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--spread", action="store_true", help="one message to each queue in turn")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-restart-"))
    try:
        measure(folder, options)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
