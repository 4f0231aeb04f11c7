"""The store's work in the background: files removed, and files rewritten as segments.

A rewrite copies the records of a full WAL file, or of segments, that are still needed into new segments. It reads files
that do not change and writes files that nothing else knows, so it shares no state with the event loop. Only
`Store.done` takes its result. A crash at any moment leaves the old files, the new ones, or both. A segment says which
offsets it stands for, so that recovery takes the newer of two copies.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final

from forebay.core.errors import DiskFull, UnreadableFile
from forebay.core.ports import Disk
from forebay.log.block import BadBlock, Block, parse_whole
from forebay.log.block_files import BlockFile
from forebay.log.folder.inventory import Inventory, write_inventory
from forebay.log.folder.manifest import Manifest, write_manifest
from forebay.log.queue_log import BlockIndex, QueueLog
from forebay.log.segment import Merger, Segment, SegmentWriter, queue_folder

HOLE_OCTETS_MIN: Final = 16 << 10  # records not needed are copied, too, if leaving them out saves less than this


class Liveness(ABC):
    """Tells which records of the logs may still be needed."""

    @abstractmethod
    def live(self, queue: int, first: int, end: int) -> list[tuple[int, int]]:
        """Return the intervals of offsets within [first, end) that are still needed, ascending."""


class Stopped(Exception):
    """A rewrite was stopped before it was finished."""


@dataclass(slots=True)
class Rewrite:
    """One log's part in a job.

    entries  blocks to read
    files    the files that hold them, by file number
    wanted   intervals of offsets to keep
    first    the new segments stand for the offsets from here to `end`
    whole    all into one segment, for a segment may only be replaced by one that stands for all of it
    damaged  first offset and fault of each block that could not be read: they are copied as they are

    Another thread may set `stopped`. The rewrite then ends soon, raises Stopped and removes the segment it had begun.
    """

    log: QueueLog
    entries: BlockIndex
    files: dict[int, BlockFile]
    wanted: list[tuple[int, int]]
    first: int
    end: int
    whole: bool
    made: list[Segment] = field(default_factory=list)
    damaged: list[tuple[int, str]] = field(default_factory=list)
    finished: bool = False
    stopped: bool = False

    def left_out(self) -> list[tuple[int, int]]:
        """Return the intervals of offsets to leave out, which were not needed when the rewrite was planned."""
        found: list[tuple[int, int]] = []
        at = self.first
        for first, end in self.wanted:
            if first > at:
                found.append((at, first))
            at = max(at, end)
        return [*found, (at, self.end)] if at < self.end else found

    def run(self, disk: Disk, segment_octets_max: int) -> None:
        opened: list[int] = []
        handles: dict[int, int] = {}
        try:
            for number, file in self.files.items():
                try:
                    handles[number] = disk.open(file.path, False)
                    opened.append(handles[number])
                except UnreadableFile:
                    handles[number] = file.handle  # the file was removed from outside, but its open handle still reads
            self.copy(disk, handles, segment_octets_max)
        finally:
            for handle in opened:
                disk.close(handle)
        self.finished = True

    def copy(self, disk: Disk, handles: dict[int, int], segment_octets_max: int) -> None:
        merger = Merger()
        writer = SegmentWriter(disk, self.log.queue, self.first) if self.wanted else None
        next_wanted = 0
        try:
            for at in range(self.entries.size()):
                base = int(self.entries.bases[at])
                end = int(self.entries.end(at))
                while next_wanted < len(self.wanted) and self.wanted[next_wanted][1] <= base:
                    next_wanted += 1
                if next_wanted == len(self.wanted) or writer is None:
                    break
                if self.wanted[next_wanted][0] >= end:
                    continue
                if self.stopped:
                    raise Stopped
                read = self.octets_at(disk, handles, at)
                block = self.parsed(at, read)
                if block is None:
                    writer.add_all(merger.rest())
                    writer.add_damaged(base, int(self.entries.stamps[at]), end - base, read)
                    continue
                octets = writer.position + merger.writer.octets() + block.octets()
                if octets > segment_octets_max and writer.entries and not self.whole:
                    # Split only between two source blocks, because no block may be in two segments.
                    writer.add_all(merger.rest())
                    self.made.append(writer.finish(base))
                    writer = SegmentWriter(disk, self.log.queue, base)
                hole = max(1, HOLE_OCTETS_MIN * int(block.count) // int(block.octets()))
                for first, last in joined(self.wanted, next_wanted, base, end, hole):
                    writer.add_all(merger.add(block, first - base, last - first))
            if writer is not None:
                writer.add_all(merger.rest())
                self.made.append(writer.finish(self.end))
        except (DiskFull, Stopped):
            if writer is not None:
                writer.abandon()
            raise

    def octets_at(self, disk: Disk, handles: dict[int, int], at: int) -> bytes:
        """Read the bytes of the block at an index entry. Returns zeros for bytes that the disk cannot read."""
        entries = self.entries
        octets = int(entries.octets[at])
        try:
            read = disk.pread(handles[entries.files[at]], octets, entries.positions[at])
        except UnreadableFile:
            read = b""
        return read + bytes(octets - len(read))

    def parsed(self, at: int, octets: bytes) -> Block | None:
        """Return the block that `octets` hold. Returns None, and adds to `damaged`, if they are not as written."""
        entries = self.entries
        try:
            block = parse_whole(octets)
            if block.base != entries.bases[at] or block.count != entries.counts[at]:
                raise BadBlock(f"another block stands here: offsets {block.base} to {block.end - 1}")
        except BadBlock as error:
            self.damaged.append((int(entries.bases[at]), str(error)))
            return None
        return block


def joined(wanted: list[tuple[int, int]], at: int, base: int, end: int, hole: int) -> list[tuple[int, int]]:
    """Return the parts of `wanted` within [base, end), from number `at` on. Fills holes shorter than `hole`."""
    out: list[tuple[int, int]] = []
    while at < len(wanted) and wanted[at][0] < end:
        first = max(base, wanted[at][0])
        last = min(end, wanted[at][1])
        if out and first - out[-1][1] < hole:
            out[-1] = (out[-1][0], last)
        else:
            out.append((first, last))
        at += 1
    return out


def merged(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of these intervals, ascending."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(intervals):
        if found and first <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((first, end))
    return found


@dataclass(slots=True)
class Job:
    """Background work. Call `run` on another thread, then `Store.done` on the loop.

    manifest      new content of the manifest, or None
    inventory     new content of the inventory, or None; written before any rewrite begins, then `inventory_written`
    remove        files that are not needed any more
    drop          queues of deleted logs, whose folders to remove
    name          logs whose folder does not hold the queue's name yet; the folders are made with the names
    names_written  these names are on the disk
    folders       logs that must have a folder, though this node does not know their name
    spare         path and length of a WAL file to make ahead, or None
    """

    disk: Disk
    segment_octets_max: int
    manifest: Manifest | None = None
    remove: list[str] = field(default_factory=list)
    drop: list[int] = field(default_factory=list)
    name: list[QueueLog] = field(default_factory=list)
    spare: tuple[str, int] | None = None
    spare_handle: int = -1
    rewrites: list[Rewrite] = field(default_factory=list)
    full: bool = False
    inventory: Inventory | None = None
    inventory_written: bool = False
    names_written: bool = False
    folders: list[int] = field(default_factory=list)

    def has_work(self) -> bool:
        """Return whether the job has anything to do."""
        return bool(
            self.manifest or self.inventory or self.remove or self.drop or self.name or self.spare or self.rewrites
        )

    def run(self) -> None:
        for path in self.remove:
            self.disk.remove(path)
        self.disk.remove_folders([queue_folder(queue) for queue in self.drop])
        try:
            if self.inventory is not None:  # first: it has room reserved, and files it no longer names give more
                write_inventory(self.disk, self.inventory)
                self.inventory_written = True
            if self.manifest is not None:
                write_manifest(self.disk, self.manifest)
            self.write_names()
            for queue in self.folders:
                self.disk.make_folder(queue_folder(queue))
            self.make_spare()
            for rewrite in self.rewrites:
                if rewrite.stopped:
                    break
                rewrite.run(self.disk, self.segment_octets_max)
        except DiskFull:
            self.full = True  # finished segments stay; the rest is tried again later
        except Stopped:
            pass  # as with a full disk, but the rest is not tried again before the next start

    def rewrites_log(self, queue: int) -> bool:
        """Return whether the job rewrites a file of this queue's log."""
        return any(rewrite.log.queue == queue for rewrite in self.rewrites)

    def stop(self) -> None:
        """Make the job end soon, because the broker stops and many queues may leave minutes of work."""
        for rewrite in self.rewrites:
            rewrite.stopped = True

    def write_names(self) -> None:
        """Write each log's queue name into its folder, for tools that read the files from outside.

        Each start writes the names that are missing, and the broker itself does not need them. So these files are not
        synced one by one, which would hold up the write-ahead log on the same disk.
        """
        files: list[tuple[str, bytes]] = []
        for log in self.name:
            about = json.dumps({"name": log.name, "id": log.queue}) + "\n"
            files.append((f"{queue_folder(log.queue)}/queue.json", about.encode()))
        self.disk.put_files(files)
        self.names_written = True

    def make_spare(self) -> None:
        if self.spare is None:
            return
        path, octets = self.spare
        handle = self.disk.open(path, True)
        try:
            self.disk.reserve(handle, octets)
        except DiskFull:
            self.disk.close(handle)
            self.disk.remove(path)
            raise
        self.spare_handle = handle

    def sources(self) -> list[BlockFile]:
        """Return the files that the job's rewrites read."""
        return [file for rewrite in self.rewrites for file in rewrite.files.values()]
