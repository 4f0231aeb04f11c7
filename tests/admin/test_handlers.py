"""Every handler of the HTTP API runs in the broker's loop: a plain function would run in a thread beside it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from forebay.admin.api import all_routes
from forebay.admin.openapi.document import make_document


def test_handlers_and_what_they_depend_on_are_coroutines() -> None:
    routes = all_routes().all
    assert len(routes) > 150
    threads = {
        f"{route.path}: {inputs.function}"
        for route in routes
        for inputs in route.inputs.all()
        if not inspect.iscoroutinefunction(inputs.function)
    }
    assert threads == set()


def test_every_operation_is_described() -> None:
    document = make_document(all_routes())
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
