"""Which filter values occur where in streams: a reader that wants some passes over blocks that have none of them.

The values of a block are gathered once, by the first reader that comes to it, for all readers. What was found holds for
a range of offsets and not for a block: records never change, whatever becomes of the blocks that they stand in.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.queue.facts import Facts

SPANS_MAX: Final = 10_000
VALUES_MAX: Final = 256  # a span with more of them is looked at record by record


@final
class Span:
    """What occurs in the records from one offset up to `end`.

    values      of them; None where they are too many
    unfiltered  some record has none
    """

    def __init__(self, end: i64, values: set[bytes] | None, unfiltered: bool) -> None:
        self.end: i64 = end
        self.values = values
        self.unfiltered = unfiltered


@final
class StreamValues:
    """Spans of all streams of a vhost, by the number of the log and the first offset; at most SPANS_MAX."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.spans: dict[tuple[int, int], Span] = {}

    def known(self, log: int, offset: i64) -> Span | None:
        """What was found before from this offset on."""
        return self.spans.get((log, int(offset)))

    def gather(self, log: int, block: Block) -> Span:
        """Look at every record of a block that is not known."""
        values: set[bytes] | None = set()
        unfiltered = False
        for index in range(block.count):
            value = self.facts.filter_value(block, index)
            if value is None:
                unfiltered = True
            elif values is not None:
                values.add(value)
                if len(values) > VALUES_MAX:
                    values = None
        span = Span(block.end, values, unfiltered)
        if len(self.spans) >= SPANS_MAX:
            self.spans.clear()
        self.spans[(log, int(block.base))] = span
        return span


@final
class Selection:
    """The values that the readers of one group want.

    unfiltered  also records that have no value
    """

    def __init__(self, values: list[bytes], unfiltered: bool, streams: StreamValues) -> None:
        self.values = set(values)
        self.unfiltered = unfiltered
        self.streams = streams

    def same(self, other: Selection) -> bool:
        """Whether both want the same records."""
        return self.values == other.values and self.unfiltered == other.unfiltered

    def wants(self, block: Block, index: i64) -> bool:
        value = self.streams.facts.filter_value(block, index)
        return self.unfiltered if value is None else value in self.values

    def wants_any(self, span: Span) -> bool:
        """False if no record of the span is wanted."""
        if self.unfiltered and span.unfiltered:
            return True
        return span.values is None or not self.values.isdisjoint(span.values)
