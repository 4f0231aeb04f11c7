"""The options and columns of the Spark sink, checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from forebay.core.errors import OptionError
from forebay.spark.access import BROKER_OPTIONS, Access
from forebay.spark.options import DAY_MS, RETRY, access_of, known_options
from forebay.spark.positions import integer
from forebay.spark.schema import TYPES

TOPIC: Final = "topic"
EXCHANGE: Final = "exchange"
TRANSACTION: Final = "transactionId"
COMMIT_TIMEOUT: Final = "commitTimeoutMs"
BATCH_ROWS: Final = "batchRows"
BATCH_OCTETS: Final = "batchOctets"
NAMES: Final = (
    *BROKER_OPTIONS,
    TOPIC,
    EXCHANGE,
    TRANSACTION,
    COMMIT_TIMEOUT,
    BATCH_ROWS,
    BATCH_OCTETS,
    RETRY,
)
OF_SPARK: Final = ("checkpointlocation", "queryname")  # Spark's own options of a stream, which it passes on
NAME_OCTETS_MAX: Final = 255  # longest name of a queue, an exchange or a transaction, and longest routing key
ROWS_MAX: Final = 1_000_000
OCTETS_MAX: Final = 32 << 20  # total of a block's values; the broker takes blocks of up to 64 MiB

VALUE: Final = "value"
ROUTING_KEY: Final = "routing_key"
HEADERS: Final = "headers"
OF_KAFKA: Final = {"queue": TOPIC, "key": ROUTING_KEY}  # other names of columns, used if the proper one is missing

_TEXT: Final = (StringType,)
_OCTETS: Final = (StringType, BinaryType)
_WHOLE: Final = (ByteType, ShortType, IntegerType, LongType)
COLUMNS: Final[dict[str, tuple[type[DataType], ...]]] = {
    VALUE: _OCTETS,
    TOPIC: _TEXT,
    EXCHANGE: _TEXT,
    ROUTING_KEY: _OCTETS,
    HEADERS: (MapType, ArrayType),
    "content_type": _TEXT,
    "content_encoding": _TEXT,
    "message_id": _TEXT,
    "correlation_id": _OCTETS,
    "reply_to": _TEXT,
    "type": _TEXT,
    "app_id": _TEXT,
    "priority": _WHOLE,
    "expiration_ms": _WHOLE,
    "delay_ms": _WHOLE,
    "timestamp": (TimestampType,),
}


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options of one write, checked.

    topic, exchange  None if a column gives it, or nothing does
    transaction      name of a batch write, so that it can be repeated; empty for none
    commit_s         how long the commit may take in seconds, including all attempts to learn its outcome
    rows_max, octets_max  limits of one block; a row that is longer has a block of its own
    """

    access: Access
    topic: str | None
    exchange: str | None
    transaction: str
    commit_s: float
    rows_max: int
    octets_max: int


def parse_sink(given: Mapping[str, str]) -> SinkOptions:
    """Parse and check the options of a write. Raises OptionError naming the option and its value.

    given  the options as Spark passes them: names in any case
    """
    ours = {name: value for name, value in given.items() if name.lower() not in OF_SPARK}
    values = known_options(ours, NAMES, "sink")
    return SinkOptions(
        access=access_of(values),
        topic=_name(values, TOPIC),
        exchange=_name(values, EXCHANGE),
        transaction=_name(values, TRANSACTION) or "",
        commit_s=_number(values, COMMIT_TIMEOUT, 300_000, 1, DAY_MS) / 1000,
        rows_max=_number(values, BATCH_ROWS, 4096, 1, ROWS_MAX),
        octets_max=_number(values, BATCH_OCTETS, 4 << 20, 1, OCTETS_MAX),
    )


def check_stream_sink(options: SinkOptions) -> None:
    """Raise OptionError if a stream's write cannot have these options."""
    if options.transaction:
        raise OptionError(f"{TRANSACTION}: {options.transaction!r}: a stream's batches are named by its checkpoint")


def sink_columns(schema: StructType, options: SinkOptions) -> dict[str, int]:
    """Return the index of each known column of the rows, by its name in COLUMNS.

    Columns of the source that the sink does not use are skipped, so that rows read from a queue can be written back.

    raises  OptionError naming the column
    """
    names = schema.fieldNames()
    found: dict[str, int] = {}
    for at, field in enumerate(schema.fields):
        name = OF_KAFKA.get(field.name, field.name)
        if name not in COLUMNS:
            if field.name not in TYPES:
                raise OptionError(f"column {field.name!r}: no column of the forebay sink; known are {_known()}")
            continue
        if name != field.name and name in names:
            continue
        if not isinstance(field.dataType, COLUMNS[name]) or not _has_headers_type(name, field.dataType):
            raise OptionError(f"column {field.name!r}: {field.dataType.simpleString()} cannot be its type; {_known()}")
        found[name] = at
    if VALUE not in found:
        raise OptionError(f"column {VALUE!r}: missing: it is the body of the messages, binary or string")
    if options.topic is None and options.exchange is None and TOPIC not in found and EXCHANGE not in found:
        raise OptionError(f"{TOPIC}: missing: give the queue as an option or as a column, or an {EXCHANGE}")
    return found


def _has_headers_type(name: str, type: DataType) -> bool:
    if name != HEADERS:
        return True
    if isinstance(type, MapType):
        return isinstance(type.keyType, StringType) and isinstance(type.valueType, StringType)
    if not isinstance(type, ArrayType) or not isinstance(type.elementType, StructType):
        return False
    fields = [(field.name, field.dataType) for field in type.elementType.fields]
    return fields == [("key", StringType()), ("value", BinaryType())]


def _known() -> str:
    return ", ".join(COLUMNS) + "; headers are map<string,string> or array<struct<key:string,value:binary>>"


def _name(values: Mapping[str, str], option: str) -> str | None:
    text = values.get(option)
    if text is not None and not 0 < len(text.encode("utf-8", "surrogateescape")) <= NAME_OCTETS_MAX:
        raise OptionError(f"{option}: {text[:80]!r} is not text of 1 to {NAME_OCTETS_MAX} octets")
    return text


def _number(values: Mapping[str, str], option: str, default: int, least: int, most: int) -> int:
    return integer(option, values[option], least, most) if option in values else default
