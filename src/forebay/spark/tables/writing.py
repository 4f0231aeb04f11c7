"""Writes a table's Parquet files in a task, without Spark: batches in, files out.

A file gets its name once it is complete and synced. Until the table's commit names it, no reader uses it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from forebay.spark.arrow.batches import numbers, same_text
from forebay.spark.tables.layout import DataFile, Layout, file_name, partition_folder

ROW_GROUP_OCTETS: Final = 32 << 20  # pending rows in memory, written as one row group
ROW_GROUP_ROWS: Final = 1 << 20
OPEN_FILES_MAX: Final = 256  # of one task; with more partitions at a time, files are closed early and become smaller
HOUR_US: Final = 3_600_000_000
DAY_US: Final = 24 * HOUR_US
DICTIONARIES: Final = frozenset(["key", "exchange", "routing_key", "format", "content_type", "queue", "day", "hour"])
STATISTICS: Final = ("offset", "timestamp")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options for writing files.

    with_partitions  whether the files contain the partition columns too
    octets           approximate size of a file, in bytes
    """

    compression: str
    octets: int
    with_partitions: bool


class OpenFile:
    """A Parquet file that is being written."""

    def __init__(self, root: str, partition: dict[str, str], schema: pa.Schema, options: WriteOptions) -> None:
        folder = os.path.join(root, partition_folder(partition))
        make_folders(folder)
        self.root = root
        self.partition = partition
        self.folder = folder
        self.token = uuid.uuid4().hex[:16]
        # Spark, Hive and other readers of folders ignore names that begin with an underscore.
        self.path = os.path.join(folder, f"_{self.token}.tmp")
        self.sink = pa.OSFile(self.path, "wb")
        self.writer = pq.ParquetWriter(
            self.sink,
            schema,
            compression=options.compression,
            use_dictionary=[name for name in schema.names if name in DICTIONARIES],
            write_statistics=[name for name in schema.names if name in {*STATISTICS, *partition}],
            store_schema=False,
        )
        self.pending: list[pa.RecordBatch] = []
        self.pending_octets = self.pending_rows = 0
        self.rows = 0
        self.first = self.end = -1
        self.first_us = self.last_us = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows, whose offsets must be higher than those of earlier rows."""
        offsets, stamps = integers(batch, "offset"), integers(batch, "timestamp")
        low_us, high_us = int(stamps.min()), int(stamps.max())
        if self.first < 0:
            self.first, self.first_us, self.last_us = int(offsets[0]), low_us, high_us
        assert self.end <= int(offsets[0]), f"{self.path}: offset {offsets[0]} after {self.end}"
        self.end = int(offsets[-1]) + 1
        self.first_us, self.last_us = min(self.first_us, low_us), max(self.last_us, high_us)
        self.rows += batch.num_rows
        self.pending.append(batch)
        self.pending_octets += batch.nbytes
        self.pending_rows += batch.num_rows
        if self.pending_octets >= ROW_GROUP_OCTETS or self.pending_rows >= ROW_GROUP_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.pending:
            # As one row group: written one by one, each batch would become a row group.
            self.writer.write_table(pa.Table.from_batches(self.pending), self.pending_rows)
        self.pending = []
        self.pending_octets = self.pending_rows = 0

    @property
    def octets(self) -> int:
        """Return the approximate length of the file in bytes, counting pending rows by their size in memory."""
        return int(self.sink.tell()) + self.pending_octets

    def finish(self) -> DataFile:
        """Close and sync the file, and give it its final name."""
        self.flush()
        self.writer.close()
        self.sink.close()
        path = os.path.join(self.folder, file_name(self.partition["queue"], self.first, self.end, self.token))
        sync(self.path)
        octets = os.stat(self.path).st_size
        os.rename(self.path, path)
        sync(self.folder)
        relative = os.path.relpath(path, self.root)
        return DataFile(relative, octets, self.rows, self.partition, self.first, self.end, self.first_us, self.last_us)

    def abandon(self) -> None:
        with suppress(FileNotFoundError):  # it has its final name already
            os.unlink(self.path)
        with suppress(OSError, pa.ArrowException):  # the disk may be full
            self.writer.close()
        self.sink.close()


class PartitionWriter:
    """A writer of one range of one queue, which puts each row into its partition's file."""

    def __init__(self, root: str, layout: Layout, queue: str, options: WriteOptions) -> None:
        self.root = root
        self.layout = layout
        self.queue = queue
        self.options = options
        self.schema = layout.arrow_schema(options.with_partitions)
        self.open: dict[tuple[str, ...], OpenFile] = {}
        self.files: list[DataFile] = []

    def write(self, batch: pa.RecordBatch) -> None:
        """Write rows, whose offsets must be higher than those of earlier rows."""
        for values, part in partitions(batch, self.layout):
            file = self.open.get(values)
            if file is None:
                if len(self.open) >= OPEN_FILES_MAX:
                    self.finish_open()
                file = OpenFile(self.root, self.partition(values), self.schema, self.options)
                self.open[values] = file
            file.add(self.fitted(part, values))
            if file.octets >= self.options.octets:
                self.files.append(self.open.pop(values).finish())

    def partition(self, values: tuple[str, ...]) -> dict[str, str]:
        return dict(zip(self.layout.partition_names, (self.queue, *values), strict=True))

    def fitted(self, batch: pa.RecordBatch, values: tuple[str, ...]) -> pa.RecordBatch:
        """Return the batch with the columns of the file."""
        columns = {name: batch.column(name) for name in self.layout.columns}
        if self.options.with_partitions:
            for name, value in self.partition(values).items():
                columns[name] = same_value(name, value, batch.num_rows)
        return pa.RecordBatch.from_arrays([columns[name] for name in self.schema.names], schema=self.schema)

    def finish_open(self) -> None:
        for file in self.open.values():
            self.files.append(file.finish())
        self.open = {}

    def finish(self) -> list[DataFile]:
        """Close and sync all files, and return them."""
        self.finish_open()
        return self.files

    def abandon(self) -> None:
        """Delete all files written."""
        for file in self.open.values():
            file.abandon()
        for written in self.files:
            os.unlink(os.path.join(self.root, written.path))


