"""Bodies of requests: JSON, whatever their Content-Type says, as RabbitMQ takes them.

What `curl -d` sends says that it is a form, and many a tool says nothing at all.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

NAME: Final = b"content-type"
JSON: Final = b"application/json"
API: Final = "/api/"


class JsonBodies:
    """Has every body of the API that is no form with parts taken for JSON."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(API):
            scope["headers"] = [
                (name, JSON if name == NAME and not value.startswith(b"multipart/") else value)
                for name, value in scope["headers"]
            ]
        await self.app(scope, receive, send)
