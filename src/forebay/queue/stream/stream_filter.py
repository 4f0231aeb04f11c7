"""Filters the records of a stream for the readers of a group: by routing key, by selection, and by expiry."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.message import EXPIRES
from forebay.log.block import Block
from forebay.queue.counts import Counts
from forebay.queue.declaration.limits import Limits
from forebay.queue.key_filter import KeyFilter
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.expiry import expiry_us, marks_of
from forebay.queue.stream.stream_values import Selection
from forebay.queue.turn import TurnShare


@final
class StreamFilter:
    """The filter of the readers of one group.

    selection        the selection; None for all records whose key matches
    looked_at        offset of the record last evaluated; `looked_wanted`: whether it matched
    has_expirations  some record of the block at the cursor has an expiry
    expired          offset of the record that was last passed over for its age
    """

    def __init__(self, limits: Limits, properties: PropertyReader, key_filter: KeyFilter, turn: TurnShare) -> None:
        self.limits = limits
        self.properties = properties
        self.key_filter = key_filter
        self.turn = turn
        self.selection: Selection | None = None
        self.looked_at: i64 = -1
        self.looked_wanted = False
        self.has_expirations = False
        self.expired: i64 = -1

    def select(self, selection: Selection | None) -> None:
        """Deliver only selected records from here on."""
        self.selection = selection
        self.looked_at = -1

    def enter(self, block: Block) -> None:
        """Begin to evaluate the records of a block."""
        self.has_expirations = marks_of(block) & EXPIRES != 0

    def may_expire(self) -> bool:
        """Return whether records of the block at the cursor may expire."""
        limits = self.limits
        return self.has_expirations or limits.message_ttl_us >= 0 or len(limits.earlier_ttls) > 0

    def wants_all(self) -> bool:
        """Return whether every record of the block at the cursor matches, without evaluation."""
        return self.selection is None and not self.key_filter.is_set and not self.may_expire()

    def run_length(self, block: Block, index: i64, most: i64, counts: Counts) -> i64:
        """Return the length of the run of wanted records at `index`, or minus the length of a run of unwanted ones.

        Each record costs one look of the turn.
        """
        turn = self.turn
        first = self.wants(block, index, counts)
        count: i64 = 1
        while count < most and count < turn.looks and self.wants(block, index + count, counts) == first:
            count += 1
        turn.looks -= count
        return count if first else -count

    def wants(self, block: Block, index: i64, counts: Counts) -> bool:
        """Return whether a record matches and has not expired."""
        if self.key_filter.is_set and not self.key_filter.wants(block, index):
            return False
        selection = self.selection
        if selection is not None:
            offset = block.base + index
            if offset != self.looked_at:  # the record that ends one run begins the next
                self.looked_at = offset
                self.looked_wanted = selection.wants(block, index)
                self.turn.looks -= selection.cost
            if not self.looked_wanted:
                return False
        return not self.may_expire() or not self.pass_expired(block, index, counts)

    def pass_expired(self, block: Block, index: i64, counts: Counts) -> bool:
        """Return whether a matching record has expired. Count each expired record once."""
        if expiry_us(self.limits, self.properties, block, index) >= self.turn.now_us:
            return False
        offset = block.base + index
        if offset != self.expired:
            self.expired = offset
            counts.expired += 1
        return True
