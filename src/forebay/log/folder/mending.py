"""Repairs damaged files: writes what is whole anew, and reports what is lost.

Nothing is guessed: a block, or a frame's notes, are kept only if the checksum matches. A lost frame is replaced by an
empty one of its number, as the numbers of frames must follow each other. Lost offsets leave a gap, as compaction does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crc32c import crc32c

from forebay.core.errors import CorruptFile, StorageError
from forebay.core.ports import Disk
from forebay.core.stored.entry_kinds import BLOCK
from forebay.log.block import HEAD_OCTETS as BLOCK_HEAD_OCTETS
from forebay.log.block import SUMMED_MAGIC as BLOCK_MAGIC
from forebay.log.block import BadBlock, Block, block_octets, check_columns, parse_whole
from forebay.log.frame import (
    CHECKPOINT,
    FILE_HEAD_OCTETS,
    FILE_MAGIC,
    FRAME_HEAD_OCTETS,
    BadFrame,
    FileHead,
    Frame,
    FrameEntry,
    StoredBlock,
    check_block,
    encode_file_head,
    encode_frame_head,
    encode_piece,
    frame_octets,
    parse_file_head,
    parse_frame,
    parse_loose,
    piece_head,
)
from forebay.log.recovery.recovery import WalReader
from forebay.log.segment import FOOT, FOOT_OCTETS, HEAD, HEAD_OCTETS, Segment, encode_head, parse_segment
from forebay.log.wal import wal_path

COPY_OCTETS: Final = 8 << 20
FIRST_LSN_AT: Final = FILE_HEAD_OCTETS + 16  # of the first frame


class Unmendable(StorageError):
    """The folder cannot be repaired, as too little is left to restore the rest."""


class Output:
    """A file that is written from its beginning."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.disk = disk
        self.handle = disk.open(path, True)
        disk.truncate(self.handle, 0)
        self.position = 0

    def write(self, octets: bytes) -> None:
        self.disk.pwrite(self.handle, [octets], self.position)
        self.position += len(octets)

    def copy(self, source: Disk, handle: int, first: int, end: int) -> None:
        """Write the bytes [first, end) of another file."""
        while first < end:
            octets = source.pread(handle, min(COPY_OCTETS, end - first), first)
            self.write(octets)
            first += len(octets)

    def close(self) -> None:
        """Sync and close the file."""
        self.disk.sync(self.handle)
        self.disk.close(self.handle)


# ---- the write-ahead log


def filler(salt: int, epoch: int, lsn: int, flags: int = 0, pieces: list[bytes] | None = None) -> bytes:
    """Return a frame that replaces a lost one."""
    checked = b"".join(pieces or [])
    octets = FRAME_HEAD_OCTETS + len(checked)
    return encode_frame_head(salt, epoch, lsn, octets, flags, len(pieces or []), checked) + checked


def without_bad_blocks(data: bytes, start: int, salt: int, frame: Frame) -> tuple[bytes, list[StoredBlock]]:
    """Return the bytes of the frame without its damaged blocks, and these blocks."""
    lost: list[StoredBlock] = []
    parts: list[bytes] = []
    checked: list[bytes] = []
    for entry in frame.entries:
        piece = encode_piece(entry.kind, entry.queue, entry.group, entry.payload)
        parts.append(piece)
        checked.append(piece)
    for block in frame.blocks:
        at = start + block.position
        try:
            check_block(data, at, block)
        except BadFrame:
            lost.append(block)
            continue
        head = piece_head(BLOCK, block.queue, 0, block.octets)
        parts += [head, data[at : at + block.octets]]
        checked += [head, data[at : at + BLOCK_HEAD_OCTETS]]
    octets = FRAME_HEAD_OCTETS + sum(map(len, parts))
    count = len(frame.entries) + len(frame.blocks) - len(lost)
    head = encode_frame_head(salt, int(frame.epoch), frame.lsn, octets, frame.flags, count, b"".join(checked))
    return b"".join([head, *parts]), lost


