"""Records taken out of the middle of a group, whoever's turn it is: what somebody moves or deletes by choice."""

from __future__ import annotations

import heapq

from mypy_extensions import i64

from forebay.queue.leases import DELAYED, PAGE_BITS, RETURNED
from forebay.queue.order import Order
from forebay.queue.work_group import WorkGroup


def is_waiting(group: WorkGroup, offset: i64) -> bool:
    """Whether a record is to be handed out, now or later: nobody holds it, and it is neither settled nor dying."""
    if offset >= group.cursor:
        return offset < group.log.end
    page = group.pages.get(offset >> PAGE_BITS)
    return page is not None and page.states[offset - page.base] in (RETURNED, DELAYED)


def take_out(group: WorkGroup, chosen: set[int]) -> None:
    """Settle records each of which is waiting; the others wait as they did."""
    if not chosen:
        return
    group.measure()
    late = take_out_delayed(group, chosen)
    order = group.order
    if order is None:
        take_out_of_line(group, chosen)
    else:
        take_out_of_order(group, order, chosen)
    group.counts.purged += len(chosen)
    for offset in sorted(chosen):
        if group.measuring and offset not in late:
            group.ready_octets -= group.body_octets(offset, offset + 1)
        group.settle_noted(offset, offset + 1)
        group.forget_attempts(offset, 1)
        if order is not None:
            group.follow(order, offset, 1)


def take_out_delayed(group: WorkGroup, chosen: set[int]) -> set[int]:
    """Those of them that were not to be handed out yet."""
    out: set[int] = set()
    left: list[tuple[int, int, int]] = []
    group.delayed_count = 0
    for due, run, total in group.delayed:
        for first, count in without(run, total, chosen):
            left.append((due, first, count))
            group.delayed_count += count
        for offset in range(run, run + total):
            if offset in chosen:
                out.add(int(offset))
    heapq.heapify(left)
    group.delayed = left
    return out


def take_out_of_line(group: WorkGroup, chosen: set[int]) -> None:
    last: i64 = max(chosen)
    if last >= group.cursor:
        # What stands before the last of them is passed over, and waits like what was returned.
        first = group.cursor
        group.cursor = last + 1
        group.mark_range(first, group.cursor, RETURNED)
        heapq.heappush(group.returned, (int(first), int(group.cursor - first)))
    returned: list[tuple[int, int]] = []
    for run, total in group.returned:
        returned += without(run, total, chosen)
    heapq.heapify(returned)
    group.returned = returned
    group.returned_count = 0
    for _, count in returned:
        group.returned_count += count


def take_out_of_order(group: WorkGroup, order: Order, chosen: set[int]) -> None:
    """All that waits takes its place anew."""
    group.scan = group.log.end - group.cursor + 1
    while not group.take_in(order):
        group.scan = group.log.end - group.cursor + 1
    parked = [offset for behind in order.busy.values() for offset in behind]
    runs = order.take_all()
    runs.sort()
    for run, total in runs:
        for first, count in without(run, total, chosen):
            group.take_in_run(order, first, first + count)
    for offset in parked:
        if offset in order.keys:  # filters passed it over; now it is the first of its message group
            for selector in order.selectors:
                selector.offer(offset, 1)


def without(first: i64, count: i64, chosen: set[int]) -> list[tuple[int, int]]:
    """The runs that are left of a run."""
    left: list[tuple[int, int]] = []
    start = first
    for offset in range(first, first + count):
        if int(offset) in chosen:
            if start < offset:
                left.append((int(start), int(offset - start)))
            start = offset + 1
    if start < first + count:
        left.append((int(start), int(first + count - start)))
    return left
