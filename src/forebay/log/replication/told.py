"""Offsets a follower must keep when it rewrites WAL files, as sent by the leader. A follower has no queues to ask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.log.housekeeping import Liveness

Intervals = list[tuple[int, int]]
ALL: Final = 0  # number of an order about every file
NO_END: Final = 1 << 62
INTERVALS_MAX: Final = 1024  # per queue in an order; with more, short holes count as needed


@dataclass(frozen=True, slots=True)
class FileOrder:
    """An order of the leader to rewrite files.

    number  of the WAL file; ALL for every file
    lsn     the order holds once this frame is committed
    wanted  intervals of offsets to keep for each queue, ascending. A queue that is missing here keeps everything: this
            node may hold records of it in that file that the leader, whose rewrite went further, holds elsewhere
    """

    number: int
    lsn: int
    wanted: dict[int, Intervals]


class ToldLiveness(Liveness):
    """The needed offsets according to an order. A queue that the order does not name needs all its records."""

    def __init__(self, number: int, wanted: dict[int, Intervals]) -> None:
        self.number = number
        self.wanted = wanted

    def live(self, queue: int, first: int, end: int) -> Intervals:
        intervals = self.wanted.get(queue)
        if intervals is None:
            return [(first, end)]
        return clipped(intervals, first, end)


class AllWanted(Liveness):
    """A liveness by which every record is needed."""

    def live(self, queue: int, first: int, end: int) -> Intervals:
        return [(first, end)]


def clipped(intervals: Intervals, first: int, end: int) -> Intervals:
    """Return the parts of the intervals that lie in [first, end)."""
    found: Intervals = []
    for low, high in intervals:
        if high > first and low < end:
            found.append((max(low, first), min(high, end)))
    return found


def coarse(intervals: Intervals) -> Intervals:
    """Return at most INTERVALS_MAX intervals that cover these, by filling the shortest holes."""
    hole = 1
    while len(intervals) > INTERVALS_MAX:
        hole *= 2
        joined: Intervals = []
        for first, end in intervals:
            if joined and first - joined[-1][1] <= hole:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((first, end))
        intervals = joined
    return intervals
