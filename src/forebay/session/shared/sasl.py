"""SASL responses of both versions of AMQP: PLAIN (RFC 4616) has a name and a password, EXTERNAL (RFC 4422) a name."""

from __future__ import annotations

from forebay.core.errors import MALFORMED, REFUSED, PeerError, RequestError


def parse_plain(response: bytes) -> tuple[str, str]:
    """Return user and password of `[authorize as] NUL user NUL password`; acting for somebody else is refused."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise PeerError(MALFORMED, f"PLAIN response has {len(parts) - 1} NUL octets, not 2")
    user = text(parts[1])
    if parts[0] and parts[0] != parts[1]:
        raise RequestError(REFUSED, f"user '{user}' may not act for somebody else")
    return user, text(parts[2])


def parse_external(response: bytes, identity: str) -> None:
    """Refuse a client that wants to be somebody else than its certificate says."""
    if response and text(response) != identity:
        raise RequestError(REFUSED, f"user '{identity}' may not act for somebody else")


def text(octets: bytes) -> str:
    """Return a name or password as text, whatever its bytes are."""
    return octets.decode("utf-8", "surrogateescape")
