#!/usr/bin/env python3
"""How long one client can hold up the others: the worst that each kind of packet, frame and request may hold.

usage: bench/stalls.py [--only WORD] [--rounds 3] [--long-mib 100]

Two bystanders, in a process of their own, ask all the time: one sends PINGREQ over MQTT, one publishes over AMQP to a
queue without a file and waits for the confirm. Each attack is sent as fast as the socket takes it; the figure is the
slowest answer that a bystander got from its beginning until the broker has answered or closed the attacker's
connection, and SETTLE_S more. Prints a table; run it with the Python of a compiled build, and again with FOREBAY_PURE.
"""

from __future__ import annotations

import argparse
import base64
import json
import multiprocessing
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from connections import text

MIB = 1 << 20
SETTLE_S = 0.3
ANSWER_S_MAX = 60.0
PAUSE_S = 0.0005  # of a bystander between two questions
MILLISECONDS = 1000
LOGIN = text("guest") + text("guest")
PREFETCH = b"\0\0\0\0\0\0\0"


# ---- MQTT 5 and AMQP 0.9.1, as far as it takes


def varint(number: int) -> bytes:
    """A variable byte integer."""
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def packet(first: int, rest: bytes) -> bytes:
    """One MQTT packet."""
    return bytes([first]) + varint(len(rest)) + rest


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def method(channel: int, number: int, arguments: bytes) -> bytes:
    """A method frame; `number` is class << 16 | method."""
    return frame(1, channel, struct.pack(">I", number) + arguments)


def short(words: str) -> bytes:
    """A short string."""
    return bytes([len(words)]) + words.encode()


def table(fields: bytes) -> bytes:
    """A field table, or an array."""
    return struct.pack(">I", len(fields)) + fields


PLAIN = b"\0guest\0guest"
START_OK = 10 << 16 | 11
DECLARE = 50 << 16 | 10
BIND = 50 << 16 | 20
PUBLISH = 60 << 16 | 40
CONSUME = 60 << 16 | 20
OPEN_CHANNEL = method(1, 20 << 16 | 10, b"\0")


def start_ok(properties: bytes) -> bytes:
    """connection.start-ok with these client properties."""
    return method(0, START_OK, table(properties) + short("PLAIN") + struct.pack(">I", len(PLAIN)) + PLAIN + short("en"))


def content(exchange: str, key: str, properties: bytes, body: bytes, frame_octets: int = 131_072) -> bytes:
    """basic.publish with its header and its body."""
    room = frame_octets - 8
    head = frame(2, 1, b"\0\x3c\0\0" + struct.pack(">Q", len(body)) + properties)
    bodies = [frame(3, 1, body[at : at + room]) for at in range(0, len(body), room)]
    return b"".join([method(1, PUBLISH, b"\0\0" + short(exchange) + short(key) + b"\0"), head, *bodies])


def declare(name: str, durable: bool, arguments: bytes = b"", nowait: bool = True) -> bytes:
    """queue.declare."""
    flags = (2 if durable else 0) | (16 if nowait else 0)
    return method(1, DECLARE, b"\0\0" + short(name) + bytes([flags]) + table(arguments))


