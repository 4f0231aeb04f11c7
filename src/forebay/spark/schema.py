"""The columns of a queue as a table: those of Spark's Kafka source, then ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from forebay.core.errors import OptionError

PARTITION: Final = 0  # a queue has one
LOG_APPEND_TIME: Final = 1  # Kafka's code: the timestamp is that of the broker's append, not of the publisher


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name and its type on both sides."""

    name: str
    spark: DataType
    arrow: pa.DataType


# One row a message. `exchange` and `routing_key` are text made of octets: what is not UTF-8 becomes U+FFFD there,
# while `key` has the octets. `format` and `raw_properties` are the record's own (core/message.py).
COLUMNS: Final = (
    Column("key", BinaryType(), pa.binary()),
    Column("value", BinaryType(), pa.binary()),
    Column("topic", StringType(), pa.string()),
    Column("partition", IntegerType(), pa.int32()),
    Column("offset", LongType(), pa.int64()),
    Column("timestamp", TimestampType(), pa.timestamp("us", tz="UTC")),
    Column("timestampType", IntegerType(), pa.int32()),
    Column("exchange", StringType(), pa.string()),
    Column("routing_key", StringType(), pa.string()),
    Column("format", IntegerType(), pa.int32()),
    Column("raw_properties", BinaryType(), pa.binary()),
)
BY_NAME: Final = {column.name: column for column in COLUMNS}


def full_schema() -> StructType:
    """All columns, as `load()` gives them without a schema."""
    return StructType([StructField(column.name, column.spark) for column in COLUMNS])


def check_schema(schema: StructType) -> None:
    """OptionError unless every column is one of ours with its type."""
    for field in schema.fields:
        column = BY_NAME.get(field.name)
        if column is None:
            raise OptionError(f"schema: no column {field.name!r}; known are {', '.join(BY_NAME)}")
        if field.dataType != column.spark:
            raise OptionError(
                f"schema: column {field.name!r} is {column.spark.simpleString()}, not {field.dataType.simpleString()}"
            )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema in Arrow; Spark compares it with its own field by field, nullability too."""
    return pa.schema([pa.field(field.name, BY_NAME[field.name].arrow, field.nullable) for field in schema.fields])
