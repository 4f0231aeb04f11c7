"""Records in the order of an expression: the highest value first, and the oldest first among equals.

A value is an unsigned number of 64 bits. A rank is the same number as a signed one, in which the lowest comes first.
"""

from __future__ import annotations

import math
from typing import Final, final

from librt.vecs import append, pop, vec
from mypy_extensions import i64

from forebay.filter.values import first, number
from forebay.queue.ready.level import PriorityLevel

RANK_LAST: Final = (1 << 63) - 1  # the rank of the value 0
VALUE_MAX: Final = (1 << 64) - 1
WIDTH: Final = 3  # numbers of an entry: rank, first, count


def rank_of(value: object) -> int:
    """Return the rank of an expression's value. Anything below 0 or no number ranks last. Fractions are cut off."""
    found = number(first(value))
    if isinstance(found, float):
        if math.isnan(found) or found <= 0.0:
            return RANK_LAST
        if found >= VALUE_MAX:
            return RANK_LAST - VALUE_MAX
        return RANK_LAST - math.floor(found)
    if isinstance(found, int):
        return RANK_LAST - max(0, min(found, VALUE_MAX))
    return RANK_LAST


@final
class RankedRecords(PriorityLevel):
    """The records of all ranks, as a heap of entries of 24 bytes. An entry is a run of one rank.

    heap  rank, first, count of each entry
    """

    def __init__(self) -> None:
        super().__init__()
        self.heap = vec[i64]()

    def place(self, rank: i64, first: i64, count: i64) -> None:
        """Add records at their rank."""
        self.count += count
        at = i64(len(self.heap))
        self.heap = append(self.heap, rank)
        self.heap = append(self.heap, first)
        self.heap = append(self.heap, count)
        heap = self.heap
        while at > 0:
            above = ((at // WIDTH - 1) >> 1) * WIDTH
            if heap[above] < rank or (heap[above] == rank and heap[above + 1] <= first):
                break
            heap[at] = heap[above]
            heap[at + 1] = heap[above + 1]
            heap[at + 2] = heap[above + 2]
            at = above
        heap[at] = rank
        heap[at + 1] = first
        heap[at + 2] = count

    def sink(self, rank: i64, first: i64, count: i64) -> None:
        """Replace the first entry with this one, and restore the heap order."""
        heap = self.heap
        size = i64(len(heap))
        at: i64 = 0
        below: i64 = WIDTH
        while below < size:
            other = below + WIDTH
            if other < size and (
                heap[other] < heap[below] or (heap[other] == heap[below] and heap[other + 1] < heap[below + 1])
            ):
                below = other
            if rank < heap[below] or (rank == heap[below] and first <= heap[below + 1]):
                break
            heap[at] = heap[below]
            heap[at + 1] = heap[below + 1]
            heap[at + 2] = heap[below + 2]
            at = below
            below = 2 * at + WIDTH
        heap[at] = rank
        heap[at + 1] = first
        heap[at + 2] = count

    def first(self) -> i64:
        return self.heap[1]

    def length(self) -> i64:
        return self.heap[2]

    def take(self, count: i64) -> None:
        self.count -= count
        heap = self.heap
        if count < heap[2]:
            self.sink(heap[0], heap[1] + count, heap[2] - count)
            return
        self.heap, last_count = pop(self.heap)
        self.heap, last_first = pop(self.heap)
        self.heap, last_rank = pop(self.heap)
        if len(self.heap):
            self.sink(last_rank, last_first, last_count)

    def entries(self) -> i64:
        return i64(len(self.heap)) // WIDTH

    def all_runs(self) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for _, start, count in self.ranked_runs():
            found.append((start, count))
        return found

    def ranked_runs(self) -> list[tuple[int, int, int]]:
        """Return (rank, first, count) of all entries, in no order."""
        found: list[tuple[int, int, int]] = []
        heap = self.heap
        at: i64 = 0
        while at < i64(len(heap)):
            found.append((int(heap[at]), int(heap[at + 1]), int(heap[at + 2])))
            at += WIDTH
        return found

    def clear(self) -> None:
        self.heap = vec[i64]()
        self.count = 0
