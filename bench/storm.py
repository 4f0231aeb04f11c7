#!/usr/bin/env python3
"""Thousands of MQTT clients that come back at once, and what a bystander feels of it.

usage: bench/storm.py [--count 5000] [--peer mosq]

Each client has a durable session with one QoS 1 subscription. They connect; then all connections are cut and come back
at once; then the broker is killed with SIGKILL, started again, and they come back at once. A bystander publishes at
QoS 1 all the time. Prints for each wave the time until the last client is back, the broker's CPU a client, and the
bystander's slowest answers. The clients are one Python process, which takes most of the time on a machine of 2 cores:
the CPU of the broker is the figure. `--peer` measures a peer of bench/load/peers.sh beside it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from connections import packet, text

HERE = Path(__file__).resolve().parent
PEERS = HERE / "load" / "peers.sh"
LOGIN = text("guest") + text("guest")
EXPIRY = bytes([5, 0x11, 0, 0, 14, 16])  # properties of a CONNECT: the session outlives it by an hour
RETRY_S = 0.05
PAUSE_S = 0.005  # between two publishes of the bystander
MILLISECONDS = 1000
MICROSECONDS = 1_000_000
TICKS = os.sysconf("SC_CLK_TCK")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Broker:
    """What is measured: our own broker on a data folder, or a peer."""

    def __init__(self, peer: str, count: int) -> None:
        self.peer = peer
        self.folder = Path(tempfile.mkdtemp(prefix="forebay-storm-"))
        self.config = self.folder / "options.yaml"
        options = {
            "amqp": "",
            "mqtt_websocket": "",
            "http": "",
            "prometheus": "",
            "connections_max": count + 10,
            "mqtt": "127.0.0.1:0",
        }
        self.options: dict[str, object] = options
        self.port = 0
        self.pid = 0

    def start(self) -> None:
        if self.peer:
            shown = subprocess.run([str(PEERS), self.peer, "start"], check=True, capture_output=True, text=True).stdout
            words = shown.split()
            self.port, self.pid = int(words[words.index("port") + 1]), int(words[words.index("pid") + 1])
            return
        self.config.write_text(json.dumps(self.options), encoding="utf-8")  # JSON is YAML
        command = [sys.executable, "-m", "forebay", "serve", "--config", str(self.config)]
        process = subprocess.Popen(
            [*command, "--data", str(self.folder / "data")],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline().removeprefix("ready "))
        self.options["mqtt"] = ready["mqtt"]
        self.port, self.pid = int(ready["mqtt"].rpartition(":")[2]), process.pid

    def kill(self) -> None:
        if self.peer:
            subprocess.run([str(PEERS), self.peer, "kill9"], check=True, stdout=subprocess.DEVNULL)
        else:
            os.kill(self.pid, 9)
            os.waitpid(self.pid, 0)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


async def client(broker: Broker, number: int, subscribe: bool) -> Streams:
    """A client that has its CONNACK; one that is not let in comes again."""
    while True:
        try:
            source = f"127.0.0.{2 + number // 5000}"
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port, local_addr=(source, 0))
            writer.write(packet(0x10, text("MQTT") + b"\x05\xc0\0\0" + EXPIRY + text(f"storm-{number}") + LOGIN))
            head = await reader.readexactly(2)
            answer = await reader.readexactly(head[1])
            assert answer[1] == 0, answer
            if subscribe:
                writer.write(packet(0x82, b"\0\1\0" + text(f"devices/{number}/commands") + b"\1"))
                head = await reader.readexactly(2)
                await reader.readexactly(head[1])
            return reader, writer
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(RETRY_S)


def stand_by(broker: Broker, asked: Connection) -> None:
    """A publisher that goes on all the time, in a process of its own; answers how long its PUBACKs took, in seconds."""
    took_s: list[float] = []

    async def publish() -> None:
        reader, writer = await client(broker, 999_999, False)
        while True:
            began = time.monotonic()
            writer.write(packet(0x32, text("bystander") + b"\0\1\0" + b"x" * 64))
            head = await reader.readexactly(2)
            await reader.readexactly(head[1])
            took_s.append(time.monotonic() - began)
            await asyncio.sleep(PAUSE_S)

    async def run() -> None:
        while True:
            task = asyncio.create_task(publish())
            while not task.done():
                await asyncio.sleep(PAUSE_S)
                if asked.poll():
                    broker.port = asked.recv()
                    asked.send(sorted(took_s))
                    took_s.clear()
            task.exception()

    asyncio.run(run())


class Bystander:
    """The process that publishes."""

    def __init__(self, broker: Broker) -> None:
        self.ask, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=stand_by, args=(broker, theirs), daemon=True)
        self.process.start()

    def slowest(self, port: int) -> str:
        """Of the answers since the last call."""
        self.ask.send(port)
        took = self.ask.recv() or [0.0]
        return f"{took[len(took) * 99 // 100] * MILLISECONDS:.0f} / {took[-1] * MILLISECONDS:.0f} ms of {len(took)}"


async def wave(broker: Broker, bystander: Bystander, what: str, count: int, subscribe: bool) -> list[Streams]:
    """All connect at once."""
    cpu_s, began = broker.cpu_s(), time.monotonic()
    clients = await asyncio.gather(*[client(broker, number, subscribe) for number in range(count)])
    seconds, spent_s = time.monotonic() - began, broker.cpu_s() - cpu_s
    print(
        f"{what:<28} all back in {seconds:5.1f} s, {spent_s / count * MICROSECONDS:5.0f} us CPU a client, "
        f"bystander p99 / worst {bystander.slowest(broker.port)}"
    )
    return clients


async def measure(broker: Broker, count: int) -> None:
    bystander = Bystander(broker)
    await asyncio.sleep(1)
    bystander.slowest(broker.port)
    clients = await wave(broker, bystander, "connect and subscribe", count, True)
    for _, writer in clients:
        writer.transport.abort()
    clients = await wave(broker, bystander, "all connections cut", count, False)
    broker.kill()
    for _, writer in clients:
        writer.transport.abort()
    broker.start()
    clients = await wave(broker, bystander, "broker killed", count, False)
    bystander.process.kill()
    for _, writer in clients:
        writer.transport.abort()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--peer", default="")
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # of this process, and of the broker it starts
    broker = Broker(options.peer, options.count)
    broker.start()
    try:
        asyncio.run(measure(broker, options.count))
    finally:
        broker.kill()
        shutil.rmtree(broker.folder)


if __name__ == "__main__":
    main()
