"""Answers: JSON, and errors in RabbitMQ's words."""

from __future__ import annotations

from typing import Final

import orjson
from starlette.responses import Response

WORDS: Final = {
    400: "bad_request",
    401: "not_authorized",
    404: "Object Not Found",
    405: "method_not_allowed",
    501: "not_implemented",
}


def as_json(value: object, status: int = 200) -> Response:
    """An answer whose body is this value."""
    return Response(orjson.dumps(value), status, media_type="application/json")


def refusal(status: int, reason: str, word: str = "") -> Response:
    """An answer that says what was wrong, as RabbitMQ says it; `word` where that is not the one for the status."""
    return as_json({"error": word or WORDS.get(status, "error"), "reason": reason}, status)
