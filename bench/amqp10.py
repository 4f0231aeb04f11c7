"""CPU of the broker for a message of AMQP 1.0 beside one of AMQP 0.9.1: one publisher, one consumer, durable.

    python bench/amqp10.py [--python PYTHON] [--rounds 3] [--messages 200000]

Both protocols go the same way in turns, against one broker of that Python's build: a batch is written at once, all of
it is confirmed, delivered, and acknowledged by ranges of 50. The clients take frames apart only as far as they must.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.conformance.amqp091 import raw as amqp091
from tests.conformance.amqp10 import raw as amqp10

BATCH = 500
ACKED = 50
QUEUE = "bench"


class Target:
    """A broker, as clients dial it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def dial(self, listener: str) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Reader:
    """Frames off a socket."""

    def __init__(self, sock: socket.socket, size_at: int, extra: int) -> None:
        self.socket = sock
        self.size_at = size_at
        self.extra = extra
        self.rest = b""

    def frames(self) -> list[bytes]:
        """The whole frames of one read."""
        data = self.rest + self.socket.recv(1 << 18)
        found, at, size = [], 0, len(data)
        while at + 8 <= size:
            end = at + self.extra + int.from_bytes(data[at + self.size_at : at + self.size_at + 4], "big")
            if end > size:
                break
            found.append(data[at:end])
            at = end
        self.rest = data[at:]
        return found


def run_amqp10(target: Target, messages: int, octets: int) -> None:
    publisher = amqp10.begun(target, 1 << 30)
    publisher.publisher(f"$queue/{QUEUE}")
    consumer = amqp10.begun(target, 1 << 30)
    consumer.consumer(f"$queue/{QUEUE}", credit=0)
    payload = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x75\xb0" + octets.to_bytes(4, "big") + b"x" * octets
    body = b"\x00\x53\x14\xc0%c\x05\x43\x70%s\xa0\x04%s\x43\x42" + payload
    out, got = Reader(publisher.socket, 0, 0), Reader(consumer.socket, 0, 0)
    for start in range(0, messages, BATCH):
        consumer.send(amqp10.flow(1, BATCH, start, window=1 << 30, next_incoming=start))
        ids = [each.to_bytes(4, "big") for each in range(start, start + BATCH)]
        frames = [b"\x02\x00\x00\x00" + body % (1 + 1 + 5 + 6 + 1 + 1, id, id) for id in ids]
        publisher.send(*[(4 + len(each)).to_bytes(4, "big") + each for each in frames])
        taken = 0
        while taken < BATCH:
            for frame in got.frames():
                if frame[10] == amqp10.TRANSFER:
                    taken += 1
                    if taken % ACKED == 0:
                        last = start + taken - 1
                        consumer.send(amqp10.disposition(last - ACKED + 1, last))
        confirmed = -1
        while confirmed < start + BATCH - 1:
            for frame in out.frames():
                if frame[10] == amqp10.DISPOSITION:
                    fields = amqp10.decode(frame, 8)[0].value
                    assert fields[4].code == amqp10.ACCEPTED
                    confirmed = fields[1] if fields[2] is None else fields[2]
    publisher.socket.close()
    consumer.socket.close()


def run_amqp091(target: Target, messages: int, octets: int) -> None:
    with amqp091.connect(target) as publisher, amqp091.connect(target) as consumer:
        publisher.send(amqp091.method(1, amqp091.CONFIRM_SELECT, b"\0"))
        publisher.expect(1, amqp091.CONFIRM_SELECT_OK)
        arguments = b"\0\0" + amqp091.short(f"$queue/{QUEUE}") + amqp091.short("c") + b"\0" + amqp091.table()
        consumer.send(amqp091.method(1, amqp091.QOS, b"\0\0\0\0" + amqp091.number(BATCH, 2) + b"\0"))
        consumer.expect(1, amqp091.QOS_OK)
        consumer.send(amqp091.method(1, amqp091.CONSUME, arguments))
        consumer.expect(1, amqp091.CONSUME_OK)
        one = amqp091.publish(1, f"$queue/{QUEUE}", b"x" * octets, properties=b"\x10\x00\x02")
        out, got = Reader(publisher.socket, 3, 8), Reader(consumer.socket, 3, 8)
        for start in range(0, messages, BATCH):
            publisher.send(one * BATCH)
            taken = 0
            while taken < BATCH:
                for frame in got.frames():
                    if frame[0] == 3:
                        taken += 1
                        if taken % ACKED == 0:
                            tag = amqp091.number(start + taken, 8)
                            consumer.send(amqp091.method(1, amqp091.ACK, tag + b"\1"))
            confirmed = 0
            while confirmed < start + BATCH:
                for frame in out.frames():
                    confirmed = int.from_bytes(frame[11:19], "big")


WAYS: dict[str, Callable[[Target, int, int], None]] = {"AMQP 1.0": run_amqp10, "AMQP 0.9.1": run_amqp091}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        port = 25672
        command = [options.python, "-m", "forebay", "serve", "--data", folder, "--amqp", f"127.0.0.1:{port}"]
        env = {**os.environ, "FOREBAY_HTTP": "", "FOREBAY_MQTT": "", "FOREBAY_MQTT_WEBSOCKET": ""}
        broker = subprocess.Popen([*command, "--mqtt", "127.0.0.1:25883"], env=env, stdout=subprocess.PIPE)
        assert broker.stdout is not None
        broker.stdout.readline()
        try:
            for octets in (64, 1024):
                found: dict[str, list[float]] = {name: [] for name in WAYS}
                for _ in range(options.rounds):
                    for name, run in WAYS.items():
                        before, begun = cpu_s(broker.pid), time.monotonic()
                        run(Target(port), options.messages, octets)
                        us = (cpu_s(broker.pid) - before) * 1e6 / options.messages
                        found[name].append(us)
                        print(
                            f"{name}, {octets} B: {us:.2f} us, {options.messages / (time.monotonic() - begun):,.0f}/s"
                        )
                medians = {name: statistics.median(each) for name, each in found.items()}
                print(f"{octets} B: {medians} ratio {medians['AMQP 1.0'] / medians['AMQP 0.9.1']:.2f}")
        finally:
            broker.terminate()
            broker.wait()


if __name__ == "__main__":
    main()
