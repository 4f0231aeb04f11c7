"""The application: what is answered at which path."""

from __future__ import annotations

from fastapi import FastAPI

from forebay import __version__
from forebay.admin import whoami
from forebay.admin.answer import handle_errors
from forebay.admin.paths import RawPaths
from forebay.server.app import App


def make_api(app: App) -> FastAPI:
    """All routes over one broker; its OpenAPI document is at /api/openapi.json."""
    api = FastAPI(
        title="forebay",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
    )
    api.state.broker = app
    handle_errors(api)
    api.add_middleware(RawPaths)
    api.include_router(whoami.router)
    return api
