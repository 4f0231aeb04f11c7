"""The caller of a request over HTTP or CoAP: the user that credentials prove, its tags, and what a refused one is told.

Nothing here needs the web framework: `early.py` answers scrapes before that is loaded.
"""

from __future__ import annotations

import base64
from typing import Final

from forebay.broker.audit import Origin
from forebay.core.errors import REFUSED, RequestError
from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import LoginContext, LoginRefused
from forebay.directory.permissions import Rights
from forebay.directory.users import TAGS
from forebay.management.needs import ADMINISTRATORS, lacking
from forebay.server.broker_view import BrokerView

HTTP: Final = "http"
BEARER: Final = "bearer"
BASIC: Final = "basic"
UNAUTHORIZED: Final = 401
TOO_MANY: Final = 429
REQUESTED_WITH: Final = "x-requested-with"  # our own page sends that header, and asks for the password itself
CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="forebay", charset="UTF-8"'}


class Caller:
    """The user that has logged in for one request.

    principal  who that is; `user` is its name
    tags       administrator, monitoring, policymaker, management
    origin     the caller, as the audit log names it
    noted      the audit log has what this request changed, or that it was refused
    """

    def __init__(self, app: BrokerView, principal: Principal, address: str, protocol: str = HTTP) -> None:
        self.app = app
        self.principal = principal
        self.user = principal.user
        self.tags = app.control.tags_of(principal)
        self.origin = Origin(principal, address, protocol)
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
        return self.app.directory.rights(self.principal, vhost)


async def login_by_header(app: BrokerView, header: str, loopback: bool, place: LoginContext) -> Principal:
    """Return the user that a header Authorization proves, by a password or a token; LoginRefused."""
    scheme, _, code = header.partition(" ")
    if scheme.lower() == BEARER:
        return await app.login("", code.strip(), loopback, place)
    user, password = basic_credentials(header)
    return await app.login(user, password, loopback, place)


def check_manager(caller: Caller) -> None:
    """RequestError(REFUSED) for a caller who has none of the tags of the administration."""
    if not caller.tags.intersection(TAGS):
        raise RequestError(REFUSED, "Not management user")


def basic_credentials(header: str) -> tuple[str, str]:
    """Name and password of a header as RFC 7617 has it; LoginRefused where it has none."""
    scheme, _, code = header.partition(" ")
    if scheme.lower() != BASIC:
        raise LoginRefused("no credentials")
    try:
        both = base64.b64decode(code, validate=True).decode()
    except ValueError:  # no base64, or no UTF-8
        raise LoginRefused("credentials that cannot be read") from None
    user, colon, password = both.partition(":")
    if not colon:
        raise LoginRefused("credentials without a colon")
    return user, password


def refused_login(error: LoginRefused, is_page: bool) -> tuple[int, str, dict[str, str]]:
    """Return the status, reason and headers of the answer to a refused login.

    is_page  a web page has sent the request, and asks for the password itself
    """
    if error.wait_s:
        return TOO_MANY, "too many wrong logins", {"Retry-After": str(error.wait_s)}
    return UNAUTHORIZED, error.text, {} if is_page else CHALLENGE
