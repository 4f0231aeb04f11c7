"""Audits queues against what was published to them: gaps, duplicates, order, lag, and where the messages went.

    found = audit(spark, ["orders"], {"forebay.servers": "localhost:5672"}, producer="app_id", sequence="int(type)")
    print(found.text())
    found.duplicates.show()

An offset is assigned once and never again. So every offset missing from the log once had a message, and the broker
knows whether that message was settled. A message that is missing and not settled is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.types import LongType, StringType, StructField, StructType

from forebay.client.blocks import whole
from forebay.core.errors import OptionError
from forebay.spark.jobs.bodies import first_line, with_body_columns
from forebay.spark.jobs.broker import Administrator, Broker
from forebay.spark.jobs.letters import letters_of, waiting_in
from forebay.spark.positions import ENDING_OFFSETS
from forebay.spark.schema import TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

READ: Final = (
    "queue",
    "offset",
    "timestamp",
    "exchange",
    "routing_key",
    "value",
    "content_type",
    "message_id",
    "correlation_id",
    "type",
    "user_id",
    "app_id",
    "properties",
)
# When a message was sent: from a header set by the publisher in milliseconds, or from AMQP's property in seconds.
SENT: Final = """coalesce(
    timestamp_millis(bigint(properties['header.sent-ms'])), timestamp_seconds(bigint(properties['timestamp']))
)"""
SHARES: Final = (0.5, 0.95, 0.99)
ACCURACY: Final = 1000  # of percentiles: exact to a thousandth of the rank
DUPLICATES_SHOWN: Final = 1000
SETTLED: Final = "settled"
RETENTION: Final = "retention"
LOST: Final = "lost"
RUNS: Final = StructType(
    [StructField("queue", StringType()), StructField("first", LongType()), StructField("end", LongType())]
)
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The findings of an audit as tables; `faults` has a sentence for each fault.

    queues      one row a queue: published, present, settled, waiting, held, dead (letters that died here first), lost
    gaps        offsets [first, end) that are not in the log, with the reason: settled, retention, lost
    duplicates  keys that occur more than once, with how often, and the first and last offset
    order       one row a producer: messages, first and last number, those missing, repeated, and out of order
    lag         one row a queue: number of messages, and milliseconds from sending to storing: p50, p95, p99, most
    """

    queues: DataFrame
    gaps: DataFrame
    duplicates: DataFrame
    order: DataFrame
    lag: DataFrame
    faults: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the report as text: the tables that are short, and the faults."""
        parts = [f"{name}\n{shown(frame)}" for name, frame in (("queues", self.queues), ("lag in ms", self.lag))]
        return "\n".join([*parts, *(self.faults or ["no faults were found"])])

    def to_dict(self) -> dict[str, object]:
        """Return the report for programs, with the gaps, the producers, and at most DUPLICATES_SHOWN duplicates."""
        return {
            "queues": dictionaries(self.queues),
            "lag": dictionaries(self.lag),
            "gaps": dictionaries(self.gaps),
            "duplicates": dictionaries(self.duplicates.limit(DUPLICATES_SHOWN)),
            "order": dictionaries(self.order),
            "faults": self.faults,
        }


def dictionaries(frame: DataFrame) -> list[dict[str, object]]:
    return [row.asDict() for row in frame.collect()]


def audit(
    spark: SparkSession,
    queues: Sequence[str],
    options: Mapping[str, str],
    *,
    key: str = "message_id",
    producer: str = "",
    sequence: str = "",
    sent: str = SENT,
    columns: str = "",
) -> AuditReport:
    """Audit the records of queues, from the first that is in the log to the last that is on disk now.

    key       SQL expression that differs for each message; NULL if a message has no key
    producer  SQL expression for the publisher of a message
    sequence  SQL expression for the message's number with that publisher, which ascends by 1
    sent      SQL expression for the time when the message was published
    columns   fields of the JSON bodies that the expressions use, such as `device string, number bigint`
    raises    OptionError naming the expression that Spark does not understand; RequestError
    """
    if bool(producer) != bool(sequence):
        raise OptionError("producer and sequence: give both or none")
    broker = Broker(options)
    ends = {queue: {"0": broker.look(queue).end} for queue in queues}
    schema = StructType([StructField(name, TYPES[name]) for name in READ])
    bounds = {ENDING_OFFSETS: json.dumps(ends), "failOnDataLoss": "false"}
    table = with_body_columns(broker.table(spark, queues, schema, **bounds), columns)
    duplicates = duplicates_in(column_named(table, "key", key))
    numbered = column_named(column_named(table, "producer", producer or "string(NULL)"), "number", sequence or "NULL")
    order = order_in(numbered)
    lag = lag_in(column_named(table, "sent", sent))

    offsets = StructType([StructField(name, TYPES[name]) for name in ("queue", "offset")])
    runs = broker.table(spark, queues, offsets, **bounds).mapInArrow(runs_in, RUNS).collect()
    with broker.administrator() as administrator:
        found = [
            state_of(broker, administrator, queue, ends[queue]["0"], merged(runs_of(runs, queue))) for queue in queues
        ]
        dead = dead_by_origin(spark, broker, administrator)
    gaps = [(state.queue, first, end, reason) for state in found for first, end, reason in state.gaps]
    result = AuditReport(
        queues=spark.createDataFrame([state.row(dead.get(state.queue, 0)) for state in found], STATE_COLUMNS),
        gaps=spark.createDataFrame(gaps, "queue string, first bigint, end bigint, reason string"),
        duplicates=duplicates,
        order=order,
        lag=lag,
    )
    result.faults.extend(faults_of(result, found, bool(producer)))
    return result


# ---- offsets


STATE_COLUMNS: Final = """queue string, published bigint, present bigint, settled bigint, waiting bigint, held bigint,
    dead bigint, lost bigint"""


@dataclass(frozen=True, slots=True)
class State:
    """The offsets of one queue: how many were assigned, and what became of them."""

    queue: str
    published: int
    present: int
    waiting: int
    held: int
    gaps: list[tuple[int, int, str]]

    @property
    def lost(self) -> int:
        """Return the number of offsets that are not settled and not in the log."""
        return sum(end - first for first, end, reason in self.gaps if reason == LOST)

    def row(self, dead: int) -> tuple[object, ...]:
        """Return the row with the columns of `STATE_COLUMNS`."""
        settled = self.published - self.waiting
        return (self.queue, self.published, self.present, settled, self.waiting, self.held, dead, self.lost)


def runs_in(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the runs of consecutive offsets in a task's rows, whose offsets ascend. Runs on executors, once a task."""
    schema = pa.schema([("queue", pa.string()), ("first", pa.int64()), ("end", pa.int64())])
    for batch in batches:
        if not batch.num_rows:
            continue
        offsets = batch.column("offset").to_numpy()
        breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
        firsts = offsets[np.concatenate([[0], breaks])]
        ends = offsets[np.concatenate([breaks - 1, [len(offsets) - 1]])] + 1
        names = pa.array([batch.column("queue")[0].as_py()] * len(firsts), pa.string())
        yield pa.RecordBatch.from_arrays([names, pa.array(firsts), pa.array(ends)], schema=schema)


