"""Fetches that name their columns: of each block only these leave the broker, so that a count costs no bodies.

Of a block in a segment only they are read, and checked. Reading is work for the one thread that everybody waits for, so
it is measured as that of filters is (picking.py).
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.queue_log import QueueLog

OCTETS_A_WORK: Final = 256  # that are read and checked, for one unit of work
WORK_A_BLOCK: Final = 64
WORK_A_REQUEST: Final = 1 << 15  # 8 MiB of columns, or half a thousand heads


@final
class Projection:
    """The parts of blocks of one answer.

    next  where to fetch on
    work  that they took
    """

    def __init__(self, log: QueueLog, first: i64, end: i64, octets_max: i64, columns: i64) -> None:
        self.parts: list[bytes] = []
        self.octets: i64 = 0
        self.work: i64 = 0
        offset = first
        while offset < end and self.work < WORK_A_REQUEST and self.octets < octets_max:
            part = log.kept_part(offset, columns)
            if part is None or part.base >= end:
                offset = end
                break
            self.work += WORK_A_BLOCK + part.read_octets // OCTETS_A_WORK
            self.parts += part.parts
            self.octets += part.octets
            offset = part.end
        self.next: i64 = max(first, offset)
