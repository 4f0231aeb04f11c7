"""One connection over HTTP: it is given one request at a time, however fast its client sends.

The parser takes apart all that it is given, and makes an object of each request, of which a read holds thousands. So it
is given no more than the request whose turn it is: the octets behind it wait as they came, and no more are read until
it is answered and its client has taken the answer.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.parse
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, cast

import httptools
import orjson
from starlette.types import ASGIApp

from forebay.admin.http.early_request import KEEP_ALIVE_S
from forebay.admin.http.exchange import STATUS_LINES, ExchangeOwner, HttpExchange, RequestFlow
from forebay.node.peer import Peer, split_name
from forebay.server.transport.door import SLOW, Door

BAD_REQUEST: Final = 400
HEAD_TOO_LARGE: Final = 431
UNAVAILABLE: Final = 503
WORDS: Final = {BAD_REQUEST: "bad_request", HEAD_TOO_LARGE: "head_too_large", UNAVAILABLE: "unavailable"}
CONTINUE: Final = b"100-continue"
WAITING_OCTETS_MAX: Final = 64 << 10  # of a body that its handler has not received: then no more is read
HEAD_END: Final = b"\r\n\r\n"
PIECE_OCTETS: Final = 1024  # that the parser is given where it is not known where a request ends
CHUNKS_OCTETS: Final = 4096  # the same of a body in chunks
FIELD_OCTETS: Final = 32  # what a field of a head takes beside its octets, as RFC 9113 reckons (6.5.2)
CHUNK_OCTETS: Final = 16  # what a chunk takes beside its own octets, which may be one
LENGTH_DIGITS_MAX: Final = 18
LEAVE_S: Final = 1.0  # that a client is given to read why it was refused
LEAVE_OCTETS_MAX: Final = 256 << 10  # that it may send meanwhile
logger = logging.getLogger("forebay")


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds that the head and the body of a request may take, and a client to read the answer."""

    head_s: float
    body_s: float
    answer_s: float


class RequestHost(ABC):
    """The server whose connections these are.

    application  answers requests
    connections  those that are open
    answering    requests that are being answered
    date         of answers
    """

    application: ASGIApp
    connections: set[HttpConnection]
    answering: set[asyncio.Task[None]]
    date: bytes

    @abstractmethod
    def begin(self, exchange: HttpExchange) -> None:
        """Have a request answered."""


