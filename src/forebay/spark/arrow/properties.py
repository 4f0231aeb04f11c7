"""Decodes the properties of records into columns, once for all rows of a batch with equal properties.

Publishers repeat themselves, so a batch of 4096 rows has a few distinct properties. Those are decoded in Python, and
Arrow copies the results to the rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from forebay.core.message import FORMAT_MASK, Properties
from forebay.message.properties import properties_of
from forebay.message.shown import plain
from forebay.message.subject import NUMBERS, PROPERTY_NAMES, stated_property

HEADER_PREFIX: Final = "header."  # prefix of headers in the map of properties, as in filters

# The columns, with their types in Spark. `headers` is as in Kafka's source: NULL if there are none.
PROPERTY_TYPES: Final[dict[str, DataType]] = {
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
    "properties": MapType(StringType(), StringType()),
    "content_type": StringType(),
    "content_encoding": StringType(),
    "message_id": StringType(),
    "correlation_id": StringType(),
    "reply_to": StringType(),
    "type": StringType(),
    "user_id": StringType(),
    "app_id": StringType(),
    "priority": IntegerType(),
    "expiration_ms": LongType(),
}

Octets = npt.NDArray[np.uint8]


def property_arrays(formats: Octets, raw: pa.Array, types: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """Return the columns named in `types`, decoded from the properties of all rows of a batch.

    formats  the format byte of each row's record
    raw      the encoded properties of each row, as a binary array
    types    the columns, all among PROPERTY_TYPES, with their types in Arrow
    """
    indices, distinct = distinct_properties(formats, raw)
    return {name: column_of(name, type, distinct).take(indices) for name, type in types.items()}


def distinct_properties(formats: Octets, raw: pa.Array) -> tuple[pa.Array, list[Properties]]:
    """Return each row's index into the list of distinct properties, and that list."""
    encoded = raw.dictionary_encode()
    octets: list[bytes] = encoded.dictionary.to_pylist()
    protocols = formats & FORMAT_MASK
    if len(protocols) == 0 or (protocols == protocols[0]).all():
        return encoded.indices, [properties_of(int(protocols[0]), each) for each in octets]
    # Equal bytes mean different properties in different protocols.
    pairs, indices = np.unique(integers(encoded.indices) << 4 | protocols, return_inverse=True)
    said = [properties_of(int(pair & FORMAT_MASK), octets[pair >> 4]) for pair in pairs]
    return fixed_array(pa.int32(), indices.astype(np.int32)), said


def integers(array: pa.Array) -> npt.NDArray[np.int64]:
    """Return the values of an int32 array without NULLs, as int64."""
    values = np.frombuffer(array.buffers()[1], np.int32)
    return values[array.offset : array.offset + len(array)].astype(np.int64)


# ---- a column of the distinct properties


def column_of(name: str, type: pa.DataType, distinct: list[Properties]) -> pa.Array:
    if name == "headers":
        return headers_of(distinct)
    if name == "properties":
        return maps_of(distinct)
    if name == "priority":
        return numbers_array(pa.int32(), np.int32, [each.priority for each in distinct])
    if name == "expiration_ms":
        return numbers_array(pa.int64(), np.int64, [each.expiration_ms for each in distinct])
    stated = [octets_of(stated_property(each, NUMBERS[name])) for each in distinct]
    return octets_array(type, stated if pa.types.is_binary(type) else [as_text(each) for each in stated])


def headers_of(distinct: list[Properties]) -> pa.Array:
    lists = [[(name, octets_of(value)) for name, value in each.named_values()] or None for each in distinct]
    return pairs_array(to_arrow_type(PROPERTY_TYPES["headers"]), lists)


def maps_of(distinct: list[Properties]) -> pa.Array:
    return pairs_array(to_arrow_type(PROPERTY_TYPES["properties"]), [entries_of(each) for each in distinct])


def entries_of(properties: Properties) -> list[tuple[str, bytes | None]]:
    """Return all properties and headers by the names that filters use.

    Of headers with the same name, the first counts.
    """
    entries: dict[str, object] = {name: stated_property(properties, NUMBERS[name]) for name in PROPERTY_NAMES}
    found = {name: octets_of(value) for name, value in entries.items() if value is not None}
    for name, value in properties.named_values():
        found.setdefault(HEADER_PREFIX + name, octets_of(value))
    return [(name, as_text(value)) for name, value in found.items()]


def octets_of(value: object) -> bytes | None:
    """Return a value as bytes: text in UTF-8, numbers in digits, tables and lists as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if isinstance(value, bool | list | dict):
        return json.dumps(plain(value)).encode()
    return str(value).encode()


def as_text(octets: bytes | None) -> bytes | None:
    """Return bytes made valid UTF-8, with U+FFFD for what is not."""
    return None if octets is None else octets.decode("utf-8", "replace").encode()


# ---- arrays. Not by pa.array(): it imports pandas, a quarter of a second for every new worker


def fixed_array(type: pa.DataType, values: npt.NDArray[Any], valid: Sequence[bool] | None = None) -> pa.Array:
    """Return an array of numbers, with NULL where `valid` is false."""
    return pa.Array.from_buffers(type, len(values), [bitmap(valid), pa.py_buffer(values)])


def numbers_array(type: pa.DataType, width: type[np.generic], values: list[int | None]) -> pa.Array:
    filled = np.array([0 if each is None else each for each in values], width)
    return fixed_array(type, filled, [each is not None for each in values])


def octets_array(type: pa.DataType, values: Sequence[bytes | None]) -> pa.Array:
    """Return an array of texts or binary values, with NULL for None."""
    filled = [each or b"" for each in values]
    ends = ends_of([len(each) for each in filled])
    validity = bitmap([each is not None for each in values])
    return pa.Array.from_buffers(type, len(values), [validity, ends, pa.py_buffer(b"".join(filled))])


def pairs_array(type: pa.DataType, lists: Sequence[list[tuple[str, bytes | None]] | None]) -> pa.Array:
    """Return an array of maps, or of lists of pairs, with NULL for None."""
    flat = [pair for each in lists for pair in each or ()]
    keys = octets_array(pa.string(), [key.encode("utf-8", "replace") for key, _ in flat])
    pair_type = type.field(0).type
    values = octets_array(pair_type.field(1).type, [value for _, value in flat])
    pairs = pa.Array.from_buffers(pair_type, len(flat), [None], children=[keys, values])
    ends = ends_of([len(each or ()) for each in lists])
    validity = bitmap([each is not None for each in lists])
    return pa.Array.from_buffers(type, len(lists), [validity, ends], children=[pairs])


def ends_of(lengths: list[int]) -> pa.Buffer:
    return pa.py_buffer(np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)]))


def bitmap(valid: Sequence[bool] | npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    """Return Arrow's validity bitmap, or None if all values are valid."""
    if valid is None:
        return None
    flags = np.asarray(valid, np.bool_)
    return None if flags.all() else pa.py_buffer(np.packbits(flags, bitorder="little"))
