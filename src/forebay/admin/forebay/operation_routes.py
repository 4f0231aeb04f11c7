"""Routes that are an operation each: path, query and body give its arguments, as the table of operations has them.

What a path names (`{queue:octets}`) is an argument of that name. The rest is in the query of GET and DELETE, and else
in the body. Names, types, bounds, defaults and descriptions are those of the operation.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, Field, create_model

from forebay.admin.asking import answer
from forebay.admin.caller import Caller
from forebay.admin.forebay.answers import LIST, OBJECT
from forebay.admin.http.exact import Exact
from forebay.admin.http.paths import QueueName, VhostName
from forebay.admin.login import Asker, Broker
from forebay.management.control import Operation
from forebay.management.parameters import FLAG, OFFSET_MAX, TABLE, TEXT, WHOLE, Parameter
from forebay.management.table import OPERATIONS
from forebay.server.app import App

TYPES: Final[dict[str, Any]] = {TEXT: str, WHOLE: int, FLAG: bool, TABLE: dict[str, object]}
GIVEN: Final = inspect.Parameter.empty  # it has no default
NAMES: Final[dict[str, Any]] = {"vhost": VhostName, "queue": QueueName}  # as all paths describe them
IN_QUERY: Final = ("GET", "DELETE")
IN_PATH: Final = re.compile(r"{(\w+)")
Responses = dict[int | str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class OperationRoute:
    """One path of an operation.

    method    GET where it is not given
    names     arguments that go by another name here: this by that
    defaults  other than the operation's
    """

    path: str
    operation: str
    responses: Responses = field(default_factory=lambda: OBJECT)
    method: str = "GET"
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)


def list_route(path: str, operation: str) -> OperationRoute:
    """The route of an operation that answers in pages."""
    return OperationRoute(path, operation, LIST)


def add_operations(router: APIRouter, routes: tuple[OperationRoute, ...]) -> None:
    """Have a router answer these."""
    for each in routes:
        operation = OPERATIONS[each.operation]
        router.add_api_route(
            each.path,
            handler_of(each, operation, router.prefix + each.path),
            methods=[each.method],
            name=each.operation.replace(".", "_"),
            description=operation.doc,
            responses=each.responses,
        )


def handler_of(route: OperationRoute, operation: Operation, path: str) -> Callable[..., Awaitable[Response]]:
    """A handler whose signature tells FastAPI what an operation takes, and from where."""
    in_path = set(IN_PATH.findall(path))
    taken: dict[str, tuple[Any, object]] = {"app": (Broker, GIVEN), "caller": (Asker, GIVEN)}
    arguments: dict[str, str] = {}  # by what Python can call them
    rest: list[Parameter] = []
    for each in operation.parameters:
        name = route.names.get(each.name, each.name)
        if name in in_path:
            taken[name] = NAMES.get(name, path_field(each)), GIVEN
            arguments[name] = each.name
        elif route.method in IN_QUERY:
            taken[f"{each.name}_"] = query_field(each, name, route)
            arguments[f"{each.name}_"] = each.name
        else:
            rest.append(each)
    if rest:
        body = body_of(operation, rest)
        is_needed = route.method == "PATCH" or any(each.required for each in rest)
        taken["body"] = (body, GIVEN) if is_needed else (body | None, None)

    async def run_operation(app: App, caller: Caller, body: BaseModel | None = None, **given: object) -> Response:
        values = {arguments[name]: value for name, value in given.items()}
        return await answer(app, caller, operation.name, {**values, **({} if body is None else body.model_dump())})

    run_operation.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in taken.items()
        ]
    )
    return run_operation


def path_field(parameter: Parameter) -> Any:
    encoded = ", percent-encoded" if parameter.type == TEXT else ""
    return Annotated[
        TYPES[parameter.type], Path(description=f"{parameter.sentence()}{encoded}.", **bounds_of(parameter))
    ]


def query_field(parameter: Parameter, name: str, route: OperationRoute) -> tuple[Any, object]:
    where = Query(alias=name, description=f"{parameter.sentence()}.", **bounds_of(parameter))
    default = GIVEN if parameter.required else route.defaults.get(parameter.name, parameter.default)
    return Annotated[type_of(parameter), where], default


def body_of(operation: Operation, parameters: Sequence[Parameter]) -> type[BaseModel]:
    """A body that has these fields and no others."""
    fields: dict[str, Any] = {
        each.name: (
            type_of(each),
            Field(... if each.required else each.default, description=f"{each.sentence()}.", **bounds_of(each)),
        )
        for each in parameters
    }
    title = "".join(part.capitalize() for part in re.split(r"[._]", operation.name))
    return create_model(title, __base__=Exact, **fields)


def type_of(parameter: Parameter) -> Any:
    kind = TYPES[parameter.type]
    return kind if parameter.required or parameter.default is not None else kind | None


def bounds_of(parameter: Parameter) -> dict[str, Any]:
    if parameter.type != WHOLE:
        return {}
    return {"ge": parameter.least, "le": OFFSET_MAX if parameter.most is None else parameter.most}