class WalMender:
    """Repairs one file of the write-ahead log.

    before        returns the entries for a lost checkpoint of this file. Raises Unmendable
    epoch_before  epoch of the file before this one, used if no frame of this one is left
    changed       at least one byte was not as it was written
    losses        texts for people
    """

    def __init__(
        self, disk: Disk, number: int, head: FileHead, before: Callable[[], list[FrameEntry]], epoch_before: int
    ) -> None:
        self.disk = disk
        self.path = wal_path(number)
        self.handle = disk.open(self.path, False)
        self.head = head
        self.before = before
        self.epoch_before = epoch_before
        self.changed = False
        self.filled = 0
        self.losses: list[str] = []
        self.reader = WalReader(disk, self.path, self.handle, number, True)

    def write(self, out: Output, next_lsn: int | None) -> None:
        """Write the repaired file to `out`. `next_lsn` is the first frame of the next file, if there is one."""
        reader = self.reader
        out.write(encode_file_head(self.head))
        whole = FILE_HEAD_OCTETS  # from here on all that was read is undamaged, and not copied yet
        while True:
            try:
                if reader.next() is not None:
                    continue
                damage = ""
            except CorruptFile as error:
                damage = str(error)
            out.copy(self.disk, self.handle, whole, int(reader.position))
            if self.salvage(out):
                whole = int(reader.position)
                continue
            if not damage:
                break
            self.changed = True
            at = int(reader.later_frame())
            if at < 0:
                if reader.position == FILE_HEAD_OCTETS:
                    self.fill(out, int(reader.lsn) + 1, self.epoch_before)  # no frame is left
                    reader.lsn += 1
                self.losses.append(f"frames from {reader.lsn + 1} on of the write-ahead log, if there were any")
                break
            after = reader.frame_at(at)
            lsn, epoch = int(after.lsn), int(after.epoch)
            concerned = reader.concerned(at)
            self.losses.append(f"frames {reader.lsn + 1} to {lsn - 1} of the write-ahead log. {concerned}")
            for missing in range(int(reader.lsn) + 1, lsn):
                self.fill(out, missing, epoch)
            reader.pass_over(at, lsn, epoch)
            whole = at
        self.reach(out, next_lsn)
        self.disk.close(self.handle)

    def salvage(self, out: Output) -> bool:
        """Write the next frame without its damaged blocks. Returns False if the frame is not damaged that way."""
        reader = self.reader
        try:
            at = int(reader.fetch(reader.position, FRAME_HEAD_OCTETS))
            octets = int(frame_octets(reader.chunk, at))
            if octets > reader.octets - reader.position:
                return False
            at = int(reader.fetch(reader.position, octets))
            frame = parse_loose(reader.chunk, at, self.head.salt)
        except BadFrame:
            return False
        if frame.lsn != reader.lsn + 1:
            return False
        made, lost = without_bad_blocks(reader.chunk, at, self.head.salt, frame)
        if not lost:
            return False
        out.write(made)
        self.changed = True
        self.losses += [f"queue {each.queue}, offsets {each.base} to {each.base + each.count - 1}" for each in lost]
        reader.pass_over(reader.position + octets, frame.lsn + 1, frame.epoch)
        return True

    def frames(self) -> int:
        """Return the number of frames that are kept."""
        return int(self.reader.lsn) - int(self.head.first_lsn) + 1 - self.filled

    def fill(self, out: Output, lsn: int, epoch: int) -> None:
        self.filled += 1
        if lsn != self.head.first_lsn:
            out.write(filler(self.head.salt, epoch, lsn))
            return
        pieces = [encode_piece(each.kind, each.queue, each.group, each.payload) for each in self.before()]
        out.write(filler(self.head.salt, epoch, lsn, CHECKPOINT, pieces))

    def reach(self, out: Output, next_lsn: int | None) -> None:
        """Write empty frames up to the first frame of the next file."""
        last = int(self.reader.lsn)
        if next_lsn is None or next_lsn <= last + 1:
            return
        self.changed = True
        self.losses.append(
            f"frames {last + 1} to {next_lsn - 1} of the write-ahead log, and what they had of any queue"
        )
        for missing in range(last + 1, next_lsn):
            self.fill(out, missing, int(self.reader.epoch))
        self.reader.lsn = next_lsn - 1


def mended_head(disk: Disk, number: int) -> FileHead:
    """Return the head of a WAL file, restored if it is damaged. Raises Unmendable if it cannot be restored."""
    handle = disk.open(wal_path(number), False)
    try:
        octets = disk.pread(handle, COPY_OCTETS, 0)
    finally:
        disk.close(handle)
    try:
        head = parse_file_head(octets[:FILE_HEAD_OCTETS])
        if head.number == number:
            return head
    except BadFrame:
        pass
    if len(octets) < FIRST_LSN_AT + 8:
        raise Unmendable(f"{disk.path(wal_path(number))}: nothing is left of it")
    stored = int.from_bytes(octets[12:16], "little")
    lsns = {int.from_bytes(octets[at : at + 8], "little") for at in (24, FIRST_LSN_AT)}
    for salt in [stored, *salts_like(octets[12:16])]:
        for lsn in lsns:
            head = FileHead(number, salt, lsn)
            if encode_file_head(head)[4:8] == octets[4:8] and octets[:4] == FILE_MAGIC:
                return head
            if has_first_frame(octets, head):
                return head
    raise Unmendable(
        f"{disk.path(wal_path(number))}: neither its head nor its first frame says with what it was sealed"
    )


