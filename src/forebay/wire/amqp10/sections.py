"""The sections of an AMQP 1.0 message (part 3.2 of the standard): located, partly decoded, and encoded.

    0x70  header                   list     at most one
    0x71  delivery-annotations     map      at most one
    0x72  message-annotations      map      at most one
    0x73  properties               list     at most one
    0x74  application-properties   map      at most one
    0x75  data                     binary   at least one of data, or of amqp-sequence, or one amqp-value
    0x76  amqp-sequence            list
    0x77  amqp-value               any
    0x78  footer                   map      at most one

Each is a described value, in this order. From properties to the body they are the bare message, which is immutable.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i64_be
from mypy_extensions import i64

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.checker import check_value
from forebay.wire.amqp10.decoder import ValueReader, malformed, read_u32, value_end
from forebay.wire.amqp10.encoder import WIDE, put_compound, put_descriptor, put_octets, put_value
from forebay.wire.amqp10.outgoing import put_uint
from forebay.wire.amqp10.values import (
    BINARY_8,
    DESCRIBED,
    LIST_0,
    LIST_8,
    LIST_32,
    MAP_8,
    MAP_32,
    NULL,
    STRING_8,
    SYMBOL_8,
    TIMESTAMP,
    TRUE,
    UBYTE,
    UINT,
    UINT_0,
    UINT_SMALL,
    ULONG,
    ULONG_SMALL,
    UUID,
    Symbol,
    Ulong,
)

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78

SECTION_NAMES: Final = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": AMQP_SEQUENCE,
    "amqp:amqp-value:*": AMQP_VALUE,
    "amqp:footer:map": FOOTER,
}

UINT_MAX: Final = 0xFFFFFFFF
SECTIONS_MAX: Final = 10_000  # RabbitMQ's limit

# Fields of the header (section 3.2.1).
DURABLE: Final = 0
PRIORITY: Final = 1
TTL: Final = 2
FIRST_ACQUIRER: Final = 3
DELIVERY_COUNT: Final = 4
HEADER_FIELDS: Final = 5
PRIORITY_DEFAULT: Final = 4

# Fields of the properties (section 3.2.4).
MESSAGE_ID: Final = 0
USER_ID: Final = 1
TO: Final = 2
SUBJECT: Final = 3
REPLY_TO: Final = 4
CORRELATION_ID: Final = 5
CONTENT_TYPE: Final = 6
CONTENT_ENCODING: Final = 7
ABSOLUTE_EXPIRY_TIME: Final = 8
CREATION_TIME: Final = 9
GROUP_ID: Final = 10
GROUP_SEQUENCE: Final = 11
REPLY_TO_GROUP_ID: Final = 12
PROPERTY_FIELDS: Final = 13

STRINGS: Final = (0xA1, 0xB1)
SYMBOLS: Final = (0xA3, 0xB3)
BINARIES: Final = (0xA0, 0xB0)
UINTS: Final = (UINT_0, UINT_SMALL, UINT)
IDS: Final = (0x44, ULONG_SMALL, ULONG, UUID, 0xA0, 0xB0, 0xA1, 0xB1)
HEADER_TYPES: Final = ((0x41, 0x42, 0x56), (UBYTE,), UINTS, (0x41, 0x42, 0x56), UINTS)
HEADER_NAMES: Final = ("durable", "priority", "ttl", "first-acquirer", "delivery-count")
PROPERTY_TYPES: Final = (
    IDS,
    BINARIES,
    STRINGS,
    STRINGS,
    STRINGS,
    IDS,
    SYMBOLS,
    SYMBOLS,
    (TIMESTAMP,),
    (TIMESTAMP,),
    STRINGS,
    UINTS,
    STRINGS,
)
PROPERTY_NAMES: Final[tuple[str, ...]] = (
    *["message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding"],
    *["absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id"],
)


def allowed_types(types: tuple[tuple[int, ...], ...]) -> bytes:
    """Return 256 flags for each field, indexed by constructor: 1 if the field may have it, null included."""
    found = bytearray(256 * len(types))
    for index, codes in enumerate(types):
        for code in (NULL, *codes):
            found[256 * index + code] = 1
    return bytes(found)


HEADER_ALLOWED: Final = allowed_types(HEADER_TYPES)
PROPERTY_ALLOWED: Final = allowed_types(PROPERTY_TYPES)


# ---- finding sections


@final
class Sections:
    """The positions of a message's sections: of their values, or -1 for an absent section.

    bare_at    position of the bare message: of the first section after the annotations
    body_at    position of the first section of the body; `footer_at` or `end` if there is no body
    body_kind  DATA, AMQP_SEQUENCE or AMQP_VALUE; 0 if there is no body
    body_count number of sections of the body
    footer_at  position of the footer section; `end` if there is none
    """

    def __init__(self, at: i64, end: i64) -> None:
        self.header: i64 = -1
        self.delivery_annotations: i64 = -1
        self.message_annotations: i64 = -1
        self.properties: i64 = -1
        self.application_properties: i64 = -1
        self.footer: i64 = -1
        self.bare_at: i64 = end
        self.body_at: i64 = end
        self.body_kind: i64 = 0
        self.body_count: i64 = 0
        self.footer_at: i64 = end
        self.end: i64 = end


def split_sections(data: bytes, at: i64, end: i64) -> Sections:
    """Return the positions of the sections in the octets [at, end), without checking the contents of their values.

    Raises PeerError(MALFORMED) for an unknown section, or one out of order. A message without a body is malformed too,
    but the caller has to check that: see `Sections.body_kind`.
    """
    found = Sections(at, end)
    last: i64 = 0
    count: i64 = 0
    while at < end:
        start = at
        code: i64
        if at + 3 <= end and data[at] == DESCRIBED and data[at + 1] == ULONG_SMALL:
            code = i64(data[at + 2])
            at += 3
        else:
            at = value_end(data, at + 1, end) if data[at] == DESCRIBED else at
            code = section_code(data, start, at)
        if not HEADER <= code <= FOOTER:
            raise malformed(start, f"0x{code:02x} describes no section of a message")
        if code <= last:
            if code != last or not DATA <= code <= AMQP_SEQUENCE:
                raise malformed(start, f"section 0x{code:02x} after section 0x{last:02x}")
        elif last >= DATA and code != FOOTER:
            raise malformed(start, f"a body of sections 0x{last:02x} and 0x{code:02x}")
        last = code
        count += 1
        if count > SECTIONS_MAX:
            raise malformed(start, f"more than {SECTIONS_MAX} sections")
        value_at = at
        at = value_end(data, at, end)
        note_section(found, data, code, start, value_at)
    return found


def section_code(data: bytes, start: i64, at: i64) -> i64:
    """Return the code of the section at `start` whose descriptor [start + 1, at) has an unusual encoding."""
    if at > start:
        descriptor = ValueReader(data, start + 1, at).value()
        code = -1
        if isinstance(descriptor, Ulong):
            code = descriptor.value
        elif isinstance(descriptor, Symbol):
            code = SECTION_NAMES.get(descriptor.text, -1)
        if HEADER <= code <= FOOTER:
            return i64(code)
    raise malformed(start, "a section of a message is expected")


def note_section(found: Sections, data: bytes, code: i64, start: i64, at: i64) -> None:
    """Record a section of type `code` at `start`, with its value at `at`. Raises PeerError for a wrong value type."""
    constructor = i64(data[at])
    if code in (HEADER, PROPERTIES, AMQP_SEQUENCE):
        if constructor not in (LIST_0, LIST_8, LIST_32):
            raise malformed(start, f"section 0x{code:02x} is no list")
    elif code == DATA:
        if constructor not in BINARIES:
            raise malformed(start, "section 0x75 is no binary")
    elif code != AMQP_VALUE and constructor not in (MAP_8, MAP_32):
        raise malformed(start, f"section 0x{code:02x} is no map")
    if code >= PROPERTIES and found.bare_at == found.end:
        found.bare_at = start
    if DATA <= code <= AMQP_VALUE:
        if found.body_count == 0:
            found.body_at = start
            found.body_kind = code
        found.body_count += 1
    elif code == HEADER:
        found.header = at
    elif code == DELIVERY_ANNOTATIONS:
        found.delivery_annotations = at
    elif code == MESSAGE_ANNOTATIONS:
        found.message_annotations = at
    elif code == PROPERTIES:
        found.properties = at
    elif code == APPLICATION_PROPERTIES:
        found.application_properties = at
    else:
        found.footer = at
        found.footer_at = start
        if found.body_count == 0:
            found.body_at = start


# ---- checking


def check_sections(data: bytes, at: i64, end: i64, depth_max: i64) -> Sections:
    """Return the positions of the sections. Raises PeerError(MALFORMED) unless all sections before the body are valid.

    The values of the body and the footer are not checked.
    """
    found = split_sections(data, at, end)
    if found.header >= 0:
        check_list(data, found.header, end, "header", HEADER_NAMES, HEADER_ALLOWED)
    if found.properties >= 0:
        check_list(data, found.properties, end, "properties", PROPERTY_NAMES, PROPERTY_ALLOWED)
    if found.delivery_annotations >= 0:
        check_map(data, found.delivery_annotations, end, "delivery-annotations", depth_max)
    if found.message_annotations >= 0:
        check_map(data, found.message_annotations, end, "message-annotations", depth_max)
    if found.application_properties >= 0:
        check_map(data, found.application_properties, end, "application-properties", depth_max)
    return found


def check_list(data: bytes, at: i64, end: i64, owner: str, names: tuple[str, ...], allowed: bytes) -> None:
    """Check the list at `at`: its length, and the types of its fields against `allowed` (see `allowed_types`)."""
    stop = check_value(data, at, end, 2)
    items = Items(data, at, stop)
    if items.count > len(names):
        raise PeerError(MALFORMED, f"{owner}: {items.count} fields, at most {len(names)} are known")
    for index in range(items.count):
        code = i64(data[items.at])
        if not allowed[256 * index + code]:
            raise PeerError(MALFORMED, f"{owner}: {names[index]} may not be of type 0x{code:02x}")
        items.skip(data)


def check_map(data: bytes, at: i64, end: i64, owner: str, depth_max: i64) -> None:
    """Check the map at `at`, of annotations or of application properties, and the types of its keys."""
    stop = check_value(data, at, end, depth_max)
    items = Items(data, at, stop)
    for _ in range(items.count // 2):
        code = i64(data[items.at])
        if owner == "application-properties":
            if code not in STRINGS:
                raise PeerError(MALFORMED, f"{owner}: a key is of type 0x{code:02x}, no string")
        elif code not in SYMBOLS and code not in (0x44, ULONG_SMALL, ULONG):
            raise PeerError(MALFORMED, f"{owner}: a key is of type 0x{code:02x}, no symbol")
        items.skip(data)
        items.skip(data)


# ---- reading single values


@final
class Items:
    """A cursor over the items of an encoded list or map.

    at     position of the next item
    stop   end of the last item
    count  number of all items; a map's keys and values both count
    """

    def __init__(self, data: bytes, at: i64, end: i64) -> None:
        code = i64(data[at])
        self.at: i64 = at + 1
        self.stop: i64 = at + 1
        self.count: i64 = 0
        if code in (LIST_0, NULL):
            return
        if code & WIDE:
            if at + 9 > end:
                raise malformed(at, "runs over the end")
            self.stop = at + 5 + read_u32(data, at + 1)
            self.count = read_u32(data, at + 5)
            self.at = at + 9
        else:
            if at + 3 > end:
                raise malformed(at, "runs over the end")
            self.stop = at + 2 + i64(data[at + 1])
            self.count = i64(data[at + 2])
            self.at = at + 3
        if self.stop > end or self.at > self.stop:
            raise malformed(at, "runs over the end")

    def skip(self, data: bytes) -> i64:
        """Skip the next item, and return its position."""
        at = self.at
        self.at = value_end(data, at, self.stop)
        return at


def list_field(data: bytes, at: i64, end: i64, index: i64) -> i64:
    """Return the position of field `index` of the list at `at`, or -1 if the field is absent or null.

    at  -1 for no list, as in `Sections`; the result is -1
    """
    if at < 0:
        return -1
    items = Items(data, at, end)
    if index >= items.count:
        return -1
    for _ in range(index):
        items.skip(data)
    if items.at >= items.stop:
        raise malformed(items.at, "runs over the end")
    return -1 if data[items.at] == NULL else items.at


def is_name(code: i64) -> bool:
    """Return whether `code` is the constructor of a string or a symbol."""
    return code in (STRING_8, SYMBOL_8, STRING_8 | WIDE, SYMBOL_8 | WIDE)


def map_value(data: bytes, at: i64, end: i64, key: bytes) -> i64:
    """Return the position of the value of a string or symbol `key` in the map at `at`, or -1 if there is none.

    at  -1 for no map, as in `Sections`; the result is -1
    """
    if at < 0:
        return -1
    items = Items(data, at, end)
    octets = len(key)
    for _ in range(items.count // 2):
        key_at = items.skip(data)
        code = i64(data[key_at])
        head: i64 = 5 if code & WIDE else 2
        if items.at - key_at == octets + head and data[key_at + head : items.at] == key and is_name(code):
            return items.at
        items.skip(data)
    return -1


def value_at(data: bytes, at: i64, end: i64) -> object:
    """Return the decoded value at `at`, or None if `at` is -1."""
    return None if at < 0 else ValueReader(data, at, end).value()


def octets_at(data: bytes, at: i64, end: i64) -> bytes:
    """Return the octets of the string, symbol or binary at `at`. Returns b"" if `at` is -1, or for another type."""
    if at < 0:
        return b""
    code = i64(data[at])
    if not 0xA0 <= code <= 0xBF:
        return b""
    stop = value_end(data, at, end)
    return data[at + (5 if code & WIDE else 2) : stop]


def number_at(data: bytes, at: i64) -> i64:
    """Return the uint, ubyte or timestamp at `at`, which has been checked. Returns -1 if `at` is -1."""
    if at < 0:
        return -1
    code = i64(data[at])
    if code in (UBYTE, UINT_SMALL):
        return i64(data[at + 1])
    if code == UINT:
        return read_u32(data, at + 1)
    return read_i64_be(data, at + 1) if code == TIMESTAMP else 0


def flag_at(data: bytes, at: i64) -> bool:
    """Return the boolean at `at`, which has been checked. Returns False if `at` is -1."""
    return at >= 0 and (data[at] == TRUE or (data[at] == 0x56 and data[at + 1] == 1))


def body_payload(data: bytes, found: Sections) -> bytes:
    """Return a message's body for consumers of other protocols.

    Data sections are joined. An amqp-value that is a string or a binary becomes its octets. Any other body remains
    encoded sections.
    """
    if found.body_kind == DATA:
        at = found.body_at
        if found.body_count == 1:
            return octets_at(data, data_value(data, at), found.footer_at)
        joined = BytesWriter()
        for _ in range(found.body_count):
            start = data_value(data, at)
            joined.write(octets_at(data, start, found.footer_at))
            at = value_end(data, start, found.footer_at)
        return joined.getvalue()
    if found.body_kind == AMQP_VALUE and has_plain_value(data, found):
        return octets_at(data, data_value(data, found.body_at), found.footer_at)
    return data[found.body_at : found.footer_at]


def data_value(data: bytes, start: i64) -> i64:
    """Return the position of the value of the section at `start`, which has been checked."""
    return start + 3 if data[start + 1] == ULONG_SMALL else value_end(data, start + 1, i64(len(data)))


# ---- writing


def put_header(
    out: BytesWriter, durable: bool, priority: i64, ttl_ms: i64, first_acquirer: bool, delivery_count: i64
) -> None:
    """Append a header section; `priority` and `ttl_ms` are -1 for none. A header without any value is left out."""
    count: i64 = 0
    if delivery_count > 0:
        count = 5
    elif first_acquirer:
        count = 4
    elif ttl_ms >= 0:
        count = 3
    elif priority >= 0:
        count = 2
    elif durable:
        count = 1
    if count == 0:
        return
    inner = BytesWriter()
    inner.append(TRUE if durable else 0x42)
    if count >= 2:
        if priority >= 0:
            inner.append(UBYTE)
            inner.append(int(priority))
        else:
            inner.append(NULL)
    if count >= 3:
        put_uint(inner, ttl_ms)
    if count >= 4:
        inner.append(TRUE if first_acquirer else 0x42)
    if count >= 5:
        put_uint(inner, delivery_count)
    put_descriptor(out, HEADER)
    put_compound(out, LIST_8, count, inner.getvalue())


def put_section(out: BytesWriter, code: i64, value: object) -> None:
    """Append a section with this value, which is encoded here."""
    put_descriptor(out, code)
    put_value(out, value)


def put_data(out: BytesWriter, body: bytes) -> None:
    """Append a data section."""
    put_descriptor(out, DATA)
    put_octets(out, BINARY_8, body)


def edited_map(data: bytes, at: i64, end: i64, dropped: list[bytes], added: list[tuple[object, object]]) -> bytes:
    """Return the map at `at` (-1 for none) without the keys `dropped` and with `added` at its end, b"" if it is empty.

    All other entries are copied unchanged.
    """
    out = BytesWriter()
    count: i64 = 0
    if at >= 0:
        items = Items(data, at, end)
        for _ in range(items.count // 2):
            start = items.skip(data)
            name = octets_at(data, start, items.at)
            items.skip(data)
            if name in dropped and i64(data[start]) not in BINARIES:
                continue
            out.write(data[start : items.at])
            count += 2
    for key, value in added:
        put_value(out, key)
        put_value(out, value)
        count += 2
    if count == 0:
        return b""
    made = BytesWriter()
    put_compound(made, MAP_8, count, out.getvalue())
    return made.getvalue()


def with_ttl(data: bytes, ttl_ms: i64) -> bytes:
    """Return sections with another time to live, or without one if `ttl_ms` is -1. Only the header changes."""
    found = split_sections(data, 0, i64(len(data)))
    if found.header < 0:
        if ttl_ms < 0:
            return data
        stop: i64 = 0
    else:
        stop = value_end(data, found.header, found.end)
        if ttl_ms < 0 and list_field(data, found.header, found.end, TTL) < 0:
            return data
    out = BytesWriter()
    put_header(
        out,
        flag_at(data, list_field(data, found.header, found.end, DURABLE)),
        number_at(data, list_field(data, found.header, found.end, PRIORITY)),
        min(ttl_ms, UINT_MAX),
        flag_at(data, list_field(data, found.header, found.end, FIRST_ACQUIRER)),
        max(0, number_at(data, list_field(data, found.header, found.end, DELIVERY_COUNT))),
    )
    out.write(data[stop:])
    return out.getvalue()


def with_annotations(data: bytes, dropped: list[bytes], added: list[tuple[object, object]]) -> bytes:
    """Return sections without the message annotations `dropped`, and with `added`. All else is copied unchanged."""
    found = split_sections(data, 0, i64(len(data)))
    if not added and not keys_in(data, found.message_annotations, found.end, dropped):
        return data
    out = BytesWriter()
    if found.delivery_annotations >= 0:
        out.write(data[: value_end(data, found.delivery_annotations, found.end)])
    elif found.header >= 0:
        out.write(data[: value_end(data, found.header, found.end)])
    put_map_section(out, MESSAGE_ANNOTATIONS, edited_map(data, found.message_annotations, found.end, dropped, added))
    out.write(data[found.bare_at :])
    return out.getvalue()


def with_named(data: bytes, dropped: list[bytes], added: list[tuple[object, object]]) -> bytes:
    """Return sections without the application properties `dropped`, and with `added`. All else is copied unchanged."""
    found = split_sections(data, 0, i64(len(data)))
    at = found.application_properties
    if not added and not keys_in(data, at, found.end, dropped):
        return data
    out = BytesWriter()
    if at >= 0:
        before = found.bare_at
        if found.properties >= 0:
            before = value_end(data, found.properties, found.end)
        out.write(data[:before])
    else:
        out.write(data[: found.body_at])
    put_map_section(out, APPLICATION_PROPERTIES, edited_map(data, at, found.end, dropped, added))
    out.write(data[value_end(data, at, found.end) if at >= 0 else found.body_at :])
    return out.getvalue()


def keys_in(data: bytes, at: i64, end: i64, names: list[bytes]) -> list[bytes]:
    """Return the `names` that are keys of the map at `at`, none if `at` is -1."""
    return [name for name in names if map_value(data, at, end, name) >= 0]


def put_map_section(out: BytesWriter, code: i64, encoded: bytes) -> None:
    """Append a section with an encoded map. Appends nothing if `encoded` is empty."""
    if encoded:
        put_descriptor(out, code)
        out.write(encoded)


def has_plain_value(data: bytes, found: Sections) -> bool:
    """Return whether the amqp-value of a body is a string or a binary."""
    code = i64(data[data_value(data, found.body_at)])
    return code in STRINGS or code in BINARIES
