"""Answering over HTTP: an application, and the connections that it answers.

Requests run in the broker's event loop, between its turns. So handlers see its state as it is, without locks, and what
they do takes part in the next turn; and no handler may take long: `slices.py`.

It takes a tenth of a second of processor time to import this and what answers: see `service.py`.
"""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from forebay.admin.http.connection import HttpConnection, RequestHost, Times
from forebay.admin.http.exchange import HttpExchange
from forebay.core.units import MS_PER_S
from forebay.node.peer import Peer
from forebay.server.broker_view import BrokerView
from forebay.server.faults import REQUEST

LEAVE_S: Final = 1  # that answers under way may take when the broker stops; streams of events end only by that
HEADERS_S: Final = 1.0  # how often the Date of answers is made anew


class HttpServer(RequestHost):
    """Makes the connections of one application."""

    def __init__(self, app: BrokerView, application: ASGIApp) -> None:
        self.app = app
        self.application = application
        options = app.options
        self.times = Times(
            options.handshake_timeout_ms / MS_PER_S,
            options.http_request_timeout_ms / MS_PER_S,
            options.http_request_timeout_ms / MS_PER_S,
        )
        self.connections: set[HttpConnection] = set()
        self.answering: set[asyncio.Task[None]] = set()
        self.date = now()
        self.ticking = asyncio.create_task(self.tick())

    def make_connection(self, peer: Peer | None) -> HttpConnection:
        """The protocol of a new connection."""
        return HttpConnection(self, peer, self.app.door, self.times)

    def begin(self, exchange: HttpExchange) -> None:
        task = asyncio.get_running_loop().create_task(exchange.run(self.answer))
        self.answering.add(task)
        task.add_done_callback(self.answering.discard)

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have a request answered; an error of our own in it ends the request, which is told so, and not the broker."""
        try:
            await self.application(scope, receive, send)
        except ClientDisconnect:  # in the middle of what it sent
            return
        except Exception as error:  # noqa: BLE001  the request's boundary
            self.app.faults.note(REQUEST, f"the request {scope.get('method')} {scope.get('path')}", error)

    async def tick(self) -> None:
        """Once a second, make the date of answers anew, and end the connections of slow clients."""
        while True:
            self.date = now()
            now_s = asyncio.get_running_loop().time()
            for connection in list(self.connections):
                connection.end_slow(now_s)
            await asyncio.sleep(HEADERS_S)

    async def stop(self) -> None:
        """Let answers under way come to their end for a moment, and close the connections."""
        self.ticking.cancel()
        for connection in list(self.connections):
            connection.finish()
        if self.answering:
            await asyncio.wait(self.answering, timeout=LEAVE_S)
        for task in list(self.answering):
            task.cancel()
        for connection in list(self.connections):
            connection.transport.close()
        await asyncio.sleep(0)


def now() -> bytes:
    """Return the time as a field Date has it."""
    return formatdate(usegmt=True).encode()
