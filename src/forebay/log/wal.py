"""The active end of the write-ahead log: the frame being gathered, and the commit that writes it to the disk.

All that happens until a commit ends is gathered into the next frame, so that a longer sync covers more. A commit holds
one frame, or two around a change of files: the last frame of the old file and the first of the new one. The new file
gets its lasting name only when its first frame is synced, so a file with a lasting name begins with a whole frame.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import mypyc_attr

from forebay.core.ports import Disk
from forebay.core.stored.entry_kinds import BLOCK
from forebay.log.block import Block
from forebay.log.block_files import BlockFile
from forebay.log.frame import (
    FILE_HEAD_OCTETS,
    FRAME_HEAD_OCTETS,
    PIECE_OCTETS,
    FileHead,
    encode_file_head,
    encode_frame_head,
    encode_piece,
    piece_head,
)
from forebay.log.queue_log import QueueLog

FOLDER: Final = "wal"
MARK_OCTETS: Final = 1 << 20
JOIN_OCTETS_MAX: Final = 4096  # parts shorter than this on average are joined before writing


def wal_path(number: int) -> str:
    """Return the path of a WAL file, below the data directory."""
    return f"{FOLDER}/{number:016d}.wal"


def spare_path(number: int) -> str:
    """Return the path of a WAL file that has no frame yet, below the data directory."""
    return f"{FOLDER}/{number:016d}.tmp"


class WalFile:
    """One WAL file.

    blocks     the file as the logs' indexes know it
    tail       bytes in use, without the frame being gathered
    reserved   bytes that the file has room for on the disk
    named      it has its lasting name
    epoch      of all its frames
    last       LSN of the last frame that was given to the disk
    marks      LSN and position of a frame about every MARK_OCTETS
    full       nothing more will be written to it
    full_us    since when
    empty_lsn  frame with the last note of why no log holds a block of this file; 0 while a log holds one
    """

    def __init__(self, head: FileHead, blocks: BlockFile, tail: int, reserved: int, named: bool, epoch: int) -> None:
        self.head = head
        self.head_octets = encode_file_head(head)
        self.blocks = blocks
        self.tail = tail
        self.reserved = reserved
        self.named = named
        self.epoch = epoch
        self.last = head.first_lsn - 1
        self.marks: list[tuple[int, int]] = []
        self.empty_lsn = 0
        self.full = False
        self.full_us = 0

    def mark(self, lsn: int, position: int) -> None:
        """Add a frame to `marks` if the last mark is MARK_OCTETS before it, so that a search reads few frames."""
        if not self.marks or position - self.marks[-1][1] >= MARK_OCTETS:
            self.marks.append((lsn, position))

    def marked(self, lsn: int) -> tuple[int, int]:
        """Return LSN and position of the last marked frame at or before frame `lsn`."""
        marks = self.marks
        low = 0
        high = len(marks)
        while high - low > 1:
            middle = (low + high) >> 1
            if marks[middle][0] <= lsn:
                low = middle
            else:
                high = middle
        return marks[low]

    def cut(self, lsn: int, tail: int) -> None:
        """Make frame `lsn`, which ends at `tail`, the last of the file."""
        self.last = lsn
        self.tail = tail
        while self.marks and self.marks[-1][0] > lsn:
            self.marks.pop()


class GatheredFrame:
    """A frame being filled.

    position  of the frame in the file
    octets    bytes so far
    checked   the parts that its checksum covers
    ends      durable end of each log in `logs` once the frame is on the disk
    urgent    a client or the broker waits for it
    hurried   each further note makes it urgent
    encoded   all its bytes once nothing is added any more; None until they were needed
    """

    def __init__(self, lsn: int, file: WalFile, flags: int) -> None:
        self.lsn = lsn
        self.file = file
        self.flags = flags
        self.position = file.tail
        self.octets = FRAME_HEAD_OCTETS
        self.parts: list[bytes] = []
        self.checked: list[bytes] = []
        self.pieces = 0
        self.logs: list[QueueLog] = []
        self.ends: list[int] = []
        self.urgent = False
        self.hurried = False
        self.encoded: list[bytes] | None = None

    def add_block(self, log: QueueLog, block: Block) -> None:
        head = block.head
        data = block.data
        octets = int(block.octets())
        piece = piece_head(BLOCK, log.queue, 0, octets) + head
        self.parts.append(piece)
        self.parts.append(data)
        if block.tail:
            self.parts += block.parts()[1:]
        self.checked.append(piece)
        self.pieces += 1
        log.add_block(block, self.file.blocks, self.position + self.octets + PIECE_OCTETS)
        self.octets += PIECE_OCTETS + octets
        self.logs.append(log)
        self.ends.append(block.end)
        self.urgent = True

    def add_note(self, kind: int, queue: int, group: int, payload: bytes) -> None:
        piece = encode_piece(kind, queue, group, payload)
        self.parts.append(piece)
        self.checked.append(piece)
        self.pieces += 1
        self.octets += len(piece)

    def end(self) -> int:
        return self.position + self.octets

    def let_go(self) -> None:
        """Release the bytes of the frame, which are on the disk. Their number stays known."""
        self.parts = []
        self.checked = []
        self.encoded = []

    def encode(self) -> list[bytes]:
        """Return all bytes of the frame, in few parts."""
        if self.encoded is not None:
            return self.encoded
        file = self.file
        checked = b"".join(self.checked)
        head = encode_frame_head(file.head.salt, file.epoch, self.lsn, self.octets, self.flags, self.pieces, checked)
        parts = [head, *self.parts]
        if self.octets < JOIN_OCTETS_MAX * len(parts):
            return [b"".join(parts)]
        return parts


@mypyc_attr(allow_interpreted_subclasses=True)
class Commit:
    """Frames on their way to the disk, in ascending order.

    finished  file that gets no more frames: its unused reserved room is released
    """

    def __init__(self, disk: Disk, frames: list[GatheredFrame], finished: WalFile | None) -> None:
        self.disk = disk
        self.frames = frames
        self.finished = finished
        self.lsn = frames[-1].lsn if frames else 0
        self.octets = 0
        for frame in frames:
            self.octets += frame.octets
        self.ran = False

    def run(self) -> None:
        """Write and sync the frames. On return all are durable. After a StorageError nothing more may be confirmed."""
        for frame in self.frames:
            self.write(frame)
        if self.finished is not None:
            # Only releases room: the new file has its lasting name, which already says that the old one ends here.
            self.disk.truncate(self.finished.blocks.handle, self.finished.tail)
        self.ran = True

    def is_plain(self) -> bool:
        """Return whether the commit is a single write and a single sync."""
        return len(self.frames) == 1 and self.finished is None and self.frames[0].file.named

    def handle(self) -> int:
        """Return the handle of the file that a plain commit is written to."""
        return self.frames[0].file.blocks.handle

    def position(self) -> int:
        """Return the position in the file of a plain commit."""
        return self.frames[0].position

    def plain_octets(self) -> bytes:
        """Return all bytes of a plain commit, for a caller that writes and syncs them instead of `run`.

        Call `end` after that.
        """
        return b"".join(self.frames[0].encode())

    def end(self) -> None:
        """Record that a plain commit was written and synced."""
        self.ran = True

    def write(self, frame: GatheredFrame) -> None:
        file = frame.file
        handle = file.blocks.handle
        if file.named:
            self.disk.sync(self.put(frame))
            return
        assert frame.position == FILE_HEAD_OCTETS
        self.disk.pwrite(handle, [file.head_octets, *frame.encode()], 0)
        self.disk.sync(handle)
        self.disk.rename(spare_path(file.head.number), wal_path(file.head.number))
        file.named = True

    def put(self, frame: GatheredFrame) -> int:
        """Write a frame to a file with its lasting name, and return the file's handle for the sync."""
        handle = frame.file.blocks.handle
        self.disk.pwrite(handle, frame.encode(), frame.position)
        return handle
