"""When records expire: by what they say themselves, and by their queue's time to live."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.message import EXPIRES
from forebay.log.block import Block
from forebay.queue.facts import Facts
from forebay.queue.limits import Limits

NEVER: Final = 1 << 62


def expiry_us(limits: Limits, facts: Facts, block: Block, index: i64) -> i64:
    """When a record expires; NEVER if it does not."""
    ttl_us = limits.ttl_us(block.base + index) if limits.earlier_ttls else limits.message_ttl_us
    own_us: i64 = -1
    if block.format(index) & EXPIRES:
        own_us = facts.expiration_us(block, index)
    if ttl_us < 0 and own_us < 0:
        return NEVER
    if ttl_us < 0 or 0 <= own_us < ttl_us:
        ttl_us = own_us
    return block.timestamp_us(index) + ttl_us


def has_expirations(block: Block) -> bool:
    """True if some record of a block says itself when it expires."""
    start = block.formats_at
    formats = block.data[start : start + block.count]
    first = formats[0]
    if formats.count(first) == len(formats):
        return first & EXPIRES != 0  # nearly always: all came alike
    for format in formats:  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
        if format & EXPIRES:
            return True
    return False
