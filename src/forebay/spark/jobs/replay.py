"""Replays a range of a queue's past, from its log or a table, into a queue at a chosen rate.

    replay(spark, "flights", "flights-test", options, checkpoint="/jobs/replay", starting="2026-11-01", rate=500)

The range is cut into chunks of offsets. The plan of the chunks is written to the checkpoint before the first chunk is
published. Each chunk is a numbered transaction of the sink. A job that dies and runs again asks the broker for the
last committed chunk and continues with the next, so every row is published once.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.types import StructField, StructType

from forebay.core.errors import OptionError, RequestError
from forebay.core.message import Properties
from forebay.filter.parser import parse
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.message.properties import properties_of
from forebay.spark.filters.columns import matching
from forebay.spark.jobs.broker import Broker
from forebay.spark.jobs.publishing import publish
from forebay.spark.jobs.tier_read import read_tiered
from forebay.spark.options import FILTER
from forebay.spark.positions import ENDING_OFFSETS, STARTING_OFFSETS
from forebay.spark.reading.logs import RemoteLogs
from forebay.spark.schema import TYPES
from forebay.spark.sink.encode import BlockEncoder, python_values
from forebay.spark.sink.options import HEADERS, TOPIC, VALUE, parse_sink
from forebay.spark.sink.writer import WriteTarget, connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PLAN: Final = "replay.json"
READ: Final = ("queue", "offset", "timestamp", "exchange", "routing_key", "format", "raw_properties", "value")
# Properties that a message keeps. Not its expiration, which may have passed, nor the user, which is the job's now.
KEPT: Final = (
    "durable",
    "priority",
    "message_id",
    "correlation_id",
    "reply_to",
    "content_type",
    "content_encoding",
    "timestamp_s",
    "type",
    "app_id",
    "body_is_text",
)
# Headers that would route the message to more queues, delay it, or make the broker drop it as a duplicate.
DROPPED: Final = frozenset({"CC", "BCC", "x-delay", "x-producer-id", "x-sequence", "x-deduplication-key"})
WAS: Final = "x-replay-"
CHUNK_OFFSETS: Final = 500_000  # chunk size of a replay without a rate
RATE_MAX: Final = 1e9
BOUNDS: Final = (STARTING_OFFSETS, ENDING_OFFSETS)
HOLD_S_MIN: Final = 600.0  # bounds of the hold on records not replayed yet, which is renewed with every chunk
HOLD_S_MAX: Final = 86_000.0
MICROSECONDS: Final = 1_000_000
MILLISECOND: Final = 1000  # in microseconds


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """The plan of a replay, decided when it first runs.

    transaction  name of the transactions in the broker
    first, end   the offsets of the source to replay, `end` not included
    chunk        number of offsets in one transaction
    done         chunks known to be published; needed as the broker forgets transactions that are idle for long
    """

    transaction: str
    source: str
    into: str
    table: str
    where: str
    first: int
    end: int
    chunk: int
    done: int = 0

    @property
    def chunks(self) -> int:
        """Return the number of chunks."""
        return -(-(self.end - self.first) // self.chunk)

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the offsets [first, end) of one chunk."""
        first = self.first + number * self.chunk
        return first, min(first + self.chunk, self.end)


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of one run: rows and chunks published, the number of chunks in the plan, and offsets [first, end)."""

    rows: int
    chunks: int
    all_chunks: int
    first: int
    end: int


def replay(
    spark: SparkSession,
    source: str,
    into: str,
    options: Mapping[str, str],
    *,
    checkpoint: str,
    table: str = "",
    starting: str = "earliest",
    ending: str = "latest",
    rate: float = 0,
    where: str = "",
) -> Replayed:
    """Publish the records of a range again, in order, each once. Returns when all are published.

    A row keeps its body, headers and properties, but not its expiration, and gets headers with its origin:
    x-replay-queue, x-replay-offset, x-replay-timestamp-ms, x-replay-exchange, x-replay-routing-key. During the
    replay the broker keeps the records not replayed yet.

    into      a queue that exists
    checkpoint  folder in which the job keeps its plan; a job run again with the same folder continues
    table     folder of a table to which `source` was tiered; records no longer in the queue are read from the table
    starting, ending  earliest, latest, an offset, or a time in ISO 8601; the end is not included
    rate      offsets of the source per second at most; 0 is as fast as possible
    where     a filter (docs/reference/filters.md)
    raises    OptionError naming the argument; RequestError; DataLost if records of the range are gone
    """
    if not 0 <= rate < RATE_MAX:
        raise OptionError(f"rate: {rate} is not from 0 to {RATE_MAX}")
    check_filter(where)
    broker = Broker(options)
    broker.look(into)
    rows = ReplayRows(spark, broker, source, table, where)
    chunk = max(1, round(rate)) if rate else CHUNK_OFFSETS
    file = Path(checkpoint) / PLAN
    plan = read_plan(file, ReplayPlan("", source, into, table, where, 0, 0, chunk))
    if not plan.transaction:
        first, end = rows.bounds(starting, ending)
        plan = replace(plan, transaction=f"replay-{uuid.uuid4().hex}", first=first, end=max(first, end))
        write_plan(file, plan)
    return Replay(broker, rows, plan, file).run(rate)


# ---- the plan


def check_filter(where: str) -> None:
    """Raise OptionError if the text is no filter."""
    try:
        parse(where or "TRUE")
    except RequestError as error:
        raise OptionError(f"where: {where!r}: {error.text}") from None


def read_plan(file: Path, asked: ReplayPlan) -> ReplayPlan:
    """Return the plan in the checkpoint, or `asked` if there is none.

    Raises OptionError if the plan is another job's.
    """
    if not file.exists():
        return asked
    plan = ReplayPlan(**json.loads(file.read_text(encoding="utf-8")))
    for name in ("source", "into", "table", "where"):
        if getattr(plan, name) != getattr(asked, name):
            raise OptionError(
                f"checkpoint: {str(file.parent)!r} is of a replay with {name} {getattr(plan, name)!r}, not "
                f"{getattr(asked, name)!r}: give each job its own"
            )
    return plan


def write_plan(file: Path, plan: ReplayPlan) -> None:
    """Write the plan to the checkpoint atomically, so that a crash leaves the old plan or the new one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    with new.open("w", encoding="utf-8") as out:
        json.dump(asdict(plan), out)
        out.flush()
        os.fsync(out.fileno())
    new.replace(file)


