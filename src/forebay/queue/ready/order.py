"""The order of a queue that delivers otherwise than by age: by priority, or one at a time of each message group.

A plain queue needs none of this: its ready records are the offsets from the cursor on. Here every record is taken in
once it is sealed: it waits at the level of its priority, or behind the record of its own message group that is out.
Where consumers want only some records these are taken out of the middle: what the entries say is then held against the
states of the records.
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

ENTRIES_SLACK: Final = 1024  # entries beyond what waits before a level is written anew


class Order(PriorityLevels):
    """The records that wait below the cursor of a group, in the order in which they will be delivered.

    pages      the states of the group's records
    selectors  for the consumers that want only some
    is_sparse  some records of the entries may wait no more; else the entries say exactly what waits
    is_always_sparse  that is so whatever consumers there are
    busy       message group -> offsets that wait behind the one that is out
    keys       offset -> its message group, of the one of each that is ready or out
    count      records that can be delivered now
    parked     records behind others of their message group
    expression  its value orders the records; None: levels, or age alone
    unranked   heap of (first, count) below the cursor for which the expression is still to be asked
    unranked_count  records in it
    pending    runs below the cursor, the lowest last, that an order by fair keys has still to take in
    is_fair    it goes round the keys of its records
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
        """Have consumers take records out of the middle by these selectors, if there are any."""
        self.selectors = selectors
        self.is_sparse = self.is_always_sparse or len(selectors) > 0

    # ---- coming

    def affordable(self, count: i64) -> i64:
        """Return how many of so many records may be taken in at once."""
        return count

    def take_in(self, block: Block, index: i64, count: i64) -> None:
        """Records of a block that follow all that were taken in before wait from now on."""
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
        """The number of records from `index` on that are alike to an order: without a message group, of one level."""
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
        """Index of the level of a record; its rank where an expression orders the records."""
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
        """Ask the expression for the rank of a record, which costs the turn."""
        subject = self.properties.subject(b"", block, index, 0, 0)
        rank = rank_of(expression.value(subject))
        looks = self.properties.looks
        cost = looks.charge(look_cost(expression, block.body_span(index, 1)), subject)
        if turn is not None:
            turn.looks = 0 if looks.left <= 0 else turn.looks - cost
        return rank

    def take_in_ranked(self, expression: Filter, block: Block, index: i64, count: i64, turn: TurnShare) -> i64:
        """Put records of a block in order until the turn has no looks left; return how many, at least one."""
        at = index
        end = index + count
        start = index  # of the run of one rank that is not placed yet
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
        """Put a record of a message group in order, which may be the one that was out."""
        offset = block.base + index
        if int(offset) not in self.keys:
            self.take_in_keyed(block, index)
            return
        self.put_back(self.level(block, index), offset, 1)
        self.count += 1

    def add_unranked(self, first: i64, count: i64) -> None:
        """Records below the cursor wait until the expression is asked for their ranks."""
        heapq.heappush(self.unranked, (int(first), int(count)))
        self.unranked_count += count

    def pop_unranked(self) -> tuple[int, int]:
        """Take out the lowest run of records without a rank."""
        first, count = heapq.heappop(self.unranked)
        self.unranked_count -= count
        return first, count

    def offer(self, first: i64, count: i64) -> None:
        """Have consumers' filters look at records that can be delivered from now on."""
        for selector in self.selectors:
            selector.offer(first, count)

    # ---- coming back

    def give_back(self, block: Block, index: i64, count: i64) -> None:
        """Records that were delivered wait again."""
        first = block.base + index
        if self.returned is not None:
            self.returned.give_back(first, count)
        else:
            for at in range(index, index + count):
                self.put_back(self.level(block, at), block.base + at, 1)
        self.count += count
        self.offer(first, count)

    def follow(self, offset: i64) -> i64:
        """A record is settled: which one of its message group can be delivered now, see `release`; -1 for none."""
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
        """The record that `follow` told of waits at its level from now on."""
        self.put_back(self.level(block, index), block.base + index, 1)
        self.count += 1
        self.offer(block.base + index, 1)

    def release_following(self, reader: LogReader, first: i64, count: i64) -> None:
        """Records are settled: those that waited behind them in their message groups can be delivered."""
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
        """Have records below the cursor wait until they are taken in; the lowest last, once all are added."""
        self.pending.append((int(first), int(count)))
        self.parked += count

    def pop_pending(self) -> tuple[i64, i64]:
        """Remove the first offset and the length of the run to take in next, as much as the turn has left for it."""
        first, total = self.pending.pop()
        count = self.affordable(total)
        if count < total:
            self.pending.append((int(first + count), int(total - count)))
        self.parked -= count
        return first, count

    # ---- going

    def choose(self) -> i64:
        """The offset that is next; there must be one."""
        first = self.next_first()
        if self.is_sparse:
            gone = self.gone_length(first, self.chosen.length())
            while gone:
                self.chosen.take(gone)
                first = self.next_first()
                gone = self.gone_length(first, self.chosen.length())
        return first

    def length(self, most: i64) -> i64:
        """The number of records from the chosen one on that can be delivered with it, at most so many."""
        length = min(self.next_length(), most)
        return self.waiting_length(self.chosen.first(), length) if self.is_sparse else length

    def take(self, count: i64) -> None:
        """The chosen one, and so many in all from it on, wait no more."""
        self.take_chosen(count)
        self.count -= count

    def heads(self) -> list[PriorityLevel]:
        """The first entry of every level in which something waits: what expires is looked for at the head of each."""
        if not self.is_sparse:
            return self.all_levels()
        for level in self.all_levels():
            self.trim(level)
        return self.all_levels()

    def has_more_heads(self) -> bool:
        """Return whether something waits that `heads` has left out."""
        return False

    def trim(self, level: PriorityLevel) -> None:
        """Have the level begin with a record that waits."""
        while self.is_sparse and level.count:
            gone = self.gone_length(level.first(), level.length())
            if not gone:
                break
            level.take(gone)

    def runs(self) -> list[tuple[int, int]]:
        """The runs of all records that can be delivered now."""
        entries: list[tuple[int, int]] = []
        for level in self.all_levels():
            entries += level.all_runs()
        entries += self.unranked
        return self.still_waiting(entries) if self.is_sparse else entries

    def take_all(self) -> list[tuple[int, int]]:
        """Take everything that waits, parked records too; its runs."""
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
        """True if a record below the cursor is ready, or parked."""
        page = self.pages.get(offset >> PAGE_BITS)
        return page is not None and page.states[offset - page.base] == RETURNED

    def gone_length(self, first: i64, length: i64) -> i64:
        """The number of records from `first` on, of an entry of this length, that wait no more."""
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
        """The number of records from `first` on that wait, of at most so many."""
        count: i64 = 0
        while count < most and self.waits(first + count):
            count += 1
        return count

    def still_waiting(self, entries: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The runs of records that wait among those of entries, ascending, each record once."""
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
        """Write a level anew if most of its entries are used up; how many records left it by that."""
        if level.entries() <= 2 * self.count + ENTRIES_SLACK:
            return 0
        before = level.count
        self.rewrite(level)
        return before - level.count

    def rewrite(self, level: PriorityLevel) -> None:
        """Have a level's entries say exactly what waits."""
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
        same: list[tuple[int, int]] = []  # of one rank
        for at in range(len(entries)):
            rank, first, count = entries[at]
            same.append((first, count))
            if at + 1 == len(entries) or entries[at + 1][0] != rank:
                for start, length in self.still_waiting(same):
                    ranked.place(rank, start, length)
                same = []

    def end_selection(self) -> None:
        """End a selection: nobody takes records out of the middle any more."""
        for level in self.all_levels():
            self.rewrite(level)
        if self.returned is not None and self.returned.count:
            self.leave_out_returned(self.returned)
        self.selectors = []
        self.is_sparse = self.is_always_sparse

    def leave_out_returned(self, returned: PriorityLevel) -> None:
        """Take records out of the levels of their priorities that wait among the returned ones.

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
