"""Settled records that an administrator has had delivered once more.

They are kept as runs, each with the annotations that mark its records on delivery. Notes in the write-ahead log are
among those of `attempts.py`:

    first, 0, count << 8 | 4   and in the next triple ms, 0, 0: delivered once more since that time
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from forebay.message.annotations import MODIFIED, annotation
from forebay.queue.leases.lease import Delivery
from forebay.queue.properties import PropertyReader
from forebay.queue.work.modified import annotated_block
from forebay.queue.work.settlement import Settlement

REDELIVERED: Final = 4  # kind of note
KIND_BITS: Final = 8
RUNS_MAX: Final = 100_000  # runs of one group, of about 100 bytes of memory each


@final
class RedeliveredRuns:
    """The runs of one group's records that are delivered once more, until they are settled again.

    runs  (first, end, time of the request in milliseconds since 1970), ascending; they do not overlap
    """

    def __init__(self, settlement: Settlement) -> None:
        self.settlement = settlement
        self.runs: list[tuple[int, int, int]] = []

    def place(self, offset: i64) -> i64:
        """Return the index of the first run that ends behind `offset`."""
        runs = self.runs
        low: i64 = 0
        high: i64 = len(runs)
        while low < high:
            middle = (low + high) // 2
            if i64(runs[middle][1]) <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    def asked_ms(self, offset: i64) -> i64:
        """Return when a record's redelivery was requested, in milliseconds since 1970; -1 if it was not."""
        at = self.place(offset)
        if at == len(self.runs) or i64(self.runs[at][0]) > offset:
            return -1
        return self.runs[at][2]

    def add(self, first: i64, end: i64, ms: i64) -> None:
        """Add a run. Its records leave the other runs."""
        kept: list[tuple[int, int, int]] = []
        at = self.place(first)
        behind = at
        while behind < len(self.runs) and i64(self.runs[behind][0]) < end:
            run_first, run_end, run_ms = self.runs[behind]
            if run_first < first:
                kept.append((run_first, int(first), run_ms))
            if run_end > end:
                kept.append((int(end), run_end, run_ms))
            behind += 1
        kept.append((int(first), int(end), int(ms)))
        kept.sort()
        self.runs[at:behind] = kept

    def has_any(self, first: i64, count: i64) -> bool:
        """Return whether any of `count` records from `first` on is a redelivery."""
        at = self.place(first)
        return at < len(self.runs) and i64(self.runs[at][0]) < first + count

    def mark(self, delivery: Delivery, offset: i64, properties: PropertyReader) -> None:
        """Mark the delivery of one record as a redelivery, if it is one."""
        ms = self.asked_ms(offset)
        if ms >= 0:
            known = annotation(delivery.block.annotations(delivery.index), MODIFIED)
            block = annotated_block(delivery.block, delivery.index, properties.with_redelivery(known, ms))
            delivery.block = block
            delivery.index = 0
            delivery.redelivered = True

    def forget_settled(self) -> None:
        """Forget the runs whose records are all settled again."""
        settlement = self.settlement
        settlement.advance()
        kept: list[tuple[int, int, int]] = []
        for run in self.runs:
            if settlement.unsettled(run[0], run[1]):
                kept.append(run)
        self.runs = kept

    def snapshot(self, out: BytesWriter) -> None:
        """Append notes of all runs."""
        self.forget_settled()
        for first, end, ms in self.runs:
            write_i64_le(out, first)
            write_i64_le(out, 0)
            write_i64_le(out, i64(end - first) << KIND_BITS | REDELIVERED)
            write_i64_le(out, ms)
            write_i64_le(out, 0)
            write_i64_le(out, 0)
