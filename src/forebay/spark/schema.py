"""The columns of a queue as a table: those of Spark's Kafka source, and by name whatever else a message says."""

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

PARTITION: Final = 0  # a queue has one
LOG_APPEND_TIME: Final = 1  # Kafka's code: the timestamp is that of the broker's append, not of the publisher

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
# All there are. `exchange` and `routing_key` are text made of octets: what is not UTF-8 becomes U+FFFD there, while
# `key` has the octets. `format` and `raw_properties` are the record's own (core/message.py).
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

# Texts made of octets that a schema may ask for as they are: binary, with nothing put in place of what is no UTF-8.
AS_OCTETS: Final = ("exchange", "routing_key", "correlation_id")

COLUMNS_OF_BLOCKS: Final[dict[str, tuple[str, ...]]] = {
    "value": ("body", "format"),  # of some formats the body is not the payload itself
    "key": ("routing_key",),
    "routing_key": ("routing_key",),
    "exchange": ("exchange",),
    "timestamp": ("timestamp",),
    "format": ("format",),
    # Some annotations are headers to whoever reads properties.
    **dict.fromkeys(["raw_properties", *PROPERTY_TYPES], ("format", "properties", "annotations")),
}


def default_schema(headers: bool) -> StructType:
    """The columns that `load()` gives without a schema."""
    schema = StructType([StructField(name, type) for name, type in KAFKA_TYPES.items()])
    return schema.add(HEADERS_COLUMN, TYPES[HEADERS_COLUMN]) if headers else schema


def check_schema(schema: StructType) -> None:
    """OptionError unless every column is one of ours with its type."""
    for field in schema.fields:
        type = TYPES.get(field.name)
        if type is None:
            raise OptionError(f"schema: no column {field.name!r}; known are {', '.join(TYPES)}")
        if field.dataType != type and not (field.name in AS_OCTETS and field.dataType == BinaryType()):
            known = f"{type.simpleString()} or binary" if field.name in AS_OCTETS else type.simpleString()
            raise OptionError(f"schema: column {field.name!r} is {known}, not {field.dataType.simpleString()}")


def block_columns(names: Iterable[str]) -> list[str] | None:
    """The columns of a block that these columns are made of, by the block protocol's names.

    None for all: with the bodies, the broker sends a block as it is stored, which costs it next to nothing.
    """
    found = {column for name in names for column in COLUMNS_OF_BLOCKS.get(name, ())}
    return None if "body" in found else sorted(found)


def columns_of(names: Iterable[str]) -> int:
    """Return the bits of the columns that a read of `names` needs of a block (core/stored/columns.py)."""
    found = {column for name in names for column in COLUMNS_OF_BLOCKS.get(name, ())}
    return sum(COLUMNS[column] for column in found)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The schema in Arrow; Spark compares it with its own field by field, nullability too."""
    return pa.schema(
        [pa.field(field.name, to_arrow_type(field.dataType, timezone="UTC"), field.nullable) for field in schema.fields]
    )
