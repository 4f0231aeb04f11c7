"""The offsets that are still wanted, as the node that leads says: its followers hold no queues that could say it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.log.housekeeping import Liveness

Intervals = list[tuple[int, int]]
ALL: Final = 0  # number of an order that is about every file
NO_END: Final = 1 << 62
INTERVALS_MAX: Final = 1024  # of a queue in an order: beyond that short holes count as wanted


@dataclass(frozen=True, slots=True)
class FileOrder:
    """An order to rewrite files.

    number  of the WAL file; ALL for whatever there is
    lsn     what it says holds once this frame is committed
    wanted  for each queue intervals of offsets, ascending. A queue that is not there was not spoken of: it may have
            more in that file elsewhere than here, where a rewrite that was cut off has got so far
    """

    number: int
    lsn: int
    wanted: dict[int, Intervals]


class ToldLiveness(Liveness):
    """The liveness that an order gives: of what it does not speak of nothing may be left out."""

    def __init__(self, number: int, wanted: dict[int, Intervals]) -> None:
        self.number = number
        self.wanted = wanted

    def live(self, queue: int, first: int, end: int) -> Intervals:
        intervals = self.wanted.get(queue)
        if intervals is None:
            return [(first, end)]
        return clipped(intervals, first, end)


class AllWanted(Liveness):
    """A liveness that lets nothing be left out."""

    def live(self, queue: int, first: int, end: int) -> Intervals:
        return [(first, end)]


def clipped(intervals: Intervals, first: int, end: int) -> Intervals:
    """The parts of these that lie in [first, end)."""
    found: Intervals = []
    for low, high in intervals:
        if high > first and low < end:
            found.append((max(low, first), min(high, end)))
    return found


def coarse(intervals: Intervals) -> Intervals:
    """At most as many intervals as an order takes, which cover at least these."""
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
