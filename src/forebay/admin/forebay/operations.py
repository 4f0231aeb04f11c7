"""/api/forebay/operations: every operation of administrators, with its arguments as a JSON object.

docs/reference/control.md lists them. Each has an entry of its own in the OpenAPI document, made of the same table.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from forebay.admin.asking import answer
from forebay.admin.http.answer import as_json
from forebay.admin.login import Asker, Broker
from forebay.admin.web.bodies import read_body
from forebay.admin.web.inputs import Inputs, read_signature
from forebay.admin.web.router import RouteGroup
from forebay.core.errors import INVALID, RequestError
from forebay.management.control import Operation
from forebay.management.parameters import ANY, FLAG, RANGES, TABLE, TEXT, TEXTS, WHOLE, Parameter
from forebay.management.requests.fields import INTEGER_MAX
from forebay.management.table import OPERATIONS
from forebay.wire.blocks.frames import CONTROL_OCTETS_MAX

OFFSET: Final[dict[str, object]] = {"type": "integer", "minimum": 0}
SCHEMAS: Final[dict[str, dict[str, object]]] = {
    TEXT: {"type": "string"},
    WHOLE: {"type": "integer", "minimum": -INTEGER_MAX, "maximum": INTEGER_MAX},
    FLAG: {"type": "boolean"},
    TABLE: {"type": "object"},
    ANY: {},
    TEXTS: {"type": "array", "items": {"type": "string"}},
    RANGES: {
        "type": "array",
        "items": {"anyOf": [OFFSET, {"type": "array", "items": OFFSET, "minItems": 2, "maxItems": 2}]},
    },
}
ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    400: {"description": "An argument is wrong, or what is asked cannot be: `error` and `reason`."},
    401: {"description": "Not logged in, or no administrator."},
    404: {"description": "Something that was named is not there."},
    413: {"description": "The arguments are too long."},
}
router = RouteGroup(prefix="/api/forebay", tags=["forebay"])


async def arguments_of(request: Request) -> dict[str, object]:
    """The JSON object that is a request's body, empty where it has none; RequestError(INVALID)."""
    octets = bytearray()
    async for part in request.stream():
        octets += part
        if len(octets) > CONTROL_OCTETS_MAX:
            raise RequestError(INVALID, f"body: longer than {CONTROL_OCTETS_MAX} octets")
    if not octets:
        return {}
    values = read_body(bytes(octets))
    if not isinstance(values, dict):
        raise RequestError(INVALID, "body: no object of arguments")
    return values


@router.get("/operations", responses={200: {"model": list[dict[str, Any]]}, 401: ANSWERS[401]})
async def list_operations(caller: Asker) -> Response:
    """The operations there are: name, description, whether they change something, and their parameters."""
    return as_json([described(each) for _, each in sorted(OPERATIONS.items())])


def described(each: Operation) -> dict[str, object]:
    return {
        "name": each.name,
        "description": " ".join(each.doc.split()),
        "changes": each.changes,
        "parameters": [
            {
                "name": parameter.name,
                "type": parameter.type,
                "required": parameter.required,
                "default": parameter.default,
                "description": parameter.doc,
            }
            for parameter in each.parameters
        ],
    }


def schema_of(operation: Operation) -> dict[str, object]:
    """JSON Schema of an operation's arguments."""
    return {
        "type": "object",
        "properties": {each.name: property_of(each) for each in operation.parameters},
        "required": [each.name for each in operation.parameters if each.required],
        "additionalProperties": False,
    }


def property_of(parameter: Parameter) -> dict[str, object]:
    found = {**SCHEMAS[parameter.type], "description": parameter.doc}
    if parameter.default is not None:
        found["default"] = parameter.default
    return found


def inputs_of(name: str) -> Inputs:
    """Return what an operation takes: the request, whose body are its arguments."""

    async def run_operation(request: Request, app: Broker, caller: Asker) -> Response:
        return await answer(app, caller, name, await arguments_of(request))

    return read_signature(run_operation)


for each in OPERATIONS.values():
    body: dict[str, Any] = {"content": {"application/json": {"schema": schema_of(each)}}}
    router.add(
        f"/operations/{each.name}",
        partial(inputs_of, each.name),
        ["POST"],
        name=each.name,
        summary=each.name,
        description=each.doc,
        operation_id=each.name.replace(".", "_"),
        responses={200: {"description": "What it answers.", "model_of": each.answer}, **ANSWERS},
        body=body,
    )
