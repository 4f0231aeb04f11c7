"""The batch reader: offsets are resolved once, on the driver; each task reads one range of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from forebay.core.errors import OptionError
from forebay.spark.options import EARLIEST, ENDING_OFFSETS, LATEST, STRATEGY, Position, ReadOptions
from forebay.spark.plan import Range, plan

if TYPE_CHECKING:
    import pyarrow as pa

    from forebay.spark.logs import Logs


class RangePartition(InputPartition):
    """One task's share."""

    def __init__(self, queue: str, first: int, end: int) -> None:
        super().__init__(None)
        self.queue = queue
        self.first = first
        self.end = end


class ForebayReader(DataSourceReader):
    """Reads queues as they are when the query is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """One range of offsets a task. Runs on the driver."""
        with open_logs(self.options) as logs:
            ranges = [resolve(logs, self.options, queue) for queue in self.options.queues]
        cores = len(os.sched_getaffinity(0))
        parts = plan(ranges, cores, self.options.min_partitions)
        # Spark takes an empty list for one partition of its own making.
        return [RangePartition(part.queue, part.first, part.end) for part in parts] or [RangePartition("", 0, 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The batches of one range. Runs on the executors."""
        assert isinstance(partition, RangePartition)
        if partition.first >= partition.end:
            return
        from forebay.spark.arrow import BatchMaker

        maker = BatchMaker(self.schema, partition.queue)
        with open_logs(self.options) as logs:
            blocks = logs.blocks(partition.queue, partition.first, partition.end, self.options.fail_on_data_loss)
            yield from maker.batches(blocks, partition.first, partition.end)


def open_logs(options: ReadOptions) -> Logs:
    """The broker or the data directory that the options name."""
    if options.data:
        from forebay.spark.local import LocalLogs

        return LocalLogs(options.data)
    from forebay.spark.logs import RemoteLogs

    return RemoteLogs(options.servers, options.user, options.password)


def resolve(logs: Logs, options: ReadOptions, queue: str) -> Range:
    """The offsets of one queue that the options ask for."""
    start, end = logs.bounds(queue)
    first = first_offset(logs, options, queue, start, end)
    last = end_offset(logs, options, queue, end)
    if options.starting[queue].timestamp_us is None and options.starting[queue].offset >= 0 and first > last:
        # Not for times: a later start than end in time can be an empty range of offsets either way.
        raise OptionError(
            f"{options.starting[queue].option}: {first} for queue {queue!r} is after the end of the read, {last}"
        )
    return Range(queue, first, max(first, last))


def first_offset(logs: Logs, options: ReadOptions, queue: str, start: int, end: int) -> int:
    """Where the read of a queue begins."""
    position = options.starting[queue]
    if position.timestamp_us is not None:
        first = logs.offset_at(queue, position.timestamp_us)
        if first >= end and not options.latest_if_none:
            raise OptionError(
                f"{position.option}: no record of queue {queue!r} is at or after {position.timestamp_us // 1000} ms; "
                f"with {STRATEGY} latest the read would be empty"
            )
        return max(first, start)
    if position.offset == EARLIEST:
        return start
    if position.offset < start:
        if options.fail_on_data_loss:
            from forebay.spark.logs import lost

            raise lost(queue, position.offset, start)
        return start
    return within_end(options, position, queue, end)


def end_offset(logs: Logs, options: ReadOptions, queue: str, end: int) -> int:
    """Where the read of a queue ends."""
    position = options.ending[queue]
    if position.timestamp_us is not None:
        return logs.offset_at(queue, position.timestamp_us)
    if position.offset == LATEST:
        return end
    return within_end(options, position, queue, end)


def within_end(options: ReadOptions, position: Position, queue: str, end: int) -> int:
    """An offset that was asked for, which must not be beyond what there is."""
    if position.offset > end and options.fail_on_data_loss:
        from forebay.spark.logs import ADVICE, DataLost

        what = "end" if position.option == ENDING_OFFSETS else "start"
        raise DataLost(
            f"{position.option}: queue {queue!r} was to be read with {what} {position.offset}, but it ends at {end}. "
            f"{ADVICE}"
        )
    return min(position.offset, end)
