"""Requests that say more than anybody looks at are refused: what is not known may have been meant to choose.

A `?where=` that a path does not know would otherwise discard a whole queue. One dependency holds for all routes of
forebay's own API and of the bridge. RabbitMQ's API takes what it does not know, as RabbitMQ does, unless its name is
like one that is known, and is most likely misspelt.
"""

from __future__ import annotations

import types
from typing import Annotated, Any, Final, Union, get_args, get_origin

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, model_validator

from forebay.admin.http.bodies import read_body
from forebay.core.errors import INVALID, RequestError
from forebay.core.nearest import hint, slip_among

UNIONS: Final = (Union, types.UnionType)


class Exact(BaseModel):
    """A body that has these fields and no others; `unknown_field` says what was meant."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def read_given(cls, given: Any) -> Any:
        """Return the fields that are given: one that may be absent is absent where it is null."""
        return without_nulls(cls, given) if isinstance(given, dict) else given


def without_nulls(model: type[BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    """Return a body without the fields that are null and need not be there."""
    needed = {name for name, field in model.model_fields.items() if field.is_required()}
    needed |= {field.alias for field in model.model_fields.values() if field.is_required() and field.alias}
    known = set(model.model_fields) | {field.alias for field in model.model_fields.values()}
    return {name: value for name, value in given.items() if value is not None or name in needed or name not in known}


async def check_names(request: Request) -> None:
    """RequestError(INVALID) names a parameter that the route does not know or that is given twice, or a needless body.

    A body that the route does take is looked at once, where it is read: see `Exact`.
    """
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    known = query_names(route.dependant)
    fields = body_names(route)
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


async def check_slips(request: Request) -> None:
    """RequestError(INVALID) names a parameter that is most likely misspelt."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    name, meant = slip_among(request.query_params.keys(), query_names(route.dependant))
    if meant:
        raise RequestError(INVALID, f"query: {name!r} is no parameter: did you mean {meant}?")


Checked: Final = [Depends(check_names)]  # what a router is included with
CheckedForSlips: Final = [Depends(check_slips)]


async def refuse_body(request: Request, route: APIRoute) -> None:
    """RequestError(INVALID) unless there is none, or an empty object."""
    body = await request.body()
    if not body:
        return
    given = read_body(body)
    if not isinstance(given, dict):
        raise RequestError(INVALID, f"body: {route.path_format} takes none")
    if given:
        raise RequestError(INVALID, unknown_field(route, str(next(iter(given)))))


def unknown_field(route: APIRoute, name: str) -> str:
    """The words for a field of the body that the route does not know."""
    fields = body_names(route) or ()
    return f"body: {name!r} is no field of what {route.path_format} takes: {hint(name, fields)}"


def query_names(dependant: Dependant) -> frozenset[str]:
    """The parameters that a handler, and what is called before it, takes from the query."""
    found = {each.alias for each in dependant.query_params}
    for inner in dependant.dependencies:
        found |= query_names(inner)
    return frozenset(found)


def body_names(route: APIRoute) -> frozenset[str] | None:
    """The fields of the body; None where the handler reads the body itself, and says what is wrong with it."""
    if route.body_field is None:
        reads = route.dependant.request_param_name is not None and "GET" not in (route.methods or ())
        return None if reads else frozenset()
    model = model_of(route.body_field.field_info.annotation)
    return frozenset(field.alias or name for name, field in model.model_fields.items())


def model_of(annotation: object) -> type[BaseModel]:
    """The model of a body that may be left out."""
    if get_origin(annotation) is Annotated:
        return model_of(get_args(annotation)[0])
    if get_origin(annotation) in UNIONS:
        return model_of(next(each for each in get_args(annotation) if each is not type(None)))
    assert isinstance(annotation, type) and issubclass(annotation, Exact), annotation
    return annotation
