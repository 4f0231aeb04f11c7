"""The costs that one turn of all vhosts may have, so that no turn takes long however much is asked for."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.queue.properties import Looks
from forebay.routing.cut_work import WorkBudget


@final
class TurnBudgets:
    """The budgets of a turn, each shared by all connections.

    filters   what filters of consumers may cost
    publishes steps of the search for recipients, and for retained messages
    reading   work that was done in this turn for readers with filters (session/blocks/picking.py)
    """

    def __init__(self, filter_work: i64) -> None:
        self.filters = Looks(filter_work)
        self.publishes = WorkBudget()
        self.reading: i64 = 0

    def end_turn(self, now_us: i64) -> None:
        """Give the next turn as much again."""
        self.reading = 0
        pace = self.filters.pace
        if pace.window or pace.until_us:
            pace.end_turn(now_us)
        self.filters.begin()
        self.publishes.end_turn()
