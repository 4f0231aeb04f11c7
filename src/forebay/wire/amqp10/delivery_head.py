"""The sections before the body as a consumer gets them: the broker writes the header, and adds message annotations.

The publisher's delivery annotations are meant for the broker, and end here. Properties and application properties stay
octet for octet.
"""

from __future__ import annotations

from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.wire.amqp10.encoder import put_compound, put_descriptor, put_symbol, put_value
from forebay.wire.amqp10.sections import (
    DURABLE,
    MESSAGE_ANNOTATIONS,
    PRIORITY,
    TTL,
    Items,
    flag_at,
    list_field,
    number_at,
    octets_at,
    put_header,
    split_sections,
)
from forebay.wire.amqp10.values import BINARY_8, MAP_8


@final
class DeliveryHead:
    """The part of a publisher's sections that each delivery has; made anew only for other sections.

    replaced     names of the annotations that the broker writes: those of the publisher are left out
    durable, priority, ttl_ms  of the publisher's header; -1 for a number that is absent
    annotations  the publisher's items of the map, and their number
    bare         the bare message up to the body
    """

    def __init__(self, replaced: list[bytes]) -> None:
        self.replaced = replaced
        self.source = b""
        self.durable = False
        self.priority: i64 = -1
        self.ttl_ms: i64 = -1
        self.annotations = b""
        self.count: i64 = 0
        self.bare = b""

    def prepare(self, properties: bytes) -> None:
        """Take the sections of the next delivery, which were checked when they were published."""
        if properties == self.source:
            return
        found = split_sections(properties, 0, i64(len(properties)))
        end = found.end
        self.durable = flag_at(properties, list_field(properties, found.header, end, DURABLE))
        self.priority = number_at(properties, list_field(properties, found.header, end, PRIORITY))
        self.ttl_ms = number_at(properties, list_field(properties, found.header, end, TTL))
        self.annotations = b""
        self.count = 0
        if found.message_annotations >= 0:
            self.keep_annotations(properties, Items(properties, found.message_annotations, end))
        self.bare = properties[found.bare_at :]
        self.source = properties

    def keep_annotations(self, properties: bytes, items: Items) -> None:
        """Keep the annotations that are not replaced."""
        out = BytesWriter()
        for _ in range(items.count // 2):
            start = items.skip(properties)
            is_binary = i64(properties[start]) & 0xEF == BINARY_8
            name = octets_at(properties, start, items.at)
            items.skip(properties)
            if name not in self.replaced or is_binary:
                out.write(properties[start : items.at])
                self.count += 2
        self.annotations = out.getvalue()

    def sections(self, ttl_ms: i64, first_acquirer: bool, delivery_count: i64, added: bytes, count: i64) -> bytes:
        """Return the sections before the body of a delivery.

        ttl_ms  what is left of the time to live, -1 for none
        added   annotations by `put_annotation`, and their number
        """
        out = BytesWriter()
        put_header(out, self.durable, self.priority, ttl_ms, first_acquirer, delivery_count)
        if self.count or count:
            put_descriptor(out, MESSAGE_ANNOTATIONS)
            put_compound(out, MAP_8, self.count + 2 * count, self.annotations + added)
        out.write(self.bare)
        return out.getvalue()


def put_annotation(out: BytesWriter, name: str, value: object) -> None:
    """Append an annotation for `DeliveryHead.sections`."""
    put_symbol(out, name)
    put_value(out, value)
