"""Records as messages of AMQP 1.0: the sections before the body, and the body.

A message that was published over AMQP 1.0 keeps its bare message octet for octet: only its header and its message
annotations are the broker's to write. Any other message is converted, and its body is one data section.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.core.message import AMQP10, AMQP_SECTIONS, FORMAT_MASK
from forebay.core.units import US_PER_MS
from forebay.log.block import Block
from forebay.message.formats.conversion import convert
from forebay.message.formats.table import format_of
from forebay.message.rendered import rendered_at
from forebay.queue.leases.lease import Delivery
from forebay.queue.queue import STREAM, Queue
from forebay.routing.exchange import text
from forebay.wire.amqp10.encoder import put_descriptor, put_u32
from forebay.wire.amqp10.sections import (
    DATA,
    DURABLE,
    MESSAGE_ANNOTATIONS,
    PRIORITY,
    TTL,
    Sections,
    edited_map,
    flag_at,
    list_field,
    number_at,
    put_header,
    split_sections,
)
from forebay.wire.amqp10.values import BINARY_8, BINARY_32, Symbol, Timestamp, Uint

EXCHANGE: Final = Symbol("x-exchange")
ROUTING_KEY: Final = Symbol("x-routing-key")
DELIVERIES: Final = Symbol("x-delivery-count")
ACQUIRED: Final = Symbol("x-acquired-count")
STREAM_OFFSET: Final = Symbol("x-stream-offset")
RECEIVED: Final = Symbol("x-opt-rabbitmq-received-time")
WRITTEN: Final[list[bytes]] = [
    b"x-exchange",
    b"x-routing-key",
    b"x-delivery-count",
    b"x-acquired-count",
    b"x-stream-offset",
    b"x-opt-rabbitmq-received-time",
]


@final
class DeliveryEncoder:
    """Encodes the records that one consumer gets.

    What depends on the address and the properties of a record is made once for as long as they are the same.

    for_...  of the record for which `head` was made
    head     the sections before the body
    wraps    the body becomes a data section
    has_sections  the body of another protocol's message is sections of AMQP 1.0, which came this way before
    """

    def __init__(self, queue: Queue) -> None:
        self.is_stream = queue.kind == STREAM
        self.for_format: i64 = 0
        self.for_exchange = b""
        self.for_key = b""
        self.for_properties = b""
        self.for_deliveries: i64 = 0
        self.for_failures: i64 = 0
        self.head = b""
        self.has_ttl = False
        self.has_sections = False
        self.wraps = False

    def prepare(self, delivery: Delivery, index: i64, now_us: i64) -> None:
        """Make `head` for a record, unless it is made."""
        block = delivery.block
        octet = block.format(index)
        exchange = block.exchange(index)
        key = block.routing_key(index)
        properties = rendered_at(block, index) if block.annotated else block.properties(index)
        if (
            self.has_ttl
            or self.is_stream
            or key != self.for_key
            or properties != self.for_properties
            or octet & FORMAT_MASK != self.for_format
            or exchange != self.for_exchange
            or delivery.deliveries != self.for_deliveries
            or delivery.failures != self.for_failures
        ):
            self.for_format = octet & FORMAT_MASK
            self.for_exchange = exchange
            self.for_key = key
            self.for_properties = properties
            self.for_deliveries = delivery.deliveries
            self.for_failures = delivery.failures
            self.head = self.make_head(delivery, index, properties, now_us)
            self.wraps = octet & FORMAT_MASK != AMQP10 and not self.has_sections

    def sections(self, body: bytes) -> bytes:
        """Return what stands before the body of the record that was prepared."""
        return self.head + data_head(i64(len(body))) if self.wraps else self.head

    def varies(self) -> bool:
        """Return whether records that are alike have heads of their own."""
        return self.has_ttl or self.is_stream

    def make_head(self, delivery: Delivery, index: i64, properties: bytes, now_us: i64) -> bytes:
        """Return header, message annotations and what the publisher wrote before the body."""
        block = delivery.block
        octet = block.format(index)
        exchange, key = format_of(octet).amqp_address(block.exchange(index), block.routing_key(index))
        self.has_sections = False
        if octet & FORMAT_MASK != AMQP10:
            kind = format_of(octet).body_kind(properties, self.body(block, index))
            self.has_sections = kind == AMQP_SECTIONS
            properties = convert(octet, properties, AMQP10, kind)
        end = i64(len(properties))
        found = split_sections(properties, 0, end)
        out = BytesWriter()
        self.put_header(out, properties, found, delivery, block.timestamp_us(index), now_us)
        added: list[tuple[object, object]] = [(EXCHANGE, text(exchange)), (ROUTING_KEY, text(key))]
        if delivery.failures:
            added.append((DELIVERIES, Uint(int(delivery.failures))))
        if delivery.deliveries > 1:
            added.append((ACQUIRED, Uint(int(delivery.deliveries - 1))))
        if self.is_stream:
            added.append((STREAM_OFFSET, int(block.base + index)))
            added.append((RECEIVED, Timestamp(int(block.timestamp_us(index) // US_PER_MS))))
        put_descriptor(out, MESSAGE_ANNOTATIONS)
        out.write(edited_map(properties, found.message_annotations, end, WRITTEN, added))
        out.write(properties[found.bare_at :])
        return out.getvalue()

    def put_header(
        self, out: BytesWriter, properties: bytes, found: Sections, delivery: Delivery, stored_us: i64, now_us: i64
    ) -> None:
        """Append the header of this delivery, with what is left of the time to live and how often it has failed."""
        end = i64(len(properties))
        ttl_ms = number_at(properties, list_field(properties, found.header, end, TTL))
        self.has_ttl = ttl_ms >= 0
        if ttl_ms >= 0:
            ttl_ms = max(0, ttl_ms - max(0, now_us - stored_us) // US_PER_MS)
        put_header(
            out,
            flag_at(properties, list_field(properties, found.header, end, DURABLE)),
            number_at(properties, list_field(properties, found.header, end, PRIORITY)),
            ttl_ms,
            delivery.deliveries == 1 and not delivery.redelivered,
            delivery.failures,
        )

    def body(self, block: Block, index: i64) -> bytes:
        """Return the body as it is stored."""
        return block.tail or block.body(index)


def data_head(octets: i64) -> bytes:
    """Return what stands before the octets of a data section."""
    out = BytesWriter()
    put_descriptor(out, DATA)
    if octets <= 255:
        out.append(BINARY_8)
        out.append(int(octets))
    else:
        out.append(BINARY_32)
        put_u32(out, octets)
    return out.getvalue()
