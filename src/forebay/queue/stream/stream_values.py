"""An index of filter values in streams. A reader that filters by value skips blocks without its values.

The values of a block are gathered once, by the first reader that comes to it, for all readers. They are stored for a
range of offsets and not for a block: records never change, whatever becomes of their blocks.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.filter.parser import Filter
from forebay.log.block import Block
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.selector import look_cost

SPANS_MAX: Final = 10_000
SPANS_OCTETS_MAX: Final = 16 << 20  # bytes of the values of all spans
VALUES_MAX: Final = 256  # a span with more values is evaluated record by record
VALUES_OCTETS_MAX: Final = 64 << 10  # the same for a span with more bytes of values


@final
class Span:
    """The values of the records from one offset up to `end`.

    values      the values; None if they are too many
    unfiltered  some record has no value
    """

    def __init__(self, end: i64, values: set[bytes] | None, unfiltered: bool) -> None:
        self.end: i64 = end
        self.values = values
        self.unfiltered = unfiltered


@final
class StreamValues:
    """The spans of all streams of a vhost, by the number of the log and the first offset.

    octets  bytes of the values of all spans
    """

    def __init__(self, properties: PropertyReader) -> None:
        self.properties = properties
        self.spans: dict[tuple[int, int], Span] = {}
        self.octets: i64 = 0

    def known(self, log: int, offset: i64) -> Span | None:
        """Return the span that begins at this offset, or None if none is known."""
        return self.spans.get((log, int(offset)))

    def gather(self, log: int, block: Block) -> Span:
        """Gather the values of a block that is not known, and add its span."""
        values: set[bytes] | None = set()
        unfiltered = False
        octets: i64 = 0
        for index in range(block.count):
            value = self.properties.filter_value(block, index)
            if value is None:
                unfiltered = True
            elif values is not None and value not in values:
                values.add(value)
                octets += len(value)
                if len(values) > VALUES_MAX or octets > VALUES_OCTETS_MAX:
                    values = None
                    octets = 0
        span = Span(block.end, values, unfiltered)
        if len(self.spans) >= SPANS_MAX or self.octets + octets > SPANS_OCTETS_MAX:
            self.spans.clear()
            self.octets = 0
        self.octets += octets
        self.spans[(log, int(block.base))] = span
        return span


@final
class Selection:
    """The records that the readers of one group want.

    values      values of the wanted records; None for any value
    unfiltered  with `values`: include records without a value
    filter      filter that wanted records match; None for all
    queue       name of the stream, on which a filter may depend
    """

    def __init__(
        self,
        values: list[bytes] | None,
        unfiltered: bool,
        streams: StreamValues,
        filter: Filter | None = None,
        queue: bytes = b"",
    ) -> None:
        self.values: set[bytes] | None = None if values is None else set(values)
        self.unfiltered = unfiltered
        self.streams = streams
        self.filter = filter
        self.text = "" if filter is None else filter.written()
        self.queue = queue
        self.cost: i64 = 0

    def same(self, other: Selection) -> bool:
        """Return whether both selections want the same records."""
        return self.values == other.values and self.unfiltered == other.unfiltered and self.text == other.text

    def wants(self, block: Block, index: i64) -> bool:
        values = self.values
        if values is not None:
            value = self.streams.properties.filter_value(block, index)
            if not (self.unfiltered if value is None else value in values):
                return False
        filter = self.filter
        if filter is None:
            return True
        properties = self.streams.properties
        subject = properties.subject(self.queue, block, index, 0, 0)
        held = filter.matches(subject)
        self.cost = properties.looks.charge(look_cost(filter, block.body_span(index, 1)), subject)
        return held

    def is_put_off(self) -> bool:
        """Return whether filters have used up their budget of this turn."""
        return self.filter is not None and self.streams.properties.looks.left <= 0

    def wants_any(self, span: Span) -> bool:
        """Return whether some record of the span may be wanted."""
        values = self.values
        if values is None or (self.unfiltered and span.unfiltered):
            return True
        return span.values is None or not values.isdisjoint(span.values)
