"""A group's budget for one turn: bytes to deliver and records to scan, with the current time."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.queue.properties import TURN_OCTETS

SCAN_RECORDS: Final = 8192  # records that a filter may scan in one turn


@final
class TurnShare:
    """The budget of one group in a turn.

    most_octets  bytes to deliver in one turn
    octets       bytes left to deliver in this turn
    looks        records left to scan in this turn
    now_us       the last reading of the clock
    """

    def __init__(self) -> None:
        self.most_octets: i64 = TURN_OCTETS
        self.octets: i64 = 0
        self.looks: i64 = 0
        self.now_us: i64 = 0
