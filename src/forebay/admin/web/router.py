"""Routes: which handler answers a path and a method, and what the OpenAPI document says of it."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, TypeVar
from urllib.parse import unquote, unquote_to_bytes

from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from forebay.admin.web.bodies import names_of
from forebay.admin.web.faults import RefusedInput
from forebay.admin.web.fields import QUERY, Provided
from forebay.admin.web.inputs import ArgumentReader, Handler, Inputs, body_of, read_signature

BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
WRONG_METHOD: Final = 405
SHOWN_CHARACTERS_MAX: Final = 80
NAME: Final = "name"  # a segment of the path, percent-encoded UTF-8: {vhost:name}
OCTETS: Final = "octets"  # the same of one that may be no UTF-8: {queue:octets}
REST: Final = "path"  # all that follows: {topic:path}
Responses = dict[int | str, dict[str, Any]]
Function = TypeVar("Function", bound=Handler)
Check = Callable[[Request, "ApiRoute"], Awaitable[None]]
Around = Callable[[Request, "ApiRoute", Callable[[], Awaitable[Response]]], Awaitable[Response]]


@dataclass(eq=False)
class ApiRoute:
    """One path, and what answers there.

    read    finds the arguments of the handler
    requires  who may ask, beside what the handler's arguments say
    checks  come before anything is read
    around  called with what answers
    body    schema of the body, where the handler reads that itself
    is_plain  the answer that is described by `status` has no JSON
    """

    path: str
    read: Callable[[], Inputs]
    methods: tuple[str, ...]
    name: str = ""
    tags: tuple[str, ...] = ()
    description: str = ""
    summary: str = ""
    operation_id: str = ""
    status: int = 200
    responses: Responses = field(default_factory=dict)
    body: dict[str, Any] | None = None
    is_plain: bool = False
    is_described: bool = True
    checks: tuple[Check, ...] = ()
    around: Around | None = None
    requires: tuple[Provided, ...] = ()

    @cached_property
    def inputs(self) -> Inputs:
        """The arguments of the handler, found when they are first asked for: there are 290 routes."""
        found = self.read()
        found.provided = [("", each, read_signature(each.function)) for each in self.requires] + found.provided
        return found

    @cached_property
    def segments(self) -> list[tuple[str, str]]:
        """The names of the path's variable segments, each with its kind; literal ones without a kind."""
        return [segment_of(each) for each in self.path.split("/")]

    @cached_property
    def path_format(self) -> str:
        """The path with its names alone: /api/queues/{vhost}."""
        return "/".join(f"{{{name}}}" if kind else name for name, kind in self.segments)

    def query_names(self) -> frozenset[str]:
        """Return the parameters that a handler, and what is called before it, take from the query."""
        return self.inputs.names(QUERY)

    def body_names(self) -> frozenset[str] | None:
        """Return the fields of the body; None where the handler reads the body itself."""
        inputs = self.inputs
        if inputs.body is not None:
            return names_of(inputs.body)
        return None if inputs.request and "GET" not in self.methods else frozenset()

    async def answer(self, request: Request, names: dict[str, Any]) -> Response:
        """Answer a request; RequestError, HTTPException."""
        if self.around is None:
            return await self.answer_checked(request, names)
        return await self.around(request, self, lambda: self.answer_checked(request, names))

    async def answer_checked(self, request: Request, names: dict[str, Any]) -> Response:
        given = await body_of(request, self.inputs)
        for check in self.checks:
            await check(request, self)
        reading = ArgumentReader(request, names, self.path_format)
        arguments = await reading.arguments(self.inputs, given)
        if reading.faults:
            raise RefusedInput(reading.faults)
        answer = await self.inputs.function(**arguments)
        assert isinstance(answer, Response)
        return answer


def segment_of(segment: str) -> tuple[str, str]:
    if not segment.startswith("{"):
        return segment, ""
    name, _, kind = segment.strip("{}").partition(":")
    return name, kind or "text"


