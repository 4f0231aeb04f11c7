"""Frames and files of the write-ahead log (WAL), as octets.

A file `wal/<number, 16 digits>.wal`, little-endian:

     0  4  magic "FBWL"
     4  4  CRC32C of the octets 8 to 31
     8  4  version, 5
    12  4  salt, different for every file
    16  8  number of the file
    24  8  number (LSN) of its first frame
    32     frames, back to back; then zeros to the end of the file, which is reserved ahead of them

One frame, written and synced as one; its length is a multiple of 8:

     0  4  magic "FBWF"
     4  4  CRC32C, begun with the file's salt, of the octets 8 to 39, then of every piece: its head, and its payload
           with padding; but of a BLOCK's payload only the first 56 octets, as the block's own checksum covers the rest
     8  8  octets of the whole frame
    16  8  LSN: one more than that of the frame before, also across files
    24  4  count of pieces
    28  4  flags: 1 CHECKPOINT, 2 CLEAN
    32  8  epoch: grows with each change of the node that leads; 0 in the log of a node that was always alone
    40     pieces, each:
             0  1  kind
             1  3  zeros
             4  4  queue
             8  4  group
            12  4  octets of the payload
            16     payload, then zeros to a multiple of 8

A CHECKPOINT frame begins every file and repeats all notes of earlier frames that still hold, but no blocks. A CLEAN
frame ends the log of a broker that was stopped cleanly. Epoch and LSN identify a frame. All frames of a file are of one
epoch, as a new leader begins a new file. The salt prevents a publisher from placing a frame in a message's body that
recovery would accept as a frame after a torn write.

Kinds of pieces:

BLOCK     a block of the queue's log (log/block.py)
START     where the queue's log starts and ends, as two i64; as a third i64 the first offset for consumers, if earlier
          records are kept for readers of blocks alone
DROPPED   the queue's log is deleted
SEGMENTS  the segments of the queue that must be there, each by the first offset that it stands for and the one after
          the last, as two i64
WALS      the numbers of the WAL files that must be there, as i64

All other kinds belong to the store's user.
"""

from __future__ import annotations

from typing import Final, final

from crc32c import crc32c
from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from forebay.core.stored.entry_kinds import BLOCK
from forebay.log.block import BLOCK_OCTETS_MAX, HEAD_OCTETS, padding
from forebay.log.block import MAGIC as BLOCK_MAGIC

FILE_MAGIC: Final = b"FBWL"
FRAME_MAGIC: Final = b"FBWF"
VERSION: Final = 5
FILE_HEAD_OCTETS: Final = 32
FRAME_HEAD_OCTETS: Final = 40
PIECE_OCTETS: Final = 16
START_OCTETS_MAX: Final = 24

SEGMENTS: Final = 253
WALS: Final = 254
DROPPED: Final = 255

CHECKPOINT: Final = 1
CLEAN: Final = 2

ZEROS: Final = bytes(8)


class BadFrame(ValueError):
    """No whole, undamaged frame stands at this position. The text says what is damaged."""


@final
class FrameEntry:
    """A note in the log: a piece of a frame that is not a block."""

    def __init__(self, kind: int, queue: int, group: int, payload: bytes) -> None:
        self.kind = kind
        self.queue = queue
        self.group = group
        self.payload = payload

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrameEntry) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __repr__(self) -> str:
        return f"Entry{self.key()}"

    def key(self) -> tuple[int, int, int, bytes]:
        return (self.kind, self.queue, self.group, self.payload)


@final
class StoredBlock:
    """The place of a block in a frame. `position` is that of the block's first byte within the frame."""

    def __init__(self, queue: int, base: i64, count: i64, position: i64, octets: i64, stamp_us: i64) -> None:
        self.queue = queue
        self.base: i64 = base
        self.count: i64 = count
        self.position: i64 = position
        self.octets: i64 = octets
        self.stamp_us: i64 = stamp_us


