"""What time should have brought in a vhost and has not: found by a look at everything, and by none of its timers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from forebay.broker.vhost import Vhost
from forebay.queue.declaration.limits import FAIR, STRICT
from forebay.queue.leases.page import READY, RETURNED
from forebay.queue.queue import SHARE, Queue
from forebay.queue.ready.expiry import expiry_us
from forebay.queue.work.work_group import WorkGroup

FAIR_ABOVE: Final = 4
SECOND_US: Final = 1_000_000


def overdue(vhost: Vhost, now_us: int, swept_us: int) -> list[str]:
    """Say what is due by now, or was before what is done each second, and is not done."""
    found = [
        f"queue {queue.name.decode()}: {words}"
        for queue in vhost.catalog.queues.values()
        for group in queue.groups.values()
        if isinstance(group, WorkGroup) and group.reader.damage is None
        for words in overdue_in(queue, group, now_us)
    ]
    delayed = vhost.delayed
    found += [f"delayed message {at}" for due, at in delayed.times if due < now_us and at in delayed.waiting]
    found += [
        f"retained {entry.topic.decode()}" for entry in vhost.retained.places.values() if 0 < entry.due_us < swept_us
    ]
    for client in vhost.sessions.offline.values():
        if client.ended_us + client.expiry_s * SECOND_US < swept_us:
            found.append(f"session {client.client_id.decode()}")
        if client.will is not None and 0 < client.will_due_us < swept_us:
            found.append(f"will of {client.client_id.decode()}")
    return found


def overdue_in(queue: Queue, group: WorkGroup, now_us: int) -> Iterator[str]:
    """Say what is overdue in one group."""
    for due, first, count in group.delayed.heap:
        if due < now_us:
            yield f"returned records {first} to {first + count - 1} wait for a time that is over"
    for lease in group.leases.all_live():
        ends = [group.leases.extended.get(at, 0) for at in range(lease.first, lease.first + lease.count)]
        if max(lease.deadline_us, *ends) < now_us:
            yield f"records {lease.first} to {lease.first + lease.count - 1} are held too long"
    if queue.kind == SHARE:  # what expires there is not sent
        return
    seen: set[int] = set()
    for offset in waiting(group):
        block = queue.log.block(offset)
        if block is None or block.base > offset:
            continue
        level = level_of(queue, group, offset)
        is_first = level not in seen and (not seen or not group.attempts.of(offset))
        seen.add(level)
        if is_first and expiry_us(queue.limits, queue.properties, block, offset - block.base) < now_us:
            yield f"record {offset} has expired"


def waiting(group: WorkGroup) -> list[int]:
    """The offsets of the records that can be delivered, and that no other of their message group is before."""
    settlement = group.settlement
    log = settlement.log
    order = group.ready_queue.order
    parked = set() if order is None else {at for behind in order.busy.values() for at in behind}
    found: list[int] = []
    for first, end in settlement.unsettled(log.start, log.end):
        for offset in range(first, end):
            state = READY
            if offset < settlement.cursor:
                page = settlement.page(offset)
                state = page.states[offset - page.base]
            if state in (READY, RETURNED) and offset not in parked:
                found.append(offset)
    return found


def level_of(queue: Queue, group: WorkGroup, offset: int) -> int:
    """The level at which a record waits for its turn: the first of each has nobody before it."""
    limits = queue.limits
    if group.ready_queue.order is None or limits.priority_mode not in (FAIR, STRICT):
        return 0
    block = queue.log.block(offset)
    assert block is not None
    priority = int(queue.properties.priority(block, offset - block.base))
    if limits.priority_mode == FAIR:
        return int(priority > FAIR_ABOVE)
    return min(max(priority, 0), int(limits.max_priority))
