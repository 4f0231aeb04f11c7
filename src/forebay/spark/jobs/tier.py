"""Tiers queues into a table, exactly once, as a stream or in one run.

    query = tier(spark, ["flights"], {"forebay.servers": "localhost:5672"}, into="/lake/flights", format="delta")

A micro-batch is a range of offsets for each queue. Tasks write the records of their ranges into files (tier_source.py).
Then the driver commits the files to the table, with the query's id and the batch's number in the same commit, and Spark
records in its checkpoint that the batch is done. After a crash the batch is run again with the same ranges, and the
table knows whether it has the batch already. A job without its checkpoint begins where the table ends.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote
from weakref import WeakSet

from forebay.core.errors import OptionError, OutcomeUnknown, Unreachable
from forebay.spark.access import BROKER_OPTIONS, DATA
from forebay.spark.jobs.broker import Broker
from forebay.spark.jobs.tier_source import TARGET, TierSource, TierTarget, file_rows
from forebay.spark.options import (
    FAIL_ON_DATA_LOSS,
    GROUP,
    HOLD,
    MAX_BYTES,
    MAX_DELAY,
    MAX_OFFSETS,
    MIN_OFFSETS,
    MIN_PARTITIONS,
    PATTERN,
    POLL,
    RETRY,
    known_options,
    parse_options,
)
from forebay.spark.positions import EARLIEST, STARTING_OFFSETS, SUBSCRIBE, subscription_of
from forebay.spark.reading.logs import RemoteLogs
from forebay.spark.sink.writer import QUERY_PROPERTY
from forebay.spark.tables.compaction import Compacted, Merge, merge, sweep
from forebay.spark.tables.compaction import compact as compact_files
from forebay.spark.tables.layout import DataFile, make_layout
from forebay.spark.tables.opening import open_table
from forebay.spark.tables.table import ABOUT, LakeTable
from forebay.spark.tables.writing import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOGGER = logging.getLogger("forebay.spark")
NAMES: Final = (
    *(*BROKER_OPTIONS, DATA, RETRY, PATTERN),
    *(MAX_OFFSETS, MAX_BYTES, MIN_OFFSETS, MAX_DELAY, MIN_PARTITIONS, FAIL_ON_DATA_LOSS, GROUP, HOLD, POLL),
)
COMPRESSIONS: Final = ("none", "snappy", "zstd", "lz4", "gzip")
OCTETS: Final = 128 << 20
OCTETS_MIN: Final = 1 << 16
COMPACT_FILES: Final = 64  # a stream merges neighbours when there are this many
HOUSEKEEPING_S: Final = 60.0
SAFE_S: Final = 3600.0
STREAM: Final = "stream"

_registered: WeakSet[SparkSession] = WeakSet()


@dataclass(frozen=True, slots=True)
class Tiered:
    """The result of a run: numbers of batches, rows and files, and bytes."""

    batches: int = 0
    rows: int = 0
    files: int = 0
    octets: int = 0


def tier(
    spark: SparkSession,
    queues: str | Sequence[str],
    options: Mapping[str, str],
    into: str,
    format: str | None = None,
    once: bool = False,
    partition_by: str | Sequence[str] | None = "day",
    columns: Sequence[str] | None = None,
    compact: bool = True,
    truncate: bool = False,
    trigger: str = "200 milliseconds",
    compression: str = "none",
    target_octets: int = OCTETS,
    checkpoint: str | None = None,
    catalog: Any = None,
    safe_s: float = SAFE_S,
) -> StreamingQuery | Tiered:
    """Copy the records of queues into a table, and go on with new ones.

    A later run continues where an earlier one ended.

    queues         several go into one table; empty with the option `subscribePattern`
    options        of the source: the broker, limits of a micro-batch, holds
    into           the table's folder, which all executors see; with a catalog its name there
    format         parquet (the default for a new table), delta or iceberg
    once           whether to end after the records that are there now
    partition_by   beside `queue`: day, hour (in UTC, of the timestamp), columns of text such as routing_key
    columns        of the source, in their order; offset and timestamp are always included
    compact        whether to merge small files
    truncate       streams only: whether to remove from the broker the records that the table has
    checkpoint     Spark's checkpoint folder; beside the table by default
    safe_s         seconds for which replaced files are kept for their readers
    returns        the running query; if `once`, the result of the run
    raises         OptionError, naming the option; TableError if the table has other columns
    """
    names = [queues] if isinstance(queues, str) else list(queues)
    given = known_options(options, NAMES, "tier job")
    if compression not in COMPRESSIONS:
        raise OptionError(f"compression: {compression!r} is none of {', '.join(COMPRESSIONS)}")
    if target_octets < OCTETS_MIN:
        raise OptionError(f"target_octets: {target_octets} is less than {OCTETS_MIN}")
    if names:
        given[SUBSCRIBE] = subscription_of(names)
    parse_options(given)
    if truncate:
        check_streams(given, names)
    table = open_table(into, format, make_layout(columns, partition_by), catalog)
    writing = WriteOptions(compression, target_octets, table.with_partitions)
    committer = Committer(spark, table, writing, compact, safe_s, Broker(access_of(given)) if truncate else None)
    stream = stream_of(spark, table, given, names, writing)
    where = checkpoint or os.path.join(table.folder, ABOUT, "checkpoints", checkpoint_name(names, given))
    writer = stream.writeStream.foreachBatch(committer).option("checkpointLocation", where)
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=trigger)
    query = writer.start()
    if not once:
        return query
    query.awaitTermination()
    committer.finish()
    return committer.done


def stream_of(
    spark: SparkSession, table: LakeTable, given: Mapping[str, str], names: list[str], writing: WriteOptions
) -> DataFrame:
    """Return the stream of written files. A stream without a checkpoint begins where the table ends."""
    if spark not in _registered:  # Spark warns if a source is registered twice
        spark.dataSource.register(TierSource)
        _registered.add(spark)
    layout = table.layout
    target = TierTarget(
        table.folder, layout.columns, layout.partitions, writing.compression, writing.octets, writing.with_partitions
    )
    ends = table.ends()
    starting = {queue: {"0": ends.get(queue, EARLIEST)} for queue in names or ends}
    made = spark.readStream.format(TierSource.name()).options(**given).option(TARGET, target.to_json())
    return made.option(STARTING_OFFSETS, json.dumps(starting) if starting else "earliest").load()


class Committer:
    """Commits each micro-batch to the table. Spark calls it on the driver."""

    def __init__(
        self,
        spark: SparkSession,
        table: LakeTable,
        writing: WriteOptions,
        compact: bool,
        safe_s: float,
        broker: Broker | None,
    ) -> None:
        self.spark = spark
        self.table = table
        self.writing = writing
        self.compact = compact
        self.safe_s = safe_s
        self.broker = broker
        self.done = Tiered()
        self.app_id = ""
        self.uncompacted = COMPACT_FILES  # compact after the first batch: an earlier run may have left small files
        self.tidied_s = time.monotonic()
        self.swept_s = self.tidied_s

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Commit one micro-batch."""
        # The id is the checkpoint's: a job without its checkpoint gets a new id, as it counts batches from 0 again.
        self.app_id = self.app_id or self.spark.sparkContext.getLocalProperty(QUERY_PROPERTY) or ""
        assert self.app_id, "Spark does not say which query this is"
        if self.table.last_batch(self.app_id) >= number:
            return  # the job died between the commit to the table and Spark's own
        files = [DataFile.from_json(row["file"]) for row in batch.collect()]
        files.sort(key=lambda file: (file.queue, file.first))
        if not self.table.commit(self.app_id, number, files):
            return
        self.done = Tiered(
            self.done.batches + 1,
            self.done.rows + sum(file.rows for file in files),
            self.done.files + len(files),
            self.done.octets + sum(file.octets for file in files),
        )
        if self.broker is not None:
            self.truncate(self.broker, sorted({file.queue for file in files}))
        self.uncompacted += len(files)
        self.housekeep()

    def truncate(self, broker: Broker, queues: list[str]) -> None:
        """Remove from the broker the records that the table has on disk.

        If the broker is away, the next batch does so.
        """
        ends = self.table.ends()
        try:
            with broker.administrator() as administrator:
                for queue in queues:
                    administrator.run("queue.truncate", queue=queue, below=ends[queue])
        except (Unreachable, OutcomeUnknown) as error:
            LOGGER.warning("not truncated: %s", error)

    def housekeep(self) -> None:
        """Merge files if there are many, and from time to time remove old files and old versions of the table."""
        if self.compact and self.uncompacted >= COMPACT_FILES:
            compact_files(self.table, self.writing, self.merge, COMPACT_FILES)
            self.uncompacted = 0
        now_s = time.monotonic()
        if now_s - self.swept_s > max(self.safe_s / 4, HOUSEKEEPING_S):
            self.swept_s = self.tidied_s = now_s
            sweep(self.table, self.safe_s)
        elif now_s - self.tidied_s > HOUSEKEEPING_S:
            self.tidied_s = now_s
            self.table.forget(time.time() - self.safe_s)

    def finish(self) -> None:
        """Merge and remove files at the end of a run."""
        if self.compact:
            compact_files(self.table, self.writing, self.merge)
            sweep(self.table, self.safe_s)

    def merge(self, merges: list[Merge]) -> Iterator[DataFile]:
        return merge_by_spark(self.spark, self.table.folder, merges, self.writing)


