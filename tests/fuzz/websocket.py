"""WebSocket framing in the hand: the server's protocol over a transport in memory, in front of a held node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any, Final, cast

from forebay.node.entry.protocols import MQTT_ONLY
from forebay.node.ready import Ready
from forebay.server.net import Connection, Host
from forebay.server.transport.sending import FileSender
from forebay.server.transport.websocket import WebSocket, WebSocketSettings
from tests.conformance.mqtt.raw_websocket import BINARY, CLOSE, CONT, PING, PONG, TEXT, frame, request
from tests.fuzz.held import Held
from tests.fuzz.mutator import OCTETS, SPOILERS, Mutator, pieces

SETTINGS: Final = WebSocketSettings("/mqtt", (), 1 << 16, 1.0)
LEFT_OUT: Final = (b"/mqtt", b"HTTP/1.1", b"Host", b"Sec-WebSocket-Key", b"Upgrade", b"Sec-WebSocket-Protocol", b"13")


class MemoryTransport(asyncio.Transport):
    """The client's end: it counts what it is sent."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 50_000)})
        self.octets = 0
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        self.octets += len(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        for each in list_of_data:
            self.write(each)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        return

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        return

    def resume_reading(self) -> None:
        return

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return


class WebHeld(Held):
    """A held node whose connections come over WebSocket."""

    def do(self, ready: Ready) -> None:
        sends, closes, cuts = (cast("list[Connection]", each) for each in (ready.send, ready.close, ready.cut))
        ready.send, ready.close, ready.cut = [], [], []
        super().do(ready)
        for link in cuts:
            link.transport.abort()
        for link in sends:
            link.flush()
        for link in closes:
            link.end()
        for link in cast("list[Connection]", ready.reading):
            link.obey()


class WebHost(Host):
    """The host of a held node: turns are made by hand."""

    def __init__(self, rig: WebHeld) -> None:
        self.broker = rig.broker
        self.sender = cast(FileSender, None)  # no client over WebSocket is sent files
        self.scheduled = False

    def schedule(self) -> None:
        return


def talk(rig: WebHeld, host: WebHost, reads: Iterable[bytes]) -> int:
    """One client from its coming to its end; how many octets it was sent."""
    transport = MemoryTransport()
    web = WebSocket(Connection(host, MQTT_ONLY), SETTINGS)
    web.connection_made(transport)
    for octets in reads:
        if transport.closed:
            break
        web.data_received(octets)
        rig.check()
        rig.settle()
    web.connection_lost(None)
    rig.settle()
    rig.check()
    return transport.octets


def reads_of(chance: Random, mutator: Mutator) -> list[bytes]:
    """A handshake, and then packets of a client in frames; some of it spoilt, and cut anywhere."""
    lines = [step for step in mutator.make(chance).steps if step.kind == OCTETS and step.line == 0]
    begin = request() if chance.random() < 0.6 else request("/amqp", Sec_WebSocket_Protocol="amqp")
    if chance.random() < 0.2:
        begin = begin.replace(chance.choice(LEFT_OUT), chance.choice((b"", b"X-Other", b"\xff")))
    frames = [begin]
    for step in lines:
        kind = chance.random()
        if kind < 0.1:
            frames.append(frame(chance.choice((TEXT, CLOSE, PING, PONG, CONT, 3, 15)), step.octets[:130]))
        elif kind < 0.3:
            at = chance.randrange(len(step.octets) + 1)
            frames += [frame(BINARY, step.octets[:at], fin=False), frame(PING), frame(CONT, step.octets[at:])]
        else:
            frames.append(frame(BINARY, step.octets, masked=chance.random() < 0.98))
    for at in range(len(frames)):
        if chance.random() < 0.05:
            frames[at] = chance.choice(SPOILERS)(chance, frames[at])
    return [octets for each in frames for octets in pieces(chance, each, 0.2)]
