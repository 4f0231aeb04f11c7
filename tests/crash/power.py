"""What a disk may hold after a power cut, by the journal of everything that was done to it (journal.c).

Two models. A disk that keeps the order has done everything up to some operation, of which it may have done a part. Any
other disk has done what was synced, and of the rest what it pleased: sectors of writes, and names as far as one folder
after the other has them; a folder keeps the order of its own names, but knows them for good only once it is synced.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

HEAD: Final = struct.Struct("<cHqI")
SECTOR: Final = 512
CREATE: Final = b"c"
WRITE: Final = b"w"
TRUNCATE: Final = b"t"
RESERVE: Final = b"a"
SYNC: Final = b"s"
RENAME: Final = b"r"
UNLINK: Final = b"u"
MAKE_FOLDER: Final = b"m"
REMOVE_FOLDER: Final = b"d"
NOT_DATA: Final = ("LOCK",)  # files that hold nothing


@dataclass(frozen=True, slots=True)
class Operation:
    """One record of the journal, which ends at octet `end` of it."""

    kind: bytes
    path: str
    position: int
    data: bytes
    end: int


def read_journal(path: Path) -> list[Operation]:
    """Every operation in its order; a record that is being written counts as not begun."""
    octets = path.read_bytes()
    found: list[Operation] = []
    at = 0
    while at + HEAD.size <= len(octets):
        kind, path_octets, position, data_octets = HEAD.unpack_from(octets, at)
        name = at + HEAD.size
        end = name + path_octets + data_octets
        if end > len(octets):
            break
        data = octets[name + path_octets : end]
        found.append(Operation(kind, octets[name : name + path_octets].decode(), position, data, end))
        at = end
    return found


def put(content: bytearray, kind: bytes, position: int, data: bytes) -> None:
    """Do one operation to the octets of a file."""
    if kind == TRUNCATE:
        del content[position:]
    end = position + len(data)
    if end > len(content):
        content.extend(bytes(end - len(content)))
    content[position:end] = data


def torn(data: bytes, position: int, chance: Random) -> list[tuple[int, bytes]]:
    """Some of the sectors of a write."""
    kept = []
    at = 0
    while at < len(data):
        end = min(len(data), (position + at) // SECTOR * SECTOR + SECTOR - position)
        if chance.random() < 0.5:
            kept.append((position + at, data[at:end]))
        at = end
    return kept


@dataclass(slots=True)
class File:
    """A file: the octets that are on the disk for good, and what was done to it since."""

    content: bytearray = field(default_factory=bytearray)
    undone: list[tuple[bytes, int, bytes]] = field(default_factory=list)

    def sync(self) -> None:
        for kind, position, data in self.undone:
            put(self.content, kind, position, data)
        self.undone = []

    def whole(self) -> bytearray:
        """With everything that was done."""
        content = bytearray(self.content)
        for kind, position, data in self.undone:
            put(content, kind, position, data)
        return content

    def loose(self, chance: Random) -> bytearray:
        """With some of what was not synced, in any order of sectors."""
        content = bytearray(self.content)
        for kind, position, data in self.undone:
            if kind == WRITE:
                for place, sector in torn(data, position, chance):
                    put(content, WRITE, place, sector)
            elif chance.random() < 0.5:
                put(content, kind, position, b"")
        return content


@dataclass(slots=True)
class Folder:
    """A folder: the names that it has for good, and those that it has now; in between what was done to them.

    A change takes a name away, or gives it to something.
    """

    known: dict[str, File | Folder] = field(default_factory=dict)
    names: dict[str, File | Folder] = field(default_factory=dict)
    undone: list[list[tuple[str, File | Folder | None]]] = field(default_factory=list)

    def change(self, *changes: tuple[str, File | Folder | None]) -> None:
        """Change names, all at once."""
        apply(self.names, list(changes))
        self.undone.append(list(changes))

    def sync(self) -> None:
        self.known = dict(self.names)
        self.undone = []

    def loose(self, chance: Random) -> dict[str, File | Folder]:
        """The names with the first of what was not synced."""
        names = dict(self.known)
        for changes in self.undone[: chance.randint(0, len(self.undone))]:
            apply(names, changes)
        return names


def apply(names: dict[str, File | Folder], changes: list[tuple[str, File | Folder | None]]) -> None:
    for name, what in changes:
        if what is None:
            names.pop(name, None)
        else:
            names[name] = what


class Disk:
    """The files below a folder after so many operations."""

    def __init__(self) -> None:
        self.root = Folder()

    def parent(self, path: str) -> tuple[Folder, str]:
        folder = self.root
        *above, name = path.split("/")
        for each in above:
            inner = folder.names[each]
            assert isinstance(inner, Folder)
            folder = inner
        return folder, name

    def find(self, path: str) -> File | Folder | None:
        """What has a path now; None for a file that was removed while it was open."""
        if not path:
            return self.root
        folder, name = self.parent(path)
        return folder.names.get(name)

    def do(self, operation: Operation) -> None:
        kind, path = operation.kind, operation.path
        if path.endswith(" (deleted)") or (kind == MAKE_FOLDER and not path):
            return
        if kind in (WRITE, TRUNCATE, RESERVE):
            file = self.find(path)
            assert isinstance(file, File), path
            file.undone.append((kind, operation.position, operation.data))
        elif kind == SYNC:
            what = self.find(path)
            assert what is not None, path
            what.sync()
        elif kind == RENAME:
            old, name = self.parent(path)
            new, new_name = self.parent(operation.data.decode())
            assert old is new
            old.change((name, None), (new_name, old.names[name]))
        else:
            folder, name = self.parent(path)
            made = {CREATE: File, MAKE_FOLDER: Folder}.get(kind)
            folder.change((name, None if made is None else made()))

    def write(self, to: Path, chance: Random | None, last: Operation | None = None) -> None:
        """Make a folder that holds what a disk may hold now: one that keeps the order, without any `chance`.

        last  is done in part, too
        """
        self.write_folder(self.root, to, chance)
        if last is not None and last.kind == WRITE and (to / last.path).exists():
            path = to / last.path
            content = bytearray(path.read_bytes())
            put(content, WRITE, last.position, last.data[: len(last.data) // 2 // SECTOR * SECTOR])
            path.write_bytes(content)

    def write_folder(self, folder: Folder, to: Path, chance: Random | None) -> None:
        to.mkdir()
        names = folder.names if chance is None else folder.loose(chance)
        for name, what in names.items():
            if isinstance(what, Folder):
                self.write_folder(what, to / name, chance)
            elif name not in NOT_DATA:
                (to / name).write_bytes(what.whole() if chance is None else what.loose(chance))
