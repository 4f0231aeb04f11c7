"""Small files of the data folder that are written whole: what services keep beside the log over a restart."""

from __future__ import annotations

from typing import Final

from forebay.core.ports import Disk
from forebay.server.system.disk import DataDisk


class DataFolder:
    """The data folder as services see it that keep small files there.

    path  of the folder
    """

    def __init__(self, disk: DataDisk) -> None:
        self._disk: Final = disk
        self.path: Final = disk.root

    def free_octets(self) -> int:
        """Return the bytes that are free on the disk of the folder."""
        return self._disk.free_octets()

    def read(self, name: str) -> bytes:
        """Return all of a file, b"" if there is none. StorageError as `Disk` has it."""
        return read_small_file(self._disk, name)

    def write(self, name: str, octets: bytes) -> None:
        """Replace a file, and return once it is durable. Raises StorageError as `Disk` does."""
        write_small_file(self._disk, name, octets)


def read_small_file(disk: Disk, name: str) -> bytes:
    """Return the content of a file in the data folder; empty if it does not exist. StorageError as `Disk` has it."""
    if name not in disk.list(""):
        return b""
    handle = disk.open(name, False)
    try:
        return disk.pread(handle, disk.size(handle), 0)
    finally:
        disk.close(handle)


def write_small_file(disk: Disk, name: str, octets: bytes) -> None:
    """Replace a file in the data folder durably. Raises StorageError as `Disk` does."""
    made = f"{name}.tmp"
    handle = disk.open(made, True)
    try:
        disk.truncate(handle, 0)
        disk.pwrite(handle, [octets], 0)
        disk.sync(handle)
    finally:
        disk.close(handle)
    disk.rename(made, name)
