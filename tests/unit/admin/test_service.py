"""What answers over HTTP is loaded when somebody asks: until then connections wait, and nobody has imported it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

from forebay.admin.http.early_answers import EarlyAnswers
from forebay.admin.service import HttpService
from forebay.server.app import App
from forebay.server.faults import CALLBACK
from forebay.server.listen import http_endpoints
from tests.held_app import Client, connect, held_app, until

GET = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
SECONDS_MAX = 0.02  # of processor time that the first answer to a probe or a scrape takes
NEVER_AT_START = {"cryptography", "fastapi", "httptools", "httpx", "joserfc", "rich", "starlette", "uvicorn"}


class SlowService(HttpService):
    """One whose application answers with the length of the body, and is made when the test says so."""

    def __init__(self, app: App) -> None:
        super().__init__(app, http_endpoints(app.options, app.tls), EarlyAnswers(app, is_open=False))
        self.go = threading.Event()
        self.failures = 0  # to come
        self.made = 0

    def make_application(self) -> ASGIApp:
        self.go.wait()
        self.made += 1
        if self.failures:
            self.failures -= 1
            raise ImportError("half an installation")
        return self.tell_length

    async def tell_length(self, scope: Scope, receive: Receive, send: Send) -> None:
        length = 0
        while True:
            message = await receive()
            length += len(message.get("body", b""))
            if not message.get("more_body"):
                break
        body = b"%d octets" % length
        head = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def started(folder: Path, **options: object) -> AsyncIterator[SlowService]:
    async with held_app(folder, http="127.0.0.1:0", **options) as app:
        service = SlowService(app)
        app.addresses.update(await service.start())
        try:
            yield service
        finally:
            service.go.set()
            await service.stop()


async def ask(service: SlowService, request: bytes) -> Client:
    """A client that has sent this, and that waits for the framework."""
    known = sum(each.is_waiting for each in service.early)
    client = await connect(service.app, "http")
    client[1].write(request)
    await until(lambda: sum(each.is_waiting for each in service.early) > known)
    return client


async def answer(client: Client) -> bytes:
    """All that comes until the end; nothing if the connection is reset."""
    found = b""
    with suppress(ConnectionResetError):
        found = await client[0].read()
    client[1].close()
    return found


def test_who_comes_first_waits_and_is_answered(tmp_path: Path) -> None:
    async def come() -> None:
        async with started(tmp_path) as service:
            assert service.server is None and service.loading is None
            first = await ask(service, GET)
            body = b"x" * (4 << 20)  # more than one read takes
            head = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body)
            second = await ask(service, head + body)
            await until(lambda: all(each.data for each in service.early))
            assert len(GET) < service.app.door.octets < len(body)
            gone = await ask(service, GET)
            gone[1].close()  # which is noticed when it is read on
            service.go.set()
            assert (await answer(first)).endswith(b"\r\n\r\n0 octets")
            assert (await answer(second)).endswith(b"\r\n\r\n%d octets" % len(body))
            later = await connect(service.app, "http")
            later[1].write(GET)
            assert (await answer(later)).endswith(b"0 octets")
            assert service.made == 1 and not service.early
            await until(lambda: not service.app.door.connections)
            assert service.app.door.octets == 0

    uvloop.run(come())


def test_no_more_wait_than_may_be_connected(tmp_path: Path) -> None:
    async def come() -> None:
        async with started(tmp_path, http_connections_max=2) as service:
            waiting = [await ask(service, GET) for _ in range(2)]
            refused = await answer(await connect(service.app, "http"))
            assert refused.startswith(b"HTTP/1.1 503 ") and b"2 connections over HTTP" in refused
            await until(lambda: service.app.door.connections == 2)
            service.go.set()
            for each in waiting:
                assert (await answer(each)).endswith(b"0 octets")

    uvloop.run(come())


def test_what_cannot_be_loaded_is_said_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def come() -> None:
        async with started(tmp_path) as service:
            service.failures = 1
            first = await ask(service, GET)
            service.go.set()
            assert not await answer(first)
            assert service.app.faults.counts[CALLBACK] == 1
            assert "half an installation" in caplog.text
            again = await connect(service.app, "http")
            again[1].write(GET)
            assert (await answer(again)).endswith(b"0 octets")

    uvloop.run(come())


def test_a_stop_waits_for_what_is_being_loaded(tmp_path: Path) -> None:
    async def come() -> None:
        async with started(tmp_path) as service:
            client = await ask(service, GET)
            asyncio.get_running_loop().call_later(0.05, service.go.set)
            await service.stop()
            assert (await answer(client)).endswith(b"0 octets")

    uvloop.run(come())


def test_a_start_and_probes_load_no_web_framework(tmp_path: Path) -> None:
    names = ("amqp", "mqtt", "mqtt_websocket", "http", "prometheus")
    config = tmp_path / "options.yaml"
    config.write_text("".join(f"{name}: 127.0.0.1:0\n" for name in names), encoding="utf-8")
    command = [sys.executable, "-X", "importtime", "-m", "forebay", "serve", "--config", str(config)]
    errors = tmp_path / "errors"
    with errors.open("w") as said:
        broker = subprocess.Popen([*command, "--data", str(tmp_path / "data")], stdout=subprocess.PIPE, stderr=said)
        assert broker.stdout is not None
        word, _, told = broker.stdout.readline().partition(b" ")
        assert word == b"ready"
        ready = json.loads(told)
        before_s = cpu_seconds(broker.pid)
        probes = [("http", path, None) for path in ("/health", "/ready")]
        scrapes = [("http", "/metrics", ("guest", "guest")), ("prometheus", "/metrics", None)]
        for listener, path, auth in (*probes, *scrapes):
            answer = httpx.get(f"http://{ready[listener]}{path}", auth=auth, timeout=60)
            assert answer.status_code == 200, (listener, path)
        assert cpu_seconds(broker.pid) - before_s <= SECONDS_MAX * 4
        broker.terminate()
        broker.communicate()
    lines = [line for line in errors.read_text().splitlines() if line.startswith("import time:")]
    modules = {line.rpartition("|")[2].strip() for line in lines}
    assert "forebay.admin.service" in modules
    assert modules & NEVER_AT_START == set()


def cpu_seconds(pid: int) -> float:
    """The processor time that a process has taken, in the kernel's steps of 10 ms."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_probes_are_answered_while_the_framework_is_being_loaded(tmp_path: Path) -> None:
    async def come() -> None:
        async with started(tmp_path) as service:
            waiting = await ask(service, GET)
            await until(lambda: service.loading is not None)
            probe = await connect(service.app, "http")
            probe[1].write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert (await answer(probe)).endswith(b'{"status":"healthy"}')
            assert service.server is None
            service.go.set()
            assert (await answer(waiting)).endswith(b"\r\n\r\n0 octets")

    uvloop.run(come())
