"""Some columns of a block: read, checked and sent without the others.

A part of a block is

     0 88  the head of a block with a checksum for each column (log/block.py). The checksums of missing columns and of
           the whole block mean nothing
    88     the columns that were asked for (core/stored/columns.py), in the order in which the block has them

A segment holds head and columns in this form already. For a block with a single checksum, which has been checked, the
head is made here.
"""

from __future__ import annotations

from typing import Final, final

from crc32c import crc32c
from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from forebay.core.ports import Disk
from forebay.core.stored.columns import ANNOTATIONS, COLUMN_NAMES, FORMATS
from forebay.log.block import (
    HEAD_OCTETS,
    SUMMED_HEAD_OCTETS,
    SUMMED_MAGIC,
    SUMS_AT,
    ZEROS,
    BadBlock,
    Block,
    block_octets,
    check_head,
    padding,
    read_block,
)

COUNT: Final = 7  # of columns
LENGTHS_AT: Final = [32, 36, 40, 48, 44]  # in a head, of the variable columns in the order of the columns


@final
class BlockPart:
    """Some columns of the records [base, end). `parts` are the head and the columns.

    read_octets  bytes that were read or scanned for them
    """

    def __init__(self, head: bytes, columns: list[bytes]) -> None:
        self.base: i64 = read_i64_le(head, 16)
        self.end: i64 = self.base + i64(read_i32_le(head, 12))
        self.parts: list[bytes] = [head]
        self.octets: i64 = len(head)
        for column in columns:
            self.parts.append(column)
            self.octets += len(column)
        self.read_octets = self.octets


# ---- in memory


def column_starts(block: Block) -> list[int]:
    """Return the positions in `data` where the columns begin, and the end of `data`."""
    return [
        0,
        int(block.formats_at),
        int(block.exchange_at),
        int(block.key_at),
        int(block.properties_at),
        int(block.annotations_at),
        int(block.body_at),
        len(block.data),
    ]


def part_of(block: Block, columns: i64) -> BlockPart:
    """Return some columns of a block in memory."""
    starts = column_starts(block)
    found: list[bytes] = []
    sums: list[int] = []
    for place in range(COUNT):
        sum = 0
        if columns & (1 << place):
            column = block.data[starts[place] : starts[place + 1]]
            found.append(column)
            sum = crc32c(column)
            if place == COUNT - 1 and block.tail:
                end = ZEROS[: padding(len(block.tail))]
                found += [block.tail, end]
                sum = crc32c(end, crc32c(block.tail, sum))
        sums.append(sum)
    part = BlockPart(summed_head(block, sums), found)
    part.read_octets = block.octets()
    return part


def with_sums(block: Block, sums: list[int]) -> Block:
    """Return the block with the head that a segment needs, with these checksums of its columns."""
    head = summed_head(block, sums)
    count = block.count
    lengths = [i64(read_i32_le(head, at)) for at in LENGTHS_AT]
    return Block(head, block.data, block.base, count, lengths[0], lengths[1], lengths[2], block.tail, lengths[3])


def summed_head(block: Block, sums: list[int]) -> bytes:
    """Return the block's head of 88 bytes if it has one, else one with these checksums."""
    if len(block.head) == SUMMED_HEAD_OCTETS:
        return block.head
    out = BytesWriter()
    out.write(SUMMED_MAGIC)
    out.write(block.head[4:8] if block.head else ZEROS[:4])
    tail: i64 = len(block.tail)
    write_i32_le(out, i32(HEAD_OCTETS + len(block.data) + tail + padding(tail)))
    if block.head:
        out.write(block.head[12:HEAD_OCTETS])
    else:
        write_i32_le(out, i32(block.count))
        write_i64_le(out, block.base)
        write_i64_le(out, block.timestamp_us(0))
        write_i32_le(out, i32(block.length(block.exchange_at)))
        write_i32_le(out, i32(block.length(block.key_at)))
        write_i32_le(out, i32(block.length(block.properties_at)))
        write_i32_le(out, i32(tail or block.length(block.body_at)))
        write_i32_le(out, i32(block.length(block.annotations_at) if block.annotated else 0))
        write_i32_le(out, 0)
    for sum in sums:
        write_sum(out, sum)
    write_sum(out, crc32c(out.getvalue()))
    return out.getvalue()


def write_sum(out: BytesWriter, sum: i64) -> None:
    write_i32_le(out, i32(sum - ((sum >> 31) << 32)))


