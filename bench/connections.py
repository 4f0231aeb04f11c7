#!/usr/bin/env python3
"""Resident memory of a broker with many idle MQTT clients.

usage: bench/connections.py [--count 10000] [--listener mqtt|mqtts|mqtt_websocket|mqtt_websocket_tls] [--subscribe]

Each client connects, subscribes to a topic of its own where `--subscribe` is given, and is silent from then on; they
come from many addresses 127.0.0.x, as one has only so many ports. Prints octets a connection. TLS listeners need the
`openssl` command.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path

AT_A_TIME = 200  # handshakes under way
CLIENTS_AN_ADDRESS = 5000
SETTLE_S = 7  # the broker gives memory back every five seconds
HANDSHAKE = (
    b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def resident(pid: int) -> int:
    """Octets of a process's resident memory."""
    fields = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def sockets_of(pid: int) -> int:
    """How many sockets a process has open."""
    return sum(os.readlink(each).startswith("socket:") for each in Path(f"/proc/{pid}/fd").iterdir())


def start(folder: Path, listener: str, count: int) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A broker with this listener only; its process and ready line."""
    values: dict[str, object] = {
        "amqp": "",
        "mqtt": "",
        "mqtt_websocket": "",
        "http": "",
        "prometheus": "",
        listener: "127.0.0.1:0",
    }
    values["connections_max"] = count + 10
    if listener in {"mqtts", "mqtt_websocket_tls"}:
        certificate, key = folder / "certificate.pem", folder / "key.pem"
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        values |= {"tls_certificate": str(certificate), "tls_key": str(key)}
    config = folder / "options.yaml"
    config.write_text(json.dumps(values), encoding="utf-8")  # JSON is YAML
    process = subprocess.Popen(
        [sys.executable, "-m", "forebay", "serve", "--config", str(config), "--data", str(folder / "data")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline().removeprefix("ready "))


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def packet(first: int, rest: bytes) -> bytes:
    assert len(rest) < 128
    return bytes([first, len(rest)]) + rest


def framed(octets: bytes) -> bytes:
    """A binary frame with a mask of zeros."""
    assert len(octets) < 126
    return bytes([0x82, 0x80 | len(octets), 0, 0, 0, 0]) + octets


async def connect(number: int, address: str, listener: str, subscribe: bool) -> Streams:
    """A client that has its CONNACK, and its SUBACK."""
    host, _, port = address.rpartition(":")
    context = None
    if listener in {"mqtts", "mqtt_websocket_tls"}:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    source = f"127.0.0.{2 + number // CLIENTS_AN_ADDRESS}"
    reader, writer = await asyncio.open_connection(host, int(port), ssl=context, local_addr=(source, 0))
    wrap = bytes
    if "websocket" in listener:
        wrap = framed
        writer.write(HANDSHAKE)
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    login = text("guest") + text("guest")
    said = [packet(0x10, text("MQTT") + b"\x05\xc2\0\0\0" + text(f"client-{number}") + login)]
    if subscribe:
        said.append(packet(0x82, b"\0\1\0" + text(f"devices/{number}/commands") + b"\1"))
    for octets in said:
        writer.write(wrap(octets))
        head = await reader.readexactly(4 if "websocket" in listener else 2)
        await reader.readexactly(head[-1])
    return reader, writer


async def measure(process: subprocess.Popen[str], address: str, options: argparse.Namespace) -> None:
    """Connect all, let the broker come to rest, and print."""
    before = resident(process.pid)
    began = time.monotonic()
    clients: list[Streams] = []
    for first in range(0, options.count, AT_A_TIME):
        group = range(first, min(first + AT_A_TIME, options.count))
        clients += await asyncio.gather(
            *[connect(number, address, options.listener, options.subscribe) for number in group]
        )
    seconds = time.monotonic() - began
    await asyncio.sleep(SETTLE_S)
    after = resident(process.pid)
    held = sockets_of(process.pid)
    assert held > len(clients), f"the broker has {held} sockets open, for {len(clients)} clients and a listener"
    what = f"{len(clients)} idle clients over {options.listener}" + (", subscribed" if options.subscribe else "")
    print(f"{what}: {before >> 20} MiB before, {after >> 20} MiB after, connected in {seconds:.1f} s")
    print(f"octets a connection: {(after - before) / len(clients):.0f}")
    for _, writer in clients:
        writer.transport.abort()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--subscribe", action="store_true")
    parser.add_argument("--listener", default="mqtt", choices=["mqtt", "mqtts", "mqtt_websocket", "mqtt_websocket_tls"])
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # of this process, and of the broker it starts
    folder = Path(tempfile.mkdtemp(prefix="forebay-connections-"))
    process, ready = start(folder, options.listener, options.count)
    try:
        asyncio.run(measure(process, ready[options.listener], options))
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
