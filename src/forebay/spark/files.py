"""A data directory as files to read: what of a queue lies where.

A broker may be running on it: WAL files grow, are copied to segments and go; segments are merged. So a look at the
directory lists the WAL first and opens it last: whatever left the WAL meanwhile is in a segment. Where a file went
between listing and opening, the look is taken again. Once open, a file stays readable.

Segments are mapped. The WAL is read: its files are cut at the end by a broker that stops, and touching a mapped page
behind the end of a file kills the process.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from forebay.core.errors import NOT_FOUND, CorruptFile, RequestError, StorageError
from forebay.core.ports import Disk
from forebay.log.frame import (
    BLOCK,
    CHECKPOINT,
    DROPPED,
    FILE_HEAD_OCTETS,
    FRAME_HEAD_OCTETS,
    PIECE_OCTETS,
    START,
    BadFrame,
    frame_octets,
    parse_file_head,
    parse_frame,
)
from forebay.log.segment import Segment, parse_segment, queue_folder
from forebay.spark.arrow import BlockView, Buffer

WAL: Final = "wal"
QUEUES: Final = "queues"
# The heads of log/frame.py and log/block.py, to be read out of a view.
FRAME_HEAD: Final = struct.Struct("<4sIqqII")
PIECE: Final = struct.Struct("<B3xIII")
BLOCK_HEAD: Final = struct.Struct("<4sIIIqq")  # magic, checksum, octets, count, base, timestamp
START_PAYLOAD: Final = struct.Struct("<qq")
LOOKS_MAX: Final = 20  # housekeeping removes files about once a second: a second look nearly always does
READ_OCTETS: Final = 4 << 20
READ_HOLE_OCTETS: Final = 64 << 10  # other queues' octets between two blocks, below which both are read at once


class Vanished(StorageError):
    """A file went between listing and opening."""


class ReadOnlyDisk(Disk):
    """The files under `root`, for reading."""

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


class Place(NamedTuple):
    """Where a block is: `file` is an index into `QueueFiles.files`."""

    base: int
    records: int
    file: int
    position: int
    octets: int
    stamp_us: int


class LogFile:
    """One file of the log, open."""

    def __init__(self, disk: ReadOnlyDisk, path: str) -> None:
        self.disk = disk
        self.path = disk.path(path)
        self.handle = disk.open(path, False)

    def close(self) -> None:
        self.disk.close(self.handle)

    def read(self, places: list[Place]) -> Iterator[BlockView]:
        """These blocks, in their order; neighbours are read at once."""
        at = 0
        while at < len(places):
            first = last = places[at]
            after = at + 1
            while after < len(places):
                place = places[after]
                hole = place.position - last.position - last.octets
                if not 0 <= hole <= READ_HOLE_OCTETS or place.position + place.octets - first.position > READ_OCTETS:
                    break
                last = place
                after += 1
            octets = self.disk.pread(self.handle, last.position + last.octets - first.position, first.position)
            buffer = Buffer(octets, self.path, first.position)
            yield from self.views(buffer, places[at:after])
            at = after

    def views(self, buffer: Buffer, places: list[Place]) -> Iterator[BlockView]:
        for place in places:
            block = BlockView(buffer, place.position - buffer.origin)
            if block.layout.base != place.base or block.layout.count != place.records:
                raise CorruptFile(self.path, place.position, f"not the block of offset {place.base}")
            yield block


class SegmentFile(LogFile):
    """A segment, mapped into memory at its first use."""

    def __init__(self, disk: ReadOnlyDisk, path: str) -> None:
        super().__init__(disk, path)
        self.segment: Segment = parse_segment(disk, path, self.handle)
        self.buffer: Buffer | None = None

    def read(self, places: list[Place]) -> Iterator[BlockView]:
        if self.buffer is None:
            # Never closed by hand: Arrow arrays may outlive this object, and each keeps its buffer.
            mapped = mmap.mmap(self.handle, 0, prot=mmap.PROT_READ)
            mapped.madvise(mmap.MADV_SEQUENTIAL)
            self.buffer = Buffer(mapped, self.path, 0)
        yield from self.views(self.buffer, places)


class WalLogFile(LogFile):
    """A WAL file, and the walk over its frames."""

    def __init__(self, disk: ReadOnlyDisk, path: str) -> None:
        super().__init__(disk, path)
        self.octets = disk.size(self.handle)
        self.chunk = memoryview(b"")
        self.chunk_at = 0
        try:
            self.head = parse_file_head(disk.pread(self.handle, FILE_HEAD_OCTETS, 0))
        except BadFrame as error:
            raise CorruptFile(self.path, 0, str(error)) from None

    def at(self, position: int, octets: int) -> memoryview:
        skip = position - self.chunk_at
        if skip < 0 or skip + octets > len(self.chunk):
            self.chunk = memoryview(self.disk.pread(self.handle, max(octets, READ_OCTETS), position))
            self.chunk_at = position
            skip = 0
        return self.chunk[skip : skip + octets]

    def frames(self, checked: bool) -> Iterator[tuple[int, int, memoryview]]:
        """Position, flags and octets of every frame up to the first that is not whole.

        checked  by its checksums too; else only by its head, which suffices for frames known to be on the disk
        """
        position, lsn = FILE_HEAD_OCTETS, self.head.first_lsn
        while position < self.octets:
            try:
                octets = frame_octets(bytes(self.at(position, FRAME_HEAD_OCTETS)), 0)
                if position + octets > self.octets:
                    return
                view = self.at(position, octets)
                _, _, _, number, _, flags = FRAME_HEAD.unpack_from(view)
                if number != lsn or len(view) < octets:
                    return
                if checked:
                    parse_frame(bytes(view), 0, self.head.salt)
            except BadFrame:
                return  # the end of the log: zeros, or a write that is still on its way
            yield position, flags, view
            position += octets
            lsn += 1


class QueueFiles:
    """One look at a queue: its blocks in order of their offsets, and the open files they are in.

    start, end  as the broker would say: `start` is the first offset that can still be read
    """

    def __init__(self, disk: ReadOnlyDisk, queue: str, checked: bool) -> None:
        self.disk = disk
        self.files: list[LogFile] = []
        self.places: list[Place] = []
        self.queue = queue
        self.noted = (0, 0)
        self.covered = 0  # blocks of the WAL up to here are older than the segments, and count no more
        try:
            self.look(checked)
        except BaseException:
            self.close()
            raise
        start, self.end = self.noted
        self.places.sort()
        if self.places:
            self.end = max(self.end, self.places[-1].base + self.places[-1].records)
        self.places = [place for place in self.places if place.base + place.records > start]
        first = self.places[0].base if self.places else self.end
        self.start = max(start, first)

    def look(self, checked: bool) -> None:
        wal = [name for name in self.disk.list(WAL) if name.endswith(".wal")]
        self.id = find_queue(self.disk, self.queue)
        self.add_segments()
        for name in wal:
            file = WalLogFile(self.disk, f"{WAL}/{name}")
            self.files.append(file)
            last = name == wal[-1]
            self.add_wal(file, len(self.files) - 1, checked and last)
            if last and checked:
                # The broker may have written but not yet synced it: now it is on the disk as far as we have seen.
                self.disk.sync(file.handle)

    def add_segments(self) -> None:
        folder = queue_folder(self.id)
        found: list[SegmentFile] = []
        for name in self.disk.list(folder):
            if name.endswith(".seg"):
                file = SegmentFile(self.disk, f"{folder}/{name}")
                self.files.append(file)
                found.append(file)
        for at, file in enumerate(found):
            segment = file.segment
            # One that was made of several stands for them; they may still be there.
            if any(o is not file and o.segment.first <= segment.first and segment.end <= o.segment.end for o in found):
                continue
            self.covered = max(self.covered, segment.end)
            self.places += [Place(e.base, e.count, at, e.position, e.octets, e.stamp_us) for e in segment.entries]

    def add_wal(self, file: WalLogFile, number: int, checked: bool) -> None:
        for position, flags, view in file.frames(checked):
            if flags & CHECKPOINT:
                self.noted = (0, 0)
            at = FRAME_HEAD_OCTETS
            while at < len(view):
                kind, queue, _, octets = PIECE.unpack_from(view, at)
                payload = at + PIECE_OCTETS
                at = payload + octets + (-octets & 7)
                if queue != self.id:
                    continue
                if kind == BLOCK:
                    _, _, _, count, base, stamp_us = BLOCK_HEAD.unpack_from(view, payload)
                    if base + count > self.covered:
                        self.places.append(Place(base, count, number, position + payload, octets, stamp_us))
                elif kind == START:
                    self.noted = START_PAYLOAD.unpack_from(view, payload)
                elif kind == DROPPED:
                    raise not_found(self.disk, self.queue)

    def read(self, first: int, end: int) -> Iterator[BlockView]:
        """The blocks with the records of [first, end)."""
        wanted = [place for place in self.places if place.base < end and place.base + place.records > first]
        at = 0
        while at < len(wanted):
            after = at
            while after < len(wanted) and wanted[after].file == wanted[at].file:
                after += 1
            yield from self.files[wanted[at].file].read(wanted[at:after])
            at = after

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.files = []


def open_queue(root: str, queue: str, checked: bool) -> QueueFiles:
    """A consistent look at a queue's files.

    checked  find out how far the log goes; else only what is known to be there will be read
    raises   RequestError(NOT_FOUND), naming the queues there are
    """
    disk = ReadOnlyDisk(root)
    if not os.path.isdir(disk.path(WAL)):
        raise StorageError(f"{root}: no data directory of a broker: there is no folder '{WAL}' in it")
    for _ in range(LOOKS_MAX - 1):
        try:
            return QueueFiles(disk, queue, checked)
        except Vanished:
            continue
    return QueueFiles(disk, queue, checked)


def queue_names(disk: ReadOnlyDisk) -> dict[str, int]:
    """Number of each queue by its name."""
    names: dict[str, int] = {}
    for folder in disk.list(QUEUES):
        try:
            with open(disk.path(f"{QUEUES}/{folder}/queue.json"), encoding="utf-8") as file:
                about = json.load(file)
        except (FileNotFoundError, ValueError):
            continue  # not named yet, or just deleted; after a power cut the file may be empty until the broker starts
        # A queue that was deleted and made anew has a higher number; the old folder may still be there.
        names[about["name"]] = max(about["id"], names.get(about["name"], 0))
    return names


def find_queue(disk: ReadOnlyDisk, queue: str) -> int:
    names = queue_names(disk)
    if queue not in names:
        raise not_found(disk, queue)
    return names[queue]


def not_found(disk: ReadOnlyDisk, queue: str) -> RequestError:
    known = ", ".join(sorted(queue_names(disk))) or "none"
    return RequestError(NOT_FOUND, f"no queue {queue!r} in data directory {disk.root}; there are: {known}")
