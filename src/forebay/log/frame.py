"""Frames and files of the write-ahead log (WAL), as octets.

A file `wal/<number, 16 digits>.wal`, little-endian:

     0  4  magic "FBWL"
     4  4  CRC32C of the octets 8 to 31
     8  4  version, 1
    12  4  salt, different for every file
    16  8  number of the file
    24  8  number (LSN) of its first frame
    32     frames, back to back; then zeros to the end of the file, which is reserved ahead of them

One frame, written and synced as one; its length is a multiple of 8:

     0  4  magic "FBWF"
     4  4  CRC32C, begun with the file's salt, of the octets 8 to 31, then of every piece: its head, and its payload
           with padding; but of a BLOCK's payload only the first 48 octets, as the block's own checksum covers the rest
     8  8  octets of the whole frame
    16  8  LSN: one more than that of the frame before, also across files
    24  4  count of pieces
    28  4  flags: 1 CHECKPOINT, 2 CLEAN
    32     pieces, each:
             0  1  kind
             1  3  zeros
             4  4  queue
             8  4  group
            12  4  octets of the payload
            16     payload, then zeros to a multiple of 8

A CHECKPOINT frame begins every file and states all that earlier frames said, except for blocks. A CLEAN frame ends the
log of a broker that was stopped in good order. The salt makes it impossible for a publisher to place a frame in a
message's body where, after a torn write, recovery would take it for one.

Kinds of pieces: BLOCK, a block of the queue's log (log/block.py); START, where the queue's log starts and ends, as two
i64, and as a third the first offset for consumers where some before it is kept for readers of blocks alone; DROPPED,
the queue's log is gone; all other kinds belong to the store's user.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from forebay.log.block import HEAD_OCTETS, BadBlock, block_octets

FILE_MAGIC: Final = b"FBWL"
FRAME_MAGIC: Final = b"FBWF"
VERSION: Final = 1
FILE_HEAD: Final = struct.Struct("<4sIIIQQ")
FILE_HEAD_OCTETS: Final = 32
FRAME_HEAD: Final = struct.Struct("<4sIqqII")
FRAME_TAIL: Final = struct.Struct("<qqII")  # what the checksum covers of the frame's head
FRAME_HEAD_OCTETS: Final = 32
PIECE: Final = struct.Struct("<B3xIII")
PIECE_OCTETS: Final = 16
BLOCK_HEAD: Final = struct.Struct("<4sIIIqq")  # magic, checksum, octets, count, base, timestamp
START_PAYLOAD: Final = struct.Struct("<qq")
HELD_START_PAYLOAD: Final = struct.Struct("<qqq")

BLOCK: Final = 1
START: Final = 2
DROPPED: Final = 255

CHECKPOINT: Final = 1
CLEAN: Final = 2

ZEROS: Final = bytes(8)


class BadFrame(ValueError):
    """No whole, undamaged frame stands here; the text says what of it is damaged."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One piece of a frame that is not a block."""

    kind: int
    queue: int
    group: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class StoredBlock:
    """A block as it stands in a frame; `position` is that of its first octet within the frame."""

    queue: int
    base: int
    count: int
    position: int
    octets: int
    stamp_us: int


@dataclass(frozen=True, slots=True)
class Frame:
    """A whole frame: its blocks as places to read from, everything else as pieces."""

    lsn: int
    octets: int
    flags: int
    pieces: list[Piece]
    blocks: list[StoredBlock]


@dataclass(frozen=True, slots=True)
class FileHead:
    """What a WAL file says of itself.

    salt       of all its frames, so that a frame of another file is none of this one
    first_lsn  number of the frame that it begins with
    """

    number: int
    salt: int
    first_lsn: int


def encode_file_head(head: FileHead) -> bytes:
    """The first octets of a WAL file."""
    tail = FILE_HEAD.pack(FILE_MAGIC, 0, VERSION, head.salt, head.number, head.first_lsn)[8:]
    return FILE_MAGIC + crc32c(tail).to_bytes(4, "little") + tail


