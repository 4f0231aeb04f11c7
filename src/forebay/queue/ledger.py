"""Which records of a log are still wanted, where nobody consumes them: the broker's own logs.

The states, intervals and their notes are those of a work group without consumers.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.log.queue_log import QueueLog
from forebay.queue.work_group import WorkGroup


@final
class Ledger:
    """The records of one log that nobody has settled yet."""

    def __init__(self, log: QueueLog) -> None:
        self.log = log
        self.group = WorkGroup(1, b"", b"", log, 0, 0)

    def sealed(self) -> None:
        """Everything up to the end of the log is wanted from now on."""
        group = self.group
        end = self.log.end
        # A page that is missing below the cursor counts as settled: these records need theirs.
        group.return_range(group.cursor, end)
        group.cursor = end

    def settle(self, first: i64, count: i64) -> None:
        """Nobody wants these any more; they must be sealed."""
        self.group.settle_range(first, first + count)
        self.group.note(first, first + count)

    def progress(self) -> bytes:
        """What was settled since the last call, for the write-ahead log; empty for nothing."""
        return self.group.take_progress()

    def floor(self) -> i64:
        """Every lower offset is settled."""
        return self.group.advance()

    def wanted(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """The intervals of [first, end) that are not settled."""
        return self.group.unsettled(first, end)

    def restore(self, progress: bytes) -> None:
        """Apply what `progress` or `snapshot` gave, in recovery."""
        self.group.restore(progress)

    def snapshot(self) -> bytes:
        """All that is settled, such that `restore` of it on a new ledger gives this one."""
        self.group.take_progress()
        return self.group.snapshot()
