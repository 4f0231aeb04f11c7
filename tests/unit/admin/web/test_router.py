"""Routes are found by the path as it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from forebay.admin.web.router import RouteGroup, Routes

PLACES: Final = ("/queues/detailed", "/queues/{vhost:name}", "/queues/{vhost:name}/{queue:octets}", "/rest/{all:path}")


def shown_by(place: str) -> Callable[[Request], Awaitable[Response]]:
    """A handler that says at which place it answers, and what stands there for names."""

    async def show(request: Request) -> Response:
        return Response(f"{place} {request.path_params}")

    return show


async def answer_of(method: str, path: str) -> tuple[int, str, dict[str, str]]:
    """Status, body and head of the answer."""
    group = RouteGroup("/api")
    for place in PLACES:
        group.get(place)(shown_by(place))
    routes = Routes()
    routes.include(group)
    status, body, head = 0, b"", {}

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, body, head
        if message["type"] == "http.response.start":
            status = message["status"]
            head = {name.decode(): value.decode() for name, value in message["headers"]}
        body += message.get("body", b"")

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": [(b"host", b"h")]}
    await Starlette(routes=[routes])({**scope, "root_path": "", "scheme": "http"}, receive, send)
    return status, body.decode(), head


def ask(path: str, method: str = "GET") -> tuple[int, str, dict[str, str]]:
    return asyncio.run(answer_of(method, path))


def test_a_segment_that_is_spelt_out_comes_before_a_name() -> None:
    assert ask("/api/queues/detailed")[1].startswith("/queues/detailed {}")
    assert ask("/api/queues/%2F")[1] == "/queues/{vhost:name} {'vhost': '/'}"
    assert ask("/api/queues/detailed/%ff")[1].endswith("{'vhost': 'detailed', 'queue': b'\\xff'}")
    assert ask("/api/rest/a/b%2F")[1].endswith("{'all': 'a/b%2F'}")


def test_what_is_no_route_says_why() -> None:
    assert ask("/api/queues/%ff")[0] == 400
    assert ask("/api/nothing")[0] == 404
    status, _, head = ask("/api/queues/%2F", "PUT")
    assert (status, head["allow"]) == (405, "GET")
    status, _, head = ask("/api/queues/detailed/")
    assert (status, head["location"]) == (307, "http://h/api/queues/detailed")
