"""The adapters of all formats, by the number in the lowest bits of a record's format octet."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, u8

from forebay.core.message import FORMAT_MASK, QOS_SHIFT, RETAIN
from forebay.message.formats.amqp091 import Amqp091Format
from forebay.message.formats.amqp10 import Amqp10Format
from forebay.message.formats.format import Format
from forebay.message.formats.mqtt import MqttFormat

# Formats of messages that the broker, the administration and Spark publish to exchanges, and to topics.
EXCHANGE_FORMAT: Final = Amqp091Format()
TOPIC_FORMAT: Final = MqttFormat()

FORMATS: Final[list[Format]] = [EXCHANGE_FORMAT, TOPIC_FORMAT, Amqp10Format()]


def by_number() -> list[Format | None]:
    found: list[Format | None] = [None] * (FORMAT_MASK + 1)
    for each in FORMATS:
        found[each.number] = each
    return found


def octets_marked_late() -> bytes:
    return bytes([1 if each is not None and each.marks_late else 0 for each in BY_NUMBER] * 64)


def octets_at_qos_0() -> bytes:
    found = bytearray(256)
    for octet in range(256):
        format = BY_NUMBER[octet & FORMAT_MASK]
        found[octet] = 1 if format is not None and format.qos(octet) == 0 else 0
    return bytes(found)


def octets_with_sections() -> bytes:
    return bytes([1 if each is not None and not each.has_plain_bodies else 0 for each in BY_NUMBER] * 64)


BY_NUMBER: Final = by_number()
# One byte per format octet, for fast lookup: not 0 where the format has `marks_late`, or the message QoS 0.
MARKED_LATE: Final = octets_marked_late()
AT_QOS_0: Final = octets_at_qos_0()
# For columns of format octets: not 0 where the body column is not the payload itself.
HAS_SECTIONS: Final = octets_with_sections()


def format_of(octet: i64) -> Format:
    """Return the adapter of a record's format octet. Asserts that a format has that number."""
    found = BY_NUMBER[octet & FORMAT_MASK]
    assert found is not None, f"format octet {octet}: no format has the number {octet & FORMAT_MASK}"
    return found


def known_format(octet: i64) -> Format | None:
    """Return the adapter of a format octet from an untrusted source such as a table, or None if there is none."""
    return BY_NUMBER[octet & FORMAT_MASK]


def topic_octet(qos: i64, retain: bool) -> u8:
    """Return the format octet of a message that the broker publishes to a topic, for itself or for a client."""
    octet: i64 = TOPIC_FORMAT.number | qos << QOS_SHIFT
    return u8(octet | RETAIN if retain else octet)
