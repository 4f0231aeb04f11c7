"""One request over HTTP and its answer: what the application receives of the one, and writes of the other (ASGI)."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from http import HTTPStatus
from typing import Final

from starlette.types import ASGIApp, Message, Scope

STATUS_LINES: Final = {each.value: b"HTTP/1.1 %d %s\r\n" % (each, each.phrase.encode()) for each in HTTPStatus}
NO_NAME: Final = re.compile(rb'[\x00-\x1f\x7f()<>@,;:\[\]={} \t\\"]')
NO_VALUE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LINE_END: Final = b"\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
WITHOUT_BODY: Final = (204, 304)
ERROR: Final = 500
ERROR_BODY: Final = b"Internal Server Error"
CHUNKED: Final = -1


class RequestFlow:
    """The flow of one connection; while octets wait to be parsed, no more are read, whoever asks for them."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.is_held = False
        self.is_read = True
        self.writable = asyncio.Event()
        self.writable.set()

    def pause_reading(self) -> None:
        if self.is_read:
            self.is_read = False
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if not self.is_read and not self.is_held:
            self.is_read = True
            self.transport.resume_reading()

    def hold(self, held: bool) -> None:
        """Read no more, or go on where nothing else is against it."""
        if held == self.is_held:
            return
        self.is_held = held
        if held:
            self.pause_reading()
        else:
            self.resume_reading()


class ExchangeOwner(ABC):
    """The connection of an exchange.

    date  field of the head of every answer
    """

    transport: asyncio.Transport
    flow: RequestFlow

    @property
    @abstractmethod
    def date(self) -> bytes:
        """Return the value of the field Date."""

    @abstractmethod
    def answer_complete(self) -> None:
        """Go on with the next request."""


class HttpExchange:
    """A request, and its answer.

    body        octets that came and that the application has not received
    more_body   there are more to come
    has_gone    the client has closed the connection, or was refused
    started     the head of the answer is written
    complete    all of the answer is written
    keep_alive  the connection stays open behind the answer
    continues   the client waits for the broker to ask for the body
    left        octets of the answer's body still to be written; CHUNKED where nobody knows
    """

    def __init__(self, owner: ExchangeOwner, scope: Scope, keep_alive: bool, continues: bool) -> None:
        self.owner = owner
        self.scope = scope
        self.body = bytearray()
        self.more_body = True
        self.has_gone = False
        self.started = False
        self.complete = False
        self.keep_alive = keep_alive
        self.continues = continues
        self.left = CHUNKED
        self.news = asyncio.Event()

    def end(self) -> None:
        """Note that nobody is there any more who could be answered."""
        self.has_gone = True
        self.news.set()

    async def run(self, application: ASGIApp) -> None:
        """Have the application answer; a request that it leaves without an answer is told so."""
        await application(self.scope, self.receive, self.send)
        if not self.has_gone and not self.started:
            await self.send_error()
        elif not self.has_gone and not self.complete:
            self.owner.transport.close()

    async def send_error(self) -> None:
        length = b"%d" % len(ERROR_BODY)
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", length)]
        headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": ERROR, "headers": headers})
        await self.send({"type": "http.response.body", "body": ERROR_BODY})

    async def receive(self) -> Message:
        """Return what has come of the body, or that the client has gone; wait for it."""
        if self.continues and not self.owner.transport.is_closing():
            self.owner.transport.write(CONTINUE)
            self.continues = False
        if not self.has_gone and not self.complete:
            self.owner.flow.resume_reading()
            await self.news.wait()
            self.news.clear()
        if self.has_gone or self.complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        """Write a part of the answer, when the client takes more."""
        if not self.has_gone:
            await self.owner.flow.writable.wait()
        if self.has_gone:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self.started:
            self.started = True
            self.continues = False
            self.owner.transport.write(self.head(message["status"], message.get("headers", [])))
        elif kind == "http.response.body" and self.started and not self.complete:
            self.write_body(message.get("body", b""), message.get("more_body", False))
        else:
            raise RuntimeError(f"the application sends {kind}, which is not its turn")

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the head of the answer, which says how long its body is."""
        lines = [STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, b"date: ", self.owner.date, LINE_END]
        is_length_known = is_last_known = False
        for name, value in headers:
            if NO_NAME.search(name) or NO_VALUE.search(value):
                raise RuntimeError(f"no field of a head: {name!r}: {value!r}")
            lower = name.lower()
            if lower == b"content-length":
                self.left = int(value)
                is_length_known = True
            elif lower == b"connection" and b"close" in (each.strip().lower() for each in value.split(b",")):
                self.keep_alive = False
                is_last_known = True
            lines += (lower, b": ", value, LINE_END)
        if not self.keep_alive and not is_last_known:
            lines.append(b"connection: close\r\n")
        if self.scope["method"] == "HEAD" or (status in WITHOUT_BODY and not is_length_known):
            self.left = 0
        elif not is_length_known:
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(LINE_END)
        return b"".join(lines)

    def write_body(self, body: bytes, more_body: bool) -> None:
        """Write octets of the answer's body, and its end."""
        if self.scope["method"] == "HEAD":
            body = b""
        if self.left == CHUNKED:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.owner.transport.write(chunk if more_body else chunk + LAST_CHUNK)
        elif len(body) > self.left or (not more_body and len(body) < self.left):
            raise RuntimeError(f"{len(body)} octets of an answer, of which {self.left} are left")
        else:
            self.left -= len(body)
            self.owner.transport.write(body)
        if not more_body:
            self.complete = True
            self.news.set()
            if not self.keep_alive:
                self.owner.transport.close()
            self.owner.answer_complete()
