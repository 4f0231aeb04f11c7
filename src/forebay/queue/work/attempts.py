"""Deliveries and failures of the records that came back, counted in memory and in the write-ahead log."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from forebay.queue.work.settlement import Settlement

FAILURE: Final = 1 << 32  # failures are counted above the times delivered


@final
class Attempts:
    """The attempts at one group's records; one that never came back is not in here.

    by_offset  offset -> how often it was delivered, and failed (see `FAILURE`), until it is settled
    failing    offset -> when it failed first, of those in `by_offset`, where that is asked for
    notes      (first, count, attempts) triples; (first, -count, us): when they failed first
    """

    def __init__(self, settlement: Settlement) -> None:
        self.settlement = settlement
        self.by_offset: dict[int, int] = {}
        self.failing: dict[int, int] = {}
        self.notes = BytesWriter()

    def of(self, offset: i64) -> i64:
        """The number of times that a record was delivered, and that it failed."""
        return self.by_offset.get(offset, 0)

    def note(self, first: i64, count: i64, attempts: i64) -> None:
        """Remember for these records, which return, how often they were delivered."""
        for offset in range(first, first + count):
            self.by_offset[offset] = attempts
        write_i64_le(self.notes, first)
        write_i64_le(self.notes, count)
        write_i64_le(self.notes, attempts)

    def note_failing(self, offset: i64, now_us: i64) -> i64:
        """The time at which the record failed first: now, unless it is known to have failed before."""
        since_us = self.failing.get(offset)
        if since_us is not None:
            return since_us
        self.failing[offset] = now_us
        write_failing(self.notes, offset, now_us)
        return now_us

    def forget(self, first: i64, count: i64) -> None:
        """Forget the attempts of records that are settled."""
        for offset in range(first, first + count):
            self.by_offset.pop(offset, None)
        if self.failing:
            for offset in range(first, first + count):
                self.failing.pop(offset, None)

    def start_over(self) -> None:
        """Forget all attempts: nothing was delivered yet."""
        self.by_offset.clear()
        self.notes.truncate(0)

    def take_notes(self) -> bytes:
        """The notes since the last call, for the write-ahead log; empty for none."""
        if not len(self.notes):
            return b""
        notes = self.notes.getvalue()
        self.notes.truncate(0)
        return notes

    def restore(self, notes: bytes) -> None:
        """Apply what `take_notes` or `snapshot` gave, in recovery."""
        settlement = self.settlement
        for at in range(0, i64(len(notes)), 24):
            count = read_i64_le(notes, at + 8)
            value = read_i64_le(notes, at + 16)
            first = max(read_i64_le(notes, at), settlement.committed)
            end = min(read_i64_le(notes, at) + (count if count > 0 else -count), settlement.log.end)
            for offset in range(first, end):
                if count > 0:
                    self.by_offset[offset] = value
                else:
                    self.failing[offset] = value

    def prune(self) -> None:
        """Forget the attempts of what is settled, after the last `restore`."""
        kept: dict[int, int] = {}
        for offset, attempts in self.by_offset.items():
            if not self.settlement.is_settled(offset):
                kept[offset] = attempts
        self.by_offset = kept
        failing: dict[int, int] = {}
        for offset, since_us in self.failing.items():
            if offset in kept:
                failing[offset] = since_us
        self.failing = failing

    def snapshot(self) -> bytes:
        """All attempts, such that `restore` of them on new ones gives the same."""
        out = BytesWriter()
        for offset in sorted(self.by_offset):
            write_i64_le(out, offset)
            write_i64_le(out, 1)
            write_i64_le(out, self.by_offset[offset])
        for offset in sorted(self.failing):
            write_failing(out, offset, self.failing[offset])
        return out.getvalue()


def write_failing(out: BytesWriter, offset: i64, since_us: i64) -> None:
    """Note when a record failed first."""
    write_i64_le(out, offset)
    write_i64_le(out, -1)
    write_i64_le(out, since_us)


def deliveries_in(attempts: i64) -> i64:
    """The number of times that a record was delivered."""
    return attempts & (FAILURE - 1)


def failures_in(attempts: i64) -> i64:
    """The number of times that a record failed."""
    return attempts // FAILURE
