"""The inventory: the files of a replicated store that must be there.

The log of a replicated store is the same at every node, but its files are not. So the list of required files stands
beside the log, where a single node has notes of it in the log. A file is removed only when the inventory on the disk no
longer names it. A file that is named and missing was removed from outside.

The file `INVENTORY` of the data folder, little-endian:

     0  4  magic "FBIV"
     4  4  CRC32C of the octets 8 to the end
     8  4  version, 1
    12  4  count of WAL files
    16  8  floor: records of frames up to this LSN may be in segments, so the log can never be truncated below it
    24  4  count of segments
    28  4  zeros
    32     the numbers of the WAL files, as i64
           then of each segment: queue, first offset that it stands for, and the one after the last, as i64
"""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from forebay.core.errors import CorruptFile, DiskFull
from forebay.core.ports import Disk

NAME: Final = "INVENTORY"
SPARE: Final = "INVENTORY.tmp"
ROOM_OCTETS: Final = 64 << 10
MAGIC: Final = b"FBIV"
VERSION: Final = 1
HEAD: Final = struct.Struct("<4sIIIqII")
NUMBER: Final = struct.Struct("<q")
SPAN: Final = struct.Struct("<qqq")


@dataclass(frozen=True, slots=True)
class Inventory:
    """The content of the file.

    floor     the log is never truncated below this lsn
    wals      numbers of WAL files
    segments  queue, first offset and the one after the last of each
    """

    floor: int
    wals: tuple[int, ...]
    segments: tuple[tuple[int, int, int], ...]


def read_inventory(disk: Disk) -> Inventory | None:
    """Read the inventory, or return None if there is none. Raises CorruptFile if it is damaged."""
    if NAME not in disk.list(""):
        return None
    path = disk.path(NAME)
    handle = disk.open(NAME, False)
    try:
        octets = disk.pread(handle, disk.size(handle), 0)
    finally:
        disk.close(handle)
    if len(octets) < HEAD.size or octets[:4] != MAGIC:
        raise CorruptFile(path, 0, "this is no inventory")
    _, crc, version, wals, floor, segments, _ = HEAD.unpack_from(octets)
    if crc32c(octets[8:]) != crc:
        raise CorruptFile(path, 0, "checksum of the inventory does not match")
    if version != VERSION:
        raise CorruptFile(path, 8, f"version {version} of the inventory is unknown, this program knows {VERSION}")
    spans = HEAD.size + wals * NUMBER.size
    if len(octets) != spans + segments * SPAN.size:
        raise CorruptFile(path, 12, f"an inventory of {wals} WAL files and {segments} segments cannot be so long")
    numbers = tuple(number for (number,) in NUMBER.iter_unpack(octets[HEAD.size : spans]))
    return Inventory(floor, numbers, tuple(SPAN.iter_unpack(octets[spans:])))


def write_inventory(disk: Disk, inventory: Inventory) -> None:
    """Replace the inventory durably.

    Reserves room for the next one, because even a full disk must take it before files may be removed.
    """
    head = HEAD.pack(MAGIC, 0, VERSION, len(inventory.wals), inventory.floor, len(inventory.segments), 0)[8:]
    parts = [NUMBER.pack(number) for number in inventory.wals] + [SPAN.pack(*span) for span in inventory.segments]
    tail = head + b"".join(parts)
    handle = disk.open(SPARE, True)
    try:
        disk.pwrite(handle, [MAGIC + crc32c(tail).to_bytes(4, "little") + tail], 0)
        disk.truncate(handle, 8 + len(tail))
        disk.sync(handle)
    finally:
        disk.close(handle)
    disk.rename(SPARE, NAME)
    keep_room(disk, 2 * len(tail))


def keep_room(disk: Disk, octets: int) -> None:
    """Reserve room for an inventory of `octets` bytes, unless the disk is full."""
    handle = disk.open(SPARE, True)
    try:
        with suppress(DiskFull):
            disk.reserve(handle, max(octets, ROOM_OCTETS))
    finally:
        disk.close(handle)


def remove_inventory(disk: Disk) -> None:
    """Remove the inventory durably."""
    disk.remove(NAME)
    disk.sync_names("")
