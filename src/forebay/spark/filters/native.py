"""Conditions of filters in Spark's own expressions, where they give the same result for every possible row.

A part of a filter that is not translated here is evaluated in Python (`columns`). Not translated on purpose: all that
looks into the body (no JSON parser of Spark accepts exactly what ours does), headers and properties, LIKE (Java's
patterns differ), case folding (Java's tables differ), and texts that are read as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.core.message import FORMAT_MASK, QOS_MASK, QOS_SHIFT
from forebay.filter.nodes import Affix, And, Between, Comparison, FilterNode, In, IsNull, MessageProperty, Not, Or, Path
from forebay.filter.subject import Subject
from forebay.filter.values import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    GREATER,
    LESS,
    UNEQUAL,
    compare_single,
    condition_of,
    first,
    number_in,
    text,
)
from forebay.message.formats.table import FORMATS

TEXT: Final = "text"
NUMBER: Final = "number"
TIME: Final = "time"  # milliseconds; the table's column is a timestamp
LONG_MOST: Final = (1 << 63) - 1
# The bound of a Spark timestamp in milliseconds, as Spark counts microseconds in 64 bits.
TIME_MS_MOST: Final = LONG_MOST // 1000 - 1
TURNED: Final = {EQUAL: EQUAL, UNEQUAL: UNEQUAL, LESS: GREATER, GREATER: LESS, AT_MOST: AT_LEAST, AT_LEAST: AT_MOST}


class Nothing(Subject):
    """A message without content, for evaluating constants: parts of a filter without properties and paths."""

    def property(self, name: str) -> object:
        raise AssertionError(name)

    def header(self, name: str) -> object:
        raise AssertionError(name)

    def parse_body(self) -> object:
        raise AssertionError


NOTHING: Final = Nothing()


@dataclass(frozen=True, slots=True)
class Operand:
    """One side of a comparison: a column with its kind, or a constant if `column` is None."""

    kind: str
    column: Column | None
    constant: object = None


def is_constant(node: FilterNode) -> bool:
    """Return whether a part of a filter uses nothing of a message."""
    return not isinstance(node, MessageProperty | Path) and all(is_constant(part) for part in node.parts)


def condition(
    node: FilterNode, names: Mapping[str, str]
) -> Column | None:  # tidy: dispatcher, one branch a kind of node
    """Return a condition as a Spark expression, NULL if it is neither true nor false; None if Spark cannot state it.

    names  the table's columns, by the source's names for them
    """
    if is_constant(node):
        return truth(condition_of(node.evaluate(NOTHING)))
    if isinstance(node, And | Or | Not):
        parts = [condition(part, names) for part in node.parts]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        if isinstance(node, Not):
            return ~known[0]
        return joined(isinstance(node, And), known)
    if isinstance(node, Comparison):
        return compared(int(node.comparison), operand(node.parts[0], names), operand(node.parts[1], names))
    if isinstance(node, Between):
        value, low, high = [operand(part, names) for part in node.parts]
        above, below = compared(AT_LEAST, value, low), compared(AT_MOST, value, high)
        return None if above is None or below is None else above & below
    if isinstance(node, In):
        return contained(operand(node.parts[0], names), [operand(part, names) for part in node.parts[1:]])
    if isinstance(node, Affix):
        return affixed(node, operand(node.parts[0], names), operand(node.parts[1], names))
    if isinstance(node, IsNull):
        value = operand(node.parts[0], names)
        return None if value is None or value.column is None else value.column.isNull()
    return None


def joined(all_of: bool, parts: list[Column]) -> Column:
    """Return the AND or OR of the parts as a balanced tree, as Spark walks it by recursion."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = joined(all_of, parts[:half]), joined(all_of, parts[half:])
    return left & right if all_of else left | right


def truth(value: object) -> Column:
    return F.lit(value).cast("boolean")


def operand(node: FilterNode, names: Mapping[str, str]) -> Operand | None:
    """Return a value as an operand of Spark's expressions, or None if Spark cannot state it."""
    if is_constant(node):
        constant = first(node.evaluate(NOTHING))
        return None if is_broken_text(constant) else Operand("", None, constant)
    return property(node.name, names) if isinstance(node, MessageProperty) else None


def is_broken_text(constant: object) -> bool:
    """Return whether the constant is a text with half a surrogate pair, which cannot be passed to Java."""
    return isinstance(constant, str) and constant != constant.encode("utf-8", "replace").decode()


def property(name: str, names: Mapping[str, str]) -> Operand | None:
    """Return a property as an operand if the table has it or it follows from the table's columns, else None."""
    if name in TEXT_PROPERTIES:
        return Operand(TEXT, present(F.col(names[TEXT_PROPERTIES[name]])))
    if name in {"offset", "deliveries"}:
        return Operand(NUMBER, F.col(names["offset" if name == "offset" else "delivery_count"]).cast("long"))
    if name == "octets":
        return Operand(NUMBER, F.octet_length(names["value"]).cast("long"))
    if name == "stored_ms":
        return Operand(TIME, F.col(names["timestamp"]))
    if name == "age_ms":
        age_us = F.unix_micros(F.current_timestamp()) - F.unix_micros(names["timestamp"])
        return Operand(NUMBER, F.unix_millis(F.timestamp_micros(age_us)))
    return address_property(name, names)


TEXT_PROPERTIES: Final = {"queue": "topic", "exchange": "exchange", "routing_key": "routing_key"}


