"""The order of a queue that does not deliver by age: by priority or expression, or one at a time of each message group.

A plain queue needs none of this: its ready records are the offsets from the cursor on. Here each record is taken in
once it is sealed. It waits at the level of its priority, or behind the record of its message group that is out.
Consumers with filters take records out of the middle. The entries are then checked against the states of the records.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final

from mypy_extensions import i64

from forebay.core.message import KEYED
from forebay.filter.parser import Filter
from forebay.log.block import Block
from forebay.queue.declaration.limits import FAIR, Limits
from forebay.queue.leases.page import PAGE_BITS, RETURNED, Page
from forebay.queue.log_reader import LogReader
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.level import PriorityLevel
from forebay.queue.ready.levels import FAIR_ABOVE, FAIR_HIGH, FAIR_NORMAL, PriorityLevels
from forebay.queue.ready.ranked import RankedRecords, rank_of
from forebay.queue.ready.selector import Selector, look_cost
from forebay.queue.turn import TurnShare

ENTRIES_SLACK: Final = 1024  # used-up entries of a level before it is rewritten


class Order(PriorityLevels):
    """The records that wait below the cursor of a group, in delivery order.

    pages      the states of the group's records
    selectors  the selectors of consumers that have filters
    is_sparse  some records of the entries may wait no more; else the entries hold exactly what waits
    is_always_sparse  `is_sparse` holds even without selectors
    busy       by message group: offsets that wait behind the record that is ready or out
    keys       by offset: the message group of each record that is ready or out
    count      number of records that can be delivered now
    parked     number of records behind others of their message group
    expression expression whose value orders the records; None for levels or age
    unranked   heap of (first, count) below the cursor whose rank is not computed yet
    unranked_count  number of records in `unranked`
    pending    runs below the cursor, the lowest last, that an order by fair keys has still to take in
    is_fair    the order goes round the fair keys of its records
    """

    def __init__(
        self,
        limits: Limits,
        properties: PropertyReader,
        returned_first: bool,
        pages: dict[int, Page],
        is_sparse: bool = False,
    ) -> None:
        super().__init__(limits, returned_first)
        self.properties = properties
        self.pages = pages
        self.selectors: list[Selector] = []
        self.is_sparse = is_sparse
        self.is_always_sparse = is_sparse
        self.busy: dict[bytes, deque[int]] = {}
        self.keys: dict[int, bytes] = {}
        self.count: i64 = 0
        self.parked: i64 = 0
        self.expression = limits.priority_expression
        self.unranked: list[tuple[int, int]] = []
        self.unranked_count: i64 = 0
        self.pending: list[tuple[int, int]] = []
        self.is_fair = False

    def select_by(self, selectors: list[Selector]) -> None:
        """Set the selectors with which consumers take records out of the middle."""
        self.selectors = selectors
        self.is_sparse = self.is_always_sparse or len(selectors) > 0

    # ---- coming

    def affordable(self, count: i64) -> i64:
        """Return how many of `count` records may be taken in at once."""
        return count

    def take_in(self, block: Block, index: i64, count: i64) -> None:
        """Add records of a block that follow all records taken in before."""
        at = index
        end = index + count
        while at < end:
            run = self.run(block, at, end)
            if block.format(at) & KEYED:
                self.take_in_keyed(block, at)
            else:
                self.put(self.level(block, at), block.base + at, run)
                self.count += run
            at += run

    def run(self, block: Block, index: i64, end: i64) -> i64:
        """Return the length of the run at `index` that has one level and no message group."""
        if block.format(index) & KEYED:
            return 1
        level: i64 = -1
        at = index
        while at < end and not block.format(at) & KEYED:
            if self.mode:
                found = self.level(block, at)
                if level >= 0 and found != level:
                    break
                level = found
            at += 1
        return at - index

    def level(self, block: Block, index: i64) -> i64:
        """Return the index of a record's level, or its rank if an expression orders the records."""
        if self.mode == 0:
            return 0
        if self.expression is not None:
            return self.rank(self.expression, block, index, None)
        priority = self.properties.priority(block, index)
        if self.mode == FAIR:
            return FAIR_HIGH if priority > FAIR_ABOVE else FAIR_NORMAL
        if priority < 0:
            return self.default
        return min(priority, i64(len(self.levels)) - 1)

    def take_in_keyed(self, block: Block, index: i64) -> None:
        key = self.properties.key(block, index)
        offset = block.base + index
        behind = self.busy.get(key)
        if behind is not None:
            behind.append(int(offset))
            self.parked += 1
            return
        self.busy[key] = deque()
        self.keys[int(offset)] = key
        self.put(self.level(block, index), offset, 1)
        self.count += 1

    # ---- coming, where an expression orders the records

    def rank(self, expression: Filter, block: Block, index: i64, turn: TurnShare | None) -> i64:
        """Return the rank of a record by the expression. The evaluation is charged to the turn."""
        subject = self.properties.subject(b"", block, index, 0, 0)
        rank = rank_of(expression.value(subject))
        looks = self.properties.looks
        cost = looks.charge(look_cost(expression, block.body_span(index, 1)), subject)
        if turn is not None:
            turn.looks = 0 if looks.left <= 0 else turn.looks - cost
        return rank

    def take_in_ranked(self, expression: Filter, block: Block, index: i64, count: i64, turn: TurnShare) -> i64:
        """Put records of a block in order until the turn's budget is spent. Return how many; at least one."""
        at = index
        end = index + count
        start = index  # start of the run of one rank that is not placed yet
        rank: i64 = 0
        while at < end and (at == index or turn.looks > 0):
            if block.format(at) & KEYED:
                self.put_run(rank, block.base + start, at - start)
                self.take_in_keyed_again(block, at)
                turn.looks -= 1
                start = at + 1
            else:
                found = self.rank(expression, block, at, turn)
                if found != rank:
                    self.put_run(rank, block.base + start, at - start)
                    rank = found
                    start = at
            at += 1
        self.put_run(rank, block.base + start, at - start)
        return at - index

    def put_run(self, rank: i64, first: i64, count: i64) -> None:
        if count:
            self.put(rank, first, count)
            self.count += count

    def take_in_keyed_again(self, block: Block, index: i64) -> None:
        """Put a record of a message group in order. It may be the one of its group that was out."""
        offset = block.base + index
        if int(offset) not in self.keys:
            self.take_in_keyed(block, index)
            return
        self.put_back(self.level(block, index), offset, 1)
        self.count += 1

    def add_unranked(self, first: i64, count: i64) -> None:
        """Add records below the cursor that wait to be ranked."""
        heapq.heappush(self.unranked, (int(first), int(count)))
        self.unranked_count += count

    def pop_unranked(self) -> tuple[int, int]:
        """Remove and return the lowest run of records without a rank."""
        first, count = heapq.heappop(self.unranked)
        self.unranked_count -= count
        return first, count

    def offer(self, first: i64, count: i64) -> None:
        """Offer records that can be delivered from now on to the consumers' filters."""
        for selector in self.selectors:
            selector.offer(first, count)

    # ---- coming back

    def give_back(self, block: Block, index: i64, count: i64) -> None:
        """Add records that were delivered and came back."""
        first = block.base + index
        if self.returned is not None:
            self.returned.give_back(first, count)
        else:
            for at in range(index, index + count):
                self.put_back(self.level(block, at), block.base + at, 1)
        self.count += count
        self.offer(first, count)

    def follow(self, offset: i64) -> i64:
        """Forget a settled record. Return the next record of its message group, to pass to `release`, or -1."""
        key = self.keys.pop(int(offset), None)
        if key is None:
            return -1
        behind = self.busy[key]
        if not behind:
            del self.busy[key]
            return -1
        following = behind.popleft()
        self.keys[following] = key
        self.parked -= 1
        return following

    def release(self, block: Block, index: i64) -> None:
        """Add the record that `follow` returned to its level."""
        self.put_back(self.level(block, index), block.base + index, 1)
        self.count += 1
        self.offer(block.base + index, 1)

    def release_following(self, reader: LogReader, first: i64, count: i64) -> None:
        """Release the records that waited behind settled records in their message groups."""
        for offset in range(first, first + count):
            following = self.follow(offset)
            while following >= 0:
                block = reader.needed(following)
                if block is None and reader.damage is not None:
                    return
                if block is not None and block.base <= following:
                    self.release(block, following - block.base)
                    break
                following = self.follow(following)

    # ---- pending runs

    def add_pending(self, first: i64, count: i64) -> None:
        """Add records below the cursor to be taken in later. Add the lowest last."""
        self.pending.append((int(first), int(count)))
        self.parked += count

    def pop_pending(self) -> tuple[i64, i64]:
        """Remove the next pending run, as long as the turn can afford. Return its first offset and length."""
        first, total = self.pending.pop()
        count = self.affordable(total)
        if count < total:
            self.pending.append((int(first + count), int(total - count)))
        self.parked -= count
        return first, count

    # ---- going

    def choose(self) -> i64:
        """Return the next offset. There must be one."""
        first = self.next_first()
        if self.is_sparse:
            gone = self.gone_length(first, self.chosen.length())
            while gone:
                self.chosen.take(gone)
                first = self.next_first()
                gone = self.gone_length(first, self.chosen.length())
        return first

    def length(self, most: i64) -> i64:
        """Return how many records, from the chosen one on, can be delivered together; at most `most`."""
        length = min(self.next_length(), most)
        return self.waiting_length(self.chosen.first(), length) if self.is_sparse else length

    def take(self, count: i64) -> None:
        """Remove `count` records, the chosen one first."""
        self.take_chosen(count)
        self.count -= count

    def heads(self) -> list[PriorityLevel]:
        """Return the levels in which something waits. Expired records are looked for at the head of each."""
        if not self.is_sparse:
            return self.all_levels()
        for level in self.all_levels():
            self.trim(level)
        return self.all_levels()

    def has_more_heads(self) -> bool:
        """Return whether records wait in levels that `heads` has left out."""
        return False

    def trim(self, level: PriorityLevel) -> None:
        """Remove entries at the head of a level until a waiting record is first."""
        while self.is_sparse and level.count:
            gone = self.gone_length(level.first(), level.length())
            if not gone:
                break
            level.take(gone)

    def runs(self) -> list[tuple[int, int]]:
        """Return the runs of all records that can be delivered now."""
        entries: list[tuple[int, int]] = []
        for level in self.all_levels():
            entries += level.all_runs()
        entries += self.unranked
        return self.still_waiting(entries) if self.is_sparse else entries

    def take_all(self) -> list[tuple[int, int]]:
        """Remove everything that waits, parked records too. Return its runs."""
        runs = self.runs()
        for level in self.all_levels():
            level.clear()
        for first, length in runs:
            for offset in range(first, first + length):
                self.keys.pop(offset, None)
        for key in list(self.busy):
            for offset in self.busy[key]:
                runs.append((offset, 1))
            self.busy[key].clear()
        held = set(self.keys.values())
        for key in list(self.busy):
            if key not in held:
                del self.busy[key]
        self.count = 0
        self.parked = 0
        self.unranked = []
        self.unranked_count = 0
        return runs

    # ---- which of its entries' records still wait

    def waits(self, offset: i64) -> bool:
        """Return whether a record below the cursor is ready or parked."""
        page = self.pages.get(offset >> PAGE_BITS)
        return page is not None and page.states[offset - page.base] == RETURNED

    def gone_length(self, first: i64, length: i64) -> i64:
        """Return how many records from `first` on, in an entry of this length, no longer wait."""
        at = first
        end = first + length
        while at < end:
            page = self.pages.get(at >> PAGE_BITS)
            stop = min(((at >> PAGE_BITS) + 1) << PAGE_BITS, end)
            if page is None:
                at = stop
                continue
            while at < stop:
                if page.states[at - page.base] == RETURNED:
                    return at - first
                at += 1
        return length

    def waiting_length(self, first: i64, most: i64) -> i64:
        """Return how many of `most` records from `first` on wait."""
        count: i64 = 0
        while count < most and self.waits(first + count):
            count += 1
        return count

    def still_waiting(self, entries: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the runs of waiting records among those of entries, ascending, each record once."""
        found: list[tuple[int, int]] = []
        at: i64 = 0
        for first, count in sorted(entries):
            at = max(at, first)
            end: i64 = first + count
            while at < end:
                at += self.gone_length(at, end - at)
                length = self.waiting_length(at, end - at)
                if length:
                    found.append((at, length))
                at += length
        return found

    def tidy(self, level: PriorityLevel) -> i64:
        """Rewrite a level if most of its entries are used up. Return how many records left it by that."""
        if level.entries() <= 2 * self.count + ENTRIES_SLACK:
            return 0
        before = level.count
        self.rewrite(level)
        return before - level.count

    def rewrite(self, level: PriorityLevel) -> None:
        """Rewrite the entries of a level to hold exactly what waits."""
        if isinstance(level, RankedRecords):
            self.rewrite_ranked(level)
            return
        runs = self.still_waiting(level.all_runs())
        level.clear()
        for first, count in runs:
            level.add(first, count)

    def rewrite_ranked(self, ranked: RankedRecords) -> None:
        entries = sorted(ranked.ranked_runs())
        ranked.clear()
        same: list[tuple[int, int]] = []  # runs of one rank
        for at in range(len(entries)):
            rank, first, count = entries[at]
            same.append((first, count))
            if at + 1 == len(entries) or entries[at + 1][0] != rank:
                for start, length in self.still_waiting(same):
                    ranked.place(rank, start, length)
                same = []

    def end_selection(self) -> None:
        """End selection: no consumer takes records out of the middle any more."""
        for level in self.all_levels():
            self.rewrite(level)
        if self.returned is not None and self.returned.count:
            self.leave_out_returned(self.returned)
        self.selectors = []
        self.is_sparse = self.is_always_sparse

    def leave_out_returned(self, returned: PriorityLevel) -> None:
        """Remove records from the levels of their priorities that also wait among the returned records.

        A record that was taken out of the middle, and came back, has an entry in both.
        """
        again: set[int] = set()
        for first, count in returned.all_runs():
            again.update(range(first, first + count))
        for level in self.levels:
            runs = level.all_runs()
            level.clear()
            for first, count in runs:
                for offset in range(first, first + count):
                    if offset not in again:
                        level.add(offset, 1)
