"""The batch reader: offsets are resolved once, on the driver, and each task reads one range of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from forebay.core.errors import OptionError
from forebay.spark.access import Access
from forebay.spark.options import STRATEGY, ReadOptions
from forebay.spark.positions import EARLIEST, ENDING_OFFSETS, LATEST, Position
from forebay.spark.reading.plan import Range, plan
from forebay.spark.setup.parallelism import tasks_at_once
from forebay.spark.setup.plain import plainly

if TYPE_CHECKING:
    import pyarrow as pa

    from forebay.spark.reading.logs import LogAccess


class RangePartition(InputPartition):
    """The range of one task; None if there is nothing to read.

    share  for a data directory, the places of the task's records
    """

    def __init__(self, range: Range | None, share: object = None) -> None:
        super().__init__(None)
        self.range = range
        self.share = share


class ForebayReader(DataSourceReader):
    """A batch reader of queues, as they are when the query is planned.

    It accepts no pushed-down conditions: Spark 4.3 reuses a reader with conditions for the next query over the same
    DataFrame, which may have none. Use the option `filter` to exclude records before Spark sees them.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema

    @plainly()
    def partitions(self) -> list[InputPartition]:
        """Plan the read, one range of offsets a task. Runs on the driver."""
        with open_logs(self.options.access) as logs:
            queues = self.options.queues or logs.names(self.options.pattern)
            ranges = [resolve(logs, self.options, queue) for queue in queues]
            # For an empty list Spark would make up a partition of its own.
            return partitions_of(logs, ranges, self.options) or [RangePartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the batches of one range. Runs on the executors."""
        assert isinstance(partition, RangePartition)
        with plainly():
            yield from read_range(self.options, self.schema, partition)


def partitions_of(logs: LogAccess, ranges: list[Range], options: ReadOptions) -> list[InputPartition]:
    """Return the tasks that read these ranges."""
    return [RangePartition(part, logs.share(part)) for part in plan(ranges, tasks_at_once(), options.limits)]


def read_range(options: ReadOptions, schema: StructType, partition: RangePartition) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one range. Runs in a task."""
    range = partition.range
    if range is None:
        return
    from forebay.spark.arrow.batches import BatchMaker
    from forebay.spark.schema import DELIVERY_COUNT, block_columns

    with open_logs(options.access) as logs:
        # Requested before the records: while these arrive, the connection takes no other request.
        is_asked = DELIVERY_COUNT in schema.names
        deliveries = logs.deliveries(range.queue, range.first, range.end) if is_asked else None
        maker = BatchMaker(schema, range.queue, deliveries)
        blocks = logs.blocks(
            range.queue,
            range.first,
            range.end,
            options.fail_on_data_loss,
            range.id,
            options.filter,
            partition.share,
            block_columns(schema.names),
        )
        yield from maker.batches(blocks, range.first, range.end)


def open_logs(access: Access) -> LogAccess:
    """Open the logs of the broker or data directory that `access` selects."""
    if access.data:
        from forebay.spark.directory.local import LocalLogs

        return LocalLogs(access.data)
    from forebay.spark.reading.logs import RemoteLogs

    return RemoteLogs(access)


def resolve(logs: LogAccess, options: ReadOptions, queue: str) -> Range:
    """Return the offsets of one queue that the options select."""
    log = logs.look(queue)
    position = options.start_of(queue, EARLIEST)
    first = first_offset(logs, options, queue, log.start, log.end, EARLIEST)
    last = end_offset(logs, options, queue, log.end)
    # Only if both are given as offsets: times, or lost records, may leave an empty range.
    if 0 <= options.end_of(queue).offset < position.offset and position.timestamp_us is None:
        raise OptionError(
            f"{position.option}: {position.offset} for queue {queue!r} is after the end of the read, {last}"
        )
    return Range(queue, first, max(first, last), log.id, log.octets_of(last - first))


def first_offset(logs: LogAccess, options: ReadOptions, queue: str, start: int, end: int, default: int) -> int:
    """Return the offset at which the read of a queue starts.

    start, end  bounds of the log
    default  the position if no option gives one
    """
    position = options.start_of(queue, default)
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
    if position.offset == LATEST:
        return end
    if position.offset < start:
        if options.fail_on_data_loss:
            from forebay.spark.reading.logs import lost

            raise lost(queue, position.offset, start)
        return start
    return within_end(options, position, queue, end)


def end_offset(logs: LogAccess, options: ReadOptions, queue: str, end: int) -> int:
    """Return the offset at which the read of a queue ends.

    end  the log's end
    """
    position = options.end_of(queue)
    if position.timestamp_us is not None:
        return logs.offset_at(queue, position.timestamp_us)
    if position.offset == LATEST:
        return end
    return within_end(options, position, queue, end)


def within_end(options: ReadOptions, position: Position, queue: str, end: int) -> int:
    """Return a requested offset, limited to the log's end.

    Raises DataLost if it is beyond and the read fails on data loss.
    """
    if position.offset > end and options.fail_on_data_loss:
        from forebay.spark.reading.logs import ADVICE, DataLost

        what = "end" if position.option == ENDING_OFFSETS else "start"
        raise DataLost(
            f"{position.option}: queue {queue!r} was to be read with {what} {position.offset}, but it ends at {end}. "
            f"{ADVICE}"
        )
    return min(position.offset, end)
