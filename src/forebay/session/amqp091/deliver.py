"""Deliveries of AMQP 0.9.1: records of a block as frames.

What is alike from record to record (method, address, properties) is put together once and copied; consecutive
records that differ in the body only are the rule, and found out for a whole run at a time.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from forebay.broker.consuming.primary import PrimaryGroup
from forebay.core.message import AMQP091, FORMAT_MASK
from forebay.core.pieces import Part
from forebay.core.units import US_PER_MS
from forebay.log.block import Block
from forebay.message.formats.conversion import convert, delivered, delivered_block
from forebay.message.formats.table import format_of
from forebay.message.rendered import rendered_at
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.queue import Queue
from forebay.session.amqp091.origin import DeliveryOrigin, put_number_field, put_text_field
from forebay.session.shared.like_records import has_like_records
from forebay.session.shared.unsettled import DeliveryHolder
from forebay.wire.amqp091.codec import (
    BODY,
    FRAME_END,
    FRAME_OVERHEAD,
    HEADER,
    METHOD,
    TABLE_DEPTH_MAX,
    put_content,
    put_long_body,
    put_short_string,
)
from forebay.wire.amqp091.methods import put_get_ok
from forebay.wire.amqp091.properties import HeaderSplice, edit_headers, with_message_id, without_headers

DELIVER: Final = b"\x00\x3c\x00\x3c"
CONTENT: Final = b"\x00\x3c\x00\x00"
HEADER_ROOM: Final = 96  # octets of a content header before the properties, and of headers that the broker adds
LEASE_ROOM: Final = 46  # of those that tell of a lease
PROGRESS_ROOM: Final = 384  # of those that tell of a group with a name of 255 octets
CONTENT_OCTETS: Final = 12  # of a content header before the properties

# Headers that the broker adds.
PLAIN: Final = 0
STREAM: Final = 1
AGAIN: Final = 2  # redelivered, and nobody knows how often, as the broker has crashed; or nobody wants to know
COUNTS: Final = 3
EACH: Final = 4  # made for each record
EACH_AGAIN: Final = 5  # the same, redelivered
EACH_COUNTS: Final = 6  # the same, with counts among them

OFFSET_HEADER: Final = b"x-stream-offset"
TIMESTAMP_HEADER: Final = b"x-stream-timestamp"
COUNT_HEADERS: Final[list[bytes]] = [b"x-delivery-count", b"x-acquired-count"]
STREAM_HEADERS: Final[list[bytes]] = [OFFSET_HEADER, TIMESTAMP_HEADER]
LEASE_HEADERS: Final[list[bytes]] = [b"x-lease-until", b"x-lease-count"]
PROGRESS_HEADERS: Final[list[bytes]] = [b"x-work-committed-offset", b"x-work-acked", b"x-work-group"]


def fitting_properties(properties: bytes, octets_max: i64) -> bytes:
    """Return the properties; without the headers where these take more than so many octets."""
    if len(properties) > octets_max:
        return without_headers(properties, TABLE_DEPTH_MAX)
    return properties


def with_fields(properties: bytes, replaced: list[bytes], fields: bytes, id: bytes, octets_max: i64) -> bytes:
    """Properties with these header fields, as long as they take no more than so many octets.

    replaced  names of headers that go
    id        the property message-id, if there is none; empty: there is to be none
    """
    told = edit_headers(properties, replaced, fields, TABLE_DEPTH_MAX)
    if id:
        told = with_message_id(told, id, TABLE_DEPTH_MAX)
    return told if len(told) <= octets_max else properties


def count_fields(deliveries: i64, failures: i64) -> bytes:
    """The headers of a redelivered record: how often it came back for a failure, and how often it was out."""
    out = BytesWriter()
    put_number_field(out, b"x-delivery-count", failures)
    put_number_field(out, b"x-acquired-count", deliveries - 1)
    return out.getvalue()


def put_lease(out: BytesWriter, delivery: Delivery) -> None:
    """Append when a delivery's lease ends, in ms since 1970, and how often its records were leased, this time included.

    Records that are settled by being sent have no lease, and only the count.
    """
    lease = delivery.lease
    if lease is not None and lease.page is not None:
        put_number_field(out, LEASE_HEADERS[0], lease.deadline_us // US_PER_MS)
    put_number_field(out, LEASE_HEADERS[1], delivery.deliveries)


def put_progress(out: BytesWriter, primary: PrimaryGroup, offset: i64) -> None:
    """Append what a record of a stream says of how far the queue's primary group has come."""
    put_number_field(out, b"x-work-committed-offset", primary.committed())
    put_short_string(out, b"x-work-acked")
    out.append(116)  # t
    out.append(1 if primary.has_settled(offset) else 0)
    put_text_field(out, b"x-work-group", primary.name)


