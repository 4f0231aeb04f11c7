"""Properties from one protocol's encoding to another's, by way of `Properties`.

Publishers repeat themselves: what was converted last is remembered, within a bound of octets.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.message import AMQP091, MQTT, Properties
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX
from forebay.wire.amqp091.properties import decode_properties, encode_properties
from forebay.wire.mqtt.properties import decode_neutral, encode_neutral

MEMO_OCTETS_MAX: Final = 1 << 20
MEMO_PROPERTIES_MAX: Final = 4096  # longer ones are seldom the same twice
ENTRY_OCTETS: Final = 250  # what an entry costs beside its octets


class ConversionMemo:
    """The converted properties: those given, with the two formats behind them -> the result."""

    def __init__(self) -> None:
        self.known: dict[bytes, bytes] = {}
        self.octets: i64 = 0


MEMO: Final = ConversionMemo()


def convert(format_from: int, properties: bytes, format_to: int) -> bytes:
    """Checked properties of one format in another; the same octets where the formats are one."""
    if format_from == format_to:
        return properties
    key = properties + bytes([format_from, format_to])
    found = MEMO.known.get(key)
    if found is not None:
        return found
    made = encode(format_to, decode(format_from, properties))
    if len(properties) <= MEMO_PROPERTIES_MAX:
        MEMO.octets += len(properties) + len(made) + ENTRY_OCTETS
        if MEMO.octets > MEMO_OCTETS_MAX:
            MEMO.known.clear()
            MEMO.octets = len(properties) + len(made) + ENTRY_OCTETS
        MEMO.known[key] = made
    return made


def decode(format: int, properties: bytes) -> Properties:
    """The properties in a format, decoded."""
    if format == AMQP091:
        return decode_properties(properties, TABLE_DEPTH_MAX)
    assert format == MQTT, f"format {format} has no properties to convert"
    return decode_neutral(properties)


def encode(format: int, properties: Properties) -> bytes:
    """Properties of a format that say this."""
    if format == AMQP091:
        return encode_properties(properties)
    assert format == MQTT, f"format {format} has no properties to convert"
    return encode_neutral(properties)
