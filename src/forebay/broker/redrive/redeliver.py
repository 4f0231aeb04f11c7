"""Messages that a work group has settled, and that its queue still keeps, delivered to it once more."""

from __future__ import annotations

from collections.abc import Iterator

from forebay.broker.catalog.commands.queues import RedeliverRecords
from forebay.broker.redrive.dead_letter_queues import SCANNED_AT_ONCE, LookBudget, Portion, offset_of
from forebay.broker.vhost import Vhost
from forebay.core.errors import PRECONDITION, REFUSED, RequestError, note_half_change
from forebay.core.units import US_PER_MS
from forebay.filter.parser import Filter
from forebay.message.subject import RecordSubject
from forebay.queue.queue import Queue
from forebay.queue.work.redelivered import RUNS_MAX
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text


def redeliver(
    vhost: Vhost,
    queue: Queue,
    group: WorkGroup,
    where: Filter | None,
    first: int,
    end: int,
    limit: int,
    scan: int = SCANNED_AT_ONCE,
) -> Portion:
    """Have one portion of the records of [first, end) that the group has settled wait for its consumers once more.

    Return how many do, and how many of the range the group has not settled, as `held`: it delivers these anyway.
    raises  RequestError: PRECONDITION if the queue keeps nothing that is settled; REFUSED if the group has too many
            redeliveries that wait
    """
    if queue.retained is None and not queue.is_view:
        raise RequestError(
            PRECONDITION,
            f"queue '{text(queue.name)}' keeps nothing that its consumers have settled: declare it, or set a policy, "
            "with x-retain",
        )
    try:
        vhost.dispatcher.note_progress(queue)  # what is settled now is noted before it is taken back
        portion, runs = select_settled(vhost, queue, group, where, first, end, limit, scan)
        if not runs:
            return portion
        redelivered = group.attempts.redelivered
        if len(redelivered.runs) + len(runs) > RUNS_MAX:
            redelivered.forget_settled()
        if len(redelivered.runs) + len(runs) > RUNS_MAX:
            raise RequestError(
                REFUSED,
                f"group '{text(group.name)}' of queue '{text(queue.name)}' has {len(redelivered.runs)} runs of "
                f"redeliveries that wait, of {RUNS_MAX} at most: go on from offset {runs[0][0]} once these are settled",
            )
        now_ms = int(vhost.turn.now_us) // US_PER_MS
        vhost.catalog.execute(RedeliverRecords(int(queue.id), int(group.id), runs, now_ms))
        for run_first, run_end in runs:
            group.ready_queue.add(run_first, run_end - run_first)
        vhost.turn.mark(queue)
        return portion
    except Exception as error:
        note_half_change(error)
        raise


def select_settled(
    vhost: Vhost, queue: Queue, group: WorkGroup, where: Filter | None, first: int, end: int, limit: int, scan: int
) -> tuple[Portion, list[tuple[int, int]]]:
    """Return one portion, and the runs of its records that the group has settled and the filter wants."""
    portion = Portion()
    runs: list[tuple[int, int]] = []
    look = LookBudget(scan)
    for letter in kept_records(vhost, queue, first, end):
        portion.scanned += 1
        offset = offset_of(letter)
        if not group.settlement.is_settled(offset):
            portion.held += 1
        elif is_own(group, letter) and (where is None or where.matches(letter)):
            portion.done += 1
            if runs and runs[-1][1] == offset:
                runs[-1] = (runs[-1][0], offset + 1)
            else:
                runs.append((offset, offset + 1))
        if look.is_enough(letter) or portion.done == limit:
            portion.next = offset + 1 if offset + 1 < end else None
            break
    return portion, runs


def kept_records(vhost: Vhost, queue: Queue, first: int, end: int) -> Iterator[RecordSubject]:
    """Return the records of [first, end) that the log has and the queue has too, settled or not."""
    offset = max(first, int(queue.first_settled()))
    end = min(end, int(queue.log.end))
    while offset < end:
        block = queue.log.block(offset)
        if block is None:
            return
        for at in range(max(offset, int(block.base)), min(end, int(block.end))):
            if queue.has(block, at - block.base):
                yield RecordSubject(queue.name, block, at - int(block.base), vhost.turn.now_us)
        offset = int(block.end)


def is_own(group: WorkGroup, letter: RecordSubject) -> bool:
    """Return whether a group that goes by routing keys wants a record: what it does not want counts as settled."""
    return not group.key_filter.is_set or group.key_filter.wants(letter.block, letter.index)
