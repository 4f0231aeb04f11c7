"""Encodes Arrow record batches as blocks, without a step per row if rows have only values and addresses.

A column of Arrow has offsets and bytes as a block has them (log/block.py), so slices of both are joined once. Equal
properties of rows are encoded once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from forebay.core.errors import OptionError
from forebay.core.message import Properties
from forebay.log.block import make_head
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.spark.sink.options import EXCHANGE, HEADERS, NAME_OCTETS_MAX, ROUTING_KEY, TOPIC, VALUE, SinkOptions

PROPERTIES: Final = (
    "content_type",
    "content_encoding",
    "message_id",
    "correlation_id",
    "reply_to",
    "type",
    "app_id",
    "priority",
    "expiration_ms",
    "delay_ms",
    "timestamp",
)
MEMO_MAX: Final = 10_000  # distinct combinations of properties cached; when it is full, the cache is emptied
MICROSECONDS: Final = 1_000_000
PRIORITY_MAX: Final = 255

Offsets = npt.NDArray[np.int64]
Block = tuple[bytes, bytes]  # the head of the block, and the rest


class Cells:
    """A column of a block to be built: the end of each value, and the bytes of all values."""

    __slots__ = ("octets", "offsets")

    def __init__(self, offsets: Offsets, octets: Any) -> None:
        self.offsets = offsets
        self.octets = octets

    def part(self, first: int, end: int) -> Cells:
        """Return the values [first, end)."""
        low, high = int(self.offsets[first]), int(self.offsets[end])
        return Cells(self.offsets[first : end + 1] - low, self.octets[low:high])


def same(value: bytes, count: int) -> Cells:
    """Return a column with one value in every row."""
    return Cells(np.arange(count + 1, dtype=np.int64) * len(value), memoryview(value * count))


def listed(values: list[bytes]) -> Cells:
    """Return a column of these values."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return Cells(offsets, memoryview(b"".join(values)))


def cells_of(column: pa.Array, name: str) -> Cells:
    """Return a column of text or bytes without a copy of the bytes.

    Raises OptionError naming the column if a row has NULL.
    """
    if column.null_count:
        raise null_in(column, name)
    wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
    _, offsets, octets = column.buffers()
    if offsets is None or not len(column):
        return Cells(np.zeros(1, np.int64), memoryview(b""))
    ends = np.frombuffer(offsets, np.int64 if wide else np.int32)
    ends = ends[column.offset : column.offset + len(column) + 1]
    return Cells(ends.astype(np.int64), memoryview(octets) if octets is not None else memoryview(b""))


def null_in(column: pa.Array, name: str) -> OptionError:
    row = next(at for at in range(len(column)) if not column[at].is_valid)
    return OptionError(f"column {name!r}: null in row {row} of a batch: every row must have one")


