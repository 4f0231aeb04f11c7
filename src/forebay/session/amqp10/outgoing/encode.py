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
from forebay.routing.exchange import text
from forebay.wire.amqp10.decoder import value_end
from forebay.wire.amqp10.encoder import put_descriptor, put_u32
from forebay.wire.amqp10.sections import (
    DATA,
    DURABLE,
    HEADER,
    MESSAGE_ANNOTATIONS,
    MESSAGE_ID,
    PRIORITY,
    PROPERTIES,
    TTL,
    Sections,
    edited_map,
    flag_at,
    list_field,
    number_at,
    put_header,
    put_section,
    split_sections,
    value_at,
)
from forebay.wire.amqp10.values import BINARY_8, BINARY_32, Int, Symbol, Timestamp, Ubyte, Uint

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
LEASE_UNTIL: Final = Symbol("x-opt-lease-until")
LEASE_COUNT: Final = Symbol("x-opt-lease-count")
LEASE_WRITTEN: Final[list[bytes]] = [*WRITTEN, b"x-opt-lease-until", b"x-opt-lease-count"]
SEQUENCE_NUMBER: Final = Symbol("x-opt-sequence-number")
ENQUEUED_TIME: Final = Symbol("x-opt-enqueued-time")
LOCKED_UNTIL: Final = Symbol("x-opt-locked-until")
MESSAGE_STATE: Final = Symbol("x-opt-message-state")
ENTITY_WRITTEN: Final[list[bytes]] = [
    *WRITTEN,
    b"x-opt-sequence-number",
    b"x-opt-enqueued-time",
    b"x-opt-locked-until",
    b"x-opt-message-state",
]


@final
class DeliveryEncoder:
    """Encodes the records that one consumer gets.

    What depends on the address and the properties of a record is made once for as long as they are the same.

    is_stream  the records are those of a stream, which say where they stand
    for_...  of the record for which `head` was made
    head     the sections before the body
    wraps    the body becomes a data section
    is_entity    records are encoded as Azure Service Bus has them
    entity_state of the next record then: 0, 1 for one that is deferred
    tells_lease  deliveries say when their lease ends, and how often their record was leased
    is_numbered  each record has a head of its own, which says its offset, or its lease
    has_sections  the body of another protocol's message is sections of AMQP 1.0, which came this way before
    """

    def __init__(self, is_stream: bool, queue_id: i64 = 0, is_entity: bool = False, tells_lease: bool = False) -> None:
        self.is_stream = is_stream
        self.is_entity = is_entity
        self.queue_id: i64 = queue_id
        self.tells_lease = tells_lease
        self.is_numbered = self.is_stream or is_entity or tells_lease
        self.entity_state: i64 = 0
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
            or self.is_numbered
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
        return self.has_ttl or self.is_numbered

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
        written = WRITTEN
        if self.tells_lease:
            written = LEASE_WRITTEN
            add_lease_annotations(added, delivery)
        if self.is_entity:
            written = ENTITY_WRITTEN
            add_entity_annotations(added, delivery, index)
            if self.entity_state:
                added.append((MESSAGE_STATE, Int(int(self.entity_state))))
        put_descriptor(out, MESSAGE_ANNOTATIONS)
        out.write(edited_map(properties, found.message_annotations, end, written, added))
        if self.is_entity and list_field(properties, found.properties, end, MESSAGE_ID) < 0:
            put_message_id(out, properties, found, f"{self.queue_id}-{block.base + index + 1}")
            return out.getvalue()
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
        if self.is_entity:
            put_entity_header(out, properties, found, ttl_ms, delivery)
            return
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


def put_entity_header(out: BytesWriter, properties: bytes, found: Sections, ttl_ms: i64, delivery: Delivery) -> None:
    """Append a header with all of its fields: clients of Azure Service Bus read the count of a first delivery, too."""
    end = i64(len(properties))
    priority = number_at(properties, list_field(properties, found.header, end, PRIORITY))
    put_section(
        out,
        HEADER,
        [
            flag_at(properties, list_field(properties, found.header, end, DURABLE)),
            None if priority < 0 else Ubyte(int(priority)),
            None if ttl_ms < 0 else Uint(int(ttl_ms)),
            delivery.deliveries == 1 and not delivery.redelivered,
            Uint(int(delivery.failures)),
        ],
    )


def put_message_id(out: BytesWriter, properties: bytes, found: Sections, id: str) -> None:
    """Append what precedes the body with a message-id, without which Azure's JavaScript client settles none."""
    end = i64(len(properties))
    fields: list[object] = []
    rest = found.bare_at
    if found.properties >= 0:
        value = value_at(properties, found.properties, end)
        assert isinstance(value, list)
        fields = value
        rest = value_end(properties, found.properties, end)
    put_section(out, PROPERTIES, [id, *fields[1:]])
    out.write(properties[rest:])


def add_entity_annotations(added: list[tuple[object, object]], delivery: Delivery, index: i64) -> None:
    """Add what clients of Azure Service Bus read: the sequence number, which is never 0, and two times."""
    block = delivery.block
    added.append((SEQUENCE_NUMBER, int(block.base + index + 1)))
    added.append((ENQUEUED_TIME, Timestamp(int(block.timestamp_us(index) // US_PER_MS))))
    lease = delivery.lease
    if lease is not None:
        added.append((LOCKED_UNTIL, Timestamp(int(lease.deadline_us // US_PER_MS))))


def add_lease_annotations(added: list[tuple[object, object]], delivery: Delivery) -> None:
    """Add when the lease of a delivery ends, and how often its record was leased, this time included."""
    lease = delivery.lease
    if lease is not None and lease.page is not None:
        added.append((LEASE_UNTIL, Timestamp(int(lease.deadline_us // US_PER_MS))))
    added.append((LEASE_COUNT, Uint(int(delivery.deliveries))))


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
