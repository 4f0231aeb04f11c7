"""The answers under /api/forebay, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Any, Final

from forebay.admin.forebay.operations import ANSWERS

REFUSALS: Final[dict[int | str, dict[str, Any]]] = {status: ANSWERS[status] for status in (400, 401, 404)}


def answers(schema: dict[str, object]) -> dict[int | str, dict[str, Any]]:
    """Answers of which the good one has this JSON Schema."""
    good = {"description": "What was asked for.", "content": {"application/json": {"schema": schema}}}
    return {200: good, **REFUSALS}


def answer_of(model: Any) -> dict[int | str, dict[str, Any]]:
    """Return the answers of which the good one is of this type."""
    return {200: {"description": "What was asked for.", "model": model}, **REFUSALS}
