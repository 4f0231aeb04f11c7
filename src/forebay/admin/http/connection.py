"""One connection over HTTP: it is given one request at a time, however fast its client sends.

The parser takes apart all that it is given, and makes an object of each request, of which a read holds thousands. So it
is given no more than the request whose turn it is: the octets behind it wait as they came, and no more are read until
it is answered and its client has taken the answer.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

import orjson
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from forebay.node.peer import Peer, split_name
from forebay.server.transport.door import SLOW, Door

BAD_REQUEST: Final = 400
HEAD_TOO_LARGE: Final = 431
UNAVAILABLE: Final = 503
WORDS: Final = {BAD_REQUEST: "bad_request", HEAD_TOO_LARGE: "head_too_large", UNAVAILABLE: "unavailable"}
HEAD_END: Final = b"\r\n\r\n"
PIECE_OCTETS: Final = 1024  # that the parser is given where it is not known where a request ends
CHUNKS_OCTETS: Final = 4096  # the same of a body in chunks
FIELD_OCTETS: Final = 32  # what a field of a head takes beside its octets, as RFC 9113 reckons (6.5.2)
CHUNK_OCTETS: Final = 16  # what a chunk takes beside its own octets, which may be one
LENGTH_DIGITS_MAX: Final = 18
LEAVE_S: Final = 1.0  # that a client is given to read why it was refused
LEAVE_OCTETS_MAX: Final = 256 << 10  # that it may send meanwhile
quiet = logging.getLogger("forebay.http")  # the library writes lines of what strangers send
quiet.setLevel(logging.ERROR)
logger = logging.getLogger("forebay")


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds that the head and the body of a request may take, and a client to read the answer."""

    head_s: float
    body_s: float
    answer_s: float


