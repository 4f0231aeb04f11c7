"""Sources of the arguments of a handler: they stand in annotations, and are read once for each route."""

from __future__ import annotations

import types
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, ClassVar, Final, Union, get_args, get_origin

from msgspec import Meta

PATH: Final = "path"
QUERY: Final = "query"
HEADER: Final = "header"
COOKIE: Final = "cookie"
UNIONS: Final = (Union, types.UnionType)
DESCRIPTIVE: Final = ("description", "examples")


class RequestField:
    """A place of a request that an argument is read from, with the bounds of its values.

    alias  name of the argument there, if that is not the name of the handler's parameter
    meta   bounds and description as `msgspec.Meta` takes them, for reading and for the OpenAPI document
    """

    place: ClassVar[str]

    def __init__(self, alias: str = "", **meta: Any) -> None:
        self.alias = alias
        self.meta = meta


def typed(kind: Any, meta: dict[str, Any]) -> Any:
    """Return a type with bounds and a description; of one that may be None, the bounds are of its other values."""
    bounds = Meta(**{name: value for name, value in meta.items() if name not in DESCRIPTIVE})
    described = Meta(**{name: value for name, value in meta.items() if name in DESCRIPTIVE})
    parts = get_args(kind) if get_origin(kind) in UNIONS else (kind,)
    bounded = [each if each is type(None) else Annotated[(each, bounds)] for each in parts]
    return Annotated[(Union[tuple(bounded)], described)]  # noqa: UP007  of as many as there are


class InPath(RequestField):
    """A segment of the path: `{vhost:name}`."""

    place = PATH


class Query(RequestField):
    """A parameter of the query."""

    place = QUERY


class Header(RequestField):
    """A field of the head."""

    place = HEADER


class Cookie(RequestField):
    """A cookie."""

    place = COOKIE


class Provided:
    """An argument that a function makes, once for each request; it has arguments of its own.

    needs  tag that its caller must have, if it asks for one: the OpenAPI document names it
    """

    def __init__(self, function: Callable[..., Awaitable[Any]], needs: str = "") -> None:
        self.function = function
        self.needs = needs
