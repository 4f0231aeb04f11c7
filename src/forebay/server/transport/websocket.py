"""MQTT and AMQP over WebSocket: a protocol to the loop's transport, and itself the transport of a Connection.

The octets are the `websockets` library's work: `ServerProtocol` parses and writes frames and knows no socket. A frame
is neither a packet [MQTT-6.0.0-2] nor a frame of AMQP: what the binary frames hold is one stream, and each flush leaves
as one frame. The request's path and its subprotocols say which of the two protocols a client speaks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import urlsplit

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import Event, State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from forebay.node.entry.protocols import AMQP_ONLY
from forebay.server.net import Connection

MQTT: Final = Subprotocol("mqtt")  # [MQTT-6.0.0-3]
AMQP: Final = (Subprotocol("amqp"), Subprotocol("AMQPWSB10"))  # the latter is the only one that Azure's clients offer
# `/ws` is RabbitMQ's path, the last one Azure's. None of them needs the slash at its end that some clients add.
AMQP_PATHS: Final = ("/amqp", "", "/ws", "/$servicebus/websocket")
THIS_MACHINE: Final = ("localhost", "127.0.0.1", "::1")
REQUEST: Final = b"GET /"
DATA: Final = (Opcode.BINARY, Opcode.CONT)
logger = logging.getLogger("forebay")
# The library tells of each connection's coming and going; what it says of errors is worth a line.
library_logger = logging.getLogger("forebay.websocket")
library_logger.setLevel(logging.ERROR)


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """The demands of a listener on its clients.

    path        where MQTT is; what follows a `?` is the client's own business. AMQP is at AMQP_PATHS
    origins     whose pages may connect, beside those of this machine and, from elsewhere, those of the host that was
                asked; "*" for any. Who sends none is no browser, and may
    octets_max  of a message, however many frames it comes in
    leave_s     how long a client may take to answer the close frame
    """

    path: str
    origins: tuple[str, ...]
    octets_max: int
    leave_s: float

    def admits(self, origin: str, host: str) -> bool:
        """Return whether a page of this origin may connect.

        host  the broker's name in the request, where that is proof
        """
        if origin in self.origins or "*" in self.origins:
            return True
        try:
            name = urlsplit(origin).hostname
            return name is not None and (name in THIS_MACHINE or name == urlsplit(f"//{host}").hostname)
        except ValueError:
            return False

    def subprotocols_for(self, request: Request) -> list[Subprotocol]:
        """Return the subprotocols served at the path of a request, the preferred one first; none if nothing is there.

        AMQP is only there for clients that offer it, as it has paths where others may expect something else.
        """
        path = request.path.partition("?")[0]
        found = [MQTT] if path == self.path else []
        if path.removesuffix("/") in AMQP_PATHS:
            offered = ",".join(request.headers.get_all("Sec-WebSocket-Protocol")).split(",")
            found += [each for each in AMQP if each in [name.strip() for name in offered]]
        return found


class WebSocket(asyncio.Protocol, asyncio.Transport):
    """One client's WebSocket, between its transport and its Connection."""

    def __init__(self, connection: Connection, settings: WebSocketSettings) -> None:
        super().__init__()
        self.connection = connection
        self.settings = settings
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.frames = ServerProtocol(
            max_size=settings.octets_max,
            logger=library_logger,
        )
        self.full = False  # the client does not read: its transport takes no more for now
        self.head_octets = 0  # octets of the request so far
        self.begun = b""  # the first octets
        self.unread_octets = 0  # answers to pings since then
        self.leaving: asyncio.TimerHandle | None = None

    # ---- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.connection.connection_made(self)

    def data_received(self, data: bytes) -> None:
        self.connection.attempt_with(self.read, data)
        self.connection.host.look()

    def read(self, data: bytes) -> None:
        """Process received frames, or the request that begins the connection."""
        frames = self.frames
        opening = frames.state is State.CONNECTING
        if opening and not self.begun:
            self.begun = data[: len(REQUEST)]
            if not REQUEST.startswith(self.begun):
                self.log(f"it begins with {self.begun!r}, which is no request for a WebSocket")
                self.transport.abort()
                return
        frames.receive_data(data)
        events = frames.events_received()
        if opening:
            self.head_octets += len(data)
        if self.connection.is_new and self.is_too_long(self.head_octets if opening else len(frames.reader.buffer)):
            return
        if opening:
            self.open(events)
        else:
            self.take(events)

    def is_too_long(self, octets: int) -> bool:
        """Return whether a request or frame of a client that has not logged in is ended, as it takes too much."""
        connection = self.connection
        most = connection.host.broker.options.login_octets_max
        if octets > most:
            self.log(f"a request or frame of more than {most} octets before a login, login_octets_max")
            self.transport.abort()
            return True
        held = len(connection.rest) if connection.parts is None else connection.parts_octets
        connection.broker.note_unfinished(connection, octets + held)
        return connection.closing

    def open(self, events: list[Event]) -> None:
        """Answer the opening request once it is complete."""
        frames = self.frames
        if not events:
            self.send()
            return
        request = events[0]
        assert isinstance(request, Request)
        if len(events) > 1 or frames.data_to_send():
            self.log("frames before the handshake was answered")
            self.transport.abort()
            return
        origin = request.headers.get("Origin")
        host = "" if self.connection.loopback else request.headers.get("Host", "")
        if origin is not None and not self.settings.admits(origin, host):
            # A page from anywhere could reach a broker on this machine, where `guest` needs no password; it could even
            # give itself the name under which the browser asked, so that on loopback `Host` proves nothing.
            response = frames.reject(HTTPStatus.FORBIDDEN, "Pages of this origin may not connect.\n")
            self.log(f"origin {origin[:80]!r} is not among mqtt_websocket_origins")
        elif served := self.settings.subprotocols_for(request):
            frames.available_subprotocols = served
            response = frames.accept(request)
            if frames.subprotocol in AMQP:
                self.connection.default_protocol = AMQP_ONLY
        else:
            where = f"MQTT is at {self.settings.path}, AMQP at {AMQP_PATHS[0]} with the subprotocol {AMQP[0]}.\n"
            response = frames.reject(HTTPStatus.NOT_FOUND, where)
            self.log(f"no such path: {request.path[:80]!r}")
        frames.send_response(response)
        self.send()

    def take(self, events: list[Event]) -> None:
        """Pass on the content of data frames, and answer control frames."""
        frames = self.frames
        parts: list[bytes | bytearray | memoryview] = []
        text = False
        for frame in events:
            assert isinstance(frame, Frame)
            if frame.opcode is Opcode.TEXT:
                text = True
                break
            if frame.opcode in DATA:
                parts.append(frame.data)
        if parts:
            self.connection.data_received(b"".join(parts))
        if text and frames.state is State.OPEN:
            self.log("a text frame: MQTT and AMQP come in binary frames")  # [MQTT-6.0.0-1]
            frames.fail(CloseCode.UNSUPPORTED_DATA, "MQTT and AMQP come in binary frames")
        self.send()

    def pause_writing(self) -> None:
        self.full = True
        self.connection.pause_writing()

    def resume_writing(self) -> None:
        self.full = False
        self.unread_octets = 0
        self.connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        if self.leaving is not None:
            self.leaving.cancel()
        self.connection.connection_lost(error)

    # ---- from the Connection

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if self.frames.state is State.OPEN:
            self.frames.send_binary(data)
            self.transport.write(b"".join(self.frames.data_to_send()))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[Any]]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Send a close frame, and wait for the client's. A second call closes at once."""
        if self.frames.state is not State.OPEN:
            self.transport.close()
            return
        self.frames.send_close(CloseCode.NORMAL_CLOSURE)
        self.send()
        self.leaving = asyncio.get_running_loop().call_later(self.settings.leave_s, self.transport.abort)

    def abort(self) -> None:
        self.transport.abort()

    def is_closing(self) -> bool:
        return self.frames.state is not State.OPEN or self.transport.is_closing()

    def pause_reading(self) -> None:
        self.transport.pause_reading()

    def resume_reading(self) -> None:
        self.transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self.transport.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.transport.set_write_buffer_limits(high, low)

    # ---- to the transport

    def send(self) -> None:
        """Write the library's output, and close the transport if nothing follows."""
        said = self.frames.data_to_send()
        octets = b"".join(said)
        if octets:
            self.transport.write(octets)
        if self.frames.eof_sent and not self.transport.is_closing():
            error = self.frames.parser_exc or self.frames.handshake_exc
            if error is not None:
                self.log(str(error))
            self.transport.close()
        elif self.full:
            # Deliveries wait for a client that does not read; the answers to its pings must not pile up instead.
            self.unread_octets += len(octets)
            if self.unread_octets > self.connection.host.broker.options.send_buffer_octets_max:
                self.log("it pings and does not read the answers")
                self.transport.abort()

    def log(self, reason: str) -> None:
        logger.info("connection from %s ended: %s%s", self.connection.peer, reason, self.connection.named())
