"""Work that one packet causes and that may be long: it is counted in steps, cut, and gone on with in the next turn.

All connections together take at most `STEPS_A_TURN` steps in a turn, in equal shares. A step is a third to half a
microsecond in the compiled build: to visit a node of a trie, or to take one destination. A connection whose share is
used up gets `Later`: its packet comes again in the next turn, and finds here how far the work has come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import Later

STEPS_A_TURN: Final = 20_000
SHARE_MIN: Final = 200  # steps of one connection in a turn, however many others there are
AT_ONCE: Final = 2_000  # steps of one packet that are taken at once: what costs less is never cut
REACH_A_TURN: Final = 40_000  # points of a turn's publishes: two for each queue, and half a one for each subscriber
UNCUT: Final = 1 << 60
POINT_SHIFT: Final = 1  # steps, as a power of two, that count as one point of a connection's meter
USUAL_POINTS: Final = 10  # that whoever begins the work counts in any case


class CutWork(ABC):
    """Work that can be done in parts.

    done  nothing is left to do
    """

    def __init__(self) -> None:
        self.done = False

    def is_done(self) -> bool:
        """Return whether nothing is left to do."""
        return self.done

    @abstractmethod
    def run(self, steps: i64) -> i64:
        """Go on for about so many steps. Return how many are left, at least 1 if the work is done."""


@final
class WorkBudget:
    """The steps that all connections together may take in one turn.

    turn      grows by one with each turn
    sharers   connections that have a share of this turn
    reached   points of what the publishes of this turn have led to, of those that lead to much
    cut       how often a packet had to wait for the next turn
    """

    def __init__(self, most: i64 = STEPS_A_TURN) -> None:
        self.most: i64 = most
        self.turn: i64 = 0
        self.sharers: i64 = 0
        self.sharers_before: i64 = 0
        self.reach_most: i64 = REACH_A_TURN
        self.reached: i64 = 0
        self.cut: i64 = 0

    def share(self) -> i64:
        """Return the steps of one more connection in this turn."""
        self.sharers += 1
        return max(i64(SHARE_MIN), self.most // max(self.sharers, self.sharers_before))

    def start_publish(self, points: i64) -> None:
        """Count a publish that leads to much. Raise Later if this turn has enough of them."""
        if self.reached >= self.reach_most:
            self.cut += 1
            raise Later
        self.reached += points

    def end_turn(self) -> None:
        """Begin another turn, with as many steps again."""
        if self.sharers or self.sharers_before:
            self.sharers_before = self.sharers
            self.sharers = 0
        self.reached = 0
        self.turn += 1


@final
class WorkInHand:
    """The work under way for the packet that one connection has in hand.

    budget   None where nothing is ever cut: for what the broker does of its own accord
    parts    by what it is for; work that is done stays until the whole packet is
    at_once  steps that the packet may still take without being cut
    changes  of the topology and of subscriptions when the first part began
    spent    steps since the last `take_spent`
    """

    def __init__(self, budget: WorkBudget | None) -> None:
        self.budget = budget
        self.parts: dict[object, CutWork] = {}
        self.turn: i64 = -1
        self.left: i64 = UNCUT
        self.at_once: i64 = UNCUT if budget is None else AT_ONCE
        self.changes: i64 = 0
        self.spent: i64 = 0

    def take_at_once(self, steps: i64) -> None:
        """Count steps that were taken without being cut."""
        self.at_once -= steps
        self.spent += steps

    def advance(self, work: CutWork) -> None:
        """Go on with the work. Raise Later if it is not done within the connection's share of this turn."""
        if work.is_done():
            return
        budget = self.budget
        if budget is None:
            while not work.is_done():
                work.run(UNCUT)
            return
        if self.turn != budget.turn:
            self.turn = budget.turn
            self.left = budget.share()
        if self.left > 0:
            left = work.run(self.left)
            self.spent += self.left - left
            self.left = left
        if not work.is_done():
            budget.cut += 1
            raise Later

    def is_stale(self, changes: i64) -> bool:
        """Return whether anything has changed since the first part began: what was found is good only once."""
        return len(self.parts) > 0 and self.changes != changes

    def take_spent(self) -> i64:
        """Return the points of a meter for the steps since the last call, but for those that every packet takes."""
        spent = self.spent
        self.spent = 0
        return max((spent >> POINT_SHIFT) - USUAL_POINTS, 0)

    def finish(self) -> None:
        """Forget the work: the packet is dealt with."""
        if self.parts:
            self.parts.clear()
        if self.budget is not None:
            self.at_once = AT_ONCE
