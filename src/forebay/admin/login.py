"""Who asks."""

from __future__ import annotations

import base64
import binascii
import logging
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from forebay.broker.auth import LoginRefused
from forebay.broker.users import ADMINISTRATOR
from forebay.core.errors import REFUSED, RequestError
from forebay.server.app import App
from forebay.server.peer import peer_at

logger = logging.getLogger("forebay")


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever has logged in for one request.

    tags  of the user: administrator, monitoring, policymaker, management
    """

    user: str
    tags: frozenset[str]

    def check_administrator(self) -> None:
        """RequestError(REFUSED) for everybody else."""
        if ADMINISTRATOR not in self.tags:
            raise RequestError(REFUSED, f"user '{self.user}' lacks the tag administrator")


async def broker_of(request: Request) -> App:
    """The broker that answers."""
    app = request.app.state.broker
    assert isinstance(app, App)
    return app


async def caller_of(request: Request) -> Caller:
    """The user whose name and password the request carries; LoginRefused."""
    app = await broker_of(request)
    user, password = basic_credentials(request.headers.get("authorization", ""))
    loopback = request.client is not None and peer_at(*request.client).loopback
    try:
        name = await app.login(user, password, loopback)
    except LoginRefused as error:
        logger.info("HTTP login from %s refused: %s", request.client, error.detail)
        raise
    known = app.vhosts.users.by_name.get(name)
    return Caller(name, frozenset(known.tags if known is not None else ()))


def basic_credentials(header: str) -> tuple[str, str]:
    """Name and password of a header as RFC 7617 has it; LoginRefused where it has none."""
    scheme, _, code = header.partition(" ")
    if scheme.lower() != "basic":
        raise LoginRefused("no credentials")
    try:
        text = base64.b64decode(code, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise LoginRefused("credentials that cannot be read") from None
    user, colon, password = text.partition(":")
    if not colon:
        raise LoginRefused("credentials without a colon")
    return user, password


Broker = Annotated[App, Depends(broker_of)]
Asker = Annotated[Caller, Depends(caller_of)]
