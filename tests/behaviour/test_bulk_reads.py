"""Blocks of segments come alike from their file and, where that cannot be, through the broker; pipelined and mixed."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

from forebay.wire.blocks.frames import (
    BLOCKS,
    BLOCKS_HEAD_OCTETS,
    FRAME_HEAD_OCTETS,
    PREFACE,
    REPLY,
    REQUEST,
    decode_blocks_head,
    encode_json,
    frame_octets,
)
from tests.behaviour.kinds import open_channel
from tests.blocks import blocks_of
from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.waiting import until

COUNT = 400
BODY = bytes(32_768)
LIMIT_S = 60


class Asking:
    """One connection on which any number of requests are sent before the first answer is read."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.connection.sendall(PREFACE + encode_json(REQUEST, {"op": "auth", "user": "guest", "password": "guest"}))
        assert self.read(len(PREFACE)) == PREFACE
        assert self.frame()[0] == REPLY

    def read(self, octets: int) -> bytes:
        parts: list[bytes] = []
        while octets:
            part = self.connection.recv(min(octets, 1 << 20))
            assert part, "the broker closed the connection"
            parts.append(part)
            octets -= len(part)
        return b"".join(parts)

    def frame(self) -> tuple[int, bytes]:
        head = self.read(FRAME_HEAD_OCTETS)
        return head[4], self.read(int(frame_octets(head, 0, 1 << 30)) - FRAME_HEAD_OCTETS)

    def fetch(self, first: int, end: int) -> bytes:
        return encode_json(REQUEST, {"op": "fetch", "queue": "q", "first": first, "end": end})

    def all(self) -> list[bytes]:
        """Every body, with two requests on the way at a time, of which the second is another each time."""
        found: list[bytes] = []
        first = 0
        while first < COUNT:
            self.connection.sendall(self.fetch(first, COUNT) + encode_json(REQUEST, {"op": "describe", "queue": "q"}))
            kind, payload = self.frame()
            assert kind == BLOCKS
            next, _ = decode_blocks_head(payload)
            for block in blocks_of(payload[BLOCKS_HEAD_OCTETS:]):
                low = max(first, int(block.base))
                found += [block.body(offset - int(block.base)) for offset in range(low, int(block.end))]
            assert next > first
            first = next
            assert self.frame()[0] == REPLY
        return found


def test_the_same_octets_with_and_without_tls(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    certificates = Certificates(tmp_path / "certificates")
    small = {"wal_octets_max": 4 << 20, "wal_chunk_octets": 1 << 20, "cache_octets_max": 1 << 20}
    broker = start_broker(amqps="127.0.0.1:0", **certificates.options(**small))
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    bodies = [b"%08d" % number + BODY for number in range(COUNT)]
    for body in bodies:
        channel.basic_publish("", "q", body)
    until(lambda: broker.octets_in_segments() >= COUNT * len(BODY) // 2, "most of the log in segments")
    with socket.create_connection(("127.0.0.1", broker.amqp_port), LIMIT_S) as plain:
        assert Asking(plain).all() == bodies
    with (
        socket.create_connection(("127.0.0.1", broker.port("amqps")), LIMIT_S) as inner,
        certificates.client().wrap_socket(inner, server_hostname="127.0.0.1") as secure,
    ):
        assert Asking(secure).all() == bodies
