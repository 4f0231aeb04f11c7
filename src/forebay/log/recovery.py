"""Reading the WAL back after a stop of any kind.

The frames of a file follow each other to the first place where no whole one stands. In the last file, if no whole
frame of a later number follows that place, it is the torn end of a write that was never confirmed: it is cut. Anything
else that is not as it was written is damage, and refused: what was lost may have been confirmed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forebay.core.errors import CorruptFile
from forebay.core.ports import Disk
from forebay.log.frame import (
    CHECKPOINT,
    FILE_HEAD_OCTETS,
    FRAME_HEAD_OCTETS,
    FRAME_MAGIC,
    BadFrame,
    FileHead,
    Frame,
    frame_octets,
    parse_file_head,
    parse_frame,
)

CHUNK_OCTETS: Final = 8 << 20


class WalReader:
    """Reads the frames of one WAL file.

    position  where the next frame begins, or the first place where none does
    lsn       of the last frame read; before any, of the one that must have been before this file
    last      no file follows
    """

    def __init__(self, disk: Disk, path: str, handle: int, number: int, last: bool) -> None:
        self.disk = disk
        self.full_path = disk.path(path)
        self.handle = handle
        self.last = last
        self.octets = disk.size(handle)
        self.head = self.read_head(number)
        self.position = FILE_HEAD_OCTETS
        self.lsn = self.head.first_lsn - 1
        self.ends: dict[int, int] = {}  # for each queue seen the offset after its last block
        self.chunk = b""
        self.chunk_at = 0

    def read_head(self, number: int) -> FileHead:
        try:
            head = parse_file_head(self.disk.pread(self.handle, FILE_HEAD_OCTETS, 0))
        except BadFrame as error:
            raise CorruptFile(self.full_path, 0, str(error)) from error
        if head.number != number:
            raise CorruptFile(self.full_path, 16, f"the file says it is number {head.number}")
        return head

    def at(self, position: int, octets: int) -> memoryview:
        """Up to so many octets from there; fewer only at the end of the file."""
        skip = position - self.chunk_at
        if skip < 0 or skip + octets > len(self.chunk):
            self.chunk = self.disk.pread(self.handle, max(octets, CHUNK_OCTETS), position)
            self.chunk_at = position
            skip = 0
        return memoryview(self.chunk)[skip : skip + octets]

    def frame_at(self, position: int) -> Frame:
        """The whole frame there; BadFrame if there is none."""
        octets = frame_octets(self.at(position, FRAME_HEAD_OCTETS))
        if position + octets > self.octets:
            raise BadFrame(f"frame of {octets} octets runs over the file's end")
        return parse_frame(self.at(position, octets), self.head.salt)

    def frames(self) -> Iterator[tuple[int, Frame]]:
        """Every frame with its position; CorruptFile unless they end as a file of this kind may."""
        while True:
            try:
                frame = self.frame_at(self.position)
                if frame.lsn != self.lsn + 1:
                    raise BadFrame(f"frame {frame.lsn} stands where {self.lsn + 1} should")
                if self.position == FILE_HEAD_OCTETS and not frame.flags & CHECKPOINT:
                    raise BadFrame("the file does not begin with a checkpoint")
            except BadFrame as error:
                self.check_end(error)
                return
            position = self.position
            self.position += frame.octets
            self.lsn = frame.lsn
            for block in frame.blocks:
                self.ends[block.queue] = block.base + block.count
            yield position, frame

    def check_end(self, error: BadFrame) -> None:
        """No frame stands at `position`: CorruptFile unless the log may end here."""
        if self.position == FILE_HEAD_OCTETS:
            # A file has its name only since this frame was synced.
            raise CorruptFile(self.full_path, self.position, f"first frame: {error}") from error
        found = self.later_frame()
        if found is not None:
            at, frame = found
            text = f"{error}; but frame {frame.lsn} stands whole at octet {at}. {self.concerned(at, frame)}"
            raise CorruptFile(self.full_path, self.position, text) from error
        if not self.last and self.rest_octets():
            text = f"{error}; and this is not the last WAL file. {self.concerned_behind()}"
            raise CorruptFile(self.full_path, self.position, text) from error

    def later_frame(self) -> tuple[int, Frame] | None:
        """The first whole frame behind `position` that was written after the last one read."""
        at = self.position + 8
        while at < self.octets:
            view = self.at(at, min(CHUNK_OCTETS, self.octets - at))
            if not view:
                return None  # it was longer when its length was asked for
            found = bytes(view).find(FRAME_MAGIC)
            if found < 0:
                at += max(8, len(view) - 8)  # a magic may lie across the chunk's end
                continue
            at += found
            if not at & 7:
                try:
                    frame = self.frame_at(at)
                except BadFrame:
                    frame = None
                if frame is not None and frame.lsn > self.lsn:
                    return at, frame
            at += 1
        return None

    def has_grown(self) -> bool:
        """Whether the next frame, which was not there when its place was read, stands there now: somebody writes."""
        self.chunk = b""
        try:
            return self.frame_at(self.position).lsn == self.lsn + 1
        except BadFrame:
            return False

    def concerned(self, at: int, frame: Frame) -> str:
        """Which offsets are missing before this frame."""
        missing: dict[int, int] = {}
        while True:
            for block in frame.blocks:
                if block.base > self.ends.get(block.queue, 0) or block.queue not in self.ends:
                    missing.setdefault(block.queue, block.base)
            at += frame.octets
            try:
                frame = self.frame_at(at)
            except BadFrame:
                break
        if not missing:
            return f"No offsets are missing, settlements or declarations may be. {self.concerned_behind()}"
        ranges = [f"queue {queue}, offsets {self.ends.get(queue, 0)} to {end - 1}" for queue, end in missing.items()]
        return "Missing, unless an older file has them: " + "; ".join(ranges)

    def concerned_behind(self) -> str:
        """What was whole before the damage, for people."""
        ends = [f"queue {queue} from offset {end}" for queue, end in sorted(self.ends.items())]
        return "Concerned may be " + ("; ".join(ends) if ends else "every queue")

    def rest_octets(self) -> int:
        """Octets from `position` to the last that is not zero."""
        rest = 0
        at = self.position
        while at < self.octets:
            view = self.at(at, min(CHUNK_OCTETS, self.octets - at))
            if not view:
                break
            used = len(bytes(view).rstrip(b"\0"))
            if used:
                rest = at + used - self.position
            at += len(view)
        return rest
