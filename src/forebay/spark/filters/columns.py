"""Filters as Spark Columns over a table of records, with the result that the broker gives.

What Spark's own expressions can say exactly (`native`) stays in the JVM, and Spark looks at it first; what is left of a
conjunction is evaluated by our own code over Arrow batches, once for all of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import BooleanType

from forebay.core.errors import OptionError
from forebay.filter.nodes import And, FilterNode, MessageProperty, Path
from forebay.filter.parser import parse
from forebay.message.rows import UNKNOWN, YES, Rows, conditions_of
from forebay.message.subject import DEATH_NAMES, PROPERTY_NAMES
from forebay.spark.arrow.properties import bitmap, fixed_array, integers
from forebay.spark.filters.native import condition, joined

# The columns of a table that say what a filter asks for. Of `failures` no table knows.
SAID: Final = ("raw_properties", "format")
PROPERTY_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "queue": ("topic",),
    "offset": ("offset",),
    "exchange": ("exchange",),
    "routing_key": ("routing_key",),
    "topic": ("routing_key", "format"),
    "protocol": ("format",),
    "qos": ("format",),
    "stored_ms": ("timestamp",),
    "age_ms": ("timestamp",),
    "octets": ("value",),
    "deliveries": ("delivery_count",),
    **dict.fromkeys(PROPERTY_NAMES, SAID),
    **dict.fromkeys(DEATH_NAMES, SAID),
}
SQL_NAME: Final = "forebay_matches"
# Columns whose values differ from row to row: by all others a filter is evaluated once for each kind of row.
OWN_FIELDS: Final = frozenset({"bodies", "octets", "offsets", "timestamps_us"})
COLUMNS: Final = tuple(dict.fromkeys(name for names in PROPERTY_COLUMNS.values() for name in names))


def matching(filter: str, frame: DataFrame | None = None, /, **names: str) -> Column:
    """A filter as a Column: TRUE where it holds, FALSE where it does not, NULL where nobody knows.

    frame   the table to check: without it Spark says what is missing, when the Column is used
    names   of the table's columns that are called otherwise than the source's: `value="payload"`
    raises  RequestError(INVALID) with position and word where the text is no filter; OptionError where it asks for what
            no table has, where a name is none of COLUMNS, and where the frame lacks a column, which is named
    """
    known = {name: name for name in COLUMNS}
    for name, theirs in names.items():
        if name not in known:
            raise OptionError(f"no column {name!r}; known are {', '.join(COLUMNS)}")
        known[name] = theirs
    parts = conjuncts(parse(filter).root)
    if frame is not None:
        check_frame(frame, needed(parts), known)
    said = [condition(part, known) for part in parts]
    native = [column for column in said if column is not None]
    left = tuple(index for index, column in enumerate(said) if column is None)
    if left:
        native.append(evaluated(filter, left, [parts[index] for index in left], known))
    return joined(True, native)


def needs(filter: str) -> list[str]:
    """The columns of the source that a filter needs, for `.schema(…)`; errors as of `matching`."""
    return needed(conjuncts(parse(filter).root))


def conjuncts(root: FilterNode) -> list[FilterNode]:
    """The conditions that must all hold."""
    if not isinstance(root, And):
        return [root]
    return [each for part in root.parts for each in conjuncts(part)]


def needed(parts: Sequence[FilterNode]) -> list[str]:
    """The columns, in the order of COLUMNS, that conditions ask for; OptionError for a property that no table has."""
    found = {name for part in parts for name in columns_of(part)}
    return [name for name in COLUMNS if name in found]


def columns_of(node: FilterNode) -> set[str]:
    if isinstance(node, Path):
        return {"value"} if node.header is None else set(SAID)
    if isinstance(node, MessageProperty):
        if node.name not in PROPERTY_COLUMNS:
            raise OptionError(f"filter: of {node.name!r} a table knows nothing; only the broker does")
        return set(PROPERTY_COLUMNS[node.name])
    return {name for part in node.parts for name in columns_of(part)}


def check_frame(frame: DataFrame, needs: list[str], names: Mapping[str, str]) -> None:
    for name in needs:
        if names[name] not in frame.columns:
            raise OptionError(lacks(names[name], frame.columns))


def lacks(name: str, columns: Sequence[str]) -> str:
    return f"filter: it needs the column {name!r}; the table has {', '.join(columns)}"


# ---- our own evaluation


@dataclass(frozen=True, slots=True)
class Input:
    """A column handed to the evaluation: where it goes in `Rows`, and what it is in Spark."""

    field: str
    column: Column


def inputs_of(parts: Sequence[FilterNode], names: Mapping[str, str]) -> list[Input]:
    properties = {name for part in parts for name in properties_in(part)}
    found: list[Input] = []
    for name in needed(parts):
        theirs = names[name]
        if name == "timestamp":
            found.append(Input("timestamps_us", F.unix_micros(theirs)))
        elif name == "value":
            # The length alone need not bring the body with it.
            if "octets" in properties:
                found.append(Input("octets", F.octet_length(theirs)))
            if None in properties:
                found.append(Input("bodies", F.col(theirs).cast("binary")))
        else:
            found.append(Input(FIELDS[name], F.col(theirs)))
    if "age_ms" in properties:
        found.append(Input("now_us", F.unix_micros(F.current_timestamp())))
    return found


FIELDS: Final = {
    "topic": "queues",
    "offset": "offsets",
    "exchange": "exchanges",
    "routing_key": "keys",
    "format": "formats",
    "raw_properties": "raw",
    "delivery_count": "deliveries",
}


def properties_in(node: FilterNode) -> set[str | None]:
    """The properties that a part asks for; None is a path within the body."""
    if isinstance(node, MessageProperty):
        return {node.name}
    if isinstance(node, Path):
        return {None} if node.header is None else set()
    return {name for part in node.parts for name in properties_in(part)}


def evaluated(filter: str, left: tuple[int, ...], parts: list[FilterNode], names: Mapping[str, str]) -> Column:
    """Some of a filter's conjuncts by our own code, as one Column."""
    inputs = inputs_of(parts, names)
    made: Column = udf_of(evaluator(filter, left, [each.field for each in inputs]))(*[each.column for each in inputs])
    return made