# ---- in files, and as they come


def column_lengths(head: bytes) -> list[int]:
    """Return the bytes of each column of the block with this head, padding included. Raises BadBlock."""
    count = i64(read_i32_le(head, 12))
    offsets = 4 * (count + 1)
    offsets += padding(offsets)
    found = [int(8 * count), int(count + padding(count))]
    whole: i64 = len(head) + 8 * count + count + padding(count)
    for at in LENGTHS_AT:
        octets = i64(read_i32_le(head, at))
        if count < 1 or octets < 0:
            raise BadBlock(f"block of {count} records with a column of {octets} octets")
        octets += padding(octets)
        if at != 48 or octets:  # the column of annotations exists only if a record has some
            octets += offsets
        found.append(int(octets))
        whole += octets
    if whole != block_octets(head):
        raise BadBlock("column lengths do not add up to the block's")
    return found


def check_column(head: bytes, place: int, column: bytes) -> None:
    """Check a column against its checksum in the head. Raises BadBlock if it does not match."""
    if crc32c(column) != i64(read_i32_le(head, SUMS_AT + 4 * place)) & 0xFFFFFFFF:
        raise BadBlock(f"checksum of the column {COLUMN_NAMES[place]} does not match")


def check_every_column(block: Block) -> None:
    """Check every column of a segment's block against the head. Raises BadBlock if one does not match."""
    if len(block.head) == SUMMED_HEAD_OCTETS:
        parts = block.parts()
        starts = column_starts(block)
        for place in range(COUNT - 1):
            check_column(block.head, place, block.data[starts[place] : starts[place + 1]])
        check_column(block.head, COUNT - 1, b"".join([block.data[block.body_at :], *parts[1:]]))


def read_part(disk: Disk, handle: int, position: int, octets: int, columns: i64) -> BlockPart:
    """Read only these columns of the block of `octets` bytes at `position`. Raises BadBlock if there is none."""
    head = disk.pread(handle, SUMMED_HEAD_OCTETS, position)
    if head[:4] != SUMMED_MAGIC:
        return part_of(read_block(disk, handle, position, octets), columns)
    if len(head) < SUMMED_HEAD_OCTETS or block_octets(head) != octets:
        raise BadBlock(f"no block of {octets} octets starts here")
    check_head(head)
    at = position + SUMMED_HEAD_OCTETS
    found: list[bytes] = []
    for place, length in enumerate(column_lengths(head)):
        if columns & (1 << place) and length:
            column = disk.pread(handle, length, at)
            check_column(head, place, column)
            found.append(column)
        at += length
    return BlockPart(head, found)


def parse_parts(octets: bytes, columns: int) -> list[Block]:
    """Return the blocks of parts that stand back to back. Values of missing columns are zero or empty.

    raises  BadBlock unless every byte is as it was written
    """
    found: list[Block] = []
    at = 0
    while at < len(octets):
        block, taken = parse_part(octets, at, columns)
        found.append(block)
        at += taken
    return found


def parse_part(octets: bytes, at: int, columns: int) -> tuple[Block, int]:
    """Return the block of the part that begins at `at`, and the part's length in bytes."""
    head = octets[at : at + SUMMED_HEAD_OCTETS]
    if len(head) < SUMMED_HEAD_OCTETS or head[:4] != SUMMED_MAGIC:
        raise BadBlock("no part of a block starts here")
    check_head(head)
    lengths = column_lengths(head)
    count = i64(read_i32_le(head, 12))
    start = at + SUMMED_HEAD_OCTETS
    data: list[bytes] = []
    sizes: list[int] = []
    for place in range(COUNT):
        bit = 1 << place
        length = lengths[place]
        is_there = (columns & bit) != 0
        if is_there:
            column = octets[start : start + length]
            if length:
                check_column(head, place, column)
            data.append(column)
            start += length
        elif bit <= FORMATS:
            data.append(bytes(length))
        elif bit != ANNOTATIONS:
            data.append(bytes(int(4 * (count + 1) + padding(4 * (count + 1)))))
        if place >= COUNT - len(LENGTHS_AT):
            sizes.append(int(read_i32_le(head, LENGTHS_AT[place - 2])) if is_there else 0)
    base = read_i64_le(head, 16)
    block = Block(b"", b"".join(data), base, count, sizes[0], sizes[1], sizes[2], b"", sizes[3])
    return block, start - at
