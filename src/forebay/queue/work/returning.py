"""Returned records of a work group: ready at once, or after a delay that survives a restart."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.queue.leases.page import DELAYED, RETURNED
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.delayed import FROM_NOW, DelayedRecords
from forebay.queue.ready.ready_queue import ReadyQueue
from forebay.queue.turn import TurnShare
from forebay.queue.work.attempts import Attempts
from forebay.queue.work.settlement import Settlement


@final
class ReturningRecords:
    """The returned records of one group, on their way back to its ready queue.

    delayed  records that can be delivered later
    """

    def __init__(
        self,
        settlement: Settlement,
        attempts: Attempts,
        ready_queue: ReadyQueue,
        properties: PropertyReader,
        turn: TurnShare,
    ) -> None:
        self.settlement = settlement
        self.attempts = attempts
        self.ready_queue = ready_queue
        self.properties = properties
        self.turn = turn
        self.delayed = DelayedRecords()

    def now_us(self) -> i64:
        """Return the approximate time. The group may not have been visited for long."""
        return max(self.turn.now_us, self.properties.looks.now_us)

    def wait(self, first: i64, count: i64, due_us: i64) -> None:
        """Make records ready from `due_us` on, see `DelayedRecords`, or at once if it is 0."""
        if due_us != 0:
            self.settlement.mark(first, first + count, DELAYED)
            self.delayed.add(first, count, due_us)
            self.attempts.note_delay(first, count, due_us if due_us > 0 else due_us - FROM_NOW + self.now_us())
        else:
            self.ready_queue.add(first, count)

    def release_due(self, now_us: i64) -> None:
        """Make the delayed records ready that are due."""
        for first, count in self.delayed.take_due(now_us):
            self.settlement.mark(first, first + count, RETURNED)
            self.ready_queue.add(first, count)

    def restore(self) -> None:
        """Make the records that settlements passed over ready, or delay them as noted.

        Call `ReadyQueue.restore_cursor` first.
        """
        for due_us, first, count in self.attempts.take_delays():
            self.settlement.mark(first, first + count, DELAYED)
            self.delayed.add(first, count, due_us)
        self.ready_queue.restore()
