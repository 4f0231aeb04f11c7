"""The properties of a message, as a publisher's octets."""

from __future__ import annotations

from forebay.core.message import AMQP091, Properties
from forebay.wire.convert import encode


def amqp_octets(properties: Properties) -> bytes:
    """The properties as AMQP 0.9.1 has them."""
    return encode(AMQP091, properties)
