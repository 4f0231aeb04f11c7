#!/usr/bin/env python3
"""Memory of idle links of AMQP 1.0: consumers with credit whose queues are empty.

usage: bench/idle_links.py [--links 10000] [--queues 100] [--connections 1]

The broker is a process of its own. Prints its resident memory before the links are attached and after, what that is a
link, the CPU time that the broker takes beside them, and whether one message a queue reaches them all the same.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

from librt.strings import BytesWriter

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bench.memory import resident, start
from forebay.wire.amqp10.frames import put_frame
from forebay.wire.amqp10.performatives import ROLE_RECEIVER, Attach, Begin, Flow, Open
from forebay.wire.amqp10.sasl import SaslInit
from forebay.wire.amqp10.termini import LinkSource, LinkTarget

SASL = b"AMQP\x03\x01\x00\x00"
AMQP = b"AMQP\x00\x01\x00\x00"
SESSION_LINKS = 1000
WINDOW = 1 << 20
QUIET_S = 0.5
attached: list[int] = []  # answers to attaches, of each read
DETACH, END, CLOSE = 0x16, 0x17, 0x18


def frame(channel: int, performative: object, kind: int = 0) -> bytes:
    """Return a frame of one performative."""
    out = BytesWriter()
    put_frame(out, channel, performative)  # type: ignore[arg-type]
    octets = bytearray(out.getvalue())
    octets[5] = kind
    return bytes(octets)


def attach(name: str, handle: int, queue: str) -> Attach:
    """Return the attach of a consumer."""
    made = Attach(name, handle, ROLE_RECEIVER)
    made.source = LinkSource(queue)
    made.target = LinkTarget()
    return made


def credit(handle: int) -> Flow:
    """Return a flow that gives a link one credit."""
    made = Flow()
    made.incoming_window = WINDOW
    made.next_outgoing_id = 0
    made.outgoing_window = WINDOW
    made.handle = handle
    made.delivery_count = 0
    made.link_credit = 1
    return made


def connect(port: int, links: range, queues: int) -> socket.socket:
    """Open a connection with its sessions and links, and read until the broker has no more to say."""
    line = socket.create_connection(("127.0.0.1", port))
    opening = SASL + frame(0, SaslInit("PLAIN", b"\0guest\0guest"), 1) + AMQP + frame(0, Open(f"links {links.start}"))
    line.sendall(opening)
    for place, link in enumerate(links):
        channel, handle = divmod(place, SESSION_LINKS)
        octets = b"" if handle else frame(channel, Begin(0, WINDOW, WINDOW))
        octets += frame(channel, attach(f"l{link}", handle, f"$queue/q{link % queues}"))
        line.sendall(octets + frame(channel, credit(handle)))
        if place % 500 == 499:
            drain(line, 0.01)
    drain(line, QUIET_S if len(links) >= SESSION_LINKS else 0.05)
    return line


def drain(line: socket.socket, quiet_s: float) -> int:
    """Read until nothing has come for so long; return the number of transfers. A link that was refused ends the run."""
    line.settimeout(quiet_s)
    data = b""
    try:
        while more := line.recv(1 << 20):
            data += more
    except TimeoutError:
        pass
    for code in (DETACH, END, CLOSE):
        at = data.find(b"\x00\x53" + bytes([code]))
        if at >= 0:
            raise SystemExit(f"the broker refused a link: {data[at : at + 200]!r}")
    attached.append(data.count(b"\x00\x53\x12"))
    return data.count(b"\x00\x53\x14")


def cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def publish(port: int, queues: int) -> socket.socket:
    """Publish a message to each queue over AMQP 0.9.1."""
    line = socket.create_connection(("127.0.0.1", port))

    def method(channel: int, which: tuple[int, int], args: bytes) -> bytes:
        payload = struct.pack(">HH", *which) + args
        return struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce"

    response = b"\0guest\0guest"
    start_ok = b"\0\0\0\0\x05PLAIN" + struct.pack(">I", len(response)) + response + b"\x05en_US"
    line.sendall(b"AMQP\x00\x00\x09\x01" + method(0, (10, 11), start_ok))
    tuned = method(0, (10, 31), struct.pack(">HIH", 10, 131072, 0))
    line.sendall(tuned + method(0, (10, 40), b"\x01/\0\0") + method(1, (20, 10), b"\0"))
    for number in range(queues):
        key = f"$queue/q{number}".encode()
        head = method(1, (60, 40), b"\0\0\0" + bytes([len(key)]) + key + b"\0")
        content = struct.pack(">HHQH", 60, 0, 1, 0)
        line.sendall(head + struct.pack(">BHI", 2, 1, len(content)) + content + b"\xce" + b"\x03\0\x01\0\0\0\x01x\xce")
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=100)
    parser.add_argument("--connections", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="forebay-links-"))
    process, ready, _ = start(folder / "data")
    try:
        port = int(ready["amqp"].rpartition(":")[2])
        warm = [connect(port, range(options.links, options.links + options.queues), options.queues)]
        warm.append(publish(port, options.queues))
        drain(warm[0], QUIET_S)
        before = resident(process.pid)
        share = options.links // options.connections
        began = time.monotonic()
        lines = [connect(port, range(n * share, (n + 1) * share), options.queues) for n in range(options.connections)]
        seconds = time.monotonic() - began
        after = resident(process.pid)
        each = (after - before) / options.links
        busy = cpu_s(process.pid)
        time.sleep(10)
        busy = cpu_s(process.pid) - busy
        began = time.monotonic()
        publisher = publish(port, options.queues)
        got = 0
        while got < options.queues and time.monotonic() - began < 20:
            got += sum(drain(line, 0.05) for line in [*lines, warm[0]])
        print(
            f"{options.links} links on {options.queues} queues, {options.connections} connections, in {seconds:.1f} s"
        )
        print(f"resident: {before >> 10} KiB before, {after >> 10} KiB after: {each:.0f} B a link")
        print(f"attached: {sum(attached) - options.queues}")
        print(f"idle: {busy * 100:.0f} ms of CPU a second; messages delivered: {got} of {options.queues}")
        publisher.close()
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
