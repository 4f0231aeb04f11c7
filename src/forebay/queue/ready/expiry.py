"""The expiry of records, by their own expiration and by their queue's time to live."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.message import EXPIRES, KEYED
from forebay.log.block import Block
from forebay.queue.declaration.limits import Limits
from forebay.queue.log_reader import LogReader
from forebay.queue.properties import PropertyReader

NEVER: Final = 1 << 62
MARKS: Final = EXPIRES | KEYED


@final
class Expiry:
    """The expiry of one group's records.

    limits      the queue's limits, whose values may change at any time
    perishable  the records may expire
    head        the record last looked up by offset; `head_ttl_us` and `head_expiry_us` are its time to live and its
                expiry
    """

    def __init__(self, limits: Limits, properties: PropertyReader, reader: LogReader) -> None:
        self.limits = limits
        self.properties = properties
        self.reader = reader
        self.perishable = True
        self.head: i64 = -1
        self.head_ttl_us: i64 = -1
        self.head_expiry_us: i64 = NEVER

    def of(self, block: Block, index: i64) -> i64:
        """Return the time at which a record expires, or NEVER if it does not."""
        return expiry_us(self.limits, self.properties, block, index)

    def at(self, offset: i64) -> i64:
        """Return the time at which a record expires, as `of` does. Cache the result for the last offset."""
        if offset != self.head or self.limits.message_ttl_us != self.head_ttl_us:
            block = self.reader.readable(offset)
            if block is None or block.base > offset:
                return NEVER
            self.head = offset
            self.head_ttl_us = self.limits.message_ttl_us
            self.head_expiry_us = self.of(block, offset - block.base)
        return self.head_expiry_us

    def start_over(self) -> None:
        """Forget the cached offset, where another record stands now."""
        self.head = -1

    def stale(self, block: Block, index: i64, most: i64, now_us: i64) -> i64:
        """Return the number of consecutive expired records from `index` on, at most `most`."""
        at = index
        end = index + most
        while at < end and self.of(block, at) < now_us:
            at += 1
        return at - index

    def fresh(self, block: Block, index: i64, count: i64, now_us: i64) -> i64:
        """Return how many of `count` records from `index` on precede the next expired one.

        The first one has not expired.
        """
        formats = block.formats_at
        at = index + 1
        end = index + count
        if self.limits.earlier_ttls:
            end = min(end, self.limits.ttl_holds_to(block.base + index) - block.base)
        while at < end:
            # With one time to live, a later record expires earlier only by its own expiration.
            if i64(block.data[formats + at]) & EXPIRES and self.of(block, at) < now_us:
                break
            at += 1
        return at - index


def expiry_us(limits: Limits, properties: PropertyReader, block: Block, index: i64) -> i64:
    """Return the time at which a record expires, or NEVER if it does not."""
    ttl_us = limits.ttl_us(block.base + index) if limits.earlier_ttls else limits.message_ttl_us
    own_us: i64 = -1
    if block.format(index) & EXPIRES:
        own_us = properties.expiration_us(block, index)
    if ttl_us < 0 and own_us < 0:
        return NEVER
    if ttl_us < 0 or 0 <= own_us < ttl_us:
        ttl_us = own_us
    return block.timestamp_us(index) + ttl_us


def marks_of(block: Block) -> i64:
    """Return which of the marks EXPIRES and KEYED some record of a block has."""
    start = block.formats_at
    formats = block.data[start : start + block.count]
    first = formats[0]
    if formats.count(first) == len(formats):
        return first & MARKS  # nearly always all records are alike
    marks = 0
    for format in formats:
        marks |= format
    return marks & MARKS
