"""Segments: immutable files of large blocks of one queue, made from what is still wanted of a full WAL file.

A file `queues/<queue>/<first offset, 20 digits>.seg`, little-endian:

     0  4  magic "FBSG"
     4  4  CRC32C of the octets 8 to 39
     8  4  version, 3
    12  4  queue
    16  8  first: the segment stands for the offsets from here ...
    24  8  end: ... to before here; blocks in the WAL up to here are older and count no more
    32  8  zeros
    40     blocks with a checksum for each column (log/block.py), back to back, offsets ascending; offsets may be
           missing between two of them
           index, one entry a block:
             0  8  offset of its first record
             8  8  timestamp of its first record
            16  8  position in the file
            24  4  octets
            28  4  count of records
           then the last 48 octets:
             0  4  magic "FBSX"
             4  4  CRC32C of the octets 0 to 39 of the file, the index, and the octets 8 to 47 of this part
             8  4  version, 3
            12  4  queue
            16  8  first
            24  8  end
            32  8  position of the index
            40  4  count of blocks
            44  4  zeros

It is written under another name, synced, then renamed; so a segment that has its name is whole. A damaged one is an
error: nothing is guessed from the blocks.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from crc32c import crc32c

from forebay.core.errors import CorruptFile
from forebay.core.ports import Disk
from forebay.log.block import SUMMED_HEAD_OCTETS, Block, BlockWriter, padding
from forebay.log.columns.parts import column_starts, with_sums
from forebay.log.queue_log import BlockIndex

HEAD_MAGIC: Final = b"FBSG"
FOOT_MAGIC: Final = b"FBSX"
VERSION: Final = 3
HEAD: Final = struct.Struct("<4sIIIqqq")
HEAD_OCTETS: Final = 40
ENTRY: Final = struct.Struct("<qqqII")
ENTRY_OCTETS: Final = 32
FOOT: Final = struct.Struct("<4sIIIqqqII")
FOOT_OCTETS: Final = 48

RECORDS_MAX: Final = 4096  # a block of a segment is sealed at this many records
OCTETS_MAX: Final = 4 << 20  # or at this many octets
WRITE_OCTETS: Final = 4 << 20
SPAN_MAX: Final = (1 << 31) - 1  # offsets of one entry of an index


@dataclass(frozen=True, slots=True)
class SegmentEntry:
    """One block of a segment."""

    base: int
    stamp_us: int
    position: int
    octets: int
    count: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The head and the index of a segment.

    fault  why the index cannot be trusted; then a single entry stands for the whole segment. Empty if it can
    """

    path: str
    queue: int
    first: int
    end: int
    octets: int
    entries: list[SegmentEntry]
    fault: str = ""

    def index(self, number: int) -> BlockIndex:
        """Return the segment's blocks as index entries of a log, with this file number."""
        index = BlockIndex()
        for entry in self.entries:
            index.add(entry.base, entry.count, number, entry.position, entry.octets, entry.stamp_us)
        return index

    def records(self) -> int:
        return sum(entry.count for entry in self.entries)


def queue_folder(queue: int) -> str:
    """Return the folder of a queue's segments, below the data directory."""
    return f"queues/{queue}"


def segment_path(queue: int, first: int) -> str:
    """Return the path of a queue's segment, below the data directory."""
    return f"{queue_folder(queue)}/{first:020d}.seg"


def encode_head(queue: int, first: int, end: int) -> bytes:
    """Return the first 40 bytes of a segment."""
    tail = HEAD.pack(HEAD_MAGIC, 0, VERSION, queue, first, end, 0)[8:]
    return HEAD_MAGIC + crc32c(tail).to_bytes(4, "little") + tail


def encode_foot(head: bytes, queue: int, first: int, end: int, position: int, entries: list[SegmentEntry]) -> bytes:
    """Return the index of a segment and the foot that follows it."""
    index = b"".join(ENTRY.pack(e.base, e.stamp_us, e.position, e.octets, e.count) for e in entries)
    tail = FOOT.pack(FOOT_MAGIC, 0, VERSION, queue, first, end, position, len(entries), 0)[8:]
    return index + FOOT_MAGIC + crc32c(tail, crc32c(index, crc32c(head))).to_bytes(4, "little") + tail


def read_segment(disk: Disk, path: str) -> Segment:
    """Read the head and the index of a segment. Raises CorruptFile unless they are as they were written."""
    handle = disk.open(path, False)
    try:
        return parse_segment(disk, path, handle)
    finally:
        disk.close(handle)


def read_damaged(disk: Disk, path: str, fault: str) -> Segment:
    """Return a segment with a damaged index, as its head describes it. Raises CorruptFile if the head is damaged."""
    handle = disk.open(path, False)
    try:
        octets = disk.size(handle)
        head = disk.pread(handle, HEAD_OCTETS, 0)
    finally:
        disk.close(handle)
    if len(head) == HEAD_OCTETS and crc32c(head[8:]) == int.from_bytes(head[4:8], "little"):
        magic, _, version, queue, first, end, _ = HEAD.unpack(head)
        if (magic, version) == (HEAD_MAGIC, VERSION) and first < end <= first + SPAN_MAX:
            return Segment(path, queue, first, end, octets, [SegmentEntry(first, 0, 0, octets, end - first)], fault)
    raise CorruptFile(disk.path(path), 0, fault)


