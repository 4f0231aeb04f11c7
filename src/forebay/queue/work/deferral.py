"""Deferred records: they wait in their work group, and are delivered only to who asks for their offsets.

A deferred record is one that was given back to be delivered after a delay that nobody lives to see. The group writes
delays down with the records that come back, so that a deferred record is one after a restart, too.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.errors import TOO_MANY, RequestError
from forebay.core.units import US_PER_MS
from forebay.queue.leases.lease import Consumer, Delivery, Lease
from forebay.queue.leases.page import DELAYED, PAGE_BITS
from forebay.queue.ready.delayed import DelayedRecords
from forebay.queue.work.sifting import take_out_delayed
from forebay.queue.work.work_group import WorkGroup

YEAR_US: Final = 365 * 86_400_000 * US_PER_MS
DEFERRED_US: Final = 1000 * YEAR_US
LATE_US: Final = 500 * YEAR_US  # from now: a delay that ends later is a deferral
DEFERRED_MAX: Final = 10_000  # of one group, delayed ones included


def check_deferrals(group: WorkGroup) -> None:
    """Refuse one deferral more than a group may have."""
    if group.delayed.count >= DEFERRED_MAX:
        raise RequestError(TOO_MANY, f"queue '{group.reader.log.name}': {DEFERRED_MAX} messages wait already")


def defer(group: WorkGroup, lease: Lease, offset: i64, now_us: i64, how: i64) -> i64:
    """Defer a record that a lease holds, and let the next one of its message group come; return 1 if it was held.

    how  as records come back: FAILED, or UNTRIED
    """
    given = group.give_back(lease, offset, 1, now_us + DEFERRED_US, how)
    order = group.ready_queue.order
    if given and order is not None and order.keys:
        group.ready_queue.follow(order, offset, 1)
    return given


def deferred_runs(delayed: DelayedRecords, now_us: i64) -> list[tuple[int, int]]:
    """Return the runs of records that are deferred, as (first, count)."""
    return [(first, count) for due_us, first, count in delayed.due_runs(now_us) if due_us - now_us > LATE_US]


def is_deferred(group: WorkGroup, offset: i64, now_us: i64) -> bool:
    """Return whether a record is deferred."""
    page = group.settlement.pages.get(offset >> PAGE_BITS)
    if page is None or page.states[offset - page.base] != DELAYED:
        return False
    return is_in(deferred_runs(group.delayed, now_us), offset)


def is_in(runs: list[tuple[int, int]], offset: i64) -> bool:
    """Return whether a record is in one of some runs."""
    for first, count in runs:  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
        if first <= offset < first + count:
            return True
    return False


def take_deferred(group: WorkGroup, consumer: Consumer, offset: i64, now_us: i64) -> Delivery | None:
    """Lease a deferred record to a consumer, or settle it for one that settles nothing, whatever its credit.

    Return None if there is no such record.
    """
    if not is_deferred(group, offset, now_us):
        return None
    block = group.reader.log.block(offset)
    if block is None or block.base > offset:
        return None
    take_out_delayed(group.delayed, {int(offset)})
    ready = group.ready_queue
    if ready.octets.measuring:
        ready.octets.count += block.body_span(offset - block.base, 1)  # which the delivery takes off again
    credit = consumer.credit
    delivery = group.deliver(consumer, block, offset, 1, now_us)
    consumer.credit = credit
    return delivery
