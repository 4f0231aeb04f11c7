"""The services that are asked over HTTP: their listeners, from the start, and what answers there, once somebody asks.

Loading the web framework, and all that answers, takes an eighth of a second of processor time, and a tenth of a
broker's memory: that is left until the first request that needs it. It is done beside the event loop, and the request
waits for it; probes and scrapes are answered without it. What is configured wrongly is said at the start all the same:
the listeners are open by then, with their certificates.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from forebay.admin.bridge.transport import end_all
from forebay.admin.http.early import EarlyConnection, EarlyHost
from forebay.admin.http.early_answers import EarlyAnswers
from forebay.admin.samples.history import ChartHistory
from forebay.admin.samples.rates import RateSamples
from forebay.node.peer import Peer
from forebay.server.broker_view import BrokerView
from forebay.server.faults import CALLBACK
from forebay.server.listen import Closable, Endpoint, http_endpoints, metrics_endpoints
from forebay.server.runtime import Service

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from forebay.admin.http.answering import HttpServer
    from forebay.admin.page.logins import WebLogins

LEAVE_S: Final = 1  # that answers under way may take when the broker stops
SWITCH_S: Final = 0.0005  # for which a thread runs before another may, while the framework is loaded
ONE_AT_A_TIME: Final = threading.Lock()  # two that import what imports each other may see half of it


class HttpService(Service, EarlyHost):
    """An application, and the listeners on which it answers.

    server   what makes connections; None until the framework is loaded
    early    connections that began before
    answers  what they are answered meanwhile
    """

    def __init__(self, app: BrokerView, endpoints: Sequence[Endpoint], answers: EarlyAnswers) -> None:
        self.app = app
        self.endpoints = endpoints
        self.listeners: list[Closable] = []
        self.server: HttpServer | None = None
        self.early: set[EarlyConnection] = set()
        self.answers = answers
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
        return EarlyConnection(self, peer) if self.server is None else self.server.make_connection(peer)

    def load_for(self, connection: EarlyConnection) -> None:
        if self.loading is None:
            self.loading = asyncio.create_task(self.load())

    async def load(self) -> None:
        """Load what answers, and let it have the connections that there are."""
        try:
            application = await asyncio.to_thread(self.prepare)
            from forebay.admin.http.answering import HttpServer  # noqa: PLC0415  see above

            self.server = HttpServer(self.app, application)
        except Exception as error:  # noqa: BLE001  whoever waits for it must not wait for ever
            self.app.faults.note(CALLBACK, "loading what answers over HTTP", error)
            for each in list(self.early):
                if each.is_waiting:
                    each.transport.abort()
            return
        finally:
            self.loading = None
            gc.enable()
        gc.freeze()  # it lives as long as the process
        for each in list(self.early):
            each.on_loaded(self.server)

    def prepare(self) -> ASGIApp:
        """Import and build; nothing of that is garbage, so the collector need not look for it.

        The interpreter switches threads more often meanwhile: else the loop waits 5 ms for each of its turns.
        """
        with ONE_AT_A_TIME:
            interval_s = sys.getswitchinterval()
            sys.setswitchinterval(SWITCH_S)
            try:
                gc.disable()
                import forebay.admin.http.answering  # noqa: F401, PLC0415  see above

                return self.make_application()
            finally:
                sys.setswitchinterval(interval_s)

    async def stop(self) -> None:
        for listener in self.listeners:
            listener.close()
        if self.loading is not None:
            await self.loading
        answering = [each.answering for each in self.early if each.answering is not None]
        if answering:
            await asyncio.wait(answering, timeout=LEAVE_S)
        for each in list(self.early):
            each.transport.close()
        if self.server is not None:
            await self.server.stop()


class AdminService(HttpService):
    """Web page, HTTP API, metrics."""

    def __init__(self, app: BrokerView) -> None:
        super().__init__(app, http_endpoints(app.options, app.tls), EarlyAnswers(app, is_open=False))
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

    def __init__(self, app: BrokerView) -> None:
        super().__init__(app, metrics_endpoints(app.options), EarlyAnswers(app, is_open=True))

    def make_application(self) -> ASGIApp:
        from forebay.admin.metrics.scraping import make_metrics_app  # noqa: PLC0415  see above

        return make_metrics_app(self.app)
