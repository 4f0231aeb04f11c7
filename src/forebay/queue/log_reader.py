"""A group's reader of its log. A damaged block halts the group."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.core.errors import DamagedBlock
from forebay.log.block import Block
from forebay.log.block_files import Damage
from forebay.log.queue_log import QueueLog


@final
class LogReader:
    """The reader of one group's log.

    crash_end  records below it were in the queue when a broker crashed, and may have been delivered
    damage     the damaged block that the group has to deliver next; it delivers nothing until that is resolved
    stuck      only the next start of the broker can find out what waits in the group
    """

    def __init__(self, log: QueueLog) -> None:
        self.log = log
        self.crash_end: i64 = 0
        self.damage: Damage | None = None
        self.stuck = False

    def halt(self, error: DamagedBlock) -> None:
        """Halt the group at a block that cannot be read."""
        self.damage = Damage(error.path, error.position, error.queue, error.name, error.base, error.end, error.why)

    def readable(self, offset: i64) -> Block | None:
        """Return the log's `block` of an offset. Return None, and halt the group, if it cannot be read."""
        try:
            return self.log.block(offset)
        except DamagedBlock as error:
            self.halt(error)
            return None

    def needed(self, offset: i64) -> Block | None:
        """Return the block of a record to be put in order.

        If it cannot be read, the group is stuck until the next start.
        """
        block = self.readable(offset)
        if block is None and self.damage is not None:
            self.stuck = True
        return block

    def check_sound(self) -> None:
        """Resume if the damaged block can be read by now, or is needed no more. Otherwise raise DamagedBlock."""
        damage = self.damage
        if damage is None:
            return
        if self.stuck:
            raise damage.error()
        if damage.end > self.log.start:
            self.log.block(max(i64(damage.base), self.log.start))
        self.damage = None

    def start_over(self) -> None:
        """Forget the damage, as the group no longer needs the damaged block."""
        self.damage = None
        self.stuck = False

    def body_octets(self, first: i64, end: i64) -> i64:
        """Return the bytes of the bodies of the records [first, end) that are in the log."""
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