class HttpConnection(ExchangeOwner, asyncio.Protocol):
    """One connection; its client is whom a PROXY header tells, if one does.

    exchange     the newest request, and its answer
    pipeline     requests of one read that wait for the answer to that before
    held         octets that the parser has not been given, from `at` on
    octets       that came and are of requests not answered yet; the door has the sum of all connections
    head_octets  that the parser was given since the last request's head, and of its fields
    frame_octets of a body in chunks: beyond what chunks of one octet each would take
    """

    def __init__(self, host: RequestHost, peer: Peer | None, door: Door, times: Times) -> None:
        self.host = host
        self.peer = peer
        self.door = door
        self.times = times
        self.loop = asyncio.get_running_loop()
        self.parser: Any = httptools.HttpRequestParser(self)  # None once the connection is lost
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # a request behind the last is ignored
        self.transport = cast("asyncio.Transport", None)
        self.flow = cast("RequestFlow", None)
        self.client: tuple[str, int] | None = None
        self.address = ""
        self.place: dict[str, Any] = {}
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.exchange: HttpExchange | None = None
        self.pipeline: deque[HttpExchange] = deque()
        self.idle: asyncio.TimerHandle | None = None
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

    @property
    def date(self) -> bytes:
        return self.host.date

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.flow = RequestFlow(self.transport)
        self.host.connections.add(self)
        known = split_name(self.peer.name) if self.peer is not None else transport.get_extra_info("peername")
        self.client = address_of(known)
        self.place = {
            "server": address_of(transport.get_extra_info("sockname")),
            "client": self.client,
            "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
        }
        self.head_since = self.loop.time()
        self.address = self.client[0] if self.client else ""
        lack = self.door.enter(self.address)
        if lack:
            self.refuse(UNAVAILABLE, lack, 0.0)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self.host.connections.discard(self)
        self.door.leave(self.address)
        self.door.unread.discard(self.transport)
        self.count(-self.octets)
        for each in (self.exchange, *self.pipeline):
            if each is not None:
                each.end()
        self.flow.writable.set()
        self.transport.close()
        self.wait_idle(0)
        # These objects refer to each other: without this they stay in memory until the collector runs, which is seldom.
        self.held = b""
        self.pipeline.clear()
        self.exchange = None
        self.headers = []
        self.parser = None

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
        if self.exchange is not None and self.exchange.complete:
            self.count(len(self.held) - self.at - self.octets)  # the rest of a body that nobody wants

    def take(self) -> None:
        """Give the parser what is held, up to the end of the request whose turn it is."""
        while self.at < len(self.held) and not (self.is_refused or self.is_answering() or self.transport.is_closing()):
            self.feed(self.held[self.at : self.at + self.piece_octets()])
        if self.at >= len(self.held):
            self.held = b""
            self.at = 0
        self.flow.hold(bool(self.held))

    def is_answering(self) -> bool:
        """True if there is a whole request that is not answered."""
        return not self.body_since and self.exchange is not None and not self.exchange.complete

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
        self.wait_idle(0)
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            pass  # it is answered like any other request
        except httptools.HttpParserError:
            self.refuse(BAD_REQUEST, "Invalid HTTP request received.")
            return
        self.check_head()

    def check_head(self) -> None:
        """Refuse a request whose head is too long, however much of it is there."""
        fault = self.door.head_fault(self.head_octets + self.field_octets + max(0, self.frame_octets))
        if fault and not self.is_lost:
            self.refuse(HEAD_TOO_LARGE, fault)

    # ---- what the parser says

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.field_octets += FIELD_OCTETS
        if self.body_since:  # behind the body: nobody asks for it
            self.field_octets += len(name) + len(value)
            return
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.head_since = 0.0
        self.check_head()
        if self.is_refused:
            return
        self.body_since = self.loop.time()
        self.frame_octets = 0
        self.body_left = length_of(self.headers)
        before = self.exchange
        self.exchange = self.make_exchange()
        if before is None or before.complete:
            self.host.begin(self.exchange)
        else:
            self.flow.pause_reading()
            self.pipeline.append(self.exchange)

    def make_exchange(self) -> HttpExchange:
        """Make the exchange of the request whose head has come."""
        url = httptools.parse_url(self.url)
        version = self.parser.get_http_version()
        path = url.path.decode("ascii")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": version,
            "method": self.parser.get_method().decode("ascii"),
            "path": urllib.parse.unquote(path),
            "raw_path": url.path,
            "query_string": url.query or b"",
            "root_path": "",
            "headers": self.headers,
            "state": {},
            **self.place,
        }
        continues = any(name == b"expect" and value.lower() == CONTINUE for name, value in self.headers)
        return HttpExchange(self, scope, version != "1.0" and self.parser.should_keep_alive(), continues)

    def on_body(self, body: bytes) -> None:
        self.frame_octets -= CHUNK_OCTETS * len(body)
        exchange = self.exchange
        if self.is_refused or exchange is None or exchange.complete:
            return
        exchange.body += body
        if len(exchange.body) > WAITING_OCTETS_MAX:
            self.flow.pause_reading()
        exchange.news.set()

    def on_message_complete(self) -> None:
        self.body_since = 0.0
        self.body_left = 0
        self.head_octets = self.field_octets = self.frame_octets = 0
        exchange = self.exchange
        if not self.is_refused and exchange is not None and not exchange.complete:
            exchange.more_body = False
            exchange.news.set()

    # ---- answers

    def answer_complete(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()
            if self.pipeline:
                self.host.begin(self.pipeline.popleft())
            else:
                self.wait_idle(KEEP_ALIVE_S)
        if self.is_lost:
            return
        self.count(len(self.held) - self.at - self.octets)
        if self.held:
            self.loop.call_soon(self.take_on)

    def wait_idle(self, seconds: float) -> None:
        """Close the connection unless something comes within so many seconds; 0: it has come."""
        if self.idle is not None:
            self.idle.cancel()
        self.idle = self.loop.call_later(seconds, self.transport.close) if seconds else None

    def finish(self) -> None:
        """Close the connection, behind the answer that is under way."""
        if self.exchange is None or self.exchange.complete:
            self.transport.close()
        else:
            self.exchange.keep_alive = False

    def take_on(self) -> None:
        """The next request's turn has come."""
        if not self.is_lost:
            self.take()

    def count(self, octets: int) -> None:
        """Note that so many octets more are held; or fewer, where the number is negative."""
        self.octets += octets
        self.door.octets += octets

    # ---- the end

    def refuse(self, status: int, reason: str, leave_s: float = LEAVE_S) -> None:
        """Say why nothing more is taken, and end; what the client still sends is read and thrown away for a moment."""
        if self.is_refused:
            return
        self.is_refused = True
        self.held = b""
        self.at = 0
        self.count(-self.octets)
        logger.debug("HTTP connection from %s refused: %s", self.client, reason)
        exchange = self.exchange
        if exchange is not None and not exchange.complete and exchange.started:
            self.transport.abort()  # what is said now would be taken for part of the answer
            return
        if exchange is not None:
            exchange.end()  # its handler says nothing more
        body = orjson.dumps({"error": WORDS[status], "reason": reason})
        head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(STATUS_LINES[status] + head + body)
        if leave_s and self.transport.can_write_eof():
            self.transport.write_eof()
            self.flow.hold(False)
            self.loop.call_later(leave_s, self.transport.abort)
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        self.unread_since = self.loop.time()
        self.flow.writable.clear()
        self.door.add_unread(self.transport)

    def resume_writing(self) -> None:
        self.unread_since = 0.0
        self.door.unread.discard(self.transport)
        self.flow.writable.set()

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


def address_of(name: object) -> tuple[str, int] | None:
    """Return an address of a socket as an application has it; None for one that is none of IP."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) >= 2 else None
