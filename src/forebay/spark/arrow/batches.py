"""Converts blocks to Arrow record batches, without a step per record.

A long block's columns are passed to Arrow without a copy (log/block.py is laid out for that). Short blocks, as the
write-ahead log has them, are gathered: a few slices are taken per block and joined once, and numpy shifts the offsets.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from crc32c import crc32c
from pyspark.sql.types import StructType

from forebay.core.errors import CorruptFile
from forebay.core.message import FORMAT_MASK
from forebay.core.stored.columns import (
    ANNOTATIONS,
    BODIES,
    COLUMN_NAMES,
    COLUMNS,
    EVERY_COLUMN,
    EXCHANGES,
    FORMATS,
    KEYS,
    PROPERTIES,
    TIMESTAMPS,
)
from forebay.log.block import (
    SUMMED_HEAD_OCTETS,
    SUMS_AT,
    BadBlock,
    Block,
    block_octets,
    check_head,
    head_octets,
    trusted_block,
)
from forebay.log.columns.parts import column_lengths, parse_part
from forebay.message.formats.table import HAS_SECTIONS, format_of
from forebay.message.rendered import rendered_block
from forebay.spark.arrow.properties import PROPERTY_TYPES, property_arrays
from forebay.spark.schema import DELIVERY_COUNT, LOG_APPEND_TIME, PARTITION, arrow_schema, columns_of

BATCH_ROWS: Final = 4096  # measured: 2 to 4 thousand rows a batch are fastest in Spark
BATCH_OCTETS: Final = 4 << 20
WHOLE_ROWS_MIN: Final = 1024  # a block with at least this many records makes batches of its own
CELLS: Final = {
    "value": BODIES,
    "key": KEYS,
    "routing_key": KEYS,
    "exchange": EXCHANGES,
    "raw_properties": PROPERTIES,
}

SECTIONED: Final = np.frombuffer(HAS_SECTIONS, np.bool_)  # indexed by format byte

Octets = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]


class BlockView:
    """A view of a block, or of some of its columns, in a longer buffer.

    buffer   the bytes that contain the block, as Arrow and numpy see them
    base     the offset of the first record; the block has `count` records
    octets   length of the block from its head on, in bytes
    columns  bits of the columns that are present
    picked   the offsets of the records if they are not consecutive from `base` on, else None
    """

    __slots__ = ("at", "base", "buffer", "columns", "count", "octets", "picked", "starts", "sums", "unchecked")

    def __init__(self, buffer: Buffer, at: int, columns: int | None = None) -> None:
        """Parse the head of the block that begins at position `at` of the buffer.

        columns  bits of the columns that are present, if the buffer holds only a part of the block
        raises   CorruptFile if no block begins there; for a block with one checksum also if that does not match
        """
        self.buffer = buffer
        self.at = at
        self.picked: Offsets | None = None
        self.columns = EVERY_COLUMN if columns is None else columns
        view = buffer.view
        start = at + int(head_octets(bytes(view[at : at + 4])))
        head = bytes(view[at:start])
        try:
            whole = block_octets(head)
            check_head(head)
            self.base: int = _I64.unpack_from(head, 16)[0]
            self.count = _u32(head, 12)
            self.unchecked = EVERY_COLUMN
            self.sums: tuple[int, ...] = ()
            if columns is None and at + whole > len(view):
                raise BadBlock(f"a block of {whole} octets ends after the file")
            if start - at == SUMMED_HEAD_OCTETS:
                # Each column is checked on first use.
                self.sums = _SUMS.unpack_from(head, SUMS_AT)
            elif columns is not None:
                raise BadBlock("a part of a block without checksums of its columns")
            else:
                self.unchecked = 0
                if crc32c(view[start : at + whole], crc32c(head[8:])) != _u32(head, 4):
                    raise BadBlock(f"checksum of the block at offset {self.base} does not match")
            lengths = column_lengths(head)
        except BadBlock as error:
            raise self.corrupt(str(error)) from None
        if columns is not None:
            lengths = [length if columns & 1 << place else 0 for place, length in enumerate(lengths)]
        self.starts = list(accumulate(lengths, initial=start))
        self.octets = self.starts[-1] - at
        if self.starts[-1] > len(view):
            raise self.corrupt(f"a part of a block of {self.octets} octets ends after the answer")

    def corrupt(self, text: str) -> CorruptFile:
        return CorruptFile(self.buffer.source, self.buffer.origin + self.at, text)

    def start(self, column: int) -> int:
        """Return the position in the buffer at which a column begins, checking its checksum on first use.

        Raises CorruptFile if the checksum does not match.
        """
        place = column.bit_length() - 1
        start = self.starts[place]
        if self.unchecked & column:
            end = self.starts[place + 1]
            if start < end and crc32c(self.buffer.view[start:end]) != self.sums[place]:
                name = COLUMN_NAMES[place]
                raise self.corrupt(f"checksum of the column {name} of the block at offset {self.base} does not match")
            self.unchecked &= ~column
        return start

    def check(self) -> None:
        """Check all columns that are present. Raises CorruptFile if a checksum does not match."""
        for column in COLUMNS.values():
            if self.columns & column:
                self.start(column)

    def offsets(self, first: int, end: int) -> Offsets:
        """Return the offsets of the records at places [first, end) of the block."""
        if self.picked is not None:
            return self.picked[first:end]
        return np.arange(self.base + first, self.base + end, dtype=np.int64)

    def inside(self, first: int, end: int) -> tuple[int, int]:
        """Return the range of places in the block whose records have offsets in [first, end)."""
        if self.picked is not None:
            low, high = np.searchsorted(self.picked, [first, end])
            return int(low), int(high)
        return max(first - self.base, 0), min(end - self.base, self.count)

    def end(self) -> int:
        """Return the offset after that of the last record."""
        if self.picked is not None:
            return int(self.picked[-1]) + 1 if len(self.picked) else 0
        return self.base + self.count

    def cells(self, column: str) -> tuple[int, int]:
        """Return the positions in the buffer at which a variable-length column's offsets and bytes begin."""
        start = self.start(CELLS[column])
        offsets = 4 * (self.count + 1)
        return start, start + offsets + (-offsets & 7)


