"""Routes that are an operation each: path, query and body give its arguments, as the table of operations has them.

What a path names (`{queue:octets}`) is an argument of that name. The rest is in the query of GET and DELETE, and else
in the body. Names, types, bounds, defaults and descriptions are those of the operation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import asdict
from starlette.responses import Response

from forebay.admin.asking import answer
from forebay.admin.forebay.answers import REFUSALS
from forebay.admin.http.paths import QueueName, VhostName
from forebay.admin.login import Asker, Broker
from forebay.admin.web.bodies import Exact
from forebay.admin.web.fields import InPath, Query, typed
from forebay.admin.web.inputs import REQUIRED, Inputs, RequestArgument, input_of, provided_by, source_of
from forebay.admin.web.router import Responses, RouteGroup
from forebay.management.control import Operation
from forebay.management.parameters import FLAG, TABLE, TEXT, WHOLE, Parameter
from forebay.management.requests.fields import OFFSET_MAX
from forebay.management.table import OPERATIONS

TYPES: Final[dict[str, Any]] = {TEXT: str, WHOLE: int, FLAG: bool, TABLE: dict[str, Any]}
NAMES: Final[dict[str, Any]] = {"vhost": VhostName, "queue": QueueName}  # as all paths describe them
IN_QUERY: Final = ("GET", "DELETE")
IN_PATH: Final = re.compile(r"{(\w+)")


@dataclass(frozen=True, slots=True)
class OperationRoute:
    """One path of an operation.

    method    GET where it is not given
    names     arguments that go by another name here: this by that
    defaults  other than the operation's
    """

    path: str
    operation: str
    method: str = "GET"
    names: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, object] = field(default_factory=dict)


def add_operations(router: RouteGroup, routes: tuple[OperationRoute, ...]) -> None:
    """Have a router answer these."""
    for each in routes:
        operation = OPERATIONS[each.operation]
        router.add(
            each.path,
            partial(inputs_of, each, operation, router.prefix + each.path),
            [each.method],
            name=each.operation.replace(".", "_"),
            description=operation.doc,
            responses=responses_of(operation),
        )


def responses_of(operation: Operation) -> Responses:
    """Return what the OpenAPI document says of an operation's answers."""
    return {200: {"description": "What was asked for.", "model_of": operation.answer}, **REFUSALS}


def inputs_of(route: OperationRoute, operation: Operation, path: str) -> Inputs:
    """Return what an operation takes, and from where."""
    in_path = set(IN_PATH.findall(path))
    found = handler_of(operation)
    rest: list[Parameter] = []
    for each in operation.parameters:
        name = route.names.get(each.name, each.name)
        if name in in_path:
            found.fields.append(path_field(each, name))
        elif route.method in IN_QUERY:
            found.fields.append(query_field(each, name, route))
        else:
            rest.append(each)
    if rest:
        is_needed = route.method == "PATCH" or any(each.required for each in rest)
        found.body = body_of(operation, rest)
        found.body_default = REQUIRED if is_needed else None
    return found


def handler_of(operation: Operation) -> Inputs:
    """Return what runs an operation, which is to be given its arguments by their names."""

    async def run_operation(app: Broker, caller: Asker, body: Exact | None = None, **given: object) -> Response:
        fields = {} if body is None else asdict(body)
        return await answer(app, caller, operation.name, {**given, **fields})

    return Inputs(run_operation, provided=[provided_by("app", Broker), provided_by("caller", Asker)])


def path_field(parameter: Parameter, name: str) -> RequestArgument:
    """Return an argument that a path names."""
    encoded = ", percent-encoded" if parameter.type == TEXT else ""
    described = InPath(description=f"{parameter.sentence()}{encoded}.", **bounds_of(parameter))
    kind = NAMES.get(name, Annotated[TYPES[parameter.type], described])
    return replace(input_of(name, kind, source_of(kind)), name=parameter.name)


def query_field(parameter: Parameter, name: str, route: OperationRoute) -> RequestArgument:
    source = Query(name, description=f"{parameter.sentence()}.", **bounds_of(parameter))
    default = REQUIRED if parameter.required else route.defaults.get(parameter.name, parameter.default)
    return input_of(parameter.name, type_of(parameter), source, default)


def body_of(operation: Operation, parameters: Sequence[Parameter]) -> type[Exact]:
    """Return the struct of a body that has these fields and no others."""
    fields: list[Any] = []
    for each in parameters:
        kind = typed(type_of(each), {"description": f"{each.sentence()}.", **bounds_of(each)})
        fields.append((each.name, kind) if each.required else (each.name, kind, each.default))
    title = "".join(part.capitalize() for part in re.split(r"[._]", operation.name))
    made = msgspec.defstruct(title, fields, bases=(Exact,), kw_only=True)
    assert issubclass(made, Exact)
    return made


def type_of(parameter: Parameter) -> Any:
    kind = TYPES[parameter.type]
    return kind if parameter.required or parameter.default is not None else kind | None


def bounds_of(parameter: Parameter) -> dict[str, Any]:
    if parameter.type != WHOLE:
        return {}
    return {"ge": parameter.least, "le": OFFSET_MAX if parameter.most is None else parameter.most}
