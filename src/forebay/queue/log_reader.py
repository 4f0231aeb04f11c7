"""A group's look into its log, which halts the group where it meets what cannot be read."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.errors import DamagedBlock
from forebay.log.block import Block
from forebay.log.block_files import Damage
from forebay.log.queue_log import QueueLog


@final
class LogReader:
    """The log of one group.

    crash_end  records below it were in the queue when a broker crashed: they may have been delivered
    damage  what the group has to deliver next and cannot read: until that is over it delivers nothing
    stuck   only the next start can tell what waits in the group
    """

    def __init__(self, log: QueueLog) -> None:
        self.log = log
        self.crash_end: i64 = 0
        self.damage: Damage | None = None
        self.stuck = False

    def halt(self, error: DamagedBlock) -> None:
        """Deliver nothing any more, as this cannot be read."""
        self.damage = Damage(error.path, error.position, error.queue, error.name, error.base, error.end, error.why)

    def readable(self, offset: i64) -> Block | None:
        """The block as the log's `block` gives it; None also for what cannot be read, which halts the group."""
        try:
            return self.log.block(offset)
        except DamagedBlock as error:
            self.halt(error)
            return None

    def needed(self, offset: i64) -> Block | None:
        """The block of a record that has to be put in order: without it only the next start can do that."""
        block = self.readable(offset)
        if block is None and self.damage is not None:
            self.stuck = True
        return block

    def check_sound(self) -> None:
        """Go on if what halted the group can be read by now, or is wanted no more; else DamagedBlock."""
        damage = self.damage
        if damage is None:
            return
        if self.stuck:
            raise damage.error()
        if damage.end > self.log.start:
            self.log.block(max(i64(damage.base), self.log.start))
        self.damage = None

    def start_over(self) -> None:
        """Forget what could not be read: nobody wants it any more."""
        self.damage = None
        self.stuck = False

    def body_octets(self, first: i64, end: i64) -> i64:
        """Octets of the bodies of the records [first, end) that are in the log."""
        octets: i64 = 0
        while first < end:
            block = self.readable(first)
            if block is None or block.base >= end:
                break
            first = max(first, block.base)
            stop = min(block.end, end)
            octets += block.body_span(first - block.base, stop - first)
            first = stop
        return octets
