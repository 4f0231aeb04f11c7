"""A copy of a store's files, for a member that lacks frames which no WAL file holds any more.

The leader keeps its files unchanged while the copy is under way (`Snapshot`). The learner's folder is marked as being
copied before any of its files are touched. The mark is removed once all files are on its disk and checked. A folder
whose copy was not finished counts as a new, empty store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from forebay.core.errors import CorruptFile, StorageError
from forebay.core.ports import Disk, Random
from forebay.log.block import BadBlock, read_block
from forebay.log.folder.identity import StoreIdentity, new_identity, read_identity, write_identity
from forebay.log.folder.inventory import NAME as INVENTORY
from forebay.log.folder.inventory import Inventory, write_inventory
from forebay.log.folder.manifest import NAME as MANIFEST
from forebay.log.folder.manifest import Manifest, write_manifest
from forebay.log.frame import FILE_HEAD_OCTETS
from forebay.log.segment import read_segment
from forebay.log.wal import FOLDER, GatheredFrame, WalFile, wal_path

QUEUES: Final = "queues"
WAL_NAME: Final = re.compile(r"wal/[0-9]{16}\.wal")
SEGMENT_NAME: Final = re.compile(r"queues/([0-9]{1,10})/[0-9]{20}\.seg")


class BadCopy(StorageError):
    """Files from another node are damaged or incomplete. The copy has to begin anew."""


class SnapshotEnded(StorageError):
    """The files may have changed since the snapshot was taken."""


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A file to copy, up to a length of `octets` bytes."""

    path: str
    octets: int


class Snapshot:
    """A store's files as they are, to be read on any thread until `Store.release`.

    files      segments, then WAL files, the oldest first
    end        LSN of the last frame in them
    inventory  the inventory to write with the copy
    is_over    the files may change: the leader's disk is full, or the snapshot was released
    """

    def __init__(self, disk: Disk, files: list[SnapshotFile], end: int, inventory: Inventory) -> None:
        self.disk = disk
        self.files = files
        self.end = end
        self.inventory = inventory
        self.is_over = False
        self.lengths = {file.path: file.octets for file in files}

    def read(self, path: str, position: int, octets: int) -> bytes:
        """Return bytes of a file, fewer only at its end.

        Raises SnapshotEnded, UnreadableFile, and BadCopy for a range that is not part of the copy.
        """
        length = self.lengths.get(path)
        if length is None or position < 0 or octets < 0:
            raise BadCopy(f"{path}: octets {position} to {position + octets} are no part of the copy")
        handle = self.disk.open(path, False)
        try:
            found = self.disk.pread(handle, max(0, min(octets, length - position)), position)
        finally:
            self.disk.close(handle)
        if self.is_over:  # checked after reading, as the file may have changed before
            raise SnapshotEnded(f"{self.disk.path(path)}: the copy of the files was given up")
        return found


def written_tails(wals: list[WalFile], frames: list[GatheredFrame]) -> dict[int, int]:
    """Return where each WAL file with a frame on the disk ends, by number, without the frames in `frames`."""
    tails = {wal.head.number: wal.tail for wal in wals}
    for frame in frames:
        number = frame.file.head.number
        tails[number] = min(tails[number], frame.position)
    return {number: tail for number, tail in tails.items() if tail > FILE_HEAD_OCTETS}


class FolderCopy:
    """A learner's folder while it is filled. No store may be open on it.

    identity  new identity of the folder
    """

    def __init__(self, disk: Disk, identity: StoreIdentity) -> None:
        self.disk = disk
        self.identity = identity
        self.written: dict[str, int] = {}

    def copy(self, path: str, position: int, octets: bytes) -> None:
        """Write bytes to a file, in order from its beginning. Raises BadCopy or DiskFull."""
        segment = SEGMENT_NAME.fullmatch(path)
        if segment is None and not WAL_NAME.fullmatch(path):
            raise BadCopy(f"{path!r} is no file of a store")
        if position != self.written.get(path, 0):
            raise BadCopy(f"{path}: octets from {position} follow {self.written.get(path, 0)}")
        self.disk.make_folder(path.rpartition("/")[0])
        handle = self.disk.open(path, True)
        try:
            self.disk.pwrite(handle, [octets], position)
            self.written[path] = position + len(octets)
        finally:
            self.disk.close(handle)

    def finish(self, inventory: Inventory, files: list[SnapshotFile]) -> None:
        """Check and sync all files, and make the folder ready for a store to open. Raises BadCopy."""
        for file in files:
            if self.written.get(file.path) != file.octets:
                raise BadCopy(f"{file.path}: {self.written.get(file.path, 0)} octets of {file.octets} have come")
        if set(self.written) != {file.path for file in files}:
            raise BadCopy(f"{min(set(self.written) - {file.path for file in files})}: is no file of the copy")
        folders = {FOLDER}
        for path in self.written:
            self.check(path)
            folders.add(path.rpartition("/")[0])
        numbers = [int(path[4:-4]) for path in self.written if path.startswith(f"{FOLDER}/")]
        missing = set(inventory.wals) - set(numbers)
        if missing:
            raise BadCopy(f"{wal_path(min(missing))} is missing")
        for folder in sorted(folders):
            self.disk.make_folder(folder)
            self.disk.sync_names(folder)
        if self.disk.list(QUEUES):
            self.disk.sync_names(QUEUES)
        write_inventory(self.disk, inventory)
        write_manifest(self.disk, Manifest(max(inventory.wals, default=0), inventory.floor, False))
        self.identity = replace(self.identity, copying=False)
        write_identity(self.disk, self.identity)

    def check(self, path: str) -> None:
        """Sync a file, and check every block if it is a segment. A WAL file is checked when the store opens it."""
        handle = self.disk.open(path, False)
        try:
            self.disk.sync(handle)
            if path.startswith(f"{QUEUES}/"):
                for entry in read_segment(self.disk, path).entries:
                    block = read_block(self.disk, handle, entry.position, entry.octets)
                    if (block.base, block.count) != (entry.base, entry.count):
                        raise BadBlock(f"another block stands at octet {entry.position}")
        except (BadBlock, CorruptFile) as error:
            raise BadCopy(f"{path}: it has not come as it was sent: {error}") from error
        finally:
            self.disk.close(handle)


def begin_copy(disk: Disk, random: Random) -> FolderCopy:
    """Empty the folder to fill it with a copy. It becomes a new store that keeps the promised epoch and the group."""
    before = read_identity(disk)
    promised = 0 if before is None else before.promised
    group = "" if before is None else before.group
    identity = replace(new_identity(random), promised=promised, copying=True, group=group)
    write_identity(disk, identity)
    clear(disk)
    return FolderCopy(disk, identity)


def begin_empty(disk: Disk, random: Random) -> StoreIdentity:
    """Empty the folder and make it a new store, because its log is of no use or a copy was not finished."""
    copy = begin_copy(disk, random)
    copy.finish(Inventory(0, (), ()), [])
    return copy.identity


def clear(disk: Disk) -> None:
    """Remove all files of a store but its identity, durably: the log before the files that say it must be there."""
    for name in disk.list(FOLDER):
        disk.remove(f"{FOLDER}/{name}")
    disk.remove_folders([f"{QUEUES}/{name}" for name in disk.list(QUEUES)])
    for name in disk.list(""):
        if name.removesuffix(".tmp") in (MANIFEST, INVENTORY):
            disk.remove(name)
    disk.make_folder(FOLDER)
    disk.sync_names(FOLDER)
    disk.sync_names("")
