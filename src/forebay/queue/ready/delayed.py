"""The records of a work group that wait until their time has come."""

from __future__ import annotations

import heapq
from typing import Final, final

from mypy_extensions import i64

FROM_NOW: Final = -(1 << 62)  # added to a length of time: it counts from the next look at the clock


@final
class DelayedRecords:
    """Runs of records, each with the time from which on it may be delivered.

    heap   of (due, first, count); a due time below 0 is FROM_NOW and a length of time
    count  records
    """

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int]] = []
        self.count: i64 = 0

    def add(self, first: i64, count: i64, due_us: i64) -> None:
        """Records wait until `due_us`.

        due_us  below 0: FROM_NOW and how long, from who is given them back and does not know what time it is
        """
        heapq.heappush(self.heap, (int(due_us), int(first), int(count)))
        self.count += count

    def take_due(self, now_us: i64) -> list[tuple[int, int]]:
        """Take the runs whose time has come."""
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
        """Return all runs as (due, first, count), with the time at which each is due as it is known now."""
        runs: list[tuple[int, int, int]] = []
        for due_us, first, count in self.heap:
            runs.append((due_us if due_us > 0 else int(due_us - FROM_NOW + now_us), first, count))
        return runs

    def next_due_us(self) -> i64:
        """The time at which the next run is due; 0 for never."""
        return self.heap[0][0] if self.heap else 0

    def replace(self, runs: list[tuple[int, int, int]]) -> None:
        """Have these runs, (due, first, count), and no others wait."""
        heapq.heapify(runs)
        self.heap = runs
        self.count = 0
        for _, _, count in runs:
            self.count += count
