"""The HTTP server within the broker: its listeners, and the application that answers.

Requests run in the broker's event loop, between its turns. So handlers see its state as it is, without locks, and what
they do takes part in the next turn; and no handler may take long: `slices.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import uvicorn
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from forebay.admin.api import make_api
from forebay.admin.bridge.transport import end_all
from forebay.admin.connection import HttpConnection, Times
from forebay.admin.metrics.routes import make_metrics_app
from forebay.admin.rates import Rates
from forebay.server.app import App
from forebay.server.faults import REQUEST
from forebay.server.listen import Acceptor, Endpoint, http_endpoints, listen, metrics_endpoints
from forebay.server.peer import Peer
from forebay.server.run import Service

LEAVE_S: Final = 1  # that answers under way may take when the broker stops; streams of events end only by that
MILLISECONDS: Final = 1000
KEEP_ALIVE_S: Final = 75  # that a connection may be idle: longer than people's tools wait between two looks
HEADERS_S: Final = 1.0  # how often the Date of answers is made anew


class HttpService(Service):
    """An application, and the listeners on which it answers."""

    def __init__(self, app: App, application: ASGIApp, endpoints: Sequence[Endpoint]) -> None:
        self.app = app
        self.application = application
        self.endpoints = endpoints
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
        self.listeners: list[asyncio.Server | Acceptor] = []
        self.ticking: asyncio.Task[None] | None = None

    async def start(self) -> dict[str, str]:
        addresses: dict[str, str] = {}
        for endpoint in self.endpoints:
            listener, addresses[endpoint.name] = await listen(self.make_protocol, endpoint)
            self.listeners.append(listener)
        self.ticking = asyncio.create_task(self.tick())
        return addresses

    def make_protocol(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
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
        """What uvicorn does about once a second."""
        while True:
            await self.server.on_tick(0)
            now_s = asyncio.get_running_loop().time()
            for connection in list(self.server.server_state.connections):
                if isinstance(connection, HttpConnection):
                    connection.end_slow(now_s)
            await asyncio.sleep(HEADERS_S)

    async def stop(self) -> None:
        if self.ticking is not None:
            self.ticking.cancel()
        for listener in self.listeners:
            listener.close()
        await self.server.shutdown()


class AdminService(HttpService):
    """Web page, HTTP API, metrics."""

    def __init__(self, app: App) -> None:
        api = make_api(app)
        self.rates: Rates = api.state.rates
        self.sampling: asyncio.Task[None] | None = None
        super().__init__(app, api, http_endpoints(app.options, app.tls))

    async def start(self) -> dict[str, str]:
        addresses = await super().start()
        self.sampling = asyncio.create_task(self.rates.run())
        return addresses

    async def stop(self) -> None:
        if self.sampling is not None:
            self.sampling.cancel()
        end_all(self.app)
        await super().stop()


class MetricsService(HttpService):
    """Metrics for Prometheus, on a listener of their own."""

    def __init__(self, app: App) -> None:
        super().__init__(app, make_metrics_app(app), metrics_endpoints(app.options))
