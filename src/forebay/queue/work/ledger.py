"""Records of the broker's own logs that are still needed, without consumers.

The states, intervals and notes are those of a work group. Settled records stay until their settlement is on disk: a
crash before that brings a record back, and the log must still have it.
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
    """The records that one turn settled, until their settlement is on disk.

    lsn    LSN of the frame that notes their settlement
    floor  every lower offset is settled once the frame is on disk
    bounds  intervals of the records
    """

    def __init__(self, lsn: i64, floor: i64, bounds: list[tuple[int, int]]) -> None:
        self.lsn: i64 = lsn
        self.floor: i64 = floor
        self.bounds = bounds


@final
class Ledger:
    """The unsettled records of one log."""

    def __init__(self, log: QueueLog, store: Store) -> None:
        self.log = log
        self.store = store
        self.settling: list[tuple[int, int]] = []  # intervals settled in this turn
        self.undurable: deque[Settled] = deque()
        self.settlement = Settlement(log, 0)
        self.durable_floor: i64 = 0

    def sealed(self) -> None:
        """Make everything up to the end of the log needed from now on."""
        settlement = self.settlement
        end = self.log.end
        # A missing page below the cursor counts as settled, so these records need theirs.
        settlement.mark(settlement.cursor, end, RETURNED)
        settlement.cursor = end

    def settle(self, first: i64, count: i64) -> None:
        """Settle records. They must be sealed."""
        self.settlement.settle(first, first + count)
        self.settling.append((int(first), int(first + count)))

    def progress(self) -> bytes:
        """Return the progress since the last call, to be noted now; empty if there is none."""
        if not self.settling:
            return b""
        self.undurable.append(Settled(self.store.lsn, self.floor(), self.settling))
        self.settling = []
        return self.settlement.take_progress()

    def needed_from(self) -> i64:
        """Return the offset below which everything is settled and the disk has the notes of it."""
        durable: i64 = self.store.durable
        undurable = self.undurable
        while undurable and undurable[0].lsn <= durable:
            self.durable_floor = undurable.popleft().floor
        return self.durable_floor

    def floor(self) -> i64:
        """Return the offset below which everything is settled."""
        return self.settlement.advance()

    def wanted(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals of [first, end) that are not settled, or not yet settled on disk, ascending."""
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
        """Apply what `progress` or `snapshot` returned, in recovery."""
        self.settlement.restore(progress)

    def snapshot(self) -> bytes:
        """Return all that is settled. Restored on a new ledger, it gives the same state."""
        self.settlement.take_progress()
        return self.settlement.snapshot()
