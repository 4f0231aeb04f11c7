"""Records in the order in which they will be delivered: by priority where there are priorities, and by age.

Runs of consecutive offsets at one level are one entry, of 16 octets. An entry says where records were: where some are
taken out of its middle, whoever takes the others asks which of them still wait.
"""

from __future__ import annotations

import heapq
from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from forebay.queue.declaration.limits import FAIR, STRICT, Limits

TRIM_MIN: Final = 4096  # entries taken from the front of a level before the others are moved
FAIR_ABOVE: Final = 4  # priorities above it are high
FAIR_HIGH: Final = 1
FAIR_NORMAL: Final = 0
FAIR_TURNS: Final = 2  # high ones before it is a normal one's turn
QUORUM_DEFAULT: Final = 4  # the priority of messages without one, where there are 32 levels


@final
class PriorityLevel:
    """Records of one priority, by offset.

    count  records in its entries, not runs
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
        """The lowest offset; the level must not be empty."""
        if self.returned and (self.head >= len(self.runs) or self.returned[0][0] < self.runs[self.head]):
            return self.returned[0][0]
        return self.runs[self.head]

    def length(self) -> i64:
        """The number of records from `first` on in one entry."""
        if self.returned and (self.head >= len(self.runs) or self.returned[0][0] < self.runs[self.head]):
            return self.returned[0][1]
        return self.runs[self.head + 1]

    def take(self, count: i64) -> None:
        """The first `count` records, at most `length`, are out of here."""
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

    def entries(self) -> i64:
        return ((i64(len(self.runs)) - self.head) >> 1) + len(self.returned)

    def all_runs(self) -> list[tuple[int, int]]:
        """The runs of all its entries, those of returned records last."""
        found: list[tuple[int, int]] = []
        at = self.head
        while at < i64(len(self.runs)):
            found.append((self.runs[at], self.runs[at + 1]))
            at += 2
        found += self.returned
        return found

    def clear(self) -> None:
        self.runs = vec[i64]()
        self.head = 0
        self.returned = []
        self.count = 0


class PriorityLevels:
    """Records by level.

    levels    by priority, the lowest first; one where nothing gives priorities
    returned  what was delivered already, where that goes before all others (quorum queues); else None
    default   the level of messages that name no priority
    """

    def __init__(self, limits: Limits, returned_first: bool) -> None:
        self.mode: i64 = limits.priority_mode
        count: i64 = 1
        if self.mode == STRICT:
            count = limits.max_priority + 1
        elif self.mode == FAIR:
            count = 2
        self.levels: list[PriorityLevel] = []
        for _ in range(count):
            self.levels.append(PriorityLevel())
        self.default: i64 = min(QUORUM_DEFAULT, count - 1) if returned_first else 0
        self.returned: PriorityLevel | None = PriorityLevel() if returned_first else None
        self.high_turns: i64 = 0
        self.chosen: PriorityLevel = self.levels[0]

    def next_first(self) -> i64:
        """The offset that is next by what the entries say; there must be one."""
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

    def choose_fairly(self) -> PriorityLevel:
        """Two high ones, then a normal one; but a high one that is older than every normal one goes first always."""
        high = self.levels[FAIR_HIGH]
        normal = self.levels[FAIR_NORMAL]
        if not high.count:
            return normal
        if not normal.count or high.first() < normal.first() or self.high_turns < FAIR_TURNS:
            return high
        return normal

    def next_length(self) -> i64:
        """The number of records from the chosen one on that can be delivered with it, by what the entries say."""
        length = self.chosen.length()
        if self.mode == FAIR and self.chosen is not self.returned and self.levels[1].count and self.levels[0].count:
            return min(length, 1)
        return length

    def take_chosen(self, count: i64) -> None:
        """The chosen one, and so many in all from it on, are out of here."""
        self.chosen.take(count)
        if self.mode == FAIR:
            if self.chosen is self.levels[FAIR_HIGH]:
                self.high_turns += 1
            elif self.chosen is self.levels[FAIR_NORMAL]:
                self.high_turns = 0

    def all_levels(self) -> list[PriorityLevel]:
        """Every level with an entry, in the order of their turns by age: what was returned first."""
        found: list[PriorityLevel] = []
        if self.returned is not None and self.returned.count:
            found.append(self.returned)
        for level in self.levels:
            if level.count:
                found.append(level)
        return found
