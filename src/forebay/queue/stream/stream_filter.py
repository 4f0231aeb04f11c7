"""Records of a stream that a group's readers want: by routing key, by what they select, and those not expired."""

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

    selection        None: all records whose key is wanted
    looked_at        the record that was looked at last, and whether it is wanted
    has_expirations  in the block that the cursor stands in
    expired          the record that was passed over last for its age
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
        """Want only what is selected from here on."""
        self.selection = selection
        self.looked_at = -1

    def enter(self, block: Block) -> None:
        """The records asked of next are of this block."""
        self.has_expirations = marks_of(block) & EXPIRES != 0

    def may_expire(self) -> bool:
        """True if records of the block that the cursor stands in may expire."""
        limits = self.limits
        return self.has_expirations or limits.message_ttl_us >= 0 or len(limits.earlier_ttls) > 0

    def wants_all(self) -> bool:
        """True if no record of the block that the cursor stands in has to be looked at."""
        return self.selection is None and not self.key_filter.is_set and not self.may_expire()

    def run_length(self, block: Block, index: i64, most: i64, counts: Counts) -> i64:
        """Length of the run of wanted records that starts at `index`, each looked at; negative: of unwanted ones."""
        turn = self.turn
        first = self.wants(block, index, counts)
        count: i64 = 1
        while count < most and count < turn.looks and self.wants(block, index + count, counts) == first:
            count += 1
        turn.looks -= count
        return count if first else -count

    def wants(self, block: Block, index: i64, counts: Counts) -> bool:
        """True if a record is wanted."""
        if self.key_filter.is_set and not self.key_filter.wants(block, index):
            return False
        selection = self.selection
        if selection is not None:
            offset = block.base + index
            if offset != self.looked_at:  # what ends one run begins the next
                self.looked_at = offset
                self.looked_wanted = selection.wants(block, index)
                self.turn.looks -= selection.cost
            if not self.looked_wanted:
                return False
        return not self.may_expire() or not self.pass_expired(block, index, counts)

    def pass_expired(self, block: Block, index: i64, counts: Counts) -> bool:
        """True if a wanted record has expired; each that has is counted, once."""
        if expiry_us(self.limits, self.properties, block, index) >= self.turn.now_us:
            return False
        offset = block.base + index
        if offset != self.expired:
            self.expired = offset
            counts.expired += 1
        return True
