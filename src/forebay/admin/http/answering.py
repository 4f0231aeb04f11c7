"""Answering over HTTP: an application, and the connections that it answers.

Requests run in the broker's event loop, between its turns. So handlers see its state as it is, without locks, and what
they do takes part in the next turn; and no handler may take long: `slices.py`.

It takes half a second of processor time to import this and what answers: see `service.py`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import uvicorn
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from forebay.admin.http.connection import HttpConnection, Times
from forebay.admin.http.early_request import KEEP_ALIVE_S
from forebay.node.peer import Peer
from forebay.server.broker_view import BrokerView
from forebay.server.faults import REQUEST

LEAVE_S: Final = 1  # that answers under way may take when the broker stops; streams of events end only by that
MILLISECONDS: Final = 1000
HEADERS_S: Final = 1.0  # how often the Date of answers is made anew


class HttpServer:
    """Makes the connections of one application."""

    def __init__(self, app: BrokerView, application: ASGIApp) -> None:
        self.app = app
        self.application = application
        config = uvicorn.Config(
            self.answer,
            interface="asgi3",  # it does not see that of a method
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=LEAVE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        config.load()
        options = app.options
        self.times = Times(
            options.handshake_timeout_ms / MILLISECONDS,
            options.http_request_timeout_ms / MILLISECONDS,
            options.http_request_timeout_ms / MILLISECONDS,
        )
        self.server = uvicorn.Server(config)
        self.server.lifespan = config.lifespan_class(config)  # which `serve` would set
        self.server.servers = []
        self.ticking = asyncio.create_task(self.tick())

    def make_connection(self, peer: Peer | None) -> HttpConnection:
        """The protocol of a new connection."""
        return HttpConnection(self.server, peer, self.app.door, self.times)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered; an error of our own in it ends the request, which is told so, and not the broker."""
        try:
            await self.application(scope, receive, send)
        except ClientDisconnect:  # in the middle of what it sent
            return
        except Exception as error:  # noqa: BLE001  the request's boundary
            self.app.faults.note(REQUEST, f"the request {scope.get('method')} {scope.get('path')}", error)

    async def tick(self) -> None:
        """Do what uvicorn does about once a second."""
        while True:
            await self.server.on_tick(0)
            now_s = asyncio.get_running_loop().time()
            for connection in list(self.server.server_state.connections):
                if isinstance(connection, HttpConnection):
                    connection.end_slow(now_s)
            await asyncio.sleep(HEADERS_S)

    async def stop(self) -> None:
        """Let answers under way come to their end for a moment, and close the connections."""
        self.ticking.cancel()
        await self.server.shutdown()
