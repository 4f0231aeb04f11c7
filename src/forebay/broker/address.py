"""Addresses of one protocol in the words of another."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.message import MQTT
from forebay.routing.topic_trie import swap_key
from forebay.wire.amqp091_properties import cut_key

QUEUE_PREFIX: Final = b"$queue/"


def amqp_address(format: i64, exchange: bytes, routing_key: bytes) -> tuple[bytes, bytes]:
    """Exchange and routing key as AMQP says them; a queue's address stays what it is, for it leads there from here."""
    if format != MQTT:
        return exchange, routing_key
    if routing_key.startswith(QUEUE_PREFIX):
        return b"", cut_key(routing_key)
    return exchange, cut_key(swap_key(routing_key))