def runs_of(rows: Iterable[Row], queue: str) -> list[Range]:
    return [(row["first"], row["end"]) for row in rows if row["queue"] == queue]


def state_of(broker: Broker, administrator: Administrator, queue: str, end: int, present: list[Range]) -> State:
    """Return what became of a queue's offsets below `end`.

    Queries the unsettled offsets after the log was read, so that a message settled meanwhile does not count as lost.

    present  the offsets that are in the log, merged
    """
    fields = administrator.run("queue.show", queue=queue)
    unsettled = waiting_in(broker, administrator, queue).ranges
    waiting = merged((first, min(high, end)) for first, high in unsettled)
    missing = without([(0, end)], present)
    settled = without(missing, waiting)
    gone = RETENTION if fields["type"] == "stream" else SETTLED
    gaps = [(first, high, LOST) for first, high in without(missing, settled)]
    gaps += [(first, high, gone) for first, high in settled]
    return State(queue, end, count(present), count(waiting), whole(fields["unacked"]), sorted(gaps))


def count(ranges: Iterable[Range]) -> int:
    return sum(end - first for first, end in ranges)


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return the same offsets in as few ranges as possible, ascending."""
    found: list[Range] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif first < end:
            found.append((first, end))
    return found


def without(ranges: Sequence[Range], taken: Sequence[Range]) -> list[Range]:
    """Return the offsets of `ranges` that are not in `taken`. Both must be merged."""
    left: list[Range] = []
    place = 0
    for first, end in ranges:
        at = first
        while place < len(taken) and taken[place][0] < end:
            low, high = taken[place]
            if at < low:
                left.append((at, low))
            at = max(at, high)
            if high > end:
                break  # the next range may overlap with it too
            place += 1
        if at < end:
            left.append((at, end))
    return left


def dead_by_origin(spark: SparkSession, broker: Broker, administrator: Administrator) -> dict[str, int]:
    """Return the number of waiting dead letters in all queues, by the queue in which they died first."""
    queues = [str(item["queue"]) for item in listed(administrator, "dlq.list") if item["messages"]]
    if not queues:
        return {}
    return {
        row["origin"]: row["count"] for row in letters_of(broker, spark, queues).groupBy("origin").count().collect()
    }


def listed(administrator: Administrator, operation: str) -> Iterator[dict[str, object]]:
    for answer in administrator.portions(operation):
        items = answer["items"]
        assert isinstance(items, list)
        yield from items


# ---- messages


def column_named(table: DataFrame, name: str, expression: str) -> DataFrame:
    """Add an expression of the caller's to the table as a column. Raises OptionError naming it if Spark refuses it."""
    try:
        return table.withColumn(name, F.expr(expression))
    except PySparkException as error:
        raise OptionError(f"{name}: {expression!r}: {first_line(error)}") from None


