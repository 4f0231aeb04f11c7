"""The properties of an AMQP 0.9.1 message: checked, skipped, decoded and encoded.

They are the content header from octet 12 on: 16 flags, then the fields whose flag is set, in the flags' order
(AMQP 0.9.1 section 4.2.6.1). The broker copies them from publisher to consumer. It decodes them only for a reader
of another protocol, for headers exchanges, and to add a header of its own.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i64_be
from mypy_extensions import i64

from forebay.core.errors import MALFORMED, PeerError
from forebay.core.message import AMQP_SECTIONS, OCTETS_ID, TEXT_ID, Properties
from forebay.wire.amqp091.codec import (
    SHORT_STRING_MAX,
    Reader,
    cut_text,
    overrun,
    put_long,
    put_long_string,
    put_short,
    put_short_string,
    put_table,
    skip_table,
    skip_value,
)

CONTENT_TYPE: Final = 1 << 15
CONTENT_ENCODING: Final = 1 << 14
HEADERS: Final = 1 << 13
DELIVERY_MODE: Final = 1 << 12
PRIORITY: Final = 1 << 11
CORRELATION_ID: Final = 1 << 10
REPLY_TO: Final = 1 << 9
EXPIRATION: Final = 1 << 8
MESSAGE_ID: Final = 1 << 7
TIMESTAMP: Final = 1 << 6
TYPE: Final = 1 << 5
USER_ID: Final = 1 << 4
APP_ID: Final = 1 << 3
CLUSTER_ID: Final = 1 << 2
UNKNOWN: Final = 3  # the continuation flag, and a flag that no property uses

FLAGS_OCTETS: Final = 2
PERSISTENT: Final = 2
NUMBER_DIGITS_MAX: Final = 18
SECTIONS_TYPE: Final = b"amqp-1.0"  # value of the field `type` if the body consists of AMQP 1.0 sections

GROUP_HEADER: Final = "x-group-id"
ADDRESS_ANNOTATIONS: Final = ("x-exchange", "x-routing-key")  # in AMQP 1.0; here the method has them

# The header that carries MQTT's payload format indicator. Only the value 1 has a meaning.
PAYLOAD_FORMAT_HEADER: Final = "mqtt-payload-format"


def flags_of(properties: bytes) -> i64:
    """Return the property flags. Raises PeerError(MALFORMED) if there are none."""
    if len(properties) < FLAGS_OCTETS:
        raise PeerError(MALFORMED, f"content header ends {len(properties)} octets after the body size")
    return i64(properties[0]) << 8 | i64(properties[1])


def field_at(properties: bytes, field: i64, depth_max: i64) -> i64:
    """Return the position of `field`, or the position it would have if absent. `field` 0 stands for the end.

    Raises PeerError(MALFORMED) if a field before it runs over the end.
    """
    flags = flags_of(properties)
    end = i64(len(properties))
    pos: i64 = FLAGS_OCTETS
    bit: i64 = CONTENT_TYPE
    while bit > UNKNOWN and bit != field:
        if flags & bit:
            if bit == HEADERS:
                pos = skip_table(properties, pos, end, depth_max)
            elif bit in (DELIVERY_MODE, PRIORITY):
                pos += 1
            elif bit == TIMESTAMP:
                pos += 8
            elif pos < end:
                pos += 1 + i64(properties[pos])
            else:
                raise overrun("property", pos)
            if pos > end:
                raise overrun("property", pos)
        bit >>= 1
    return pos


def check_properties(properties: bytes, depth_max: i64) -> i64:
    """Return the property flags. Raises PeerError(MALFORMED) unless exactly the fields of these flags follow."""
    flags = flags_of(properties)
    if flags & UNKNOWN:
        raise PeerError(MALFORMED, f"property flags {flags} have bits that no property has")
    end = field_at(properties, 0, depth_max)
    if end != len(properties):
        raise PeerError(MALFORMED, f"{len(properties) - end} octets after the properties")
    return flags


def short_field(properties: bytes, field: i64, depth_max: i64) -> bytes:
    """Return the value of a short string field that is present in `properties`."""
    at = field_at(properties, field, depth_max)
    return properties[at + 1 : at + 1 + i64(properties[at])]


def headers_of(properties: bytes, depth_max: i64) -> list[tuple[str, object]]:
    """Return the headers of checked properties, empty if there is no header table."""
    if not flags_of(properties) & HEADERS:
        return []
    at = field_at(properties, HEADERS, depth_max)
    return Reader(properties, at, len(properties), depth_max).fields()


def header_at(properties: bytes, name: bytes, depth_max: i64) -> i64:
    """Return the position of the value of a header, from its type octet on, in checked properties; -1 if absent.

    If the name occurs several times, the last one counts, as in a decoded table.
    """
    if not flags_of(properties) & HEADERS:
        return -1
    pos = field_at(properties, HEADERS, depth_max)
    end = pos + 4 + (i64(read_i32_be(properties, pos)) & 0xFFFFFFFF)
    pos += 4
    found: i64 = -1
    while pos < end:
        start = pos + 1
        pos = start + i64(properties[pos])
        if pos - start == len(name) and properties[start:pos] == name:
            found = pos
        pos = skip_value(properties, pos, end, depth_max)
    return found


def edit_headers(properties: bytes, dropped: list[bytes], added: bytes, depth_max: i64) -> bytes:
    """Return checked properties without the headers `dropped`, and with `added` at the end of the header table.

    added  encoded fields of a table; the remaining headers are copied unchanged
    """
    flags = flags_of(properties)
    at = field_at(properties, HEADERS, depth_max)
    rest = at
    table = BytesWriter()
    if flags & HEADERS:
        rest = skip_table(properties, at, len(properties), depth_max)
        pos = at + 4
        while pos < rest:
            value_at = pos + 1 + i64(properties[pos])
            stop = skip_value(properties, value_at, rest, depth_max)
            if properties[pos + 1 : value_at] not in dropped:
                table.write(properties[pos:stop])
            pos = stop
    table.write(added)
    out = BytesWriter()
    put_short(out, flags | HEADERS)
    out.write(properties[FLAGS_OCTETS:at])
    put_long_string(out, table.getvalue())
    out.write(properties[rest:])
    return out.getvalue()


def with_short_field(properties: bytes, field: i64, value: bytes, depth_max: i64) -> bytes:
    """Return checked properties with another value of a short string field that is present."""
    at = field_at(properties, field, depth_max)
    out = BytesWriter()
    out.write(properties[:at])
    put_short_string(out, value)
    out.write(properties[at + 1 + i64(properties[at]) :])
    return out.getvalue()


def expiration_digits(properties: bytes, depth_max: i64) -> bytes:
    """Return the expiration in checked properties as its digits, empty if there is none."""
    return short_field(properties, EXPIRATION, depth_max) if flags_of(properties) & EXPIRATION else b""


def without_expiration(properties: bytes, depth_max: i64) -> bytes:
    """Return checked properties without the expiration."""
    flags = flags_of(properties)
    if not flags & EXPIRATION:
        return properties
    cut = field_at(properties, EXPIRATION, depth_max)
    out = BytesWriter()
    put_short(out, flags - EXPIRATION)
    out.write(properties[FLAGS_OCTETS:cut])
    out.write(properties[cut + 1 + i64(properties[cut]) :])
    return out.getvalue()


def with_message_id(properties: bytes, message_id: bytes, depth_max: i64) -> bytes:
    """Return checked properties with `message_id` added, or unchanged if they have a message-id."""
    flags = flags_of(properties)
    if flags & MESSAGE_ID:
        return properties
    at = field_at(properties, MESSAGE_ID, depth_max)
    out = BytesWriter()
    put_short(out, flags | MESSAGE_ID)
    out.write(properties[FLAGS_OCTETS:at])
    put_short_string(out, message_id)
    out.write(properties[at:])
    return out.getvalue()


def without_headers(properties: bytes, depth_max: i64) -> bytes:
    """Return checked properties without the header table. The remaining fields fit into a frame of any size."""
    flags = flags_of(properties)
    if not flags & HEADERS:
        return properties
    at = field_at(properties, HEADERS, depth_max)
    after = skip_table(properties, at, len(properties), depth_max)
    out = BytesWriter()
    put_short(out, flags - HEADERS)
    out.write(properties[FLAGS_OCTETS:at])
    out.write(properties[after:])
    return out.getvalue()


@final
class HeaderSplice:
    """A writer that adds two headers with 64-bit numbers to published properties.

    between         encoded octets between the two numbers
    prefix, suffix  encoded octets before the first number and after the second; reused while the properties stay equal
    """

    def __init__(self, first: bytes, second: bytes) -> None:
        self.names: list[bytes] = [first, second]
        self.entry = bytes([len(first)]) + first + b"l"
        self.between = bytes([len(second)]) + second + b"l"
        self.source = b""
        self.prefix = b""
        self.suffix = b""

    def prepare(self, properties: bytes, depth_max: i64) -> None:
        """Compute `prefix` and `suffix` for checked properties."""
        if properties == self.source:
            return
        self.source = properties
        for name in self.names:
            if header_at(properties, name, depth_max) >= 0:
                # A republished message has these headers already, and a reader takes the later of two equal names.
                properties = edit_headers(properties, self.names, b"", depth_max)
        flags = flags_of(properties)
        at = field_at(properties, HEADERS, depth_max)
        rest = at
        octets = i64(len(self.entry)) + 8 + i64(len(self.between)) + 8
        if flags & HEADERS:
            octets += i64(read_i32_be(properties, at))
            rest = at + 4
        out = BytesWriter()
        put_short(out, flags | HEADERS)
        out.write(properties[FLAGS_OCTETS:at])
        put_long(out, octets)
        out.write(self.entry)
        self.prefix = out.getvalue()
        self.suffix = properties[rest:]

    def octets(self) -> i64:
        return i64(len(self.prefix)) + 8 + i64(len(self.between)) + 8 + i64(len(self.suffix))

    def apply(self, properties: bytes, first: i64, second: i64, depth_max: i64) -> bytes:
        """Return checked properties with both headers added."""
        self.prepare(properties, depth_max)
        out = BytesWriter()
        out.write(self.prefix)
        write_i64_be(out, first)
        out.write(self.between)
        write_i64_be(out, second)
        out.write(self.suffix)
        return out.getvalue()


# ---- the neutral form


def decode_properties(properties: bytes, depth_max: i64) -> Properties:
    """Return checked properties in the protocol-neutral form."""
    found = Properties()
    found.durable = False
    flags = flags_of(properties)
    args = Reader(properties, FLAGS_OCTETS, len(properties), depth_max)
    if flags & CONTENT_TYPE:
        found.content_type = short_text(args)
    if flags & CONTENT_ENCODING:
        found.content_encoding = short_text(args)
    if flags & HEADERS:
        for name, value in args.fields():
            if name == PAYLOAD_FORMAT_HEADER:
                found.body_is_text = value == 1
            else:
                found.headers.append((name, value))
    if flags & DELIVERY_MODE:
        found.durable = args.octet() == PERSISTENT
    if flags & PRIORITY:
        found.priority = int(args.octet())
    if flags & CORRELATION_ID:
        found.correlation_id = args.short_string()
    if flags & REPLY_TO:
        found.reply_to = short_text(args)
    if flags & EXPIRATION:
        found.expiration_ms = whole_number(args.short_string())
    if flags & MESSAGE_ID:
        found.message_id = short_text(args)
    if flags & TIMESTAMP:
        seconds: int = int(read_i64_be(properties, args.take(8, "timestamp")))
        found.timestamp_s = seconds + (1 << 64) if seconds < 0 else seconds
    if flags & TYPE:
        found.type = short_text(args)
    if flags & USER_ID:
        found.user_id = short_text(args)
    if flags & APP_ID:
        found.app_id = short_text(args)
    if flags & CLUSTER_ID:
        found.cluster_id = short_text(args)
    return found


def short_text(args: Reader) -> str:
    return args.short_string().decode("utf-8", "replace")


def whole_number(digits: bytes) -> int | None:
    """Return the number written as decimal digits, or None if `digits` are not at most 18 digits."""
    if digits.isdigit() and len(digits) <= NUMBER_DIGITS_MAX:
        return int(digits)
    return None


def encode_properties(properties: Properties) -> bytes:
    """Return protocol-neutral properties as an AMQP 0.9.1 property list.

    A text too long for a short string goes into the header `x-…` of its field's name. Of headers with one name the
    last counts. A header table cannot hold a number beyond 64 bits, so such a number is written as its digits.
    """
    body = BytesWriter()
    headers: dict[str, object] = {}
    for name, value in properties.headers:
        headers[name] = value
    if properties.body_is_text:
        headers[PAYLOAD_FORMAT_HEADER] = 1
    if properties.message_annotations is not None:
        put_annotations(properties.message_annotations, headers)
    tail = BytesWriter()
    flags = put_tail(tail, properties, headers)
    flags |= put_text(body, CONTENT_TYPE, "x-content-type", properties.content_type, headers)
    flags |= put_text(body, CONTENT_ENCODING, "x-content-encoding", properties.content_encoding, headers)
    if headers:
        flags |= HEADERS
        put_table(body, list(headers.items()))
    out = BytesWriter()
    put_short(out, flags)
    out.write(body.getvalue())
    out.write(tail.getvalue())
    return out.getvalue()


def put_tail(out: BytesWriter, properties: Properties, headers: dict[str, object]) -> i64:
    """Append the fields after the headers, and return the flags of the fields written."""
    flags: i64 = 0
    if properties.durable:
        flags |= DELIVERY_MODE
        out.append(PERSISTENT)
    priority = properties.priority
    if priority is not None:
        flags |= PRIORITY
        out.append(max(0, min(priority, 255)))
    correlation = properties.correlation_id
    if correlation is not None:
        kind = properties.correlation_id_type
        if kind == OCTETS_ID or len(correlation) > SHORT_STRING_MAX:
            headers["x-correlation-id"] = correlation.decode("utf-8", "replace") if kind == TEXT_ID else correlation
        else:
            flags |= CORRELATION_ID
            put_short_string(out, correlation)
    flags |= put_text(out, REPLY_TO, "x-reply-to", properties.reply_to, headers)
    expiration = properties.expiration_ms
    if expiration is not None:
        flags |= EXPIRATION
        put_short_string(out, str(expiration).encode())
    message_id = properties.message_id
    if message_id is not None and properties.message_id_type == OCTETS_ID:
        headers["x-message-id"] = bytes.fromhex(message_id)
    else:
        flags |= put_text(out, MESSAGE_ID, "x-message-id", message_id, headers)
    timestamp = properties.timestamp_s
    if timestamp is not None and 0 <= timestamp < 1 << 64:
        flags |= TIMESTAMP
        write_i64_be(out, i64(timestamp - (1 << 64) if timestamp >> 63 else timestamp))
    type = SECTIONS_TYPE.decode() if properties.body_kind == AMQP_SECTIONS else properties.type
    flags |= put_text(out, TYPE, "x-type", type, headers)
    flags |= put_text(out, USER_ID, "x-user-id", properties.user_id, headers)
    app_id = properties.app_id
    group = properties.group_id
    if group is not None:
        headers.setdefault(GROUP_HEADER, group)
        if app_id is None:
            app_id = group  # as in RabbitMQ
    flags |= put_text(out, APP_ID, "x-app-id", app_id, headers)
    return flags | put_text(out, CLUSTER_ID, "x-cluster-id", properties.cluster_id, headers)


def put_annotations(annotations: list[tuple[object, object]], headers: dict[str, object]) -> None:
    """Add the message annotations of AMQP 1.0 whose names begin with `x-` to the headers, as RabbitMQ does."""
    for name, value in annotations:
        if not isinstance(name, str) or not name.startswith("x-") or name in ADDRESS_ANNOTATIONS:
            continue
        if name == "x-cc":
            headers["CC"] = value
        elif name == "x-opt-rabbitmq-received-time":
            headers["timestamp_in_ms"] = value
        else:
            headers[name] = value


def put_text(out: BytesWriter, field: i64, name: str, text: str | None, headers: dict[str, object]) -> i64:
    """Append a short string field and return its flag. Put a text that is too long into `headers`, and return 0."""
    if text is None:
        return 0
    octets = text.encode("utf-8", "replace")
    if len(octets) > SHORT_STRING_MAX:
        headers[name] = text
        return 0
    put_short_string(out, octets)
    return field


def cut_key(routing_key: bytes) -> bytes:
    """Return an MQTT topic or routing key, truncated to the 255 octets of a routing key."""
    if len(routing_key) <= SHORT_STRING_MAX:
        return routing_key
    return cut_text(routing_key.decode("utf-8", "replace"), SHORT_STRING_MAX)
