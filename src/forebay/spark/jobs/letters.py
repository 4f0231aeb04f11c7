"""Dead letters as a table, a report of why they died, and redriving of those that match a condition.

    options = {"forebay.servers": "localhost:5672"}
    letters(spark, ["dead"], options).where("cause = 'rejected'").show()
    redrive(spark, "dead", options, where="delay < 30", columns="delay int")

A dead letter is identified by its queue and its offset there, which is never reused. The broker publishes a redriven
letter and settles it in one write. So no letter is redriven twice, even if a job or broker dies and the job runs again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.types import StructField, StructType

from forebay.client.blocks import whole
from forebay.core.errors import PRECONDITION, OptionError, RequestError
from forebay.spark.jobs.bodies import first_line, with_body_columns
from forebay.spark.jobs.broker import Administrator, Broker
from forebay.spark.schema import TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

READ: Final = ("queue", "offset", "timestamp", "exchange", "routing_key", "value", "message_id", "properties")
DEATHS: Final = (
    "array<struct<count: bigint, reason: string, queue: string, exchange: string, `routing-keys`: array<string>>>"
)
REDRIVEN: Final = "redriven"  # the reason of the entry in x-death that counts redrives
# Headers in which consumers report an error (Spring, NServiceBus, MassTransit, MQTT); the first present one counts.
EXCEPTION_HEADERS: Final = (
    "x-exception",
    "x-exception-message",
    "NServiceBus.ExceptionInfo.Message",
    "MT-Fault-Message",
    "exception",
    "error",
)
GROUPS: Final = ("queue", "cause", "origin", "origin_exchange", "origin_key")
EXCEPTIONS_SHOWN: Final = 3
SAMPLE_CHARACTERS: Final = 200
OFFSETS_AT_ONCE: Final = 1000  # number of offsets that one request redrives


@dataclass(frozen=True, slots=True)
class Redriven:
    """The outcome of a redrive, in numbers of dead letters.

    done     redriven
    held     left, as a consumer holds them
    gone     settled meanwhile, or redriven before
    refused  left, as their target refused them, for the reason in `refusal`
    """

    chosen: int = 0
    done: int = 0
    held: int = 0
    gone: int = 0
    refused: int = 0
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class UnsettledOffsets:
    """The unsettled offsets of a queue: ranges [first, end).

    `id` distinguishes a queue from a later one of the same name.
    """

    id: int
    ranges: tuple[tuple[int, int], ...]


# ---- the table


def letters(
    spark: SparkSession,
    queues: Sequence[str],
    options: Mapping[str, str],
    *,
    by: Sequence[str] = (),
    columns: str = "",
    exception_headers: Sequence[str] = EXCEPTION_HEADERS,
) -> DataFrame:
    """Return the letters that wait in dead-letter queues, as they are now; with `by`, a report of them.

    One row a letter: queue, offset, stored, died, cause, origin (the queue where it died first), origin_exchange,
    origin_key, deaths, redriven, deliveries, exception, message_id, properties, value, body, and `columns`. The report
    has one row for each combination of the columns `by`: count, oldest, newest, the most frequent exceptions with
    their counts, and samples of bodies; see `GROUPS` for the usual ones.

    options  see `Broker`
    columns  fields of the JSON bodies as further columns, such as `carrier string, delay int`
    exception_headers  headers that report an error; the first that is present counts
    """
    found = letters_of(Broker(options), spark, queues, columns, exception_headers)
    return report(found, by) if by else found


def letters_of(
    broker: Broker,
    spark: SparkSession,
    queues: Sequence[str],
    columns: str = "",
    exception_headers: Sequence[str] = EXCEPTION_HEADERS,
    waiting: Mapping[str, UnsettledOffsets] | None = None,
) -> DataFrame:
    """Return the dead letters at these unsettled offsets, or at all offsets unsettled now if `waiting` is None."""
    if waiting is None:
        with broker.administrator() as administrator:
            waiting = {queue: waiting_in(broker, administrator, queue) for queue in queues}
    schema = StructType([StructField(name, TYPES[name]) for name in READ])
    # Without bounds: a consumer may settle the records at the bounds meanwhile, and a read by offset would miss them.
    table = broker.table(spark, queues, schema, failOnDataLoss="false").mapInArrow(Sieve(waiting), schema)
    return with_body_columns(with_deaths(table, exception_headers), columns)


def waiting_in(broker: Broker, administrator: Administrator, queue: str) -> UnsettledOffsets:
    """Return the unsettled offsets of a queue whose records are on disk, so that they can be read."""
    ranges: list[tuple[int, int]] = []
    id = -1
    for answer in administrator.portions("queue.unsettled", queue=queue):
        if id not in (-1, answer["id"]):
            raise RequestError(PRECONDITION, f"queue {queue!r} was deleted and made anew while it was looked at")
        id = whole(answer["id"])
        found = answer["ranges"]
        assert isinstance(found, list)
        for first, end in found:
            ranges.append((ranges.pop()[0] if ranges and ranges[-1][1] == first else first, end))
    readable = broker.look(queue).end  # records not on disk yet are unsettled too, but cannot be read
    return UnsettledOffsets(id, tuple((first, min(end, readable)) for first, end in ranges if first < readable))


class Sieve:
    """A filter that keeps the rows whose offsets are in given ranges of their queues.

    Called on executors, once a task.
    """

    def __init__(self, waiting: Mapping[str, UnsettledOffsets]) -> None:
        # Ranges do not overlap: an offset is in one if more ranges begin at or before it than end there.
        self.bounds = {queue: np.array(each.ranges, np.int64).reshape(-1, 2) for queue, each in waiting.items()}

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                bounds = self.bounds[batch.column("queue")[0].as_py()]  # a batch is of one queue
                offsets = batch.column("offset").to_numpy()
                begun = np.searchsorted(bounds[:, 0], offsets, "right")
                yield batch.filter(pa.array(begun > np.searchsorted(bounds[:, 1], offsets, "right")))


def with_deaths(table: DataFrame, exception_headers: Sequence[str]) -> DataFrame:
    """Return dead letters with their deaths as columns, parsed from the headers."""
    parsed = table.withColumn("steps", F.from_json(header("x-death"), DEATHS))
    deaths = F.filter("steps", lambda step: step.reason != REDRIVEN)
    redrives = F.filter("steps", lambda step: step.reason == REDRIVEN)
    first_queue, first_reason = header("x-first-death-queue"), header("x-first-death-reason")
    first = F.filter("steps", lambda step: (step.queue == first_queue) & (step.reason == first_reason))
    return parsed.withColumns({"deaths_": deaths, "redrives_": redrives, "first_": F.get(first, F.lit(0))}).select(
        "queue",
        "offset",
        F.col("timestamp").alias("stored"),
        F.timestamp_millis(header("dlq-time-ms").cast("bigint")).alias("died"),
        F.coalesce(header("dlq-reason"), F.get("deaths_", F.lit(0)).reason).alias("cause"),
        F.coalesce(first_queue, header("dlq-queue")).alias("origin"),
        F.coalesce(F.col("first_.exchange"), F.col("exchange")).alias("origin_exchange"),
        F.coalesce(F.get(F.col("first_.`routing-keys`"), F.lit(0)), F.col("routing_key")).alias("origin_key"),
        counted("deaths_").alias("deaths"),
        counted("redrives_").alias("redriven"),
        header("dlq-deliveries").cast("bigint").alias("deliveries"),
        F.coalesce(*(header(name) for name in exception_headers), F.lit(None)).alias("exception"),
        "message_id",
        "properties",
        "value",
        F.col("value").cast("string").alias("body"),
    )


def header(name: str) -> Column:
    return F.col("properties")[f"header.{name}"]


def counted(steps: str) -> Column:
    """Return the sum of the counts of these x-death entries, or 0 if there are none."""
    total = F.aggregate(steps, F.lit(0).cast("bigint"), lambda sum, step: sum + step["count"])
    return F.coalesce(total, F.lit(0))


def report(found: DataFrame, by: Sequence[str] = GROUPS) -> DataFrame:
    """Group dead letters by these columns, the most numerous group first."""
    for name in by:
        if name not in found.columns:
            raise OptionError(f"by: no column {name!r}; known are {', '.join(found.columns)}")
    sample = F.struct("offset", F.substring("body", 1, SAMPLE_CHARACTERS).alias("body"))
    # In two steps, so that the lists collected have one entry for each exception, not for each letter.
    each = found.groupBy(*by, "exception").agg(
        F.count("*").alias("count"),
        F.min("died").alias("oldest"),
        F.max("died").alias("newest"),
        F.max_by(sample, "offset").alias("sample"),
    )
    said = F.expr("collect_list(IF(exception IS NULL, NULL, struct(-count AS less, exception)))")
    most = F.transform(
        F.slice(F.array_sort(said), 1, EXCEPTIONS_SHOWN),
        lambda one: F.struct(one.exception.alias("exception"), (-one.less).alias("count")),
    )
    samples = F.transform(
        F.slice(F.reverse(F.array_sort(F.collect_list("sample"))), 1, EXCEPTIONS_SHOWN), lambda one: one.body
    )
    grouped = each.groupBy(*by).agg(
        F.sum("count").alias("count"),
        F.min("oldest").alias("oldest"),
        F.max("newest").alias("newest"),
        most.alias("exceptions"),
        samples.alias("samples"),
    )
    return grouped.orderBy(F.desc("count"), *by)


# ---- redriving


def redrive(
    spark: SparkSession,
    queue: str,
    options: Mapping[str, str],
    *,
    where: str = "",
    columns: str = "",
    limit: int = 0,
    to: str = "",
    dry_run: bool = False,
    exception_headers: Sequence[str] = EXCEPTION_HEADERS,
) -> Redriven:
    """Redrive the letters that match a SQL condition: each to the queue where it died first, or all to the queue `to`.

    Only letters that wait when the job begins are considered, so a letter that dies again stays. The lowest offsets go
    first. If the broker dies, the job waits for it (`retryMs`) and repeats its requests.

    where    over the columns of `letters`; empty chooses all
    limit    how many to redrive at most; 0 is no limit
    dry_run  whether only to count the letters
    raises   OptionError for a condition that Spark does not understand; RequestError
    """
    broker = Broker(options)
    if limit < 0:
        raise OptionError(f"limit: {limit} is below 0")
    with broker.administrator() as administrator:
        waiting = waiting_in(broker, administrator, queue)
        found = letters_of(broker, spark, [queue], columns, exception_headers, {queue: waiting})
        chosen = chosen_offsets(found, where, limit)
        if dry_run:
            return Redriven(chosen=len(chosen))
        return send_back(administrator, queue, waiting.id, chosen, to)


def chosen_letters(found: DataFrame, where: str) -> DataFrame:
    """Return the letters that match a SQL condition; an empty condition matches all.

    Raises OptionError with Spark's message.
    """
    try:
        return found.where(where) if where else found
    except PySparkException as error:
        raise OptionError(f"where: {where!r}: {first_line(error)}") from None


def chosen_offsets(found: DataFrame, where: str, limit: int) -> list[int]:
    """Return the offsets of the letters that match a SQL condition, ascending.

    limit  how many to return at most; 0 is no limit
    """
    chosen = chosen_letters(found, where).select("offset").orderBy("offset")
    table = (chosen.limit(limit) if limit else chosen).toArrow()
    offsets: list[int] = table.column("offset").to_pylist()
    return offsets


def send_back(administrator: Administrator, queue: str, id: int, offsets: Sequence[int], to: str) -> Redriven:
    """Redrive letters by their offsets, request by request, and return the outcome."""
    totals = dict.fromkeys(("done", "held", "gone", "refused"), 0)
    refusal = ""
    for at in range(0, len(offsets), OFFSETS_AT_ONCE):
        asked = ranges_of(offsets[at : at + OFFSETS_AT_ONCE])
        arguments = {"queue": queue, "id": id, "to": to, "offsets": asked, "limit": OFFSETS_AT_ONCE}
        for answer in administrator.portions("dlq.redrive", **arguments):
            for name in totals:
                totals[name] += whole(answer[name])
            refusal = refusal or str(answer.get("refusal", ""))
    return Redriven(len(offsets), **totals, refusal=refusal)


def ranges_of(offsets: Sequence[int]) -> list[list[int]]:
    """Return ascending offsets as ranges [first, end)."""
    ranges: list[list[int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset:
            ranges[-1][1] = offset + 1
        else:
            ranges.append([offset, offset + 1])
    return ranges