class RouteGroup:
    """Routes with what they have in common: the beginning of their paths, their tags, and what is around each."""

    def __init__(
        self,
        prefix: str = "",
        tags: Sequence[str] = (),
        around: Around | None = None,
        is_described: bool = True,
    ) -> None:
        self.prefix = prefix
        self.tags = tuple(tags)
        self.around = around
        self.is_described = is_described
        self.routes: list[ApiRoute] = []

    def add(self, path: str, read: Callable[[], Inputs], methods: Sequence[str], **values: Any) -> None:
        """Have the handler whose arguments `read` finds answer at a path; `values` are fields of the route."""
        tags = (*self.tags, *values.pop("tags", ()))
        values = {"tags": tags, "around": self.around, "is_described": self.is_described, **values}
        self.routes.append(ApiRoute(self.prefix + path, read, tuple(methods), **values))

    def route(self, path: str, methods: Sequence[str], **values: Any) -> Callable[[Function], Function]:
        """Have the function that follows answer at a path."""

        def enter(function: Function) -> Function:
            told = {"name": function.__name__, "description": inspect.cleandoc(function.__doc__ or ""), **values}
            self.add(path, partial(read_signature, function), methods, **told)
            return function

        return enter

    def get(self, path: str, **values: Any) -> Callable[[Function], Function]:
        return self.route(path, ("GET",), **values)

    def put(self, path: str, **values: Any) -> Callable[[Function], Function]:
        return self.route(path, ("PUT",), **values)

    def post(self, path: str, **values: Any) -> Callable[[Function], Function]:
        return self.route(path, ("POST",), **values)

    def delete(self, path: str, **values: Any) -> Callable[[Function], Function]:
        return self.route(path, ("DELETE",), **values)


class PathTree:
    """The routes below one segment of paths.

    by_text  next segments that stand in the path as they are
    by_name  next segment that stands for a name
    rest     routes that take all that follows
    routes   routes that end here, by method
    """

    def __init__(self) -> None:
        self.by_text: dict[str, PathTree] = {}
        self.by_name: PathTree | None = None
        self.rest: PathTree | None = None
        self.routes: dict[str, ApiRoute] = {}

    def enter(self, route: ApiRoute) -> None:
        """Add a route; of two for one method the first holds."""
        at = self
        for name, kind in route.segments:
            if not kind:
                at = at.by_text.setdefault(name, PathTree())
            elif kind == REST:
                at.rest = at.rest or PathTree()
                at = at.rest
            else:
                at.by_name = at.by_name or PathTree()
                at = at.by_name
        for method in route.methods:
            at.routes.setdefault(method, route)

    def ends(self, segments: Sequence[str], at: int = 0) -> Iterator[dict[str, ApiRoute]]:
        """Yield the routes of a path, those first that spell out most of it."""
        if at == len(segments):
            if self.routes:
                yield self.routes
            return
        following = self.by_text.get(segments[at])
        if following is not None:
            yield from following.ends(segments, at + 1)
        if self.by_name is not None and segments[at]:
            yield from self.by_name.ends(segments, at + 1)
        if self.rest is not None:
            yield self.rest.routes


class Routes(BaseRoute):
    """All routes of an application, which finds them by the path as it was sent."""

    def __init__(self) -> None:
        self.all: list[ApiRoute] = []
        self.places = PathTree()

    def include(self, router: RouteGroup, checks: tuple[Check, ...] = ()) -> None:
        """Add the routes of a router; `checks` come before each."""
        for route in router.routes:
            route.checks = checks
            self.all.append(route)
            self.places.enter(route)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if scope["type"] == "http" else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; RequestError and HTTPException say why not."""
        path: str = scope["path"]
        segments = path.split("/")
        allowed: set[str] = set()
        for found in self.places.ends(segments):
            route = found.get(scope["method"])
            if route is not None:
                names = names_in(route, segments)
                scope["path_params"] = names
                answer = await route.answer(Request(scope, receive), names)
                await answer(scope, receive, send)
                return
            allowed |= found.keys()
        if allowed:
            raise HTTPException(WRONG_METHOD, headers={"Allow": ", ".join(sorted(allowed))})
        other = path.rstrip("/") if path.endswith("/") else f"{path}/"
        if path == "/" or next(self.places.ends(other.split("/")), None) is None:
            raise HTTPException(NOT_FOUND)
        await RedirectResponse(URL(scope={**scope, "path": other}))(scope, receive, send)


def names_in(route: ApiRoute, segments: Sequence[str]) -> dict[str, Any]:
    """Return what stands for names in a path; HTTPException for one that is no UTF-8: no name here is."""
    found: dict[str, Any] = {}
    for at, (name, kind) in enumerate(route.segments):
        if kind == NAME:
            try:
                found[name] = unquote(segments[at], errors="strict")
            except UnicodeDecodeError:
                shown = segments[at][:SHOWN_CHARACTERS_MAX]
                raise HTTPException(BAD_REQUEST, f"path: {shown!r} is no UTF-8") from None
        elif kind == OCTETS:
            found[name] = unquote_to_bytes(segments[at])
        elif kind == REST:
            found[name] = "/".join(segments[at:])
        elif kind:
            found[name] = segments[at]
    return found
