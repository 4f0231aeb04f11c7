"""Deferred records: they wait in their work group, and are delivered only to a consumer that asks for their offsets.

A deferred record was given back with a delay of centuries. The group logs delays with the returned records, so a
deferred record is still deferred after a restart.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.errors import TOO_MANY, RequestError
from forebay.core.units import US_PER_MS
from forebay.queue.leases.lease import Consumer, Delivery, Lease
from forebay.queue.work.sifting import take_out_delayed
from forebay.queue.work.work_group import WorkGroup

YEAR_US: Final = 365 * 86_400_000 * US_PER_MS
DEFERRED_US: Final = 1000 * YEAR_US
LATE_US: Final = 500 * YEAR_US  # a delay that ends later than this from now is a deferral
DEFERRED_MAX: Final = 10_000  # records of one group, delayed ones included


def check_deferrals(group: WorkGroup) -> None:
    """Refuse a deferral if the group has as many delayed records as allowed."""
    if group.delayed.count >= DEFERRED_MAX:
        raise RequestError(TOO_MANY, f"queue '{group.reader.log.name}': {DEFERRED_MAX} messages wait already")


def defer(group: WorkGroup, lease: Lease, offset: i64, now_us: i64, how: i64) -> i64:
    """Defer a record that a lease holds, and release the next one of its message group. Return 1 if it was held.

    how  as records come back: FAILED, or UNTRIED
    """
    given = group.give_back(lease, offset, 1, now_us + DEFERRED_US, how)
    order = group.ready_queue.order
    if given and order is not None and order.keys:
        order.release_following(group.reader, offset, 1)
    return given


def deferred_offsets(group: WorkGroup, now_us: i64) -> set[int]:
    """Return the offsets of the deferred records. Scans all delayed records."""
    found: set[int] = set()
    for due_us, first, count in group.delayed.due_runs(now_us):
        if due_us - now_us > LATE_US:
            for offset in range(first, first + count):
                found.add(offset)
    return found


def take_deferred(group: WorkGroup, consumer: Consumer, offsets: list[int], now_us: i64) -> list[Delivery]:
    """Lease deferred records to a consumer whatever its credit, or settle them for one that settles at send.

    Return their deliveries; none if one of the offsets is not that of a deferred record.
    """
    chosen = set(offsets)
    if not chosen <= deferred_offsets(group, now_us):
        return []
    take_out_delayed(group.delayed, chosen)
    ready = group.ready_queue
    credit = consumer.credit
    found: list[Delivery] = []
    for offset in offsets:
        block = group.reader.log.block(offset)
        if block is None or block.base > offset:
            ready.settle(offset, 1)  # compacted away, though no note records its settlement
            continue
        if ready.octets.measuring:
            ready.octets.count += block.body_span(offset - block.base, 1)  # the delivery subtracts it again
        found.append(group.deliver(consumer, block, offset, 1, now_us))
    consumer.credit = credit
    return found
