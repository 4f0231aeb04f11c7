"""Records of one priority, by age.

A run of consecutive offsets is one entry of 16 bytes. An entry records where records were. If some of them are taken
out of the middle, the caller that takes the others checks which still wait.
"""

from __future__ import annotations

import heapq
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

TRIM_MIN: Final = 4096  # used-up entries at the front of a level before it is compacted


class PriorityLevel:
    """The records of one priority, by offset.

    count  number of records in its entries, not of runs
    """

    def __init__(self) -> None:
        self.runs = vec[i64]()  # first, count, first, count ... ascending; those before `head` are taken
        self.head: i64 = 0
        self.returned: list[tuple[int, int]] = []  # heap of (first, count)
        self.count: i64 = 0

    def add(self, first: i64, count: i64) -> None:
        """Add records that follow all that were added before."""
        self.count += count
        size = i64(len(self.runs))
        if size > self.head and self.runs[size - 2] + self.runs[size - 1] == first:
            self.runs[size - 1] += count
            return
        self.runs = append(self.runs, first)
        self.runs = append(self.runs, count)

    def give_back(self, first: i64, count: i64) -> None:
        """Add records in any order."""
        self.count += count
        heapq.heappush(self.returned, (int(first), int(count)))

    def first(self) -> i64:
        """Return the lowest offset. The level must not be empty."""
        if self.returned and (self.head >= len(self.runs) or self.returned[0][0] < self.runs[self.head]):
            return self.returned[0][0]
        return self.runs[self.head]

    def length(self) -> i64:
        """Return the number of records from `first` on in one entry."""
        if self.returned and (self.head >= len(self.runs) or self.returned[0][0] < self.runs[self.head]):
            return self.returned[0][1]
        return self.runs[self.head + 1]

    def take(self, count: i64) -> None:
        """Remove the first `count` records, at most `length`."""
        self.count -= count
        if self.returned and (self.head >= len(self.runs) or self.returned[0][0] < self.runs[self.head]):
            first, total = heapq.heappop(self.returned)
            if count < total:
                heapq.heappush(self.returned, (first + count, total - count))
            return
        if count < self.runs[self.head + 1]:
            self.runs[self.head] += count
            self.runs[self.head + 1] -= count
            return
        self.head += 2
        if self.head >= TRIM_MIN and 2 * self.head >= len(self.runs):
            self.runs = self.runs[self.head :]
            self.head = 0

    def entries(self) -> i64:
        return ((i64(len(self.runs)) - self.head) >> 1) + len(self.returned)

    def all_runs(self) -> list[tuple[int, int]]:
        """Return the runs of all entries. Those of returned records come last."""
        found: list[tuple[int, int]] = []
        at = self.head
        while at < i64(len(self.runs)):
            found.append((self.runs[at], self.runs[at + 1]))
            at += 2
        found += self.returned
        return found

    def clear(self) -> None:
        self.runs = vec[i64]()
        self.head = 0
        self.returned = []
        self.count = 0
