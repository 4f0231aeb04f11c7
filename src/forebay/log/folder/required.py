"""The files that must be there, according to the write-ahead log, or to the inventory if there is one.

Each checkpoint names all segments and WAL files, and notes after it say what has changed. A segment is named once it is
on the disk. A file is removed only when a note on the disk no longer names it. So a file that is named and missing was
removed from outside.
"""

from __future__ import annotations

import struct
from typing import Final

from forebay.core.errors import CorruptFile
from forebay.core.ports import Disk
from forebay.log.folder.inventory import Inventory
from forebay.log.folder.manifest import NAME, Manifest
from forebay.log.frame import SEGMENTS, WALS, FrameEntry
from forebay.log.segment import Segment, segment_path
from forebay.log.stored_log import StoredLog
from forebay.log.wal import wal_path

SPAN: Final = struct.Struct("<qq")
SPAN_OCTETS: Final = SPAN.size
NUMBER: Final = struct.Struct("<q")
NUMBER_OCTETS: Final = NUMBER.size


class MissingFile(CorruptFile):
    """A file that must be there is missing."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(path, 0, text)
        self.text = text
        self.paths = [path]  # of all missing files
        self.args = (f"{path}: this file is missing: {text}",)


class Required:
    """The files and segments that must be there, according to the frames read so far.

    segments  for each queue the (first, end) offsets of its segments
    wals      numbers of WAL files
    """

    def __init__(self) -> None:
        self.segments: dict[int, list[tuple[int, int]]] = {}
        self.wals: list[int] = []

    def set(self, inventory: Inventory) -> None:
        """Replace the contents by those of an inventory."""
        self.clear()
        self.wals = list(inventory.wals)
        for queue, first, end in inventory.segments:
            self.segments.setdefault(queue, []).append((first, end))

    def clear(self) -> None:
        """Remove all files, as a checkpoint names them anew."""
        self.segments = {}
        self.wals = []

    def take(self, entry: FrameEntry) -> None:
        """Apply a SEGMENTS or WALS entry, which replaces the earlier one."""
        if entry.kind == SEGMENTS:
            self.segments[entry.queue] = list(SPAN.iter_unpack(entry.payload))
        else:
            assert entry.kind == WALS
            self.wals = [number for (number,) in NUMBER.iter_unpack(entry.payload)]

    def forget(self, queue: int) -> None:
        """Remove the segments of a queue whose log is deleted."""
        self.segments.pop(queue, None)

    def missing(self, disk: Disk, found: dict[int, list[Segment]], wals: list[int]) -> list[MissingFile]:
        """Return an error for each file that is missing.

        found  the segments that are there, by queue
        wals   numbers of the WAL files that are there
        """
        errors = [
            MissingFile(disk.path(wal_path(number)), "it is of the write-ahead log, and what it has is nowhere else")
            for number in self.wals
            if number not in wals
        ]
        for queue, spans in sorted(self.segments.items()):
            there = sorted((segment.first, segment.end) for segment in found.get(queue, []))
            at = 0
            for first, end in sorted(spans):
                while at < len(there) and there[at][1] <= first:
                    at += 1
                if at == len(there) or there[at][0] > first or there[at][1] < end:
                    path = disk.path(segment_path(queue, first))
                    errors.append(MissingFile(path, f"it has queue {queue}, offsets {first} to {end - 1}"))
        return errors


def segments_payload(stored: StoredLog) -> bytes:
    """Return the payload of a log's SEGMENTS entry."""
    return b"".join(SPAN.pack(each.segment.first, each.segment.end) for each in stored.segments)


def wals_payload(numbers: list[int]) -> bytes:
    """Return the payload of a WALS entry."""
    return b"".join(NUMBER.pack(number) for number in numbers)


def check_newest(disk: Disk, manifest: Manifest | None, wals: list[int], has_segments: bool) -> None:
    """Raise MissingFile if the manifest, or the newest WAL file that it names, is missing."""
    newest = wals[-1] if wals else 0
    if manifest is None:
        if wals or has_segments:
            raise MissingFile(disk.path(NAME), "it says how far the write-ahead log goes")
    elif newest < manifest.wal:
        raise MissingFile(disk.path(wal_path(manifest.wal)), "it is the newest of the write-ahead log")


def check_reached(disk: Disk, manifest: Manifest | None, number: int, position: int, lsn: int) -> None:
    """Raise CorruptFile if the log ends before the frame that the manifest names.

    number, position  the newest WAL file, and where it ends
    lsn               of its last frame
    """
    if manifest is None or lsn >= manifest.lsn:
        return
    when = "when the broker was stopped" if manifest.clean else "when this file was begun"
    lost = f"frames {lsn + 1} to {manifest.lsn} were on the disk {when}, and are not there any more"
    raise CorruptFile(disk.path(wal_path(number)), position, lost)
