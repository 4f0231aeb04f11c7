"""Filters as Spark Columns over a table of records, with the same result as the broker.

Conditions that Spark's own expressions can state exactly (`native`) stay in the JVM, where Spark evaluates them first.
The rest of a conjunction is evaluated by forebay's code over Arrow batches, in one step.
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

# The columns of a table that hold each property of a filter. No table has `failures`.
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
# Columns whose values differ from row to row. Over other columns, a filter is evaluated once per distinct row.
OWN_FIELDS: Final = frozenset({"bodies", "octets", "offsets", "timestamps_us"})
COLUMNS: Final = tuple(dict.fromkeys(name for names in PROPERTY_COLUMNS.values() for name in names))


def matching(filter: str, frame: DataFrame | None = None, /, **names: str) -> Column:
    """Return a filter as a Column: TRUE if it matches, FALSE if not, NULL if unknown.

    frame   the table to check for missing columns; without it Spark reports them when the Column is used
    names   the table's columns that are named otherwise than the source's: `value="payload"`
    raises  RequestError(INVALID) with position and word if the text is no filter; OptionError if the filter needs a
      property that no table has, if a name is none of COLUMNS, or if the frame lacks a column, which is named
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
    """Return the columns of the source that a filter needs, for `.schema(…)`. Raises the same errors as `matching`."""
    return needed(conjuncts(parse(filter).root))


def conjuncts(root: FilterNode) -> list[FilterNode]:
    """Return the conditions that must all hold, with nested ANDs flattened."""
    if not isinstance(root, And):
        return [root]
    return [each for part in root.parts for each in conjuncts(part)]


def needed(parts: Sequence[FilterNode]) -> list[str]:
    """Return the columns that conditions need, in the order of COLUMNS.

    Raises OptionError for a property that no table has.
    """
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


# ---- evaluation in Python


@dataclass(frozen=True, slots=True)
class Input:
    """A column passed to the evaluation: the field of `Rows` that it fills, and its expression in Spark."""

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
            # For the length alone the body need not be transferred.
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
    """Return the properties that a condition uses; None stands for a path within the body."""
    if isinstance(node, MessageProperty):
        return {node.name}
    if isinstance(node, Path):
        return {None} if node.header is None else set()
    return {name for part in node.parts for name in properties_in(part)}


def evaluated(filter: str, left: tuple[int, ...], parts: list[FilterNode], names: Mapping[str, str]) -> Column:
    """Return some conjuncts of a filter, evaluated in Python, as one Column.

    left  indices of these conjuncts in the filter
    """
    inputs = inputs_of(parts, names)
    made: Column = udf_of(evaluator(filter, left, [each.field for each in inputs]))(*[each.column for each in inputs])
    return made


def udf_of(function: Callable[..., pa.Array]) -> Any:
    make: Any = arrow_udf  # its type stubs require an argument that it infers from the function's annotations
    return make(function, BooleanType())


def evaluator(filter: str, left: tuple[int, ...], fields: list[str]) -> Callable[..., pa.Array]:
    """Return the function that runs in the executors. It is pickled, so it holds the filter's text and not its tree."""

    def forebay_filter(*arrays: pa.Array) -> pa.Array:
        parts = parts_of(filter)
        return boolean_array(conditions(conjunction([parts[index] for index in left]), fields, arrays))

    return forebay_filter


@lru_cache(maxsize=64)
def parts_of(filter: str) -> list[FilterNode]:
    """Return a filter's conjuncts, parsed once per process."""
    return conjuncts(parse(filter).root)


def conjunction(parts: list[FilterNode]) -> FilterNode:
    return parts[0] if len(parts) == 1 else And(parts)


def conditions(root: FilterNode, fields: Sequence[str], arrays: Sequence[pa.Array]) -> npt.NDArray[np.uint8]:
    """Evaluate a condition for each row of a batch.

    fields, arrays  names and values of the fields of `Rows` that the condition needs, at least one
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
    """Return the index of the first row of each distinct kind, and the kind of each row."""
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
    """Register the SQL function `forebay_matches('filter', struct(*))` with a session.

    It evaluates the whole filter in Python; `matching` is faster if Spark's expressions can state a part of the filter.
    """
    spark.udf.register(SQL_NAME, udf_of(matches_of))


def matches_of(filters: pa.Array, rows: pa.Array) -> pa.Array:
    """Evaluate each row's filter over its row, a struct of columns of a table.

    Fast if most rows have the same filter.
    """
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
