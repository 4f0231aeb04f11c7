"""The HTTP server within the broker: its listeners, and the application that answers.

Requests run in the broker's event loop, between its turns. So handlers see its state as it is, without locks, and what
they do takes part in the next turn; and no handler may take long: `slices.py`.
"""

from __future__ import annotations

import asyncio
from typing import Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from forebay.admin.api import make_api
from forebay.server.app import App
from forebay.server.listen import Acceptor, Endpoint, http_endpoints, listen
from forebay.server.peer import Peer, split_name
from forebay.server.run import Service

LEAVE_S: Final = 1  # that answers under way may take when the broker stops; streams of events end only by that
HEADERS_S: Final = 1.0  # how often the Date of answers is made anew


class HttpConnection(HttpToolsProtocol):
    """One connection; its client is whom a PROXY header tells, if one does."""

    def __init__(self, server: uvicorn.Server, peer: Peer | None) -> None:
        super().__init__(server.config, server.server_state, {})
        self.peer = peer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.peer is not None:
            self.client = split_name(self.peer.name)


class AdminService(Service):
    """Web page, HTTP API, metrics."""

    def __init__(self, app: App) -> None:
        self.app = app
        config = uvicorn.Config(
            make_api(app),
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=LEAVE_S,
        )
        config.load()
        self.server = uvicorn.Server(config)
        self.server.servers = []
        self.listeners: list[asyncio.Server | Acceptor] = []
        self.ticking: asyncio.Task[None] | None = None

    async def start(self) -> dict[str, str]:
        addresses: dict[str, str] = {}
        for endpoint in http_endpoints(self.app.options):
            listener, addresses[endpoint.name] = await listen(self.make_protocol, endpoint)
            self.listeners.append(listener)
        self.ticking = asyncio.create_task(self.tick())
        return addresses

    def make_protocol(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        return HttpConnection(self.server, peer)

    async def tick(self) -> None:
        """What uvicorn does about once a second."""
        while True:
            await self.server.on_tick(0)
            await asyncio.sleep(HEADERS_S)

    async def stop(self) -> None:
        if self.ticking is not None:
            self.ticking.cancel()
        for listener in self.listeners:
            listener.close()
        await self.server.shutdown()