def partitions(batch: pa.RecordBatch, layout: Layout) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
    """Yield the partition values, without the queue, and the rows of each partition. Rows keep their order."""
    for values, part in by_time(batch, layout.times):
        parts = [(values, part)]
        for name in layout.keys:
            parts = [((*before, value), rows) for before, some in parts for value, rows in by_text(some, name)]
        yield from parts


def by_time(batch: pa.RecordBatch, times: list[str]) -> Iterator[tuple[tuple[str, ...], pa.RecordBatch]]:
    if not times:
        yield (), batch
        return
    units = integers(batch, "timestamp") // (HOUR_US if "hour" in times else DAY_US)
    # Timestamps of a queue never decrease: rows of one hour lie together.
    edges = [0, *(np.flatnonzero(np.diff(units)) + 1).tolist(), batch.num_rows]
    for at, end in pairwise(edges):
        unit = int(units[at])
        days = unit // 24 if "hour" in times else unit
        values = {"day": str(np.datetime64(days, "D")), "hour": str(unit % 24)}
        yield tuple(values[name] for name in times), batch.slice(at, end - at)


def by_text(batch: pa.RecordBatch, name: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    encoded = batch.column(name).dictionary_encode()
    texts = [text or "" for text in encoded.dictionary.to_pylist()]
    if len(texts) == 1 and encoded.null_count == 0:
        yield texts[0], batch
        return
    codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False)
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    rows = batch.take(numbers(pa.int64(), order))
    for code, at, end in zip(found.tolist(), starts, [*starts[1:], len(codes)], strict=True):
        yield "" if code == len(texts) else texts[code], rows.slice(at, end - at)


def same_value(name: str, value: str, count: int) -> pa.Array:
    """Return a partition column of a file, with one value in every row."""
    if name == "day":
        days = np.datetime64(value, "D").astype(np.int32)
        return numbers(pa.date32(), np.full(count, days, np.int32))
    if name == "hour":
        return numbers(pa.int32(), np.full(count, int(value), np.int32))
    return same_text(value, count)


def integers(batch: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    """Return a 64-bit column without NULLs as a numpy array, without a copy."""
    column = batch.column(name)
    return np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)


def make_folders(folder: str) -> None:
    """Create a folder and its parents, each synced to disk."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    make_folders(above)
    try:
        os.mkdir(folder)
    except FileExistsError:
        return  # another task has created it
    sync(above)


def sync(path: str) -> None:
    """Sync a file or a folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