def duplicates_in(keyed: DataFrame) -> DataFrame:
    each = keyed.where("key IS NOT NULL").groupBy("queue", "key")
    counted = each.agg(F.count("*").alias("copies"), F.min("offset").alias("first"), F.max("offset").alias("last"))
    return counted.where("copies > 1").orderBy(F.desc("copies"), "queue", "first")


def order_in(numbered: DataFrame) -> DataFrame:
    """Return, for each producer and queue, how many of the producer's numbers are missing, repeated or out of order."""
    before = Window.partitionBy("queue", "producer").orderBy("offset")
    known = numbered.where("producer IS NOT NULL AND number IS NOT NULL")
    late = F.col("number") < F.max("number").over(before.rowsBetween(Window.unboundedPreceding, -1))
    each = known.withColumn("late", late).groupBy("queue", "producer")
    distinct = F.count_distinct("number")
    return each.agg(
        F.count("*").alias("messages"),
        F.min("number").alias("first"),
        F.max("number").alias("last"),
        (F.max("number") - F.min("number") + 1 - distinct).alias("missing"),
        (F.count("*") - distinct).alias("repeated"),
        F.count_if("late").alias("out_of_order"),
    ).orderBy("queue", "producer")


def lag_in(stamped: DataFrame) -> DataFrame:
    """Return percentiles of the milliseconds from sending to storing, by queue."""
    milliseconds: Column = F.unix_micros("timestamp") / 1000 - F.unix_micros("sent") / 1000
    known = stamped.where("sent IS NOT NULL").withColumn("lag", milliseconds).groupBy("queue")
    shares = [F.percentile_approx("lag", share, ACCURACY).alias(f"p{round(100 * share)}") for share in SHARES]
    return known.agg(F.count("*").alias("messages"), *shares, F.max("lag").alias("most")).orderBy("queue")


def faults_of(found: AuditReport, states: Sequence[State], ordered: bool) -> list[str]:
    """Return a sentence for each fault.

    ordered  whether to look for faults of order
    """
    faults = [
        f"queue {state.queue}: lost: {end - first} offsets from {first} to below {end}, which nobody has settled"
        for state in states
        for first, end, reason in state.gaps
        if reason == LOST
    ]
    twice = found.duplicates.groupBy("queue").agg(F.count("*").alias("keys"), F.sum("copies").alias("copies"))
    for row in twice.orderBy("queue").collect():
        faults.append(f"queue {row['queue']}: duplicates: {row['keys']} keys are there {row['copies']} times")
    if ordered:
        for row in found.order.where("missing > 0 OR repeated > 0 OR out_of_order > 0").collect():
            what = ", ".join(f"{row[name]} {name}" for name in ("missing", "repeated", "out_of_order") if row[name])
            faults.append(f"queue {row['queue']}: order: {row['messages']} messages of {row['producer']}: {what}")
    return faults


def shown(frame: DataFrame) -> str:
    """Return a short table as text."""
    rows = [frame.columns, *([cell_text(value) for value in row] for row in frame.collect())]
    widths = [max(len(row[at]) for row in rows) for at in range(len(frame.columns))]
    return "".join(
        "  " + "  ".join(value.rjust(width) for value, width in zip(row, widths, strict=True)) + "\n" for row in rows
    )


def cell_text(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else "" if value is None else str(value)
