"""A disk in memory that loses what was not synced, has no more room, or fails, when a simulation says so.

What a crash may leave of files and folders is that of `tests/crash/power.py`: of writes that were not synced any of
their sectors of 512 octets, later ones without earlier ones, and of names that were not synced with their folder the
first few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from forebay.core.errors import DiskFull, StorageError, UnreadableFile
from forebay.core.ports import Disk
from tests.crash.power import RESERVE, TRUNCATE, WRITE, File, Folder, put

ROOM: Final = 1 << 40
Parts = list[bytes]  # `Disk.list` would shadow the type in the class


class PowerCut(StorageError):
    """The machine stops in the middle of what was being done to the disk."""


@dataclass(slots=True)
class SimFile(File):
    """A file, and beside what is on the disk for good what a reader sees now."""

    now: bytearray = field(default_factory=bytearray)

    def do(self, kind: bytes, position: int, data: bytes) -> None:
        put(self.now, kind, position, data)
        self.undone.append((kind, position, data))


class SimDisk(Disk):
    """Files and folders in memory.

    octets_max    there is room for so much
    changes_left  so many more changes, then PowerCut; None for no end
    syncs_left    so many more syncs, then they fail; None for no end
    lies          planted: a sync says that it is done, and nothing is
    changes       done so far
    """

    def __init__(self) -> None:
        self.root = Folder()
        self.root.sync()
        self.handles: dict[int, tuple[str, SimFile]] = {}
        self.nameless: set[int] = set()
        self.next_handle = 3
        self.octets_max = ROOM
        self.changes_left: int | None = None
        self.syncs_left: int | None = None
        self.lies = False
        self.changes = 0

    # ---- faults

    def crash(self, chance: Random) -> None:
        """The power goes: only what was synced is there for sure."""
        self.root = lost(self.root, chance)
        self.forget()

    def forget(self) -> None:
        """The process is gone, and the system lives: all that was written is there, and perhaps not on the disk."""
        self.handles.clear()
        self.nameless.clear()
        self.changes_left = None
        self.syncs_left = None

    def change(self) -> None:
        self.changes += 1
        if self.changes_left is not None:
            self.changes_left -= 1
            if self.changes_left < 0:
                raise PowerCut("the power is cut")

    def used(self) -> int:
        """Octets in all files."""
        return octets_in(self.root)

    def files(self) -> list[str]:
        """The paths of all files."""
        return paths_in(self.root, "")

    def check(self, more: int) -> None:
        if more > 0 and self.octets_max < ROOM and self.used() + more > self.octets_max:
            raise DiskFull(f"the simulated disk has no room for {more} octets")

    # ---- names

    def folder(self, path: str) -> Folder | None:
        found: File | Folder = self.root
        for name in path.split("/") if path else []:
            inner = found.names.get(name) if isinstance(found, Folder) else None
            if inner is None:
                return None
            found = inner
        assert isinstance(found, Folder), path
        return found

    def parent(self, path: str) -> tuple[Folder, str]:
        above, _, name = path.rpartition("/")
        folder = self.folder(above)
        if folder is None:
            raise UnreadableFile(f"{path}: cannot open: its folder is not there")
        return folder, name

    def list(self, folder: str) -> list[str]:
        found = self.folder(folder)
        return sorted(found.names) if found is not None else []

    def make_folder(self, folder: str) -> None:
        self.change()
        at = self.root
        for name in folder.split("/"):
            inner = at.names.get(name)
            if inner is None:
                inner = Folder()
                at.change((name, inner))
                at.sync()
            assert isinstance(inner, Folder)
            at = inner

    def sync_names(self, folder: str) -> None:
        self.change()
        found = self.folder(folder)
        assert found is not None, folder
        found.sync()

    def remove_folders(self, folders: Sequence[str]) -> None:
        parents: list[Folder] = []
        for folder in folders:
            found = self.folder(folder)
            if found is None:
                continue
            for name in list(found.names):
                self.change()
                found.change((name, None))
            self.change()
            above, name = self.parent(folder)
            above.change((name, None))
            parents.append(above)
        for above in parents:
            above.sync()

    def put_files(self, files: Sequence[tuple[str, bytes]]) -> None:
        parents: list[Folder] = []
        for path, octets in files:
            above = path.rpartition("/")[0]
            folder = self.folder(above)
            if folder is None:
                outer = above.rpartition("/")[0]
                self.make_folder(outer)
                self.change()
                folder = Folder()
                around = self.folder(outer)
                assert around is not None
                around.change((above.rpartition("/")[2], folder))
                parents.append(around)
            name = path.rpartition("/")[2]
            there = folder.names.get(name)
            if isinstance(there, SimFile) and there.now == octets:
                continue
            self.change()
            self.check(len(octets))
            made = SimFile()
            made.do(WRITE, 0, octets)
            folder.change((name, made))
        for around in parents:
            around.sync()

    def rename(self, old: str, new: str) -> None:
        self.change()
        folder, name = self.parent(old)
        where, new_name = self.parent(new)
        assert where is folder
        if name not in folder.names:
            raise StorageError(f"{old}: cannot rename: there is no such file")
        folder.change((name, None), (new_name, folder.names[name]))
        self.change()  # the power may go before the folder is synced
        folder.sync()

    def remove(self, path: str) -> None:
        self.change()
        folder, name = self.parent(path)
        if name not in folder.names:
            raise StorageError(f"{path}: cannot remove: there is no such file")
        folder.change((name, None))

    def path(self, path: str) -> str:
        return f"/simulated/{path}"

    # ---- files

    def open(self, path: str, create: bool) -> int:
        folder, name = self.parent(path)
        there = folder.names.get(name)
        is_new = there is None
        if is_new:
            if not create:
                raise UnreadableFile(f"{path}: cannot open: there is no such file")
            self.change()
            there = SimFile()
            folder.change((name, there))
        assert isinstance(there, SimFile), path
        return self.take(path, there, is_new)

    def take(self, path: str, file: SimFile, nameless: bool) -> int:
        handle = self.next_handle
        self.next_handle += 1
        self.handles[handle] = (path, file)
        if nameless:
            self.nameless.add(handle)
        return handle

    def file(self, handle: int) -> SimFile:
        return self.handles[handle][1]

    def close(self, handle: int) -> None:
        self.nameless.discard(handle)
        del self.handles[handle]

    def size(self, handle: int) -> int:
        return len(self.file(handle).now)

    def pread(self, handle: int, octets: int, position: int) -> bytes:
        return bytes(self.file(handle).now[position : position + octets])

    def pwrite(self, handle: int, parts: Parts, position: int) -> None:
        self.change()
        data = b"".join(parts)
        file = self.file(handle)
        self.check(position + len(data) - len(file.now))
        file.do(WRITE, position, data)

    def sync(self, handle: int) -> None:
        self.change()
        path, file = self.handles[handle]
        if self.syncs_left is not None:
            self.syncs_left -= 1
            if self.syncs_left < 0:
                raise StorageError(f"{path}: cannot sync: Input/output error")
        if self.lies:
            return
        file.sync()
        if handle in self.nameless:
            self.change()
            self.parent(path)[0].sync()
            self.nameless.discard(handle)

    def reserve(self, handle: int, octets: int) -> None:
        self.change()
        file = self.file(handle)
        if octets > len(file.now):
            self.check(octets - len(file.now))
            file.do(RESERVE, octets, b"")

    def duplicate(self, handle: int) -> int:
        return self.take(*self.handles[handle], False)

    def truncate(self, handle: int, octets: int) -> None:
        self.change()
        file = self.file(handle)
        file.do(TRUNCATE, octets, b"")


def octets_in(folder: Folder) -> int:
    total = 0
    for each in folder.names.values():
        total += octets_in(each) if isinstance(each, Folder) else len(each.now) if isinstance(each, SimFile) else 0
    return total


def paths_in(folder: Folder, above: str) -> list[str]:
    found: list[str] = []
    for name, each in folder.names.items():
        found += paths_in(each, f"{above}{name}/") if isinstance(each, Folder) else [above + name]
    return found


def lost(folder: Folder, chance: Random) -> Folder:
    """The part of a folder that is left when the power has gone."""
    names: dict[str, File | Folder] = {}
    for name, each in folder.loose(chance).items():
        if isinstance(each, Folder):
            names[name] = lost(each, chance)
        else:
            content = each.loose(chance)
            names[name] = SimFile(content, [], bytearray(content))
    return Folder(dict(names), names)
