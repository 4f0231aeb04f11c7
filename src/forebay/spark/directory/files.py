"""Reads the files of a data directory, keeping each open only while it is read.

Segments are mapped. WAL files are read, not mapped: a broker that stops truncates them, and touching a mapped page
beyond the end of a file kills the process.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from crc32c import crc32c

from forebay.core.errors import CorruptFile, StorageError
from forebay.core.ports import Disk
from forebay.log.frame import (
    FILE_HEAD_OCTETS,
    FRAME_HEAD_OCTETS,
    BadFrame,
    frame_octets,
    parse_file_head,
    parse_frame,
)
from forebay.log.segment import (
    HEAD,
    HEAD_MAGIC,
    HEAD_OCTETS,
    VERSION,
    Segment,
    SegmentEntry,
    parse_segment,
    segment_path,
    wrong_version,
)
from forebay.spark.arrow.batches import BlockView, Buffer

# The frame head of log/frame.py, to be unpacked from a memoryview.
FRAME_HEAD: Final = struct.Struct("<4sIqqIIq")
READ_OCTETS: Final = 4 << 20
# A shorter segment is read: a mapped file stays open as long as its blocks live, and a batch may take many short ones.
MAP_OCTETS_MIN: Final = 1 << 20
READ_HOLE_OCTETS: Final = 64 << 10  # largest gap in bytes between two blocks that are read at once


class Vanished(StorageError):
    """A file has been removed, or replaced by another of the same name, since the directory was scanned."""


class ReadOnlyDisk(Disk):
    """A disk that only reads, restricted to the files under `root`."""

    def __init__(self, root: str) -> None:
        self.root = root

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.path(folder)))
        except FileNotFoundError:
            return []

    def open(self, path: str, create: bool) -> int:
        assert not create
        try:
            return os.open(self.path(path), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Vanished(self.path(path)) from None
        except OSError as error:
            raise StorageError(f"{self.path(path)}: cannot open: {error.strerror}") from error

    def close(self, handle: int) -> None:
        os.close(handle)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def pread(self, handle: int, octets: int, position: int) -> bytes:
        return os.pread(handle, octets, position)

    def sync(self, handle: int) -> None:
        os.fdatasync(handle)

    def path(self, path: str) -> str:
        return os.path.join(self.root, path)

    def make_folder(self, folder: str) -> None:
        raise self.refusal(folder)

    def sync_names(self, folder: str) -> None:
        raise self.refusal(folder)

    def remove_folders(self, folders: Sequence[str]) -> None:
        raise self.refusal("folders")

    def put_files(self, files: Sequence[tuple[str, bytes]]) -> None:
        raise self.refusal("files")

    def pwrite(self, handle: int, parts: object, position: int) -> None:
        raise self.refusal("file")

    def reserve(self, handle: int, octets: int) -> None:
        raise self.refusal("file")

    def duplicate(self, handle: int) -> int:
        return os.dup(handle)

    def truncate(self, handle: int, octets: int) -> None:
        raise self.refusal("file")

    def rename(self, old: str, new: str) -> None:
        raise self.refusal(old)

    def remove(self, path: str) -> None:
        raise self.refusal(path)

    def refusal(self, path: str) -> StorageError:
        return StorageError(f"{self.path(path)}: this process only reads the data directory")


@contextmanager
def opened(disk: Disk, path: str) -> Iterator[int]:
    """Open a file for the body of a `with`, yielding its handle."""
    handle = disk.open(path, False)
    try:
        yield handle
    finally:
        disk.close(handle)


class FileSpan(NamedTuple):
    """A segment as its head describes it, with the offsets from `first` to below `end`.

    octets  length of the file, in bytes
    """

    first: int
    end: int
    octets: int


def read_span(disk: Disk, path: str) -> FileSpan:
    """Read the head of a segment file, and return its offsets and length. Raises CorruptFile if the head is damaged."""
    with opened(disk, path) as handle:
        octets = disk.size(handle)
        head = disk.pread(handle, HEAD_OCTETS, 0)
    if len(head) < HEAD_OCTETS:
        raise CorruptFile(disk.path(path), 0, f"a segment of {octets} octets cannot be")
    magic, crc, version, _, first, end, _ = HEAD.unpack(head)
    if magic != HEAD_MAGIC or crc32c(head[8:]) != crc:
        raise CorruptFile(disk.path(path), 0, "the segment's head is damaged")
    if version != VERSION:
        raise CorruptFile(disk.path(path), 8, wrong_version(version))
    return FileSpan(first, end, octets)


def read_segment_blocks(
    disk: Disk, queue: int, span: FileSpan, first: int, end: int, whole: bool = True
) -> Iterator[BlockView]:
    """Yield the blocks of a segment that hold records of [first, end).

    whole   whether nearly all of each block will be read; if not, the disk is asked for no more than is used
    raises  Vanished if another segment has taken the file's name
    """
    path = segment_path(queue, span.first)
    with opened(disk, path) as handle:
        segment = parse_segment(disk, path, handle)
        check_same(segment, span, disk.path(path))
        if segment.octets < MAP_OCTETS_MIN:
            buffer = Buffer(disk.pread(handle, segment.octets, 0), disk.path(path), 0)
        else:
            # Not closed here: Arrow arrays may outlive this function, and each keeps its buffer alive.
            mapped = mmap.mmap(handle, 0, prot=mmap.PROT_READ)
            mapped.madvise(mmap.MADV_SEQUENTIAL if whole else mmap.MADV_RANDOM)
            buffer = Buffer(mapped, disk.path(path), 0)
    for entry in segment.entries:
        if entry.base < end and entry.base + entry.count > first:
            yield view_of(buffer, entry.position, entry.base, entry.count)


def check_same(segment: Segment, span: FileSpan, path: str) -> None:
    """Raise Vanished if a longer segment, merged from this one and others, has taken the file's name."""
    if (segment.first, segment.end) != (span.first, span.end):
        raise Vanished(path)


