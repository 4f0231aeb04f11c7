"""Whole frames of one WAL file as they go to another node: the same octets on the wire and on every disk."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class Shipment:
    """Frames that stand one after the other in one WAL file.

    file_head    the first 32 octets of the file: its number, salt and first LSN
    position     of the first octet within the file
    first, last  LSN of the first and the last frame
    first_epoch  of the first frame, `last_epoch` of the last: epochs never go down within a log
    octets       the frames
    """

    def __init__(
        self, file_head: bytes, position: i64, first: i64, last: i64, first_epoch: i64, last_epoch: i64, octets: bytes
    ) -> None:
        self.file_head = file_head
        self.position: i64 = position
        self.first: i64 = first
        self.last: i64 = last
        self.first_epoch: i64 = first_epoch
        self.last_epoch: i64 = last_epoch
        self.octets = octets
