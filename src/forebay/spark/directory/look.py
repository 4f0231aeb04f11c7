"""Scans a data directory, to find which files hold which records of a queue.

A broker may be running on the directory: WAL files grow, are copied to segments and removed, and segments are merged.
So a scan lists the WAL first and reads it last: whatever left the WAL meanwhile is in a segment. If a file is removed
between listing and opening, the scan is repeated.

The heads of the segments, which say what offsets they cover, are enough to plan a read. The index of a segment is read
by the task that reads its blocks. The plan tells a task its segments; if these were merged meanwhile, the task scans
the directory itself.
"""

from __future__ import annotations

import json
import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from forebay.core.errors import NOT_FOUND, RequestError, StorageError
from forebay.core.stored.entry_kinds import BLOCK, START
from forebay.log.frame import CHECKPOINT, DROPPED, FRAME_HEAD_OCTETS, PIECE_OCTETS
from forebay.log.segment import SegmentEntry, queue_folder
from forebay.spark.arrow.batches import BlockView
from forebay.spark.directory.files import (
    FileBlock,
    FileSpan,
    ReadOnlyDisk,
    Vanished,
    WalBlocks,
    opened,
    read_index,
    read_segment_blocks,
    read_span,
    read_wal,
)

WAL: Final = "wal"
QUEUES: Final = "queues"
# The heads of log/frame.py and log/block.py, to be unpacked from a memoryview.
PIECE: Final = struct.Struct("<B3xIII")
BLOCK_HEAD: Final = struct.Struct("<4sIIIqq")  # magic, checksum, octets, count, base, timestamp
START_PAYLOAD: Final = struct.Struct("<qq")
LOOKS_MAX: Final = 20  # housekeeping removes files about once a second, so a second scan nearly always succeeds


def wal_path(number: int) -> str:
    """Return the name of a WAL file, relative to the data directory."""
    return f"{WAL}/{number:016d}.wal"


@dataclass(slots=True)
class Places:
    """The places of a queue's blocks, or of a part of them.

    It can be pickled, so that a task need not scan the directory.

    id          id of the log
    start, end  the log's bounds as the broker reports them: `start` is the first offset that can still be read
    spans       the segments in use, in order of their offsets, without overlaps
    wal         the blocks after the segments, in order of their offsets
    """

    id: int
    start: int
    end: int
    spans: list[FileSpan] = field(default_factory=list)
    wal: list[FileBlock] = field(default_factory=list)

    def part(self, first: int, end: int) -> Places:
        """Return the places of the records [first, end)."""
        low = bisect_right(self.spans, first, key=lambda span: span.end)
        high = bisect_left(self.spans, end, lo=low, key=lambda span: span.first)
        return Places(self.id, self.start, self.end, self.spans[low:high], self.wal_part(first, end))

    def wal_part(self, first: int, end: int) -> list[FileBlock]:
        low = bisect_right(self.wal, first, key=lambda place: place.base + place.records)
        return self.wal[low : bisect_left(self.wal, end, lo=low, key=lambda place: place.base)]

    def read(self, disk: ReadOnlyDisk, first: int, end: int, whole: bool = True) -> Iterator[BlockView]:
        """Yield the blocks that hold records of [first, end). At most one file is open at a time.

        whole  whether nearly all of each block will be read
        """
        part = self.part(first, end)
        for span in part.spans:
            yield from read_segment_blocks(disk, self.id, span, first, end, whole)
        for number, places in groupby(part.wal, lambda place: place.file):
            yield from read_wal(disk, wal_path(number), list(places))

    def octets(self) -> int:
        """Return the approximate size of all blocks, in bytes."""
        return sum([span.octets for span in self.spans]) + sum([place.octets for place in self.wal])


