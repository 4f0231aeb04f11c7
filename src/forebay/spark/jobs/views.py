"""Views: SQL queries over queues, kept up to date, whose results are published to a queue.

    publish_view(
        spark,
        "SELECT carrier, window.end, avg(delay) AS delay FROM flights GROUP BY carrier, window(timestamp, '1 minute')",
        into="delays",
        sources={"flights": Source("flights", columns="carrier string, delay int", watermark="10 seconds")},
        options={"forebay.servers": "localhost:5672"},
        checkpoint="/jobs/delays",
    )

Each row of the result is a message: a JSON object, exactly once. Clients subscribe to the queue with AMQP or MQTT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.types import StructField, StructType

from forebay.core.errors import NOT_FOUND, OptionError, RequestError
from forebay.spark.jobs.bodies import first_line, with_body_columns
from forebay.spark.jobs.broker import Broker
from forebay.spark.jobs.publishing import publish
from forebay.spark.positions import STARTING_OFFSETS, SUBSCRIBE, subscription_of
from forebay.spark.schema import TYPES
from forebay.spark.sink.options import EXCHANGE, TOPIC, SinkOptions, parse_sink, sink_columns
from forebay.spark.sink.writer import QUERY_PROPERTY, WriteTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

UPDATE: Final = "update"
MODES: Final = ("append", UPDATE, "complete")
ALWAYS: Final = ("queue", "offset", "timestamp", "routing_key", "value")
KEY_HEADER: Final = "x-view-key"
TRIGGER: Final = "500 milliseconds"
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Source:
    """A queue as a table of a view.

    columns     fields of the JSON bodies, such as `carrier string, delay int, at timestamp`
    event_time  the column that has a row's time: the broker's timestamp by default, or one of `columns`
    watermark   how late a row may come after a later row of its table, such as `10 seconds`. Without a watermark, the
                state of windows and joins is never released, and the mode append cannot have windows
    options     further options of the source, such as startingOffsets (earliest by default) or filter
    """

    queue: str
    columns: str = ""
    event_time: str = "timestamp"
    watermark: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


def publish_view(
    spark: SparkSession,
    sql: str,
    into: str,
    sources: Mapping[str, Source | str],
    options: Mapping[str, str],
    *,
    checkpoint: str,
    mode: str = "append",
    key: str = "",
    exchange: str = "",
    queue_type: str = "stream",
    trigger: str = TRIGGER,
    once: bool = False,
) -> StreamingQuery:
    """Start a streaming query and publish its results, until the query is stopped.

    sql       over the names of `sources`. A table has queue, offset, timestamp, routing_key, value and the fields of
              its bodies; other columns of the source (message_id, properties, ...) if the query names them
    into      the queue for the result; created as a `queue_type` if it does not exist, which needs an administrator
    mode      append: each row once, when it is final; update: a row whenever it has changed; complete: all rows
              each time
    key       column of the result that identifies a row: sent as the header `x-view-key`, and at the end of the
              routing key if there is an exchange
    exchange  publish to this exchange instead, with the routing key `into`, or `into.<key>`
    once      whether to end when the records there now are in the view; if not, run every `trigger`
    raises    OptionError naming the argument; RequestError
    """
    if mode not in MODES:
        raise OptionError(f"mode: {mode!r} is none of {', '.join(MODES)}")
    if not checkpoint:
        raise OptionError("checkpoint: missing: a folder that outlives the job, or rows would be published twice")
    broker = Broker(options)
    make_queue(broker, into, queue_type)
    make_tables(spark, broker, sources, sql, True)
    try:
        rows = messages_of(spark.sql(sql), into, key, exchange)
        where = {**broker.options, **({EXCHANGE: exchange} if exchange else {TOPIC: into})}
        writer = rows.writeStream.outputMode(mode).option("checkpointLocation", checkpoint).queryName(f"view {into}")
        if mode == UPDATE:  # Spark does not allow this mode for sinks written in Python
            writer = writer.foreachBatch(Updates(parse_sink(where)))
        else:
            writer = writer.format("forebay").options(**where)
        return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=trigger)).start()
    except PySparkException as error:
        raise OptionError(f"sql: {sql!r}: {first_line(error)}") from None


def query(spark: SparkSession, sql: str, sources: Mapping[str, Source | str], options: Mapping[str, str]) -> DataFrame:
    """Run a query once over the queues as they are now, and return the result as a table.

    The arguments are those of `publish_view`.
    """
    make_tables(spark, Broker(options), sources, sql, False)
    try:
        return spark.sql(sql)
    except PySparkException as error:
        raise OptionError(f"sql: {sql!r}: {first_line(error)}") from None


def latest_sql(table: str, key: str, columns: str) -> str:
    """Return a query for the last row of each key by the broker's timestamp, for the mode update.

    columns  names of the columns to select, separated by commas
    """
    latest = f"SELECT {key}, max_by(struct({columns}), struct(timestamp, offset)) AS latest FROM {table} GROUP BY {key}"
    return f"SELECT {key}, latest.* FROM ({latest})"


def make_queue(broker: Broker, name: str, type: str) -> None:
    """Create a queue unless one of the name exists; an existing queue is not changed."""
    try:
        broker.look(name)
    except RequestError as error:
        if error.reason != NOT_FOUND:
            raise
        with broker.administrator() as administrator:
            administrator.run("queue.declare", queue=name, type=type)


def make_tables(
    spark: SparkSession, broker: Broker, sources: Mapping[str, Source | str], sql: str, streams: bool
) -> None:
    """Register the sources as temporary views of a session's SQL, as streams or as they are now."""
    for name, source in sources.items():
        if not NAME.fullmatch(name):
            raise OptionError(f"sources: {name!r} is no name for a table: give it one, as in orders=my.orders")
        known = Source(source) if isinstance(source, str) else source
        broker.look(known.queue)
        table_of(spark, broker, known, sql, streams).createOrReplaceTempView(name)


