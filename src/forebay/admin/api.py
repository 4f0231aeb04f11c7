"""The application: what is answered at which path."""

from __future__ import annotations

from typing import Final

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from forebay.admin import probes, whoami
from forebay.admin.bridge import publish, subscribe
from forebay.admin.forebay import (
    config,
    explain,
    groups,
    letters,
    mqtt,
    operations,
    policies,
    query,
    queues,
    samples,
    stats,
    trace,
)
from forebay.admin.http.exact import check_names, check_slips
from forebay.admin.http.guards import Guards
from forebay.admin.http.paths import RawPaths
from forebay.admin.http.refusals import error_handlers
from forebay.admin.metrics import routes as metrics_routes
from forebay.admin.openapi.document import describe
from forebay.admin.page import files, login_routes
from forebay.admin.page.logins import WebLogins
from forebay.admin.rabbitmq import routes as rabbitmq_routes
from forebay.admin.rabbitmq.queues import Declared
from forebay.admin.samples.rates import RateSamples
from forebay.admin.web.router import Routes
from forebay.server.broker_view import BrokerView

# Under /api/forebay: what asks and changes queues, groups, sessions and single messages.
FOREBAY: Final = (config, operations, policies, queues, query, letters, groups, mqtt, explain, trace, samples)


def make_api(app: BrokerView, rates: RateSamples, logins: WebLogins) -> Starlette:
    """All routes over one broker, with its samples and its logins; the OpenAPI document is at /api/openapi.json."""
    routes = all_routes()
    describe(routes)
    origins = app.options.http_cors_origins
    api = Starlette(
        routes=[routes],
        middleware=[Middleware(Guards, broker=app), *across(origins), Middleware(RawPaths)],
        exception_handlers=error_handlers(),
    )
    api.state.broker = app
    api.state.logins = logins
    api.state.rates = rates
    api.state.declared = Declared()
    return api


def across(origins: list[str]) -> list[Middleware]:
    """Return what lets pages of these origins ask."""
    if not origins:
        return []
    named = ["Authorization", "Content-Type", "X-Requested-With"]
    return [Middleware(CORSMiddleware, allow_origins=origins, allow_methods=["*"], allow_headers=named)]


def all_routes() -> Routes:
    """Return what answers at which path."""
    routes = Routes()
    for router in (files.make_router(), login_routes.router, whoami.router, probes.router, metrics_routes.router):
        routes.include(router)
    for router in (stats.router, *(part.router for part in FOREBAY), publish.router, subscribe.router):
        routes.include(router, (check_names,))
    for router in rabbitmq_routes.ROUTERS:
        routes.include(router, (check_slips,))
    return routes
