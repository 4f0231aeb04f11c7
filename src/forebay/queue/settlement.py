"""Which records of a group are settled, in memory and in the write-ahead log.

Between `committed` and `cursor` each page of 1024 offsets has one state octet a record; a page whose records are all
settled goes, so a missing page below the cursor means: settled. Settlements are logged as intervals, lazily.
"""

from __future__ import annotations

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64, u8

from forebay.log.queue_log import QueueLog
from forebay.queue.group import Group
from forebay.queue.leases import PAGE_BITS, PAGE_RECORDS, RETURNED, SETTLED, Page


class Settlement(Group):
    """The states of a group's records.

    start, committed  the first record of the group; every offset below `committed` is settled: the log may forget it
    attempts          offset -> how often it was handed out, and failed, of returned records only (see `packed`)
    failing           offset -> when it failed first, of those in `attempts`, where that is asked for
    """

    def __init__(self, id: i64, name: bytes, filter: bytes, log: QueueLog, start: i64) -> None:
        super().__init__(id, name, filter, log, start)
        self.start: i64 = start
        self.committed: i64 = start
        self.pages: dict[int, Page] = {}
        self.attempts: dict[int, int] = {}
        self.failing: dict[int, int] = {}
        self.progress = BytesWriter()  # (first, end) pairs
        self.returns = BytesWriter()  # (first, count, attempts) triples; (first, -count, us): when they failed first
        self.interval_first: i64 = 0
        self.interval_end: i64 = 0
        self.begin(start)

    def begin(self, offset: i64) -> None:
        """Everything below `offset` is settled, and nothing else: no page says anything yet."""
        self.committed = offset
        self.cursor = offset
        if offset & (PAGE_RECORDS - 1):
            self.settle_range((offset >> PAGE_BITS) << PAGE_BITS, offset)

    def start_over(self, offset: i64, gone: list[tuple[int, int]]) -> None:
        """As `begin`, whatever was settled and handed out before.

        gone  intervals that are about to be left out of the log
        """
        self.pages.clear()
        self.attempts.clear()
        self.progress.truncate(0)
        self.returns.truncate(0)
        self.interval_first = 0
        self.interval_end = 0
        self.block = None
        self.begin(offset)
        self.settle_missing(gone)

    def settle_missing(self, gone: list[tuple[int, int]]) -> None:
        """Settle what stands behind the cursor and was, or is going to be, left out of the log."""
        cursor = self.cursor
        missing = self.log.missing(cursor)
        for first, end in gone:
            if end > cursor:
                missing.append((max(first, int(cursor)), end))
        if not missing:
            return
        missing.sort()
        next = cursor
        for first, end in missing:
            self.return_range(next, first)
            next = max(next, end)
        self.cursor = next
        for first, end in missing:
            self.settle_range(first, end)
        self.advance()

    def page(self, offset: i64) -> Page:
        number = offset >> PAGE_BITS
        page = self.pages.get(number)
        if page is None:
            page = Page(number << PAGE_BITS)
            self.pages[number] = page
        return page

    def settle_range(self, first: i64, end: i64) -> None:
        """Mark records settled that were not leased; the cursor stands behind them already.

        A page wholly below the cursor that is missing is settled: it stays missing.
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

    def drop_page(self, page: Page) -> None:
        """All its records are settled."""
        self.pages.pop(page.base >> PAGE_BITS, None)

    def note(self, first: i64, end: i64) -> None:
        """Remember a settled interval for the write-ahead log, merged with the one before where they touch."""
        if first == self.interval_end:
            self.interval_end = end
            return
        self.cut_interval()
        self.interval_first = first
        self.interval_end = end

    def cut_interval(self) -> None:
        if self.interval_end > self.interval_first:
            write_i64_le(self.progress, self.interval_first)
            write_i64_le(self.progress, self.interval_end)
        self.interval_first = self.interval_end

    def advance(self) -> i64:
        """Move `committed` over all that is settled from there on; the new value."""
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

    def take_progress(self) -> bytes:
        self.cut_interval()
        if not len(self.progress):
            return b""
        progress = self.progress.getvalue()
        self.progress.truncate(0)
        return progress

    def restore(self, progress: bytes) -> None:
        """Intervals beyond the end of the log (their records were lost with the tail) are cut off there."""
        for at in range(0, i64(len(progress)), 16):
            first = read_i64_le(progress, at)
            end = read_i64_le(progress, at + 8)
            end = min(end, self.log.end)
            first = max(first, self.committed)
            if first >= end:
                continue
            if first > self.cursor:
                # What a settlement passed over was leased when the broker stopped: see `passed_over`.
                self.return_range(self.cursor, first)
            self.cursor = max(self.cursor, end)
            self.settle_range(first, end)
        self.advance()

    def return_range(self, first: i64, end: i64) -> None:
        """Offsets that an out-of-order settlement passed over wait to be leased again, in pages of states."""
        self.mark_range(first, end, RETURNED)

    def mark_range(self, first: i64, end: i64, state: u8) -> None:
        """Give records, none of which is settled, a state."""
        while first < end:
            page = self.page(first)
            stop = min(page.base + PAGE_RECORDS, end)
            for at in range(first - page.base, stop - page.base):
                page.states[at] = state
            first = stop

    def passed_over(self) -> list[tuple[int, int]]:
        """After the last `restore`: the runs that settlements passed over, ascending."""
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

    # ---- how often records were handed out

    def note_return(self, first: i64, count: i64, attempts: i64) -> None:
        """Remember for these records, which return, how often they were handed out."""
        for offset in range(first, first + count):
            self.attempts[offset] = attempts
        write_i64_le(self.returns, first)
        write_i64_le(self.returns, count)
        write_i64_le(self.returns, attempts)

    def note_failing(self, offset: i64, now_us: i64) -> i64:
        """When the record failed first: now, unless it is known to have failed before."""
        since_us = self.failing.get(offset)
        if since_us is not None:
            return since_us
        self.failing[offset] = now_us
        self.write_failing(self.returns, offset, now_us)
        return now_us

    def write_failing(self, out: BytesWriter, offset: i64, since_us: i64) -> None:
        write_i64_le(out, offset)
        write_i64_le(out, -1)
        write_i64_le(out, since_us)

    def forget_attempts(self, first: i64, count: i64) -> None:
        for offset in range(first, first + count):
            self.attempts.pop(offset, None)
        if self.failing:
            for offset in range(first, first + count):
                self.failing.pop(offset, None)

    def take_returns(self) -> bytes:
        """The returns that `note_return` was told since the last call, for the write-ahead log; empty for none."""
        if not len(self.returns):
            return b""
        returns = self.returns.getvalue()
        self.returns.truncate(0)
        return returns

    def restore_returns(self, returns: bytes) -> None:
        """Apply what `take_returns` or `attempts_snapshot` gave, in recovery."""
        for at in range(0, i64(len(returns)), 24):
            count = read_i64_le(returns, at + 8)
            value = read_i64_le(returns, at + 16)
            first = max(read_i64_le(returns, at), self.committed)
            end = min(read_i64_le(returns, at) + (count if count > 0 else -count), self.log.end)
            for offset in range(first, end):
                if count > 0:
                    self.attempts[offset] = value
                else:
                    self.failing[offset] = value

    def prune_attempts(self) -> None:
        """After the last `restore`: of what is settled nobody asks how often it was handed out."""
        kept: dict[int, int] = {}
        for offset, attempts in self.attempts.items():
            if not self.is_settled(offset):
                kept[offset] = attempts
        self.attempts = kept
        failing: dict[int, int] = {}
        for offset, since_us in self.failing.items():
            if offset in kept:
                failing[offset] = since_us
        self.failing = failing

    def is_settled(self, offset: i64) -> bool:
        if offset >= self.cursor:
            return False
        page = self.pages.get(offset >> PAGE_BITS)
        return page is None or page.states[offset - page.base] == SETTLED

    def attempts_snapshot(self) -> bytes:
        """All of `attempts` and `failing`, such that `restore_returns` of it on a new group gives the same."""
        out = BytesWriter()
        for offset in sorted(self.attempts):
            write_i64_le(out, offset)
            write_i64_le(out, 1)
            write_i64_le(out, self.attempts[offset])
        for offset in sorted(self.failing):
            self.write_failing(out, offset, self.failing[offset])
        return out.getvalue()

    # ---- the whole state

    def snapshot(self) -> bytes:
        """Settled intervals: all below `committed`, then those above it."""
        out = BytesWriter()
        write_i64_le(out, 0)
        write_i64_le(out, self.advance())
        for first, end in self.settled_above():
            write_i64_le(out, first)
            write_i64_le(out, end)
        return out.getvalue()

    def settled_above(self) -> list[tuple[int, int]]:
        """Settled intervals between `committed` and `cursor`."""
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
        """The intervals of [first, end) that are not settled."""
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
