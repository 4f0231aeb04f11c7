"""Fetches with a filter: of the records of a range only those for which it holds leave the broker.

Looking at records is work for the one thread that everybody waits for, so it is measured: a request does no more than
WORK_A_REQUEST and says how far it came, and all requests of one pass over the connections together no more than
WORK_A_TURN; what comes later waits for the next turn.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i64_le
from mypy_extensions import i64

from forebay.filter.parser import Filter, parse
from forebay.log.block import Block, BlockWriter
from forebay.log.columns.parts import part_of
from forebay.log.queue_log import QueueLog
from forebay.message.subject import RecordSubject
from forebay.wire.blocks.frames import WHOLE_BLOCKS

# A unit of work is about 0.1 microseconds.
WORK_A_RECORD: Final = 8
WORK_OCTETS: Final = 64  # of a body to be parsed, for one unit
WORK_A_REQUEST: Final = 1 << 14
WORK_A_TURN: Final = 1 << 15
READ_OCTETS: Final = 8 << 20  # of the blocks that one request looks into


@final
class Picking:
    """The selection by which one connection has fetched last.

    work   that the last request took
    next   where the last request came to
    block  the one it ended in, of the log of that number: the next request goes on there
    """

    def __init__(self) -> None:
        self.filter: Filter | None = None
        self.text = ""
        self.work: i64 = 0
        self.next: i64 = 0
        self.block: Block | None = None
        self.log: i64 = 0

    def pick(
        self,
        log: QueueLog,
        name: bytes,
        text: str,
        first: i64,
        end: i64,
        octets_max: i64,
        now_us: i64,
        columns: i64 = WHOLE_BLOCKS,
    ) -> list[bytes]:
        """A block of matching records of [first, end) and their offsets, in pieces; none if there are none.

        name     of the queue
        columns  those that the block is to have; WHOLE_BLOCKS for all, with a head of its own
        raises  RequestError(INVALID) where the text is no filter, StorageError
        """
        filter = self.parsed(text)
        picked = BlockWriter()
        offsets = BytesWriter()
        self.work = 0
        self.next = max(first, min(log.kept, end))
        octets: i64 = 0
        base: i64 = 0
        while self.next < end and self.work < WORK_A_REQUEST and octets < READ_OCTETS:
            block = self.block_at(log, self.next)
            if block is None or block.base >= end:
                self.next = end
                break
            octets += block.octets()
            self.next = max(self.next, block.base)
            if picked.count == 0:
                base = self.next
            self.look_through(name, filter, block, min(end, block.end), now_us, picked, offsets)
            if picked.octets() > octets_max:
                break
        if picked.count == 0:
            return []
        made = picked.seal(base, 0, True)
        found = [made.head, *made.parts()] if columns == WHOLE_BLOCKS else part_of(made, columns).parts
        return [*found, offsets.getvalue()]

    def look_through(
        self,
        name: bytes,
        filter: Filter,
        block: Block,
        end: i64,
        now_us: i64,
        picked: BlockWriter,
        offsets: BytesWriter,
    ) -> None:
        """Take what matches from `next` on, as far as the request may go in this block."""
        at = self.next - block.base
        stop = end - block.base
        run: i64 = 0  # matching records before `at`, not taken yet
        a_record = WORK_A_RECORD + filter.size
        while at < stop and self.work < WORK_A_REQUEST:
            self.work += a_record
            if filter.asks_body:
                self.work += block.body_span(at, 1) // WORK_OCTETS
            if filter.matches(RecordSubject(name, block, at, now_us)):
                write_i64_le(offsets, block.base + at)
                run += 1
            elif run:
                picked.append_range(block, at - run, run)
                run = 0
            at += 1
        if run:
            picked.append_range(block, at - run, run)
        self.next = block.base + at

    def block_at(self, log: QueueLog, offset: i64) -> Block | None:
        """The block that holds the first record from `offset` on; one is looked through in several requests."""
        block = self.block
        if block is None or self.log != log.queue or not (block.base <= offset < block.end) or offset < log.kept:
            block = log.kept_block(offset)
            self.block = block
            self.log = log.queue
        return block

    def parsed(self, text: str) -> Filter:
        known = self.filter
        if known is None or text != self.text:
            known = parse(text)
            self.filter = known
            self.text = text
        return known