@final
class Frame:
    """A parsed frame: its blocks as places to read from, all other pieces as entries."""

    def __init__(
        self, lsn: i64, epoch: i64, octets: i64, flags: i64, entries: list[FrameEntry], blocks: list[StoredBlock]
    ) -> None:
        self.lsn: i64 = lsn
        self.epoch: i64 = epoch
        self.octets: i64 = octets
        self.flags: i64 = flags
        self.entries = entries
        self.blocks = blocks


@final
class FileHead:
    """The head of a WAL file.

    salt       begins the checksum of every frame of the file, so that a frame of another file does not match
    first_lsn  number of the file's first frame
    """

    def __init__(self, number: int, salt: int, first_lsn: int) -> None:
        self.number = number
        self.salt = salt
        self.first_lsn = first_lsn


def u32(data: bytes, at: i64) -> i64:
    """Return the unsigned 32-bit integer at `at`."""
    return i64(read_i32_le(data, at)) & 0xFFFFFFFF


def put_u32(out: BytesWriter, value: i64) -> None:
    write_i32_le(out, i32(value - ((value >> 31) << 32)))


def encode_file_head(head: FileHead) -> bytes:
    """Return the first 32 bytes of a WAL file."""
    out = BytesWriter()
    put_u32(out, VERSION)
    put_u32(out, i64(head.salt))
    write_i64_le(out, i64(head.number))
    write_i64_le(out, i64(head.first_lsn))
    tail = out.getvalue()
    return FILE_MAGIC + crc32c(tail).to_bytes(4, "little") + tail


def parse_file_head(octets: bytes) -> FileHead:
    """Parse the first bytes of a WAL file. Raises BadFrame if they are not the head of a file of this version."""
    if len(octets) < FILE_HEAD_OCTETS or octets[:4] != FILE_MAGIC:
        raise BadFrame("not a WAL file")
    if crc32c(octets[8:FILE_HEAD_OCTETS]) != u32(octets, 4):
        raise BadFrame("checksum of the file's head does not match")
    version = u32(octets, 8)
    if version < VERSION:
        raise BadFrame(f"version {version} of the WAL format is of an older forebay, this one knows {VERSION} only")
    if version != VERSION:
        raise BadFrame(f"version {version} of the WAL format is unknown, this program knows {VERSION}")
    return FileHead(int(read_i64_le(octets, 16)), int(u32(octets, 12)), int(read_i64_le(octets, 24)))


def encode_piece(kind: int, queue: int, group: int, payload: bytes) -> bytes:
    """Return a piece that is not a block, padding included."""
    octets = i64(len(payload))
    return piece_head(kind, queue, group, octets) + payload + ZEROS[: padding(octets)]


def piece_head(kind: int, queue: int, group: int, octets: i64) -> bytes:
    """Return the head of a piece with a payload of `octets` bytes."""
    out = BytesWriter()
    put_u32(out, i64(kind))
    put_u32(out, i64(queue))
    put_u32(out, i64(group))
    put_u32(out, octets)
    return out.getvalue()


def encode_start(kept: int, end: int, start: int) -> bytes:
    """Return the payload of a START piece."""
    out = BytesWriter()
    write_i64_le(out, i64(kept))
    write_i64_le(out, i64(end))
    if kept < start:
        write_i64_le(out, i64(start))
    return out.getvalue()


def parse_start(payload: bytes) -> tuple[int, int, int]:
    """Return the lowest offset kept, the end and the lowest offset for consumers of a START payload."""
    kept = int(read_i64_le(payload, 0))
    end = int(read_i64_le(payload, 8))
    return kept, end, int(read_i64_le(payload, 16)) if len(payload) == START_OCTETS_MAX else kept


