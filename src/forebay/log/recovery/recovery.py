"""Reads the WAL back after a stop of any kind.

The frames of a file follow each other up to the first place without a whole frame. In the last file, if no whole frame
with a later number follows, that place is the torn end of a write that was never confirmed. It is truncated and
reported. Anything else that is not as it was written is damage and refused, as the lost data may have been confirmed.

A file may hold a million frames, or as many blocks in a few, so this module and its callees are compiled.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

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


@final
class WalReader:
    """Reads the frames of one WAL file.

    position  where the next frame begins, or the first place without a frame
    lsn       of the last frame read; before the first, the lsn before the file's first frame
    epoch     of the last frame read
    last      no file follows this one
    read      (begin, end) of each run of frames that was read before damage that was skipped
    since     begin of the run that ends at `position`
    """

    def __init__(self, disk: Disk, path: str, handle: int, number: int, last: bool) -> None:
        self.disk = disk
        self.full_path = disk.path(path)
        self.handle = handle
        self.last = last
        self.octets: i64 = i64(disk.size(handle))
        self.head = self.read_head(number)
        self.position: i64 = FILE_HEAD_OCTETS
        self.lsn: i64 = i64(self.head.first_lsn) - 1
        self.epoch: i64 = 0
        self.read: list[tuple[int, int]] = []
        self.since: i64 = FILE_HEAD_OCTETS
        self.chunk = b""
        self.chunk_at: i64 = 0

    def read_head(self, number: int) -> FileHead:
        try:
            head = parse_file_head(self.disk.pread(self.handle, FILE_HEAD_OCTETS, 0))
        except BadFrame as error:
            raise CorruptFile(self.full_path, 0, str(error)) from error
        if head.number != number:
            raise CorruptFile(self.full_path, 16, f"the file says it is number {head.number}")
        return head

    def fetch(self, position: i64, octets: i64) -> i64:
        """Return the place in `chunk` of the bytes at `position`, reading them if need be.

        Fewer only at the file's end.
        """
        skip = position - self.chunk_at
        if skip < 0 or skip + octets > i64(len(self.chunk)):
            self.chunk = self.disk.pread(self.handle, int(max(octets, i64(CHUNK_OCTETS))), int(position))
            self.chunk_at = position
            skip = 0
        return skip

    def frame_at(self, position: i64) -> Frame:
        """Return the whole frame at `position`. Raises BadFrame if there is none."""
        at = self.fetch(position, FRAME_HEAD_OCTETS)
        octets = frame_octets(self.chunk, at)
        if octets > self.octets - position:
            raise BadFrame(f"frame of {octets} octets runs over the file's end")
        at = self.fetch(position, octets)
        return parse_frame(self.chunk, at, self.head.salt)

    def next(self) -> Frame | None:
        """Read the next frame and move `position` behind it.

        Returns None if the log ends here. Raises CorruptFile on damage.
        """
        try:
            frame = self.frame_at(self.position)
            if frame.lsn != self.lsn + 1:
                raise BadFrame(f"frame {frame.lsn} stands where {self.lsn + 1} should")
            if self.position == FILE_HEAD_OCTETS and not frame.flags & CHECKPOINT:
                raise BadFrame("the file does not begin with a checkpoint")
        except BadFrame as error:
            self.check_end(error)
            return None
        if self.position > FILE_HEAD_OCTETS and frame.epoch != self.epoch:
            text = f"frame {frame.lsn} is of epoch {frame.epoch}, the file's frames before it are of {self.epoch}"
            raise CorruptFile(self.full_path, int(self.position), text)
        self.position += frame.octets
        self.lsn = frame.lsn
        self.epoch = frame.epoch
        return frame

    def pass_over(self, position: i64, lsn: i64, epoch: i64) -> None:
        """Skip damage and continue with frame `lsn` of this epoch, which stands at `position`."""
        self.read.append((int(self.since), int(self.position)))
        self.since = position
        self.position = position
        self.lsn = lsn - 1
        self.epoch = epoch

    def check_end(self, error: BadFrame) -> None:
        """Raise CorruptFile unless the log may end at `position`, where no frame stands."""
        if self.position == FILE_HEAD_OCTETS:
            # Damage, not a torn write: a file gets its name only once this frame is synced.
            raise CorruptFile(self.full_path, int(self.position), f"first frame: {error}") from error
        found = self.later_frame()
        if found >= 0:
            frame = self.frame_at(found)
            text = f"{error}; but frame {frame.lsn} stands whole at octet {found}. {self.concerned(found)}"
            raise CorruptFile(self.full_path, int(self.position), text) from error
        if not self.last and self.rest_octets():
            text = f"{error}; and this is not the last WAL file. {concerned_behind(self.ends())}"
            raise CorruptFile(self.full_path, int(self.position), text) from error

    def later_frame(self) -> i64:
        """Return the position of the first whole frame with a later number than the last one read, or -1 if none.

        The frame may stand at `position` itself, if frames between were never written. That is no torn write either.
        """
        at = self.position
        while at < self.octets:
            start = self.fetch(at, min(i64(CHUNK_OCTETS), self.octets - at))
            left = i64(len(self.chunk)) - start
            if left <= 0:
                return -1  # the file has become shorter since its length was read
            found = i64(self.chunk.find(FRAME_MAGIC, int(start)))
            if found < 0:
                at += max(i64(8), left - 8)  # a magic may lie across the chunk's end
                continue
            at += found - start
            if not at & 7 and self.stands_later(at):
                return at
            at += 1
        return -1

    def stands_later(self, at: i64) -> bool:
        """Return whether a whole frame with a later number than the last one read stands at `at`."""
        try:
            return self.frame_at(at).lsn > self.lsn
        except BadFrame:
            return False

    def has_grown(self) -> bool:
        """Return whether another process has written the next frame since its place was read."""
        self.chunk = b""
        try:
            return self.frame_at(self.position).lsn == self.lsn + 1
        except BadFrame:
            return False

    def ends(self) -> dict[int, int]:
        """Return the offset after the last block of each queue seen.

        Reads the file again, as only damage reports need it.
        """
        ends: dict[int, int] = {}
        for first, end in [*self.read, (int(self.since), int(self.position))]:
            at = i64(first)
            while at < end:
                frame = self.frame_at(at)
                for block in frame.blocks:
                    ends[block.queue] = int(block.base + block.count)
                at += frame.octets
        return ends

    def concerned(self, at: i64) -> str:
        """Return a text with the offsets that are missing before the frame at `at`."""
        ends = self.ends()
        missing: dict[int, int] = {}
        try:
            while True:
                frame = self.frame_at(at)
                for block in frame.blocks:
                    if block.queue not in ends or block.base > ends[block.queue]:
                        missing.setdefault(block.queue, int(block.base))
                at += frame.octets
        except BadFrame:
            pass  # the next damage, or the end, ends the search
        if not missing:
            return f"No offsets are missing, settlements or declarations may be. {concerned_behind(ends)}"
        ranges = [f"queue {queue}, offsets {ends.get(queue, 0)} to {end - 1}" for queue, end in missing.items()]
        return "Missing, unless an older file has them: " + "; ".join(ranges)

    def rest_octets(self) -> int:
        """Return the number of bytes from `position` to the last byte that is not zero."""
        rest: i64 = 0
        at = self.position
        while at < self.octets:
            start = self.fetch(at, min(i64(CHUNK_OCTETS), self.octets - at))
            data = self.chunk[start:]
            if not data:
                break
            # Comparing with zeros is ten times as fast as stripping them.
            if data != bytes(len(data)):
                rest = at + i64(len(data.rstrip(b"\0"))) - self.position
            at += i64(len(data))
        return int(rest)


def concerned_behind(ends: dict[int, int]) -> str:
    """Return a text with the queues that the damage may concern, and the offset where each was last whole."""
    whole = [f"queue {queue} from offset {end}" for queue, end in sorted(ends.items())]
    return "Concerned may be " + ("; ".join(whole) if whole else "every queue")
