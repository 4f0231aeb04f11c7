"""The records of a work group for consumers of one filter: which were looked at, and found wanted."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.filter.parser import Filter
from forebay.queue.ready.levels import PriorityLevels

LOOK_COST: Final = 4  # of a turn's `scan`: a filter costs more than a glance at a routing key
OCTETS_SHIFT: Final = 6  # octets of a body that cost 1 more, as they have to be parsed
SIZE_SHIFT: Final = 3  # nodes of a filter that cost 1 more, and as much for each of those octets


def look_cost(filter: Filter, octets: i64) -> i64:
    """The cost, in a turn's `scan`, of a look at a record with a body of so many octets."""
    weight = 1 + (filter.size >> SIZE_SHIFT)
    return LOOK_COST + weight * ((octets >> OCTETS_SHIFT) if filter.asks_body else 1)


@final
class Selector:
    """One filter, for all consumers of a group that have it.

    text       the filter in the form in which equal ones are alike
    asks_attempts  it asks for what changes when a record comes back
    queue      name of the queue, of which a filter may ask
    users      consumers that have it
    next       every record below it that is ready was looked at, but for those in `again`
    found       those that are wanted; some may be out by now, for somebody else
    size       records in `found`
    again      records that became ready after they had been looked at, or passed over
    is_dry     nothing that is ready is wanted: its consumers have no turn
    """

    def __init__(self, filter: Filter, queue: bytes, found: PriorityLevels, first: i64) -> None:
        self.filter = filter
        self.text = filter.written()
        self.asks_attempts = "deliveries" in filter.properties or "failures" in filter.properties
        self.queue = queue
        self.found = found
        self.users: i64 = 0
        self.next: i64 = first
        self.size: i64 = 0
        self.again: set[int] = set()
        self.is_dry = False

    def start_over(self, found: PriorityLevels, first: i64) -> None:
        """Forget what was looked at from `first` on."""
        self.found = found
        self.next = first
        self.size = 0
        self.again.clear()
        self.is_dry = False

    def offer(self, first: i64, count: i64) -> None:
        """Records are ready from now on."""
        for offset in range(first, min(first + count, self.next)):
            self.again.add(int(offset))
        self.is_dry = False

    def find(self, offset: i64, level: i64, in_turn: bool, was_out: bool) -> None:
        """A record is wanted.

        in_turn  it follows all that were found in turn before it
        was_out  it was delivered before
        """
        self.size += 1
        found = self.found
        if was_out and found.returned is not None:
            found.returned.give_back(offset, 1)
        elif in_turn:
            found.put(level, offset, 1)
        else:
            found.put_back(level, offset, 1)
