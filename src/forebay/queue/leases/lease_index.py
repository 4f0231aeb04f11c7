"""The leases of a group by offset, for callers that know a record by its offset only.

A lease lies within one page of 1024 offsets. The leases of a page are in order of their first offsets. Most leases do
not overlap, and are found in a few steps. A record that returned and was leased again is within two leases, of which
one holds it. Used-up leases stay until `sweep`.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.queue.leases.lease import Lease
from forebay.queue.leases.page import LEASED, PAGE_BITS


@final
class LeaseIndex:
    """All leases of one group, by page.

    count   number of entries, used-up leases included
    number  number of the page of the last lease: the next lease is most likely in the same page
    """

    def __init__(self) -> None:
        self.pages: dict[int, list[Lease]] = {}
        self.count: i64 = 0
        self.number: i64 = -1
        self.last: list[Lease] = []

    def add(self, lease: Lease) -> None:
        number = lease.first >> PAGE_BITS
        if number != self.number:
            self.turn_to(number)
        leases = self.last
        size = i64(len(leases))
        if size == 0 or leases[size - 1].first < lease.first:
            leases.append(lease)
            self.count += 1
            return
        at = place_after(leases, lease.first)
        if at and leases[at - 1].first == lease.first and leases[at - 1].left == 0:
            leases[at - 1] = lease
            return
        leases.insert(at, lease)
        self.count += 1

    def turn_to(self, number: i64) -> None:
        leases = self.pages.get(number)
        if leases is None:
            leases = []
            self.pages[number] = leases
        self.number = number
        self.last = leases

    def find(self, offset: i64) -> Lease | None:
        """Return the lease that holds this record now, or None."""
        leases = self.pages.get(offset >> PAGE_BITS)
        if leases is None:
            return None
        at = place_after(leases, offset) - 1
        while at >= 0:
            lease = leases[at]
            if offset < lease.first + lease.count and holds(lease, offset):
                return lease
            at -= 1
        return None

    def sweep(self) -> None:
        """Remove the used-up leases."""
        pages: dict[int, list[Lease]] = {}
        self.count = 0
        for number, leases in self.pages.items():
            left = [lease for lease in leases if lease.left]
            if left:
                pages[number] = left
                self.count += len(left)
        self.pages = pages
        self.number = -1
        self.last = []


def holds(lease: Lease, offset: i64) -> bool:
    """Return whether a record of the lease's run is neither settled nor returned."""
    page = lease.page
    if lease.left == 0 or page is None or page.states[offset - page.base] != LEASED:
        return False
    holes = lease.holes
    return holes is None or offset not in holes


def held_runs(lease: Lease, first: i64, count: i64) -> list[tuple[int, int]]:
    """Return the runs of records from `first` to `first + count` that the lease holds now."""
    runs: list[tuple[int, int]] = []
    start: i64 = -1
    for offset in range(first, first + count):
        if holds(lease, offset):
            if start < 0:
                start = offset
        elif start >= 0:
            runs.append((start, offset - start))
            start = -1
    if start >= 0:
        runs.append((start, first + count - start))
    return runs


def place_after(leases: list[Lease], offset: i64) -> i64:
    """Return the number of leases that begin at or before `offset`."""
    low: i64 = 0
    high = i64(len(leases))
    while low < high:
        middle = (low + high) >> 1
        if leases[middle].first <= offset:
            low = middle + 1
        else:
            high = middle
    return low