def parse_segment(disk: Disk, path: str, handle: int, head: bytes | None = None) -> Segment:
    """Read a segment as `read_segment` does, but from an open file. `head` replaces the head on the disk if given."""
    full_path = disk.path(path)
    octets = disk.size(handle)
    if octets < HEAD_OCTETS + FOOT_OCTETS:
        raise CorruptFile(full_path, 0, f"a segment of {octets} octets cannot be")
    head = disk.pread(handle, HEAD_OCTETS, 0) if head is None else head
    magic, crc, version, queue, first, end, _ = HEAD.unpack(head)
    if magic != HEAD_MAGIC or crc32c(head[8:]) != crc:
        raise CorruptFile(full_path, 0, "the segment's head is damaged")
    if version != VERSION:
        raise CorruptFile(full_path, 8, wrong_version(version))
    where = f"queue {queue}, offsets {first} to {end - 1}"
    foot = disk.pread(handle, FOOT_OCTETS, octets - FOOT_OCTETS)
    magic, crc, foot_version, foot_queue, foot_first, foot_end, position, count, _ = FOOT.unpack(foot)
    if magic != FOOT_MAGIC or position != octets - FOOT_OCTETS - count * ENTRY_OCTETS:
        raise CorruptFile(full_path, octets - FOOT_OCTETS, f"{where}: the segment's end is damaged")
    index = disk.pread(handle, count * ENTRY_OCTETS, position)
    if crc32c(foot[8:], crc32c(index, crc32c(head))) != crc:
        raise CorruptFile(full_path, position, f"{where}: the segment's index is damaged")
    if (foot_version, foot_queue, foot_first, foot_end) != (version, queue, first, end):
        raise CorruptFile(full_path, octets - FOOT_OCTETS, f"{where}: the segment's head and end disagree")
    entries = [
        SegmentEntry(base, stamp_us, at, block_octets, records)
        for base, stamp_us, at, block_octets, records in ENTRY.iter_unpack(index)
    ]
    return Segment(path, queue, first, end, octets, entries)


def wrong_version(version: int) -> str:
    """Return the error text for a segment of another version of the format."""
    if version < VERSION:
        return f"version {version} of the segment format is of an older forebay, this one knows {VERSION} only"
    return f"version {version} of the segment format is unknown, this program knows {VERSION}"


class SegmentWriter:
    """Writes one segment under a temporary name; `finish` gives it its lasting name."""

    def __init__(self, disk: Disk, queue: int, first: int) -> None:
        self.disk = disk
        self.queue = queue
        self.first = first
        self.path = segment_path(queue, first)
        self.handle = disk.open(self.path + ".tmp", True)
        self.disk.truncate(self.handle, 0)  # a leftover of this name may be there
        self.position = HEAD_OCTETS
        self.entries: list[SegmentEntry] = []
        self.parts: list[bytes] = []
        self.written = HEAD_OCTETS

    def add(self, block: Block) -> None:
        """Append a block, with a checksum for each column."""
        block = summed(block)
        octets = int(block.octets())
        self.entries.append(
            SegmentEntry(int(block.base), int(block.timestamp_us(0)), self.position, octets, int(block.count))
        )
        self.parts += [block.head, *block.parts()]
        self.position += octets
        if self.position - self.written >= WRITE_OCTETS:
            self.write_out()

    def add_all(self, blocks: list[Block]) -> None:
        for block in blocks:
            self.add(block)

    def add_damaged(self, base: int, stamp_us: int, count: int, octets: bytes) -> None:
        """Append a block that cannot be read as it is, with the index entry known of it."""
        self.entries.append(SegmentEntry(base, stamp_us, self.position, len(octets), count))
        self.parts.append(octets)
        self.position += len(octets)

    def write_out(self) -> None:
        if self.parts:
            self.disk.pwrite(self.handle, self.parts, self.written)
            self.parts = []
            self.written = self.position

    def finish(self, end: int) -> Segment:
        """Complete the segment of all offsets below `end`, durably under its lasting name, and return it."""
        self.write_out()
        head = encode_head(self.queue, self.first, end)
        foot = encode_foot(head, self.queue, self.first, end, self.position, self.entries)
        self.disk.pwrite(self.handle, [foot], self.position)
        self.disk.pwrite(self.handle, [head], 0)
        self.disk.sync(self.handle)
        self.disk.close(self.handle)
        self.disk.rename(self.path + ".tmp", self.path)
        return Segment(self.path, self.queue, self.first, end, self.position + len(foot), self.entries)

    def abandon(self) -> None:
        """Remove the unfinished segment."""
        self.disk.close(self.handle)
        self.disk.remove(self.path + ".tmp")


def summed(block: Block) -> Block:
    """Return the block with a head that has a checksum for each column."""
    if len(block.head) == SUMMED_HEAD_OCTETS:
        return block
    data = memoryview(block.data)
    sums = [crc32c(data[start:end]) for start, end in pairwise(column_starts(block))]
    if block.tail:
        sums[-1] = crc32c(bytes(padding(len(block.tail))), crc32c(block.tail, sums[-1]))
    return with_sums(block, sums)


class Merger:
    """Merges small blocks, given in ascending order, into large ones."""

    def __init__(self) -> None:
        self.writer = BlockWriter()
        self.base = 0

    def add(self, block: Block, first: int, count: int) -> list[Block]:
        """Add `count` records of a block from number `first` on, and return the blocks that are complete now."""
        out: list[Block] = []
        base = int(block.base) + first
        filled = int(self.writer.count)
        full = filled + count > RECORDS_MAX or self.writer.octets() >= OCTETS_MAX
        if filled and (full or base != self.base + filled):
            out.append(self.seal())
            filled = 0
        if not filled and count == block.count and (2 * count >= RECORDS_MAX or 2 * block.octets() >= OCTETS_MAX):
            out.append(block)  # large enough to be copied as it is
            return out
        if not filled:
            self.base = base
        self.writer.append_range(block, first, count)
        return out

    def rest(self) -> list[Block]:
        return [self.seal()] if self.writer.count else []

    def seal(self) -> Block:
        return self.writer.seal(self.base, 0, True)
