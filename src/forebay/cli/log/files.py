"""A survey of every file of a data folder, read from its first byte to its last, with its damage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final

from forebay.cli.log.folder import ReadingDisk
from forebay.core.errors import CorruptFile
from forebay.log.block import BadBlock, check_columns, parse_whole
from forebay.log.columns.parts import check_every_column
from forebay.log.frame import CHECKPOINT, CLEAN, Frame
from forebay.log.recovery.recovery import WalReader
from forebay.log.segment import Segment, SegmentEntry, parse_segment, queue_folder
from forebay.log.wal import FOLDER, wal_path

WAL: Final = "wal"
SEGMENT: Final = "segment"
LEFTOVER: Final = "leftover"  # a file created ahead of use, or by a write that did not finish
READ_OCTETS: Final = 8 << 20

Advance = Callable[[float], None]


@dataclass(slots=True)
class FoundDamage:
    """Damaged bytes in a file. Queue and offsets are None if they cannot be determined."""

    file: str
    position: int
    text: str
    queue: int | None = None
    first: int | None = None
    end: int | None = None

    def said(self) -> str:
        """Return a line about the damage for people."""
        where = "" if self.end is None else f"queue {self.queue}, offsets {self.first} to {self.end - 1}: "
        return f"{self.file}: at octet {self.position}: {where}{self.text}"


@dataclass(slots=True)
class RecordStretch:
    """One queue's records in a file: offsets from `first` to below `end`, of which some may be missing."""

    first: int
    end: int
    blocks: int = 0
    records: int = 0
    octets: int = 0
    first_us: int = 0
    last_us: int = 0

    def add(self, base: int, count: int, octets: int, stamp_us: int) -> None:
        self.first_us = stamp_us if not self.blocks else min(stamp_us, self.first_us)
        self.last_us = max(stamp_us, self.last_us)
        self.first = min(base, self.first)
        self.end = max(base + count, self.end)
        self.blocks += 1
        self.records += count
        self.octets += octets


@dataclass(slots=True)
class FileSummary:
    """The summary of one file.

    path    below the data folder
    frames  number of frames of the write-ahead log, from `first_lsn` to `last_lsn`
    queues  the records in the file, by queue number
    rest    bytes after the last whole frame that are not zero: most likely a write that was never confirmed
    clean   whether the last frame records a clean stop of the broker
    """

    path: str
    kind: str
    octets: int
    queues: dict[int, RecordStretch] = field(default_factory=dict)
    frames: int = 0
    first_lsn: int = 0
    last_lsn: int = 0
    notes: int = 0
    checkpoints: int = 0
    used: int = 0
    rest: int = 0
    clean: bool = False

    def add(self, queue: int, base: int, count: int, octets: int, stamp_us: int) -> None:
        """Add a block of a queue to the summary."""
        if queue not in self.queues:
            self.queues[queue] = RecordStretch(base, base + count)
        self.queues[queue].add(base, count, octets, stamp_us)

    def fields(self) -> dict[str, object]:
        """Return the summary as fields for JSON."""
        return {**asdict(self), "queues": {str(queue): asdict(each) for queue, each in sorted(self.queues.items())}}


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """The position of a block of a queue."""

    path: str
    position: int
    base: int
    count: int
    octets: int
    stamp_us: int


