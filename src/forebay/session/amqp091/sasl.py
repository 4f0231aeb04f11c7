"""SASL responses: PLAIN (RFC 4616) and AMQPLAIN carry a name and a password, EXTERNAL (RFC 4422) at most a name."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import MALFORMED, REFUSED, PeerError, RequestError
from forebay.wire.amqp091.codec import Reader

MECHANISMS: Final = b"PLAIN AMQPLAIN"
EXTERNAL: Final = b"EXTERNAL"  # for clients that their certificate names


def parse_response(mechanism: bytes, response: bytes) -> tuple[str, str]:
    """User and password; PeerError where there are none, RequestError(REFUSED) where they are not acceptable."""
    if mechanism == b"PLAIN":
        return parse_plain(response)
    assert mechanism == b"AMQPLAIN"
    return parse_amqplain(response)


def parse_plain(response: bytes) -> tuple[str, str]:
    """`[authorize as] NUL user NUL password`; acting for somebody else is refused."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise PeerError(MALFORMED, f"PLAIN response has {len(parts) - 1} NUL octets, not 2")
    user = text(parts[1])
    if parts[0] and parts[0] != parts[1]:
        raise RequestError(REFUSED, f"user '{user}' may not act for somebody else")
    return user, text(parts[2])


def parse_external(response: bytes, identity: str) -> None:
    """RequestError(REFUSED) where the client wants to be somebody else than its certificate says."""
    if response and text(response) != identity:
        raise RequestError(REFUSED, f"user '{identity}' may not act for somebody else")


def parse_amqplain(response: bytes) -> tuple[str, str]:
    """A field table without its length, with the fields LOGIN and PASSWORD."""
    octets = len(response).to_bytes(4, "big") + response
    fields = Reader(octets, 0, len(octets), 2).table()
    user = fields.get("LOGIN")
    password = fields.get("PASSWORD")
    if not isinstance(user, str) or not isinstance(password, str):
        raise PeerError(MALFORMED, "AMQPLAIN response lacks the texts LOGIN and PASSWORD")
    return user, password


def text(octets: bytes) -> str:
    return octets.decode("utf-8", "surrogateescape")
