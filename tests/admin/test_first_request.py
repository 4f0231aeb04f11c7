"""The first request over HTTP finds everything made: nobody else waits in the loop for it."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path
from types import FrameType

import uvloop
from starlette.types import ASGIApp, Message

from forebay.admin.service import AdminService
from forebay.core.options import make_options
from forebay.server.drain import drain
from tests.held_app import opened_app

SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "method": "GET",
    "path": "/nowhere",
    "raw_path": b"/nowhere",
    "query_string": b"",
    "root_path": "",
    "scheme": "http",
    "headers": [(b"host", b"127.0.0.1")],
    "client": ("127.0.0.1", 1),
    "server": ("127.0.0.1", 2),
}


async def calls_of(api: ASGIApp) -> int:
    """How many functions one request calls."""
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        assert message.get("status", 404) == 404

    sys.setprofile(count)
    try:
        await api(dict(SCOPE), receive, send)
    finally:
        sys.setprofile(None)
    return calls


def test_the_first_request_does_no_more_than_the_next(tmp_path: Path) -> None:
    async def ask() -> None:
        options = make_options({"data": str(tmp_path)})
        app = opened_app(options)
        api = await asyncio.to_thread(AdminService(app).prepare)
        gc.enable()  # as whoever has something prepared does
        first, second = await calls_of(api), await calls_of(api)
        await drain(app, asyncio.Event())
        assert first <= 3 * second, "something was left to make"

    uvloop.run(ask())