class Buffer:
    """A run of bytes that holds blocks: an answer of the broker, or a mapped file.

    source, origin  where the bytes are from, and at which position of it they begin, for messages
    """

    __slots__ = ("arrow", "numpy", "origin", "source", "view")

    def __init__(self, octets: Any, source: str, origin: int = 0) -> None:
        self.source = source
        self.origin = origin
        self.view = memoryview(octets)
        self.arrow = pa.py_buffer(octets)
        self.numpy: Octets = np.frombuffer(octets, np.uint8)

    def blocks(self, picked: bool = False, columns: int | None = None) -> Iterator[BlockView]:
        """Yield the blocks that lie back to back in the buffer.

        picked   whether each block is followed by the offsets of its records
        columns  bits of the columns that are present, if the blocks are parts of blocks; None if they are complete
        """
        at = 0
        while at < len(self.view):
            block = BlockView(self, at, columns)
            at += block.octets
            if picked:
                block.picked = np.frombuffer(self.view, "<i8", block.count, at)
                at += 8 * block.count
            yield block


def block_of(view: BlockView, columns: int = EVERY_COLUMN) -> Block:
    """Return the block in the log's format.

    columns  the columns to include, as far as they are present; a block with only one checksum comes with all
    """
    octets = view.buffer.view
    start = view.starts[0]
    if not view.sums:
        return trusted_block(bytes(octets[view.at : start]), bytes(octets[start : view.starts[-1]]))
    columns &= view.columns
    parts = [octets[view.at : start]]
    for place, (first, end) in enumerate(pairwise(view.starts)):
        if columns & 1 << place:
            parts.append(octets[first:end])
    try:
        return parse_part(b"".join(parts), 0, columns)[0]
    except BadBlock as error:
        raise view.corrupt(f"the block at offset {view.base}: {error}") from None


def view_of(block: Block) -> BlockView:
    """Return a view of a block in memory."""
    return BlockView(Buffer(b"".join([block.head, *block.parts()]), "a block of these records"), 0)


def as_readers_see(view: BlockView, columns: int = EVERY_COLUMN) -> BlockView:
    """Return the same records with dead-letter and similar annotations shown as headers, as readers see them.

    Returns `view` itself if no record has annotations, which is the usual case.

    columns  bits of the columns that will be read
    """
    annotated = view.starts[ANNOTATIONS.bit_length() - 1] < view.starts[ANNOTATIONS.bit_length()]
    if not annotated or not columns & PROPERTIES:
        return view
    made = view_of(rendered_block(block_of(view, columns | FORMATS | ANNOTATIONS)))
    made.picked = view.picked
    return made