class Survey:
    """A survey of all files of a data folder, and the damage found in them.

    places  every block of the chosen queue
    """

    def __init__(self, disk: ReadingDisk, queue: int | None, advance: Advance) -> None:
        self.disk = disk
        self.queue = queue
        self.files: list[FileSummary] = []
        self.damages: list[FoundDamage] = []
        self.places: list[BlockPlace] = []
        self._advance = advance

    def run(self, whole: bool) -> None:
        """Read the write-ahead log and the segments' indexes. `whole` reads every block of the segments as well."""
        for queue in sorted(int(name) for name in self.disk.list("queues") if name.isdigit()):
            for name in self.disk.list(queue_folder(queue)):
                path = f"{queue_folder(queue)}/{name}"
                if name.endswith(".seg") and self.queue in {None, queue}:
                    self._try(path, lambda path=path: self._segment(path, whole))  # type: ignore[misc]
                elif name.endswith(".tmp"):
                    self._leftover(path)
        names = self.disk.list(FOLDER)
        numbers = [int(name[:-4]) for name in names if name.endswith(".wal") and name[:-4].isdigit()]
        for number in numbers:
            self._try(wal_path(number), lambda number=number: self._wal(number, number == numbers[-1]))  # type: ignore[misc]
        for name in names:
            if name.endswith(".tmp"):
                self._leftover(f"{FOLDER}/{name}")

    def _try(self, path: str, read: Callable[[], None]) -> None:
        try:
            read()
        except CorruptFile as error:
            self.damages.append(damage_of(self.disk, error))

    def _leftover(self, path: str) -> None:
        handle = self.disk.open(path, False)
        self.files.append(FileSummary(path, LEFTOVER, self.disk.size(handle)))
        self.disk.close(handle)

    # ---- segments

    def _segment(self, path: str, whole: bool) -> None:
        handle = self.disk.open(path, False)
        try:
            fields = FileSummary(path, SEGMENT, self.disk.size(handle))
            self.files.append(fields)
            segment = parse_segment(self.disk, path, handle)
            fields.used = fields.octets
            for entry in segment.entries:
                fields.add(segment.queue, entry.base, entry.count, entry.octets, entry.stamp_us)
                self._place(segment.queue, path, entry.position, entry.base, entry.count, entry.octets, entry.stamp_us)
                if whole:
                    self._check(handle, segment, entry)
                    self._advance(entry.octets)
        finally:
            self.disk.close(handle)

    def _check(self, handle: int, segment: Segment, entry: SegmentEntry) -> None:
        """Read one block, and record damage if it differs from the block that was written."""
        octets = self.disk.pread(handle, entry.octets, entry.position)
        try:
            block = parse_whole(octets)
            check_columns(block)
            check_every_column(block)
            if (block.base, block.count) != (entry.base, entry.count):
                raise BadBlock(f"another block stands here: offsets {block.base} to {block.end - 1}")
        except BadBlock as error:
            path = self.disk.path(segment.path)
            end = entry.base + entry.count
            self.damages.append(FoundDamage(path, entry.position, str(error), segment.queue, entry.base, end))

    # ---- the write-ahead log

    def _wal(self, number: int, last: bool) -> None:
        path = wal_path(number)
        handle = self.disk.open(path, False)
        try:
            fields = FileSummary(path, WAL, self.disk.size(handle))
            self.files.append(fields)
            reader = WalReader(self.disk, path, handle, number, last)
            fields.first_lsn = reader.head.first_lsn
            while not self._frames(reader, fields):
                pass  # continue behind damage as long as whole frames follow
            fields.used = reader.position
            fields.last_lsn = reader.lsn
            fields.rest = reader.rest_octets() if last and not self._is_damaged(path) else 0
        finally:
            self.disk.close(handle)

    def _frames(self, reader: WalReader, fields: FileSummary) -> bool:
        """Read frames up to damage or the end. Return False if whole frames follow the damage, else True."""
        before = int(reader.position)
        try:
            while (frame := reader.next()) is not None:
                self._frame(fields, reader.position - frame.octets, frame)
                self._advance(int(reader.position) - before)
                before = int(reader.position)
        except CorruptFile as error:
            self.damages.append(damage_of(self.disk, error))
            found = reader.later_frame()
            if found < 0:
                return True
            after = reader.frame_at(found)
            reader.pass_over(found, after.lsn, after.epoch)
            return False
        return True

    def _frame(self, fields: FileSummary, position: int, frame: Frame) -> None:
        fields.frames += 1
        fields.notes += len(frame.entries)
        fields.checkpoints += frame.flags & CHECKPOINT != 0
        fields.clean = frame.flags & CLEAN != 0
        for block in frame.blocks:
            fields.add(block.queue, block.base, block.count, block.octets, block.stamp_us)
            at = position + block.position
            self._place(block.queue, fields.path, at, block.base, block.count, block.octets, block.stamp_us)

    def _is_damaged(self, path: str) -> bool:
        return any(damage.file == self.disk.path(path) for damage in self.damages)

    def _place(self, queue: int, path: str, position: int, base: int, count: int, octets: int, stamp_us: int) -> None:
        if queue == self.queue:
            self.places.append(BlockPlace(path, position, base, count, octets, stamp_us))


def damage_of(disk: ReadingDisk, error: CorruptFile) -> FoundDamage:
    """Return the damage that an error of the log's reader describes."""
    return FoundDamage(
        error.path, error.position, str(error).removeprefix(f"{error.path}: at octet {error.position}: ")
    )


def octets_in(disk: ReadingDisk) -> int:
    """Return the bytes of all segments and WAL files."""
    paths = [f"{FOLDER}/{name}" for name in disk.list(FOLDER) if name.endswith(".wal")]
    for queue in disk.list("queues"):
        paths += [f"queues/{queue}/{name}" for name in disk.list(f"queues/{queue}") if name.endswith(".seg")]
    total = 0
    for path in paths:
        handle = disk.open(path, False)
        total += disk.size(handle)
        disk.close(handle)
    return total
