"""Frames from the leader, checked before they are taken."""

from __future__ import annotations

from typing import final

from librt.strings import read_i64_le
from mypy_extensions import i64

from forebay.log.frame import (
    CHECKPOINT,
    FILE_HEAD_OCTETS,
    BadFrame,
    FileHead,
    Frame,
    frame_octets,
    parse_file_head,
    parse_frame,
)
from forebay.log.shipment import Shipment
from forebay.log.wal import GatheredFrame, WalFile


class BadShipment(ValueError):
    """No leader can have sent these frames. The text says why."""


@final
class IncomingFrame:
    """A frame of a shipment.

    at  position of its first byte within the shipment
    """

    def __init__(self, lsn: i64, epoch: i64, at: i64, octets: i64) -> None:
        self.lsn: i64 = lsn
        self.epoch: i64 = epoch
        self.at: i64 = at
        self.octets: i64 = octets


@final
class TakenFrame:
    """A frame that was taken and is not committed yet."""

    def __init__(self, frame: Frame, position: i64, file: WalFile) -> None:
        self.frame = frame
        self.lsn = int(frame.lsn)
        self.position = int(position)
        self.file = file


@final
class TakenFrames(GatheredFrame):
    """Consecutive frames of one file on their way to the disk, as received. `lsn` is that of the last."""

    def __init__(self, lsn: int, file: WalFile) -> None:
        super().__init__(lsn, file, 0)
        self.octets = 0
        self.encoded = []
        self.first = lsn

    def add(self, lsn: int, octets: bytes) -> None:
        assert self.encoded is not None
        self.lsn = lsn
        self.encoded.append(octets)
        self.octets += len(octets)

    def keep(self, lsn: int) -> bool:
        """Drop the frames after frame `lsn`, and return False if none is left."""
        assert self.encoded is not None
        count = max(0, lsn - self.first + 1)
        for octets in self.encoded[count:]:
            self.octets -= len(octets)
        self.encoded = self.encoded[:count]
        self.lsn = lsn
        return count > 0


def head_of(shipment: Shipment) -> FileHead:
    """Return the head of the WAL file that the frames belong to. Raises BadShipment if they cannot be in it."""
    try:
        head = parse_file_head(shipment.file_head)
    except BadFrame as error:
        raise BadShipment(f"frames {shipment.first} to {shipment.last}: {error}") from error
    if shipment.position < FILE_HEAD_OCTETS or shipment.position & 7 or shipment.first < head.first_lsn:
        raise BadShipment(f"frame {shipment.first} cannot stand at octet {shipment.position} of file {head.number}")
    return head


def frames_in(shipment: Shipment) -> list[IncomingFrame]:
    """Return the frames of a shipment by their heads. Does not check their contents."""
    found: list[IncomingFrame] = []
    data = shipment.octets
    at: i64 = 0
    lsn = shipment.first
    try:
        while at < i64(len(data)):
            octets = frame_octets(data, at)
            if octets > i64(len(data)) - at:
                raise BadFrame(f"frame of {octets} octets has only {i64(len(data)) - at}")
            if read_i64_le(data, at + 16) != lsn:
                raise BadFrame(f"frame {read_i64_le(data, at + 16)} stands where {lsn} should")
            found.append(IncomingFrame(lsn, read_i64_le(data, at + 32), at, octets))
            at += octets
            lsn += 1
    except BadFrame as error:
        raise BadShipment(f"frames {shipment.first} to {shipment.last}: {error}") from error
    if lsn != shipment.last + 1:
        raise BadShipment(f"frames {shipment.first} to {shipment.last}: they end with {lsn - 1}")
    return found


def checked(shipment: Shipment, place: IncomingFrame, file: WalFile) -> Frame:
    """Parse and check a frame of a shipment for this WAL file. Raises BadShipment if it is damaged or misplaced."""
    try:
        frame = parse_frame(shipment.octets, place.at, file.head.salt)
        if (place.lsn == file.head.first_lsn) != (frame.flags & CHECKPOINT != 0):
            raise BadFrame("a checkpoint begins each file, and is nowhere else")
        if frame.epoch != file.epoch:
            raise BadFrame(f"it is of epoch {frame.epoch}, its file of {file.epoch}")
    except BadFrame as error:
        raise BadShipment(f"frame {place.lsn}: {error}") from error
    return frame
