"""A reader that waits until one of some queues has more than it knows of."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class Watch:
    """The queues, and how far each was known, that one connection waits for.

    until_us  when it has waited for long enough
    after     by queue number: the end that the reader knows
    woken     it is over: its connection has been told to look
    """

    def __init__(self, session_id: i64, until_us: i64) -> None:
        self.session_id: i64 = session_id
        self.until_us: i64 = until_us
        self.after: dict[int, int] = {}
        self.woken = False

    def is_over(self, queue: i64, end: i64) -> bool:
        """True if this queue, read up to `end` now, ends the wait."""
        return end > self.after[int(queue)]
