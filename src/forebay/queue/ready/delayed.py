"""The records of a work group that wait until a time."""

from __future__ import annotations

import heapq
from typing import Final, final

from mypy_extensions import i64

FROM_NOW: Final = -(1 << 62)  # added to a delay that counts from the next reading of the clock


@final
class DelayedRecords:
    """Runs of records, with the time from which each may be delivered.

    heap   heap of (due, first, count); a due time below 0 is FROM_NOW plus a length of time
    count  number of records
    """

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int]] = []
        self.count: i64 = 0

    def add(self, first: i64, count: i64, due_us: i64) -> None:
        """Delay records until `due_us`.

        due_us  a value below 0 is FROM_NOW plus the delay, for callers that do not know the time
        """
        heapq.heappush(self.heap, (int(due_us), int(first), int(count)))
        self.count += count

    def take_due(self, now_us: i64) -> list[tuple[int, int]]:
        """Remove and return the runs that are due."""
        while self.heap and self.heap[0][0] < 0:
            rest_us, first, count = heapq.heappop(self.heap)
            heapq.heappush(self.heap, (int(rest_us - FROM_NOW + now_us), first, count))
        due: list[tuple[int, int]] = []
        while self.heap and self.heap[0][0] <= now_us:
            _, first, count = heapq.heappop(self.heap)
            self.count -= count
            due.append((first, count))
        return due

    def due_runs(self, now_us: i64) -> list[tuple[int, int, int]]:
        """Return all runs as (due, first, count). Delays from now are computed from `now_us`."""
        runs: list[tuple[int, int, int]] = []
        for due_us, first, count in self.heap:
            runs.append((due_us if due_us > 0 else int(due_us - FROM_NOW + now_us), first, count))
        return runs

    def next_due_us(self) -> i64:
        """Return the time at which the next run is due, or 0 for never."""
        return self.heap[0][0] if self.heap else 0

    def replace(self, runs: list[tuple[int, int, int]]) -> None:
        """Replace all delayed records with these runs of (due, first, count)."""
        heapq.heapify(runs)
        self.heap = runs
        self.count = 0
        for _, _, count in runs:
            self.count += count
