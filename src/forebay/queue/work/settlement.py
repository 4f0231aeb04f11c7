"""The settlement of a group's records, in memory and in the write-ahead log.

Between `committed` and `cursor` each page of 1024 offsets has one state byte per record. A page whose records are all
settled is removed, so a missing page below the cursor is settled. Settlements are logged lazily, as intervals.
"""

from __future__ import annotations

from typing import final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from forebay.log.queue_log import QueueLog
from forebay.queue.leases.page import PAGE_BITS, PAGE_RECORDS, READY, RETURNED, SETTLED, Page
from forebay.queue.source.intake import Intake


@final
class Settlement:
    """The states of one group's records.

    start, committed  the first record of the group; every offset below `committed` is settled, and the log may drop it
    cursor            next offset that was never delivered
    pages             the states of the records from `committed` to the cursor, by page
    intake            the view's filter, which knows the records that the view never took: they are settled without a
                      note
    intervals         (first, end) pairs for the write-ahead log; the last, which may grow, is in the two fields below
    """

    def __init__(self, log: QueueLog, start: i64) -> None:
        self.log = log
        self.start: i64 = start
        self.committed: i64 = start
        self.cursor: i64 = start
        self.pages: dict[int, Page] = {}
        self.intake: Intake | None = None
        self.intervals = BytesWriter()
        self.interval_first: i64 = 0
        self.interval_end: i64 = 0
        self.begin(start)

    def begin(self, offset: i64) -> None:
        """Begin with everything below `offset` settled, and nothing else."""
        self.committed = offset
        self.cursor = offset
        if offset & (PAGE_RECORDS - 1):
            self.mark_settled((offset >> PAGE_BITS) << PAGE_BITS, offset)

    def start_over(self, offset: i64, gone: list[tuple[int, int]]) -> None:
        """Begin anew as `begin` does, whatever was settled and delivered before.

        gone  intervals that are about to leave the log
        """
        self.pages.clear()
        self.intervals.truncate(0)
        self.interval_first = 0
        self.interval_end = 0
        self.start = min(self.start, offset)
        self.begin(offset)
        self.settle_missing(gone)

    def settle_missing(self, gone: list[tuple[int, int]]) -> None:
        """Settle records that have left the log, or are going to: nobody holds them.

        Some may be below the cursor: the note of a later settlement may have moved the cursor past them.
        """
        committed = self.committed
        missing = self.log.missing(committed)
        for first, end in gone:
            if end > committed:
                missing.append((max(first, int(committed)), end))
        if not missing:
            return
        missing.sort()
        next = self.cursor
        for first, end in missing:
            self.mark(next, first, RETURNED)
            next = max(next, end)
        self.cursor = next
        for first, end in missing:
            self.mark_settled(first, end)
        self.advance()

    # ---- states

    def page(self, offset: i64) -> Page:
        """Return the page of a record. Create it if it is missing."""
        number = offset >> PAGE_BITS
        page = self.pages.get(number)
        if page is None:
            page = Page(number << PAGE_BITS)
            self.pages[number] = page
        return page

    def mark(self, first: i64, end: i64, state: u8) -> None:
        """Set the state of records, none of which is settled."""
        while first < end:
            page = self.page(first)
            stop = min(page.base + PAGE_RECORDS, end)
            for at in range(first - page.base, stop - page.base):
                page.states[at] = state
            first = stop

    def mark_settled(self, first: i64, end: i64) -> None:
        """Mark records settled that no consumer holds. The cursor must be behind them.

        A missing page wholly below the cursor is settled, and stays missing.
        """
        while first < end:
            number = first >> PAGE_BITS
            base = number << PAGE_BITS
            stop = base + PAGE_RECORDS
            if number in self.pages or stop > self.cursor:
                page = self.page(first)
                states = page.states
                for at in range(first - base, (min(end, stop)) - base):
                    if states[at] != SETTLED:
                        states[at] = SETTLED
                        page.left -= 1
                if page.left == 0:
                    del self.pages[number]
            first = stop

    def settle(self, first: i64, end: i64) -> None:
        """Settle records that no consumer holds, and note it for the write-ahead log."""
        self.mark_settled(first, end)
        self.note(first, end)

    def reopen(self, first: i64, end: i64) -> None:
        """Return settled records below the cursor to the ready state, as if they had been returned.

        Others stay as they are.

        Nothing is noted for the write-ahead log.
        """
        end = min(end, self.cursor)
        if first < end:
            self.start = min(self.start, first)
            self.committed = min(self.committed, first)
        while first < end:
            number = first >> PAGE_BITS
            stop = min((number + 1) << PAGE_BITS, end)
            page = self.pages.get(number)
            if page is None:  # a missing page is settled, and lies below the cursor
                page = Page(number << PAGE_BITS)
                for at in range(PAGE_RECORDS):
                    page.states[at] = SETTLED
                page.left = 0
                self.pages[number] = page
            for at in range(first - page.base, stop - page.base):
                if page.states[at] == SETTLED:
                    page.states[at] = RETURNED
                    page.left += 1
            first = stop

    def settled_in(self, page: Page, count: i64) -> None:
        """Count records of a page that its holder has marked settled. Remove the page if it has no others."""
        page.left -= count
        if page.left == 0:
            self.pages.pop(page.base >> PAGE_BITS, None)

    def state(self, offset: i64) -> u8:
        """Return the state of a record: READY from the cursor on."""
        if offset >= self.cursor:
            return READY
        page = self.pages.get(offset >> PAGE_BITS)
        return SETTLED if page is None else page.states[offset - page.base]

    def is_settled(self, offset: i64) -> bool:
        if offset >= self.cursor:
            return False
        page = self.pages.get(offset >> PAGE_BITS)
        return page is None or page.states[offset - page.base] == SETTLED

    def advance(self) -> i64:
        """Move `committed` over all settled records that follow it. Return its new value."""
        committed = self.committed
        while committed < self.cursor:
            page = self.pages.get(committed >> PAGE_BITS)
            if page is None:
                committed = ((committed >> PAGE_BITS) + 1) << PAGE_BITS
                continue
            states = page.states
            at = committed - page.base
            while at < PAGE_RECORDS and states[at] == SETTLED:
                at += 1
            committed = page.base + at
            if at < PAGE_RECORDS:
                break
        committed = min(committed, self.cursor)
        self.committed = committed
        return committed

    # ---- the write-ahead log

    def note(self, first: i64, end: i64) -> None:
        """Note a settled interval for the write-ahead log, merged with the last if they touch."""
        if first == self.interval_end:
            self.interval_end = end
            return
        if self.intake is not None and self.is_noted(self.intake, first, end):
            return
        self.cut_interval()
        self.interval_first = first
        self.interval_end = end

    def is_noted(self, intake: Intake, first: i64, end: i64) -> bool:
        """Return whether an interval needs no note of its own, as the view took nothing between it and the last one."""
        if intake.leaves_out(first, end):
            return True
        last = self.interval_end
        if last > self.interval_first and last < first and intake.leaves_out(last, first):
            self.interval_end = end
            return True
        return False

    def cut_interval(self) -> None:
        if self.interval_end > self.interval_first:
            write_i64_le(self.intervals, self.interval_first)
            write_i64_le(self.intervals, self.interval_end)
        self.interval_first = self.interval_end

    def take_progress(self) -> bytes:
        """Return the settlements since the last call, for the write-ahead log; empty if there are none."""
        self.cut_interval()
        if not len(self.intervals):
            return b""
        progress = self.intervals.getvalue()
        self.intervals.truncate(0)
        return progress

    def restore(self, progress: bytes) -> None:
        """Apply what `take_progress` or `snapshot` returned, in recovery.

        Intervals beyond the end of the log are cut off there: their records were lost with its tail.
        """
        for at in range(0, i64(len(progress)), 16):
            first = read_i64_le(progress, at)
            end = read_i64_le(progress, at + 8)
            end = min(end, self.log.end)
            first = max(first, self.committed)
            if first >= end:
                continue
            if first > self.cursor:
                # The records passed over were leased when the broker stopped: see `passed_over`.
                self.mark(self.cursor, first, RETURNED)
            self.cursor = max(self.cursor, end)
            self.mark_settled(first, end)
        self.advance()

    def snapshot(self) -> bytes:
        """Return the settled intervals: all below `committed`, then those above it."""
        out = BytesWriter()
        write_i64_le(out, 0)
        write_i64_le(out, self.advance())
        intake = self.intake
        for first, end in self.settled_above():
            if intake is not None and intake.leaves_out(first, end):
                continue  # the view's index has it
            write_i64_le(out, first)
            write_i64_le(out, end)
        return out.getvalue()

    # ---- intervals

    def passed_over(self) -> list[tuple[int, int]]:
        """Return the runs that settlements passed over, ascending. Call after the last `restore`."""
        found: list[tuple[int, int]] = []
        first: i64 = -1
        for number in sorted(self.pages):
            page = self.pages[number]
            for at in range(PAGE_RECORDS):
                offset = page.base + at
                waits = page.states[at] == RETURNED and offset < self.cursor
                if waits and first < 0:
                    first = offset
                elif not waits and first >= 0:
                    found.append((first, offset - first))
                    first = -1
            if first >= 0:
                found.append((first, page.base + PAGE_RECORDS - first))
                first = -1
        return found

    def settled_above(self) -> list[tuple[int, int]]:
        """Return the settled intervals between `committed` and `cursor`."""
        found: list[tuple[int, int]] = []
        first = self.committed
        for start, end in self.unsettled(first, self.cursor):
            if start > first:
                found.append((first, start))
            first = end
        if first < self.cursor:
            found.append((first, self.cursor))
        return found

    def unsettled(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals of [first, end) that are not settled."""
        found: list[tuple[int, int]] = []
        start: i64 = -1
        offset = max(self.committed, first)
        while offset < end:
            if offset >= self.cursor:
                if start < 0:
                    start = offset
                break
            page = self.pages.get(offset >> PAGE_BITS)
            stop = ((offset >> PAGE_BITS) + 1) << PAGE_BITS
            stop = min(stop, end)
            stop = min(stop, self.cursor)
            if page is None:
                if start >= 0:
                    found.append((start, offset))
                    start = -1
                offset = stop
                continue
            while offset < stop:
                if page.states[offset - page.base] != SETTLED:
                    if start < 0:
                        start = offset
                elif start >= 0:
                    found.append((start, offset))
                    start = -1
                offset += 1
        if start >= 0:
            found.append((start, end))
        return found
