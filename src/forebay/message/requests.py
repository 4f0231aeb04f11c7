"""Headers by which a message requests something of the broker, found without a decode of the others.

CC, BCC                          arrays: their texts are further routing keys; BCC is not shown to consumers
x-delay                          milliseconds after which the message is routed, as if it were published then
x-delay-id                       the name under which it can be cancelled until then
x-producer-id with x-sequence    taken once: a number not above the producer's last one is a duplicate
x-deduplication-key              taken once for each key
x-forebay-...                    reserved for the broker: a name that neither it nor its deliveries know is refused
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i32_be
from mypy_extensions import i64

from forebay.core.message import AMQP091, EXPIRES, KEYED
from forebay.message.fields import CC, GROUP_HEADER, marks_of
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX, skip_value
from forebay.wire.amqp091.properties import EXPIRATION, HEADERS, field_at, flags_of

BCC: Final = b"BCC"
DELAY: Final = b"x-delay"
DELAY_ID: Final = b"x-delay-id"
PRODUCER: Final = b"x-producer-id"
SEQUENCE: Final = b"x-sequence"
DEDUPLICATION_KEY: Final = b"x-deduplication-key"
REQUEST_HEADERS: Final = (CC, BCC, DELAY, DELAY_ID, PRODUCER, SEQUENCE, DEDUPLICATION_KEY)
RESERVED: Final = b"x-forebay-"  # what names begin with that nobody else has
# Of deliveries: message id, group, queue, offset. Who publishes what came keeps them.
ORIGIN_HEADERS: Final[list[bytes]] = [
    b"x-forebay-message-id",
    b"x-forebay-group-id",
    b"x-forebay-queue",
    b"x-forebay-offset",
]
# Of webhooks' requests, whose headers a bridge that they are sent to takes for properties.
EVENT_HEADERS: Final[list[bytes]] = [b"x-forebay-event", b"x-forebay-delivery", b"x-forebay-signature"]

# Results of `requests_of`, beside the marks of a record.
REQUESTS: Final = 1  # one of REQUEST_HEADERS
UNKNOWN: Final = 2  # a reserved name
MARKS: Final = EXPIRES | KEYED
CAPITALS: Final = (66, 67)  # B, C
SMALL_X: Final = 120


def requests_of(properties: bytes) -> i64:
    """REQUESTS and UNKNOWN, by the headers of checked properties of AMQP 0.9.1, and the marks of the record."""
    flags = flags_of(properties)
    found: i64 = 0
    is_marked = flags & EXPIRATION != 0
    if flags & HEADERS:
        pos = field_at(properties, HEADERS, TABLE_DEPTH_MAX)
        end = pos + 4 + (i64(read_i32_be(properties, pos)) & 0xFFFFFFFF)
        pos += 4
        while pos < end:
            start = pos + 1
            pos = start + i64(properties[pos])
            if pos > start:
                first = i64(properties[start])
                if first == SMALL_X or first in CAPITALS:
                    name = properties[start:pos]
                    if name in REQUEST_HEADERS:
                        found |= REQUESTS
                    elif name == GROUP_HEADER:
                        is_marked = True
                    elif name.startswith(RESERVED):
                        found |= UNKNOWN
            pos = skip_value(properties, pos, end, TABLE_DEPTH_MAX)
    return found | marks_of(AMQP091, properties) if is_marked else found
