"""Requests that say more than anybody looks at are refused: what is not known may have been meant to choose.

A `?where=` that a path does not know would otherwise discard a whole queue. One check holds for all routes of
forebay's own API and of the bridge. RabbitMQ's API takes what it does not know, as RabbitMQ does, unless its name is
like one that is known, and is most likely misspelt.
"""

from __future__ import annotations

from starlette.requests import Request

from forebay.admin.web.bodies import read_body, unknown_field
from forebay.admin.web.router import ApiRoute
from forebay.core.errors import INVALID, RequestError
from forebay.core.reading.nearest import hint, slip_among


async def check_names(request: Request, route: ApiRoute) -> None:
    """RequestError(INVALID) names a parameter that the route does not know or that is given twice, or a needless body.

    A body that the route does take is looked at once, where it is read: see `bodies.Exact`.
    """
    known = route.query_names()
    fields = route.body_names()
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in known:
            where = "it is a field of the body" if fields and name in fields else hint(name, known)
            raise RequestError(INVALID, f"query: {name!r} is no parameter of {route.path_format}: {where}")
        if name in seen:
            raise RequestError(INVALID, f"query: {name!r} is given more than once")
        seen.add(name)
    if fields is not None and not fields:
        await refuse_body(request, route)


async def check_slips(request: Request, route: ApiRoute) -> None:
    """RequestError(INVALID) names a parameter that is most likely misspelt."""
    name, meant = slip_among(request.query_params.keys(), route.query_names())
    if meant:
        raise RequestError(INVALID, f"query: {name!r} is no parameter: did you mean {meant}?")


async def refuse_body(request: Request, route: ApiRoute) -> None:
    """RequestError(INVALID) unless there is none, or an empty object."""
    body = await request.body()
    if not body:
        return
    given = read_body(body)
    if not isinstance(given, dict):
        raise RequestError(INVALID, f"body: {route.path_format} takes none")
    if given:
        raise unknown_field(route.path_format, str(next(iter(given))), frozenset())
