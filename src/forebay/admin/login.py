"""The caller of a request: a name and a password, a token, or the cookie that the web page got for them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from starlette.requests import Request

from forebay.admin.caller import HTTP, REQUESTED_WITH, Caller, check_manager, login_by_header
from forebay.admin.page.logins import COOKIE, WebLogins
from forebay.admin.web.fields import Provided
from forebay.core.errors import REFUSED, RequestError
from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import LoginContext, LoginRefused
from forebay.node.peer import peer_at
from forebay.routing.exchange import text
from forebay.server.broker_view import BrokerView

OURS: Final = "forebay"  # what our own page says in that header, and no page of others can
SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")


async def broker_of(request: Request) -> BrokerView:
    """The broker that answers."""
    broker: BrokerView = request.app.state.broker
    return broker


async def client_of(request: Request) -> Caller:
    """The caller that the request's credentials name, with or without tags; LoginRefused."""
    app = await broker_of(request)
    host, port = request.client if request.client is not None else ("", 0)
    loopback = bool(host) and peer_at(host, port).loopback
    place = LoginContext(host, HTTP)
    try:
        principal = await principal_of(app, request, place, loopback)
    except LoginRefused as error:
        if "authorization" in request.headers:  # without credentials nobody has guessed anything
            app.refuse_login(place, error)
        raise
    if principal.authorizer is not None:
        # Handlers ask who may enter which vhost, and cannot wait for others to say so.
        for vhost in app.vhosts.all():
            await app.decided(partial(principal.authorizer.may_enter, text(vhost.name)))
    return Caller(app, principal, host)


async def caller_of(request: Request) -> Caller:
    """The caller as `client_of`, if it may use the administration at all; RequestError(REFUSED)."""
    caller = await client_of(request)
    check_manager(caller)
    request.state.caller = caller  # for the audit log
    return caller


async def principal_of(app: BrokerView, request: Request, place: LoginContext, loopback: bool) -> Principal:
    header = request.headers.get("authorization", "")
    if header:
        return await login_by_header(app, header, loopback, place)
    logins = request.app.state.logins
    assert isinstance(logins, WebLogins)
    principal = logins.principal_of(request.cookies.get(COOKIE, ""), place.address)
    if principal is None:
        raise LoginRefused("no credentials")
    # A page of others can make a browser send the cookie, but not this header without being asked first.
    if request.method not in SAFE_METHODS and not is_ours(request):
        raise RequestError(REFUSED, f"a change by cookie must have the header X-Requested-With: {OURS}")
    return principal


def is_ours(request: Request) -> bool:
    """True if our own page has sent the request."""
    return bool(request.headers.get(REQUESTED_WITH, "") == OURS)


Broker = Annotated[BrokerView, Provided(broker_of)]
Asker = Annotated[Caller, Provided(caller_of, "management")]
Client = Annotated[Caller, Provided(client_of, "none")]