def parse_file_head(octets: bytes) -> FileHead:
    """BadFrame unless a WAL file of our version begins so."""
    if len(octets) < FILE_HEAD_OCTETS or octets[:4] != FILE_MAGIC:
        raise BadFrame("not a WAL file")
    _, crc, version, salt, number, first_lsn = FILE_HEAD.unpack_from(octets)
    if crc32c(octets[8:FILE_HEAD_OCTETS]) != crc:
        raise BadFrame("checksum of the file's head does not match")
    if version != VERSION:
        raise BadFrame(f"version {version} of the WAL format is unknown, this program knows {VERSION}")
    return FileHead(number, salt, first_lsn)


def encode_piece(kind: int, queue: int, group: int, payload: bytes) -> bytes:
    """A piece that is not a block, padding included."""
    return PIECE.pack(kind, queue, group, len(payload)) + payload + ZEROS[: -len(payload) & 7]


def encode_frame_head(salt: int, lsn: int, octets: int, flags: int, pieces: int, checked: bytes) -> bytes:
    """`checked` is all that the checksum covers behind the frame's head."""
    tail = FRAME_TAIL.pack(octets, lsn, pieces, flags)
    return FRAME_MAGIC + crc32c(checked, crc32c(tail, salt)).to_bytes(4, "little") + tail


def frame_octets(head: bytes | memoryview) -> int:
    """Length of the frame that begins with these 32 octets; BadFrame if none can begin so."""
    if len(head) < FRAME_HEAD_OCTETS or head[:4] != FRAME_MAGIC:
        raise BadFrame("no frame begins here")
    octets: int = FRAME_HEAD.unpack_from(head)[2]
    if octets < FRAME_HEAD_OCTETS or octets & 7:
        raise BadFrame(f"a frame of {octets} octets cannot be")
    return octets


def parse_frame(view: memoryview, salt: int) -> Frame:
    """The frame that fills `view`; BadFrame unless every octet is as it was written."""
    _, crc, octets, lsn, count, flags = FRAME_HEAD.unpack_from(view)
    if octets != len(view):
        raise BadFrame(f"frame of {octets} octets has {len(view)}")
    sum = crc32c(view[8:FRAME_HEAD_OCTETS], salt)
    pieces: list[Piece] = []
    blocks: list[StoredBlock] = []
    at = FRAME_HEAD_OCTETS
    for _ in range(count):
        if at + PIECE_OCTETS > octets:
            raise BadFrame("pieces run over the frame's end")
        kind, queue, group, length = PIECE.unpack_from(view, at)
        end = at + PIECE_OCTETS + length + (-length & 7)
        if end > octets:
            raise BadFrame("pieces run over the frame's end")
        if kind == BLOCK:
            if length < HEAD_OCTETS:
                raise BadFrame(f"a block of {length} octets cannot be")
            sum = crc32c(view[at : at + PIECE_OCTETS + HEAD_OCTETS], sum)
            _, _, _, records, base, stamp_us = BLOCK_HEAD.unpack_from(view, at + PIECE_OCTETS)
            blocks.append(StoredBlock(queue, base, records, at + PIECE_OCTETS, length, stamp_us))
        else:
            sum = crc32c(view[at:end], sum)
            payload = at + PIECE_OCTETS
            pieces.append(Piece(kind, queue, group, bytes(view[payload : payload + length])))
        at = end
    if at != octets:
        raise BadFrame("pieces end before the frame does")
    if sum != crc:
        raise BadFrame("checksum of the frame does not match")
    for block in blocks:
        check_block(view[block.position : block.position + block.octets], block)
    return Frame(lsn, octets, flags, pieces, blocks)


def check_block(view: memoryview, block: StoredBlock) -> None:
    """BadFrame, naming queue and offsets, unless the block's own checksum holds."""
    where = f"queue {block.queue}, offsets {block.base} to {block.base + block.count - 1}"
    try:
        octets = block_octets(bytes(view[:HEAD_OCTETS]))
    except BadBlock as error:
        raise BadFrame(f"{where}: {error}") from error
    if octets != block.octets or crc32c(view[8:]) != int.from_bytes(view[4:8], "little"):
        raise BadFrame(f"{where}: checksum of the block does not match")
