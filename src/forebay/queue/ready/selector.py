"""The records of a work group that consumers of one filter want: which were evaluated, and which matched."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.filter.parser import Filter
from forebay.queue.ready.levels import PriorityLevels

LOOK_COST: Final = 4  # in a turn's budget: a filter costs more than a check of a routing key
OCTETS_SHIFT: Final = 6  # 2 ** OCTETS_SHIFT bytes of a body, which is parsed, cost 1 more
SIZE_SHIFT: Final = 3  # 2 ** SIZE_SHIFT nodes of a filter cost 1 more, and as much for each such part of a body


def look_cost(filter: Filter, octets: i64) -> i64:
    """Return the cost, in a turn's budget, of evaluating a filter on a record with a body of this many bytes."""
    weight = 1 + (filter.size >> SIZE_SHIFT)
    return LOOK_COST + weight * ((octets >> OCTETS_SHIFT) if filter.asks_body else 1)


@final
class Selector:
    """One filter, for all consumers of a group that have it.

    text       the filter in its canonical form
    asks_attempts  the filter depends on what changes when a record comes back
    queue      name of the queue, on which a filter may depend
    users      number of consumers that have it
    next       every ready record below it was evaluated, except for those in `again`
    found      the records that matched; some may have been delivered to other consumers by now
    size       number of records in `found`
    again      records that became ready after they were evaluated or passed over
    is_dry     no ready record matches, and its consumers have no turn
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
        """Forget the evaluations. Begin at `first`, with the matches in `found`."""
        self.found = found
        self.next = first
        self.size = 0
        self.again.clear()
        self.is_dry = False

    def offer(self, first: i64, count: i64) -> None:
        """Record that these records are ready from now on."""
        for offset in range(first, min(first + count, self.next)):
            self.again.add(int(offset))
        self.is_dry = False

    def find(self, offset: i64, level: i64, in_turn: bool, was_out: bool) -> None:
        """Record that a record matches the filter.

        in_turn  it follows all records that were found in turn before it
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
