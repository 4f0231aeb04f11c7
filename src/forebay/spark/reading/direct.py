"""Reads queues into a DataFrame without Spark's data source API, at the least cost for a batch read.

Spark converts the rows that a Python data source yields twice. It takes the output of a function over Arrow batches as
it is. So the DataFrame here is such a function over the numbers of the tasks; each task reads the range of its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import AtomicType, LongType, StructField, StructType

from forebay.core.errors import OptionError
from forebay.spark.options import ReadOptions, check_batch, parse_options
from forebay.spark.positions import SUBSCRIBE, subscription_of
from forebay.spark.reading.plan import plan
from forebay.spark.reading.reader import RangePartition, open_logs, read_range, resolve
from forebay.spark.schema import TYPES, default_schema
from forebay.spark.setup.parallelism import cores_of
from forebay.spark.setup.plain import plainly

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

COUNTED_AT_ONCE: Final = 65_536  # rows; one count costs as much as some thousand rows
COUNT: Final = "count"


class RangeTasks:
    """A function that reads the ranges with given numbers. It is pickled into every task."""

    def __init__(self, options: ReadOptions, schema: StructType, partitions: list[RangePartition]) -> None:
        self.options = options
        self.schema = schema
        self.partitions = partitions

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                with plainly():
                    yield from read_range(self.options, self.schema, self.partitions[number])


class CountTasks(RangeTasks):
    """A function that counts equal rows in its ranges.

    It yields values, some repeatedly, and how many rows have them.
    """

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return counts_of(super().__call__(numbers))


def read(
    spark: SparkSession,
    queue: str | Sequence[str] = "",
    options: Mapping[str, object] | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Return queues as they are now, as `spark.read.format("forebay")` does, with less work for the JVM.

    The read is planned at once, in this process, which must therefore be able to reach the broker.

    queue    as the option `subscribe`, or a list of names; empty with the option `subscribePattern`
    options  of the source (docs/reference/spark.md)
    columns  only these are fetched, in this order; those of Spark's Kafka source by default
    raises   OptionError naming the option; RequestError; DataLost; Unreachable
    """
    return planned(spark, queue, options, columns, None)


def count_by(
    spark: SparkSession,
    queue: str | Sequence[str] = "",
    options: Mapping[str, object] | None = None,
    *,
    by: Sequence[str],
) -> DataFrame:
    """Count the rows with equal values, like `read(…).groupBy(…).count()`, in the tasks that read the rows.

    The JVM gets one row for many equal rows.

    by       columns whose values are simple: no headers, no properties
    raises   as `read`
    """
    from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

    for name in by:
        if name in TYPES and not isinstance(TYPES[name], AtomicType):
            raise OptionError(f"by: column {name!r} is {TYPES[name].simpleString()}: its values cannot be counted")
    counted = planned(spark, queue, options, by, COUNT)
    return counted.groupBy(*by).agg(F.sum(COUNT).alias(COUNT))


def planned(
    spark: SparkSession,
    queue: str | Sequence[str],
    options: Mapping[str, object] | None,
    columns: Sequence[str] | None,
    count: str | None,
) -> DataFrame:
    """Plan a read and return it as a DataFrame.

    count  name of the column of counts, to count equal rows; None returns the rows
    """
    given = {name: str(value) for name, value in (options or {}).items()}
    if queue:
        given[SUBSCRIBE] = queue if isinstance(queue, str) else subscription_of(queue)
    asked = parse_options(given)
    check_batch(asked)
    schema = default_schema(asked.headers) if columns is None else schema_of(columns)
    with open_logs(asked.access) as logs:
        ranges = [resolve(logs, asked, name) for name in asked.queues or logs.names(asked.pattern)]
        tasks = [RangePartition(part, logs.share(part)) for part in plan(ranges, cores_of(spark), asked.limits)]
    numbers = spark.range(0, len(tasks), 1, max(1, len(tasks)))
    if count is None:
        return numbers.mapInArrow(RangeTasks(asked, schema, tasks), schema)
    counts = StructType([*schema.fields, StructField(count, LongType())])
    return numbers.mapInArrow(CountTasks(asked, schema, tasks), counts)


def counts_of(batches: Iterable[pa.RecordBatch], at_once: int = COUNTED_AT_ONCE) -> Iterator[pa.RecordBatch]:
    """Yield the distinct rows among each `at_once` rows, and how often each occurs in the column COUNT."""
    parts: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        parts.append(batch)
        rows += batch.num_rows
        if rows >= at_once:
            yield counted(parts)
            parts = []
            rows = 0
    if parts:
        yield counted(parts)


def counted(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    table = pa.Table.from_batches(parts)
    names = table.column_names
    # In this thread only: each task of a worker has one core.
    found = table.group_by(names, use_threads=False).aggregate([([], "count_all")])
    columns = [found[name].combine_chunks() for name in (*names, "count_all")]
    return pa.RecordBatch.from_arrays(columns, names=[*names, COUNT])


def schema_of(columns: Sequence[str]) -> StructType:
    """Return the schema with these columns. Raises OptionError for a column that no queue has."""
    for name in columns:
        if name not in TYPES:
            raise OptionError(f"columns: no column {name!r}; known are {', '.join(TYPES)}")
    return StructType([StructField(name, TYPES[name]) for name in columns])
