"""A group's share of one turn: octets to deliver, records to look at, and what time it is."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.queue.properties import TURN_OCTETS

SCAN_RECORDS: Final = 8192  # most that a filter looks at in one turn


@final
class TurnShare:
    """The share of one group.

    most_octets  to deliver in one turn
    octets       left to deliver in this turn
    looks        records left to look at in this turn
    now_us       at the last look at the clock
    """

    def __init__(self) -> None:
        self.most_octets: i64 = TURN_OCTETS
        self.octets: i64 = 0
        self.looks: i64 = 0
        self.now_us: i64 = 0