class ReplayRows:
    """The records that may be replayed, as rows for the sink."""

    def __init__(self, spark: SparkSession, broker: Broker, source: str, table: str, where: str) -> None:
        self.spark = spark
        self.broker = broker
        self.source = source
        self.table = table
        self.where = where

    def bounds(self, starting: str, ending: str) -> tuple[int, int]:
        """Return the offsets [first, end) of the range."""
        return self.place("starting", starting), self.place("ending", ending)

    def place(self, name: str, text: str) -> int:
        """Return the offset that a word, a number or a time stands for.

        name  the argument's name, `starting` or `ending`
        """
        log = self.broker.look(self.source)
        if text == "latest":
            return log.end
        if text == "earliest":
            return log.start if not self.table else self.first_after(None)
        if text.isdecimal():
            return int(text) if name == "starting" else min(int(text), log.end)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise OptionError(
                f"{name}: {text!r} is neither earliest, latest, an offset nor a time such as 2026-11-01T12:00:00Z"
            ) from None
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if self.table:
            return self.first_after(moment)
        with RemoteLogs(self.broker.access) as logs:
            return logs.offset_at(self.source, round(moment.timestamp() * MICROSECONDS))

    def first_after(self, moment: datetime | None) -> int:
        """Return the first offset in table and queue at or after a time, or the queue's end if there is none."""
        whole = read_tiered(self.spark, self.source, self.table, self.broker.options)
        if moment is not None:
            whole = whole.where(F.col("timestamp") >= F.lit(moment))
        row = whole.agg(F.min("offset")).first()
        assert row is not None, "an aggregate has one row"
        return self.broker.look(self.source).end if row[0] is None else int(row[0])

    def chunk(self, first: int, end: int) -> DataFrame:
        """Return the records of [first, end) that match the filter, with the columns READ."""
        if self.table:
            tiered = read_tiered(self.spark, self.source, self.table, self.broker.options, first, end)
            lacking = [name for name in READ if name not in tiered.columns]
            if lacking:
                raise OptionError(f"table: {self.table!r} has no columns {', '.join(lacking)}: it cannot be replayed")
            found = tiered.where(matching(self.where, tiered)) if self.where else tiered
        else:
            schema = StructType([StructField(name, TYPES[name]) for name in READ])
            bounds = {name: json.dumps({self.source: {"0": at}}) for name, at in zip(BOUNDS, (first, end), strict=True)}
            filter = {FILTER: self.where} if self.where else {}
            found = self.broker.table(self.spark, [self.source], schema, **bounds, **filter)
        return found.select(*READ)


