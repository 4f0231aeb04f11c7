"""Probes and scrapes are answered before the web framework is loaded, and exactly as it answers them afterwards."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
import uvloop

from forebay.admin.http.early_request import read_request
from forebay.admin.service import AdminService, HttpService, MetricsService
from forebay.broker.audit import Origin
from forebay.directory.logins.authorizer import Principal
from tests.held_app import Client, connect, held_app, until

ADMIN = "http"
SCRAPES = "prometheus"
OF_ONE_ANSWER = {b"date", b"content-length"}  # what differs from one answer to the next


def authorization(user: str, password: str) -> str:
    return f"Authorization: Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}\r\n"


GUEST = authorization("guest", "guest")
REQUESTS = [
    (ADMIN, "GET /health", ""),
    (ADMIN, "HEAD /health", ""),
    (ADMIN, "GET /health?a=b", "Cookie: forebay=1\r\n"),
    (ADMIN, "GET /ready", ""),
    (ADMIN, "HEAD /ready", GUEST),
    (ADMIN, "GET /metrics", GUEST),
    (ADMIN, "GET /metrics", GUEST + "Accept: application/openmetrics-text\r\n"),
    (ADMIN, "GET /metrics/per-object", GUEST),
    (ADMIN, "GET /metrics", ""),
    (ADMIN, "GET /metrics", "X-Requested-With: forebay\r\n"),
    (ADMIN, "GET /metrics", authorization("guest", "wrong")),
    (ADMIN, "GET /metrics", authorization("manager", "manager")),
    (ADMIN, "GET /metrics", authorization("client", "client")),
    (ADMIN, "GET /metrics", "Authorization: Basic ???\r\n"),
    (ADMIN, "GET /metrics", "Authorization: Bearer none\r\n"),
    (SCRAPES, "GET /metrics", ""),
    (SCRAPES, "GET /metrics/per-object", "Accept: application/openmetrics-text\r\n"),
]


@asynccontextmanager
async def started(folder: Path, **options: object) -> AsyncIterator[HttpService]:
    """The services of a broker; the first one is given, the other is closed with it."""
    async with held_app(folder, http="127.0.0.1:0", prometheus="127.0.0.1:0", **options) as app:
        for user, tags in (("manager", ["management"]), ("client", [])):
            given: dict[str, object] = {"user": user, "password": user, "tags": tags}
            app.control.perform(Origin(Principal("guest"), "", ""), "user.add", given)
        services = AdminService(app), MetricsService(app)
        for service in services:
            app.addresses.update(await service.start())
        try:
            yield services[0]
        finally:
            for service in services:
                await service.stop()


def is_loaded(service: HttpService) -> bool:
    """True if the web framework is loaded, or is on its way."""
    return service.server is not None or service.loading is not None


async def exchange(service: HttpService, listener: str, octets: bytes) -> bytes:
    client = await connect(service.app, listener)
    client[1].write(octets)
    try:
        return await client[0].read()
    finally:
        client[1].close()


async def one(client: Client) -> tuple[bytes, bytes]:
    """Head and body of the next answer of a connection."""
    head = await client[0].readuntil(b"\r\n\r\n")
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length: "))
    return head, await client[0].readexactly(int(length[16:]))


def parts_of(answer: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Status line, fields in order, and the body of an answer that is no document of metrics."""
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *fields = head.split(b"\r\n")
    kept = sorted(each.lower() for each in fields if each.lower().partition(b":")[0] not in OF_ONE_ANSWER)
    return status, kept, b"" if body.startswith(b"# ") else body


