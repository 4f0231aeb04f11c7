"""Single fields of a message, read off the publisher's octets where they stand, without a decode of the rest.

This is the one reader of priority, expiration, message group, and headers, for every format: a user property of MQTT
is a header. The octets must have been checked.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.message import AMQP091, EXPIRES, KEYED, MQTT
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX, Reader
from forebay.wire.amqp091.properties import EXPIRATION, PRIORITY, field_at, flags_of, header_at, short_field
from forebay.wire.amqp091.properties import headers_of as amqp_headers_of
from forebay.wire.mqtt.properties import (
    LONG,
    USER_PROPERTY,
    decode_properties,
    expiry_at,
    property_number,
    user_property,
)

GROUP_HEADER: Final = b"x-group-id"  # a header over AMQP, a user property over MQTT
CC: Final = b"CC"
FILTER_HEADER: Final = b"x-stream-filter-value"
MQTT_PRIORITY: Final = b"amqp-priority"
PRIORITY_MAX: Final = 255
EXPIRATION_MS_MAX: Final = 1 << 50  # longer ones, some 35,000 years, end here: sums of times stay within 64 bits


def marks_of(format: i64, properties: bytes) -> i64:
    """EXPIRES and KEYED, as they hold for a message of these checked properties."""
    marks: i64 = 0
    if expiration_of(format, properties) >= 0:
        marks = EXPIRES
    if key_of(format, properties):
        marks |= KEYED
    return marks


def priority_of(format: i64, properties: bytes) -> i64:
    """The priority that checked properties name; -1 where they name none."""
    if format == AMQP091:
        if not flags_of(properties) & PRIORITY:
            return -1
        return i64(properties[field_at(properties, PRIORITY, TABLE_DEPTH_MAX)])
    if format != MQTT or not properties:
        return -1
    digits = user_property(properties, MQTT_PRIORITY)
    if digits is None or not digits.isdigit() or len(digits) > 3 or int(digits) > PRIORITY_MAX:
        return -1
    return int(digits)


def expiration_of(format: i64, properties: bytes) -> i64:
    """The microseconds after which a message of these checked properties expires; -1 for never."""
    if format == AMQP091:
        if not flags_of(properties) & EXPIRATION:
            return -1
        digits = short_field(properties, EXPIRATION, TABLE_DEPTH_MAX)
        if not digits.isdigit():
            return -1
        return min(int(digits), EXPIRATION_MS_MAX) * 1000
    if format != MQTT or not properties:
        return -1
    at = expiry_at(properties)
    return -1 if at < 0 else property_number(properties, at, len(properties), LONG) * 1_000_000


def key_of(format: i64, properties: bytes) -> bytes:
    """The message group that checked properties name; empty where they name none."""
    return header_of(format, properties, GROUP_HEADER) or b""


def filter_value_of(format: i64, properties: bytes) -> bytes | None:
    """The value that readers of a stream may filter by, out of checked properties; None where there is none."""
    return header_of(format, properties, FILTER_HEADER)


def keys_in_cc(properties: bytes) -> list[bytes]:
    """The routing keys in the header CC of checked properties of AMQP 0.9.1."""
    at = header_at(properties, CC, TABLE_DEPTH_MAX)
    return texts_in(Reader(properties, at, len(properties), TABLE_DEPTH_MAX).value()) if at >= 0 else []


def texts_in(values: object) -> list[bytes]:
    """The texts of a header that is an array; what else is in it says nothing, as with RabbitMQ."""
    texts: list[bytes] = []
    if isinstance(values, list):
        for value in values:
            if isinstance(value, bytes):
                texts.append(value)
            elif isinstance(value, str):
                texts.append(value.encode())
    return texts


def headers_of(format: i64, properties: bytes) -> dict[str, object]:
    """All headers of checked properties, decoded; of several of one name the last."""
    found: dict[str, object] = {}
    if format == AMQP091:
        for name, value in amqp_headers_of(properties, TABLE_DEPTH_MAX):
            found[name] = value
    elif format == MQTT:
        for each in decode_properties(properties):
            if each.id == USER_PROPERTY:
                found[each.text.decode()] = each.value.decode()
    return found


def header_of(format: i64, properties: bytes, name: bytes) -> bytes | None:
    """A header's value: a text, octets, or a whole number's digits; None where there is no such header."""
    if format == AMQP091:
        at = header_at(properties, name, TABLE_DEPTH_MAX)
        if at < 0:
            return None
        value = Reader(properties, at, len(properties), TABLE_DEPTH_MAX).value()
        if isinstance(value, bytes):
            return value
        if isinstance(value, str):
            return value.encode()
        return b"%d" % value if isinstance(value, int) and not isinstance(value, bool) else None
    if format != MQTT or not properties:
        return None
    return user_property(properties, name)
