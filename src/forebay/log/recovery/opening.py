"""Opens a store's folder: reads the segments and the write-ahead log, and checks them before anything is changed."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import CorruptFile
from forebay.core.ports import Disk
from forebay.log.block_files import BlockFile
from forebay.log.folder.identity import check_whole
from forebay.log.folder.inventory import Inventory, read_inventory
from forebay.log.folder.manifest import Manifest, read_manifest
from forebay.log.folder.required import MissingFile, Required, check_newest, check_reached
from forebay.log.frame import DROPPED, FILE_HEAD_OCTETS
from forebay.log.logs import Logs
from forebay.log.recovery.recovery import WalReader
from forebay.log.recovery.replay import FrameReplay
from forebay.log.segment import Segment, queue_folder
from forebay.log.stored import Recovery
from forebay.log.wal import FOLDER, WalFile, wal_path

QUEUES: Final = "queues"


class Opening:
    """One pass over all files of a folder.

    logs       get the blocks that are found
    manifest   as it is; None in a new folder
    inventory  as it is; None where the log itself says what must be there
    wals       oldest first
    lsn        of the last frame
    segments   found, by queue; includes queues that the log has deleted since
    """

    def __init__(self, disk: Disk, logs: Logs) -> None:
        self.disk = disk
        self.logs = logs
        self.manifest: Manifest | None = None
        self.inventory: Inventory | None = None
        self.wals: list[WalFile] = []
        self.lsn = 0
        self.segments: dict[int, list[Segment]] = {}
        self.replay = FrameReplay(logs)
        self.required = Required()
        self.report: list[str] = []

    def run(self) -> Recovery:
        """Read all files. Raises CorruptFile, and changes nothing, if any of them is not as it was written."""
        check_whole(self.disk)
        self.manifest = read_manifest(self.disk)
        self.inventory = read_inventory(self.disk)
        for name in self.disk.list(QUEUES):
            if name.isdigit():
                queue = int(name)
                self.logs.open_segments(queue, self.report)
                self.segments[queue] = [each.segment for each in self.logs.stored[queue].segments]
        names = self.disk.list(FOLDER)
        numbers = [int(name[:-4]) for name in names if name.endswith(".wal") and name[:-4].isdigit()]
        reader: WalReader | None = None
        for number in numbers:
            reader = self.read_wal(number, number == numbers[-1])
        self.check_files(numbers)
        self.sync_names()
        self.logs.leftover += [f"{FOLDER}/{name}" for name in names if name.endswith(".tmp")]
        self.logs.remove_leftover()
        if reader is not None:
            self.cut_tail(reader)
        self.replay.finish()
        return Recovery(
            self.replay.entries, {queue: stored.log for queue, stored in self.logs.stored.items()}, self.report
        )

    def read_wal(self, number: int, last: bool) -> WalReader:
        """Replay all frames of a WAL file, and return its reader."""
        path = wal_path(number)
        handle = self.disk.open(path, False)
        reader = WalReader(self.disk, path, handle, number, last)
        if self.wals and self.wals[-1].head.number == number - 1 and reader.head.first_lsn != self.lsn + 1:
            text = f"the file begins with frame {reader.head.first_lsn}, the one before it ends before {self.lsn + 1}"
            raise CorruptFile(self.disk.path(path), 24, text)
        file = BlockFile(number, path, handle, True)
        self.logs.files.add(file)
        wal = WalFile(reader.head, file, FILE_HEAD_OCTETS, 0, True, 0)
        while (frame := reader.next()) is not None:
            position = reader.position - frame.octets
            wal.mark(int(frame.lsn), int(position))
            self.replay.take(frame, position, file)
        wal.epoch = int(reader.epoch)
        wal.last = int(reader.lsn)
        wal.tail = wal.reserved = int(reader.position)
        wal.full = True
        self.wals.append(wal)
        self.lsn = int(reader.lsn)
        return reader

    def check_files(self, numbers: list[int]) -> None:
        """Raise CorruptFile if a file that must be there is missing, or the log ends too early."""
        self.note_required()
        check_newest(self.disk, self.manifest, numbers, any(self.segments.values()))
        missing = self.required.missing(self.disk, self.segments, numbers)
        if len(missing) > 1:
            several = MissingFile(missing[0].path, f"{missing[0].text}; and {len(missing) - 1} more")
            several.paths = [each.path for each in missing]
            raise several
        if missing:
            raise missing[0]
        if self.wals:
            check_reached(self.disk, self.manifest, numbers[-1], self.wals[-1].tail, self.lsn)

    def note_required(self) -> None:
        """Collect which files must be there, from the log or from the inventory."""
        self.required.clear()
        for entry in self.replay.files:
            if entry.kind == DROPPED:
                self.required.forget(entry.queue)
            else:
                self.required.take(entry)
        if self.inventory is not None:
            self.required.set(self.inventory)

    def dropped(self) -> list[int]:
        """Return the queues that have a folder but whose log is deleted."""
        return [queue for queue in self.segments if queue not in self.logs.stored]

    def sync_names(self) -> None:
        """Sync the folders of the segments found, before the log names these segments as required.

        A process killed between renaming a file and syncing its folder leaves a name that a power cut may still remove.
        """
        if self.manifest is not None and self.manifest.clean:
            return
        queues = [queue for queue, stored in self.logs.stored.items() if stored.segments]
        if self.disk.list(QUEUES):
            self.disk.sync_names(QUEUES)
        for queue in queues:
            self.disk.sync_names(queue_folder(queue))

    def cut_tail(self, reader: WalReader) -> None:
        """Truncate the last WAL file after its last whole frame, and report the bytes that were not zero."""
        rest = reader.rest_octets()
        if rest:
            at = f"octet {reader.position}, after frame {reader.lsn}"
            why = "no whole frame: a write that was never confirmed, unless the disk has spoilt one that was"
            self.report.append(f"{reader.full_path}: cut {rest} octets at {at}, {why}")
        self.disk.truncate(reader.handle, reader.position)
        self.disk.sync(reader.handle)
