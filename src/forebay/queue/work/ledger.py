"""Records of a log that are still wanted, where nobody consumes them: the broker's own logs.

The states, intervals and their notes are those of a work group. What was settled stays wanted until
the disk says so: a crash before that brings the record back, and it must be there then.
"""

from __future__ import annotations

from collections import deque
from typing import final

from mypy_extensions import i64

from forebay.log.queue_log import QueueLog
from forebay.log.store import Store
from forebay.queue.leases.page import RETURNED
from forebay.queue.work.settlement import Settlement


@final
class Settled:
    """The records that one turn settled, until that is on disk.

    lsn    of the frame that says so
    floor  every lower offset is settled, once it is
    """

    def __init__(self, lsn: i64, floor: i64, bounds: list[tuple[int, int]]) -> None:
        self.lsn: i64 = lsn
        self.floor: i64 = floor
        self.bounds = bounds


@final
class Ledger:
    """The records of one log that nobody has settled yet."""

    def __init__(self, log: QueueLog, store: Store) -> None:
        self.log = log
        self.store = store
        self.settling: list[tuple[int, int]] = []  # in this turn
        self.undurable: deque[Settled] = deque()
        self.settlement = Settlement(log, 0)
        self.durable_floor: i64 = 0

    def sealed(self) -> None:
        """Want everything up to the end of the log from now on."""
        settlement = self.settlement
        end = self.log.end
        # A page that is missing below the cursor counts as settled: these records need theirs.
        settlement.mark(settlement.cursor, end, RETURNED)
        settlement.cursor = end

    def settle(self, first: i64, count: i64) -> None:
        """Settle records that nobody wants any more; they must be sealed."""
        self.settlement.settle(first, first + count)
        self.settling.append((int(first), int(first + count)))

    def progress(self) -> bytes:
        """The progress since the last call, to be noted now; empty for none."""
        if not self.settling:
            return b""
        self.undurable.append(Settled(self.store.lsn, self.floor(), self.settling))
        self.settling = []
        return self.settlement.take_progress()

    def needed_from(self) -> i64:
        """Return the offset below which everything is settled, and the disk says so."""
        durable: i64 = self.store.durable
        undurable = self.undurable
        while undurable and undurable[0].lsn <= durable:
            self.durable_floor = undurable.popleft().floor
        return self.durable_floor

    def floor(self) -> i64:
        """The offset below which everything is settled."""
        return self.settlement.advance()

    def wanted(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """The intervals of [first, end) that are not settled, or not yet on disk, ascending."""
        found = self.settlement.unsettled(first, end)
        if not self.undurable:
            return found
        for settled in self.undurable:
            if settled.lsn <= self.store.durable:
                continue
            for low, high in settled.bounds:
                if low < end and high > first:
                    found.append((max(low, int(first)), min(high, int(end))))
        found.sort()
        return found

    def restore(self, progress: bytes) -> None:
        """Apply what `progress` or `snapshot` gave, in recovery."""
        self.settlement.restore(progress)

    def snapshot(self) -> bytes:
        """All that is settled, such that `restore` of it on a new ledger gives this one."""
        self.settlement.take_progress()
        return self.settlement.snapshot()
