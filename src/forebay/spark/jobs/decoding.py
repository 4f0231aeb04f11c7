"""Decodes JSON, Avro and Protobuf bodies into columns, with a choice of what to do with bodies that cannot be decoded.

    flights = decode(flights, "carrier string, delay int", on_error="quarantine", quarantine={**broker, "topic": "bad"})

Spark's own functions make NULL of what they cannot read, or fail the job. Here the caller chooses: the job fails
and names the record, a column has the error, or the record goes to a queue as it is. Bad bodies are counted either way.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from forebay.core.errors import OptionError
from forebay.spark.formats.avro import AvroFormat
from forebay.spark.formats.body_format import BodyFormat, BodyReading
from forebay.spark.formats.protobuf import ProtobufFormat
from forebay.spark.jobs.bodies import BODY, body_schema, check_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ERROR: Final = "decode_error"
FAIL: Final = "fail"
COLUMN: Final = "column"
QUARANTINE: Final = "quarantine"
WAYS: Final = (FAIL, COLUMN, QUARANTINE)
JSON: Final = "json"
AVRO: Final = "avro"
PROTOBUF: Final = "protobuf"
FORMATS: Final = (JSON, AVRO, PROTOBUF)
CORRUPT: Final = "_forebay_corrupt"
OBSERVED: Final = "forebay_decode"
# Headers of a quarantined message, each from a column: the error, and the queue and offset of the original.
HEADERS: Final = {"x-decode-error": ERROR, "x-decode-queue": "topic", "x-decode-offset": "offset"}


def decode(
    frame: DataFrame,
    schema: str | StructType,
    *,
    format: str = JSON,
    descriptor: str | Path | bytes = "",
    skip: int = 0,
    on_error: str = FAIL,
    quarantine: Mapping[str, str] | None = None,
    checkpoint: str = "",
) -> DataFrame:
    """Add the fields of the bodies, in the column `value`, to the rows as columns.

    A field that a JSON body does not have is NULL. A body is bad if it is NULL, is not of its format, or has a value
    of another type than its field. A query's progress counts rows and bad bodies: `observedMetrics["forebay_decode"]`.

    schema      json: names and types as in CREATE TABLE, or Spark's own; avro: the writer's schema, a record, as JSON;
                protobuf: the full name of the message
    format      json, avro or protobuf; the last two need fastavro or protobuf where executors run
    descriptor  protobuf: a FileDescriptorSet, or the path of one
    skip        avro, protobuf: bytes in front of each body, such as the 5 of a schema registry's clients
    on_error    fail: the job fails, with queue and offset; column: the column `decode_error` has the error, or NULL;
                quarantine: only good rows are returned, and bad ones are published
    quarantine  options of the sink that bad rows are published with. In a batch they are published at once; give a
                `transactionId` to publish them only once. In a stream, a query of its own publishes them, which must be
                stopped like any other
    checkpoint  checkpoint folder of that query
    raises      OptionError naming the argument
    """
    if on_error not in WAYS:
        raise OptionError(f"on_error: {on_error!r} is none of {', '.join(WAYS)}")
    if (on_error == QUARANTINE) != (quarantine is not None):
        raise OptionError(f"quarantine: the options of a sink, for on_error={QUARANTINE!r} only")
    if "value" not in frame.columns:
        raise OptionError(f"value: the bodies are missing; there are {', '.join(frame.columns)}")
    parsed, names = read_bodies(frame, schema, format, descriptor, skip)
    if on_error == FAIL:
        parsed = parsed.withColumn(BODY, F.when(F.col(ERROR).isNull(), F.col(BODY)).otherwise(failure(frame)))
    elif on_error == QUARANTINE and quarantine is not None:
        put_aside(parsed.where(F.col(ERROR).isNotNull()), frame, quarantine, checkpoint)
    counted = parsed.observe(OBSERVED, F.count("*").alias("rows"), F.count(ERROR).alias("bad"))
    kept = counted.where(F.col(ERROR).isNull()) if on_error == QUARANTINE else counted
    told = [ERROR] if on_error == COLUMN else []
    return kept.select(*frame.columns, *(F.col(BODY)[name].alias(name) for name in names), *told)


def read_bodies(
    frame: DataFrame, schema: str | StructType, kind: str, descriptor: str | Path | bytes, skip: int
) -> tuple[DataFrame, list[str]]:
    """Return the rows with the decoded body and the decoding error as columns, and the names of the body's fields."""
    if descriptor and kind != PROTOBUF:
        raise OptionError(f"descriptor: for format={PROTOBUF!r} only, and this is {kind!r}")
    if skip and kind == JSON:
        raise OptionError(f"skip: {skip}: for format={AVRO!r} and {PROTOBUF!r} only")
    if skip < 0:
        raise OptionError(f"skip: {skip}: a number of octets is 0 or more")
    if kind == JSON:
        fields = body_schema(schema) if isinstance(schema, str) else schema
        check_names(frame, [*fields.fieldNames(), ERROR])
        return with_error(frame, fields), fields.fieldNames()
    if kind not in FORMATS:
        raise OptionError(f"format: {kind!r} is none of {', '.join(FORMATS)}")
    if not isinstance(schema, str):
        what = "the writer's schema as JSON" if kind == AVRO else "the name of the message"
        raise OptionError(f"schema: for format={kind!r} it is text: {what}")
    bodies: BodyFormat = AvroFormat(schema) if kind == AVRO else ProtobufFormat(schema, descriptor)
    names = bodies.columns().fieldNames()
    check_names(frame, [*names, ERROR])
    more = [StructField(BODY, bodies.columns()), StructField(ERROR, StringType())]
    reading = BodyReading(bodies, skip, frame.columns.index("value"), BODY, ERROR)
    return frame.mapInArrow(reading, StructType([*frame.schema.fields, *more])), names


