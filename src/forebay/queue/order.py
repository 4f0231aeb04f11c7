"""The order of a queue that hands out otherwise than by age: by priority, or one at a time of each message group.

A plain queue needs none of this: its ready records are the offsets from the cursor on. Here every record is taken in
once it is sealed: it waits at the level of its priority, or behind the record of its own message group that is out.
Runs of consecutive offsets at one level are one entry, of 16 octets.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from forebay.core.message import KEYED
from forebay.log.block import Block
from forebay.queue.facts import Facts
from forebay.queue.limits import FAIR, STRICT, Limits

TRIM_MIN: Final = 4096  # entries taken from the front of a level before the others are moved
FAIR_ABOVE: Final = 4  # priorities above it are high
FAIR_HIGH: Final = 1
FAIR_NORMAL: Final = 0
FAIR_TURNS: Final = 2  # high ones before it is a normal one's turn
QUORUM_DEFAULT: Final = 4  # the priority of messages without one, where there are 32 levels


@final
class Level:
    """Records of one priority that wait, by offset.

    count  records, not runs
    """

    def __init__(self) -> None:
        self.runs = vec[i64]()  # first, count, first, count ... ascending; those before `head` are taken
        self.head: i64 = 0
        self.returned: list[tuple[int, int]] = []  # heap of (first, count)
        self.count: i64 = 0

    def add(self, first: i64, count: i64) -> None:
        """Records that follow all that were added before."""
        self.count += count
        size = i64(len(self.runs))
        if size > self.head and self.runs[size - 2] + self.runs[size - 1] == first:
            self.runs[size - 1] += count
            return
        self.runs = append(self.runs, first)
        self.runs = append(self.runs, count)

    def give_back(self, first: i64, count: i64) -> None:
        """Records from anywhere."""
        self.count += count
        heapq.heappush(self.returned, (int(first), int(count)))

    def first(self) -> i64:
        """The lowest offset that waits; the level must not be empty."""
        if self.returned and (self.head >= len(self.runs) or self.returned[0][0] < self.runs[self.head]):
            return self.returned[0][0]
        return self.runs[self.head]

    def length(self) -> i64:
        """How many records from `first` on wait in one run."""
        if self.returned and (self.head >= len(self.runs) or self.returned[0][0] < self.runs[self.head]):
            return self.returned[0][1]
        return self.runs[self.head + 1]

    def take(self, count: i64) -> None:
        """The first `count` records, at most `length`, wait no more."""
        self.count -= count
        if self.returned and (self.head >= len(self.runs) or self.returned[0][0] < self.runs[self.head]):
            first, total = heapq.heappop(self.returned)
            if count < total:
                heapq.heappush(self.returned, (first + count, total - count))
            return
        if count < self.runs[self.head + 1]:
            self.runs[self.head] += count
            self.runs[self.head + 1] -= count
            return
        self.head += 2
        if self.head >= TRIM_MIN and 2 * self.head >= len(self.runs):
            self.runs = self.runs[self.head :]
            self.head = 0


@final
class Order:
    """What waits below the cursor of a group, in the order in which it will be handed out.

    levels    by priority, the lowest first; one where only message groups order
    returned  what was handed out already, where that goes before all others (quorum queues); else None
    busy      message group -> offsets that wait behind the one that is out
    keys      offset -> its message group, of the one of each that is ready or out
    count     records that can be handed out now
    parked    records behind others of their message group
    """

    def __init__(self, limits: Limits, facts: Facts, returned_first: bool) -> None:
        self.limits = limits
        self.facts = facts
        self.mode: i64 = limits.priority_mode
        count: i64 = 1
        if self.mode == STRICT:
            count = limits.max_priority + 1
        elif self.mode == FAIR:
            count = 2
        self.levels: list[Level] = []
        for _ in range(count):
            self.levels.append(Level())
        self.default: i64 = min(QUORUM_DEFAULT, count - 1) if returned_first else 0
        self.returned: Level | None = Level() if returned_first else None
        self.busy: dict[bytes, deque[int]] = {}
        self.keys: dict[int, bytes] = {}
        self.count: i64 = 0
        self.parked: i64 = 0
        self.high_turns: i64 = 0
        self.chosen: Level = self.levels[0]

    # ---- coming

    def take_in(self, block: Block, index: i64, count: i64) -> None:
        """Records of a block that follow all that were taken in before wait from now on."""
        at = index
        end = index + count
        while at < end:
            run = self.run(block, at, end)
            if block.format(at) & KEYED:
                self.take_in_keyed(block, at)
            else:
                self.levels[self.level(block, at)].add(block.base + at, run)
                self.count += run
            at += run

    def run(self, block: Block, index: i64, end: i64) -> i64:
        """How many records from `index` on are alike to an order: those without a message group, of one level."""
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
        """Index of the level of a record."""
        if self.mode == 0:
            return 0
        priority = self.facts.priority(block, index)
        if self.mode == FAIR:
            return FAIR_HIGH if priority > FAIR_ABOVE else FAIR_NORMAL
        if priority < 0:
            return self.default
        return min(priority, i64(len(self.levels)) - 1)

    def take_in_keyed(self, block: Block, index: i64) -> None:
        key = self.facts.key(block, index)
        offset = block.base + index
        behind = self.busy.get(key)
        if behind is not None:
            behind.append(int(offset))
            self.parked += 1
            return
        self.busy[key] = deque()
        self.keys[int(offset)] = key
        self.levels[self.level(block, index)].add(offset, 1)
        self.count += 1

    def give_back(self, block: Block, index: i64, count: i64) -> None:
        """Records that were handed out wait again."""
        first = block.base + index
        if self.returned is not None:
            self.returned.give_back(first, count)
        else:
            for at in range(index, index + count):
                self.levels[self.level(block, at)].give_back(block.base + at, 1)
        self.count += count

    def follow(self, offset: i64) -> i64:
        """A record is settled: which one of its message group can be handed out now, see `release`; -1 for none."""
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
        self.levels[self.level(block, index)].give_back(block.base + index, 1)
        self.count += 1

    # ---- going

    def choose(self) -> i64:
        """The offset that is next; there must be one."""
        returned = self.returned
        if returned is not None and returned.count:
            self.chosen = returned
            return returned.first()
        if self.mode == FAIR:
            self.chosen = self.choose_fairly()
        else:
            at = len(self.levels) - 1
            while not self.levels[at].count:
                at -= 1
            self.chosen = self.levels[at]
        return self.chosen.first()

    def choose_fairly(self) -> Level:
        """Two high ones, then a normal one; but a high one that is older than every normal one goes first always."""
        high = self.levels[FAIR_HIGH]
        normal = self.levels[FAIR_NORMAL]
        if not high.count:
            return normal
        if not normal.count or high.first() < normal.first() or self.high_turns < FAIR_TURNS:
            return high
        return normal

    def length(self) -> i64:
        """How many records from the chosen one on can be handed out with it."""
        length = self.chosen.length()
        if self.mode == FAIR and self.chosen is not self.returned and self.levels[1].count and self.levels[0].count:
            return min(length, 1)
        return length

    def take(self, count: i64) -> None:
        """The chosen one, and so many in all from it on, wait no more."""
        self.chosen.take(count)
        self.count -= count
        if self.mode == FAIR:
            if self.chosen is self.levels[FAIR_HIGH]:
                self.high_turns += 1
            elif self.chosen is self.levels[FAIR_NORMAL]:
                self.high_turns = 0

    def heads(self) -> list[Level]:
        """Every level in which something waits: what expires is looked for at the head of each."""
        found: list[Level] = []
        if self.returned is not None and self.returned.count:
            found.append(self.returned)
        for level in self.levels:
            if level.count:
                found.append(level)
        return found

    def runs(self) -> list[tuple[int, int]]:
        """The runs of all records that can be handed out now."""
        found: list[tuple[int, int]] = []
        for level in self.heads():
            at = level.head
            while at < i64(len(level.runs)):
                found.append((level.runs[at], level.runs[at + 1]))
                at += 2
            found += level.returned
        return found

    def take_all(self) -> list[tuple[int, int]]:
        """Everything that waits, parked records too, is taken; its runs."""
        runs: list[tuple[int, int]] = []
        for level in self.heads():
            while level.count:
                first = level.first()
                length = level.length()
                level.take(length)
                runs.append((first, length))
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
        return runs
