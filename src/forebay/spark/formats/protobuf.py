"""Protobuf bodies: one message each, as `SerializeToString` writes it.

Types map to those of Spark's own `from_protobuf`, with two exceptions that avoid a loss: unsigned numbers stay
unsigned, and an absent proto3 field without presence is 0 or empty, not NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from forebay.core.errors import OptionError
from forebay.spark.formats.body_format import BadBody, BodyFormat, Fields, Read

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message

# By FieldDescriptorProto.Type.
DOUBLE, FLOAT, INT64, UINT64, INT32, FIXED64, FIXED32, BOOL, STRING = 1, 2, 3, 4, 5, 6, 7, 8, 9
MESSAGE, BYTES, UINT32, ENUM, SFIXED32, SFIXED64, SINT32, SINT64 = 11, 12, 13, 14, 15, 16, 17, 18
UNSIGNED_64: Final = DecimalType(20, 0)
SCALAR: Final[dict[int, DataType]] = {
    DOUBLE: DoubleType(),
    FLOAT: FloatType(),
    INT64: LongType(),
    UINT64: UNSIGNED_64,
    INT32: IntegerType(),
    FIXED64: UNSIGNED_64,
    FIXED32: LongType(),
    BOOL: BooleanType(),
    STRING: StringType(),
    BYTES: BinaryType(),
    UINT32: LongType(),
    ENUM: StringType(),
    SFIXED32: IntegerType(),
    SFIXED64: LongType(),
    SINT32: IntegerType(),
    SINT64: LongType(),
}
TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"

Value = Callable[[Any], Any]


class ProtobufFormat(BodyFormat):
    """A body format of Protobuf messages of one type.

    message     full name of the message type
    descriptor  a FileDescriptorSet, or the path of one: `protoc --include_imports --descriptor_set_out=FILE`
    raises      OptionError if there is no such message, or it has a type that no column can hold
    """

    def __init__(self, message: str, descriptor: str | Path | bytes) -> None:
        if not descriptor:
            raise OptionError("descriptor: missing: the file that protoc --descriptor_set_out has written")
        if isinstance(descriptor, bytes):
            self.descriptor = descriptor
        else:
            try:
                self.descriptor = Path(descriptor).read_bytes()
            except OSError as error:
                raise OptionError(f"descriptor: {str(descriptor)!r} cannot be read: {error.strerror}") from None
        self.message = message
        self.types = type_of_message(self.found(), message, ())

    def columns(self) -> StructType:
        return self.types

    def found(self) -> Descriptor:
        """Return the message type's descriptor. Raises OptionError if it is not in the set, or protobuf is missing."""
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool
            from google.protobuf.message import DecodeError
        except ImportError:
            raise OptionError("format: 'protobuf' needs protobuf: pip install 'forebay[protobuf]'") from None
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in descriptor_pb2.FileDescriptorSet.FromString(self.descriptor).file:
                pool.Add(file)
        except (DecodeError, TypeError) as error:
            raise OptionError(f"descriptor: it is no set of descriptors: {error}") from None
        try:
            return pool.FindMessageTypeByName(self.message)
        except (KeyError, TypeError):
            raise OptionError(
                f"schema: no message {self.message!r} in the descriptor, or it lacks a file: see --include_imports"
            ) from None

    def reader(self) -> Read:
        from google.protobuf.message_factory import GetMessageClass

        found = self.found()
        kind = GetMessageClass(found)
        take = value_of_message(found)

        def read(octets: bytes) -> Fields:
            message = kind.FromString(octets)
            if not message.IsInitialized():
                lacking: list[str] = message.FindInitializationErrors()  # type: ignore[attr-defined]  # stubs lack it
                raise BadBody(f"it lacks {', '.join(lacking)}")
            return take(message)  # type: ignore[no-any-return]

        return read


# ---- types


def type_of_message(found: Descriptor, place: str, within: tuple[str, ...]) -> StructType:
    """Return the columns of a message type; `within` names the message types that enclose it."""
    if found.full_name in within:
        raise OptionError(f"schema: {place}: the message {found.full_name} holds itself, which no column can")
    inner = (*within, found.full_name)
    return StructType(
        [StructField(field.name, type_of(field, f"{place}.{field.name}", inner)) for field in found.fields]
    )


def type_of(field: FieldDescriptor, place: str, within: tuple[str, ...]) -> DataType:
    if is_map(field):
        names = message_of(field).fields_by_name
        return MapType(type_of_one(names["key"], place, within), type_of_one(names["value"], place, within))
    one = type_of_one(field, place, within)
    return ArrayType(one) if is_repeated(field) else one


def type_of_one(field: FieldDescriptor, place: str, within: tuple[str, ...]) -> DataType:
    if field.type in SCALAR:
        return SCALAR[field.type]
    found = message_of(field)
    if found.full_name == TIMESTAMP:
        return TimestampType()
    if found.full_name == DURATION:
        return DayTimeIntervalType()
    return type_of_message(found, place, within)


def is_repeated(field: FieldDescriptor) -> bool:
    return field.is_repeated


def is_map(field: FieldDescriptor) -> bool:
    return field.type == MESSAGE and message_of(field).GetOptions().map_entry


def message_of(field: FieldDescriptor) -> Descriptor:
    """Return the descriptor of the message type that a field holds."""
    found = field.message_type
    assert found is not None
    return found


# ---- values


def value_of_message(found: Descriptor) -> Value:
    """Return a function that converts a message to a column's value."""
    takes = [(field.name, value_of(field), field.has_presence) for field in found.fields]

    def take(message: Message) -> Fields:
        return {
            name: None if has_presence and not message.HasField(name) else one(getattr(message, name))
            for name, one, has_presence in takes
        }

    return take


def value_of(field: FieldDescriptor) -> Value:
    if is_map(field):
        names = message_of(field).fields_by_name
        key, one = value_of_one(names["key"]), value_of_one(names["value"])
        return lambda found: [(key(each), one(found[each])) for each in found]
    one = value_of_one(field)
    return (lambda found: [one(each) for each in found]) if is_repeated(field) else one


def value_of_one(field: FieldDescriptor) -> Value:
    if field.enum_type is not None:
        names = field.enum_type.values_by_number
        return lambda number: names[number].name if number in names else str(number)
    if field.type in SCALAR:
        return as_it_is
    found = message_of(field)
    if found.full_name == TIMESTAMP:
        return lambda message: message.ToDatetime(tzinfo=UTC)
    if found.full_name == DURATION:
        return lambda message: message.ToTimedelta()
    return value_of_message(found)


def as_it_is(value: Any) -> Any:
    return value