class RequestFlow(FlowControl):
    """The flow of one connection; while octets wait to be parsed, no more are read, whoever asks for them."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__(transport)
        self.is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()

    def hold(self, held: bool) -> None:
        """Read no more, or go on where nothing else is against it."""
        if held == self.is_held:
            return
        self.is_held = held
        if held:
            self.pause_reading()
        else:
            self.resume_reading()


class HttpConnection(HttpToolsProtocol):
    """One connection; its client is whom a PROXY header tells, if one does.

    held         octets that the parser has not been given, from `at` on
    octets       that came and are of requests not answered yet; the door has the sum of all connections
    head_octets  that the parser was given since the last request's head, and of its fields
    frame_octets of a body in chunks: beyond what chunks of one octet each would take
    """

    def __init__(self, server: uvicorn.Server, peer: Peer | None, door: Door, times: Times) -> None:
        super().__init__(server.config, server.server_state, {})
        self.logger = quiet
        self.peer = peer
        self.door = door
        self.times = times
        self.address = ""
        self.held = b""
        self.at = 0
        self.octets = 0
        self.head_octets = 0
        self.field_octets = 0
        self.frame_octets = 0
        self.body_left = 0  # of a body whose length is known; -1 for one in chunks
        self.is_refused = False
        self.is_lost = False
        self.thrown_octets = 0  # since it was refused
        self.head_since = 0.0  # since when a request's head is awaited; 0 while none is
        self.body_since = 0.0  # and its body
        self.unread_since = 0.0  # and since when the client does not read the answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = self.gate = RequestFlow(transport)
        if self.peer is not None:
            self.client = split_name(self.peer.name)
        self.head_since = self.loop.time()
        self.address = self.client[0] if self.client else ""
        lack = self.door.enter(self.address)
        if lack:
            self.refuse(UNAVAILABLE, lack, 0.0)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self.door.leave(self.address)
        self.door.unread.discard(self.transport)
        self.count(-self.octets)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        # These objects refer to each other: without this they stay in memory until the collector runs, which is seldom.
        self.held = b""
        self.pipeline.clear()
        self.cycle = self.scope = self.headers = None  # type: ignore[assignment]

    # ---- what comes

    def data_received(self, data: bytes) -> None:
        if self.is_refused or self.is_lost:
            self.thrown_octets += len(data)
            if self.thrown_octets > LEAVE_OCTETS_MAX:
                self.transport.abort()
            return
        self.held = self.held[self.at :] + data if self.held else data
        self.at = 0
        self.count(len(data))
        lack = self.door.lack(self.octets)
        if lack:
            self.refuse(UNAVAILABLE, lack)
            return
        self.take()
        if self.cycle is not None and self.cycle.response_complete:
            self.count(len(self.held) - self.at - self.octets)  # the rest of a body that nobody wants

    def take(self) -> None:
        """Give the parser what is held, up to the end of the request whose turn it is."""
        while self.at < len(self.held) and not (self.is_refused or self.is_answering() or self.transport.is_closing()):
            self.feed(self.held[self.at : self.at + self.piece_octets()])
        if self.at >= len(self.held):
            self.held = b""
            self.at = 0
        self.gate.hold(bool(self.held))

    def is_answering(self) -> bool:
        """True if there is a whole request that is not answered."""
        return not self.body_since and self.cycle is not None and not self.cycle.response_complete

    def piece_octets(self) -> int:
        """The octets held of one request, as far as that can be seen."""
        if self.body_since:
            return self.body_left if self.body_left > 0 else CHUNKS_OCTETS
        end = self.held.find(HEAD_END, self.at, self.at + PIECE_OCTETS)
        return PIECE_OCTETS if end < 0 else end + len(HEAD_END) - self.at

    def feed(self, piece: bytes) -> None:
        """Give the parser a piece, and look what it has made of it."""
        if not self.head_since and not self.body_since:
            self.head_since = self.loop.time()  # of the next request on this connection
        self.at += len(piece)
        if self.body_since:
            self.body_left -= len(piece) if self.body_left > 0 else 0
            self.frame_octets += len(piece) if self.body_left < 0 else 0
        else:
            self.head_octets += len(piece)
        super().data_received(piece)
        self.check_head()

    def check_head(self) -> None:
        """Refuse a request whose head is too long, however much of it is there."""
        fault = self.door.head_fault(self.head_octets + self.field_octets + max(0, self.frame_octets))
        if fault and not self.is_lost:
            self.refuse(HEAD_TOO_LARGE, fault)

    # ---- what the parser says

    def on_header(self, name: bytes, value: bytes) -> None:
        self.field_octets += FIELD_OCTETS
        if self.body_since:  # behind the body: nobody asks for it
            self.field_octets += len(name) + len(value)
            return
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.head_since = 0.0
        self.check_head()
        if self.is_refused:
            return
        self.body_since = self.loop.time()
        self.frame_octets = 0
        self.body_left = length_of(self.headers)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self.frame_octets -= CHUNK_OCTETS * len(body)
        if not self.is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self.body_since = 0.0
        self.body_left = 0
        self.head_octets = self.field_octets = self.frame_octets = 0
        if not self.is_refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.is_lost:
            return
        self.count(len(self.held) - self.at - self.octets)
        if self.held:
            self.loop.call_soon(self.take_on)

    def take_on(self) -> None:
        """The next request's turn has come."""
        if not self.is_lost:
            self.take()

    def count(self, octets: int) -> None:
        """Note that so many octets more are held; or fewer, where the number is negative."""
        self.octets += octets
        self.door.octets += octets

    def _unsupported_upgrade_warning(self) -> None:
        """Answered like any other request; it is worth no line of the log."""

    # ---- the end

    def send_400_response(self, msg: str) -> None:
        self.refuse(BAD_REQUEST, msg)

    def refuse(self, status: int, reason: str, leave_s: float = LEAVE_S) -> None:
        """Say why nothing more is taken, and end; what the client still sends is read and thrown away for a moment."""
        if self.is_refused:
            return
        self.is_refused = True
        self.held = b""
        self.at = 0
        self.count(-self.octets)
        logger.debug("HTTP connection from %s refused: %s", self.client, reason)
        if self.cycle is not None and not self.cycle.response_complete and self.cycle.response_started:
            self.transport.abort()  # what is said now would be taken for part of the answer
            return
        if self.cycle is not None:
            self.cycle.disconnected = True  # its handler says nothing more
            self.cycle.message_event.set()
        body = orjson.dumps({"error": WORDS[status], "reason": reason})
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINE[status] + head + body)
        if leave_s and self.transport.can_write_eof():
            self.transport.write_eof()
            self.gate.hold(False)
            self.loop.call_later(leave_s, self.transport.abort)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        self.unread_since = self.loop.time()
        super().pause_writing()
        self.door.add_unread(self.transport)

    def resume_writing(self) -> None:
        self.unread_since = 0.0
        self.door.unread.discard(self.transport)
        super().resume_writing()

    def end_slow(self, now_s: float) -> None:
        """Close the connection of a client that takes too long: it may be that it means to."""
        times = self.times
        spans = ((self.head_since, times.head_s), (self.body_since, times.body_s), (self.unread_since, times.answer_s))
        if any(since and now_s - since > most_s for since, most_s in spans):
            self.door.refused[SLOW] += 1
            self.transport.abort()


def length_of(headers: list[tuple[bytes, bytes]]) -> int:
    """The length of the body by its head; -1 where it comes in chunks, or the parser is to say what it is."""
    length = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            return -1
        if name == b"content-length":
            length = int(value) if value.isdigit() and len(value) <= LENGTH_DIGITS_MAX else -1
    return length
