"""Acknowledgements of records that are not published yet: kept for a time, and applied when the records come.

Notes in the write-ahead log are among those of `attempts.py`:

    first, 0, count << 8 | 6   and in the next triple until, 0, 0: acknowledged in advance, and kept until then;
                               0: the records have come, or nobody waits for them any more
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

EARLY: Final = 6  # kind of note
KIND_BITS: Final = 8
RUNS_MAX: Final = 10_000  # runs of one group
RECORDS_MAX: Final = 1_000_000  # records of one run


@final
class EarlyAcks:
    """The early acknowledgements of one group.

    runs  (first, end, time in microseconds until which the run is kept), ascending; they do not overlap
    """

    def __init__(self) -> None:
        self.runs: list[tuple[int, int, int]] = []

    def keep(self, first: i64, end: i64, until_us: i64, notes: BytesWriter) -> bool:
        """Keep a run in place of what was kept for its records. Return False if there are too many."""
        self.remove(first, end)
        if len(self.runs) >= RUNS_MAX:
            return False
        self.runs.append((int(first), int(end), int(until_us)))
        self.runs.sort()
        write_early(notes, first, end - first, until_us)
        return True

    def remove(self, first: i64, end: i64) -> None:
        """Forget the early acknowledgements of records."""
        kept: list[tuple[int, int, int]] = []
        for low, high, until_us in self.runs:
            if low < first:
                kept.append((low, int(min(high, end if high < first else first)), until_us))
            if high > end:
                kept.append((int(max(low, end)), high, until_us))
        self.runs = [each for each in kept if each[0] < each[1]]

    def take_due(self, end: i64, now_us: i64, notes: BytesWriter) -> list[tuple[int, int]]:
        """Remove and return the runs of published records, which are below `end`. Drop the runs that have expired."""
        due: list[tuple[int, int]] = []
        for low, high, until_us in list(self.runs):
            if until_us <= now_us:
                self.remove(low, high)
                write_early(notes, low, high - low, 0)
            elif low < end:
                stop = min(i64(high), end)
                due.append((low, int(stop)))
                self.remove(low, stop)
                write_early(notes, low, stop - low, 0)
        return due

    def restore(self, first: i64, end: i64, until_us: i64) -> None:
        """Apply the note of an early acknowledgement, in recovery."""
        self.remove(first, end)
        if until_us:
            self.runs.append((int(first), int(end), int(until_us)))
            self.runs.sort()

    def snapshot(self, out: BytesWriter) -> None:
        """Append notes of all runs, for `restore`."""
        for first, end, until_us in self.runs:
            write_early(out, first, end - first, until_us)


def write_early(out: BytesWriter, first: i64, count: i64, until_us: i64) -> None:
    """Append the note of an early acknowledgement and the time until which it is kept."""
    write_i64_le(out, first)
    write_i64_le(out, 0)
    write_i64_le(out, count << KIND_BITS | EARLY)
    write_i64_le(out, until_us)
    write_i64_le(out, 0)
    write_i64_le(out, 0)
