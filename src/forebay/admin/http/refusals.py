"""The answers to what was refused, whoever refused it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from forebay.admin.caller import REQUESTED_WITH, refused_login
from forebay.admin.http.answer import refusal
from forebay.admin.http.paging import PAGE_PARAMETERS, PageFault, page_fault
from forebay.admin.rabbitmq.unsupported import unsupported_at
from forebay.admin.web.faults import RefusedInput
from forebay.core.errors import DAMAGED, INVALID, NOT_ALLOWED, NOT_FOUND, REFUSED, RequestError
from forebay.directory.logins.authorizer import Undecided
from forebay.directory.logins.login import LoginRefused
from forebay.server.broker_view import BrokerView

STATUS: Final = {NOT_FOUND: 404, NOT_ALLOWED: 401, REFUSED: 401, INVALID: 400, DAMAGED: 503}
BAD_REQUEST: Final = 400
NO_PATH: Final = 404
NO_METHOD: Final = 405
NOT_FOR_ANY_ROUTE: Final = (NO_PATH, NO_METHOD)
UNAVAILABLE: Final = 503
PAGE_FIELDS: Final = tuple(("query", name) for name in PAGE_PARAMETERS)
SHOWN_CHARACTERS_MAX: Final = 80  # of a value that was refused


def error_handlers() -> dict[type[Exception], Callable[[Request, Exception], Coroutine[Any, Any, Response]]]:
    """Return what answers where the broker refuses something: a status and its words, by the error's class."""

    async def on_login(request: Request, error: Exception) -> Response:
        assert isinstance(error, LoginRefused)
        status, reason, headers = refused_login(error, REQUESTED_WITH in request.headers)
        answer = refusal(status, reason)
        answer.headers.update(headers)
        return answer

    async def on_undecided(request: Request, error: Exception) -> Response:
        assert isinstance(error, Undecided)
        broker: BrokerView = request.app.state.broker
        await broker.ask(error.proof)
        answer = refusal(UNAVAILABLE, "somebody else had to be asked who may do that: ask again")
        answer.headers["Retry-After"] = "0"
        return answer

    async def on_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestError)
        if isinstance(error, RefusedInput) and any(each.place in PAGE_FIELDS for each in error.faults):
            error = page_fault(request.query_params)
        word = error.word if isinstance(error, PageFault) else ""
        return refusal(STATUS.get(error.reason, BAD_REQUEST), error.text, word)

    async def on_other(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if error.status_code in NOT_FOR_ANY_ROUTE:
            return no_route(request.method, request.scope["path"], error)
        answer = refusal(error.status_code, error.detail)
        answer.headers.update(error.headers or {})
        return answer

    return {
        HTTPException: on_other,
        LoginRefused: on_login,
        Undecided: on_undecided,
        RequestError: on_request,
    }


def no_route(method: str, path: str, error: HTTPException) -> Response:
    """Return the answer to a request for which there is no route: it names the path, and what is to be known of it."""
    known = unsupported_at(method, path)
    if known is not None:
        answer = refusal(known.status, f"{method} {known.path}: {known.reason}")
    elif error.status_code == NO_METHOD:
        answer = refusal(NO_METHOD, f"method: {method} is none that {shown_path(path)} answers, see /api/openapi.json")
    else:
        answer = refusal(NO_PATH, f"path: {shown_path(path)} is none of this API, see /api/openapi.json")
    answer.headers.update(error.headers or {})
    return answer


def shown_path(path: str) -> str:
    """A path that a stranger has sent, as far as an answer repeats it."""
    return path if len(path) <= SHOWN_CHARACTERS_MAX else f"{path[:SHOWN_CHARACTERS_MAX]}..."