def salts_like(octets: bytes) -> list[int]:
    """Return the salts that differ from this one in a single byte."""
    return [
        int.from_bytes(octets[:at] + bytes([other]) + octets[at + 1 :], "little")
        for at in range(len(octets))
        for other in range(256)
        if other != octets[at]
    ]


def has_first_frame(octets: bytes, head: FileHead) -> bool:
    try:
        return int(parse_frame(octets, FILE_HEAD_OCTETS, head.salt).lsn) == head.first_lsn
    except BadFrame:
        return False


def placeholder(number: int, epoch: int, first_lsn: int, next_lsn: int) -> bytes:
    """Return a WAL file of empty frames that replaces a missing one."""
    head = FileHead(number, 0, first_lsn)
    frames = [filler(0, epoch, lsn, CHECKPOINT if lsn == first_lsn else 0) for lsn in range(first_lsn, next_lsn)]
    return b"".join([encode_file_head(head), *frames])


# ---- segments


class SegmentMender:
    """Finds what is left of one segment.

    first, end  the segment stands for these offsets
    blocks      the whole blocks
    losses      texts for people
    """

    def __init__(self, disk: Disk, path: str, queue: int, first: int, end: int | None) -> None:
        self.disk = disk
        self.path = path
        self.queue = queue
        self.first = first
        self.end = first if end is None else end
        self.handle = disk.open(path, False)
        self.octets = disk.size(self.handle)
        self.blocks: list[Block] = []
        self.losses: list[str] = []
        try:
            self.look(self.index())
        finally:
            disk.close(self.handle)

    def index(self) -> Segment | None:
        """Return the segment's index if it is whole, even if the head is damaged, else None."""
        try:
            return parse_segment(self.disk, self.path, self.handle)
        except CorruptFile:
            pass
        if self.octets < HEAD_OCTETS + FOOT_OCTETS:
            return None
        foot = self.disk.pread(self.handle, FOOT_OCTETS, self.octets - FOOT_OCTETS)
        _, _, _, queue, first, end, _, _, _ = FOOT.unpack(foot)
        try:
            # The foot's checksum covers the head: if a restored head matches, head and index are both right.
            return parse_segment(self.disk, self.path, self.handle, encode_head(queue, first, end))
        except (CorruptFile, OverflowError, ValueError):
            return None

    def look(self, segment: Segment | None) -> None:
        if segment is None:
            self.read_head()
            self.walk()
            return
        self.first, self.end = segment.first, segment.end
        for entry in segment.entries:
            block = self.block_at(entry.position, entry.octets)
            if block is None or (block.base, block.count) != (entry.base, entry.count):
                self.losses.append(self.lost(entry.base, entry.base + entry.count))
            else:
                self.blocks.append(block)

    def read_head(self) -> None:
        """Set `first` and `end` from the head, if it is as it was written."""
        head = self.disk.pread(self.handle, HEAD_OCTETS, 0)
        if len(head) == HEAD_OCTETS and crc32c(head[8:]) == int.from_bytes(head[4:8], "little"):
            _, _, _, _, self.first, self.end, _ = HEAD.unpack(head)

    def walk(self) -> None:
        """Find the blocks without the index, from the first byte on."""
        position, offset = HEAD_OCTETS, self.first
        while position + BLOCK_HEAD_OCTETS <= self.octets:
            block = self.block_at(position, None)
            if block is None or block.base < offset:
                position = self.next_magic(position + 1)
                continue
            if block.base > offset:
                self.losses.append(self.lost(offset, int(block.base)) + ", unless they were left out before")
            self.blocks.append(block)
            offset = int(block.end)
            position += int(block.octets())
        if offset < self.end:
            self.losses.append(self.lost(offset, self.end) + ", unless they were left out before")
        self.end = max(self.end, offset)

    def next_magic(self, position: int) -> int:
        while position < self.octets:
            octets = self.disk.pread(self.handle, COPY_OCTETS, position)
            found = octets.find(BLOCK_MAGIC)
            if found >= 0:
                return position + found
            if len(octets) < COPY_OCTETS:
                break
            position += len(octets) - len(BLOCK_MAGIC)
        return self.octets

    def block_at(self, position: int, octets: int | None) -> Block | None:
        """Return the whole block at `position`, or None if there is none."""
        try:
            head = self.disk.pread(self.handle, BLOCK_HEAD_OCTETS, position)
            length = block_octets(head) if octets is None else octets
            block = parse_whole(self.disk.pread(self.handle, length, position))
            check_columns(block)
        except (BadBlock, StorageError):
            return None
        return block

    def lost(self, first: int, end: int) -> str:
        return f"queue {self.queue}, offsets {first} to {end - 1}"