def test_answers_are_those_of_the_framework(tmp_path: Path) -> None:
    async def compare() -> None:
        async with started(tmp_path) as service:

            async def all_answers() -> list[tuple[bytes, list[bytes], bytes]]:
                found = []
                for listener, line, fields in REQUESTS:
                    request = f"{line} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\n\r\n"
                    found.append(parts_of(await exchange(service, listener, request.encode())))
                return found

            early = await all_answers()
            assert not is_loaded(service)
            for listener in (ADMIN, SCRAPES):
                await exchange(service, listener, b"GET /x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert is_loaded(service)
            for request, before, after in zip(REQUESTS, early, await all_answers(), strict=True):
                assert before == after, request

    uvloop.run(compare())


def test_readiness_ends_with_the_reason_when_the_broker_is_to_stop(tmp_path: Path) -> None:
    async def ask() -> None:
        async with started(tmp_path) as service:
            client = await connect(service.app, ADMIN)
            client[1].write(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await one(client))[1] == b'{"status":"ready"}'
            service.app.leaving = True
            client[1].write(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head, body = await one(client)
            assert head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert orjson.loads(body) == {"status": "leaving", "reason": "the broker is about to stop"}
            client[1].write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await one(client))[1] == b'{"status":"healthy"}'
            assert service.server is None
            client[1].close()

    uvloop.run(ask())


def test_requests_in_pieces_and_behind_each_other(tmp_path: Path) -> None:
    async def ask() -> None:
        async with started(tmp_path) as service:
            probe = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
            client = await connect(service.app, ADMIN)
            for octet in probe:
                client[1].write(bytes((octet,)))
                await asyncio.sleep(0)
            assert (await one(client))[1] == b'{"status":"healthy"}'
            client[1].write(probe * 3)
            for _ in range(3):
                assert (await one(client))[1] == b'{"status":"healthy"}'
            assert not is_loaded(service)
            client[1].write(probe + b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" + probe)
            assert [(await one(client))[0][9:12] for _ in range(3)] == [b"200", b"404", b"200"]
            assert is_loaded(service)
            client[1].close()
            old = await exchange(service, ADMIN, b"GET /health HTTP/1.0\r\n\r\n")
            assert old.endswith(b'{"status":"healthy"}')
            await until(lambda: service.app.door.connections == 0)
            assert service.app.door.octets == 0

    uvloop.run(ask())


def test_an_idle_connection_goes_on_when_the_framework_is_loaded(tmp_path: Path) -> None:
    async def ask() -> None:
        async with started(tmp_path) as service:
            idle = await connect(service.app, ADMIN)
            await until(lambda: len(service.early) == 1)
            await exchange(service, ADMIN, b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert not service.early
            idle[1].write(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await one(idle))[1] == b'{"status":"healthy"}'
            idle[1].close()

    uvloop.run(ask())


@pytest.mark.parametrize("begun", [b"", b"GET /hea", b"GET /health HTTP/1.1\r\nHost: loc"])
def test_who_sends_no_whole_head_is_ended(tmp_path: Path, begun: bytes) -> None:
    async def ask() -> None:
        async with started(tmp_path, handshake_timeout_ms=100) as service:
            assert await exchange(service, ADMIN, begun) == b""
            assert service.server is None
            assert service.app.door.refused["slow"] == (1 if begun else 0)

    uvloop.run(ask())


def test_a_stop_ends_connections_that_wait_for_nothing(tmp_path: Path) -> None:
    async def ask() -> None:
        async with started(tmp_path) as service:
            client = await connect(service.app, ADMIN)
            await until(lambda: len(service.early) == 1)
            await service.stop()
            assert await client[0].read() == b""
            client[1].close()

    uvloop.run(ask())


@pytest.mark.parametrize(
    "head",
    [
        b"POST /health HTTP/1.1\r\nHost: a",
        b"GET http://a/health HTTP/1.1\r\nHost: a",
        b"GET  /health HTTP/1.1\r\nHost: a",
        b"GET /health HTTP/2.0\r\nHost: a",
        b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b",
        b"GET /health HTTP/1.1\r\nHost : a",
        b"GET /health HTTP/1.1\r\nHost: a\r\n folded",
        b"GET /health HTTP/1.1\r\nHost: a\nX: b",
        b"GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 1",
        b"GET /health HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked",
        b"GET /health HTTP/1.1\r\nHost: a\r\nUpgrade: h2c",
        b"GET /health HTTP/1.1\r\nHost: a\r\nOrigin: http://a",
        b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, upgrade",
        b"GET /health HTTP/1.1\r\nHost: a\0",
    ],
)
def test_what_is_out_of_the_ordinary_is_left_to_the_framework(head: bytes) -> None:
    assert read_request(head) is None
    assert read_request(b"GET /health HTTP/1.1\r\nHost: a\r\nX-Any: \xff") is not None