class Look:
    """One scan of the files of a queue.

    checked  whether to find the log's end by checking the WAL's frames; if not, the caller must read only records that
      are known to be on disk
    """

    def __init__(self, disk: ReadOnlyDisk, queue: str, checked: bool) -> None:
        self.disk = disk
        self.queue = queue
        self.noted = (0, 0)
        self.covered = 0  # WAL blocks below this offset are in segments
        self.wal: list[FileBlock] = []
        numbers = [int(name[:-4]) for name in disk.list(WAL) if name.endswith(".wal") and name[:-4].isdigit()]
        self.id = find_queue(disk, queue)
        spans = self.segments()
        for number in numbers:
            last = number == numbers[-1]
            with opened(disk, wal_path(number)) as handle:
                self.add_wal(WalBlocks(disk, wal_path(number), handle), number, checked and last)
                if last and checked:
                    # The broker may have written frames and not yet synced them: sync what this scan has read.
                    disk.sync(handle)
        start, end = self.noted
        self.wal.sort()
        wal = [place for place in self.wal if place.base + place.records > start]
        spans = [span for span in spans if span.end > start]
        for last_end in [span.end for span in spans[-1:]] + [place.base + place.records for place in wal[-1:]]:
            end = max(end, last_end)
        self.places = Places(self.id, start, end, spans, wal)
        self.places.start = max(start, self.first_record())

    def segments(self) -> list[FileSpan]:
        """Return the segments in use, in order of their offsets."""
        folder = queue_folder(self.id)
        found: list[FileSpan] = []
        for name in self.disk.list(folder):  # the names sort by first offset
            if not name.endswith(".seg"):
                continue
            span = read_span(self.disk, f"{folder}/{name}")
            # A merged segment replaces several, whose files may not be removed yet.
            if span.end > self.covered:
                found.append(span)
                self.covered = span.end
        return found

    def first_record(self) -> int:
        """Return the offset of the first record that is present, or the log's end if there is none."""
        start = self.places.start
        for span in self.places.spans:
            for entry in read_index(self.disk, self.id, span):
                if entry.base + entry.count > start:
                    return entry.base
        return self.places.wal[0].base if self.places.wal else self.places.end

    def add_wal(self, file: WalBlocks, number: int, checked: bool) -> None:
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
                        self.wal.append(FileBlock(base, count, number, position + payload, octets, stamp_us))
                elif kind == START:
                    self.noted = START_PAYLOAD.unpack_from(view, payload)
                elif kind == DROPPED:
                    raise not_found(self.disk, self.queue)


def look(disk: ReadOnlyDisk, queue: str, checked: bool) -> Places:
    """Scan the files of a queue until a scan is consistent, and return the places of its blocks.

    checked  whether to find the log's end by checking the WAL's frames; if not, the caller must read only records that
      are known to be on disk
    raises   RequestError(NOT_FOUND), naming the queues there are; StorageError if the folder is no data directory
    """
    if not os.path.isdir(disk.path(WAL)):
        raise StorageError(f"{disk.root}: no data directory of a broker: there is no folder '{WAL}' in it")
    for _ in range(LOOKS_MAX - 1):
        try:
            return Look(disk, queue, checked).places
        except Vanished:
            continue
    return Look(disk, queue, checked).places


class Landmark(NamedTuple):
    """A block, identified by its first record: offset, number of records, timestamp."""

    base: int
    records: int
    stamp_us: int


def landmarks(disk: ReadOnlyDisk, places: Places, timestamp_us: int) -> list[Landmark]:
    """Return blocks around a time, in order.

    Among them are the last block that begins before it and the first that does not.

    Timestamps never decrease, so few segments have to be opened.
    """
    spans = places.spans
    indexes: dict[int, list[SegmentEntry]] = {}

    def index(at: int) -> list[SegmentEntry]:
        if at not in indexes:
            indexes[at] = read_index(disk, places.id, spans[at])
        return indexes[at]

    def filled(numbers: Iterable[int]) -> list[SegmentEntry]:
        """Return the blocks of the first of these segments that has any."""
        return next((index(at) for at in numbers if index(at)), [])

    def stamp(at: int) -> int:
        found = filled(range(at, len(spans)))
        return found[0].stamp_us if found else places.wal[0].stamp_us if places.wal else timestamp_us

    later = bisect_left(range(len(spans)), timestamp_us, key=stamp)
    after = filled(range(later, len(spans)))
    near = [Landmark(each.base, each.count, each.stamp_us) for each in filled(reversed(range(later))) + after[:1]]
    return near if after else near + [Landmark(each.base, each.records, each.stamp_us) for each in places.wal]


def queue_names(disk: ReadOnlyDisk) -> dict[str, int]:
    """Return the number of each queue by its name."""
    names: dict[str, int] = {}
    for folder in disk.list(QUEUES):
        try:
            with open(disk.path(f"{QUEUES}/{folder}/queue.json"), encoding="utf-8") as file:
                about = json.load(file)
        except (FileNotFoundError, ValueError):
            continue  # not named yet, or just deleted; after a power cut the file may be empty until the broker starts
        # A queue that was deleted and declared anew has a higher number; its old folder may still exist.
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
