"""Headers by which a delivery of AMQP 0.9.1 says where it comes from, for consumers that ask for them."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, write_i64_be
from mypy_extensions import i64

from forebay.core import option_names as words
from forebay.message.requests import ORIGIN_HEADERS
from forebay.wire.amqp091.codec import SHORT_STRING_MAX, put_long_string, put_short_string

FLUXMQ_NAMES: Final[list[bytes]] = [b"message-id", b"group-id", b"queue", b"offset"]  # in the order of ORIGIN_HEADERS
DIGITS_MAX: Final = 19


@final
class DeliveryOrigin:
    """The origin of one consumer's deliveries, as they say it.

    names       of the headers
    is_fluxmq   the offset is a text, and a message without a message-id gets one
    octets_max  of all headers, and of that message-id
    """

    def __init__(self, style: str, queue: bytes, group: bytes) -> None:
        self.is_fluxmq = style == words.FLUXMQ
        self.names = FLUXMQ_NAMES if self.is_fluxmq else ORIGIN_HEADERS
        self.id_prefix = queue + b":"
        fixed = BytesWriter()
        if not group.startswith(b"\0"):  # a stream cursor of its own has no name to tell
            put_text_field(fixed, self.names[1], group)
        put_text_field(fixed, self.names[2], queue)
        self.fixed = fixed.getvalue()
        varying = 2 * (len(self.id_prefix) + DIGITS_MAX + 8) + DIGITS_MAX
        self.octets_max: i64 = len(self.fixed) + len(self.names[0]) + len(self.names[3]) + varying

    def message_id(self, offset: i64) -> bytes:
        return self.id_prefix + b"%d" % int(offset)

    def put(self, out: BytesWriter, offset: i64) -> None:
        """Append the headers of the record at this offset, as they stand in a table."""
        put_text_field(out, self.names[0], self.message_id(offset))
        out.write(self.fixed)
        if self.is_fluxmq:
            put_text_field(out, self.names[3], b"%d" % int(offset))
        else:
            put_number_field(out, self.names[3], offset)

    def property_id(self, offset: i64) -> bytes:
        """The property message-id for a message that has none; empty where it is to have none."""
        found = self.message_id(offset) if self.is_fluxmq else b""
        return found if len(found) <= SHORT_STRING_MAX else b""


def origin_of(style: str, queue: bytes, group: bytes) -> DeliveryOrigin | None:
    """The origin that deliveries say in a style of `option_names.DELIVERY_HEADERS`; None where they say nothing."""
    return None if style == words.NONE else DeliveryOrigin(style, queue, group)


def put_text_field(out: BytesWriter, name: bytes, text: bytes) -> None:
    """Append a header that is a text."""
    put_short_string(out, name)
    out.append(83)  # S
    put_long_string(out, text)


def put_number_field(out: BytesWriter, name: bytes, number: i64) -> None:
    """Append a header that is a 64-bit number."""
    put_short_string(out, name)
    out.append(108)  # l
    write_i64_be(out, number)
