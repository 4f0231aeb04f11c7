"""AMQP 0.9.1: `properties` are the flags and fields of the content header, and `body` is the message's body."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, write_i64_be
from mypy_extensions import i64

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.message import AMQP091, AMQP_SECTIONS, PLAIN_BODY, Properties
from forebay.message.deaths import DEATH_HEADERS, FIRST_DEATH, LAST_DEATH, MARKS, X_DEATH, Death, Deaths, mark_headers
from forebay.message.formats.format import Format
from forebay.message.requests import (
    BCC,
    CC,
    CRON,
    CRON_ZONE,
    DELAY,
    GROUP_HEADER,
    REQUEST_HEADERS,
    REQUESTS,
    RESERVED,
    UNKNOWN,
    PublishRequests,
    check_expiration,
    check_name,
    delay_id_of,
    delay_ms_of,
    read_recurrence,
    texts_in,
)
from forebay.routing.topic_trie import swap_key
from forebay.wire.amqp091.codec import (
    TABLE_DEPTH_MAX,
    Reader,
    put_long_string,
    put_short_string,
    put_table,
    skip_value,
)
from forebay.wire.amqp091.properties import (
    EXPIRATION,
    HEADERS,
    PRIORITY,
    REPLY_TO,
    SECTIONS_TYPE,
    TYPE,
    USER_ID,
    check_properties,
    decode_properties,
    edit_headers,
    encode_properties,
    expiration_digits,
    field_at,
    flags_of,
    header_at,
    headers_of,
    short_field,
    without_expiration,
)

EXPIRATION_MS_MAX: Final = 1 << 50  # cap of some 35,000 years, so that sums of times stay within 64 bits
CAPITALS: Final = (66, 67)  # B, C
SMALL_X: Final = 120

# Types of field values (section 4.2.5.5).
ARRAY: Final = 65
TABLE: Final = 70
TEXT: Final = 83
TIME: Final = 84
LONG: Final = 108

# RabbitMQ's names for the types of field values in errors (section 4.2.1, with its errata).
TYPE_NAMES: Final[dict[int, str]] = {
    83: "longstr",
    73: "signedint",
    68: "decimal",
    84: "timestamp",
    70: "table",
    98: "byte",
    66: "unsignedbyte",
    100: "double",
    102: "float",
    108: "long",
    115: "short",
    117: "unsignedshort",
    105: "unsignedint",
    116: "bool",
    120: "binary",
    86: "void",
}


@final
class Amqp091Format(Format):
    """The adapter of AMQP 0.9.1."""

    def __init__(self) -> None:
        super().__init__(AMQP091, "amqp091", keys_are_topics=False, has_plain_bodies=True, marks_late=False)

    # ---- octet and address

    def may_publish(self, octet: i64) -> bool:
        return octet == AMQP091

    def topic(self, routing_key: bytes) -> bytes:
        return swap_key(routing_key)

    def amqp_address(self, exchange: bytes, routing_key: bytes) -> tuple[bytes, bytes]:
        return exchange, routing_key

    # ---- single fields

    def priority(self, properties: bytes) -> i64:
        if not flags_of(properties) & PRIORITY:
            return -1
        return i64(properties[field_at(properties, PRIORITY, TABLE_DEPTH_MAX)])

    def expiration_us(self, properties: bytes) -> i64:
        if not flags_of(properties) & EXPIRATION:
            return -1
        digits = short_field(properties, EXPIRATION, TABLE_DEPTH_MAX)
        if not digits.isdigit():
            return -1
        return min(int(digits), EXPIRATION_MS_MAX) * 1000

    def header(self, properties: bytes, name: bytes) -> bytes | None:
        at = header_at(properties, name, TABLE_DEPTH_MAX)
        if at < 0:
            return None
        value = Reader(properties, at, len(properties), TABLE_DEPTH_MAX).value()
        if isinstance(value, bytes):
            return value
        if isinstance(value, str):
            return value.encode()
        return b"%d" % value if isinstance(value, int) and not isinstance(value, bool) else None

    def headers(self, properties: bytes) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, value in headers_of(properties, TABLE_DEPTH_MAX):
            found[name] = value
        return found

    def reply_to(self, properties: bytes) -> bytes:
        return short_field(properties, REPLY_TO, TABLE_DEPTH_MAX) if flags_of(properties) & REPLY_TO else b""

    # ---- requests

    def check(self, properties: bytes, user: bytes, depth_max: i64) -> i64:
        flags = check_properties(properties, depth_max)
        if flags & USER_ID:
            named = short_field(properties, USER_ID, depth_max)
            if named != user:
                raise RequestError(
                    PRECONDITION,
                    f"user_id property set to '{named.decode('utf-8', 'replace')}' but authenticated user was "
                    f"'{user.decode('utf-8', 'replace')}'",
                )
        if flags & EXPIRATION:
            check_expiration(short_field(properties, EXPIRATION, depth_max).decode("utf-8", "replace"))
        found = self.requests(properties)
        if found & UNKNOWN:
            for name in self.headers(properties):
                check_name(name, "header")
        return found

    def requests(self, properties: bytes) -> i64:
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
        return found | self.marks(properties) if is_marked else found

    def read_requests(self, properties: bytes) -> PublishRequests:
        found = PublishRequests(properties)
        values = self.headers(properties)
        if "CC" in values:
            found.keys += routing_keys("CC", values["CC"], properties)
        if "BCC" in values:
            found.keys += routing_keys("BCC", values["BCC"], properties)
            found.properties = self.edit(properties, [BCC], [])
        if "x-delay" in values:
            delay_ms = delay_ms_of(values["x-delay"])
            if delay_ms > 0:
                found.delay_us = delay_ms * 1000
                found.delay_id = delay_id_of(values.get("x-delay-id", ""))
                # Like the delayed-message plugin: consumers see the delay negated, which requests none.
                found.delayed = self.edit(properties, [DELAY], [("x-delay", -int(delay_ms))])
        if "x-cron" in values or "x-cron-time-zone" in values:
            read_recurrence(found, values)
            found.delayed = self.edit(properties, [CRON, CRON_ZONE], [])
        found.producer = values.get("x-producer-id")
        found.sequence = values.get("x-sequence")
        found.deduplication_key = values.get("x-deduplication-key")
        return found

    def further_keys(self, properties: bytes) -> list[bytes]:
        at = header_at(properties, CC, TABLE_DEPTH_MAX)
        return texts_in(Reader(properties, at, len(properties), TABLE_DEPTH_MAX).value()) if at >= 0 else []

    # ---- edits

    def edit(self, properties: bytes, dropped: list[bytes], added: list[tuple[str, object]]) -> bytes:
        fields = BytesWriter()
        put_table(fields, added)
        return edit_headers(properties, dropped, fields.getvalue()[4:], TABLE_DEPTH_MAX)

    def without_further_keys(self, properties: bytes) -> bytes:
        if header_at(properties, CC, TABLE_DEPTH_MAX) < 0:
            return properties
        return edit_headers(properties, [CC], b"", TABLE_DEPTH_MAX)

    def without_expiration(self, properties: bytes) -> bytes:
        return without_expiration(properties, TABLE_DEPTH_MAX)

    def expiration_digits(self, properties: bytes) -> bytes:
        return expiration_digits(properties, TABLE_DEPTH_MAX)

    def aged(self, properties: bytes, waited_us: i64) -> bytes:
        return properties

    def with_deaths(self, properties: bytes, deaths: Deaths) -> bytes:
        # The types are RabbitMQ's, even where shorter ones exist, because clients distinguish them.
        dropped: list[bytes] = []
        added = BytesWriter()
        first, last = deaths.first, deaths.last
        if first is not None and last is not None:
            dropped += DEATH_HEADERS
            put_deaths(added, deaths.deaths)
            put_texts(added, FIRST_DEATH, [first.exchange, first.queue, first.reason])
            put_texts(added, LAST_DEATH, [deaths.last_exchange, last.queue, last.reason])
        if deaths.marks is not None:
            dropped += MARKS
            table = BytesWriter()
            put_table(table, mark_headers(deaths.marks))
            added.write(table.getvalue()[4:])
        return edit_headers(properties, dropped, added.getvalue(), TABLE_DEPTH_MAX)

    # ---- conversion

    def decode(self, properties: bytes) -> Properties:
        return decode_properties(properties, TABLE_DEPTH_MAX)

    def encode(self, properties: Properties) -> bytes:
        return encode_properties(properties)

    def body_kind(self, properties: bytes, body: bytes) -> i64:
        if flags_of(properties) & TYPE and short_field(properties, TYPE, TABLE_DEPTH_MAX) == SECTIONS_TYPE:
            return AMQP_SECTIONS
        return PLAIN_BODY


def routing_keys(name: str, value: object, properties: bytes) -> list[bytes]:
    """Return the texts of a CC or BCC header. Raises RequestError if the header is no array."""
    if not isinstance(value, list):
        type_name = TYPE_NAMES[properties[header_at(properties, name.encode(), TABLE_DEPTH_MAX)]]
        raise RequestError(PRECONDITION, f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name}}}')
    return texts_in(value)


def put_texts(out: BytesWriter, names: tuple[bytes, bytes, bytes], values: list[bytes]) -> None:
    for index, name in enumerate(names):
        put_text(out, name, values[index])


def put_text(out: BytesWriter, name: bytes, value: bytes) -> None:
    put_short_string(out, name)
    out.append(TEXT)
    put_long_string(out, value)


def put_deaths(out: BytesWriter, deaths: list[Death]) -> None:
    tables = BytesWriter()
    for death in deaths:
        tables.append(TABLE)
        put_long_string(tables, death_table(death))
    put_short_string(out, X_DEATH)
    out.append(ARRAY)
    put_long_string(out, tables.getvalue())


def death_table(death: Death) -> bytes:
    keys = BytesWriter()
    for key in death.keys:
        keys.append(TEXT)
        put_long_string(keys, key)
    out = BytesWriter()
    if death.expiration:
        put_text(out, b"original-expiration", death.expiration)
    put_short_string(out, b"count")
    out.append(LONG)
    write_i64_be(out, death.count)
    put_text(out, b"reason", death.reason)
    put_text(out, b"queue", death.queue)
    put_short_string(out, b"time")
    out.append(TIME)
    write_i64_be(out, death.time_s)
    put_text(out, b"exchange", death.exchange)
    put_short_string(out, b"routing-keys")
    out.append(ARRAY)
    put_long_string(out, keys.getvalue())
    return out.getvalue()
