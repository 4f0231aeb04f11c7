"""The answer to Prometheus at a node that does not lead, octet by octet."""

from __future__ import annotations

import asyncio

import pytest

from forebay.server.cluster.clients.scrape import HEAD_OCTETS_MAX, ScrapeAnswer


async def answered(*parts: bytes) -> bytes:
    """All that a client gets which sends these, until the end of the connection."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: ScrapeAnswer(lambda accept: ("text/x", accept.encode())), "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for part in parts:
            writer.write(part)
            await writer.drain()
        found = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return found


@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object", "/metrics/detailed?family=x"])
def test_metrics_come_once_the_request_is_whole(path: str) -> None:
    found = asyncio.run(
        answered(b"GET " + path.encode() + b" HTTP/1.1\r\nHost: x\r\nacc", b"ept: text/plain\r\n\r", b"\n")
    )
    assert found.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 10\r\nConnection: close\r\n")
    assert found.endswith(b"\r\n\r\ntext/plain")


@pytest.mark.parametrize(
    ("request_octets", "status"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n" + b"x" * HEAD_OCTETS_MAX, b"431"),
    ],
)
def test_everything_else_is_refused(request_octets: bytes, status: bytes) -> None:
    assert asyncio.run(answered(request_octets)).startswith(b"HTTP/1.1 " + status)
