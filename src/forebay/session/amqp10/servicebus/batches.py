"""Batches of Azure Service Bus: one delivery whose data sections are a message each."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.decoder import value_end
from forebay.wire.amqp10.sections import DATA, data_value, octets_at, split_sections

BATCH_FORMAT: Final = 0x80013700  # message-format of such a delivery
MESSAGES_MAX: Final = 4500  # as many as Azure takes


def split_batch(payload: bytes) -> list[bytes]:
    """Return the messages of a batch. Raises PeerError(MALFORMED)."""
    found = split_sections(payload, 0, i64(len(payload)))
    if found.body_kind != DATA or found.body_count > MESSAGES_MAX:
        raise PeerError(MALFORMED, f"a batch must have 1 to {MESSAGES_MAX} data sections")
    messages: list[bytes] = []
    at = found.body_at
    for _ in range(found.body_count):
        start = data_value(payload, at)
        messages.append(octets_at(payload, start, found.footer_at))
        at = value_end(payload, start, found.footer_at)
    return messages
