"""Logins of the web page: what its cookie stands for.

The cookie is chance, and only its digest is kept. It is good for the address that logged in, and as long as the user is
there with the password of that time.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from hashlib import sha256
from typing import Final

from forebay.broker.auth.authorizer import Principal
from forebay.server.app import App

COOKIE: Final = "forebay_session"
TOKEN_OCTETS: Final = 32
LOGINS_MAX: Final = 1000
SECOND_US: Final = 1_000_000


class WebLogin:
    """One login; `password_hash` is what was kept of the password then."""

    def __init__(self, principal: Principal, address: str, password_hash: str, now_us: int) -> None:
        self.principal = principal
        self.address = address
        self.password_hash = password_hash
        self.begun_us = now_us
        self.used_us = now_us


class WebLogins:
    """All logins of the web page, lost when the broker stops."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.logins: OrderedDict[bytes, WebLogin] = OrderedDict()  # by digest of the token, the last used at the end

    def begin(self, principal: Principal, address: str) -> str:
        """The token of a new login."""
        token = secrets.token_urlsafe(TOKEN_OCTETS)
        if len(self.logins) >= LOGINS_MAX:
            self.logins.popitem(last=False)
        login = WebLogin(principal, address, self.password_hash(principal), self.app.now_us())
        self.logins[digest(token)] = login
        return token

    def principal_of(self, token: str, address: str) -> Principal | None:
        """The user that the token belongs to; None where it is nobody's, or no more."""
        key = digest(token)
        login = self.logins.get(key)
        if login is None:
            return None
        if not self.is_good(login, address):
            if login.address == address:
                del self.logins[key]
            return None
        login.used_us = self.app.now_us()
        self.logins.move_to_end(key)
        return login.principal

    def end(self, token: str) -> None:
        """The token is nobody's from now on."""
        self.logins.pop(digest(token), None)

    def is_good(self, login: WebLogin, address: str) -> bool:
        now_us = self.app.now_us()
        options = self.app.options
        principal = login.principal
        return (
            login.address == address
            and now_us - login.used_us <= options.http_login_idle_s * SECOND_US
            and now_us - login.begun_us <= options.http_login_max_s * SECOND_US
            and (principal.until_us == 0 or now_us < principal.until_us)
            and self.password_hash(principal) == login.password_hash
        )

    def password_hash(self, principal: Principal) -> str:
        """The hash that is kept of the user's password; another text where there is no such user any more."""
        if principal.authorizer is not None:
            return ""
        user = self.app.vhosts.users.by_name.get(principal.user)
        return "gone" if user is None else user.hash


def digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
