"""The answers under /api/forebay, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Any, Final

from forebay.admin.forebay.operations import ANSWERS

REFUSALS: Final[dict[int | str, dict[str, Any]]] = {status: ANSWERS[status] for status in (400, 401, 404)}


def answers(schema: dict[str, object]) -> dict[int | str, dict[str, Any]]:
    """Answers of which the good one has this JSON Schema."""
    good = {"description": "What was asked for.", "content": {"application/json": {"schema": schema}}}
    return {200: good, **REFUSALS}


def fields(**types: str) -> dict[str, object]:
    """JSON Schema of an object that has at least these fields."""
    return {
        "type": "object",
        "properties": {name: {"type": type} for name, type in types.items()},
        "required": list(types),
    }


OBJECT: Final = answers({"type": "object"})
LIST: Final = answers(fields(items="array"))
DONE: Final = answers(fields(done="integer", scanned="integer"))
EMPTY: Final[dict[int | str, dict[str, Any]]] = {200: {"description": "Done, and on disk."}, **REFUSALS}