def with_error(frame: DataFrame, fields: StructType) -> DataFrame:
    """Return the rows with the decoded JSON body and the decoding error as columns."""
    # Make every field nullable: Spark would fill a missing field that is not nullable with "" or 0.
    optional = [StructField(field.name, field.dataType) for field in fields.fields]
    reading = StructType([*optional, StructField(CORRUPT, StringType())])
    text = F.col("value").cast("string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    read = frame.withColumn(BODY, F.from_json(text, reading, options))
    wrong = (
        F.when(F.col("value").isNull(), "there is no body")
        .when(~F.is_valid_utf8(text), "it is not UTF-8")
        .when(~F.ltrim(text).startswith("{"), "it is no JSON object")
        .when(F.col(BODY).isNull() | F.col(BODY)[CORRUPT].isNotNull(), "it is no JSON object with these types")
    )
    return read.withColumn(ERROR, wrong)


def failure(frame: DataFrame) -> Column:
    """Return an expression that fails the job for a bad body, naming its queue and offset if known."""
    places = [
        F.concat(F.lit(f" {name} "), F.col(name).cast("string")) for name in HEADERS.values() if name in frame.columns
    ]
    return F.raise_error(F.concat(F.lit("body of"), *(places or [F.lit(" a row")]), F.lit(": "), F.col(ERROR)))


def put_aside(bad: DataFrame, frame: DataFrame, options: Mapping[str, str], checkpoint: str) -> None:
    """Publish the bad rows with their bodies unchanged, and with headers for the error, queue and offset."""
    names = [(header, name) for header, name in HEADERS.items() if name in bad.columns]
    pairs = [part for header, name in names for part in (F.lit(header), F.col(name).cast("string"))]
    body = F.coalesce(F.col("value").cast("binary"), F.lit(b""))
    letters = bad.select(body.alias("value"), F.create_map(*pairs).alias("headers"))
    if not frame.isStreaming:
        letters.write.format("forebay").options(**options).mode("append").save()
        return
    if not checkpoint:
        raise OptionError("checkpoint: missing: a folder for the query that publishes what is bad")
    letters.writeStream.format("forebay").options(**options).option("checkpointLocation", checkpoint).start()
