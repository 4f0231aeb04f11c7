"""The layout of a table: its columns, its partitions, and the description of each of its files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Self

import pyarrow as pa
from pyspark.sql.types import DataType, DateType, IntegerType, StringType, StructField, StructType

from forebay.core.errors import OptionError
from forebay.spark.schema import DELIVERY_COUNT, TYPES, arrow_schema

COLUMNS: Final = ("offset", "timestamp", "key", "value", "exchange", "routing_key", "format", "raw_properties")
NEEDED: Final = ("offset", "timestamp")  # columns that every table needs, to verify that rows are there once
QUEUE: Final = "queue"
TIMES: Final[dict[str, tuple[DataType, pa.DataType]]] = {
    "day": (DateType(), pa.date32()),
    "hour": (IntegerType(), pa.int32()),
}
# Columns that are equal for all rows of a queue, or change after a record was written.
LEFT_OUT: Final = ("queue", "topic", "partition", "timestampType", DELIVERY_COUNT)
KNOWN: Final = {name: type for name, type in TYPES.items() if name not in LEFT_OUT}
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
# Characters that Spark escapes in a folder's name, so that it can read the value back.
ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^") | frozenset(map(chr, range(0x20)))
NAME_OCTETS_MAX: Final = 255  # longest name of a file or folder, on every file system in use


class TableError(OptionError):
    """A table is not as declared, or the data to add does not fit it."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file of a table, with records of one queue.

    path              relative to the table's folder
    octets            length of the file in bytes
    partition         the partition columns as text, `queue` first
    first, end        the lowest offset, and the highest plus one
    first_us, last_us a lower bound and an upper bound of the timestamps, in microseconds; nearly exact
    """

    path: str
    octets: int
    rows: int
    partition: dict[str, str]
    first: int
    end: int
    first_us: int
    last_us: int

    @property
    def queue(self) -> str:
        """Return the queue whose records are in the file."""
        return self.partition[QUEUE]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table.

    columns     columns of the source, in their order
    partitions  partition columns besides `queue`: day, hour, then columns of text
    """

    columns: tuple[str, ...]
    partitions: tuple[str, ...]

    @property
    def partition_names(self) -> list[str]:
        """Return all partition columns, outermost first."""
        return [QUEUE, *self.partitions]

    @property
    def times(self) -> list[str]:
        """Return the partition columns that are derived from the timestamp."""
        return [name for name in self.partitions if name in TIMES]

    @property
    def keys(self) -> list[str]:
        """Return the partition columns that are columns of the source."""
        return [name for name in self.partitions if name not in TIMES]

    def source_schema(self) -> StructType:
        """Return the columns to read from a queue to write the table."""
        return StructType([StructField(name, KNOWN[name]) for name in [*self.columns, *self.keys]])

    def spark_schema(self) -> StructType:
        """Return the table's schema in Spark."""
        fields = [StructField(name, KNOWN[name]) for name in self.columns]
        return StructType([*fields, *[StructField(name, spark_type(name)) for name in self.partition_names]])

    def arrow_schema(self, with_partitions: bool = True) -> pa.Schema:
        """Return the schema in Arrow of the table, or of a file without the partition columns."""
        fields = list(arrow_schema(StructType([StructField(name, KNOWN[name]) for name in self.columns])))
        if with_partitions:
            fields += [pa.field(name, arrow_type(name)) for name in self.partition_names]
        return pa.schema(fields)

    def to_json(self) -> dict[str, Any]:
        return {"columns": list(self.columns), "partitions": list(self.partitions)}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(tuple(values["columns"]), tuple(values["partitions"]))


def make_layout(columns: Sequence[str] | None, partition_by: str | Sequence[str] | None) -> Layout:
    """Return the layout that the arguments describe. Raises OptionError naming an unknown or repeated column."""
    asked = [partition_by] if isinstance(partition_by, str) else list(partition_by or [])
    if "hour" in asked and "day" not in asked:
        asked.insert(0, "day")
    keys = [name for name in asked if name not in TIMES]
    for name in keys:
        if KNOWN.get(name) != StringType():
            texts = [each for each, type in KNOWN.items() if type == StringType()]
            raise OptionError(f"partition_by: {name!r} is none of {', '.join([*TIMES, *texts])}")
    if len(set(asked)) < len(asked):
        raise OptionError(f"partition_by: {', '.join(asked)} has a column twice")
    chosen = list(COLUMNS if columns is None else columns)
    for name in chosen:
        if name not in KNOWN:
            raise OptionError(f"columns: {name!r} is none of {', '.join(KNOWN)}")
    if len(set(chosen)) < len(chosen):
        raise OptionError(f"columns: {', '.join(chosen)} has a column twice")
    chosen = [*[name for name in NEEDED if name not in chosen], *chosen]
    times = [name for name in TIMES if name in asked]
    return Layout(tuple(name for name in chosen if name not in keys), (*times, *keys))


def spark_type(name: str) -> DataType:
    """Return Spark's type of a partition column."""
    return TIMES[name][0] if name in TIMES else StringType()


def arrow_type(name: str) -> pa.DataType:
    return TIMES[name][1] if name in TIMES else pa.string()


def check_columns(table: str, names: Sequence[str], by: Sequence[str], layout: Layout) -> None:
    """Raise TableError unless a table has the columns of a layout.

    names, by  all columns of the table, and its partition columns
    """
    wanted, wanted_by = layout.arrow_schema().names, layout.partition_names
    if sorted(names) != sorted(wanted) or list(by) != wanted_by:
        raise TableError(
            f"{table} has the columns {', '.join(names)} by {', '.join(by)}, not {', '.join(wanted)} by "
            f"{', '.join(wanted_by)}; a table's columns do not change: make a new one"
        )


def local_path(location: str) -> str:
    """Return the path of a URL in a mounted file system. Raises TableError for any other URL."""
    scheme, separator, path = location.partition("://")
    if separator and scheme != "file":
        raise TableError(f"{location}: tables are written to a file system that is mounted, not to {scheme}://")
    return (path if separator else location).rstrip("/")


def partition_folder(partition: Mapping[str, str]) -> str:
    """Return the path of a partition's folder, named as by Spark: `queue=a%2Fb/day=2026-01-31`."""
    parts = [f"{name}={escaped(value) if value else NO_VALUE}" for name, value in partition.items()]
    for part in parts:
        if len(part.encode()) > NAME_OCTETS_MAX:
            raise OptionError(f"partition_by: {part[:80]!r}… has over {NAME_OCTETS_MAX} octets: too long for a folder")
    return str(PurePosixPath(*parts))


def escaped(value: str) -> str:
    return "".join([f"%{ord(char):02X}" if char in ESCAPED else char for char in value])


def file_name(queue: str, first: int, end: int, token: str) -> str:
    """Return the name of a data file, which tells its offsets and sorts by them."""
    plain = "".join([char if char.isascii() and (char.isalnum() or char in "-_.") else "_" for char in queue])
    return f"{plain[:80].lstrip('._') or 'queue'}-{first:019d}-{end:019d}-{token}.parquet"
