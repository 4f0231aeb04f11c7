"""The leases of a work group by deadline and by offset.

Leases that end in the order in which they were granted are in a queue. A lease with a shorter time than the one before,
or with extended records, is in a heap. Used-up leases stay until they are met or swept.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.queue.leases.lease import Consumer, Lease
from forebay.queue.leases.lease_index import LeaseIndex, held_runs, holds
from forebay.queue.leases.page import LEASED, RETURNED, SETTLED
from forebay.queue.work.attempts import deliveries_in, failures_in
from forebay.queue.work.settlement import Settlement

NEVER_US: Final = 1 << 62
LEASES_SLACK: Final = 1024  # used-up leases kept in a list before it is compacted


@final
class LeaseTable:
    """All leases of one group.

    live      number of leases with records left
    count     number of records that these hold
    extended  deadline of each record whose deadline is later than its lease's, by offset
    """

    def __init__(self, settlement: Settlement) -> None:
        self.settlement = settlement
        self.count: i64 = 0
        self.in_order: deque[Lease] = deque()
        self.latest_us: i64 = 0  # deadline of the last lease in `in_order`
        self.others: list[tuple[int, int, Lease]] = []  # heap of (deadline, serial, lease)
        self.serial: i64 = 0
        self.extended: dict[int, int] = {}
        self.index = LeaseIndex()
        self.live: i64 = 0

    # ---- records

    def grant(self, consumer: Consumer, first: i64, count: i64, attempts: i64, now_us: i64) -> Lease:
        """Lease records of one page to a consumer. `attempts` holds their earlier attempts, as in `Attempts`."""
        page = self.settlement.page(first)
        states = page.states
        for at in range(first - page.base, first - page.base + count):
            states[at] = LEASED
        lease = Lease(consumer, page, first, count, now_us + consumer.timeout_us)
        if attempts:
            lease.deliveries = deliveries_in(attempts) + 1
            lease.failures = failures_in(attempts)
        consumer.lend(count)
        self.count += count
        self.add(lease)
        return lease

    def grant_sent(self, consumer: Consumer, first: i64, count: i64, attempts: i64) -> Lease:
        """Return a lease of records that are settled when sent. They only count towards what the consumer holds.

        The lease is not in the table. Its records never come back.
        """
        lease = Lease(consumer, None, first, count, NEVER_US)
        lease.holes = set()
        lease.deliveries = deliveries_in(attempts) + 1
        consumer.lend(count)
        return lease

    def release_sent(self, lease: Lease, count: i64) -> i64:
        """Give a consumer credit for records that were settled when sent. Return how many it held until now."""
        count = min(count, lease.left)
        lease.left -= count
        lease.consumer.release(count)
        return count

    def settle(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records that no other lease holds. Return how many of them this lease held until now."""
        page = lease.page
        assert page is not None
        states = page.states
        settled: i64 = 0
        for at in range(first - page.base, first - page.base + count):
            if states[at] == LEASED:
                states[at] = SETTLED
                settled += 1
        self.release(lease, settled)
        self.settlement.settled_in(page, settled)
        self.settlement.note(first, first + count)
        if self.extended:
            self.forget_extensions(first, count)
        return settled

    def withdraw(self, lease: Lease, first: i64, count: i64) -> list[tuple[int, int]]:
        """Withdraw records from a lease.

        Return the runs it held, which are in state RETURNED but in no ready queue yet.
        """
        if lease.left == 0:
            return []
        if lease.page is None:
            self.release_sent(lease, count)
            return []
        runs = held_runs(lease, first, count)
        whole = first == lease.first and count == lease.count
        held: i64 = 0
        for start, length in runs:
            held += length
            self.settlement.mark(start, start + length, RETURNED)
            if self.extended:
                self.forget_extensions(start, length)
            if whole:
                continue
            holes = lease.holes
            if holes is None:
                holes = set()
                lease.holes = holes
            for offset in range(start, start + length):
                holes.add(offset)
        self.release(lease, held)
        return runs

    def release(self, lease: Lease, count: i64) -> None:
        """Record that `count` records have left a lease."""
        lease.left -= count
        self.count -= count
        if lease.left == 0 and count > 0:
            self.live -= 1
        lease.consumer.release(count)

    # ---- leases

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
        """Return the lease that holds this record now, or None."""
        return self.index.find(offset)

    def extend(self, lease: Lease, first: i64, count: i64, deadline_us: i64) -> i64:
        """Extend the lease of records to `deadline_us`, if that is later. Return how many of them the lease held.

        The other records of the lease keep their deadline.
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
        """Return an expired lease with records left, and remove it from the table. Return None if there is none."""
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
        """Return the runs of an expired lease that have to return. Extended records stay until their own deadline."""
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
        """Sweep used-up leases, which would pile up behind one long lease."""
        most = max(LEASES_SLACK, 2 * self.live)
        if len(self.in_order) > most:
            self.in_order = deque([lease for lease in self.in_order if lease.left])
        if len(self.others) > most:
            self.others = [each for each in self.others if each[2].left]
            heapq.heapify(self.others)
        if self.index.count > most:
            self.index.sweep()

    def next_due_us(self) -> i64:
        """Return the time at which `take_over` next has a lease, or 0 for never.

        The time may be too early, but never too late.
        """
        due: i64 = 0
        if self.in_order:
            due = self.in_order[0].deadline_us
        if self.others and (due == 0 or self.others[0][0] < due):
            due = self.others[0][0]
        return due

    def all_live(self) -> list[Lease]:
        """Return the leases with records left, each once."""
        found = [lease for lease in self.in_order if lease.left]
        found += [each[2] for each in self.others if each[2].left]
        return found

    def of_consumer(self, consumer: Consumer) -> list[Lease]:
        """Return a consumer's leases with records left.

        The search goes from both ends: many consumers leave in the order in which they came, or in the opposite order.
        """
        missing = consumer.held
        head: list[Lease] = []
        tail: list[Lease] = []
        self.trim()
        last = len(self.in_order) - 1
        for at, (lease, other) in enumerate(zip(self.in_order, reversed(self.in_order), strict=True)):
            if missing <= 0 or at > last - at:
                break
            if lease.consumer is consumer and lease.left:
                head.append(lease)
                missing -= lease.left
            if at < last - at and other.consumer is consumer and other.left:
                tail.append(other)
                missing -= other.left
        tail.reverse()
        if missing > 0:
            tail += [each[2] for each in self.others if each[2].consumer is consumer and each[2].left]
        return head + tail

    def trim(self) -> None:
        """Remove used-up leases from both ends of the queue."""
        leases = self.in_order
        while leases and not leases[0].left:
            leases.popleft()
        while leases and not leases[-1].left:
            leases.pop()
        if leases:
            self.latest_us = leases[-1].deadline_us