def address_property(name: str, names: Mapping[str, str]) -> Operand | None:
    """Return `protocol`, `qos` or `topic`, derived from a record's format as in `records.subject.address_property`."""
    if name not in {"protocol", "qos", "topic"}:
        return None
    format = F.coalesce(F.col(names["format"]), F.lit(0))
    protocol = format.bitwiseAND(FORMAT_MASK)
    if name == "protocol":
        said = F.lit(None).cast("string")
        for each in FORMATS:
            said = F.when(protocol == each.number, each.name).otherwise(said)
        return Operand(TEXT, said)
    has_topic = protocol.isin([each.number for each in FORMATS if each.keys_are_topics])
    if name == "qos":
        qos = F.shiftright(format.bitwiseAND(QOS_MASK), QOS_SHIFT)
        return Operand(NUMBER, F.when(has_topic, qos).otherwise(1).cast("long"))
    key = F.col(names["routing_key"])
    return Operand(TEXT, present(F.when(has_topic, key).otherwise(F.translate(key, "/.+*", "./*+"))))


def present(words: Column) -> Column:
    """Return NULL in place of an empty text."""
    return F.nullif(words, F.lit(""))


# ---- comparisons


def compared(comparison: int, left: Operand | None, right: Operand | None) -> Column | None:
    if left is None or right is None:
        return None
    if left.column is None:
        if right.column is None:
            return truth(compare_single(comparison, left.constant, right.constant))
        return compared(TURNED[comparison], right, left)
    if right.column is not None:
        same = left.kind == right.kind
        return sign(comparison, number_column(left), number_column(right)) if same else None
    if left.kind == TEXT:
        return compared_text(comparison, left.column, right.constant)
    return compared_number(comparison, left, right.constant)


def number_column(value: Operand) -> Column:
    assert value.column is not None
    return F.unix_millis(value.column) if value.kind == TIME else value.column


def compared_text(comparison: int, words: Column, constant: object) -> Column | None:
    if isinstance(constant, str):
        return sign(comparison, words, F.lit(constant))
    if isinstance(constant, int | float) and not isinstance(constant, bool):
        return None  # the column's text may be a number
    return truth(None)


def compared_number(comparison: int, value: Operand, constant: object) -> Column:
    """Compare a column of integers or times with a constant."""
    assert value.column is not None
    if isinstance(constant, str):
        read = number_in(constant)
        constant = constant if read is None else read
    if isinstance(constant, float) and math.isfinite(constant):
        low, high = math.floor(constant), math.ceil(constant)
        if low != high and comparison in {EQUAL, UNEQUAL}:
            return where_known(value.column, comparison == UNEQUAL)
        # Round to the neighbour that gives the same result for integers: none lies between `low` and `high`.
        constant = low if comparison in {AT_MOST, GREATER} else high
    if is_whole(constant, TIME_MS_MOST if value.kind == TIME else LONG_MOST):
        if value.kind == TIME:
            return compared_time(comparison, value.column, constant)
        return sign(comparison, value.column, F.lit(constant).cast("long"))
    # Out of the column's range, or no number at all: every value of the column gives the same result.
    return where_known(value.column, compare_single(comparison, 0, constant))


def is_whole(constant: object, most: int) -> TypeGuard[int]:
    return isinstance(constant, int) and not isinstance(constant, bool) and abs(constant) <= most


def compared_time(comparison: int, stored: Column, constant_ms: int) -> Column:
    """Compare a timestamp column with a constant in milliseconds, in a form that Spark can push down to a source."""
    start = F.timestamp_micros(F.lit(constant_ms * 1000).cast("long"))
    after = F.timestamp_micros(F.lit(constant_ms * 1000 + 1000).cast("long"))
    if comparison == EQUAL:
        return (stored >= start) & (stored < after)
    if comparison == UNEQUAL:
        return (stored < start) | (stored >= after)
    if comparison == LESS:
        return stored < start
    if comparison == AT_MOST:
        return stored < after
    return stored >= after if comparison == GREATER else stored >= start


def where_known(value: Column, held: object) -> Column:
    """Return the constant `held` where the value is not NULL, and NULL elsewhere."""
    return F.when(value.isNotNull(), truth(held))


def sign(comparison: int, left: Column, right: Column) -> Column:
    if comparison == EQUAL:
        return left == right
    if comparison == UNEQUAL:
        return left != right
    if comparison == LESS:
        return left < right
    if comparison == AT_MOST:
        return left <= right
    return left > right if comparison == GREATER else left >= right


def contained(value: Operand | None, items: list[Operand | None]) -> Column | None:
    if value is None:
        return None
    constants = [None if item is None else item.constant for item in items]
    if value.kind == TEXT and all(isinstance(constant, str) for constant in constants):
        assert value.column is not None
        return value.column.isin(constants)
    if value.kind == NUMBER and all(is_whole(constant, LONG_MOST) for constant in constants):
        assert value.column is not None
        return value.column.isin(constants)
    parts = [compared(EQUAL, value, item) for item in items]
    known = [part for part in parts if part is not None]
    return joined(False, known) if len(known) == len(parts) else None


def affixed(node: Affix, value: Operand | None, affix: Operand | None) -> Column | None:
    """Return BEGINS WITH or ENDS WITH a constant as a Spark expression, or None if Spark cannot state it."""
    if value is None or affix is None or affix.column is not None or value.column is None:
        return None
    words = text(affix.constant)
    if words is None:
        return truth(None)
    shown = number_column(value) if value.kind == TEXT else number_column(value).cast("string")
    return shown.endswith(words) if node.at_end else shown.startswith(words)