def read_index(disk: Disk, queue: int, span: FileSpan) -> list[SegmentEntry]:
    """Return the index of a segment's blocks without reading the blocks.

    Raises Vanished if another segment has taken the file's name.
    """
    path = segment_path(queue, span.first)
    with opened(disk, path) as handle:
        segment = parse_segment(disk, path, handle)
    check_same(segment, span, disk.path(path))
    return segment.entries


class FileBlock(NamedTuple):
    """The place of a block in the WAL; `file` is the number of the WAL file."""

    base: int
    records: int
    file: int
    position: int
    octets: int
    stamp_us: int


def read_wal(disk: Disk, path: str, places: Sequence[FileBlock]) -> Iterator[BlockView]:
    """Yield the blocks at these places of one WAL file, in their order, reading neighbouring blocks at once."""
    with opened(disk, path) as handle:
        at = 0
        while at < len(places):
            after = at + neighbours(places, at)
            first, last = places[at], places[after - 1]
            octets = disk.pread(handle, last.position + last.octets - first.position, first.position)
            buffer = Buffer(octets, disk.path(path), first.position)
            for place in places[at:after]:
                yield view_of(buffer, place.position - buffer.origin, place.base, place.records)
            at = after


def neighbours(places: Sequence[FileBlock], at: int) -> int:
    """Return how many places from index `at` on are close enough together to be read at once."""
    first = last = places[at]
    for count, place in enumerate(places[at + 1 :], 1):
        hole = place.position - last.position - last.octets
        if not 0 <= hole <= READ_HOLE_OCTETS or place.position + place.octets - first.position > READ_OCTETS:
            return count
        last = place
    return len(places) - at


def view_of(buffer: Buffer, at: int, base: int, records: int) -> BlockView:
    """Return the block at a position of the buffer.

    Raises CorruptFile if it does not have this base and number of records.
    """
    block = BlockView(buffer, at)
    if block.base != base or block.count != records:
        raise CorruptFile(buffer.source, buffer.origin + at, f"not the block of offset {base}")
    return block


class WalBlocks:
    """An open WAL file, whose frames can be iterated."""

    def __init__(self, disk: Disk, path: str, handle: int) -> None:
        self.disk = disk
        self.handle = handle
        self.octets = disk.size(handle)
        self.chunk = memoryview(b"")
        self.chunk_at = 0
        try:
            self.head = parse_file_head(disk.pread(handle, FILE_HEAD_OCTETS, 0))
        except BadFrame as error:
            raise CorruptFile(disk.path(path), 0, str(error)) from None

    def at(self, position: int, octets: int) -> memoryview:
        skip = position - self.chunk_at
        if skip < 0 or skip + octets > len(self.chunk):
            self.chunk = memoryview(self.disk.pread(self.handle, max(octets, READ_OCTETS), position))
            self.chunk_at = position
            skip = 0
        return self.chunk[skip : skip + octets]

    def frames(self, checked: bool) -> Iterator[tuple[int, int, memoryview]]:
        """Yield position, flags and bytes of every frame up to the first that is not complete.

        checked  whether to verify the checksums too; the head alone suffices for frames known to be on disk
        """
        position, lsn = FILE_HEAD_OCTETS, self.head.first_lsn
        while position < self.octets:
            try:
                octets = frame_octets(bytes(self.at(position, FRAME_HEAD_OCTETS)), 0)
                if position + octets > self.octets:
                    return
                view = self.at(position, octets)
                _, _, _, number, _, flags, _ = FRAME_HEAD.unpack_from(view)
                if number != lsn or len(view) < octets:
                    return
                if checked:
                    parse_frame(bytes(view), 0, self.head.salt)
            except BadFrame:
                return  # the end of the log: zeros, or a frame that is being written
            yield position, flags, view
            position += octets
            lsn += 1
