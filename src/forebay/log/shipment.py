"""Whole frames of one WAL file as they are sent to another node: the same bytes on the wire and on every disk."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64


@final
class Shipment:
    """Consecutive frames of one WAL file, to be sent to another node.

    file_head    the first 32 bytes of the file: its number, salt and first LSN
    position     of the first byte within the file
    first, last  LSN of the first and the last frame
    first_epoch  of the first frame, `last_epoch` of the last: epochs never decrease within a log
    octets       the frames' bytes
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
