"""Settled records that a queue keeps in its log, so that they can be delivered again."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.log.queue_log import QueueLog
from forebay.queue.declaration.limits import Limits
from forebay.queue.source.reader import SourceReader


@final
class RetainedRecords(SourceReader):
    """The settled records that a queue retains in its log, by `x-retain` and its like.

    floor  no record from here on is removed; it rises with time and with new records
    """

    def __init__(self, log: QueueLog) -> None:
        self.log = log
        self.floor: i64 = 0

    def needed_from(self) -> i64:
        return max(self.floor, self.log.start)

    def needed(self, first: i64, end: i64) -> list[tuple[int, int]]:
        first = max(first, self.needed_from())
        return [(int(first), int(end))] if first < end else []

    def apply_limits(self, limits: Limits, now_us: i64) -> bool:
        """Release what is over the queue's retention limits. Return whether that is more than before."""
        floor = self.log.retention_floor(
            now_us, limits.retain_age_us, limits.retain_octets, limits.retain_messages, self.needed_from()
        )
        if floor <= self.floor:
            return False
        self.floor = floor
        return True
