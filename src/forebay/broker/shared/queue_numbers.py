"""The numbers of queues, of which no two vhosts have the same."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class QueueNumbers:
    """The counter that queues get their numbers from.

    next  number of the next queue
    """

    def __init__(self) -> None:
        self.next: i64 = 1

    def pass_by(self, number: i64) -> None:
        """Give no queue this number any more, or a lower one."""
        self.next = max(self.next, number + 1)