class Amqp:
    """A client that reads frame by frame."""

    def __init__(self, port: int, logged_in: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(ANSWER_S_MAX)
        self.stream = self.socket.makefile("rb")
        self.socket.sendall(b"AMQP\0\0\x09\x01")
        self.read()
        if logged_in:
            self.socket.sendall(start_ok(b""))
            self.read()
            tuned = method(0, 10 << 16 | 31, struct.pack(">HIH", 2047, 131_072, 0))
            self.socket.sendall(tuned + method(0, 10 << 16 | 40, short("/") + b"\0\0"))
            self.read()
            self.ask(OPEN_CHANNEL)

    def read(self) -> bytes:
        """The payload of the next frame; EOFError at the end."""
        head = self.stream.read(7)
        if len(head) < 7:
            raise EOFError
        octets = struct.unpack(">BHI", head)[2]
        return self.stream.read(octets + 1)[:-1]

    def ask(self, octets: bytes) -> bytes:
        """Send, and the next frame that comes."""
        self.socket.sendall(octets)
        return self.read()


class Mqtt:
    """A client of version 5."""

    def __init__(self, port: int, logged_in: bool = True) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(ANSWER_S_MAX)
        self.stream = self.socket.makefile("rb")
        if logged_in:
            self.ask(packet(0x10, text("MQTT") + b"\x05\xc2\0\0\0" + text("") + LOGIN))

    def read(self) -> bytes:
        """The next packet; EOFError at the end."""
        first = self.stream.read(1)
        length, shift = 0, 0
        while True:
            octet = self.stream.read(1)
            if not octet:
                raise EOFError
            length |= (octet[0] & 127) << shift
            shift += 7
            if octet[0] < 128:
                return first + self.stream.read(length)

    def ask(self, octets: bytes) -> bytes:
        """Send, and the next packet that comes."""
        self.socket.sendall(octets)
        return self.read()


# ---- bystanders


def watch(ports: tuple[int, int], asked: Connection, nice: int) -> None:
    """Ask all the time; answers the slowest of each since the last question, in seconds."""
    os.nice(nice)
    slowest = [0.0, 0.0]
    mqtt, amqp = Mqtt(ports[0]), Amqp(ports[1])
    amqp.ask(declare("bystander", False, b"\x0cx-max-length" + b"I\0\0\0\x0a", nowait=False))
    amqp.ask(method(1, 85 << 16 | 10, b"\0"))
    publish = content("", "bystander", b"\0\0", b"x" * 64)

    def run(place: int, ask: Callable[[bytes], bytes], octets: bytes) -> None:
        while True:
            began = time.monotonic()
            ask(octets)
            slowest[place] = max(slowest[place], time.monotonic() - began)
            time.sleep(PAUSE_S)

    for place, ask, octets in ((0, mqtt.ask, b"\xc0\0"), (1, amqp.ask, publish)):
        threading.Thread(target=run, args=(place, ask, octets), daemon=True).start()
    while True:
        asked.recv()
        asked.send(list(slowest))
        slowest[:] = [0.0, 0.0]


class Bystanders:
    """The process that asks."""

    def __init__(self, mqtt_port: int, amqp_port: int, nice: int) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=watch, args=((mqtt_port, amqp_port), theirs, nice), daemon=True)
        self.process.start()
        self.slowest()

    def slowest(self) -> list[float]:
        """Of the answers since the last call."""
        self.pipe.send(None)
        answer: list[float] = self.pipe.recv()
        return answer


class Broker:
    """The broker that is attacked, on a folder of its own."""

    def __init__(self, options: dict[str, object], nice: int) -> None:
        self.prepared: list[Any] = []  # clients that an attack goes on with
        self.folder = Path(tempfile.mkdtemp(prefix="forebay-stalls-"))
        listeners = {"mqtt": "127.0.0.1:0", "amqp": "127.0.0.1:0", "http": "127.0.0.1:0"}
        config = self.folder / "options.yaml"
        config.write_text(json.dumps({**listeners, "mqtt_websocket": "", "prometheus": "", **options}), "utf-8")
        command = ["nice", "-n", str(nice), sys.executable, "-m", "forebay", "serve", "--config", str(config)]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--data", str(self.folder / "data")],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline().removeprefix("ready "))
        self.mqtt, self.amqp, self.http = (int(ready[each].rpartition(":")[2]) for each in ("mqtt", "amqp", "http"))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)


# ---- attacks: each makes what is sent, then sends it and waits for the end

Attack = Callable[[Broker], None]


class Prepared:
    """An attack on what has to be there before: what that costs is not measured."""

    def __init__(self, prepare: Attack, run: Attack) -> None:
        self.prepare = prepare
        self.run = run

    def __call__(self, broker: Broker) -> None:
        self.run(broker)


def block(properties: bytes) -> bytes:
    """A property block with its length."""
    return varint(len(properties)) + properties


def finish(client: Mqtt | Amqp, octets: bytes, answers: int) -> None:
    """Send, and read so many answers or to the end."""

    def send() -> None:
        try:
            client.socket.sendall(octets)
        except OSError:
            return

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        for _ in range(answers):
            client.read()
    except (OSError, EOFError):
        pass
    sender.join(ANSWER_S_MAX)
    client.socket.close()


NAMELESS = b"\x26\0\0\0\0"  # a user property without name and value