def compact(
    spark: SparkSession,
    table: str,
    target_octets: int = OCTETS,
    compression: str = "none",
    catalog: Any = None,
    safe_s: float = SAFE_S,
) -> Compacted:
    """Merge all small files of a table, and remove files that the table has not used for `safe_s`. Jobs may be running.

    table   its folder, or its name in the catalog
    safe_s  seconds; longer than any reader uses one list of files, and than a job's batch takes
    """
    there = open_table(table, catalog=catalog)
    writing = WriteOptions(compression, target_octets, there.with_partitions)
    done = compact_files(there, writing, lambda merges: merge_by_spark(spark, there.folder, merges, writing))
    sweep(there, safe_s)
    return done


def merge_by_spark(spark: SparkSession, root: str, merges: list[Merge], writing: WriteOptions) -> Iterator[DataFile]:
    """Merge each run of files into one file, in as many tasks as there are runs, and return the new files."""

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for text in batch.column(0).to_pylist():
                files = [DataFile(**values) for values in json.loads(text)]
                yield file_rows([merge(root, files, writing)])

    plans = [(json.dumps([json.loads(file.to_json()) for file in files]),) for files in merges]
    made = spark.createDataFrame(plans, "merge string").mapInArrow(work, "file string")
    found = [DataFile.from_json(row["file"]) for row in made.collect()]
    return iter(found)


def check_streams(given: Mapping[str, str], names: list[str]) -> None:
    """Raise OptionError unless all queues are streams: in other queues, truncating removes unconsumed messages."""
    access = Broker(access_of(given)).access
    with RemoteLogs(access) as logs:
        for queue in names:
            kind = logs.patiently(lambda client, queue=queue: client.describe(queue).kind)  # type: ignore[misc]
            if kind != STREAM:
                raise OptionError(f"truncate: queue {queue!r} is of kind {kind}; only streams are truncated")


def access_of(given: Mapping[str, str]) -> dict[str, str]:
    return {name: given[name] for name in (*BROKER_OPTIONS, DATA, RETRY) if name in given}


def checkpoint_name(names: list[str], given: Mapping[str, str]) -> str:
    """Return a checkpoint's name derived from the queues, so that jobs with different queues can write to one table."""
    text = ",".join(sorted(names)) or given.get(PATTERN, "")
    return f"{quote(text, safe='')[:80]}-{blake2b(text.encode(), digest_size=6).hexdigest()}"
