"""The OpenAPI document: what routes say of themselves, schemas of their types, and what holds for all of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import orjson
from starlette.responses import Response

from forebay import __version__
from forebay.admin.web.inputs import REQUIRED, Inputs, RequestArgument
from forebay.admin.web.router import ApiRoute, RouteGroup, Routes

PATH: Final = "/api/openapi.json"
PREFIX: Final = "/api/"
TITLE: Final = "forebay"
SUMMARY: Final = "The API of a forebay broker."
VERSION: Final = "3.1.0"
JSON: Final = "application/json"
REFERENCE: Final = "#/components/schemas/{name}"
NO_BODY: Final = 204
NO_TAG: Final = "none"  # any user
TAG_KEY: Final = "x-needs-tag"
REFUSAL: Final = {"$ref": "#/components/schemas/Refusal"}
REFUSAL_SHAPE: Final = {
    "title": "Refusal",
    "type": "object",
    "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"description": "Names the field and its value."}},
}
EVERYWHERE: Final = {
    "400": "A parameter or the body is wrong.",
    "401": "Nobody has logged in, or whoever has may not do this.",
    "413": "The body is longer than http_body_octets_max.",
    "429": "Too many wrong logins; Retry-After says how long to wait.",
    "503": "Somebody else is asked first who may do this; ask again.",
}
MODELS: Final = ("model", "model_of")
SUCCESSFUL: Final = "Successful Response"
NOT_FOUND: Final = "There is no such thing."
SHAPE: Final = re.compile(rb'Shape(?=["_])')  # the end of a class's name in shapes.py, which callers do not know


def describe(routes: Routes) -> None:
    """Have the application answer with a document that says all that its routes do."""
    made: list[bytes] = []
    router = RouteGroup(is_described=False)

    @router.get(PATH)
    async def show_document() -> Response:
        if not made:  # a tenth of a second of work, which no turn is to wait for
            made.append(orjson.dumps(await asyncio.to_thread(make_document, routes)))
        return Response(made[0], media_type=JSON)

    routes.include(router)


def make_document(routes: Routes) -> dict[str, Any]:
    """The document, with basic auth and the errors that every operation of the API may answer with."""
    described = [each for each in routes.all if each.is_described]
    schemas = Schemas([kind for route in described for kind in kinds_of(route)])
    paths: dict[str, dict[str, Any]] = {}
    for route in described:
        for method in route.methods:
            operation = operation_of(route, method.lower(), schemas)
            paths.setdefault(route.path_format, {}).setdefault(method.lower(), operation)
    named = {
        "openapi": VERSION,
        "info": {"title": TITLE, "summary": SUMMARY, "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas.named},
    }
    made: dict[str, Any] = orjson.loads(SHAPE.sub(b"", orjson.dumps(named)))
    made["components"]["schemas"]["Refusal"] = REFUSAL_SHAPE
    made["components"]["securitySchemes"] = {"basic": {"type": "http", "scheme": "basic"}}
    return made


class Schemas:
    """The JSON Schemas of types.

    named  those of structs, by name; others refer to them
    """

    def __init__(self, kinds: list[Any]) -> None:
        found, self.named = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
        self.by_kind = dict(zip(map(id, kinds), found, strict=True))
        self.kinds = kinds  # whose numbers are theirs as long as they are kept

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of one of the types."""
        return {name: value for name, value in self.by_kind[id(kind)].items() if name != "contentEncoding"}


def kinds_of(route: ApiRoute) -> Iterator[Any]:
    """Yield the types of what a route takes and answers."""
    for inputs in route.inputs.all():
        for field in inputs.fields:
            yield field.kind
        if inputs.body is not None:
            yield inputs.body
    for response in route.responses.values():
        model = model_of(response)
        if model is not None:
            yield model


def model_of(response: dict[str, Any]) -> Any:
    """Return the type of an answer; None where its schema is written down, or it has none.

    Of an operation there is but a function that finds the type (`model_of`), which is called here for the first time.
    """
    return response["model_of"]() if "model_of" in response else response.get("model")


def operation_of(route: ApiRoute, method: str, schemas: Schemas) -> dict[str, Any]:
    """Return what is said of one method of a route."""
    name = re.sub(r"\W", "_", f"{route.name}{route.path_format}")
    operation: dict[str, Any] = {
        "summary": route.summary or route.name.replace("_", " ").title(),
        "description": route.description,
        "operationId": route.operation_id or f"{name}_{method}",
        "responses": {str(status): response_of(each, schemas) for status, each in route.responses.items()},
    }
    if route.tags:
        operation["tags"] = list(route.tags)
    fields = {(each.place, each.alias): each for inputs in route.inputs.all() for each in inputs.fields}
    if fields:
        operation["parameters"] = [parameter_of(each, schemas) for each in fields.values()]
    body = route.body or requested(route.inputs, schemas)
    if body:
        operation["requestBody"] = body
    good = operation["responses"].setdefault(str(route.status), {"description": SUCCESSFUL})
    if not route.is_plain and route.status != NO_BODY:
        good.setdefault("content", {}).setdefault(JSON, {}).setdefault("schema", {})
    complete(route, operation)
    return operation


def parameter_of(field: RequestArgument, schemas: Schemas) -> dict[str, Any]:
    """Return what is said of one parameter."""
    schema = schemas.of(field.kind)
    found = {"name": field.alias, "in": field.place, "required": field.default is REQUIRED, "schema": schema}
    if field.default is not REQUIRED and field.default is not None:
        schema["default"] = field.default
    if "description" in schema:
        found["description"] = schema["description"]
    return found


def requested(inputs: Inputs, schemas: Schemas) -> dict[str, Any]:
    """Return what is said of a body; nothing where there is none."""
    if inputs.body is None:
        return {}
    schema = schemas.of(inputs.body)
    if inputs.body_default is REQUIRED:
        return {"required": True, "content": {JSON: {"schema": schema}}}
    return {"content": {JSON: {"schema": {"anyOf": [schema, {"type": "null"}]}}}}


def response_of(response: dict[str, Any], schemas: Schemas) -> dict[str, Any]:
    """Return what is said of one answer."""
    found = {"description": SUCCESSFUL, **{name: value for name, value in response.items() if name not in MODELS}}
    model = model_of(response)
    if model is not None:
        found["content"] = {JSON: {"schema": schemas.of(model)}}
    elif "content" in response:
        found["content"] = {media: dict(each) for media, each in response["content"].items()}
    return found


def complete(route: ApiRoute, operation: dict[str, Any]) -> None:
    """Put into one operation what holds for all."""
    responses = operation["responses"]
    needs = route.inputs.needs()
    if not route.path.startswith(PREFIX) and needs is None:
        return
    for status, text in EVERYWHERE.items():
        responses.setdefault(status, refused(text))
    if "{" in route.path:
        responses.setdefault("404", refused(NOT_FOUND))
    if needs is not None:
        operation["security"] = [{"basic": []}]
        operation[TAG_KEY] = needs


def refused(text: str) -> dict[str, Any]:
    return {"description": text, "content": {JSON: {"schema": REFUSAL}}}