def connect_properties(octets: int) -> Attack:
    def run(broker: Broker) -> None:
        rest = text("MQTT") + b"\x05\xc2\0\0" + block(NAMELESS * (octets // 5)) + text("") + LOGIN
        finish(Mqtt(broker.mqtt, False), packet(0x10, rest), 1)

    return run


def subscribe_filters(filters: int, each: bytes) -> Attack:
    def run(broker: Broker) -> None:
        finish(Mqtt(broker.mqtt), packet(0x82, b"\0\1\0" + each * filters), 1)

    return run


def subscribe_queue_filters(broker: Broker) -> None:
    """Many filters that each look for arguments in many properties."""
    filters = b"".join(text(f"$queue/q{number}") + b"\1" for number in range(1000))
    finish(Mqtt(broker.mqtt), packet(0x82, b"\0\1" + block(NAMELESS * 1000) + filters), 1)


def many_subscribes(broker: Broker) -> None:
    """Packets of 1,000 filters back to back."""
    one = b"".join(text(f"{number}/+/x") + b"\0" for number in range(900))
    finish(Mqtt(broker.mqtt), packet(0x82, b"\0\1\0" + one) * 60, 60)


def unsubscribe_filters(broker: Broker) -> None:
    finish(Mqtt(broker.mqtt), packet(0xA2, b"\0\1\0" + text("a") * 1_000_000), 1)


def publish_properties(octets: int) -> Attack:
    def run(broker: Broker) -> None:
        rest = text("a/b") + b"\0\1" + block(NAMELESS * (octets // 5)) + b"x"
        finish(Mqtt(broker.mqtt), packet(0x32, rest), 1)

    return run


def many_topics(broker: Broker) -> None:
    """A megabyte of publishes to topics that were never seen."""
    sent = b"".join(packet(0x30, text(f"t/{number}/{number}") + b"\0x") for number in range(60_000))
    client = Mqtt(broker.mqtt)
    finish(client, sent + b"\xc0\0", 1)


def long_topics(broker: Broker) -> None:
    sent = b"".join(packet(0x30, text(f"{number:06d}" + "a/" * 120 + "b" * 65_000) + b"\0x") for number in range(100))
    finish(Mqtt(broker.mqtt), sent + b"\xc0\0", 1)


def many_pings(broker: Broker) -> None:
    finish(Mqtt(broker.mqtt), b"\xc0\0" * 500_000, 500_000)


def mqtt_body(octets: int, qos: int) -> Attack:
    """A long message to one MQTT subscriber."""

    def run(broker: Broker) -> None:
        reader = Mqtt(broker.mqtt)
        reader.ask(packet(0x82, b"\0\1\0" + text("long/+") + b"\0"))
        sent = packet(0x32 if qos else 0x30, text("long/a") + (b"\0\1" if qos else b"") + b"\0" + bytes(octets))
        waiting = threading.Thread(target=reader.read)
        waiting.start()
        finish(Mqtt(broker.mqtt), sent + b"\xc0\0", 1 + (qos > 0))
        waiting.join(ANSWER_S_MAX)
        reader.socket.close()

    return run


def amqp_body(octets: int, durable: bool, consumed: bool) -> Attack:
    """A long message to a queue, and on to a consumer."""

    def run(broker: Broker) -> None:
        name = f"long-{durable}"
        client = Amqp(broker.amqp)
        client.ask(declare(name, durable, nowait=False))
        client.ask(method(1, 85 << 16 | 10, b"\0"))
        if not consumed:
            finish(client, content("", name, b"\x10\0\2", bytes(octets)), 1)
            return
        reader = Amqp(broker.amqp)
        reader.ask(method(1, CONSUME, b"\0\0" + short(name) + short("c") + b"\2" + table(b"")))
        frames = 2 + -(-octets // 131_064)
        waiting = threading.Thread(target=lambda: [reader.read() for _ in range(frames)])
        waiting.start()
        finish(client, content("", name, b"\x10\0\2", bytes(octets)), 1)
        waiting.join(ANSWER_S_MAX)
        reader.socket.close()

    return run


def start_ok_fields(fields: bytes) -> Attack:
    def run(broker: Broker) -> None:
        finish(Amqp(broker.amqp, False), start_ok(fields), 1)

    return run


def nested(kind: bytes, levels: int, octets: int) -> bytes:
    """Fields with as many tables or arrays within each other as there is room for."""
    inner = b"V" * 10
    for _ in range(levels):
        inner = kind + table(b"\1a" + inner if kind == b"F" and inner[:1] != b"V" else b"" if kind == b"F" else inner)
    one = b"\1a" + inner
    return one * (octets // len(one))


def header_fields(broker: Broker) -> None:
    """Publishes with as many headers as fit, to a headers exchange with bindings."""
    client = Amqp(broker.amqp)
    client.ask(declare("headers", False, nowait=False))
    for number in range(50):
        client.ask(
            method(
                1,
                BIND,
                b"\0\0"
                + short("headers")
                + short("amq.headers")
                + short("")
                + b"\0"
                + table(short(f"h{number}") + b"t\1"),
            )
        )
    sent = b""
    for number in range(20):
        fields = b"\0V" * 60_000 + short(f"n{number}") + b"V"
        sent += content("amq.headers", "", b"\x20\0" + table(fields), b"x")
    finish(client, sent + method(1, 20 << 16 | 20, b"\1"), 1)


def copy_keys(broker: Broker) -> None:
    """CC with as many keys as fit into a frame."""
    client = Amqp(broker.amqp)
    client.ask(declare("copies", False, nowait=False))
    client.ask(method(1, BIND, b"\0\0" + short("copies") + short("amq.topic") + short("#") + b"\0" + table(b"")))
    keys = b"".join(b"S" + struct.pack(">I", 5) + f"{number:05d}".encode() for number in range(12_000))
    sent = content("amq.topic", "a", b"\x20\0" + table(short("CC") + b"A" + table(keys)), b"x")
    finish(client, sent * 3 + method(1, 20 << 16 | 20, b"\1"), 1)


def many_declares(durable: bool) -> Attack:
    def run(broker: Broker) -> None:
        sent = b"".join(declare(f"d{durable}-{number}", durable) for number in range(3000))
        finish(Amqp(broker.amqp), sent + method(1, 20 << 16 | 20, b"\1"), 1)

    return run


def declare_arguments(broker: Broker) -> None:
    sent = declare("arguments", False, b"".join(short(f"{number:x}") + b"V" for number in range(16_000)), nowait=False)
    finish(Amqp(broker.amqp), sent, 1)


def consume_arguments(broker: Broker) -> None:
    values = b"".join(b"S" + struct.pack(">I", 4) + f"{number:04x}".encode() for number in range(14_000))
    fields = table(short("x-stream-filter") + b"A" + table(values))
    client = Amqp(broker.amqp)
    client.ask(declare("stream", True, short("x-queue-type") + b"S" + table(b"stream"), nowait=False))
    client.ask(method(1, 60 << 16 | 10, b"\0\0\0\0\0\x0a\0"))
    sent = method(1, CONSUME, b"\0\0" + short("stream") + short("c") + b"\0" + fields)
    finish(client, sent, 1)


def many_consumers(broker: Broker) -> None:
    client = Amqp(broker.amqp)
    client.ask(declare("consumed", False, nowait=False))
    sent = b"".join(
        method(1, CONSUME, b"\0\0" + short("consumed") + short(f"c{number}") + b"\x0a" + table(b""))
        for number in range(20_000)
    )
    finish(client, sent + method(1, 20 << 16 | 20, b"\1"), 1)


def request(broker: Broker, verb: str, path: str, body: bytes) -> None:
    """One HTTP request, as guest."""
    login = base64.b64encode(b"guest:guest").decode()
    head = f"{verb} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {login}\r\nConnection: close\r\n"
    client = socket.create_connection(("127.0.0.1", broker.http))
    client.settimeout(ANSWER_S_MAX)
    try:
        client.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        while client.recv(65_536):
            pass
    except OSError:
        pass
    client.close()


def json_body(body: bytes, path: str, verb: str = "POST") -> Attack:
    return lambda broker: request(broker, verb, path, body)


def policy_pattern(broker: Broker) -> None:
    """A pattern that a backtracking engine tries for ever, and the name that makes it."""
    policy = json.dumps({"pattern": r"^mine\.(a|a)*$", "definition": {"max-length": 10}, "apply-to": "queues"}).encode()
    request(broker, "PUT", "/api/policies/%2F/slow", policy)
    finish(Amqp(broker.amqp), declare("mine." + "a" * 26 + "b", False, nowait=False), 1)
    request(broker, "DELETE", "/api/policies/%2F/slow", b"")


def topic_pattern(broker: Broker) -> None:
    """A topic permission that is quadratic by a backtracking engine, and long topics."""
    pattern = r"^plant1\..*-cmd-.*-v1$"
    body = json.dumps({"exchange": "amq.topic", "write": pattern, "read": ".*"}).encode()
    request(broker, "PUT", "/api/topic-permissions/%2F/guest", body)
    finish(Mqtt(broker.mqtt), packet(0x32, text("plant1/" + "-cmd-" * 13_000) + b"\0\1\0x") + b"\xc0\0", 2)
    request(broker, "DELETE", "/api/topic-permissions/%2F/guest", b"")


def like_filters(broker: Broker) -> None:
    """80 LIKE over bodies of 60 KB."""
    client = Amqp(broker.amqp)
    client.ask(declare("filtered", False, nowait=False))
    where = " AND ".join(f"/a NOT LIKE 'x{number}.*y[0-9]+z$'" for number in range(80)).encode()
    fields = table(short("x-filter") + b"S" + table(where))
    client.ask(method(1, CONSUME, b"\0\0" + short("filtered") + short("c") + b"\2" + fields))
    body = json.dumps({"a": "x1 y2 " * 10_000}).encode()
    sent = content("", "filtered", b"\0\0", body) * 40
    finish(client, sent + method(1, 20 << 16 | 20, b"\1"), 1)


def every_pattern(levels: int) -> list[str]:
    """All filters of so many levels that are 'a' or '+': a topic of 'a' matches each of them."""
    return ["/".join("a+"[number >> level & 1] for level in range(levels)) for number in range(1 << levels)]


def near_topics(levels: int, most: int) -> list[str]:
    """Topics of 'a' with up to two levels that are 'b': each has a set of matching filters of its own."""
    found = [["a"] * levels]
    for first in range(levels):
        for second in range(first, levels):
            topic = ["a"] * levels
            topic[first] = topic[second] = "b"
            found.append(topic)
    return ["/".join(topic) for topic in found[:most]]


def subscribed(broker: Broker, filters: list[str], identifier: bytes) -> Mqtt:
    """A client with all these subscriptions."""
    client = Mqtt(broker.mqtt)
    for at in range(0, len(filters), 500):
        some = b"".join(text(each) + b"\0" for each in filters[at : at + 500])
        client.ask(packet(0x82, b"\0\1" + block(identifier) + some))
    return client


def matching_filters(topics: int, identifier: bytes = b"") -> Attack:
    """Publishes that match up to 32,768 subscriptions of one client, to so many topics."""

    def run(broker: Broker) -> None:
        sent = b"".join(packet(0x30, text(topic) + b"\0x") for topic in near_topics(15, topics))
        finish(broker.prepared[0], sent + b"\xc0\0", 1)

    def prepare(broker: Broker) -> None:
        reader = subscribed(broker, every_pattern(15), identifier)
        threading.Thread(target=read_all, args=(reader,), daemon=True).start()
        broker.prepared += [Mqtt(broker.mqtt)]

    return Prepared(prepare, run)


def matching_bindings(exchange: str, keys: int) -> Attack:
    """Publishes that match 32,768 bindings of one queue, with so many routing keys."""

    def run(broker: Broker) -> None:
        topics = [topic.replace("/", ".") for topic in near_topics(15, keys)]
        sent = b"".join(content(exchange, key, b"\0\0", b"x") for key in topics)
        finish(broker.prepared[0], sent + method(1, 20 << 16 | 20, b"\1"), 1)

    def prepare(broker: Broker) -> None:
        client = Amqp(broker.amqp)
        client.ask(declare("bound", False, nowait=False))
        binds = [pattern.replace("/", ".").replace("+", "*") for pattern in every_pattern(15)]
        for at in range(0, len(binds), 500):
            sent = b"".join(
                method(1, BIND, b"\0\0" + short("bound") + short(exchange) + short(key) + b"\1" + table(b""))
                for key in binds[at : at + 500]
            )
            client.ask(sent + declare("bound", False, nowait=False))
        broker.prepared += [client]

    return Prepared(prepare, run)


def many_readers(readers: int, publishes: int) -> Attack:
    """Publishes to so many MQTT clients with a session that is kept, none of which is there."""

    def run(broker: Broker) -> None:
        sent = b"".join(
            packet(0x32, text("all") + struct.pack(">H", number + 1) + b"\0x") for number in range(publishes)
        )
        finish(broker.prepared[0], sent, publishes)

    def prepare(broker: Broker) -> None:
        for number in range(readers):
            client = Mqtt(broker.mqtt, False)
            kept = block(b"\x11\0\0\xff\xff")
            client.ask(packet(0x10, text("MQTT") + b"\x05\xc2\0\0" + kept + text(f"r{number}") + LOGIN))
            client.ask(packet(0x82, b"\0\1\0" + text("all") + b"\1"))
            client.socket.sendall(b"\xe0\0")
            client.socket.close()
        broker.prepared += [Mqtt(broker.mqtt)]

    return Prepared(prepare, run)


def many_queues(queues: int, publishes: int) -> Attack:
    """Publishes to so many queues."""

    def run(broker: Broker) -> None:
        sent = b"".join(content("amq.fanout", "", b"\0\0", b"x") for _ in range(publishes))
        finish(broker.prepared[0], sent + method(1, 20 << 16 | 20, b"\1"), 1)

    def prepare(broker: Broker) -> None:
        client = Amqp(broker.amqp)
        for number in range(queues):
            name = f"f{number}"
            bind = method(1, BIND, b"\0\0" + short(name) + short("amq.fanout") + short("") + b"\1" + table(b""))
            sent = declare(name, False) + bind
            if number % 200 == 199:
                client.ask(sent + declare(name, False, nowait=False))
            else:
                client.socket.sendall(sent)
        broker.prepared += [client]

    return Prepared(prepare, run)


def retained_topics(topics: int) -> Attack:
    """A subscription to all of so many retained messages."""

    def run(broker: Broker) -> None:
        sent = packet(0x82, b"\0\1\0" + text("r/+/+/none") + b"\0" + text("r/#") + b"\0")
        finish(Mqtt(broker.mqtt), sent, topics + 1)

    def prepare(broker: Broker) -> None:
        client = Mqtt(broker.mqtt)
        for at in range(0, topics, 1000):
            some = [packet(0x31, text(f"r/{at}/{number}/x") + b"\0x") for number in range(1000)]
            client.ask(b"".join(some) + b"\xc0\0")

    return Prepared(prepare, run)


def read_all(client: Mqtt) -> None:
    """Read to the end."""
    try:
        while client.socket.recv(1 << 20):
            pass
    except OSError:
        return


LIMIT = 17 * MIB - 100


def attacks(long_mib: int) -> dict[str, Attack]:
    """All of them by name."""
    found: dict[str, Attack] = {
        "CONNECT of 64 KiB, user properties": connect_properties(65_000),
        "CONNECT of 17 MiB, user properties": connect_properties(LIMIT),
        "SUBSCRIBE, 1,000 filters": subscribe_filters(1000, text("a/b") + b"\0"),
        "SUBSCRIBE of 17 MiB, short filters": subscribe_filters(LIMIT // 4, text("a") + b"\0"),
        "SUBSCRIBE of 17 MiB, 128 levels": subscribe_filters(LIMIT // 258, text("/".join("a" * 128)) + b"\0"),
        "SUBSCRIBE, queues with user properties": subscribe_queue_filters,
        "SUBSCRIBE of 900 filters, 60 in a row": many_subscribes,
        "UNSUBSCRIBE, 1,000,000 filters": unsubscribe_filters,
        "PUBLISH, 1,000 user properties": publish_properties(5000),
        "PUBLISH of 17 MiB, user properties": publish_properties(LIMIT),
        "PUBLISH, 60,000 topics in a row": many_topics,
        "PUBLISH, 100 topics of 64 KiB": long_topics,
        "PINGREQ, 500,000 in a row": many_pings,
        "start-ok, 128 KiB of fields": start_ok_fields(b"\0V" * 65_000),
        "start-ok, 64 KiB of fields": start_ok_fields(b"\0V" * 32_000),
        "start-ok, tables in tables": start_ok_fields(nested(b"F", 30, 64_000)),
        "start-ok, arrays in arrays": start_ok_fields(nested(b"A", 30, 64_000)),
        "publish, 60,000 headers, 50 bindings": header_fields,
        "publish, CC with 12,000 keys": copy_keys,
        "queue.declare, 3,000 durable in a row": many_declares(True),
        "queue.declare, 3,000 transient in a row": many_declares(False),
        "queue.declare, 16,000 arguments": declare_arguments,
        "basic.consume, filter of 14,000 values": consume_arguments,
        "basic.consume, 20,000 in a row": many_consumers,
        "HTTP, JSON of 32 MiB": json_body(b"[" + b"[]," * (10 * MIB) + b"[]]", "/api/definitions"),
        "HTTP, JSON of 1 MiB": json_body(
            b"[" + b"[]," * (MIB // 3 - 10) + b"[]]", "/api/exchanges/%2F/amq.topic/publish"
        ),
        "HTTP, JSON of 10,000 levels": json_body(b"[" * 10_000 + b"]" * 10_000, "/api/policies/%2F/p", "PUT"),
        "a policy's pattern": policy_pattern,
        "a topic permission's pattern": topic_pattern,
        "80 LIKE, bodies of 60 KB": like_filters,
        "PUBLISH, 1 topic, 32,768 matching filters": matching_filters(1),
        "PUBLISH, 16 topics, 32,768 matching filters": matching_filters(16),
        "PUBLISH, 16 topics, 32,768 matching filters with identifiers": matching_filters(16, b"\x0b\xff\x7f"),
        "PUBLISH, 121 topics, 32,768 matching filters": matching_filters(121),
        "publish, 16 keys, 32,768 matching bindings": matching_bindings("amq.topic", 16),
        "PUBLISH, 10,000 kept sessions": many_readers(10_000, 1),
        "PUBLISH, 100 times 10,000 kept sessions": many_readers(10_000, 100),
        "publish, 5,000 queues": many_queues(5_000, 1),
        "publish, 100 times 5,000 queues": many_queues(5_000, 100),
        "SUBSCRIBE, 200,000 retained messages": retained_topics(200_000),
    }
    for mib in (1, 16, long_mib):
        found[f"AMQP body of {mib} MiB, stored in memory"] = amqp_body(mib * MIB, False, False)
        found[f"AMQP body of {mib} MiB, consumed"] = amqp_body(mib * MIB, False, True)
        found[f"AMQP body of {mib} MiB, durable, consumed"] = amqp_body(mib * MIB, True, True)
        found[f"MQTT body of {mib} MiB, QoS 0, subscribed"] = mqtt_body(mib * MIB, 0)
        found[f"MQTT body of {mib} MiB, QoS 1, subscribed"] = mqtt_body(mib * MIB, 1)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="attacks with this word in their names")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long-mib", type=int, default=100)
    parser.add_argument("--nice", type=int, default=0, help="priority of broker and bystanders, where others compute")
    options = parser.parse_args()
    octets_max = (options.long_mib + 1) * MIB
    long: dict[str, object] = {"message_octets_max": octets_max, "mqtt_packet_octets_max": octets_max + MIB}
    print("| attack | ping, ms | confirm, ms |\n|---|---:|---:|", flush=True)
    for name, attack in {"nothing": lambda _: time.sleep(1.0), **attacks(options.long_mib)}.items():
        if options.only not in name:
            continue
        figures: list[list[float]] = []
        for _ in range(options.rounds):
            broker = Broker(long if " body of " in name else {}, options.nice)
            bystanders = Bystanders(broker.mqtt, broker.amqp, options.nice)
            if isinstance(attack, Prepared):
                attack.prepare(broker)
            time.sleep(SETTLE_S)
            bystanders.slowest()
            attack(broker)
            time.sleep(SETTLE_S)
            figures.append(bystanders.slowest())
            bystanders.process.kill()
            broker.stop()
        ping, confirm = (statistics.median(each) * MILLISECONDS for each in zip(*figures, strict=True))
        print(f"| {name} | {ping:.0f} | {confirm:.0f} |", flush=True)


if __name__ == "__main__":
    main()
