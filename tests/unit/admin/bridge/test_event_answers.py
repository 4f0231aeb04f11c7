"""What is left of a reader of events over HTTP that has gone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import uvloop
from starlette.types import Message

from forebay.admin.bridge.subscribe import EventAnswer
from forebay.admin.bridge.transport import EventTransport, connect
from forebay.node.peer import Peer
from forebay.session.http import EventSession
from tests.held_app import held_app
from tests.logins import http_login

SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}}


def test_what_a_reader_has_not_taken_goes_with_it(tmp_path: Path) -> None:
    """Transport and connection know each other; what they kept would wait for the collector, which comes seldom."""
    sending, gone = asyncio.Event(), asyncio.Event()

    async def receive() -> Message:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message.get("body"):
            sending.set()
            await gone.wait()

    async def go() -> None:
        async with held_app(tmp_path) as app:
            vhost, login = app.vhosts.by_name[b"/"], http_login()
            rights = app.vhosts.directory.users.rights(login.principal, login.vhost)
            transport = connect(
                app, Peer("127.0.0.1:1", True), lambda id: EventSession(id, login, vhost, rights), EventTransport
            )
            connection = transport.connection
            assert connection in app.open and len(app.connections) == 1
            transport.write(b"taken")
            answer = asyncio.create_task(EventAnswer(transport)(SCOPE, receive, send))
            await sending.wait()
            transport.write(bytes(1 << 20))
            gone.set()
            await answer
            assert transport.octets == 0 and transport.is_closing()
            assert connection.session is None and not app.open and not app.connections

    uvloop.run(go())
