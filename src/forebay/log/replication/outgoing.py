"""The frames of a log to send to other nodes: recent ones from memory, older ones from the WAL files."""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i64_le
from mypy_extensions import i64

from forebay.core.errors import CorruptFile
from forebay.core.ports import Disk
from forebay.log.frame import FRAME_HEAD_OCTETS, BadFrame, frame_octets
from forebay.log.shipment import Shipment
from forebay.log.wal import GatheredFrame, WalFile

CHUNK_OCTETS: Final = 1 << 20
TRIM_MIN: Final = 256


@final
class SentFrame:
    """A frame that was given to the disk. Its bytes are dropped when memory is needed for later frames."""

    def __init__(self, frame: GatheredFrame, octets: bytes) -> None:
        self.lsn = frame.lsn
        self.file = frame.file
        self.position = frame.position
        self.octets = octets


@final
class Outgoing:
    """The frames that a leader sends to followers.

    recent  the newest frames, ascending, valid from `first` on; frames that may not be on the disk yet are among them
    last    lsn of the last frame that was given to the disk
    """

    def __init__(self, disk: Disk, octets_max: int) -> None:
        self.disk = disk
        self.octets_max = octets_max
        self.recent: list[SentFrame] = []
        self.first = 0
        self.octets = 0
        self.last = 0
        self.made: list[Shipment] = []  # result of the last `from_memory`: several members ask for the same frames
        self.made_max = 0

    def add(self, frame: GatheredFrame) -> None:
        """Add a frame that goes to the disk. Nothing may be added to the frame from here on."""
        parts = frame.encode()
        octets = parts[0] if len(parts) == 1 else b"".join(parts)
        frame.encoded = [octets]
        frame.file.last = frame.lsn
        frame.file.mark(frame.lsn, frame.position)
        self.recent.append(SentFrame(frame, octets))
        self.octets += len(octets)
        self.last = frame.lsn
        self.made = []

    def trim(self, on_disk: int) -> None:
        """Drop the oldest frames over the memory limit, up to the last frame on the disk."""
        recent = self.recent
        at = self.first
        while self.octets > self.octets_max and at < len(recent) and recent[at].lsn <= on_disk:
            self.octets -= len(recent[at].octets)
            recent[at].octets = b""  # the list itself is shortened now and then only
            at += 1
        self.first = at
        if at > TRIM_MIN or at == len(recent):
            self.recent = recent[at:]
            self.first = 0

    def frames_from(self, wals: list[WalFile], lsn: int, octets_max: int) -> list[Shipment] | None:
        """Return frames from `lsn` on, in shipments of one file each, or None if no WAL file holds that frame.

        At most `octets_max` bytes, unless the first frame alone is longer.
        """
        if lsn > self.last:
            return []
        if self.first < len(self.recent) and lsn >= self.recent[self.first].lsn:
            return self.from_memory(lsn, octets_max)
        wal = file_of(wals, lsn)
        if wal is None:
            return None
        last = wal.last
        if self.first < len(self.recent):
            last = min(last, self.recent[self.first].lsn - 1)
        return [self.from_file(wal, lsn, last, octets_max)]

    def from_memory(self, lsn: int, octets_max: int) -> list[Shipment]:
        if self.made and self.made[0].first == lsn and self.made_max == octets_max:
            return self.made
        recent = self.recent
        at = self.first + lsn - recent[self.first].lsn
        assert recent[at].lsn == lsn
        shipments: list[Shipment] = []
        total = 0
        while at < len(recent):
            file = recent[at].file
            first = at
            parts: list[bytes] = []
            while at < len(recent) and recent[at].file is file:
                octets = recent[at].octets
                if total and total + len(octets) > octets_max:
                    break
                total += len(octets)
                parts.append(octets)
                at += 1
            if not parts:
                break
            octets = parts[0] if len(parts) == 1 else b"".join(parts)
            begin = recent[first]
            end = recent[at - 1].lsn
            shipments.append(Shipment(file.head_octets, begin.position, begin.lsn, end, file.epoch, file.epoch, octets))
            if at < len(recent) and recent[at].file is file:
                break
        self.made = shipments
        self.made_max = octets_max
        return shipments

    def from_file(self, wal: WalFile, lsn: int, last: int, octets_max: int) -> Shipment:
        """Read frames of a WAL file from `lsn` to `last`, at most `octets_max` bytes but at least one frame."""
        walk = Walk(self.disk, wal, lsn)
        begin = walk.position
        total: i64 = 0
        end = lsn - 1
        while end < last:
            octets = walk.octets()
            if total and total + octets > octets_max:
                break
            total += octets
            end += 1
            walk.position += octets
        octets_read = self.disk.pread(wal.blocks.handle, int(total), int(begin))
        if i64(len(octets_read)) != total:
            raise CorruptFile(self.disk.path(wal.blocks.path), int(begin), f"frames {lsn} to {end} are not there")
        return Shipment(wal.head_octets, begin, lsn, end, wal.epoch, wal.epoch, octets_read)


@final
class Walk:
    """Goes over the heads of a WAL file's frames, from frame `lsn` on.

    position  of the next frame
    """

    def __init__(self, disk: Disk, wal: WalFile, lsn: int) -> None:
        self.disk = disk
        self.wal = wal
        self.data = b""
        self.data_at: i64 = 0
        at, position = wal.marked(lsn)
        self.position: i64 = position
        while at < lsn:
            self.position += self.octets()
            at += 1
        found = self.lsn()
        if found != lsn:
            text = f"frame {found} stands where {lsn} should"
            raise CorruptFile(disk.path(wal.blocks.path), int(self.position), text)

    def fetch(self) -> i64:
        """Return the place in `data` of the next frame's head, and read it if need be."""
        skip = self.position - self.data_at
        if skip < 0 or skip + FRAME_HEAD_OCTETS > i64(len(self.data)):
            self.data = self.disk.pread(self.wal.blocks.handle, CHUNK_OCTETS, int(self.position))
            self.data_at = self.position
            skip = 0
        return skip

    def octets(self) -> i64:
        """Return the length of the next frame. Raises CorruptFile if there is none."""
        at = self.fetch()
        try:
            return frame_octets(self.data, at)
        except BadFrame as error:
            raise CorruptFile(self.disk.path(self.wal.blocks.path), int(self.position), str(error)) from error

    def lsn(self) -> i64:
        """Return the LSN of the next frame. Raises CorruptFile if there is none."""
        self.octets()
        return read_i64_le(self.data, self.fetch() + 16)


def file_of(wals: list[WalFile], lsn: int) -> WalFile | None:
    """Return the WAL file that holds frame `lsn`, or None if none does."""
    for wal in reversed(wals):
        if wal.head.first_lsn <= lsn:
            return wal if lsn <= wal.last else None
    return None


def runs_of(wals: list[WalFile], floor: int) -> list[tuple[int, int, int]]:
    """Return (epoch, first LSN, last LSN) of each epoch, newest first, without frames below `floor`."""
    runs: list[tuple[int, int, int]] = []
    for wal in reversed(wals):
        first = max(wal.head.first_lsn, floor)
        if first > wal.last:
            continue
        if runs and runs[-1][0] == wal.epoch:
            runs[-1] = (wal.epoch, first, runs[-1][2])
        else:
            runs.append((wal.epoch, first, wal.last))
    return runs