class RowRun(ABC):
    """A run of consecutive rows of a batch, which gives their columns."""

    def __init__(self, count: int) -> None:
        self.count = count

    @abstractmethod
    def offsets(self) -> Offsets: ...

    @abstractmethod
    def timestamps(self) -> pa.Buffer: ...

    @abstractmethod
    def formats(self) -> Octets: ...

    @abstractmethod
    def cells(self, column: str, type: pa.DataType) -> pa.Array: ...

    def payloads(self) -> pa.Array:
        """Return the bodies as readers see them.

        If a format's bodies consist of sections, that is the payload in the sections.
        """
        bodies = self.cells("value", pa.binary())
        formats = self.formats()
        if not SECTIONED[formats].any():
            return bodies
        octets = [
            format_of(format).payload(body) if SECTIONED[format] else body
            for format, body in zip(formats.tolist(), bodies.to_pylist(), strict=True)
        ]
        ends = np.cumsum([0, *map(len, octets)]).astype(np.int32)
        return pa.Array.from_buffers(
            pa.binary(), self.count, [None, pa.py_buffer(ends), pa.py_buffer(b"".join(octets))]
        )


class WholeRun(RowRun):
    """A run of records [first, end) of one block. All columns but offsets and formats are used without a copy."""

    def __init__(self, block: BlockView, first: int, end: int) -> None:
        super().__init__(end - first)
        self.block = block
        self.first = first

    def offsets(self) -> Offsets:
        return self.block.offsets(self.first, self.first + self.count)

    def timestamps(self) -> pa.Buffer:
        return self.block.buffer.arrow.slice(self.block.start(TIMESTAMPS) + 8 * self.first, 8 * self.count)

    def formats(self) -> Octets:
        at = self.block.start(FORMATS) + self.first
        return self.block.buffer.numpy[at : at + self.count]

    def cells(self, column: str, type: pa.DataType) -> pa.Array:
        offsets_at, octets_at = self.block.cells(column)
        buffer = self.block.buffer.arrow
        offsets = buffer.slice(offsets_at + 4 * self.first, 4 * (self.count + 1))
        return pa.Array.from_buffers(type, self.count, [None, offsets, buffer.slice(octets_at)])


class GatheredRun(RowRun):
    """A run of records from several short blocks, whose columns are copied together."""

    def __init__(self, parts: list[tuple[BlockView, int, int]]) -> None:
        self.parts = parts
        self.counts = np.array([end - first for _, first, end in parts], dtype=np.int64)
        super().__init__(int(self.counts.sum()))

    def offsets(self) -> Offsets:
        if any(block.picked is not None for block, _, _ in self.parts):
            return np.concatenate([block.offsets(first, end) for block, first, end in self.parts])
        bases = np.array([block.base + first for block, first, _ in self.parts], dtype=np.int64)
        before = np.cumsum(self.counts) - self.counts
        return np.repeat(bases - before, self.counts) + np.arange(self.count, dtype=np.int64)

    def timestamps(self) -> pa.Buffer:
        return pa.py_buffer(
            b"".join(
                [
                    block.buffer.view[block.start(TIMESTAMPS) + 8 * first : block.start(TIMESTAMPS) + 8 * end]
                    for block, first, end in self.parts
                ]
            )
        )

    def formats(self) -> Octets:
        pieces = []
        for block, first, end in self.parts:
            at = block.start(FORMATS)
            pieces.append(block.buffer.view[at + first : at + end])
        return np.frombuffer(b"".join(pieces), np.uint8)

    def cells(self, column: str, type: pa.DataType) -> pa.Array:
        ends_pieces: list[memoryview] = []
        pieces: list[memoryview] = []
        starts: list[int] = []  # position of each block's first cell in its own column
        lengths: list[int] = []
        for block, first, end in self.parts:
            offsets_at, octets_at = block.cells(column)
            view = block.buffer.view
            low = _u32(view, offsets_at + 4 * first)
            high = _u32(view, offsets_at + 4 * end)
            ends_pieces.append(view[offsets_at + 4 * first + 4 : offsets_at + 4 * end + 4])
            pieces.append(view[octets_at + low : octets_at + high])
            starts.append(low)
            lengths.append(high - low)
        octets = b"".join(pieces)
        before = np.cumsum(lengths) - lengths
        shifts = np.repeat((before - starts).astype(np.int32), self.counts)
        ends = np.frombuffer(b"".join(ends_pieces), np.dtype("<i4")) + shifts
        offsets = np.concatenate([np.zeros(1, np.int32), ends])
        return pa.Array.from_buffers(type, self.count, [None, pa.py_buffer(offsets), pa.py_buffer(octets)])


