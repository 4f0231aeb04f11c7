"""Messages of Protobuf, described as protoc would describe them."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2

Field = descriptor_pb2.FieldDescriptorProto


def field(name: str, number: int, kind: int, of: str = "", *, repeated: bool = False) -> Field:
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    made = Field(name=name, number=number, type=kind, label=label)  # type: ignore[arg-type]
    if of:
        made.type_name = of
    return made


def reading_file() -> descriptor_pb2.FileDescriptorProto:
    """A message with a field of every kind, and one that holds itself; proto3."""
    file = descriptor_pb2.FileDescriptorProto(name="reading.proto", package="tests", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/duration.proto"])
    state = file.enum_type.add(name="State")
    state.value.add(name="OFF", number=0)
    state.value.add(name="ON", number=1)
    file.message_type.add(name="Place").field.extend([field("floor", 1, Field.TYPE_SINT32)])
    file.message_type.add(name="Tree").field.extend([field("left", 1, Field.TYPE_MESSAGE, ".tests.Tree")])
    reading = file.message_type.add(name="Reading")
    labels = reading.nested_type.add(name="LabelsEntry")
    labels.field.extend([field("key", 1, Field.TYPE_STRING), field("value", 2, Field.TYPE_INT64)])
    labels.options.map_entry = True
    reading.field.extend(
        [
            field("device", 1, Field.TYPE_STRING),
            field("level", 2, Field.TYPE_INT32),
            field("total", 3, Field.TYPE_UINT64),
            field("count", 4, Field.TYPE_UINT32),
            field("ratio", 5, Field.TYPE_DOUBLE),
            field("raw", 6, Field.TYPE_BYTES),
            field("state", 7, Field.TYPE_ENUM, ".tests.State"),
            field("at", 8, Field.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            field("took", 9, Field.TYPE_MESSAGE, ".google.protobuf.Duration"),
            field("place", 10, Field.TYPE_MESSAGE, ".tests.Place"),
            field("values", 11, Field.TYPE_INT64, repeated=True),
            field("labels", 12, Field.TYPE_MESSAGE, ".tests.Reading.LabelsEntry", repeated=True),
            field("note", 13, Field.TYPE_STRING),
        ]
    )
    reading.field[-1].proto3_optional = True
    reading.field[-1].oneof_index = 0
    reading.oneof_decl.add(name="_note")
    return file


def needy_file() -> descriptor_pb2.FileDescriptorProto:
    """A message with a field that must be there; proto2."""
    file = descriptor_pb2.FileDescriptorProto(name="needy.proto", package="tests", syntax="proto2")
    needed = file.message_type.add(name="Needy").field.add(name="needed", number=1)
    needed.type, needed.label = Field.TYPE_INT32, Field.LABEL_REQUIRED
    return file


@cache
def descriptors() -> bytes:
    """The set of descriptors of all of them, as `protoc --include_imports --descriptor_set_out` writes it."""
    made = descriptor_pb2.FileDescriptorSet()
    for known in (timestamp_pb2, duration_pb2):
        known.DESCRIPTOR.CopyToProto(made.file.add())
    made.file.extend([reading_file(), needy_file()])
    return made.SerializeToString()


def message(name: str) -> Any:
    """An empty message."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))()
