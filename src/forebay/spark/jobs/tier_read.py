"""Reads a queue's past and present as one table: tiered records, followed by the records still in the broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.core.errors import OptionError
from forebay.spark.options import FAIL_ON_DATA_LOSS, NAMES, STREAM_ONLY, known_options, parse_options
from forebay.spark.positions import (
    ENDING_BY_TIMESTAMP,
    ENDING_OFFSETS,
    ENDING_TIMESTAMP,
    STARTING_BY_TIMESTAMP,
    STARTING_OFFSETS,
    STARTING_TIMESTAMP,
    SUBSCRIBE,
    subscription_of,
)
from forebay.spark.reading.logs import DataLost, LogEnd
from forebay.spark.reading.reader import open_logs
from forebay.spark.tables.layout import QUEUE, DataFile, Layout
from forebay.spark.tables.opening import open_table
from forebay.spark.tables.table import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from forebay.spark.reading.logs import LogAccess

OFFSET_MAX: Final = (1 << 63) - 1
TIME_MAX: Final = (1 << 63) - 1
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# This module itself sets the options for the start and the end of the live part.
TAKEN: Final = (
    *(SUBSCRIBE, "subscribePattern", "filter", "includeHeaders", "startingOffsetsByTimestampStrategy"),
    *(STARTING_OFFSETS, STARTING_TIMESTAMP, STARTING_BY_TIMESTAMP),
    *(ENDING_OFFSETS, ENDING_TIMESTAMP, ENDING_BY_TIMESTAMP),
    *STREAM_ONLY,
)
OPTIONS: Final = tuple(name for name in NAMES if name not in TAKEN)


def read_tiered(
    spark: SparkSession,
    queue: str,
    table: str,
    options: Mapping[str, str],
    starting_offset: int = 0,
    ending_offset: int = OFFSET_MAX,
    starting_time: datetime | None = None,
    ending_time: datetime | None = None,
    catalog: Any = None,
) -> DataFrame:
    """Return every record of a queue once, with the table's columns: first from the table, then live.

    table    its folder, or its name in the catalog
    options  of the source: the broker or the data directory, failOnDataLoss, minPartitions
    starting_offset, ending_offset, starting_time, ending_time
             bounds of the read, the ends not included: other files are not opened, other records not fetched.
             Conditions on the DataFrame exclude files as well, but not records in the broker
    returns  the queue as it was at the time of the call; call again to see more
    raises   DataLost naming the offsets lost between the two parts, unless failOnDataLoss is false
    """
    given = known_options(options, OPTIONS, "read of a tiered queue")
    given[SUBSCRIBE] = subscription_of([queue])
    parsed = parse_options(given)
    if not 0 <= starting_offset <= ending_offset:
        raise OptionError(f"starting_offset: {starting_offset} is not from 0 to the ending offset, {ending_offset}")
    there = open_table(table, catalog=catalog)
    low_us, high_us = (
        microseconds("starting_time", starting_time, 0),
        microseconds("ending_time", ending_time, TIME_MAX),
    )
    with open_logs(parsed.access) as logs:
        log, files, end = look_at_both(logs, queue, there)
        # Timestamps of a queue never decrease: a range of times is one of offsets.
        first = logs.offset_at(queue, low_us) if starting_time is not None else 0
        last = logs.offset_at(queue, high_us) if ending_time is not None else log.end
    if parsed.fail_on_data_loss:
        check_gap(queue, there.folder, end, log, starting_offset)
    wanted = [
        file
        for file in files
        if starting_offset < file.end
        and file.first < ending_offset
        and low_us <= file.last_us
        and file.first_us < high_us
    ]
    first, last = max(first, end, log.start, starting_offset), min(last, log.end, ending_offset)
    live = live_part(spark, given, there.layout, queue, first, last) if first < last else None
    tiered = tier_part(spark, there, wanted)
    whole = tiered if live is None else live if not wanted else tiered.unionByName(live)
    if starting_offset > 0 or ending_offset < OFFSET_MAX:
        whole = whole.where((F.col("offset") >= starting_offset) & (F.col("offset") < ending_offset))
    if starting_time is not None:
        whole = whole.where(F.col("timestamp") >= F.timestamp_micros(F.lit(low_us)))
    if ending_time is not None:
        whole = whole.where(F.col("timestamp") < F.timestamp_micros(F.lit(high_us)))
    return whole


def microseconds(option: str, time: datetime | None, default: int) -> int:
    """Return a time in microseconds since 1970, or `default` for None. Raises OptionError if it has no time zone."""
    if time is None:
        return default
    if time.tzinfo is None:
        raise OptionError(f"{option}: {time} has no time zone")
    return (time - EPOCH) // timedelta(microseconds=1)


def look_at_both(logs: LogAccess, queue: str, table: LakeTable) -> tuple[LogEnd, list[DataFile], int]:
    """Return the log's bounds, the queue's files and the offset where these end, as a consistent pair.

    Repeats the look if records were moved from the log to the table in between.
    """
    known = -1
    while True:
        files = [file for file in table.files() if file.queue == queue]
        end = max([file.end for file in files], default=0)
        log = logs.look(queue)
        if log.start <= end or end == known:
            return log, files, end
        known = end
        table.refresh()


def check_gap(queue: str, folder: str, end: int, log: LogEnd, starting_offset: int) -> None:
    """Raise DataLost unless the table and the log meet without a gap."""
    advice = f"Set {FAIL_ON_DATA_LOSS} to false to read what there is."
    if log.start > max(end, starting_offset):
        raise DataLost(
            f"queue {queue!r}: offsets {max(end, starting_offset)} to {log.start - 1} are neither in the table "
            f"{folder} nor in the broker: retention or acknowledgements were quicker than the tier job. {advice}"
        )
    if log.end < end:
        raise DataLost(
            f"queue {queue!r}: the table {folder} has it to below {end}, but in the broker it ends at {log.end}: it "
            f"was deleted and made anew. {advice}"
        )


def tier_part(spark: SparkSession, table: LakeTable, files: list[DataFile]) -> DataFrame:
    """Return the rows of these files."""
    layout = table.layout
    if not files:
        return spark.createDataFrame([], layout.spark_schema())
    # Read files by name: later commits and merges are not seen, and replaced files are kept for a safe time.
    reader = spark.read.schema(layout.spark_schema()).option("basePath", table.folder)
    rows = reader.parquet(*[table.path(file) for file in files])
    return keys_filled(rows, layout).select(*layout.spark_schema().names)


def keys_filled(rows: DataFrame, layout: Layout) -> DataFrame:
    """Return the rows with "" for NULL in the key columns, as a folder's name cannot distinguish empty from NULL."""
    for key in layout.keys:
        rows = rows.withColumn(key, F.coalesce(F.col(key), F.lit("")))
    return rows


def live_part(
    spark: SparkSession, given: Mapping[str, str], layout: Layout, queue: str, first: int, last: int
) -> DataFrame:
    """Return records of the broker with the table's columns."""
    reader = spark.read.format("forebay").options(**given)
    reader = reader.option(STARTING_OFFSETS, json.dumps({queue: {"0": first}}))
    reader = reader.option(ENDING_OFFSETS, json.dumps({queue: {"0": last}}))
    rows = keys_filled(reader.schema(layout.source_schema()).load(), layout)
    made: dict[str, Column] = {QUEUE: F.lit(queue), "day": F.to_date("timestamp"), "hour": F.hour("timestamp")}
    columns = [made[name].alias(name) if name in made else F.col(name) for name in layout.spark_schema().names]
    return rows.select(*columns)
