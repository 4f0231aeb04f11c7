"""An answer as it is written: its head, its length, and what an application may not send."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from starlette.types import Message, Receive, Scope, Send

from forebay.admin.http.exchange import ExchangeOwner, HttpExchange, RequestFlow


class Written:
    """Stands in for a transport, and keeps what was written."""

    def __init__(self) -> None:
        self.octets = b""
        self.closed = False

    def write(self, octets: bytes) -> None:
        self.octets += octets

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Owner(ExchangeOwner):
    """A connection that writes to nobody."""

    def __init__(self) -> None:
        self.written = Written()
        self.transport = cast("asyncio.Transport", self.written)
        self.flow = RequestFlow(self.transport)
        self.completed = 0

    @property
    def date(self) -> bytes:
        return b"today"

    def answer_complete(self) -> None:
        self.completed += 1


def start(headers: list[tuple[bytes, bytes]], status: int = 200) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(octets: bytes, more_body: bool = False) -> Message:
    return {"type": "http.response.body", "body": octets, "more_body": more_body}


def answered(messages: list[Message], method: str = "GET", keep_alive: bool = True) -> Owner:
    """The connection of a request that was answered with these messages."""

    async def ask() -> Owner:
        owner = Owner()
        exchange = HttpExchange(owner, {"method": method}, keep_alive, False)

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            for message in messages:
                await send(message)

        await exchange.run(application)
        return owner

    return asyncio.run(ask())


def test_a_body_of_unknown_length_comes_in_chunks() -> None:
    owner = answered([start([]), body(b"ab", True), body(b"cde")])
    assert owner.written.octets == (
        b"HTTP/1.1 200 OK\r\ndate: today\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
    )
    assert (owner.completed, owner.written.closed) == (1, False)


def test_the_connection_ends_behind_the_last_answer() -> None:
    owner = answered([start([(b"Content-Length", b"2")]), body(b"ab")], keep_alive=False)
    assert owner.written.octets.endswith(b"content-length: 2\r\nconnection: close\r\n\r\nab")
    assert owner.written.closed


def test_an_answer_to_head_has_no_body() -> None:
    owner = answered([start([(b"content-length", b"2")]), body(b"ab")], method="HEAD")
    assert owner.written.octets.endswith(b"content-length: 2\r\n\r\n")


def test_an_application_that_says_nothing_is_an_error_of_ours() -> None:
    owner = answered([])
    assert owner.written.octets.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert owner.written.closed


@pytest.mark.parametrize(
    "messages",
    [
        [start([(b"location", b"a\r\nset-cookie: b")])],
        [start([(b"a b", b"c")])],
        [start([(b"content-length", b"2")]), body(b"abc")],
        [start([(b"content-length", b"2")]), body(b"a")],
        [body(b"a")],
        [start([]), start([])],
    ],
)
def test_what_makes_no_answer_is_not_written(messages: list[Message]) -> None:
    with pytest.raises(RuntimeError):
        answered(messages)
