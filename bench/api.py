#!/usr/bin/env python3
"""What it costs a broker with many queues that somebody watches it over HTTP.

usage: bench/api.py [--queues 1000] [--seconds 20] [--rate 200]

Prints the broker's CPU as a share of one core while nothing happens at all. Then a client publishes to one queue
after the other, `--rate` messages a second, each confirmed by the disk, and the API is polled once a second. Prints
the share where nobody asks, which is what the publishes cost; where somebody asks for the overview and a page of 100
queues; and for the overview and all queues; and how long publishers wait meanwhile. Then how long single answers
take.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from forebay.client.amqp import AmqpClient

BODY = b"x" * 100
SETTLE_S = 6  # more than the broker's interval between two samples
ANSWERS = 20
OVERVIEW = "/api/overview"
PAGE = "/api/queues?page=1&page_size=100"
ALL = "/api/queues"
ROUNDS = (
    ("nobody asks", ()),
    ("overview and a page of 100 queues", (OVERVIEW, PAGE)),
    ("overview and all queues", (OVERVIEW, ALL)),
)
LOGIN = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}


class Asker:
    """One connection to the API that stays open."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=60)

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        """The answer's body; an error where it is none of success."""
        octets = None if body is None else json.dumps(body)
        headers = {**LOGIN, "Content-Type": "application/json"}
        self.connection.request(method, path, octets, headers)
        answer = self.connection.getresponse()
        found = answer.read()
        assert answer.status < 300, (path, answer.status, found)
        return found


def start(folder: Path) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A broker; its process and ready line."""
    config = folder / "options.yaml"
    values = {"amqp": "127.0.0.1:0", "http": "127.0.0.1:0", "mqtt": "", "mqtt_websocket": "", "prometheus": ""}
    config.write_text(json.dumps(values), encoding="utf-8")  # JSON is YAML
    process = subprocess.Popen(
        [sys.executable, "-m", "forebay", "serve", "--config", str(config), "--data", str(folder / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the audit log: a line for each queue
        text=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline().removeprefix("ready "))


def used_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def publish(address: str, queues: list[str], rate: int, took: list[float], ended: threading.Event) -> None:
    """Publish so many messages a second, a hundredth of a second's at a time, and note how long their confirms take."""
    with AmqpClient.connect(address, "guest", "guest") as client:
        client.select_confirms()
        sent = 0
        began = time.monotonic()
        while not ended.wait(0.01):
            due = int((time.monotonic() - began) * rate)
            if sent < due:
                published = time.monotonic()
                for number in range(sent, due):
                    client.publish("", queues[number % len(queues)], b"\0\0", BODY)
                client.settle(0)
                took.append(time.monotonic() - published)
                sent = due


def poll(asker: Asker, paths: tuple[str, ...], seconds: float) -> None:
    """Ask for all of these once a second."""
    due = time.monotonic()
    end = due + seconds
    while due < end:
        for path in paths:
            asker.ask("GET", path)
        due += 1.0
        time.sleep(max(0.0, due - time.monotonic()))


def measure(pid: int, ready: dict[str, str], options: argparse.Namespace) -> None:
    asker = Asker(ready["http"])
    queues = [f"orders-{number}" for number in range(options.queues)]
    for name in queues:
        arguments = {"durable": True, "arguments": {"x-max-length": 100}}
        asker.ask("PUT", f"/api/queues/%2F/{name}", arguments)
    time.sleep(SETTLE_S)
    before, began = used_s(pid), time.monotonic()
    time.sleep(options.seconds)
    share = 100 * (used_s(pid) - before) / (time.monotonic() - began)
    print(f"nobody asks and nobody publishes: {share:.2f} % of a core", flush=True)
    ended = threading.Event()
    took: list[float] = []
    publisher = threading.Thread(target=publish, args=(ready["amqp"], queues, options.rate, took, ended))
    publisher.start()
    try:
        time.sleep(SETTLE_S)
        asker = Asker(ready["http"])
        for name, paths in ROUNDS:
            took.clear()
            before = used_s(pid)
            began = time.monotonic()
            poll(asker, paths, options.seconds)
            share = 100 * (used_s(pid) - before) / (time.monotonic() - began)
            slow_ms = 1000 * statistics.quantiles(took, n=100)[98]
            confirms = f"confirms within {1000 * statistics.median(took):.1f} ms, 99 of 100 within {slow_ms:.1f} ms"
            print(f"{name}: {share:.2f} % of a core; {confirms}", flush=True)
        for path in (OVERVIEW, PAGE, ALL):
            times = []
            for _ in range(ANSWERS):
                began = time.monotonic()
                octets = len(asker.ask("GET", path))
                times.append(time.monotonic() - began)
            print(
                f"{path}: {octets} octets, {1000 * statistics.median(times):.1f} ms, {1000 * max(times):.1f} ms at most"
            )
    finally:
        ended.set()
        publisher.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=20, help="of each round")
    parser.add_argument("--rate", type=int, default=200, help="messages a second")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-api-"))
    process, ready = start(folder)
    try:
        measure(process.pid, ready, options)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
