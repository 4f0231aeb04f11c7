"""Bodies of requests: JSON, whatever their Content-Type says, as RabbitMQ takes them.

What `curl -d` sends says that it is a form, and many a tool says nothing at all. `read_body` reads the body of every
route.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from forebay.core.errors import INVALID, RequestError
from forebay.core.reading.json_text import JsonError, read_json

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


class JsonRequest(Request):
    """A request whose body is JSON, and has been read."""

    value: object

    async def json(self) -> object:
        """Return the value of the body."""
        return self.value


class JsonRoute(APIRoute):
    """A route whose body is refused where it is no JSON, or holds a value that the broker cannot keep."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def handle_read(request: Request) -> Response:
            read = JsonRequest(request.scope, request.receive)
            body = await read.body()
            request._body = body  # for the audit log, which notes what was refused
            if body:
                read.value = read_body(body)
            return await handle(read)

        return handle_read


def read_body(octets: bytes, field: str = "body") -> object:
    """Return the JSON value of a body; raise RequestError(INVALID), naming the field and the value, if it cannot be."""
    try:
        return read_json(octets, field)
    except JsonError as error:
        fault = str(error)
        raise RequestError(INVALID, fault if fault.startswith(field) else f"{field}: {fault}") from None
