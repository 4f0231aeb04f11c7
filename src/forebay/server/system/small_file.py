"""Small files of the data folder that are written whole: what services keep beside the log over a restart."""

from __future__ import annotations

from forebay.core.ports import Disk


def read_small_file(disk: Disk, name: str) -> bytes:
    """All of a file in the data folder; empty where there is none. StorageError as `Disk` has it."""
    if name not in disk.list(""):
        return b""
    handle = disk.open(name, False)
    try:
        return disk.pread(handle, disk.size(handle), 0)
    finally:
        disk.close(handle)


def write_small_file(disk: Disk, name: str, octets: bytes) -> None:
    """Put this in the place of a file in the data folder; on return it is durable. StorageError as `Disk` has it."""
    made = f"{name}.tmp"
    handle = disk.open(made, True)
    try:
        disk.truncate(handle, 0)
        disk.pwrite(handle, [octets], 0)
        disk.sync(handle)
    finally:
        disk.close(handle)
    disk.rename(made, name)
