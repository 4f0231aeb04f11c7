"""Converts messages from one format to another, by way of `Properties`.

Publishers repeat themselves, so converted properties are cached, up to a total of MEMO_OCTETS_MAX bytes.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.core.message import FORMAT_MASK, PLAIN_BODY
from forebay.log.block import Block, BlockWriter
from forebay.message.formats.table import EXCHANGE_FORMAT, format_of
from forebay.message.record import StoredRecord
from forebay.message.rendered import rendered

MEMO_OCTETS_MAX: Final = 1 << 20
MEMO_PROPERTIES_MAX: Final = 4096  # longer properties seldom repeat
ENTRY_OCTETS: Final = 250  # memory of an entry beside its bytes


class ConversionMemo:
    """A cache of converted properties, by the original ones followed by both formats and the kind of body."""

    def __init__(self) -> None:
        self.known: dict[bytes, bytes] = {}
        self.octets: i64 = 0


MEMO: Final = ConversionMemo()


@final
class Content:
    """The properties and body columns of a message in one format."""

    def __init__(self, properties: bytes, body: bytes) -> None:
        self.properties = properties
        self.body = body


def convert_content(format_from: i64, properties: bytes, body: bytes, format_to: i64) -> Content:
    """Return a message's columns in another format; the same bytes if both formats are the same.

    format_from, format_to  format octets, or numbers of formats
    """
    source, target = format_of(format_from), format_of(format_to)
    if source is target:
        return Content(properties, body)
    if source.has_plain_bodies and target.has_plain_bodies:
        return Content(convert(format_from, properties, format_to), body)
    kind = source.body_kind(properties, body)
    return Content(convert(format_from, properties, format_to, kind), target.body_of(source.payload(body), kind))


def convert(format_from: i64, properties: bytes, format_to: i64, body_kind: i64 = PLAIN_BODY) -> bytes:
    """Return checked properties of one format in another; the same bytes if both formats are the same.

    body_kind  of the message. It matters only if one of the formats has other than plain bodies.
    """
    format_from &= FORMAT_MASK
    format_to &= FORMAT_MASK
    if format_from == format_to:
        return properties
    key = properties + bytes([int(format_from), int(format_to), int(body_kind)])
    found = MEMO.known.get(key)
    if found is not None:
        return found
    neutral = format_of(format_from).decode(properties)
    neutral.body_kind = body_kind
    made = format_of(format_to).encode(neutral)
    if len(properties) <= MEMO_PROPERTIES_MAX:
        MEMO.octets += len(properties) + len(made) + ENTRY_OCTETS
        if MEMO.octets > MEMO_OCTETS_MAX:
            MEMO.known.clear()
            MEMO.octets = len(properties) + len(made) + ENTRY_OCTETS
        MEMO.known[key] = made
    return made


def delivered(block: Block, index: i64, format_to: i64) -> Content:
    """Return a block's record as it is delivered in a format, with the headers its annotations stand for."""
    octet = block.format(index)
    source, target = format_of(octet), format_of(format_to)
    properties, body = block.properties(index), block.body(index)
    annotations = block.annotations(index) if block.annotated else b""
    if source is target or (source.has_plain_bodies and target.has_plain_bodies):
        return convert_content(octet, rendered(octet, properties, annotations), body, format_to)
    # Rendered after the conversion, because each format has its own form of deaths.
    content = convert_content(octet, properties, body, format_to)
    content.properties = rendered(format_to, content.properties, annotations)
    return content


def delivered_block(block: Block, index: i64, format_to: i64, exchange: bytes, routing_key: bytes) -> Block:
    """Return a block with one record as `delivered` returns it, at this address in the other format."""
    content = delivered(block, index, format_to)
    made = BlockWriter()
    made.append(u8(format_to), exchange, routing_key, content.properties, content.body)
    return made.seal(block.base + index, block.timestamp_us(index), False)


def for_exchange(record: StoredRecord) -> StoredRecord:
    """Return a record that an exchange can route: itself, or converted if its own format only has topics."""
    source = format_of(record.format)
    if not source.keys_are_topics:
        return record
    exchange, key = source.amqp_address(record.exchange, record.routing_key)
    number = EXCHANGE_FORMAT.number
    content = convert_content(record.format, record.properties, record.body, number)
    return StoredRecord(number, exchange, key, content.properties, content.body, record.annotations)
