"""The application: what is answered at which path."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware

from forebay import __version__
from forebay.admin import probes, whoami
from forebay.admin.bridge import publish, subscribe
from forebay.admin.forebay import routes as forebay_routes
from forebay.admin.forebay import stats
from forebay.admin.http.bodies import JsonBodies
from forebay.admin.http.exact import Checked, CheckedForSlips
from forebay.admin.http.guards import Guards
from forebay.admin.http.paths import RawPaths
from forebay.admin.http.refusals import handle_errors
from forebay.admin.metrics import routes as metrics_routes
from forebay.admin.openapi.document import describe
from forebay.admin.page import files, login_routes
from forebay.admin.page.logins import WebLogins
from forebay.admin.rabbitmq import routes as rabbitmq_routes
from forebay.admin.rabbitmq.queues import Declared
from forebay.admin.samples.rates import RateSamples
from forebay.server.app import App


def make_api(app: App, rates: RateSamples, logins: WebLogins) -> FastAPI:
    """All routes over one broker, with its samples and its logins; the OpenAPI document is at /api/openapi.json."""
    api = FastAPI(
        title="forebay",
        version=__version__,
        openapi_url=None,  # `describe` answers there
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        strict_content_type=False,
    )
    api.state.broker = app
    api.state.logins = logins
    api.state.rates = rates
    api.state.declared = Declared()
    handle_errors(api)
    api.add_middleware(JsonBodies)
    api.add_middleware(RawPaths)
    if app.options.http_cors_origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=app.options.http_cors_origins,
            allow_methods=["*"],
            allow_headers=["Authorization", "Content-Type", "X-Requested-With"],
        )
    api.add_middleware(Guards, broker=app)
    describe(api)
    add_routes(api)
    build_routes(api)
    return api


def build_routes(api: FastAPI) -> None:
    """Have FastAPI make of each route what it otherwise makes in the broker's loop, when the first request comes."""
    for route in api.routes:
        route.matches({"type": "http", "method": "GET", "path": "/", "root_path": "", "app": api})


def add_routes(api: FastAPI) -> None:
    """Have the application answer at all paths."""
    api.include_router(files.make_router())
    api.include_router(login_routes.router)
    api.include_router(whoami.router)
    api.include_router(probes.router)
    api.include_router(metrics_routes.router)
    for own in (stats.router, forebay_routes.router, publish.router, subscribe.router):
        api.include_router(own, dependencies=Checked)
    for router in rabbitmq_routes.ROUTERS:
        api.include_router(router, dependencies=CheckedForSlips)
