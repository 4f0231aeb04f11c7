"""Settling by choice: records that a list of offsets, a range or a filter names are acknowledged, cancelled or expired.

It goes in portions, as what moves and discards does. Of a queue that is not sublet what consumers hold is left to them.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.redrive.dead_letter_queues import LookBudget, Portion, offset_of, seal, walk, walk_ranges, work_of
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_FOUND, TOO_MANY, RequestError, note_half_change
from forebay.filter.parser import Filter
from forebay.queue.counts import FORCED_EXPIRE
from forebay.queue.leases.lease import NACKED, Lease
from forebay.queue.queue import Queue
from forebay.queue.work.early_acks import RECORDS_MAX, RUNS_MAX
from forebay.queue.work.sifting import acknowledge_waiting, expire_waiting, is_waiting
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

ACKNOWLEDGE: Final = "acknowledge"
CANCEL: Final = "cancel"
EXPIRE: Final = "expire"
ACTIONS: Final = (ACKNOWLEDGE, CANCEL, EXPIRE)


def settle_chosen(
    vhost: Vhost,
    name: bytes,
    group_name: bytes,
    action: str,
    where: Filter | None,
    first: int,
    limit: int,
    ranges: list[tuple[int, int]] | None,
    scan: int,
) -> tuple[Portion, int]:
    """Settle one portion of a queue's group; return what became of it, and how many offsets to come were kept.

    action  one of ACTIONS. CANCEL returns what consumers hold, and leaves what waits
    ranges  only these offsets, [first, end) each, ascending; ACKNOWLEDGE keeps those that are not published yet
    raises  RequestError: NOT_FOUND without such a queue or group, INVALID for a stream, TOO_MANY offsets to come
    """
    try:
        queue, group = settled_group(vhost, name, group_name)
        if action == ACKNOWLEDGE:
            check_early(queue, group, ranges)
        portion, waiting, leased = choose(vhost, queue, group, action, where, first, limit, ranges, scan)
        if action == EXPIRE:
            expire_waiting(group, waiting)
        else:
            acknowledge_waiting(group, waiting)
        portion.done = len(waiting)
        for lease, offset in leased:
            portion.done += settle_leased(group, lease, offset, action)
        kept = 0
        if action == ACKNOWLEDGE and portion.next is None and where is None:
            kept = keep_early(vhost, queue, group, ranges or [])
            portion.gone -= kept
        vhost.turn.mark(queue)
        return portion, kept
    except Exception as error:
        note_half_change(error)
        raise


def settled_group(vhost: Vhost, name: bytes, group_name: bytes) -> tuple[Queue, WorkGroup]:
    """Return a queue and one of its groups, the nameless one made where there is none."""
    if not group_name:
        return work_of(vhost, name)
    queue = vhost.catalog.queue(name)
    seal(vhost, queue)
    group = queue.find_group(group_name)
    if not isinstance(group, WorkGroup):
        raise RequestError(NOT_FOUND, f"group: no group '{text(group_name)}' of queue '{text(name)}' settles messages")
    return queue, group


def choose(
    vhost: Vhost,
    queue: Queue,
    group: WorkGroup,
    action: str,
    where: Filter | None,
    first: int,
    limit: int,
    ranges: list[tuple[int, int]] | None,
    scan: int,
) -> tuple[Portion, set[int], list[tuple[Lease, int]]]:
    """Return a portion with the offsets in it that wait, and the leases of those that are held."""
    portion = Portion()
    waiting: set[int] = set()
    leased: list[tuple[Lease, int]] = []
    look = LookBudget(scan)
    for record in walk(vhost, queue, first) if ranges is None else walk_ranges(vhost, queue, first, ranges):
        portion.scanned += 1
        enough = look.is_enough(record)
        offset = offset_of(record)
        if not group.settlement.unsettled(offset, offset + 1):
            portion.gone += 1  # another group wants it still
        elif where is None or where.matches(record):
            lease = group.leases.find(offset)
            if lease is not None and queue.limits.sublet:
                leased.append((lease, offset))
            elif lease is None and is_waiting(group, offset):
                if action != CANCEL:
                    waiting.add(offset)
            else:
                portion.held += 1
        if enough or len(waiting) + len(leased) == limit:
            portion.next = offset + 1
            break
    last = int(queue.log.end) if not ranges else min(int(queue.log.end), ranges[-1][1])
    if portion.next is not None and portion.next >= last:
        portion.next = None
    if ranges is not None:
        end = int(queue.log.end) if portion.next is None else portion.next
        asked = sum(max(0, min(high, end) - max(low, first)) for low, high in ranges)
        beyond = 0 if portion.next is not None else sum(max(0, high - max(low, end)) for low, high in ranges)
        portion.gone += asked + beyond - portion.scanned
    return portion, waiting, leased


def settle_leased(group: WorkGroup, lease: Lease, offset: int, action: str) -> int:
    """Settle a record that a consumer holds; return 1 if it was held."""
    if action == ACKNOWLEDGE:
        return int(group.ack(lease, offset, 1))
    if action == CANCEL:
        return int(group.give_back(lease, offset, 1, 0, NACKED))
    return int(group.dead_letter_held(lease, offset, 1, FORCED_EXPIRE))


def check_early(queue: Queue, group: WorkGroup, ranges: list[tuple[int, int]] | None) -> None:
    """Refuse more acknowledgements of records to come than a group keeps."""
    if not ranges or not queue.limits.deferred_ack_us:
        return
    end = int(queue.log.end)
    beyond = [(max(low, end), high) for low, high in ranges if high > end]
    if len(beyond) + len(group.attempts.early.runs) > RUNS_MAX:
        raise RequestError(TOO_MANY, f"offsets: queue '{text(queue.name)}' keeps at most {RUNS_MAX} ranges to come")
    for low, high in beyond:
        if high - low > RECORDS_MAX:
            raise RequestError(INVALID, f"offsets: [{low}, {high}) has more than {RECORDS_MAX} offsets to come")


def keep_early(vhost: Vhost, queue: Queue, group: WorkGroup, ranges: list[tuple[int, int]]) -> int:
    """Keep the acknowledgement of records that are not published yet; return of how many."""
    if not queue.limits.deferred_ack_us:
        return 0
    end = int(queue.log.end)
    until_us = int(vhost.catalog.store.clock.now_us()) + int(queue.limits.deferred_ack_us)
    kept = 0
    for low, high in ranges:
        if high > end:
            begin = max(low, end)
            group.attempts.early.keep(begin, high, until_us, group.attempts.notes)
            queue.has_early_acks = True
            kept += high - begin
    return kept
