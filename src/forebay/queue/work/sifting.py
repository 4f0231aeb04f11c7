"""Takes chosen records out of the middle of a group, out of turn, to move or delete them."""

from __future__ import annotations

import heapq

from mypy_extensions import i64

from forebay.queue.counts import FORCED_EXPIRE
from forebay.queue.leases.page import DELAYED, PAGE_BITS, REFUSED, RETURNED
from forebay.queue.ready.delayed import DelayedRecords
from forebay.queue.ready.order import Order
from forebay.queue.ready.ready_queue import ReadyQueue
from forebay.queue.work.work_group import WorkGroup


def is_waiting(group: WorkGroup, offset: i64) -> bool:
    """Return whether a record waits, now or for later: no consumer holds it, and it is neither settled nor dead."""
    settlement = group.settlement
    if offset >= settlement.cursor:
        return offset < settlement.log.end
    page = settlement.pages.get(offset >> PAGE_BITS)
    return page is not None and page.states[offset - page.base] in (RETURNED, DELAYED, REFUSED)


def take_out(group: WorkGroup, chosen: set[int]) -> None:
    """Delete waiting records by settling them. The other records wait as before."""
    withdraw_waiting(group, chosen)
    group.counts.purged += len(chosen)
    for offset in sorted(chosen):
        group.ready_queue.settle(offset, 1)


def withdraw_waiting(group: WorkGroup, chosen: set[int]) -> None:
    """Take waiting records out of the group. The caller decides what becomes of them."""
    if not chosen:
        return
    ready = group.ready_queue
    ready.measure()
    late = take_out_delayed(group.delayed, chosen)
    if ready.order is None:
        take_out_of_age(ready, chosen)
    else:
        take_out_of_order(ready, ready.order, chosen)
    ready.refused.waiting -= chosen
    if ready.octets.measuring:
        for offset in sorted(chosen):
            if offset not in late:
                ready.octets.count -= group.reader.body_octets(offset, offset + 1)


def acknowledge_waiting(group: WorkGroup, chosen: set[int]) -> None:
    """Settle waiting records as if a consumer had acknowledged them."""
    withdraw_waiting(group, chosen)
    group.counts.acked += len(chosen)
    group.settled += len(chosen)
    for offset in sorted(chosen):
        group.ready_queue.settle(offset, 1)


def expire_waiting(group: WorkGroup, chosen: set[int]) -> None:
    """Let waiting records die as expired, though their time has not come."""
    withdraw_waiting(group, chosen)
    for offset in sorted(chosen):
        group.deaths.dead_letter(offset, 1, FORCED_EXPIRE, group.attempts.of(offset))


def apply_early_acks(group: WorkGroup, now_us: i64) -> None:
    """Settle the published records that were acknowledged in advance."""
    due = group.attempts.early.take_due(group.settlement.log.end, now_us, group.attempts.notes)
    chosen: set[int] = set()
    for first, end in due:
        for offset in range(first, end):
            if is_waiting(group, offset):
                chosen.add(offset)
    acknowledge_waiting(group, chosen)


def take_out_delayed(delayed: DelayedRecords, chosen: set[int]) -> set[int]:
    """Take chosen records out of the delayed ones. Return those that were delayed."""
    out: set[int] = set()
    left: list[tuple[int, int, int]] = []
    for due, run, total in delayed.heap:
        for first, count in without(run, total, chosen):
            left.append((due, first, count))
        for offset in range(run, run + total):
            if offset in chosen:
                out.add(int(offset))
    delayed.replace(left)
    return out


def take_out_of_age(ready: ReadyQueue, chosen: set[int]) -> None:
    settlement = ready.settlement
    last: i64 = max(chosen)
    if last >= settlement.cursor:
        # Records before the last chosen one are passed over, and wait like returned ones.
        first = settlement.cursor
        settlement.cursor = last + 1
        settlement.mark(first, settlement.cursor, RETURNED)
        heapq.heappush(ready.returned, (int(first), int(settlement.cursor - first)))
    returned: list[tuple[int, int]] = []
    for run, total in ready.returned:
        returned += without(run, total, chosen)
    heapq.heapify(returned)
    ready.returned = returned
    ready.returned_count = 0
    for _, count in returned:
        ready.returned_count += count


def take_out_of_order(ready: ReadyQueue, order: Order, chosen: set[int]) -> None:
    """Take chosen records out of an order, by putting all waiting records in order again."""
    turn = ready.turn
    turn.looks = ready.log.end - ready.settlement.cursor + 1
    last: i64 = max(chosen)
    while not ready.take_in(order) and ready.settlement.cursor <= last:
        turn.looks = ready.log.end - ready.settlement.cursor + 1
    parked = [offset for behind in order.busy.values() for offset in behind]
    runs = order.take_all()
    runs.sort()
    for run, total in runs:
        for first, count in without(run, total, chosen):
            ready.take_in_run(order, first, first + count)
    for offset in parked:
        if offset in order.keys:  # filters passed it over when parked, and it is the first of its group now
            for selector in order.selectors:
                selector.offer(offset, 1)


def without(first: i64, count: i64, chosen: set[int]) -> list[tuple[int, int]]:
    """Return the runs that remain of a run without the chosen records."""
    left: list[tuple[int, int]] = []
    start = first
    if count > len(chosen):  # avoids walking a long backlog for few records
        found = [offset for offset in sorted(chosen) if first <= offset < first + count]
    else:
        found = [offset for offset in range(first, first + count) if offset in chosen]
    for at in found:
        if start < at:
            left.append((int(start), int(at - start)))
        start = at + 1
    if start < first + count:
        left.append((int(start), int(first + count - start)))
    return left
