"""/api/login and /api/logout: the web page's own way in."""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from forebay.admin.caller import HTTP, Caller
from forebay.admin.http.answer import as_json
from forebay.admin.login import Broker
from forebay.admin.page.logins import COOKIE, WebLogins
from forebay.admin.web.fields import Cookie
from forebay.admin.web.router import RouteGroup
from forebay.core.errors import REFUSED, RequestError
from forebay.directory.logins.login import LoginContext, LoginRefused
from forebay.directory.users import TAGS
from forebay.node.peer import peer_at

router = RouteGroup(prefix="/api", tags=["login"])

CHARACTERS_MAX: Final = 65_536  # a token may be long
REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    401: {"description": "Wrong name or password, or no user of the administration."},
    429: {"description": "Too many wrong logins; Retry-After says how long to wait."},
}


class Credentials(Struct):
    """A name and a password; with an empty name, the password is a token."""

    username: Annotated[str, Meta(max_length=255)]
    password: Annotated[str, Meta(max_length=CHARACTERS_MAX)]


@router.post("/login", responses=REFUSALS)
async def login(request: Request, broker: Broker, credentials: Credentials) -> Response:
    """Log in for a web page: the answer has the caller's name and tags, and sets a cookie."""
    host, port = request.client if request.client is not None else ("", 0)
    place = LoginContext(host, HTTP)
    loopback = bool(host) and peer_at(host, port).loopback
    try:
        principal = await broker.login(credentials.username, credentials.password, loopback, place)
    except LoginRefused as error:
        broker.refuse_login(place, error)
        raise
    caller = Caller(broker, principal, host)
    if not caller.tags.intersection(TAGS):
        raise RequestError(REFUSED, "Not management user")
    answer = as_json({"name": caller.user, "tags": sorted(caller.tags)})
    logins = logins_of(request)
    token = logins.begin(principal, host)
    await logins.save()
    answer.set_cookie(
        COOKIE,
        token,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


@router.delete("/login", status=204)
@router.post("/logout", status=204)
async def logout(request: Request, token: Annotated[str, Cookie(alias=COOKIE)] = "") -> Response:
    """End the login that the cookie stands for; no error where there is none."""
    logins = logins_of(request)
    if logins.end(token):
        await logins.save()
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer


def logins_of(request: Request) -> WebLogins:
    logins = request.app.state.logins
    assert isinstance(logins, WebLogins)
    return logins