class ReplayEncoder(BlockEncoder):
    """An encoder that makes blocks of records as they were stored. Runs on executors."""

    def properties(self, batch: pa.RecordBatch) -> list[bytes]:
        """Return the encoded properties of each row, with headers for its origin."""
        columns = [python_values(batch.column(name)) for name in READ[:-1]]
        return [EXCHANGE_FORMAT.encode(replayed(*row)) for row in zip(*columns, strict=True)]


class ReplayStager(WriteTarget):
    """A write target that stages records as they were stored."""

    def encoder(self) -> BlockEncoder:
        """Return an encoder that takes properties from the stored record."""
        made = ReplayEncoder(self.options, self.columns)
        made.said = [HEADERS]  # makes the encoder call `properties` for each batch
        return made


def replayed(
    queue: str, offset: int, timestamp_us: int, exchange: str, routing_key: str, format: int, raw: bytes
) -> Properties:
    """Return the properties of a message to publish again, with headers for its origin."""
    said = properties_of(format, raw)
    made = Properties()
    for name in KEPT:
        setattr(made, name, getattr(said, name))
    # A message replayed before gets new headers, for its latest origin.
    made.headers = [(name, value) for name, value in said.headers if name not in DROPPED and not name.startswith(WAS)]
    was = {
        "queue": queue,
        "offset": offset,
        "timestamp-ms": timestamp_us // MILLISECOND,
        "exchange": exchange,
        "routing-key": routing_key,
    }
    made.headers += [(WAS + name, value) for name, value in was.items()]
    return made


# ---- running the plan


class Replay:
    """One run of a replay's plan."""

    def __init__(self, broker: Broker, rows: ReplayRows, plan: ReplayPlan, file: Path) -> None:
        self.rows = rows
        self.plan = plan
        self.file = file
        self.access = broker.access
        self.options = parse_sink({**broker.options, TOPIC: plan.into})

    def run(self, rate: float) -> Replayed:
        """Publish the chunks that are left, at most `rate` offsets per second; 0 is no limit."""
        plan = self.plan
        with connect(self.access) as client:
            first = max(plan.done, client.last_batch(plan.transaction) + 1)
        published = 0
        chunk_s = plan.chunk / rate if rate else 0.0
        hold_s = min(max(HOLD_S_MIN, 10 * chunk_s), HOLD_S_MAX)
        due = time.monotonic()
        with RemoteLogs(self.access) as logs:
            for number in range(first, plan.chunks):
                low, high = plan.bounds(number)
                logs.hold(plan.source, plan.transaction, low, hold_s)
                time.sleep(max(0.0, due - time.monotonic()))
                due = max(due, time.monotonic() - chunk_s) + chunk_s
                published += self.publish(number, self.rows.chunk(low, high))
                write_plan(self.file, replace(plan, done=number + 1))
            logs.patiently(lambda client: client.release(plan.source, plan.transaction))
        return Replayed(published, max(0, plan.chunks - first), plan.chunks, plan.first, plan.end)

    def publish(self, number: int, rows: DataFrame) -> int:
        """Publish one chunk as one transaction, and return its number of rows."""
        stager = ReplayStager(self.options, {VALUE: rows.columns.index(VALUE)})
        return publish(rows, stager, self.plan.transaction, number)