def encode_frame_head(salt: int, epoch: int, lsn: int, octets: int, flags: int, pieces: int, checked: bytes) -> bytes:
    """Return the head of a frame. `checked` is all that the checksum covers after the head."""
    out = BytesWriter()
    write_i64_le(out, i64(octets))
    write_i64_le(out, i64(lsn))
    put_u32(out, i64(pieces))
    put_u32(out, i64(flags))
    write_i64_le(out, i64(epoch))
    tail = out.getvalue()
    return FRAME_MAGIC + crc32c(checked, crc32c(tail, salt)).to_bytes(4, "little") + tail


def frame_octets(data: bytes, at: i64) -> i64:
    """Return the length of the frame whose head stands at `at`. Raises BadFrame if no frame begins there."""
    if i64(len(data)) - at < FRAME_HEAD_OCTETS or data[at : at + 4] != FRAME_MAGIC:
        raise BadFrame("no frame begins here")
    octets = read_i64_le(data, at + 8)
    if octets < FRAME_HEAD_OCTETS or octets & 7:
        raise BadFrame(f"a frame of {octets} octets cannot be")
    return octets


def parse_frame(data: bytes, start: i64, salt: int) -> Frame:
    """Parse the frame at `start`, blocks included. Raises BadFrame unless every byte is as it was written."""
    frame = parse_loose(data, start, salt)
    for block in frame.blocks:
        check_block(data, start + block.position, block)
    return frame


def parse_loose(data: bytes, start: i64, salt: int) -> Frame:
    """Parse the frame at `start` as `parse_frame` does, but do not check what is in its blocks."""
    octets = frame_octets(data, start)
    end = start + octets
    if octets > i64(len(data)) - start:
        raise BadFrame(f"frame of {octets} octets has only {i64(len(data)) - start}")
    checked = [data[start + 8 : start + FRAME_HEAD_OCTETS]]
    entries: list[FrameEntry] = []
    blocks: list[StoredBlock] = []
    at = start + FRAME_HEAD_OCTETS
    for _ in range(u32(data, start + 24)):
        if end - at < PIECE_OCTETS:
            raise BadFrame("pieces run over the frame's end")
        kind = i64(data[at])
        queue = int(u32(data, at + 4))
        length = u32(data, at + 12)
        payload = at + PIECE_OCTETS
        after = payload + length + padding(length)
        if after > end:
            raise BadFrame("pieces run over the frame's end")
        if kind == BLOCK:
            if length < HEAD_OCTETS:
                raise BadFrame(f"a block of {length} octets cannot be")
            checked.append(data[at : payload + HEAD_OCTETS])
            base = read_i64_le(data, payload + 16)
            stamp_us = read_i64_le(data, payload + 24)
            blocks.append(StoredBlock(queue, base, u32(data, payload + 12), payload - start, length, stamp_us))
        else:
            checked.append(data[at:after])
            entries.append(FrameEntry(int(kind), queue, int(u32(data, at + 8)), data[payload : payload + length]))
        at = after
    if at != end:
        raise BadFrame("pieces end before the frame does")
    if crc32c(b"".join(checked), salt) != u32(data, start + 4):
        raise BadFrame("checksum of the frame does not match")
    lsn = read_i64_le(data, start + 16)
    epoch = read_i64_le(data, start + 32)
    return Frame(lsn, epoch, octets, u32(data, start + 28), entries, blocks)


def check_block(data: bytes, at: i64, block: StoredBlock) -> None:
    """Check a block's own checksum. Raises BadFrame with the queue and the offsets if it does not match."""
    octets = u32(data, at + 8)
    fault = ""
    if data[at : at + 4] != BLOCK_MAGIC:
        fault = "no block starts here"
    elif octets < HEAD_OCTETS or octets > BLOCK_OCTETS_MAX or octets & 7:
        fault = f"a block of {octets} octets cannot be"
    elif octets != block.octets or crc32c(data[at + 8 : at + octets]) != u32(data, at + 4):
        fault = "checksum of the block does not match"
    if fault:
        raise BadFrame(f"queue {block.queue}, offsets {block.base} to {block.base + block.count - 1}: {fault}")