def table_of(spark: SparkSession, broker: Broker, source: Source, sql: str, streams: bool) -> DataFrame:
    """Return a source as rows. Of the columns that are costly to read, only those that the query names are included."""
    words = set(NAME.findall(sql)) | {source.event_time}
    names = [name for name in TYPES if name in ALWAYS or name in words]
    schema = StructType([StructField(name, TYPES[name]) for name in names])
    given = {
        STARTING_OFFSETS: "earliest",
        **broker.options,
        **source.options,
        SUBSCRIBE: subscription_of([source.queue]),
    }
    reader = spark.readStream if streams else spark.read
    rows = reader.format("forebay").options(**given).schema(schema).load()
    table = with_body_columns(rows, source.columns)
    if source.event_time not in table.columns:
        raise OptionError(f"event_time: {source.event_time!r} is no column; there are {', '.join(table.columns)}")
    if not (streams and source.watermark):
        return table
    try:
        return table.withWatermark(source.event_time, source.watermark)
    except PySparkException as error:
        raise OptionError(f"watermark: {source.watermark!r}: {first_line(error)}") from None


class Updates:
    """Publishes each micro-batch as the sink does, under the query's id and the batch's number.

    Spark calls it on the driver.
    """

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Publish one micro-batch."""
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
        assert query, "Spark says which query this is"
        publish(rows, WriteTarget(self.options, sink_columns(rows.schema, self.options)), query, number)


def messages_of(result: DataFrame, into: str, key: str, exchange: str) -> DataFrame:
    """Return rows of the result as rows for the sink."""
    body = F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("value")
    kind = F.lit("application/json").alias("content_type")
    if not key:
        routing_key = [F.lit(into).alias("routing_key")] if exchange else []
        return result.select(body, kind, *routing_key)
    if key not in result.columns:
        raise OptionError(f"key: {key!r} is no column of the result; there are {', '.join(result.columns)}")
    text = F.coalesce(F.col(key).cast("string"), F.lit(""))
    routing_key = [F.concat(F.lit(f"{into}."), text).alias("routing_key")] if exchange else []
    return result.select(body, kind, F.create_map(F.lit(KEY_HEADER), text).alias("headers"), *routing_key)
