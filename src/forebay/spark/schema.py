"""The columns of a queue as a table: those of Spark's Kafka source, and a column for each other field of a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
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
from forebay.core.stored.columns import COLUMNS
from forebay.spark.arrow.properties import PROPERTY_TYPES

PARTITION: Final = 0  # a queue has one partition
LOG_APPEND_TIME: Final = 1  # Kafka's code for a timestamp set by the broker on append, not by the publisher

HEADERS_COLUMN: Final = "headers"
DELIVERY_COUNT: Final = "delivery_count"

# The columns of `load()` without a schema: one row a message, as in Spark's Kafka source.
KAFKA_TYPES: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}
# All columns. `exchange` and `routing_key` are made of bytes: in these columns what is not UTF-8 becomes U+FFFD, while
# `key` has the bytes. `format` and `raw_properties` are as the record stores them (core/message.py).
TYPES: Final[dict[str, DataType]] = {
    **KAFKA_TYPES,
    "queue": StringType(),
    "exchange": StringType(),
    "routing_key": StringType(),
    "format": IntegerType(),
    "raw_properties": BinaryType(),
    DELIVERY_COUNT: IntegerType(),
    **PROPERTY_TYPES,
}

# Text columns that a schema may ask for as binary: the bytes as they are, even where they are not UTF-8.
AS_OCTETS: Final = ("exchange", "routing_key", "correlation_id")

COLUMNS_OF_BLOCKS: Final[dict[str, tuple[str, ...]]] = {
    "value": ("body", "format"),  # in some formats the body wraps the payload
    "key": ("routing_key",),
    "routing_key": ("routing_key",),
    "exchange": ("exchange",),
    "timestamp": ("timestamp",),
    "format": ("format",),
    # Some annotations are shown to readers as headers.
    **dict.fromkeys(["raw_properties", *PROPERTY_TYPES], ("format", "properties", "annotations")),
}


def default_schema(headers: bool) -> StructType:
    """Return the columns of `load()` without a schema.

    headers  whether to include the column of headers
    """
    schema = StructType([StructField(name, type) for name, type in KAFKA_TYPES.items()])
    return schema.add(HEADERS_COLUMN, TYPES[HEADERS_COLUMN]) if headers else schema


def check_schema(schema: StructType) -> None:
    """Raise OptionError unless every column is known and has its type."""
    for field in schema.fields:
        type = TYPES.get(field.name)
        if type is None:
            raise OptionError(f"schema: no column {field.name!r}; known are {', '.join(TYPES)}")
        if field.dataType != type and not (field.name in AS_OCTETS and field.dataType == BinaryType()):
            known = f"{type.simpleString()} or binary" if field.name in AS_OCTETS else type.simpleString()
            raise OptionError(f"schema: column {field.name!r} is {known}, not {field.dataType.simpleString()}")


def block_columns(names: Iterable[str]) -> list[str] | None:
    """Return which columns of a block are needed for columns of the table, by the block protocol's names.

    Returns None for all columns, if bodies are needed: the broker then sends a block as it is stored, which costs it
    next to nothing.
    """
    found = {column for name in names for column in COLUMNS_OF_BLOCKS.get(name, ())}
    return None if "body" in found else sorted(found)


def columns_of(names: Iterable[str]) -> int:
    """Return the bits of the columns that a read of `names` needs of a block (core/stored/columns.py)."""
    found = {column for name in names for column in COLUMNS_OF_BLOCKS.get(name, ())}
    return sum(COLUMNS[column] for column in found)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema in Arrow. Spark compares it with its own field by field, including nullability."""
    return pa.schema(
        [pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC"), field.nullable) for field in schema.fields]
    )
