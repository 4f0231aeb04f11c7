"""The common part of handlers that change something: most run an operation; the answer waits for the disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from forebay.admin.asking import perform
from forebay.admin.caller import Caller
from forebay.admin.web.router import ApiRoute, Responses
from forebay.broker.audit import DONE
from forebay.core.errors import RequestError
from forebay.core.reading.json_text import JsonError, read_json
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView

READING: Final = ("GET", "HEAD", "OPTIONS")
CREATED: Final = 201
DONE_STATUS: Final = 204
BODY_OCTETS_MAX: Final = 1 << 16  # of one that is noted

MADE: Final[Responses] = {
    CREATED: {"description": "It was made."},
    DONE_STATUS: {"description": "It was there, and is now as asked for."},
}
GONE: Final[Responses] = {DONE_STATUS: {"description": "It is gone."}}
CHANGED: Final[Responses] = {DONE_STATUS: {"description": "It is done."}}


async def noted(request: Request, route: ApiRoute, answer: Callable[[], Awaitable[Response]]) -> Response:
    """Note changes, done and refused, in the audit log, unless an operation has done so."""
    if request.method in READING:
        return await answer()
    try:
        found = await answer()
    except RequestError as error:
        note(request, route.path_format, error.text)
        raise
    note(request, route.path_format, DONE if found.status_code < 400 else str(found.status_code))
    return found


def note(request: Request, path: str, result: str) -> None:
    """Note a change in the audit log, unless that is done, or nobody has logged in for it."""
    caller = getattr(request.state, "caller", None)
    if not isinstance(caller, Caller) or caller.noted:
        return
    named = request.path_params.items()
    arguments: dict[str, object] = {name: text(each) if isinstance(each, bytes) else each for name, each in named}
    body = getattr(request, "_body", b"")  # what was read of it
    if 0 < len(body) <= BODY_OCTETS_MAX:
        arguments["body"] = shown_body(body)
    caller.app.vhosts.shared.audit.note(caller.origin, f"{request.method} {path}", arguments, result)


def shown_body(body: bytes) -> object:
    try:
        return read_json(body)
    except JsonError:
        return None


async def finished(app: BrokerView, status: int = DONE_STATUS, headers: Mapping[str, str] | None = None) -> Response:
    """The answer without a body to a change, once all that was changed is on the disk."""
    await app.on_disk()
    return Response(status_code=status, headers=headers)


async def changed(
    app: BrokerView,
    caller: Caller,
    name: str,
    values: dict[str, object],
    status: int = DONE_STATUS,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The same to a change that is an operation, which callers may ask for as clients of theirs could."""
    await perform(app, caller, name, values, as_client=True)
    return Response(status_code=status, headers=headers)


def put_status(is_new: bool) -> int:
    """The status of an answer to a PUT, which says whether it has made something."""
    return CREATED if is_new else DONE_STATUS
