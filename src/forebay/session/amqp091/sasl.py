"""SASL responses of AMQP 0.9.1: AMQPLAIN, and what other versions have as well (session/shared/sasl.py)."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import MALFORMED, PeerError
from forebay.session.shared.sasl import parse_plain
from forebay.wire.amqp091.codec import Reader

MECHANISMS: Final = b"PLAIN AMQPLAIN"
EXTERNAL: Final = b"EXTERNAL"  # for clients that their certificate names


def parse_response(mechanism: bytes, response: bytes) -> tuple[str, str]:
    """User and password; PeerError where there are none, RequestError(REFUSED) where they are not acceptable."""
    if mechanism == b"PLAIN":
        return parse_plain(response)
    assert mechanism == b"AMQPLAIN"
    return parse_amqplain(response)


def parse_amqplain(response: bytes) -> tuple[str, str]:
    """A field table without its length, with the fields LOGIN and PASSWORD."""
    octets = len(response).to_bytes(4, "big") + response
    fields = Reader(octets, 0, len(octets), 2).table()
    user = fields.get("LOGIN")
    password = fields.get("PASSWORD")
    if not isinstance(user, str) or not isinstance(password, str):
        raise PeerError(MALFORMED, "AMQPLAIN response lacks the texts LOGIN and PASSWORD")
    return user, password
