"""Counts the deliveries and failures of returned records, in memory and in the write-ahead log.

Beside the counts are the annotations that consumers gave these records (`modified.py`).

Notes in the log are triples of i64:

    first, count, attempts     records returned, after so many attempts (see `FAILURE`)
    first, -count, us          time of their first failure
    first, 0, count << 8 | 1   and in the next triple due, 0, 0: delayed until then
    offset, 0, 1 << 8 | 5      and in the next triple count, 0, 0: how often consumers have given the record back

The notes of `redelivered.py` and `early_acks.py` are among them.

A reader skips other values of the third number beside a count of 0, with the triple that follows.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from forebay.queue.work.early_acks import EARLY, EarlyAcks
from forebay.queue.work.modified import FIRST_PART, NEXT_PART, NOTE_BYTES, ModifiedRecords
from forebay.queue.work.redelivered import REDELIVERED, RedeliveredRuns
from forebay.queue.work.settlement import Settlement

FAILURE: Final = 1 << 32  # failures are in the bits above the count of deliveries
TRIPLE: Final = 24  # bytes
DELAY: Final = 1  # kind of note: the lowest byte of a third number beside a count of 0
CANCELS: Final = 5  # kinds 2 to 4 are those of `modified.py` and `redelivered.py`
KIND_BITS: Final = 8


@final
class Attempts:
    """The attempts at one group's records. Records that never came back are not in here.

    by_offset  by offset: how often the record was delivered and failed (see `FAILURE`), until it is settled
    cancels    by offset: how often consumers gave the record back, if that is limited
    failing    by offset: time of the record's first failure, if a limit needs it
    due        by offset: time from which the record may be delivered again, in recovery only, see `take_delays`
    modified   annotations of records, most of them in `by_offset`
    redelivered  settled records that are delivered once more
    early      acknowledgements of records that are not published yet
    notes      notes for the write-ahead log
    """

    def __init__(self, settlement: Settlement) -> None:
        self.settlement = settlement
        self.by_offset: dict[int, int] = {}
        self.cancels: dict[int, int] = {}
        self.failing: dict[int, int] = {}
        self.due: dict[int, int] = {}
        self.modified = ModifiedRecords()
        self.redelivered = RedeliveredRuns(settlement)
        self.early = EarlyAcks()
        self.notes = BytesWriter()

    def of(self, offset: i64) -> i64:
        """Return the number of times that a record was delivered and failed (see `FAILURE`)."""
        return self.by_offset.get(offset, 0)

    def note(self, first: i64, count: i64, attempts: i64) -> None:
        """Record the attempts of returned records."""
        for offset in range(first, first + count):
            self.by_offset[offset] = attempts
        write_i64_le(self.notes, first)
        write_i64_le(self.notes, count)
        write_i64_le(self.notes, attempts)

    def note_cancel(self, offset: i64) -> i64:
        """Count that a consumer gives a record back. Return how often that was by now."""
        count: i64 = self.cancels.get(offset, 0) + 1
        self.cancels[offset] = count
        write_cancels(self.notes, offset, count)
        return count

    def note_failing(self, offset: i64, now_us: i64) -> i64:
        """Return the time of a record's first failure. Record `now_us` if it has none yet."""
        since_us = self.failing.get(offset)
        if since_us is not None:
            return since_us
        self.failing[offset] = now_us
        write_failing(self.notes, offset, now_us)
        return now_us

    def note_delay(self, first: i64, count: i64, due_us: i64) -> None:
        """Log that records, whose attempts are noted, wait until `due_us`."""
        write_delay(self.notes, first, count, due_us)

    def forget(self, first: i64, count: i64) -> None:
        """Forget the attempts and annotations of settled records."""
        self.forget_counts(first, count)
        self.forget_modified(first, count)

    def forget_counts(self, first: i64, count: i64) -> None:
        """Forget the attempts of records, but not their annotations."""
        for offset in range(first, first + count):
            self.by_offset.pop(offset, None)
        if self.failing:
            for offset in range(first, first + count):
                self.failing.pop(offset, None)
        if self.cancels:
            for offset in range(first, first + count):
                self.cancels.pop(offset, None)

    def modify(self, offset: i64, annotations: bytes) -> bool:
        """Keep the annotations of a record that is about to come back; see `ModifiedRecords.keep`."""
        return self.modified.keep(offset, annotations, self.notes)

    def forget_modified(self, first: i64, count: i64) -> None:
        """Forget the annotations of settled records."""
        if self.modified.by_offset:
            for offset in range(first, first + count):
                self.modified.forget(offset)

    def start_over(self) -> None:
        """Forget all attempts, as nothing was delivered yet."""
        self.by_offset.clear()
        self.cancels.clear()
        self.due.clear()
        self.modified.clear()
        self.redelivered.runs.clear()
        self.early.runs.clear()
        self.notes.truncate(0)

    def take_notes(self) -> bytes:
        """Return the notes since the last call, for the write-ahead log; empty if there are none."""
        if not len(self.notes):
            return b""
        notes = self.notes.getvalue()
        self.notes.truncate(0)
        return notes

    def restore(self, notes: bytes) -> None:
        """Apply what `take_notes` or `snapshot` returned, in recovery."""
        settlement = self.settlement
        at: i64 = 0
        while at < i64(len(notes)):
            count = read_i64_le(notes, at + 8)
            value = read_i64_le(notes, at + 16)
            kind = value & ((1 << KIND_BITS) - 1)
            if count == 0 and kind in (FIRST_PART, NEXT_PART):
                offset = read_i64_le(notes, at)
                at += TRIPLE
                if settlement.committed <= offset < settlement.log.end:
                    self.modified.restore(offset, kind, notes[at : at + min(value >> KIND_BITS, NOTE_BYTES)])
                at += TRIPLE
                continue
            if count == 0 and kind == EARLY:
                first = read_i64_le(notes, at)
                self.early.restore(first, first + (value >> KIND_BITS), read_i64_le(notes, at + TRIPLE))
                at += TRIPLE + TRIPLE
                continue
            is_delay = count == 0 and kind == DELAY
            is_redelivery = count == 0 and kind == REDELIVERED
            is_cancel = count == 0 and kind == CANCELS
            has_length = is_delay or is_redelivery or is_cancel
            length = count if count > 0 else value >> KIND_BITS if has_length else -count
            first = max(read_i64_le(notes, at), settlement.committed)
            end = min(read_i64_le(notes, at) + length, settlement.log.end)
            at += TRIPLE
            if count == 0:
                value = read_i64_le(notes, at)
                at += TRIPLE
            if is_redelivery and first < end:
                self.redelivered.add(first, end, value)
                continue
            for offset in range(first, end):
                if count > 0:
                    self.by_offset[offset] = value
                    if self.due:
                        self.due.pop(offset, None)  # the delay of an earlier return
                elif is_delay:
                    self.due[offset] = value
                elif is_cancel:
                    self.cancels[offset] = value
                else:
                    self.failing[offset] = value

    def take_delays(self) -> list[tuple[int, int, int]]:
        """Return the delayed runs as (due, first, count), and forget the delays. Call after `prune`."""
        runs: list[tuple[int, int, int]] = []
        for offset in sorted(self.due):
            due_us = self.due[offset]
            last = runs[len(runs) - 1] if runs else (0, 0, 0)
            if last[0] == due_us and last[1] + last[2] == offset:
                runs[len(runs) - 1] = (due_us, last[1], last[2] + 1)
            else:
                runs.append((due_us, offset, 1))
        self.due.clear()
        return runs

    def prune(self) -> None:
        """Forget the attempts of settled records. Call after the last `restore`."""
        kept: dict[int, int] = {}
        for offset, attempts in self.by_offset.items():
            if not self.settlement.is_settled(offset):
                kept[offset] = attempts
        self.by_offset = kept
        self.modified.prune(kept)
        failing: dict[int, int] = {}
        for offset, since_us in self.failing.items():
            if offset in kept:
                failing[offset] = since_us
        self.failing = failing
        cancels: dict[int, int] = {}
        for offset, times in self.cancels.items():
            if not self.settlement.is_settled(offset):
                cancels[offset] = times
        self.cancels = cancels
        due: dict[int, int] = {}
        for offset, due_us in self.due.items():
            if offset in kept:
                due[offset] = due_us
        self.due = due

    def snapshot(self, delays: list[tuple[int, int, int]]) -> bytes:
        """Return all attempts. Restored on new ones, they give the same state.

        delays  delayed runs, as (due, first, count)
        """
        out = BytesWriter()
        for offset in sorted(self.by_offset):
            write_i64_le(out, offset)
            write_i64_le(out, 1)
            write_i64_le(out, self.by_offset[offset])
        for offset in sorted(self.failing):
            write_failing(out, offset, self.failing[offset])
        for offset in sorted(self.cancels):
            write_cancels(out, offset, self.cancels[offset])
        for due_us, first, count in delays:
            write_delay(out, first, count, due_us)
        self.modified.snapshot(out)
        self.early.snapshot(out)
        self.redelivered.snapshot(out)
        return out.getvalue()


def write_failing(out: BytesWriter, offset: i64, since_us: i64) -> None:
    """Append the note of a record's first failure."""
    write_i64_le(out, offset)
    write_i64_le(out, -1)
    write_i64_le(out, since_us)


def write_cancels(out: BytesWriter, offset: i64, count: i64) -> None:
    """Append the note of how often consumers have given a record back."""
    write_i64_le(out, offset)
    write_i64_le(out, 0)
    write_i64_le(out, 1 << KIND_BITS | CANCELS)
    write_i64_le(out, count)
    write_i64_le(out, 0)
    write_i64_le(out, 0)


def write_delay(out: BytesWriter, first: i64, count: i64, due_us: i64) -> None:
    """Append the note of records' delay."""
    write_i64_le(out, first)
    write_i64_le(out, 0)
    write_i64_le(out, count << KIND_BITS | DELAY)
    write_i64_le(out, due_us)
    write_i64_le(out, 0)
    write_i64_le(out, 0)


def deliveries_in(attempts: i64) -> i64:
    """Return the number of deliveries in a record's `attempts`."""
    return attempts & (FAILURE - 1)


def failures_in(attempts: i64) -> i64:
    """Return the number of failures in a record's `attempts`."""
    return attempts // FAILURE
