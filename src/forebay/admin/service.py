"""The services that are asked over HTTP: their listeners, from the start, and what answers there, once somebody asks.

Loading what answers, and building its routes, takes half a second of processor time, and a third of a broker's memory:
that is left until a first connection comes. It is done beside the event loop, and the connection waits for it. What
is configured wrongly is said at the start all the same: the listeners are open by then, with their certificates.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from forebay.admin.bridge.transport import end_all
from forebay.admin.samples.history import ChartHistory
from forebay.admin.samples.rates import RateSamples
from forebay.node.peer import Peer, split_name
from forebay.server.app import App
from forebay.server.faults import CALLBACK
from forebay.server.listen import Closable, Endpoint, http_endpoints, metrics_endpoints
from forebay.server.run import Service

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from forebay.admin.http.answering import HttpServer
    from forebay.admin.page.logins import WebLogins

ONE_AT_A_TIME: Final = threading.Lock()  # two that import what imports each other may see half of it


class Early(asyncio.Protocol):
    """A connection that came before there was anything to answer it; one read of it is taken, the rest waits."""

    def __init__(self, service: HttpService, peer: Peer | None) -> None:
        self.service = service
        self.door = service.app.door
        self.peer = peer
        self.address = ""
        self.transport: asyncio.Transport | None = None
        self.data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        known = split_name(self.peer.name) if self.peer is not None else transport.get_extra_info("peername")
        self.address = str(known[0]) if known else ""
        if self.door.enter(self.address):
            self.transport.abort()
        else:
            self.service.take(self)

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.data += data
        self.door.octets += len(data)
        self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.service.early.discard(self)
        self.leave()

    def leave(self) -> None:
        self.door.leave(self.address)
        self.door.octets -= len(self.data)

    def hand_over(self, server: HttpServer) -> None:
        """Go on as a connection that is answered."""
        assert self.transport is not None
        self.leave()
        connection = server.make_connection(self.peer)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        if self.data:
            self.transport.resume_reading()
            connection.data_received(self.data)


class HttpService(Service):
    """An application, and the listeners on which it answers.

    server  what makes connections; None until somebody has connected
    early   connections that wait for it
    """

    def __init__(self, app: App, endpoints: Sequence[Endpoint]) -> None:
        self.app = app
        self.endpoints = endpoints
        self.listeners: list[Closable] = []
        self.server: HttpServer | None = None
        self.early: set[Early] = set()
        self.loading: asyncio.Task[None] | None = None

    @abstractmethod
    def make_application(self) -> ASGIApp:
        """Make the application that answers; on a thread of its own."""

    async def start(self) -> dict[str, str]:
        addresses: dict[str, str] = {}
        for endpoint in self.endpoints:
            listener, addresses[endpoint.name] = await self.app.listen(self.make_protocol, endpoint)
            self.listeners.append(listener)
        return addresses

    def make_protocol(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        return Early(self, peer) if self.server is None else self.server.make_connection(peer)

    def take(self, early: Early) -> None:
        """Have a connection wait, or go on if what it would have waited for is there by now."""
        assert early.transport is not None
        if self.server is not None:
            early.hand_over(self.server)
        else:
            self.early.add(early)
            if self.loading is None:
                self.loading = asyncio.create_task(self.load())

    async def load(self) -> None:
        """Make what answers, and let it have the connections that wait."""
        early = self.early
        try:
            application = await asyncio.to_thread(self.prepare)
            from forebay.admin.http.answering import HttpServer  # noqa: PLC0415  see above

            self.server = HttpServer(self.app, application)
        except Exception as error:  # noqa: BLE001  whoever waits for it must not wait for ever
            self.app.faults.note(CALLBACK, "loading what answers over HTTP", error)
            for each in early:
                assert each.transport is not None
                each.transport.abort()
            return
        finally:
            self.early = set()
            self.loading = None
            gc.enable()
        gc.freeze()  # it lives as long as the process
        for each in early:
            each.hand_over(self.server)

    def prepare(self) -> ASGIApp:
        """Import and build; nothing of that is garbage, so the collector need not look for it."""
        with ONE_AT_A_TIME:
            gc.disable()
            import forebay.admin.http.answering  # noqa: F401, PLC0415  see above

            return self.make_application()

    async def stop(self) -> None:
        for listener in self.listeners:
            listener.close()
        if self.loading is not None:
            await self.loading
        if self.server is not None:
            await self.server.stop()


class AdminService(HttpService):
    """Web page, HTTP API, metrics."""

    def __init__(self, app: App) -> None:
        super().__init__(app, http_endpoints(app.options, app.tls))
        self.rates = RateSamples(app)
        self.history = ChartHistory(self.rates)
        self.logins: WebLogins | None = None  # until somebody asks
        self.sampling: asyncio.Task[None] | None = None

    def make_application(self) -> ASGIApp:
        from forebay.admin.api import make_api  # noqa: PLC0415  see above
        from forebay.admin.page.logins import WebLogins  # noqa: PLC0415

        self.logins = WebLogins(self.app)
        self.logins.load()
        return make_api(self.app, self.rates, self.logins)

    async def start(self) -> dict[str, str]:
        addresses = await super().start()
        self.sampling = asyncio.create_task(self.history.run())
        return addresses

    async def stop(self) -> None:
        if self.sampling is not None:
            self.sampling.cancel()
            await self.history.finish()
        end_all(self.app)
        await super().stop()
        if self.logins is not None:
            await self.logins.save()  # with when each was used last


class MetricsService(HttpService):
    """Metrics for Prometheus, on a listener of their own."""

    def __init__(self, app: App) -> None:
        super().__init__(app, metrics_endpoints(app.options))

    def make_application(self) -> ASGIApp:
        from forebay.admin.metrics.scraping import make_metrics_app  # noqa: PLC0415  see above

        return make_metrics_app(self.app)
