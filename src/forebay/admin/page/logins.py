"""Logins of the web page: what its cookie stands for.

The cookie is chance, and only its digest is kept. It is good for the address that logged in, and as long as the user is
there with the password of that time. The broker's own users stay logged in over its restart: the file `web-logins` of
the data folder has their logins. Users of another authority log in again: what they may do is not known here.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from hashlib import sha256
from typing import Final

import orjson

from forebay.core.errors import StorageError
from forebay.core.units import US_PER_S
from forebay.directory.logins.authorizer import Principal
from forebay.server.broker_view import BrokerView

COOKIE: Final = "forebay_session"
TOKEN_OCTETS: Final = 32
LOGINS_MAX: Final = 1000
FILE: Final = "web-logins"
logger = logging.getLogger("forebay")


class WebLogin:
    """One login; `password_digest` is of what was kept of the password then."""

    def __init__(self, principal: Principal, address: str, password_digest: str, now_us: int) -> None:
        self.principal = principal
        self.address = address
        self.password_digest = password_digest
        self.begun_us = now_us
        self.used_us = now_us

    def fields(self) -> dict[str, object]:
        """The login as the file has it."""
        principal = self.principal
        return {
            "user": principal.user,
            "tags": principal.tags,
            "until_us": principal.until_us,
            "vouched": principal.vouched,
            "address": self.address,
            "password": self.password_digest,
            "begun_us": self.begun_us,
            "used_us": self.used_us,
        }


class WebLogins:
    """All logins of the web page.

    saving  one writes the file at a time, what is newest last
    """

    def __init__(self, app: BrokerView) -> None:
        self.app = app
        self.saving = asyncio.Lock()
        self.logins: OrderedDict[bytes, WebLogin] = OrderedDict()  # by digest of the token, the last used at the end

    def begin(self, principal: Principal, address: str) -> str:
        """The token of a new login."""
        token = secrets.token_urlsafe(TOKEN_OCTETS)
        if len(self.logins) >= LOGINS_MAX:
            self.logins.popitem(last=False)
        login = WebLogin(principal, address, self.password_digest(principal), self.app.now_us())
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

    def end(self, token: str) -> bool:
        """The token is nobody's from now on; False if it was nobody's before."""
        return self.logins.pop(digest(token), None) is not None

    def is_good(self, login: WebLogin, address: str) -> bool:
        now_us = self.app.now_us()
        options = self.app.options
        principal = login.principal
        return (
            login.address == address
            and now_us - login.used_us <= options.http_login_idle_s * US_PER_S
            and now_us - login.begun_us <= options.http_login_max_s * US_PER_S
            and (principal.until_us == 0 or now_us < principal.until_us)
            and self.password_digest(principal) == login.password_digest
        )

    def password_digest(self, principal: Principal) -> str:
        """The digest of what is kept of the user's password; another text where there is no such user any more."""
        if principal.authorizer is not None:
            return ""
        user = self.app.directory.find_user(principal.user)
        return "gone" if user is None else digest(f"{user.hash} {user.exported}").hex()

    # ---- over a restart

    def load(self) -> None:
        """Take in the logins of the broker before; a file that cannot be read costs a login, and nothing else."""
        try:
            octets = self.app.folder.read(FILE)
            for key, fields in orjson.loads(octets or b"{}").items():
                self.logins[bytes.fromhex(key)] = login_of(fields)
        except (StorageError, ValueError, LookupError, TypeError, AttributeError) as error:
            logger.warning("logins of the web page are lost: %s: %s", FILE, error)

    async def save(self) -> None:
        """Have the file say which logins there are; durable on return, if there is room."""
        async with self.saving:
            kept = {
                key.hex(): login.fields() for key, login in self.logins.items() if login.principal.authorizer is None
            }
            try:
                await asyncio.to_thread(self.app.folder.write, FILE, orjson.dumps(kept))
            except StorageError as error:
                logger.warning("logins of the web page are not kept over a restart: %s", error)


def login_of(fields: dict[str, object]) -> WebLogin:
    """A login of what the file has; TypeError, LookupError where that is none."""
    user, address, password, tags = (fields[name] for name in ("user", "address", "password", "tags"))
    until_us, begun_us, used_us = (fields[name] for name in ("until_us", "begun_us", "used_us"))
    if not (isinstance(user, str) and isinstance(address, str) and isinstance(password, str)):
        raise TypeError("a login without user, address and password")
    if not (isinstance(until_us, int) and isinstance(begun_us, int) and isinstance(used_us, int)):
        raise TypeError("a login without its times")
    given = [str(tag) for tag in tags] if isinstance(tags, list) else None
    principal = Principal(user, tags=given, until_us=until_us, vouched=fields["vouched"] is True)
    login = WebLogin(principal, address, password, begun_us)
    login.used_us = used_us
    return login


def digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
