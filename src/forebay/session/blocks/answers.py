"""The answer to one fetch: whole blocks, parts of them, or records that a filter has picked.

What it needs is a log and nothing else, so that a node that does not lead answers as the one that does.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_le
from mypy_extensions import i64

from forebay.core.errors import UnreadableFile
from forebay.log.block import Block, make_head
from forebay.log.queue_log import QueueLog, Stretch
from forebay.session.blocks.picking import Picking
from forebay.session.session import FilePart
from forebay.wire.blocks.frames import (
    BLOCKS,
    BLOCKS_OCTETS_MAX,
    FETCH_OCTETS_MAX,
    PICKED,
    WHOLE_BLOCKS,
    Request,
    encode_blocks_head,
)

FILE_OCTETS_MIN: Final = 256 << 10  # less is not worth the way over another thread
OCTETS_A_WORK: Final = 256  # that are read and checked, for one unit of work
WORK_A_BLOCK: Final = 64
WORK_A_REQUEST: Final = 1 << 15  # 8 MiB of columns, or half a thousand heads


@final
class BlocksAnswer:
    """One frame to be sent.

    head    its first octets
    parts   what follows
    file    what follows instead
    octets  of blocks
    work    what it has cost (picking.py)
    """

    def __init__(self, log: QueueLog, next: i64, octets: i64, kind: int = BLOCKS) -> None:
        assert octets <= BLOCKS_OCTETS_MAX
        self.head = encode_blocks_head(int(next), int(log.kept), int(octets), kind)
        self.parts: list[bytes] = []
        self.file: FilePart | None = None
        self.octets: i64 = octets
        self.work: i64 = 0


@final
class Projection:
    """The parts of blocks of an answer whose request names columns: the others do not leave the broker.

    Of a block in a segment only these are read, and checked. Reading is work for the one thread that everybody waits
    for, so it is measured as that of filters is (picking.py).

    next  where to fetch on
    work  that they took
    """

    def __init__(self, log: QueueLog, first: i64, end: i64, octets_max: i64, columns: i64) -> None:
        self.parts: list[bytes] = []
        self.octets: i64 = 0
        self.work: i64 = 0
        offset = first
        while offset < end and self.work < WORK_A_REQUEST and self.octets < octets_max:
            part = log.kept_part(offset, columns)
            if part is None or part.base >= end:
                offset = end
                break
            self.work += WORK_A_BLOCK + part.read_octets // OCTETS_A_WORK
            self.parts += part.parts
            self.octets += part.octets
            offset = part.end
        self.next: i64 = max(first, offset)


def is_work(request: Request) -> bool:
    """True of a fetch that has octets looked at, and not only sent."""
    return bool(request.filter) or request.columns != WHOLE_BLOCKS


def answer_fetch(
    log: QueueLog,
    name: bytes,
    request: Request,
    end: i64,
    picking: Picking,
    now_us: i64,
    sends_files: bool,
    written_max: i64 = FETCH_OCTETS_MAX,
) -> BlocksAnswer:
    """The records of [request.first, end), as many as one answer may hold and cost.

    name         of the queue
    written_max  octets of an answer that is sent from no file, but for a longer block
    raises  RequestError(INVALID) where the filter is none; StorageError
    """
    most = min(i64(request.octets_max), FETCH_OCTETS_MAX)
    written = min(most, written_max)
    if request.filter:
        return picked(log, name, request, end, written, picking, now_us)
    if request.columns != WHOLE_BLOCKS:
        return projected(log, request, end, written)
    if sends_files:
        stretch = log.stretch(request.first, end, most)
        if stretch is not None and stretch.octets >= FILE_OCTETS_MIN:
            answer = of_file(log, stretch)
            if answer is not None:
                return answer
    return whole_blocks(log, request.first, end, written)


def picked(
    log: QueueLog, name: bytes, request: Request, end: i64, most: i64, picking: Picking, now_us: i64
) -> BlocksAnswer:
    """The records for which a filter holds."""
    parts = picking.pick(log, name, request.filter, request.first, end, most, now_us, request.columns)
    octets = sum([len(part) for part in parts])
    answer = BlocksAnswer(log, picking.next, octets, PICKED)
    answer.parts = parts
    answer.work = picking.work
    return answer


def projected(log: QueueLog, request: Request, end: i64, most: i64) -> BlocksAnswer:
    """The blocks with the columns that are asked for."""
    found = Projection(log, request.first, end, most, request.columns)
    answer = BlocksAnswer(log, found.next, found.octets)
    answer.parts = [b"".join(found.parts)]  # short ones, most of the time
    answer.work = found.work
    return answer


def of_file(log: QueueLog, stretch: Stretch) -> BlocksAnswer | None:
    """Blocks to be sent from their file as they are; nobody checks them before the client does.

    None if the file is not to be had: who reads a block says which it was.
    """
    disk = log.files.disk
    try:
        handle = disk.duplicate(log.files.handle(stretch.file))  # it is read when the log may have closed its own
    except UnreadableFile:
        return None
    answer = BlocksAnswer(log, stretch.end, stretch.octets)
    answer.file = FilePart(handle, int(stretch.position), int(stretch.octets))
    return answer


def whole_blocks(log: QueueLog, first: i64, end: i64, most: i64) -> BlocksAnswer:
    """The blocks, read and checked."""
    offset = first
    parts: list[bytes] = []
    octets: i64 = 0
    while offset < end:
        block = log.kept_block(offset)
        if block is None or block.base >= end:
            offset = end
            break
        length = block.octets()
        if octets and octets + length > most:
            break
        parts.append(head_of(block))
        parts += block.parts()
        octets += length
        offset = block.end
    answer = BlocksAnswer(log, offset, octets)
    answer.parts = parts
    return answer


def head_of(block: Block) -> bytes:
    """A block's head; made now for one that was never to be written."""
    if block.head:
        return block.head
    data = block.data
    last = 4 * block.count  # a column's last offset is the column's length
    return make_head(
        data,
        block.base,
        block.count,
        i64(read_i32_le(data, block.exchange_at + last)),
        i64(read_i32_le(data, block.key_at + last)),
        i64(read_i32_le(data, block.properties_at + last)),
        i64(read_i32_le(data, block.body_at + last)),
        block.tail,
        i64(read_i32_le(data, block.annotations_at + last)) if block.annotated else 0,
    )
