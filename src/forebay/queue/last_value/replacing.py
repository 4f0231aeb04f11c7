"""Settles the records of a last-value queue that newer records of their keys have replaced."""

from __future__ import annotations

from mypy_extensions import i64

from forebay.core.errors import DamagedBlock
from forebay.log.housekeeping import merged
from forebay.log.queue_log import QueueLog
from forebay.queue.group import Group
from forebay.queue.last_value.last_values import LastValues
from forebay.queue.leases.page import DELAYED, LEASED, PAGE_BITS, REFUSED, RETURNED
from forebay.queue.properties import PropertyReader
from forebay.queue.turn import SCAN_RECORDS
from forebay.queue.work.work_group import WorkGroup


def settle_replaced(last_values: LastValues, groups: list[Group]) -> bool:
    """Settle what was replaced since the last call. Return whether a group has more to put in order than a turn allows.

    A record that a consumer holds, or that is delayed, is settled when it comes back (`ReadyQueue.keep_latest`).
    """
    more = False
    replaced = last_values.replaced
    if replaced:
        last_values.replaced = []
    for group in groups:
        if not isinstance(group, WorkGroup):
            continue
        for offset in replaced:
            settle_waiting(group, offset)
        order = group.ready_queue.order
        if order is not None and group.reader.damage is None:
            group.turn.looks = SCAN_RECORDS  # dispatch orders new records, but the group may have no consumer
            try:
                more = not group.ready_queue.take_in(order) or more
            except DamagedBlock as error:
                group.reader.halt(error)
    return more


def settle_waiting(group: WorkGroup, offset: i64) -> None:
    """Settle a replaced record if it waits in a group."""
    settlement = group.settlement
    if offset >= settlement.cursor:
        return  # `ReadyQueue.take_in` leaves it out
    page = settlement.pages.get(offset >> PAGE_BITS)
    if page is None:
        return
    state = page.states[offset - page.base]
    ready = group.ready_queue
    order = ready.order
    if state == RETURNED and order is not None:
        order.count -= 1
        ready.settle_modified(offset, 1)
        for level in order.levels:
            order.tidy(level)
    elif state == REFUSED:
        ready.settle_modified(offset, 1)
    elif state in (LEASED, DELAYED):
        # The record stays where it is. After a crash it must not return, as the newer one may be settled by then.
        settlement.note(offset, offset + 1)


def find_last_values(
    last_values: LastValues, log: QueueLog, name: bytes, start: i64, properties: PropertyReader
) -> None:
    """Find the latest record of each key among the unsettled records, in recovery.

    name   name of the queue
    start  its first offset
    """
    unsettled: list[tuple[int, int]] = []
    for settlement in last_values.settlements:
        unsettled += settlement.unsettled(start, log.end)
    if not last_values.settlements:
        unsettled.append((start, log.end))
    for first, end in merged(unsettled):
        at: i64 = first
        while at < end:
            try:
                block = log.block(at)
            except DamagedBlock as error:
                at = error.end
                continue
            if block is None:
                break
            at = max(at, block.base)
            while at < min(block.end, end):
                index = at - block.base
                subject = properties.subject(name, block, index, 0, 0)
                key = last_values.key_of(subject)
                if key:
                    last_values.put(key, at, block.body_span(index, 1))
                at += 1
    last_values.counts.replaced = 0  # counts from this start on
    last_values.replaced = []  # groups skip replaced records as they restore what waits
