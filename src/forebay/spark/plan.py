"""Which tasks read which offsets."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

# A task costs some 25 ms of a core before its first row; below this many rows another task does not pay.
TASK_ROWS_MIN: Final = 16_384


@dataclass(frozen=True, slots=True)
class Range:
    """The records of one queue with offsets from `first` to below `end`.

    id  of the log that is meant; None for whichever the queue has
    """

    queue: str
    first: int
    end: int
    id: int | None = None

    @property
    def count(self) -> int:
        """How many offsets; records may be fewer, where the log was compacted."""
        return self.end - self.first


def plan(ranges: list[Range], cores: int, min_partitions: int) -> list[Range]:
    """Cut ranges into about one task a core, equal in records; never in fewer than asked for where there are enough.

    cores           tasks that run at once
    min_partitions  0 where the user did not say
    """
    ranges = [each for each in ranges if each.count > 0]
    total = sum(each.count for each in ranges)
    if total == 0:
        return []
    wanted = min(cores, -(-total // TASK_ROWS_MIN))
    wanted = min(max(wanted, min_partitions, len(ranges)), total)
    counts = [max(1, min(each.count, each.count * wanted // total)) for each in ranges]
    # Rounding down leaves some over: they go where the tasks are longest.
    while sum(counts) < wanted:
        longest = max(range(len(ranges)), key=lambda place: ranges[place].count / counts[place])
        counts[longest] += 1
    return [part for each, count in zip(ranges, counts, strict=True) for part in cut(each, count)]


def cut(whole: Range, parts: int) -> list[Range]:
    """A range in so many pieces, equal within one record."""
    edges = [whole.first + whole.count * place // parts for place in range(parts + 1)]
    return [Range(whole.queue, first, end, whole.id) for first, end in pairwise(edges)]
