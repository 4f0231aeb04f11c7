"""Clients that behave badly on purpose: they go away in the middle of it, reset, stop reading, or send all at once.

Each protocol has a dialogue, chosen at random from a seed, over a line that breaks off at a random octet. Six run at a
time; those that go away come back at once, also under the name that another has just then.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tests.conformance.amqp091 import raw as amqp
from tests.conformance.mqtt import raw as mqtt
from tests.conformance.mqtt.raw_websocket import BINARY, CLOSE, CONT, PING, TEXT, frame, request

SECONDS = float(os.environ.get("FOREBAY_RUDE_SECONDS", "5"))
SEED = int(os.environ.get("FOREBAY_RUDE_SEED", "0")) or int.from_bytes(os.urandom(4), "big")
AT_ONCE = 6
PARKED_MAX = 8  # connections of one client that are left open and not read
HEAR_S = 0.5  # that a client waits for an answer
GLANCE_S = 0.002  # and where there may be none
STEPS_MAX = (8, 8, 8, 30)
CLIENTS = 4  # names that all share
BULK = "rude-bulk"
SIZES = (0, 10, 10, 10, 1_000, 1_000, 20_000, 200_000)
QUEUES = ("rude-0", "rude-1", "rude-2")
LIMITS: dict[str, object] = {"x-max-length": 500, "x-max-length-bytes": 4 << 20}
RESET = struct.pack("ii", 1, 0)


class Gone(Exception):
    """The client has had enough."""


class Line:
    """A connection that breaks off after some steps, perhaps in the middle of what it sends.

    left   steps until then
    burst  what is sent at once at the end, without hearing anything before; None: it is sent as it comes
    """

    def __init__(self, chance: Random, port: int) -> None:
        self.chance = chance
        self.left = chance.randrange(1, chance.choice(STEPS_MAX))
        self.burst: list[bytes] | None = [] if chance.random() < 0.15 else None
        self.socket = socket.socket()
        if chance.random() < 0.2:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", port))

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Gone

    def send(self, *octets: bytes) -> None:
        """Send, or break off in the middle of it."""
        whole = b"".join(octets)
        if self.burst is not None:
            self.burst.append(whole)
            self.step()
            return
        try:
            self.step()
        except Gone:
            self.put(whole[: self.chance.randrange(len(whole) + 1)])
            raise
        self.put(whole)

    def put(self, octets: bytes) -> None:
        """Send to the other end of the socket."""
        self.socket.settimeout(2)  # it may be that the broker does not read
        self.socket.sendall(octets)

    def hear(self, wait_s: float = HEAR_S) -> bytes:
        """What the broker says; nothing where that takes too long."""
        if self.burst is not None:
            return b""
        self.step()
        self.socket.settimeout(wait_s)
        try:
            octets = self.take()
        except TimeoutError:
            return b""
        if not octets:
            raise Gone
        return octets

    def take(self) -> bytes:
        """What has come."""
        return self.socket.recv(1 << 16)

    def end(self) -> None:
        """What was kept back is sent in one write; perhaps not to its end."""
        if self.burst:
            whole = b"".join(self.burst)
            self.burst = None
            self.put(whole if self.chance.random() < 0.5 else whole[: self.chance.randrange(len(whole) + 1)])


class SecureLine(Line):
    """TLS over a line: whatever TLS itself sends may be cut off, too."""

    def __init__(self, chance: Random, port: int, context: ssl.SSLContext) -> None:
        super().__init__(chance, port)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")
        self.open = False

    def shake(self) -> None:
        """The handshake, cut off where the steps end."""
        while not self.open:
            try:
                self.tls.do_handshake()
                self.open = True
            except ssl.SSLWantReadError:
                pass
            self.step_through()
            if not self.open:
                self.incoming.write(self.receive())

    def step_through(self) -> None:
        """Send what TLS has to say, or a part of it."""
        octets = self.outgoing.read()
        if self.left > 1 or self.chance.random() < 0.8:
            self.socket.sendall(octets)
        else:
            self.socket.sendall(octets[: self.chance.randrange(len(octets) + 1)])
            raise Gone
        self.step()

    def receive(self) -> bytes:
        octets = self.socket.recv(1 << 16)
        if not octets:
            raise Gone
        return octets

    def put(self, octets: bytes) -> None:
        self.socket.settimeout(2)
        if not self.open:
            self.shake()
        if octets:
            self.tls.write(octets)
        sent = self.outgoing.read()
        cut = self.left < 0 and self.chance.random() < 0.5  # within a record
        self.socket.sendall(sent[: self.chance.randrange(len(sent) + 1)] if cut else sent)

    def take(self) -> bytes:
        while True:
            with suppress(ssl.SSLWantReadError):
                return self.tls.read(1 << 16)
            self.incoming.write(self.receive())


class WebSocketLine(Line):
    """WebSocket over a line; each thing sent is a frame, or several.

    protocol  that the request asks for: its name is both path and subprotocol
    """

    opened = False

    def __init__(self, chance: Random, port: int, protocol: str = "mqtt") -> None:
        super().__init__(chance, port)
        self.protocol = protocol

    def put(self, octets: bytes) -> None:
        chance = self.chance
        if not self.opened:
            self.opened = True
            path = f"/{self.protocol}" if chance.random() < 0.95 else "/elsewhere"
            asked = request(path, Sec_WebSocket_Protocol=self.protocol)
            if self.left < 0 and chance.random() < 0.5:
                super().put(asked[: chance.randrange(len(asked) + 1)])
                return
            super().put(asked)
            if chance.random() < 0.9:  # the others send frames before the answer
                self.take()
        kind = chance.random()
        if kind < 0.05:
            frames = frame(chance.choice((TEXT, CLOSE, PING, CONT)), octets[:100])
        elif kind < 0.3 and len(octets) > 1:
            at = chance.randrange(1, len(octets))
            frames = frame(BINARY, octets[:at], fin=False) + frame(PING) + frame(CONT, octets[at:])
        else:
            frames = frame(BINARY, octets)
        super().put(frames if self.left >= 0 else frames[: chance.randrange(len(frames) + 1)])


# ---- dialogues

Dialogue = Callable[[Random, Line], None]


def amqp_dialogue(chance: Random, line: Line) -> None:
    """Log in, open a channel, and work, or do nothing."""
    line.send(amqp.HEADER)
    line.hear()
    login = amqp.short("PLAIN") + amqp.long("\0guest\0guest") + amqp.short("en_US")
    line.send(amqp.method(0, amqp.START_OK, amqp.table() + login))
    line.hear()
    beat = chance.choice((0, 1, 60, 60, 600))
    tuned = amqp.number(2047, 2) + amqp.number(131072, 4) + amqp.number(beat, 2)
    line.send(amqp.method(0, amqp.TUNE_OK, tuned), amqp.method(0, amqp.OPEN, amqp.short("/") + b"\0\0"))
    line.hear()
    line.send(amqp.method(1, amqp.CHANNEL_OPEN, b"\0"))
    line.hear()
    if chance.random() < 0.6:  # that idle ones went was what once ended the broker: a heartbeat was due
        raise Gone
    tag = 1
    while True:
        tag += 1
        line.send(amqp_act(chance, tag))
        if chance.random() < 0.5:
            line.hear(GLANCE_S)


def amqp_act(chance: Random, tag: int) -> bytes:
    """Something that a client may do on channel 1, and perhaps what must not be there."""
    queue = chance.choice(QUEUES)
    name = b"\0\0" + amqp.short(queue)
    body = bytes(chance.choice(SIZES))
    kind = chance.randrange(15)
    if kind == 0:
        bits = chance.choice((0, 2, 2, 8, 4))  # durable, auto-delete, exclusive
        own = b"\0\0" + amqp.short(queue if bits < 4 else f"own-{tag}-{chance.randrange(10_000)}")
        return amqp.method(1, amqp.QUEUE_DECLARE, own + amqp.number(bits, 1) + amqp.table(LIMITS))
    if kind < 4:
        return amqp.publish(1, queue, body, mandatory=chance.random() < 0.3)
    if kind == 4:
        return amqp.publish(1, f"rude.{queue}", body, exchange="amq.topic")
    if kind < 7:
        args = name + amqp.short(f"t{tag}") + amqp.number(chance.choice((0, 2)), 1) + amqp.table()
        return amqp.method(1, amqp.CONSUME, args)
    if kind == 7:
        return amqp.method(1, amqp.GET, name + amqp.number(chance.randrange(2), 1))
    if kind == 8:
        return amqp.method(1, amqp.CONFIRM_SELECT, b"\0")
    if kind == 9:
        return b"".join(
            (
                amqp.method(1, (90, 10)),
                amqp.publish(1, queue, body),
                amqp.method(1, (90, chance.choice((20, 30)))),
            )
        )
    if kind == 10:
        return amqp.method(1, amqp.ACK, amqp.number(chance.randrange(1, 20), 8) + b"\x01")
    if kind == 11:
        return amqp.method(1, amqp.QOS, bytes(4) + amqp.number(chance.choice((0, 1, 10)), 2) + b"\0")
    if kind == 12:
        return amqp.method(1, (50, 20), name + amqp.short("amq.topic") + amqp.short("rude.#") + b"\0" + amqp.table())
    if kind == 13:
        return amqp.method(chance.choice((1, 1, 7)), amqp.CHANNEL_CLOSE, bytes(7)) + amqp.method(
            1, amqp.CHANNEL_OPEN, b"\0"
        )
    return amqp.method(0, amqp.CLOSE, bytes(7)) if chance.random() < 0.3 else bytes([8, 0, 0, 0, 0, 0, 0, 0xCE])


def mqtt_dialogue(chance: Random, line: Line) -> None:
    """Connect under a name that others have too; publish and subscribe at every QoS, and acknowledge seldom."""
    version = chance.choice((mqtt.V311, mqtt.V5))
    clean = chance.random() < 0.5
    properties = b"\x11" + chance.choice((1, 60)).to_bytes(4, "big") if version == mqtt.V5 and not clean else b""
    will = mqtt.will("rude/will", b"gone", version) if chance.random() < 0.3 else b""
    name = f"rude-{chance.randrange(CLIENTS)}"
    beat = chance.choice((0, 1, 60))
    line.send(mqtt.connect(name, version, properties, beat, will, chance.choice((4, 12, 36)), clean=clean))
    line.hear()
    if chance.random() < 0.1:
        raise Gone
    while True:
        line.send(mqtt_act(chance, version))
        if chance.random() < 0.5:
            line.hear(GLANCE_S)


def mqtt_act(chance: Random, version: int) -> bytes:
    """Something that a client may do, and seldom what it must not."""
    id = chance.randrange(1, 8)
    qos = chance.randrange(3)
    kind = chance.randrange(20)
    if kind < 5:
        filters = ("rude/#", "rude/+", "$share/rude/rude/#", "$queue/rude-0", "rude/1")
        return mqtt.subscribe(id, (chance.choice(filters), qos), version=version)
    if kind < 13:
        topic = chance.choice(("rude/1", "rude/2", "$queue/rude-0"))
        kept = chance.random() < 0.1 and topic[0] != "$"
        return mqtt.publish(topic, bytes(chance.choice(SIZES)), qos, id, version, bits=int(kept))
    if kind < 16:
        return mqtt.acknowledge(chance.choice((0x40, 0x50, 0x62, 0x70)), id)
    if kind == 16:
        return mqtt.unsubscribe(id, "rude/#", version=version)
    if kind == 17:
        return mqtt.PINGREQ
    if kind == 18:
        return mqtt.DISCONNECT if chance.random() < 0.3 else mqtt.PINGREQ
    return mqtt.connect("again", version) if chance.random() < 0.2 else mqtt.PINGREQ


def ask(op: str, **fields: object) -> bytes:
    """A request of the block protocol."""
    payload = json.dumps({"op": op, **fields}).encode()
    return struct.pack("<IB3x", len(payload), 1) + payload


def blocks_dialogue(chance: Random, line: Line) -> None:
    """Read in bulk, wait, hold, list, and take little of the answers."""
    line.send(b"FBLK\x02\0\0\0", ask("auth", user="guest", password="guest"))
    line.hear()
    while True:
        line.send(b"".join(blocks_act(chance) for _ in range(chance.randrange(1, 4))))
        for _ in range(chance.randrange(4)):
            line.hear(GLANCE_S)


def blocks_act(chance: Random) -> bytes:
    """One request."""
    kind = chance.randrange(12)
    if kind < 6:
        most = chance.choice((1, 100_000, 8 << 20))
        return ask("fetch", queue=BULK, first=chance.randrange(2_000), end=1 << 40, octets_max=most)
    if kind == 6:
        return ask("fetch", queue=BULK, first=0, end=1 << 40, filter="size > 3000")
    if kind == 7:
        return ask("ends", queues={BULK: chance.choice((0, 1 << 40))}, wait_ms=chance.choice((0, 1_000, 30_000)))
    if kind == 8:
        return ask("hold", queue=BULK, group=f"rude-{chance.randrange(3)}", offset=chance.randrange(2_000), ttl_ms=500)
    if kind == 9:
        return ask("control", do="queue.list")
    if kind == 10:
        return ask("describe", queue=chance.choice((BULK, "none")))
    return ask("transaction", query="rude") + ask("deliveries", queue=BULK, first=0, end=100)


LOGIN = "Authorization: Basic " + base64.b64encode(b"guest:guest").decode()


def http_dialogue(chance: Random, line: Line) -> None:
    """Ask for lists, publish, read as events; several at once, and not always to the end."""
    while True:
        line.send(b"".join(http_act(chance) for _ in range(chance.choice((1, 1, 3)))))
        for _ in range(chance.randrange(3)):
            line.hear(chance.choice((GLANCE_S, HEAR_S)))


def http_act(chance: Random) -> bytes:
    """One request, whose body may be shorter than it says."""
    kind = chance.randrange(10)
    body = b""
    lines = ["Host: localhost", LOGIN]
    if kind < 3:
        line = "GET " + chance.choice(("/api/queues", "/api/overview", "/metrics", "/", "/api/none")) + " HTTP/1.1"
    elif kind < 5:
        body = bytes(chance.choice(SIZES))
        line = f"POST /publish/{chance.choice(('rude/1', '$queue/rude-0'))} HTTP/1.1"
        lines.append(f"Content-Length: {len(body) + chance.choice((0, 0, 100))}")
    elif kind < 7:
        line = "GET /subscribe/rude/%23 HTTP/1.1"
    elif kind == 7:
        line = "GET /subscribe/$queue/rude-0?prefetch=5 HTTP/1.1"
    elif kind == 8:
        body = json.dumps({"durable": True, "arguments": LIMITS}).encode()
        line = "PUT /api/queues/%2F/rude-0 HTTP/1.1"
        lines.append(f"Content-Length: {len(body)}")
    else:
        line = chance.choice(("GET", "GET / HTTP/1.1\r\nHost: a\r\nX: " + "y" * 5_000, "\0\1\2", "BREW / HTTP/9"))
    return "\r\n".join((line, *lines, "", "")).encode() + body


# ---- six of them


class Crowd:
    """Six clients at a time that come, talk, go away and come again.

    begin   makes a line to the broker
    counts  connections by how they ended
    """

    def __init__(self, begin: Callable[[Random], Line], dialogues: list[Dialogue], seed: int = SEED) -> None:
        self.begin = begin
        self.dialogues = dialogues
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.refused: list[str] = []
        self.until = 0.0

    def run(self, seconds: float = SECONDS) -> None:
        """Be rude for so long; the connections that are left open are closed at the end."""
        self.until = time.monotonic() + seconds
        threads = [threading.Thread(target=self.go_on, args=(Random(self.seed + at),)) for at in range(AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def go_on(self, chance: Random) -> None:
        parked: list[Line] = []
        while time.monotonic() < self.until:
            try:
                line = self.begin(chance)
            except OSError as error:  # the broker is not there any more, or has no room
                self.refused.append(str(error))
                break
            how = self.talk(chance, line)
            if how == "left open":
                parked.append(line)
                if len(parked) > PARKED_MAX:
                    self.close(chance, parked.pop(0))
            else:
                self.close(chance, line, how == "reset")
            self.counts[how] += 1
        for line in parked:
            self.close(chance, line)

    def talk(self, chance: Random, line: Line) -> str:
        """Have a dialogue to its end; how it is to end."""
        try:
            with suppress(Gone):
                chance.choice(self.dialogues)(chance, line)
            with suppress(Gone):
                line.end()
        except (OSError, ValueError):  # the broker has ended it, or takes no more; ssl's errors are among them
            return "ended by the broker"
        return chance.choice(("closed", "reset", "left open"))

    def close(self, chance: Random, line: Line, reset: bool | None = None) -> None:
        if chance.random() < 0.5 if reset is None else reset:
            with suppress(OSError):
                line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        line.socket.close()