@final
class Outlet(DeliveryHolder):
    """One consumer's deliveries.

    channel    number of its channel
    parts      of the session: where long bodies go
    ended      the client has cancelled it; it stays until everything is settled
    queue      that it takes from; None for answers
    added      the headers that the broker adds to what was never delivered before
    primary    of a stream: the work group whose progress its reader is told of
    origin     what each delivery says of where it comes from
    replaced   names of headers that are made for each record; empty where none is
    room       octets that these take
    id         the property message-id for the record at hand, if it has none
    converts   the records at hand have bodies of another format
    splice     adds those of a stream
    before_tag, after_tag, after_size, after_numbers  what stands between a record's delivery tag, its body's size, the
               numbers of the added headers and the body; made for the address and the properties in `for_…`
    """

    def __init__(
        self,
        consumer: Consumer,
        channel: i64,
        tag: bytes,
        stream: bool,
        frame_octets_max: i64,
        parts: list[Part],
    ) -> None:
        super().__init__()
        self.consumer = consumer
        self.channel = channel
        self.ended = False
        self.queue: Queue | None = None
        self.added: i64 = STREAM if stream else PLAIN
        self.primary: PrimaryGroup | None = None
        self.origin: DeliveryOrigin | None = None
        self.replaced: list[bytes] = []
        self.room: i64 = HEADER_ROOM
        self.id = b""
        self.parts = parts
        self.body_octets_max: i64 = frame_octets_max - FRAME_OVERHEAD
        number = bytes([int(channel >> 8), int(channel & 255)])
        self.method_head = bytes([METHOD]) + number
        self.header_head = bytes([FRAME_END, HEADER]) + number
        self.body_head = bytes([FRAME_END, BODY]) + number
        self.tag_argument = bytes([len(tag)]) + tag
        self.converts = False
        self.splice = HeaderSplice(OFFSET_HEADER, TIMESTAMP_HEADER)
        self.for_format: i64 = 0
        self.for_added: i64 = -1
        self.for_exchange = b""
        self.for_key = b""
        self.for_properties = b""
        self.for_fields = b""
        self.before_tag = b""
        self.after_tag = b""
        self.after_size = b""
        self.after_numbers = b""

    def tell(self, primary: PrimaryGroup | None, origin: DeliveryOrigin | None) -> None:
        """Deliveries say how far the primary group is, where they come from, and what their lease is."""
        tells_lease = self.consumer.tells_lease
        if primary is None and origin is None and not tells_lease:
            return
        if tells_lease:
            self.replaced = self.replaced + LEASE_HEADERS
            self.room += LEASE_ROOM
        self.primary = primary
        self.origin = origin
        if self.added == STREAM:
            self.replaced = self.replaced + STREAM_HEADERS
        if primary is not None:
            self.replaced = self.replaced + PROGRESS_HEADERS
            self.room += PROGRESS_ROOM
        if origin is not None:
            self.replaced = self.replaced + origin.names
            self.room += origin.octets_max

    def tells_counts(self) -> bool:
        """Return whether redeliveries say how often."""
        return self.consumer.counts or (self.queue is not None and self.queue.counts_deliveries())

    def write(self, out: BytesWriter, delivery: Delivery, count: i64, tag: i64) -> None:
        """Write the first `count` records of a delivery as basic.deliver; `tag` is that of the first."""
        if self.replaced:
            self.write_each(out, delivery, count, tag)
            return
        block = delivery.block
        index = delivery.index
        added = self.added
        fields = b""
        if delivery.redelivered:
            added = AGAIN
            if delivery.deliveries > 1 and self.tells_counts():
                added = COUNTS
                fields = count_fields(delivery.deliveries, delivery.failures)
        if count > 1 and has_like_records(block, index, count):
            self.prepare(block, index, added, fields)
            self.write_run(out, block, index, count, tag)
            return
        for at in range(index, index + count):
            self.prepare(block, at, added, fields)
            self.write_run(out, block, at, 1, tag)
            tag += 1

    def write_each(self, out: BytesWriter, delivery: Delivery, count: i64, tag: i64) -> None:
        """Write as `write`, with the headers of each record made for it."""
        block = delivery.block
        added = EACH_AGAIN if delivery.redelivered else EACH
        if delivery.deliveries > 1 and self.tells_counts():
            added = EACH_COUNTS
        primary, origin = self.primary, self.origin
        for index in range(delivery.index, delivery.index + count):
            offset = block.base + index
            fields = BytesWriter()
            if added == EACH_COUNTS:
                fields.write(count_fields(delivery.deliveries, delivery.failures))
            if self.added == STREAM:
                put_number_field(fields, OFFSET_HEADER, offset)
                put_number_field(fields, TIMESTAMP_HEADER, block.timestamp_us(index) // US_PER_MS)
            if self.consumer.tells_lease:
                put_lease(fields, delivery)
            if primary is not None:
                put_progress(fields, primary, offset)
            if origin is not None:
                origin.put(fields, offset)
                self.id = origin.property_id(offset)
            self.prepare(block, index, added, fields.getvalue())
            self.write_run(out, block, index, 1, tag)
            tag += 1

    def prepare(self, block: Block, index: i64, added: i64, fields: bytes) -> None:
        """Make the parts that depend on a record's address and properties, unless they are made.

        fields  of COUNTS and of what is made for each record: what the header table gets
        """
        format = block.format(index) & FORMAT_MASK
        exchange = block.exchange(index)
        key = block.routing_key(index)
        properties = rendered_at(block, index) if block.annotated else block.properties(index)
        if (
            key == self.for_key
            and exchange == self.for_exchange
            and added == self.for_added
            and format == self.for_format
            and fields == self.for_fields
        ):
            if properties == self.for_properties:
                return
            if len(properties) == len(self.for_properties) and added in (PLAIN, AGAIN) and format == AMQP091:
                # As from a publisher that numbers its messages: the lengths that were written still hold.
                self.for_properties = properties
                if len(properties) <= self.body_octets_max - HEADER_ROOM:
                    self.after_size = properties + self.body_head
                    return
        self.for_format = format
        self.for_added = added
        self.for_exchange = exchange
        self.for_key = key
        self.for_properties = properties
        self.for_fields = fields
        self.converts = False
        if format != AMQP091:
            source = format_of(format)
            if not source.has_plain_bodies:
                self.converts = True
                self.for_format = 0  # what is made next is for one record alone
                return
            exchange, key = source.amqp_address(exchange, key)
            properties = convert(format, properties, AMQP091)
        self.make_parts(exchange, key, properties, added)

    def make_parts(self, exchange: bytes, key: bytes, properties: bytes, added: i64) -> None:
        properties = fitting_properties(properties, self.body_octets_max - self.room)
        if added == STREAM:
            splice = self.splice
            splice.prepare(properties, TABLE_DEPTH_MAX)
            octets = splice.octets()
            self.after_size = splice.prefix
            self.after_numbers = splice.suffix + self.body_head
        else:
            if added == COUNTS:
                properties = edit_headers(properties, COUNT_HEADERS, self.for_fields, TABLE_DEPTH_MAX)
            elif added not in (PLAIN, AGAIN):
                replaced = self.replaced + COUNT_HEADERS if added == EACH_COUNTS else self.replaced
                most = self.body_octets_max - CONTENT_OCTETS
                properties = with_fields(properties, replaced, self.for_fields, self.id, most)
            octets = len(properties)
            self.after_size = properties + self.body_head
            self.after_numbers = b""
        part = BytesWriter()
        part.write(self.method_head)
        write_i32_be(part, i32(4 + len(self.tag_argument) + 8 + 1 + 1 + len(exchange) + 1 + len(key)))
        part.write(DELIVER)
        part.write(self.tag_argument)
        self.before_tag = part.getvalue()
        part = BytesWriter()
        part.append(1 if added in (AGAIN, COUNTS, EACH_AGAIN, EACH_COUNTS) else 0)
        part.append(len(exchange))
        part.write(exchange)
        part.append(len(key))
        part.write(key)
        part.write(self.header_head)
        write_i32_be(part, i32(12 + octets))
        part.write(CONTENT)
        self.after_tag = part.getvalue()

    def write_run(self, out: BytesWriter, block: Block, index: i64, count: i64, tag: i64) -> None:
        """Write records that differ in nothing that was prepared."""
        if block.tail or self.converts:
            self.write_alone(out, block, index, count, tag)
            return
        data = block.data
        body_at = block.body_at + 4 * index
        octets_at = block.body_octets_at
        before_tag = self.before_tag
        after_tag = self.after_tag
        after_size = self.after_size
        after_numbers = self.after_numbers
        spliced = self.for_added == STREAM
        between = self.splice.between
        start = octets_at + i64(read_i32_le(data, body_at))
        for place in range(count):
            stop = octets_at + i64(read_i32_le(data, body_at + 4 * place + 4))
            size = stop - start
            out.write(before_tag)
            write_i64_be(out, tag + place)
            out.write(after_tag)
            write_i64_be(out, size)
            out.write(after_size)
            if spliced:
                write_i64_be(out, block.base + index + place)
                out.write(between)
                write_i64_be(out, block.timestamp_us(index + place) // US_PER_MS)
                out.write(after_numbers)
            if 0 < size <= self.body_octets_max:
                write_i32_be(out, i32(size))
                out.write(data[start:stop])
                out.append(FRAME_END)
            else:
                self.write_body(out, data, start, stop)
            start = stop

    def write_alone(self, out: BytesWriter, block: Block, index: i64, count: i64, tag: i64) -> None:
        """Write as `write_run` records whose bodies are long, or have to be converted."""
        if not self.converts:
            self.write_long(out, block, tag)
            return
        self.converts = False
        for at in range(index, index + count):
            exchange, key = format_of(block.format(at)).amqp_address(block.exchange(at), block.routing_key(at))
            made = delivered_block(block, at, AMQP091, exchange, key)
            self.make_parts(exchange, key, made.properties(0), self.for_added)
            self.write_run(out, made, 0, 1, tag)
            tag += 1
        self.converts = True

    def write_long(self, out: BytesWriter, block: Block, tag: i64) -> None:
        """Write as `write_run` the only record of a block, whose body is long."""
        out.write(self.before_tag)
        write_i64_be(out, tag)
        out.write(self.after_tag)
        write_i64_be(out, len(block.tail))
        out.write(self.after_size)
        if self.for_added == STREAM:
            write_i64_be(out, block.base)
            out.write(self.splice.between)
            write_i64_be(out, block.timestamp_us(0) // US_PER_MS)
            out.write(self.after_numbers)
        head = self.body_head[1:]
        out.truncate(i64(len(out)) - i64(len(head)))  # the head of a body frame stands there already
        put_long_body(out, self.parts, head, block.tail, self.body_octets_max)

    def write_body(self, out: BytesWriter, data: bytes, start: i64, stop: i64) -> None:
        """The rest of a body that is not one frame: no frame at all, or several."""
        if start == stop:
            # The head of a body frame has been written already: the end octet of the header stays of it.
            out.truncate(i64(len(out)) - i64(len(self.body_head)) + 1)
            return
        while True:
            end = min(start + self.body_octets_max, stop)
            write_i32_be(out, i32(end - start))
            out.write(data[start:end])
            if end == stop:
                out.append(FRAME_END)
                return
            out.write(self.body_head)
            start = end


def write_get(
    out: BytesWriter,
    parts: list[Part],
    channel: i64,
    delivery: Delivery,
    tag: i64,
    ready: i64,
    frame_max: i64,
    origin: DeliveryOrigin | None,
    tells_counts: bool,
) -> None:
    """Write the one record of a delivery as basic.get-ok."""
    block = delivery.block
    index = delivery.index
    exchange, key = format_of(block.format(index)).amqp_address(block.exchange(index), block.routing_key(index))
    content = delivered(block, index, AMQP091)
    room = HEADER_ROOM if origin is None else HEADER_ROOM + origin.octets_max
    if delivery.consumer.tells_lease:
        room += LEASE_ROOM
    properties = fitting_properties(content.properties, frame_max - FRAME_OVERHEAD - room)
    if delivery.deliveries > 1 and tells_counts:
        fields = count_fields(delivery.deliveries, delivery.failures)
        properties = edit_headers(properties, COUNT_HEADERS, fields, TABLE_DEPTH_MAX)
    if origin is not None:
        offset = block.base + index
        told = BytesWriter()
        origin.put(told, offset)
        most = frame_max - FRAME_OVERHEAD - CONTENT_OCTETS
        properties = with_fields(properties, origin.names, told.getvalue(), origin.property_id(offset), most)
    if delivery.consumer.tells_lease:
        leased = BytesWriter()
        put_lease(leased, delivery)
        most = frame_max - FRAME_OVERHEAD - CONTENT_OCTETS
        properties = with_fields(properties, LEASE_HEADERS, leased.getvalue(), b"", most)
    put_get_ok(out, channel, tag, delivery.redelivered, exchange, key, ready)
    put_content(out, channel, properties, content.body, frame_max, parts)
