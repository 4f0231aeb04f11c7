#!/usr/bin/env python3
"""What a confirmable publish over CoAP costs the broker.

usage: bench/coap.py [--python PYTHON] [--messages 20000] [--rounds 5] [--window 16] [--octets 64] [--aiocoap]

One client sends confirmable PUTs with `--window` requests under way, each of which is answered 2.04 when the message is
on disk. Prints the medians of the broker's CPU a publish and of the rate. With `--aiocoap` the server is aiocoap's,
with a resource that does nothing but answer.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from forebay.wire.coap.message import CONFIRMABLE, PUT, CoapMessage, encode_message
from forebay.wire.coap.request import URI_PATH, URI_QUERY

OPTIONS = [(URI_PATH, b"publish"), (URI_PATH, b"a"), (URI_QUERY, b"user=guest"), (URI_QUERY, b"password=guest")]
LISTENERS = ("amqp", "mqtt", "mqtt_websocket", "http", "prometheus")
CHANGED = 0x44
WAIT_S = 10
EMPTY_SERVER = """
import asyncio, json
import aiocoap
from aiocoap import resource

class Changed(resource.Resource):
    async def render_put(self, request):
        return aiocoap.Message(code=aiocoap.CHANGED)

async def main():
    site = resource.Site()
    site.add_resource(["publish", "a"], Changed())
    await aiocoap.Context.create_server_context(site, bind=("127.0.0.1", 5783), transports=["udp6"])
    print("ready " + json.dumps({"coap": "127.0.0.1:5783"}), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def start(python: str, folder: Path, is_aiocoap: bool) -> tuple[subprocess.Popen[str], int]:
    """Start a server, and return its process and port."""
    command = [python, "-c", EMPTY_SERVER]
    if not is_aiocoap:
        config = folder / "options.yaml"
        values = {**dict.fromkeys(LISTENERS, ""), "coap": "127.0.0.1:0"}
        config.write_text(json.dumps(values), encoding="utf-8")  # JSON is YAML
        command = [python, "-m", "forebay", "serve", "--config", str(config), "--data", str(folder / "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline().removeprefix("ready "))
    return process, int(ready["coap"].rpartition(":")[2])


def used_s(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kib(pid: int) -> int:
    """Return the memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS")))


def publish(port: int, messages: int, window: int, body: bytes) -> None:
    """Publish so many messages, and check that each is answered."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", port))
        client.settimeout(WAIT_S)
        sent = 0
        for answered in range(messages):
            while sent < messages and sent - answered < window:
                token = sent.to_bytes(4, "big")
                message = CoapMessage(CONFIRMABLE, PUT, sent & 0xFFFF, token, OPTIONS, body)
                client.send(encode_message(message))
                sent += 1
            assert client.recv(2048)[1] == CHANGED


def main() -> None:
    """Measure and print."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="of the server's build")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--window", type=int, default=16)
    parser.add_argument("--octets", type=int, default=64)
    parser.add_argument("--aiocoap", action="store_true", help="measure aiocoap's server instead")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-coap-"))
    process, port = start(given.python, folder, given.aiocoap)
    try:
        costs_us, rates = [], []
        publish(port, given.messages, given.window, bytes(given.octets))  # what is loaded and made once
        for _ in range(given.rounds):
            cpu_s, began_s = used_s(process.pid), time.monotonic()
            publish(port, given.messages, given.window, bytes(given.octets))
            rates.append(given.messages / (time.monotonic() - began_s))
            costs_us.append((used_s(process.pid) - cpu_s) * 1e6 / given.messages)
        print(f"{statistics.median(costs_us):.1f} us of CPU a publish, {statistics.median(rates):,.0f} a second")
        print(f"{resident_kib(process.pid) / 1024:.0f} MiB after {given.messages * (given.rounds + 1):,} publishes")
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