class BlockEncoder:
    """An encoder that makes the blocks of one task.

    columns  index of each known column in the batches, by name (`sink_columns`)
    """

    def __init__(self, options: SinkOptions, columns: dict[str, int]) -> None:
        self.options = options
        self.columns = columns
        self.said = [name for name in (HEADERS, *PROPERTIES) if name in columns]
        self.memo: dict[Hashable, bytes] = {}
        self.plain = EXCHANGE_FORMAT.encode(Properties())

    def blocks(self, batch: pa.RecordBatch) -> Iterator[tuple[int, Block]]:
        """Yield blocks with their numbers of rows, none larger than the options' limits of rows and bytes."""
        rows = batch.num_rows
        if rows == 0:
            return
        values = cells_of(batch.column(self.columns[VALUE]), VALUE)
        exchanges, keys = self.addresses(batch)
        properties = same(self.plain, rows) if not self.said else listed(self.properties(batch))
        first = 0
        while first < rows:
            limit = int(values.offsets[first]) + self.options.octets_max
            end = int(np.searchsorted(values.offsets, limit, "right")) - 1
            end = min(max(end, first + 1), first + self.options.rows_max, rows)
            columns = [cells.part(first, end) for cells in (exchanges, keys, properties, values)]
            yield end - first, block_of(end - first, columns)
            first = end

    # ---- addresses

    def address(self) -> tuple[bytes, bytes] | None:
        """Return the exchange and routing key of every row, or None if columns give them."""
        options = self.options
        by_row = options.exchange is None and EXCHANGE in self.columns
        exchange = (options.exchange or "").encode()
        if by_row or (exchange and ROUTING_KEY in self.columns) or (options.topic is None and TOPIC in self.columns):
            return None
        return exchange, (options.topic or "").encode()

    def addresses(self, batch: pa.RecordBatch) -> tuple[Cells, Cells]:
        """Return exchanges and routing keys as columns.

        Raises OptionError naming the column if a row has no destination.
        """
        rows = batch.num_rows
        options = self.options
        if options.exchange is None and EXCHANGE in self.columns:
            return self.addresses_by_row(batch)
        exchange = (options.exchange or "").encode()
        if exchange and ROUTING_KEY in self.columns:
            keys = checked(cells_of(batch.column(self.columns[ROUTING_KEY]), ROUTING_KEY), ROUTING_KEY)
        elif options.topic is not None:
            keys = same(options.topic.encode(), rows)
        elif TOPIC in self.columns:
            keys = checked(cells_of(batch.column(self.columns[TOPIC]), TOPIC), TOPIC)
        else:
            keys = same(b"", rows)
        return same(exchange, rows), keys

    def addresses_by_row(self, batch: pa.RecordBatch) -> tuple[Cells, Cells]:
        """Return exchanges and routing keys if each row names its exchange.

        A row without an exchange goes to a queue.
        """
        nothing: list[Any] = [None] * batch.num_rows
        exchanges = self.values(batch, EXCHANGE)
        topics = [self.options.topic] * batch.num_rows if self.options.topic else self.values(batch, TOPIC, nothing)
        routing_keys = self.values(batch, ROUTING_KEY, nothing)
        keys: list[bytes] = []
        for at, (exchange, topic, routing_key) in enumerate(zip(exchanges, topics, routing_keys, strict=True)):
            key = topic if not exchange or routing_key is None else routing_key
            if key is None and not exchange:
                raise OptionError(f"column {TOPIC!r}: null in row {at} of a batch, which names no {EXCHANGE} either")
            keys.append(octets_of(key or b""))
        names = checked(listed([octets_of(exchange or b"") for exchange in exchanges]), EXCHANGE)
        return names, checked(listed(keys), ROUTING_KEY if ROUTING_KEY in self.columns else TOPIC)

    def values(self, batch: pa.RecordBatch, name: str, default: list[Any] | None = None) -> list[Any]:
        if name not in self.columns:
            assert default is not None
            return default
        return python_values(batch.column(self.columns[name]))

    # ---- properties

    def properties(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the encoded properties of each row."""
        columns = [python_values(batch.column(self.columns[name])) for name in self.said]
        memo = self.memo
        found: list[bytes] = []
        for row in zip(*columns, strict=True):
            octets = memo.get(row)
            if octets is None:
                octets = EXCHANGE_FORMAT.encode(properties_of(dict(zip(self.said, row, strict=True))))
                if len(memo) >= MEMO_MAX:
                    memo.clear()
                memo[row] = octets
            found.append(octets)
        return found


def properties_of(said: dict[str, Any]) -> Properties:
    """Return the properties of one row's message.

    Raises OptionError naming the column and the value that is not allowed.
    """
    properties = Properties()
    headers = [(name, value) for name, value in said.get(HEADERS) or () if value is not None]
    for name, _ in headers:
        if len(name.encode()) > NAME_OCTETS_MAX:
            raise OptionError(f"column {HEADERS!r}: the name {name[:80]!r} is longer than {NAME_OCTETS_MAX} octets")
    properties.content_type = said.get("content_type")
    properties.content_encoding = said.get("content_encoding")
    properties.message_id = said.get("message_id")
    properties.reply_to = said.get("reply_to")
    properties.type = said.get("type")
    properties.app_id = said.get("app_id")
    correlation = said.get("correlation_id")
    properties.correlation_id = None if correlation is None else octets_of(correlation)
    properties.priority = within(said, "priority", PRIORITY_MAX)
    properties.expiration_ms = within(said, "expiration_ms", 1 << 62)
    timestamp_us = said.get("timestamp")
    properties.timestamp_s = None if timestamp_us is None else max(0, timestamp_us // MICROSECONDS)
    delay_ms = within(said, "delay_ms", 1 << 62)
    if delay_ms is not None:
        headers.append(("x-delay", delay_ms))
    properties.headers = headers
    return properties


def within(said: dict[str, Any], name: str, most: int) -> int | None:
    """Return a number of the row, or None if it has none. Raises OptionError unless it is from 0 to `most`."""
    value: int | None = said.get(name)
    if value is not None and not 0 <= value <= most:
        raise OptionError(f"column {name!r}: {value} is not a number from 0 to {most}")
    return value


def python_values(column: pa.Array) -> list[Any]:
    """Return the values of a column as hashable Python values; a time becomes microseconds since 1970."""
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    values: list[Any] = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else tuple(value) for value in values]
    if pa.types.is_list(column.type):
        return [None if value is None else tuple((each["key"], each["value"]) for each in value) for value in values]
    return values


def octets_of(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def checked(cells: Cells, name: str) -> Cells:
    """Return the column. Raises OptionError if a value is longer than a name in AMQP may be."""
    longest = int(np.diff(cells.offsets).max(initial=0))
    if longest > NAME_OCTETS_MAX:
        raise OptionError(f"column {name!r}: a value of {longest} octets, at most {NAME_OCTETS_MAX} can be")
    return cells


# ---- the block


def block_of(count: int, columns: list[Cells]) -> Block:
    """Return a block with zeros as offsets and timestamps, which the broker sets.

    The columns are ordered as in log/block.py.
    """
    parts: list[Any] = [bytes(8 * count), bytes([EXCHANGE_FORMAT.number]) * count, bytes(-count & 7)]
    lengths: list[int] = []
    for cells in columns:
        length = int(cells.offsets[count])
        lengths.append(length)
        parts += [cells.offsets.astype("<i4"), bytes(-4 * (count + 1) & 7), cells.octets[:length], bytes(-length & 7)]
    data = b"".join(parts)
    exchanges, keys, properties, values = lengths
    return make_head(data, 0, count, exchanges, keys, properties, values), data
