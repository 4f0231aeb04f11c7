"""The OpenAPI document: what FastAPI finds out of the routes, and what holds for all of them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import orjson
from fastapi import FastAPI, Response
from fastapi.dependencies.models import Dependant
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from forebay.admin.login import caller_of, client_of
from forebay.admin.rights import administrator_of, monitor_of, policymaker_of

PATH: Final = "/api/openapi.json"
PREFIX: Final = "/api/"
# Dependencies that ask for a tag, by what an operation says of it; the first that is found holds.
NEEDS: Final = ((administrator_of, "administrator"), (monitor_of, "monitoring"), (policymaker_of, "policymaker"))
ANY_TAG: Final = "management"
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
NOT_FOUND: Final = "There is no such thing."
SHAPE: Final = re.compile(rb'Shape(?=["_])')  # the end of a class's name in shapes.py, which callers do not know


def describe(api: FastAPI) -> None:
    """Have the application answer with a document that says all that its routes do."""
    made: list[bytes] = []

    @api.get(PATH, include_in_schema=False)
    async def show_document() -> Response:
        if not made:  # half a second of work, which no turn is to wait for
            made.append(orjson.dumps(await asyncio.to_thread(make_document, api)))
        return Response(made[0], media_type="application/json")


def make_document(api: FastAPI) -> dict[str, Any]:
    """The document, with basic auth and the errors that every operation of the API may answer with."""
    named = get_openapi(title=api.title, version=api.version, routes=api.routes, summary="The API of a forebay broker.")
    made: dict[str, Any] = orjson.loads(SHAPE.sub(b"", orjson.dumps(named)))
    components = made.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Refusal"] = REFUSAL_SHAPE
    components["securitySchemes"] = {"basic": {"type": "http", "scheme": "basic"}}
    needs = needed_tags(api)
    for path, methods in made["paths"].items():
        for method, operation in methods.items():
            complete(path, operation, needs.get((path, method)))
    return made


def complete(path: str, operation: dict[str, Any], needs: str | None) -> None:
    """Put into one operation what FastAPI does not know."""
    responses = operation["responses"]
    responses.pop("422", None)
    if not path.startswith(PREFIX) and needs is None:
        return
    for status, text in EVERYWHERE.items():
        responses.setdefault(status, refused(text))
    if "{" in path:
        responses.setdefault("404", refused(NOT_FOUND))
    if needs is not None:
        operation["security"] = [{"basic": []}]
        operation[TAG_KEY] = needs


def refused(text: str) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": REFUSAL}}}


def needed_tags(api: FastAPI) -> dict[tuple[str, str], str]:
    """The tag that a caller must have, by path and method; nothing for what everybody may ask."""
    found: dict[tuple[str, str], str] = {}
    for route in api_routes(api.routes):
        asked = calls_of(route.dependant)
        if caller_of not in asked and client_of not in asked:
            continue
        least = ANY_TAG if caller_of in asked else NO_TAG
        tag = next((name for call, name in NEEDS if call in asked), least)
        for method in route.methods or ():
            found[route.path_format, method.lower()] = tag
    return found


def api_routes(routes: Iterable[BaseRoute]) -> Iterator[APIRoute]:
    """The routes, those of routers within routers among them, which some versions of FastAPI keep as they are."""
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        else:
            inner = getattr(route, "original_router", None)
            yield from api_routes(() if inner is None else inner.routes)


def calls_of(dependant: Dependant) -> list[object]:
    """All functions that are called before a handler, and the handler."""
    found: list[object] = [dependant.call]
    for inner in dependant.dependencies:
        found += calls_of(inner)
    return found
