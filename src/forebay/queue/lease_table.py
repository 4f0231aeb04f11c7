"""The leases of a work group by when they end, and by what they hold.

Those that end in the order in which they were given stand in a queue; whoever was given less time than the one before,
and records that were extended, are in a heap. Leases that are used up stay until they are met or swept.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.queue.lease_index import LeaseIndex, holds
from forebay.queue.leases import Consumer, Lease

LEASES_SLACK: Final = 1024  # used-up leases kept in a list before it is compacted


@final
class LeaseTable:
    """All leases of one group.

    live      leases with something left
    extended  offset -> its own deadline, later than its lease's
    """

    def __init__(self) -> None:
        self.in_order: deque[Lease] = deque()
        self.latest_us: i64 = 0  # deadline of the last of them
        self.others: list[tuple[int, int, Lease]] = []  # heap of (deadline, serial, lease)
        self.serial: i64 = 0
        self.extended: dict[int, int] = {}
        self.index = LeaseIndex()
        self.live: i64 = 0

    def add(self, lease: Lease) -> None:
        if lease.deadline_us >= self.latest_us or not self.in_order:
            self.latest_us = lease.deadline_us
            self.in_order.append(lease)
        else:
            self.add_to_others(lease)
        self.index.add(lease)
        self.live += 1

    def add_to_others(self, lease: Lease) -> None:
        self.serial += 1
        heapq.heappush(self.others, (int(lease.deadline_us), int(self.serial), lease))

    def find(self, offset: i64) -> Lease | None:
        """The lease that holds this record now."""
        return self.index.find(offset)

    def extend(self, lease: Lease, first: i64, count: i64, deadline_us: i64) -> i64:
        """Let records of a lease be held until `deadline_us`, if that is later; how many of them were held by it.

        The lease's other records keep their deadline.
        """
        held: i64 = 0
        for offset in range(first, first + count):
            if holds(lease, offset):
                held += 1
                if deadline_us > lease.deadline_us and deadline_us > self.extended.get(offset, 0):
                    self.extended[offset] = deadline_us
        return held

    def forget_extensions(self, first: i64, count: i64) -> None:
        for offset in range(first, first + count):
            self.extended.pop(offset, None)

    def take_over(self, now_us: i64) -> Lease | None:
        """A lease with something left whose deadline has passed, no longer in the table; None if there is none."""
        leases = self.in_order
        while leases:
            lease = leases[0]
            if lease.left and lease.deadline_us > now_us:
                break
            leases.popleft()
            if lease.left:
                return lease
        while self.others and self.others[0][0] <= now_us:
            lease = heapq.heappop(self.others)[2]
            if lease.left:
                return lease
        return None

    def ended_runs(self, lease: Lease, now_us: i64) -> list[tuple[int, int]]:
        """The records of an ended lease that have to return: not the extended, which stay until their own deadline."""
        end = lease.first + lease.count
        if not self.extended:
            return [(lease.first, lease.count)]
        runs: list[tuple[int, int]] = []
        next_us: i64 = 0
        start: i64 = lease.first
        for offset in range(lease.first, end):
            deadline_us: i64 = self.extended.get(offset, 0)
            if deadline_us > now_us and holds(lease, offset):
                if next_us == 0 or deadline_us < next_us:
                    next_us = deadline_us
                if start < offset:
                    runs.append((start, offset - start))
                start = offset + 1
        if start < end:
            runs.append((start, end - start))
        if next_us:
            lease.deadline_us = next_us
            self.add_to_others(lease)
        return runs

    def forget_settled(self) -> None:
        """Behind one long lease the settled ones would pile up."""
        most = max(LEASES_SLACK, 2 * self.live)
        if len(self.in_order) > most:
            self.in_order = deque([lease for lease in self.in_order if lease.left])
        if len(self.others) > most:
            self.others = [each for each in self.others if each[2].left]
            heapq.heapify(self.others)
        if self.index.count > most:
            self.index.sweep()

    def next_due_us(self) -> i64:
        """When `take_over` next has something; 0 for never. May be too early, never too late."""
        due: i64 = 0
        if self.in_order:
            due = self.in_order[0].deadline_us
        if self.others and (due == 0 or self.others[0][0] < due):
            due = self.others[0][0]
        return due

    def all_live(self) -> list[Lease]:
        """The leases with something left, each once."""
        found = [lease for lease in self.in_order if lease.left]
        found += [each[2] for each in self.others if each[2].left]
        return found

    def of_consumer(self, consumer: Consumer) -> list[Lease]:
        """The leases with something left that a consumer has."""
        return [lease for lease in self.all_live() if lease.consumer is consumer]
