"""Every handler of the HTTP API runs in the broker's loop: a plain function would run in a thread beside it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant

from forebay.admin.api import add_routes
from forebay.admin.openapi.document import api_routes, calls_of, make_document


def calls(dependant: Dependant) -> Iterator[object]:
    """What is called for a route, beside classes, which only hold values."""
    for call in calls_of(dependant):
        if not inspect.isclass(call):
            yield call


def test_handlers_and_what_they_depend_on_are_coroutines() -> None:
    api = FastAPI()
    add_routes(api)
    routes = list(api_routes(api.routes))
    assert len(routes) > 150
    threads = {
        f"{route.path}: {call}"
        for route in routes
        for call in calls(route.dependant)
        if not inspect.iscoroutinefunction(call)
    }
    assert threads == set()


def test_every_operation_is_described() -> None:
    api = FastAPI(title="forebay", version="0")
    add_routes(api)
    document = make_document(api)
    lacking = [
        f"{method} {path}: {what}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        for what in lacking_in(operation)
    ]
    assert lacking == []


def lacking_in(operation: dict[str, object]) -> Iterator[str]:
    """What an operation does not say of itself."""
    if not operation.get("description"):
        yield "description"
    parameters = operation.get("parameters", [])
    assert isinstance(parameters, list)
    for parameter in parameters:
        if not parameter.get("description") and parameter["in"] in {"path", "query"}:
            yield f"parameter {parameter['name']}"
    responses = operation["responses"]
    assert isinstance(responses, dict)
    if "422" in responses:
        yield "the broker never answers 422"
