"""The mechanisms of SASL that AMQP 1.0 clients may log in by."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import MALFORMED, PeerError
from forebay.directory.logins.login import Auth, LoginContext
from forebay.session.shared.sasl import text

PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"
XOAUTH2: Final = "XOAUTH2"
ANONYMOUS: Final = "ANONYMOUS"
MSSBCBS: Final = "MSSBCBS"  # Azure's: who the client is, it says to the node $cbs
GUEST: Final = "guest"  # the user that a client without a name is
SEPARATOR: Final = b"\x01"


def offered_mechanisms(auth: Auth, context: LoginContext) -> list[str]:
    """Return the mechanisms for a client, the strongest first: some clients take the first that they know."""
    offered = [EXTERNAL] if context.certificate else []
    offered += sorted(auth.mechanisms, reverse=True)
    offered += [PLAIN, XOAUTH2]
    takes_claims = auth.takes_claims()
    if takes_claims:
        offered.append(MSSBCBS)
    if takes_claims or auth.knows(GUEST):
        offered.append(ANONYMOUS)
    return offered


def parse_token(response: bytes) -> tuple[str, str]:
    """Return user and token of `user=NAME 0x01 auth=Bearer TOKEN 0x01 0x01`."""
    user = token = b""
    for part in response.split(SEPARATOR):
        if part.startswith(b"user="):
            user = part[5:]
        elif part.startswith(b"auth=Bearer "):
            token = part[12:]
    if not token:
        raise PeerError(MALFORMED, "XOAUTH2 response has no 'auth=Bearer TOKEN'")
    return text(user), text(token)