def udf_of(function: Callable[..., pa.Array]) -> Any:
    make: Any = arrow_udf  # its types want a kind that it then finds out by the function's own types
    return make(function, BooleanType())


def evaluator(filter: str, left: tuple[int, ...], fields: list[str]) -> Callable[..., pa.Array]:
    """The function that runs in the executors: pickled, so it keeps the filter's text and not its tree."""

    def forebay_filter(*arrays: pa.Array) -> pa.Array:
        parts = parts_of(filter)
        return boolean_array(conditions(conjunction([parts[index] for index in left]), fields, arrays))

    return forebay_filter


@lru_cache(maxsize=64)
def parts_of(filter: str) -> list[FilterNode]:
    """A filter's conjuncts, parsed once in a process."""
    return conjuncts(parse(filter).root)


def conjunction(parts: list[FilterNode]) -> FilterNode:
    return parts[0] if len(parts) == 1 else And(parts)


def conditions(root: FilterNode, fields: Sequence[str], arrays: Sequence[pa.Array]) -> npt.NDArray[np.uint8]:
    """The condition for each row of a batch.

    fields, arrays  those of `Rows` that it needs, at least one
    """
    if OWN_FIELDS.isdisjoint(fields):
        firsts, which = distinct_rows(arrays)
        if len(firsts) <= len(which) // 2:
            rows = rows_of(fields, [array.take(firsts) for array in arrays])
            return np.frombuffer(conditions_of(root, rows), np.uint8)[which]
    return np.frombuffer(conditions_of(root, rows_of(fields, arrays)), np.uint8)


def rows_of(fields: Sequence[str], arrays: Sequence[pa.Array]) -> Rows:
    rows = Rows(len(arrays[0]))
    for field, array in zip(fields, arrays, strict=True):
        setattr(rows, field, array.to_pylist())
    return rows


def distinct_rows(arrays: Sequence[pa.Array]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The first row of each kind, and of which kind each row is."""
    which = np.zeros(len(arrays[0]), np.int64)
    firsts = which[:0]
    for array in arrays:
        encoded = array.dictionary_encode(null_encoding="encode")
        both = which * len(encoded.dictionary) + integers(encoded.indices)
        _, firsts, which = np.unique(both, return_index=True, return_inverse=True)
    return fixed_array(pa.int64(), firsts.astype(np.int64)), which


def boolean_array(conditions: npt.NDArray[np.uint8]) -> pa.Array:
    values = pa.py_buffer(np.packbits(conditions == YES, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(conditions), [bitmap(conditions != UNKNOWN), values])


# ---- in SQL


def register_matches(spark: SparkSession) -> None:
    """Give a session the SQL function `forebay_matches('filter', struct(*))`.

    It is all our own evaluation: `matching` is faster where a part of the filter can be said in Spark's words.
    """
    spark.udf.register(SQL_NAME, udf_of(matches_of))


def matches_of(filters: pa.Array, rows: pa.Array) -> pa.Array:
    """The result of each row's filter, mostly the same in all: a struct of columns of a table."""
    held = np.full(len(rows), UNKNOWN, np.uint8)
    encoded = filters.dictionary_encode(null_encoding="encode")
    which = integers(encoded.indices)
    for number, filter in enumerate(encoded.dictionary.to_pylist()):
        if filter is not None:
            (chosen,) = np.nonzero(which == number)
            some = rows if len(chosen) == len(rows) else rows.take(fixed_array(pa.int64(), chosen))
            held[chosen] = conditions_of_struct(conjunction(parts_of(filter)), some)
    return boolean_array(held)


def conditions_of_struct(root: FilterNode, rows: pa.Array) -> npt.NDArray[np.uint8]:
    columns = {field.name: rows.field(index) for index, field in enumerate(rows.type)}
    found: dict[str, pa.Array] = {}
    for name in needed([root]):
        if name not in columns:
            raise OptionError(lacks(name, list(columns)))
        column = columns[name]
        if name == "timestamp":
            found["timestamps_us"] = column.cast(pa.int64())
            found["now_us"] = fixed_array(pa.int64(), np.full(len(rows), time.time_ns() // 1000))
        elif name == "value":
            found["bodies"] = column.cast(pa.binary())
            found["octets"] = pc.binary_length(found["bodies"])
        else:
            found[FIELDS[name]] = column
    if not found:
        found["now_us"] = fixed_array(pa.int64(), np.zeros(len(rows), np.int64))
    return conditions(root, list(found), list(found.values()))
