"""Avro bodies: one record each, in the binary encoding of the Avro specification 1.11, without a file's header.

Types map to the types that Spark's own `from_avro` makes of them, including time of day, which becomes its number.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import time
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from forebay.core.errors import OptionError
from forebay.spark.formats.body_format import BadBody, BodyFormat, Fields, Read

PRIMITIVE: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
}
LOGICAL: Final[dict[tuple[str, str], DataType]] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
}
PRECISION_MAX: Final = 38  # the highest precision of Spark's decimals
# Unions whose values fit one wider type. Other unions would need a second column for the type.
WIDER: Final = {frozenset({"int", "long"}): "long", frozenset({"float", "double"}): "double"}
MICROSECONDS: Final = 1_000_000

Schema = Any  # JSON, as the library has parsed it
Change = Callable[[Any], Any]


class AvroFormat(BodyFormat):
    """A body format of Avro records with one schema, that of their writer.

    text    the schema as JSON
    raises  OptionError if it is no schema of a record, or has a type that no column can hold
    """

    def __init__(self, text: str) -> None:
        try:
            schema = json.loads(text)
        except ValueError as error:
            raise OptionError(f"schema: an Avro schema is JSON: {error}") from None
        parsed, self.named = parse(schema)
        if not isinstance(parsed, dict) or parsed.get("type") != "record":
            raise OptionError("schema: the Avro schema is not that of a record")
        if not parsed.get("fields"):
            raise OptionError("schema: the Avro record has no fields")
        self.schema = parsed
        columns = self.type_of(parsed, "schema", ())
        assert isinstance(columns, StructType)
        self.types = columns

    def columns(self) -> StructType:
        return self.types

    def reader(self) -> Read:
        from fastavro import schemaless_reader

        parsed, _ = parse(self.schema)
        change = self.change(parsed)

        def read(octets: bytes) -> Fields:
            stream = io.BytesIO(octets)
            fields: Any = schemaless_reader(stream, parsed, None)
            more = len(octets) - stream.tell()
            if more:
                raise BadBody(f"{more} octets come after the Avro record")
            return fields if change is None else change(fields)  # type: ignore[no-any-return]

        return read

    # ---- types

    def type_of(self, schema: Schema, place: str, within: tuple[str, ...]) -> DataType:
        """Return the column type of a schema; `within` names the records that enclose it."""
        if isinstance(schema, list):
            return self.type_of_union(schema, place, within)
        schema = self.looked_up(schema)
        kind = kind_of(schema)
        logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
        if (kind, logical) in LOGICAL:
            return LOGICAL[kind, logical]
        if logical == "decimal":
            precision, scale = schema["precision"], schema.get("scale", 0)
            if precision > PRECISION_MAX:
                raise OptionError(f"{place}: a decimal of {precision} digits: Spark's have {PRECISION_MAX} at most")
            return DecimalType(precision, scale)
        if kind in PRIMITIVE:
            return PRIMITIVE[kind]
        if kind == "null":
            return NullType()
        if kind == "enum":
            return StringType()
        if kind == "fixed":
            return BinaryType()
        if kind == "array":
            return ArrayType(self.type_of(schema["items"], f"{place}[]", within))
        if kind == "map":
            return MapType(StringType(), self.type_of(schema["values"], f"{place}{{}}", within))
        return self.type_of_record(schema, place, within)

    def type_of_record(self, schema: Mapping[str, Any], place: str, within: tuple[str, ...]) -> StructType:
        name = schema["name"]
        if name in within:
            raise OptionError(f"{place}: the record {name} holds itself, which no column can")
        inner = (*within, name)
        return StructType(
            [
                StructField(each["name"], self.type_of(each["type"], f"{place}.{each['name']}", inner))
                for each in schema["fields"]
            ]
        )

    def type_of_union(self, schemas: Sequence[Schema], place: str, within: tuple[str, ...]) -> DataType:
        chosen = self.chosen(schemas)
        if chosen is None:
            kinds = ", ".join(kind_of(self.looked_up(each)) for each in schemas)
            raise OptionError(f"{place}: a union of {kinds}: a column holds one type, or null and one type")
        return self.type_of(chosen, place, within)

    def chosen(self, schemas: Sequence[Schema]) -> Schema | None:
        """Return the one schema of a union that can hold all its values, or None if there is none."""
        others = [each for each in schemas if kind_of(self.looked_up(each)) != "null"]
        if not others:
            return "null"
        if len(others) == 1:
            return others[0]
        return WIDER.get(frozenset(kind_of(each) for each in others if not has_logical_type(each)))

    def looked_up(self, schema: Schema) -> Schema:
        return self.named.get(schema, schema) if isinstance(schema, str) else schema

    # ---- values

    def change(self, schema: Schema) -> Change | None:
        """Return the function that converts a decoded value to a column's value, or None if no conversion is needed."""
        if isinstance(schema, list):
            return nullable(self.change(self.chosen(schema)))
        schema = self.looked_up(schema)
        kind = kind_of(schema)
        logical = schema.get("logicalType", "") if isinstance(schema, dict) else ""
        if logical == "uuid":
            return str
        if logical == "time-millis":
            return lambda value: micros_of(value) // 1000
        if logical == "time-micros":
            return micros_of
        if kind == "array":
            return of_each(self.change(schema["items"]))
        if kind == "map":
            return of_values(self.change(schema["values"]))
        return self.change_of_record(schema) if kind == "record" else None

    def change_of_record(self, schema: Mapping[str, Any]) -> Change | None:
        changes = {each["name"]: change for each in schema["fields"] if (change := self.change(each["type"]))}
        if not changes:
            return None

        def changed(value: Fields) -> Fields:
            return {**value, **{name: change(value[name]) for name, change in changes.items()}}

        return changed


def parse(schema: Schema) -> tuple[Schema, dict[str, Schema]]:
    """Return a schema as fastavro parses it, and its named types.

    Raises OptionError if it is invalid or fastavro is missing.
    """
    try:
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException
    except ImportError:
        raise OptionError("format: 'avro' needs fastavro: pip install 'forebay[avro]'") from None
    named: dict[str, Schema] = {}
    try:
        return parse_schema(schema, named), named
    except (SchemaParseException, KeyError, TypeError, ValueError) as error:
        raise OptionError(f"schema: it is no Avro schema: {type(error).__name__}: {error}") from None


def kind_of(schema: Schema) -> str:
    """Return the name of a schema's type."""
    kind = schema["type"] if isinstance(schema, dict) else "union" if isinstance(schema, list) else schema
    return kind if isinstance(kind, str) else kind_of(kind)


def has_logical_type(schema: Schema) -> bool:
    return isinstance(schema, dict) and "logicalType" in schema


def micros_of(value: time) -> int:
    """Return a time of day in microseconds since midnight."""
    return ((value.hour * 60 + value.minute) * 60 + value.second) * MICROSECONDS + value.microsecond


def nullable(change: Change | None) -> Change | None:
    return None if change is None else lambda value: None if value is None else change(value)


def of_each(change: Change | None) -> Change | None:
    """Return a conversion of lists that applies `change` to each item."""
    return None if change is None else lambda value: [change(each) for each in value]


def of_values(change: Change | None) -> Change:
    """Return a conversion of maps to the pairs that Arrow takes, applying `change` to each value."""
    if change is None:
        return lambda value: list(value.items())
    return lambda value: [(key, change(each)) for key, each in value.items()]
