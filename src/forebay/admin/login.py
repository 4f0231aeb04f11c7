"""The caller of a request: a name and a password, a token, or the cookie that the web page got for them."""

from __future__ import annotations

import base64
import binascii
from functools import partial
from typing import Annotated, Final

from fastapi import Depends, Request

from forebay.admin.page.logins import COOKIE, WebLogins
from forebay.broker.audit import Origin
from forebay.broker.auth.authorizer import Principal
from forebay.broker.auth.login import LoginContext, LoginRefused
from forebay.broker.auth.permissions import Rights
from forebay.broker.auth.users import TAGS
from forebay.core.errors import REFUSED, RequestError
from forebay.management.needs import ADMINISTRATORS, lacking
from forebay.node.peer import peer_at
from forebay.routing.exchange import text
from forebay.server.app import App

HTTP: Final = "http"
BEARER: Final = "bearer"
BASIC: Final = "basic"
REQUESTED_WITH: Final = "x-requested-with"
OURS: Final = "forebay"  # what our own page says in that header, and no page of others can
SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")


class Caller:
    """The user that has logged in for one request.

    principal  who that is; `user` is its name
    tags       administrator, monitoring, policymaker, management
    origin     the caller, as the audit log names it
    noted      the audit log has what this request changed, or that it was refused
    """

    def __init__(self, app: App, principal: Principal, address: str) -> None:
        self.app = app
        self.principal = principal
        self.user = principal.user
        self.tags = app.control.tags_of(principal)
        self.origin = Origin(principal, address, HTTP)
        self.noted = False

    def check_tags(self, tags: frozenset[str]) -> None:
        """RequestError(REFUSED) for a caller who has none of these tags."""
        if not self.tags & tags:
            raise lacking(self.user, tags)

    def check_administrator(self) -> None:
        """RequestError(REFUSED) for everybody else."""
        self.check_tags(ADMINISTRATORS)

    def may_enter(self, vhost: bytes) -> bool:
        """True if the caller could connect to a vhost."""
        return self.app.control.may_enter(self.principal, vhost)

    def rights(self, vhost: bytes) -> Rights:
        """The caller's rights in a vhost, as a client of it; RequestError(NOT_ALLOWED) where it may not enter."""
        return self.app.vhosts.users.rights(self.principal, vhost)


async def broker_of(request: Request) -> App:
    """The broker that answers."""
    app = request.app.state.broker
    assert isinstance(app, App)
    return app


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
            app.auth.refuse_at(place, error)
            app.schedule()
        raise
    if principal.authorizer is not None:
        # Handlers ask who may enter which vhost, and cannot wait for others to say so.
        for vhost in app.vhosts.all():
            await app.decided(partial(principal.authorizer.may_enter, text(vhost.name)))
    return Caller(app, principal, host)


async def caller_of(request: Request) -> Caller:
    """The caller as `client_of`, if it may use the administration at all; RequestError(REFUSED)."""
    caller = await client_of(request)
    if not caller.tags.intersection(TAGS):
        raise RequestError(REFUSED, "Not management user")
    request.state.caller = caller  # for the audit log
    return caller


async def principal_of(app: App, request: Request, place: LoginContext, loopback: bool) -> Principal:
    header = request.headers.get("authorization", "")
    scheme, _, code = header.partition(" ")
    if scheme.lower() == BEARER:
        return await app.login("", code.strip(), loopback, place)
    if header:
        user, password = basic_credentials(header)
        return await app.login(user, password, loopback, place)
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


def basic_credentials(header: str) -> tuple[str, str]:
    """Name and password of a header as RFC 7617 has it; LoginRefused where it has none."""
    scheme, _, code = header.partition(" ")
    if scheme.lower() != BASIC:
        raise LoginRefused("no credentials")
    try:
        both = base64.b64decode(code, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise LoginRefused("credentials that cannot be read") from None
    user, colon, password = both.partition(":")
    if not colon:
        raise LoginRefused("credentials without a colon")
    return user, password


Broker = Annotated[App, Depends(broker_of)]
Asker = Annotated[Caller, Depends(caller_of)]
Client = Annotated[Caller, Depends(client_of)]
