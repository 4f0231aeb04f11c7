"""A reader that waits until one of several queues has more records than the reader knows of."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class Watch:
    """The queues that one connection waits for, and how far it knows each.

    until_us  time at which the wait times out
    after     end of each queue as known to the reader, by queue number
    woken     the wait is over, and its connection was notified
    """

    def __init__(self, session_id: i64, until_us: i64) -> None:
        self.session_id: i64 = session_id
        self.until_us: i64 = until_us
        self.after: dict[int, int] = {}
        self.woken = False

    def is_over(self, queue: i64, end: i64) -> bool:
        """Return whether this queue, which ends at `end` now, ends the wait."""
        return end > self.after[int(queue)]
