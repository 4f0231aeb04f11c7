"""A query that is under way: it reads a queue a few records at a time, and changes nothing."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.query.queued_subject import GroupStates, QueuedSubject
from forebay.core.errors import DAMAGED, INVALID, NOT_FOUND, DamagedBlock, RequestError
from forebay.log.block import Block
from forebay.query.plan import QueryPlan
from forebay.query.rows import RowCollector, rows_for
from forebay.queue.queue import STREAM, Queue
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

STEP_RECORDS: Final = 500  # that one step looks at
STEP_OCTETS: Final = 1 << 20  # of the bodies that one step looks at


@final
class RunningQuery:
    """One query over one queue.

    A message is read once, as it is at that moment: what was there when the query began and is there all the time is
    in the answer exactly once, and nothing that came later is.

    id      number within the vhost
    owner   user that asks
    end     offset at which it ends
    at      offset at which it goes on
    scanned, matched  messages that it has looked at, and for which the condition held
    error   what it ended with instead of an answer
    seen_us when somebody asked for it last
    """

    def __init__(self, id: int, owner: str, queue: Queue, plan: QueryPlan) -> None:
        self.id = id
        self.owner = owner
        self.queue = queue
        self.plan = plan
        self.states = GroupStates(group_of(queue, plan.group))
        # Readers of a stream see what is on disk, and nothing that could be lost.
        last = queue.log.readable_end() if queue.kind == STREAM else queue.log.end
        self.end: i64 = last if plan.end < 0 else min(i64(plan.end), last)
        self.at: i64 = max(i64(plan.first), queue.start())
        self.rows: RowCollector = rows_for(plan)
        self.scanned = 0
        self.matched = 0
        self.is_done = False
        self.error: RequestError | None = None
        self.seen_us: i64 = 0

    def step(self, now_us: i64, records_max: i64 = STEP_RECORDS) -> None:
        """Look at some more messages: at most `records_max`, and bodies of about STEP_OCTETS together."""
        try:
            self.states.begin(now_us)
            self.look(now_us, records_max)
        except DamagedBlock as damage:
            self.fail(RequestError(DAMAGED, f"queue '{text(self.queue.name)}': {damage}"))
        except RequestError as error:
            self.fail(error)

    def fail(self, error: RequestError) -> None:
        """End the query with an error."""
        self.error = error
        self.is_done = True

    def queue_gone(self) -> None:
        """End the query, as its queue was deleted."""
        self.fail(RequestError(NOT_FOUND, f"queue '{text(self.queue.name)}' was deleted while it was queried"))

    def look(self, now_us: i64, records_max: i64) -> None:
        queue = self.queue
        left = records_max
        octets: i64 = STEP_OCTETS
        while left > 0 and octets > 0 and not self.rows.is_full:
            self.at = max(self.at, queue.start())
            if self.at >= self.end:
                break
            block = queue.log.kept_block(self.at)
            if block is None or block.base >= self.end:
                self.at = self.end
                break
            first = max(self.at, block.base)
            stop = min(self.end, block.end)
            stop = min(stop, first + left)
            octets -= self.look_at(block, first, stop, octets, now_us)
            left -= max(self.at - first, i64(1))
        self.is_done = self.rows.is_full or self.at >= self.end

    def look_at(self, block: Block, first: i64, stop: i64, octets_max: i64, now_us: i64) -> i64:
        """Look at the messages of one block in [first, stop); return the octets of their bodies."""
        where = self.plan.where
        octets: i64 = 0
        for run_first, run_end in self.unsettled(first, stop):
            for offset in range(run_first, run_end):
                index = i64(offset) - block.base
                if not self.queue.has(block, index):
                    continue
                octets += block.body_span(index, 1) + 64
                subject = QueuedSubject(self.queue.name, block, index, now_us, self.states)
                self.scanned += 1
                if where is None or where.matches(subject):
                    self.matched += 1
                    self.rows.take(subject, offset)
                    if self.rows.is_full:
                        self.at = i64(offset) + 1
                        return octets
                if octets >= octets_max:
                    self.at = i64(offset) + 1
                    return octets
        self.at = stop
        return octets

    def unsettled(self, first: i64, stop: i64) -> list[tuple[int, int]]:
        """Return the runs of messages within [first, stop) that are not settled in the group."""
        group = self.states.group
        if group is None:
            return self.queue.needed(first, stop)
        return group.settlement.unsettled(max(first, self.queue.start()), stop)

    def answer(self) -> dict[str, object]:
        """Return the answer of a query that is done. Raises RequestError if it ended with an error."""
        if self.error is not None:
            raise self.error
        rows = self.rows.page()
        found: dict[str, object] = {"rows": rows, "scanned": self.scanned, "matched": self.matched}
        found["end"] = int(self.end)
        following = self.rows.following()
        if following is not None:
            following["end"] = int(self.end)
            found["next"] = following
        return found


def group_of(queue: Queue, name: bytes | None) -> WorkGroup | None:
    """Return the group whose states a query sees: the named one, the nameless one, or the only one there is."""
    found = queue.find_group(b"" if name is None else name)
    if isinstance(found, WorkGroup):
        return found
    if name:
        raise RequestError(INVALID, f"group: queue '{text(queue.name)}' has no work group '{text(name)}'")
    if name is not None:
        return None
    groups = [each for each in queue.groups.values() if isinstance(each, WorkGroup)]
    return groups[0] if len(groups) == 1 and queue.kind != STREAM else None
