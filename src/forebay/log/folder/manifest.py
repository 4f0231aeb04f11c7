"""The manifest: how far the write-ahead log went, beside the log itself, so that a lost end of the log is noticed.

The file `MANIFEST` of the data folder, 40 octets, little-endian:

     0  4  magic "FBMF"
     4  4  CRC32C of the octets 8 to 39
     8  4  version, 1
    12  4  flags: 1 CLEAN
    16  8  number of the newest WAL file; 0 before there is one
    24  8  LSN of a frame that is in the log
    32  8  zeros

The manifest is written when a broker starts, soon after each change of WAL files, and with CLEAN when the broker stops
cleanly: then its LSN is that of the last frame. The log may go further than the manifest says, but must not end
earlier. The other files that must be there are named in the log (`log/folder/required.py`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from forebay.core.errors import CorruptFile
from forebay.core.ports import Disk

NAME: Final = "MANIFEST"
MAGIC: Final = b"FBMF"
VERSION: Final = 1
CLEAN: Final = 1
LAYOUT: Final = struct.Struct("<4sIIIqqq")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of the file.

    wal    number of the newest WAL file
    lsn    of a frame that is in the log
    clean  the broker was stopped cleanly, and `lsn` is the last frame
    """

    wal: int
    lsn: int
    clean: bool


def read_manifest(disk: Disk) -> Manifest | None:
    """Read the manifest, or return None if there is none. Raises CorruptFile if it is damaged."""
    if NAME not in disk.list(""):
        return None
    path = disk.path(NAME)
    handle = disk.open(NAME, False)
    try:
        octets = disk.pread(handle, LAYOUT.size + 1, 0)
    finally:
        disk.close(handle)
    if len(octets) != LAYOUT.size or octets[:4] != MAGIC:
        raise CorruptFile(path, 0, "this is no manifest")
    _, crc, version, flags, wal, lsn, _ = LAYOUT.unpack(octets)
    if crc32c(octets[8:]) != crc:
        raise CorruptFile(path, 0, "checksum of the manifest does not match")
    if version != VERSION:
        raise CorruptFile(path, 8, f"version {version} of the manifest is unknown, this program knows {VERSION}")
    return Manifest(wal, lsn, flags & CLEAN != 0)


def write_manifest(disk: Disk, manifest: Manifest) -> None:
    """Replace the manifest durably."""
    tail = LAYOUT.pack(MAGIC, 0, VERSION, CLEAN if manifest.clean else 0, manifest.wal, manifest.lsn, 0)[8:]
    handle = disk.open(f"{NAME}.tmp", True)
    try:
        disk.truncate(handle, 0)
        disk.pwrite(handle, [MAGIC + crc32c(tail).to_bytes(4, "little") + tail], 0)
        disk.sync(handle)
    finally:
        disk.close(handle)
    disk.rename(f"{NAME}.tmp", NAME)
