"""HTTP at a node that does not lead, over real sockets."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from forebay.node.peer import Peer
from forebay.server.cluster.clients.probes import HttpClient, HttpHost
from forebay.server.listen import HTTP, Endpoint

ENDPOINT = Endpoint(
    name="http",
    address="",
    protocol=HTTP,
    tls=None,
    websocket=None,
    identity="none",
    proxied=False,
    handshake_s=10,
    leave_s=1,
    starting_max=10,
)


class Leader(asyncio.Protocol):
    """The place that a connection is passed on to."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(b"the leader has got " + data)
        self.transport.close()


class Follower(HttpHost):
    """A node that does not lead."""

    def __init__(self, why: str = "", elsewhere: tuple[int, dict[str, str], str] | None = None) -> None:
        self.why = why
        self.elsewhere = elsewhere

    def why_unready(self) -> str:
        return self.why

    def http_elsewhere(self, endpoint: Endpoint, target: str) -> tuple[int, dict[str, str], str] | None:
        if self.elsewhere is None:
            return None
        code, headers, text = self.elsewhere
        return code, {name: value + target for name, value in headers.items()}, text

    def http_relay(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        return Leader()


async def asked(host: Follower, *parts: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(partial(HttpClient, host, ENDPOINT, None), "127.0.0.1", 0)
    async with asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for part in parts:
            writer.write(part)
            await writer.drain()
        found = await reader.read()
        writer.close()
    server.close()
    return found


def answer(host: Follower, *parts: bytes) -> tuple[bytes, bytes]:
    """The status line, and what follows the head."""
    head, _, body = asyncio.run(asked(host, *parts)).partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0], body


def test_a_follower_in_sync_is_ready_and_one_that_is_not_says_why() -> None:
    request = (b"GET /ready HT", b"TP/1.1\r\nHost: x\r\n\r\n")
    assert answer(Follower(), *request) == (b"HTTP/1.1 200 OK", b'{"status":"ready"}')
    refused = answer(Follower("catching-up"), *request)
    assert refused == (b"HTTP/1.1 503 Service Unavailable", b'{"status":"catching-up"}')
    alive = answer(Follower("catching-up"), b"GET /health?a=b HTTP/1.1\r\n\r\n")
    assert alive == (b"HTTP/1.1 200 OK", b'{"status":"healthy"}')
    assert answer(Follower(), b"HEAD /ready HTTP/1.1\r\n\r\n") == (b"HTTP/1.1 200 OK", b"")


def test_other_requests_go_to_the_leader() -> None:
    for request in (b"GET /api/overview HTTP/1.1\r\n\r\n", b"POST /ready HTTP/1.1\r\n\r\n", b"\x16" * 9000):
        assert asyncio.run(asked(Follower(), request)).startswith(b"the leader has got " + request[:4000])


@pytest.mark.parametrize(
    ("elsewhere", "first", "second"),
    [
        (
            (307, {"Location": "http://b:1"}, "not here"),
            b"HTTP/1.1 307 Temporary Redirect",
            b"Location: http://b:1/api",
        ),
        ((503, {"Retry-After": "1"}, "not here"), b"HTTP/1.1 503 Service Unavailable", b"not here"),
    ],
)
def test_where_nothing_is_passed_on_the_answer_says_where_to_go(
    elsewhere: tuple[int, dict[str, str], str], first: bytes, second: bytes
) -> None:
    found = asyncio.run(asked(Follower("", elsewhere), b"GET /api HTTP/1.1\r\n\r\n"))
    assert found.startswith(first) and second in found
    assert answer(Follower("", elsewhere), b"GET /ready HTTP/1.1\r\n\r\n")[0] == b"HTTP/1.1 200 OK"


def test_what_is_no_http_is_answered() -> None:
    found = answer(Follower("", (503, {}, "")), b"\0\0\r\n")
    assert found == (b"HTTP/1.1 400 Bad Request", b"this is no request of HTTP\n")