class BatchMaker:
    """Makes the record batches of one read, with the read's columns.

    deliveries  how often each record was delivered before, by offset; None if unknown
    """

    def __init__(self, schema: StructType, queue: str, deliveries: Mapping[int, int] | None = None) -> None:
        self.schema = arrow_schema(schema)
        self.deliveries = deliveries
        self.columns = columns_of(schema.names)
        self.decoded = {field.name: field.type for field in self.schema if field.name in PROPERTY_TYPES}
        # Made once, as every batch has the same; each batch takes a slice, which costs nothing.
        self.constants = {
            "topic": same_text(queue, BATCH_ROWS),
            "queue": same_text(queue, BATCH_ROWS),
            "partition": numbers(pa.int32(), np.full(BATCH_ROWS, PARTITION, np.int32)),
            "timestampType": numbers(pa.int32(), np.full(BATCH_ROWS, LOG_APPEND_TIME, np.int32)),
        }

    def batches(self, blocks: Iterable[BlockView], first: int, end: int) -> Iterator[pa.RecordBatch]:
        """Yield the records of [first, end) as batches, from blocks in order of their offsets.

        A block may begin before the end of the one before it: when a read resumes after an error, small blocks may have
        been merged into a large one meanwhile. Each record is yielded once.
        """
        short: list[tuple[BlockView, int, int]] = []
        rows = octets = 0
        for stored in blocks:
            block = as_readers_see(stored, self.columns)
            low, high = block.inside(first, end)
            first = max(first, block.end())
            if low >= high:
                continue
            if short and (rows + high - low > BATCH_ROWS or octets + block.octets > BATCH_OCTETS):
                yield self.batch(GatheredRun(short))
                short = []
                rows = octets = 0
            if high - low >= WHOLE_ROWS_MIN or block.octets >= BATCH_OCTETS:
                if short:  # records stay in order
                    yield self.batch(GatheredRun(short))
                    short = []
                    rows = octets = 0
                for at in range(low, high, BATCH_ROWS):
                    yield self.batch(WholeRun(block, at, min(at + BATCH_ROWS, high)))
            else:
                short.append((block, low, high))
                rows += high - low
                octets += block.octets
        if short:
            yield self.batch(GatheredRun(short))

    def batch(self, run: RowRun) -> pa.RecordBatch:
        """Return one batch with the columns of the read."""
        decoded: dict[str, pa.Array] = {}
        if self.decoded:
            decoded = property_arrays(run.formats(), run.cells("raw_properties", pa.binary()), self.decoded)
        columns = [decoded[field.name] if field.name in decoded else self.column(field, run) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def column(self, field: pa.Field, run: RowRun) -> pa.Array:
        name = field.name
        if name in self.constants:
            return self.constants[name].slice(0, run.count)
        if name == DELIVERY_COUNT:
            return self.delivery_counts(run)
        if name == "offset":
            return numbers(pa.int64(), run.offsets())
        if name == "timestamp":
            return pa.Array.from_buffers(field.type, run.count, [None, run.timestamps()])
        if name == "format":
            return numbers(pa.int32(), (run.formats() & FORMAT_MASK).astype(np.int32))
        if name == "value":
            return text_array(run.payloads()) if pa.types.is_string(field.type) else run.payloads()
        if pa.types.is_string(field.type):
            return text_array(run.cells(name, pa.binary()))
        return run.cells(name, field.type)

    def delivery_counts(self, run: RowRun) -> pa.Array:
        if self.deliveries is None:
            nothing = pa.py_buffer(bytes(-(-run.count // 8)))
            return pa.Array.from_buffers(pa.int32(), run.count, [nothing, pa.py_buffer(bytes(4 * run.count))])
        counts = [self.deliveries.get(offset, 0) for offset in run.offsets().tolist()]
        return numbers(pa.int32(), np.array(counts, np.int32))


def numbers(type: pa.DataType, values: npt.NDArray[Any]) -> pa.Array:
    """Return an Arrow array of numbers.

    Avoids pa.array(), which like pa.scalar() imports pandas: a quarter of a second for every new worker.
    """
    return pa.Array.from_buffers(type, len(values), [None, pa.py_buffer(values)])


def same_text(text: str, count: int) -> pa.Array:
    """Return an array with the same text in each of `count` rows."""
    octets = text.encode()
    ends = np.arange(count + 1, dtype=np.int32) * len(octets)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(octets * count)])


def text_array(octets: pa.Array) -> pa.Array:
    """Return an array of bytes as text, with U+FFFD for what is not UTF-8: AMQP lets any bytes be a routing key."""
    text = octets.view(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([value.decode("utf-8", "replace") for value in octets.to_pylist()], pa.string())
    return text


_U32: Final = struct.Struct("<I")
_I64: Final = struct.Struct("<q")
_SUMS: Final = struct.Struct("<7I")


def _u32(octets: bytes | memoryview, at: int) -> int:
    value: int = _U32.unpack_from(octets, at)[0]
    return value
