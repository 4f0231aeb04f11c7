"""The streaming reader.

Spark keeps one instance per query on the driver to plan batches; tasks read ranges as in a batch.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from forebay.core.errors import NOT_FOUND, RequestError
from forebay.spark.options import ReadOptions
from forebay.spark.positions import LATEST
from forebay.spark.reading.marks import OFFSET, Mark, decode_marks, encode_marks, share
from forebay.spark.reading.plan import Range
from forebay.spark.reading.reader import RangePartition, first_offset, open_logs, partitions_of, read_range
from forebay.spark.setup.plain import plainly

if TYPE_CHECKING:
    import pyarrow as pa

    from forebay.spark.reading.logs import LogAccess, LogEnd
    from forebay.spark.reading.pins import PinKeeper

LOGGER = logging.getLogger("forebay.spark")
NAME_CHARACTERS: Final = 12


class ForebayStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming reader of queues as they grow.

    All methods but `read` run on the driver, in one process for as long as the query runs. `read` is called on a copy
    pickled before any other method was called.
    """

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        self.schema = schema
        self.logs: LogAccess | None = None
        self.pins: PinKeeper | None = None
        self.initial: dict[str, Any] | None = None
        self.ends: dict[str, LogEnd] = {}
        self.target: dict[str, LogEnd] | None = None
        self.batches = 0
        self.batch_s = time.monotonic()  # time when a batch was last planned
        self.warned: set[tuple[str, str]] = set()

    # ---- called by Spark, in this order

    @plainly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  PySpark's name
        """Return the start of a new query. Spark calls twice, and "latest" must then be the same offset both times."""
        if self.initial is None:
            logs = self.opened()
            marks = {}
            for queue in self.options.queues or logs.names(self.options.pattern):
                end = logs.look(queue)
                marks[queue] = Mark(first_offset(logs, self.options, queue, end.start, end.end, LATEST), end.id)
            group = self.new_group()
            self.pin(marks, group)
            self.initial = encode_marks(marks, group)
        return self.initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  PySpark's name
        """Return the first limit that the options set; `latestOffset` applies all of them."""
        stream = self.options.stream
        if stream.offsets_max:
            return ReadMaxRows(stream.offsets_max)
        if stream.octets_max:
            return ReadMaxBytes(stream.octets_max)
        if stream.offsets_min:
            return ReadMinRows(stream.offsets_min)
        return ReadAllAvailable()

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  PySpark's name
        """Make the query end at the records that are there now."""
        logs = self.opened()
        self.target = logs.ends(dict.fromkeys(self.names(), 0), 0.0)

    @plainly()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  PySpark's name
        """Return the end of the next batch, or `start` if there are no records, after a short wait for some."""
        marks, group = decode_marks(start)
        group = group or self.new_group()
        # When Spark calls this, the batch that ends at `start` is committed in the checkpoint.
        self.pin(marks, group)
        names = self.names()
        self.ends = self.target if self.target is not None else self.wait(names, marks)
        firsts = {queue: self.begin(queue, marks.get(queue), end) for queue, end in self.ends.items()}
        sizes = {queue: max(0, self.ends[queue].end - first) for queue, first in firsts.items()}
        joined = {queue: Mark(firsts[queue], end.id) for queue, end in self.ends.items() if queue not in marks}
        if joined:
            self.pin({**marks, **joined}, group)
        counts = sizes if isinstance(limit, ReadAllAvailable) else self.limited(sizes)
        if any(counts.values()):
            self.batches += 1
            self.batch_s = time.monotonic()
        after = {}
        for queue in names:
            mark, end = marks.get(queue), self.ends.get(queue)
            if end is None:
                self.missed(queue, mark)
                if mark is not None:
                    after[queue] = mark
                continue
            first, count = firsts[queue], counts[queue]
            if mark is None or mark.id != end.id or mark.offset != first:
                after[queue] = Mark(first + count, end.id, first)
            else:
                # Without new records the mark stays the same, jump included, as Spark compares the JSON text.
                after[queue] = Mark(first + count, end.id) if count else mark
        return encode_marks(after, group)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802  PySpark's name
        """Return the ends of the queues, from which the query's progress derives the lag."""
        return {queue: {OFFSET: self.ends[queue].end} for queue in sorted(self.ends)} or None

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the tasks of a batch. After a restart the batch may have been planned before it."""
        before, group = decode_marks(start)
        after, _ = decode_marks(end)
        self.pin(before, group)
        if not self.ends:  # after a restart, for a batch that was planned before it
            self.ends = self.opened().ends(dict.fromkeys(after, 0), 0.0)
        ranges = []
        for queue, mark in after.items():
            old = before.get(queue)
            if mark == old:
                continue
            first = mark.jump if mark.jump >= 0 or old is None else old.offset
            log = self.ends.get(queue)
            octets = log.octets_of(mark.offset - first) if log is not None else 0
            ranges.append(Range(queue, first, mark.offset, mark.id, octets))
        return partitions_of(self.opened(), ranges, self.options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one range. Runs on the executors."""
        assert isinstance(partition, RangePartition)
        with plainly():
            yield from read_range(self.options, self.schema, partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing.

        Spark calls this a batch late, and never for the last batch; `latestOffset` knows of the commit in time.
        """

    def stop(self) -> None:
        """Close the connection. The pins live on for their time: see reading/pins.py."""
        if self.logs is not None:
            self.logs.close()

    # ---- the queues

    def opened(self) -> LogAccess:
        if self.logs is None:
            self.logs = open_logs(self.options.access)
        return self.logs

    def names(self) -> list[str]:
        """Return the names of the queues to read now."""
        return list(self.options.queues) or self.opened().names(self.options.pattern)

    def wait(self, names: list[str], marks: dict[str, Mark]) -> dict[str, LogEnd]:
        """Return the bounds of the queues' logs, after a wait for new records.

        Return at once if a queue is new or has grown.
        """
        known = all(queue in marks for queue in names)
        after = {queue: marks[queue].offset if queue in marks else 0 for queue in names}
        if not names:
            time.sleep(self.options.stream.poll_s)
            return {}
        return self.opened().ends(after, self.options.stream.poll_s if known else 0.0)

    def pin(self, marks: dict[str, Mark], group: str) -> None:
        """Hold unread records in the broker."""
        if self.options.stream.hold_s == 0 or self.options.access.data or not marks:
            return
        if self.pins is None:
            from forebay.spark.reading.pins import PinKeeper

            self.pins = PinKeeper(self.options.access, self.options.stream.hold_s)
        self.pins.move(group, {queue: mark.offset for queue, mark in marks.items()})

    def new_group(self) -> str:
        """Return a new name for the pins, to be kept with the marks: Spark does not tell a source the query's name."""
        return self.options.stream.group_prefix + uuid.uuid4().hex[:NAME_CHARACTERS]

    # ---- where a batch begins and ends

    def begin(self, queue: str, mark: Mark | None, end: LogEnd) -> int:
        """Return the start of the next batch in a queue: the end of the last one, unless data was lost."""
        from forebay.spark.reading.logs import cut_off, lost, recreated

        if mark is None:
            return end.start  # a queue that has joined: all its records are new
        if mark.id != end.id:
            self.lose(queue, recreated(queue))
            return end.start
        if end.end < mark.offset:
            if self.target is None:
                self.lose(queue, cut_off(queue, end.end, mark.offset))
                return end.end
            return mark.offset  # already read beyond this query's target
        if end.start > mark.offset:
            self.lose(queue, lost(queue, mark.offset, end.start))
            return end.start
        return mark.offset

    def missed(self, queue: str, mark: Mark | None) -> None:
        """Report a queue that should be read and does not exist, by an error or a warning.

        Do nothing if the queue has not been read before and may be missing.
        """
        if mark is not None:
            from forebay.spark.reading.logs import deleted

            self.lose(queue, deleted(queue))
        elif not self.options.pattern and self.target is None:
            raise RequestError(NOT_FOUND, f"no queue {queue!r}")

    def lose(self, queue: str, error: Exception) -> None:
        """Raise the error if the read fails on data loss; if not, log it once."""
        if self.options.fail_on_data_loss:
            raise error
        if (queue, str(error)) not in self.warned:
            self.warned.add((queue, str(error)))
            LOGGER.warning("%s", error)

    def limited(self, sizes: dict[str, int]) -> dict[str, int]:
        """Return how many offsets of each queue the options allow in a batch."""
        stream = self.options.stream
        waited = time.monotonic() - self.batch_s >= stream.delay_s
        if self.target is None and not waited and sum(sizes.values()) < stream.offsets_min:
            return dict.fromkeys(sizes, 0)
        counts = sizes
        if stream.octets_max:
            counts = self.fitting(sizes, stream.octets_max)
        if stream.offsets_max:
            counts = share(stream.offsets_max, counts, self.batches)
        return counts

    def fitting(self, sizes: dict[str, int], octets_max: int) -> dict[str, int]:
        """Return how many offsets of each queue take about `octets_max` bytes in all, by the queues' average records.

        Returns at least one offset.
        """
        means = {}
        for queue in sizes:
            end = self.ends[queue]
            means[queue] = max(1, end.octets // max(1, end.end - end.start))
        octets = share(octets_max, {queue: size * means[queue] for queue, size in sizes.items()}, self.batches)
        counts = {queue: octets[queue] // means[queue] for queue in sizes}
        return counts if any(counts.values()) else share(1, sizes, self.batches)
