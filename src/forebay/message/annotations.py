"""Annotations: the broker's own fields of a record, stored beside the publisher's properties.

Most records have none. The annotations of one record, little-endian:

     0  1  version, 1
     1     fields, each at most once
             0  1  name, a number
             1  4  octets of the value
             5     the value

    1 PUBLISHER      client identifier of the publisher, for shared subscriptions that distribute by it
    2 ORIGIN         i64, in the log of MQTT sessions: number of the publishing client, for subscriptions that exclude
                     its own messages (No Local)
    3 RECIPIENT      i64, in the same log: number of the only client that gets it
    4 DUE            i64, of a delayed message: when it is published, microseconds since 1970-01-01 UTC
    5 DELAY_KEY      of a delayed message: the name by which its publisher can cancel it
    6 DEDUPLICATION  hash of the deduplication key, or of the producer's name
    7 SEQUENCE       i64, the last number of that producer
    8 STAGED         of a block of rows: the transaction that it is for (broker/publish/staging.py)
    9 DEATHS         of a dead letter: where and why it died (message/deaths.py)
   10 MODIFIED       message annotations that a consumer set (message/modified.py)
   11 RECURRENCE     of a delayed message: the times at which it is published repeatedly (message/recurrence.py)
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64, u8

VERSION: Final = 1
PUBLISHER: Final = 1
ORIGIN: Final = 2
RECIPIENT: Final = 3
DUE: Final = 4
DELAY_KEY: Final = 5
DEDUPLICATION: Final = 6
SEQUENCE: Final = 7
STAGED: Final = 8
DEATHS: Final = 9
MODIFIED: Final = 10
RECURRENCE: Final = 11

FIELD_OCTETS: Final = 5  # of a field before its value


def annotation(annotations: bytes, name: i64) -> bytes:
    """Return the value of a field, or empty bytes if the field is missing."""
    at = value_at(annotations, name)
    return b"" if at < 0 else annotations[at : at + i64(read_i32_le(annotations, at - 4))]


def number_annotation(annotations: bytes, name: i64, default: i64) -> i64:
    """Return the value of an i64 field, or `default` if the field is missing."""
    at = value_at(annotations, name)
    return default if at < 0 else read_i64_le(annotations, at)


def value_at(annotations: bytes, name: i64) -> i64:
    """Return the position of a field's value, or -1 if the field is missing."""
    if not annotations:
        return -1
    assert annotations[0] == VERSION, f"annotations of version {annotations[0]}"
    at: i64 = 1
    while at < len(annotations):
        if i64(annotations[at]) == name:
            return at + FIELD_OCTETS
        at += FIELD_OCTETS + i64(read_i32_le(annotations, at + 1))
    return -1


def with_annotation(annotations: bytes, name: i64, value: bytes) -> bytes:
    """Return the annotations with this field set in place of an earlier one. An empty value removes the field."""
    out = BytesWriter()
    at = value_at(annotations, name)
    if at < 0:
        out.write(annotations)
    else:
        out.write(annotations[: at - FIELD_OCTETS])
        out.write(annotations[at + i64(read_i32_le(annotations, at - 4)) :])
    if value:
        if not len(out):
            out.append(VERSION)
        out.append(u8(name))
        write_i32_le(out, i32(len(value)))
        out.write(value)
    made = out.getvalue()
    return made if len(made) > 1 else b""


def with_number(annotations: bytes, name: i64, value: i64) -> bytes:
    """Return the annotations with this i64 field set: see `with_annotation`."""
    out = BytesWriter()
    write_i64_le(out, value)
    return with_annotation(annotations, name, out.getvalue())
