"""Records in delivery order: by priority if there are priorities, and by age."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.queue.declaration.limits import BY_EXPRESSION, FAIR, STRICT, Limits
from forebay.queue.ready.level import PriorityLevel
from forebay.queue.ready.ranked import RankedRecords

FAIR_ABOVE: Final = 4  # priorities above it are high
FAIR_HIGH: Final = 1
FAIR_NORMAL: Final = 0
FAIR_TURNS: Final = 2  # high-priority records before it is a normal one's turn
QUORUM_DEFAULT: Final = 4  # the priority of messages without one, where there are 32 levels


class PriorityLevels:
    """The records of a group by level.

    levels    one level per priority, the lowest first; a single level if there are no priorities
    returned  delivered records, which go before all others in a quorum queue; else None
    default   the level of messages that name no priority
    ranked    the only level if an expression orders the records; else None
    """

    def __init__(self, limits: Limits, returned_first: bool) -> None:
        self.mode: i64 = limits.priority_mode
        count: i64 = 1
        if self.mode == STRICT:
            count = limits.max_priority + 1
        elif self.mode == FAIR:
            count = 2
        self.levels: list[PriorityLevel] = []
        self.ranked: RankedRecords | None = None
        if self.mode == BY_EXPRESSION:
            returned_first = False
            self.ranked = RankedRecords()
            self.levels.append(self.ranked)
        else:
            for _ in range(count):
                self.levels.append(PriorityLevel())
        self.default: i64 = min(QUORUM_DEFAULT, count - 1) if returned_first else 0
        self.returned: PriorityLevel | None = PriorityLevel() if returned_first else None
        self.high_turns: i64 = 0
        self.chosen: PriorityLevel = self.levels[0]

    def put(self, level: i64, first: i64, count: i64) -> None:
        """Add records to a level or rank. They follow all that were put there before."""
        if self.ranked is not None:
            self.ranked.place(level, first, count)
        else:
            self.levels[level].add(first, count)

    def put_back(self, level: i64, first: i64, count: i64) -> None:
        """Add records to a level or rank, in any order."""
        if self.ranked is not None:
            self.ranked.place(level, first, count)
        else:
            self.levels[level].give_back(first, count)

    def next_first(self) -> i64:
        """Choose the level whose turn it is. Return its first offset by its entries. There must be one."""
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
        """Choose two high-priority records, then a normal one.

        A high one older than every normal one always goes first.
        """
        high = self.levels[FAIR_HIGH]
        normal = self.levels[FAIR_NORMAL]
        if not high.count:
            return normal
        if not normal.count or high.first() < normal.first() or self.high_turns < FAIR_TURNS:
            return high
        return normal

    def next_length(self) -> i64:
        """Return how many records, from the chosen one on, can be delivered together, according to the entries."""
        length = self.chosen.length()
        if self.mode == FAIR and self.chosen is not self.returned and self.levels[1].count and self.levels[0].count:
            return min(length, 1)
        return length

    def take_chosen(self, count: i64) -> None:
        """Remove `count` records from the chosen level, the chosen one first."""
        self.chosen.take(count)
        if self.mode == FAIR:
            if self.chosen is self.levels[FAIR_HIGH]:
                self.high_turns += 1
            elif self.chosen is self.levels[FAIR_NORMAL]:
                self.high_turns = 0

    def all_levels(self) -> list[PriorityLevel]:
        """Return every level with an entry, in the order in which they are delivered by age.

        Returned records come first.
        """
        found: list[PriorityLevel] = []
        if self.returned is not None and self.returned.count:
            found.append(self.returned)
        for level in self.levels:
            if level.count:
                found.append(level)
        return found
