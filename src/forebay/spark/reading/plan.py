"""Divides a read into tasks, each with a range of offsets."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import pairwise
from typing import Final

# A task costs about 25 ms of a core before its first row; for fewer records than this, if they are short, another
# task does not pay.
TASK_ROWS_MIN: Final = 16_384
TASK_OCTETS_MIN: Final = 16 << 20
TASK_OCTETS_MAX: Final = 512 << 20


@dataclass(frozen=True, slots=True)
class Range:
    """The records of one queue with offsets from `first` to below `end`.

    id      id of the log that is expected; None for the queue's current log
    octets  approximate size of the records, in bytes; 0 if unknown
    """

    queue: str
    first: int
    end: int
    id: int | None = None
    octets: int = 0

    @property
    def count(self) -> int:
        """Return the number of offsets; records may be fewer, if the log was compacted."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The largest size of tasks, and the least number of them.

    tasks_min   if there are enough records; 0 if the user set none
    rows_max    of one task; 0 is no limit
    octets_max  approximate number of bytes that a task reads
    """

    tasks_min: int = 0
    rows_max: int = 0
    octets_max: int = TASK_OCTETS_MAX


def plan(ranges: list[Range], cores: int, limits: BatchLimits) -> list[Range]:
    """Divide ranges into about one task a core, with equally many records each and none larger than the limits.

    cores  number of tasks that run at once
    """
    ranges = [each for each in ranges if each.count > 0]
    total = sum(each.count for each in ranges)
    if total == 0:
        return []
    octets = sum(each.octets for each in ranges)
    worth = max(-(-total // TASK_ROWS_MIN), -(-octets // TASK_OCTETS_MIN))
    wanted = min(max(min(cores, worth), limits.tasks_min, len(ranges)), total)
    counts = [max(parts_min(each, limits), min(each.count, each.count * wanted // total)) for each in ranges]
    share_out(ranges, counts, wanted - sum(counts))
    return [part for each, count in zip(ranges, counts, strict=True) for part in cut(each, count)]


def parts_min(whole: Range, limits: BatchLimits) -> int:
    """Return the least number of tasks that a range must be divided into, so that none exceeds the limits."""
    by_rows = -(-whole.count // limits.rows_max) if limits.rows_max else 1
    return min(whole.count, max(1, by_rows, -(-whole.octets // limits.octets_max)))


def share_out(ranges: list[Range], counts: list[int], left: int) -> None:
    """Add `left` tasks to the counts in place, one by one where tasks are longest."""
    if left <= 0:
        return
    longest = [(-each.count / counts[place], place) for place, each in enumerate(ranges)]
    heapify(longest)
    for _ in range(left):
        place = longest[0][1]
        counts[place] += 1
        heapreplace(longest, (-ranges[place].count / counts[place], place))


def cut(whole: Range, parts: int) -> list[Range]:
    """Divide a range into this many parts, equal within one record."""
    edges = [whole.first + whole.count * place // parts for place in range(parts + 1)]
    return [
        Range(whole.queue, first, end, whole.id, whole.octets * (end - first) // whole.count)
        for first, end in pairwise(edges)
    ]
