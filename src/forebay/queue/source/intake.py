"""The input filter of a view, and an index of what the view took.

A page covers 1024 consecutive offsets, with one bit per record. A page is logged once all of its records were
evaluated. The records of the last, unfinished page are evaluated again after a restart.

A note is a sequence of pages:

    0   base    i64  first offset of the page
    8   known   i64  bits 0-15: the first record that was evaluated; bits 16-17: 0 none was taken, 1 all, 2 a bitmap
    16  bitmap  128  only for a bitmap: bit i of byte j is record 8 j + i
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from librt.vecs import vec
from mypy_extensions import i64, u8

from forebay.filter.parser import Filter
from forebay.log.block import Block
from forebay.queue.counts import Counts
from forebay.queue.leases.page import PAGE_BITS, PAGE_RECORDS
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.selector import look_cost
from forebay.queue.turn import TurnShare

PAGE_OCTETS: Final = PAGE_RECORDS >> 3
HEADER_OCTETS: Final = 16
NONE_TAKEN: Final = 0
ALL_TAKEN: Final = 1
SOME_TAKEN: Final = 2
FORM_SHIFT: Final = 16
FIRST_MASK: Final = 0xFFFF


@final
class IntakePage:
    """The filter's results for the records [base, base + PAGE_RECORDS).

    first, end  indexes of the records that were evaluated
    taken       number of records that the view has
    bits        one bit per record
    """

    def __init__(self, base: i64, first: i64) -> None:
        self.base: i64 = base
        self.first: i64 = first
        self.end: i64 = first
        self.taken: i64 = 0
        self.bits = vec[u8](bytes(PAGE_OCTETS))

    def has(self, index: i64) -> bool:
        """Return whether the view has a record that was evaluated."""
        return (i64(self.bits[index >> 3]) >> (index & 7)) & 1 != 0

    def add(self, is_taken: bool) -> None:
        """Append the result for the record at `end`."""
        if is_taken:
            at = self.end >> 3
            self.bits[at] = u8(i64(self.bits[at]) | (1 << (self.end & 7)))
            self.taken += 1
        self.end += 1

    def write_to(self, out: BytesWriter) -> None:
        """Append the page to a note."""
        form: i64 = SOME_TAKEN
        if self.taken == 0:
            form = NONE_TAKEN
        elif self.taken == self.end - self.first:
            form = ALL_TAKEN
        write_i64_le(out, self.base)
        write_i64_le(out, self.first | (form << FORM_SHIFT))
        if form == SOME_TAKEN:
            out.write(bytes(self.bits))


@final
class Intake:
    """The input filter of one view.

    queue   name of the view, on which the filter may depend
    pages   results by page number, of the offsets that are still needed
    counts  counters of the view, for which each record taken is a publish
    """

    def __init__(self, filter: Filter, queue: bytes, properties: PropertyReader, counts: Counts) -> None:
        self.filter = filter
        self.queue = queue
        self.properties = properties
        self.counts = counts
        self.pages: dict[int, IntakePage] = {}
        self.finished: list[IntakePage] = []  # pages finished since the last note

    # ---- which records are taken

    def wants(self, block: Block, index: i64) -> bool:
        """Return whether the view has a record of a block."""
        return self.answer(block, index, None)

    def run_length(self, block: Block, index: i64, most: i64, turn: TurnShare) -> i64:
        """Return the length of the run that the view has at `index`, or minus the length of a run that it has not.

        At least one record is evaluated, and no more than the turn's budget allows.
        """
        first = self.answer(block, index, turn)
        count: i64 = 1
        while count < most and turn.looks > 0 and self.answer(block, index + count, turn) == first:
            count += 1
        return count if first else -count

    def answer(self, block: Block, index: i64, turn: TurnShare | None) -> bool:
        """Return whether the view has a record, from the index or else by the filter.

        The turn pays for the evaluation.
        """
        offset = block.base + index
        number = offset >> PAGE_BITS
        at = offset & (PAGE_RECORDS - 1)
        page = self.pages.get(number)
        if page is not None and page.first <= at < page.end:
            return page.has(at)
        subject = self.properties.subject(self.queue, block, index, 0, 0)
        is_taken = self.filter.matches(subject)
        looks = self.properties.looks
        cost = looks.charge(look_cost(self.filter, block.body_span(index, 1)), subject)
        if turn is not None:
            turn.looks = 0 if looks.left <= 0 else turn.looks - cost
        if page is None:
            page = IntakePage(number << PAGE_BITS, at)
            self.pages[number] = page
        if at == page.end:
            page.add(is_taken)
            if is_taken:
                self.counts.published += 1
            if page.end == PAGE_RECORDS:
                self.finished.append(page)
        return is_taken

    def leaves_out(self, first: i64, end: i64) -> bool:
        """Return whether all records of [first, end) were evaluated, and the view has none of them."""
        while first < end:
            page = self.pages.get(first >> PAGE_BITS)
            at = first & (PAGE_RECORDS - 1)
            if page is None or not page.first <= at < page.end:
                return False
            stop = min(at + end - first, page.end)
            if page.taken:
                for index in range(at, stop):
                    if page.has(index):
                        return False
            first = page.base + stop
        return True

    # ---- the write-ahead log

    def take_note(self, start: i64) -> bytes:
        """Return a note of the pages finished since the last call, and forget the pages below `start`."""
        if not self.finished:
            return b""
        self.forget(start)
        out = BytesWriter()
        for page in self.finished:
            if page.base + PAGE_RECORDS > start:
                page.write_to(out)
        self.finished = []
        return out.getvalue()

    def forget(self, start: i64) -> None:
        """Forget the pages that are wholly below `start`."""
        gone: list[int] = []
        for number in self.pages:
            if (i64(number) + 1) << PAGE_BITS <= start:
                gone.append(number)
        for number in gone:
            del self.pages[number]

    def snapshot(self, start: i64) -> bytes:
        """Return a note of all finished pages that reach above `start`."""
        self.finished = []
        self.forget(start)
        out = BytesWriter()
        for page in self.pages.values():
            if page.end == PAGE_RECORDS:
                page.write_to(out)
        return out.getvalue()

    def restore(self, note: bytes) -> None:
        """Apply what `take_note` or `snapshot` returned, in recovery."""
        at: i64 = 0
        size = i64(len(note))
        while at < size:
            base = read_i64_le(note, at)
            known = read_i64_le(note, at + 8)
            at += HEADER_OCTETS
            page = IntakePage(base, known & FIRST_MASK)
            form = known >> FORM_SHIFT
            if form == SOME_TAKEN:
                page.bits = vec[u8](note[at : at + PAGE_OCTETS])
                at += PAGE_OCTETS
                page.end = PAGE_RECORDS
                for index in range(page.first, page.end):
                    if page.has(index):
                        page.taken += 1
            else:
                while page.end < PAGE_RECORDS:
                    page.add(form == ALL_TAKEN)
            self.pages[base >> PAGE_BITS] = page
