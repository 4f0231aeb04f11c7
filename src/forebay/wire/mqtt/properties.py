"""The property block of MQTT 5 (section 2.2.2), and its conversion to and from the protocol-neutral form.

A block is its length, a variable byte integer, then properties: an identifier of one byte and a value whose kind
depends on the identifier. `KINDS` and `CARRIERS` are the specification's table 2-4. Positions are within one `bytes`.
"""

from __future__ import annotations

import json
from typing import Final, final

from librt.strings import BytesWriter, read_i32_be, write_i16_be, write_i32_be
from mypy_extensions import i16, i32, i64, u8

from forebay.core.errors import PeerError
from forebay.core.message import AMQP_SECTIONS, Properties
from forebay.wire.mqtt import codes
from forebay.wire.mqtt.codes import check_utf8, malformed, unexpected

PAYLOAD_FORMAT: Final = 0x01
MESSAGE_EXPIRY: Final = 0x02
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
SUBSCRIPTION_ID: Final = 0x0B
SESSION_EXPIRY: Final = 0x11
ASSIGNED_CLIENT_ID: Final = 0x12
SERVER_KEEP_ALIVE: Final = 0x13
AUTH_METHOD: Final = 0x15
AUTH_DATA: Final = 0x16
REQUEST_PROBLEM_INFORMATION: Final = 0x17
WILL_DELAY: Final = 0x18
REQUEST_RESPONSE_INFORMATION: Final = 0x19
RESPONSE_INFORMATION: Final = 0x1A
SERVER_REFERENCE: Final = 0x1C
REASON_STRING: Final = 0x1F
RECEIVE_MAXIMUM: Final = 0x21
TOPIC_ALIAS_MAXIMUM: Final = 0x22
TOPIC_ALIAS: Final = 0x23
MAXIMUM_QOS: Final = 0x24
RETAIN_AVAILABLE: Final = 0x25
USER_PROPERTY: Final = 0x26
MAXIMUM_PACKET_SIZE: Final = 0x27
WILDCARD_AVAILABLE: Final = 0x28
SUBSCRIPTION_ID_AVAILABLE: Final = 0x29
SHARED_AVAILABLE: Final = 0x2A
IDS: Final = 0x2B  # all identifiers are less than this
REASON_OCTETS_MAX: Final = 4096

# Kinds of value. 0 in `KINDS` means that there is no such property.
FLAG: Final = 1  # one byte, 0 or 1
SHORT: Final = 2
LONG: Final = 3
VARINT: Final = 4
TEXT: Final = 5
BINARY: Final = 6
PAIR: Final = 7

KINDS: Final = bytes(
    [0, FLAG, LONG, TEXT, 0, 0, 0, 0, TEXT, BINARY, 0, VARINT, 0, 0, 0, 0]
    + [0, LONG, TEXT, SHORT, 0, TEXT, BINARY, FLAG, LONG, FLAG, TEXT, 0, TEXT, 0, 0, TEXT]
    + [0, SHORT, SHORT, SHORT, FLAG, FLAG, PAIR, LONG, FLAG, FLAG, FLAG]
)
NOT_ZERO: Final = (1 << RECEIVE_MAXIMUM) | (1 << TOPIC_ALIAS) | (1 << MAXIMUM_PACKET_SIZE) | (1 << SUBSCRIPTION_ID)

MESSAGE_IDS: Final = (
    (1 << PAYLOAD_FORMAT)
    | (1 << MESSAGE_EXPIRY)
    | (1 << CONTENT_TYPE)
    | (1 << RESPONSE_TOPIC)
    | (1 << CORRELATION_DATA)
    | (1 << USER_PROPERTY)
)
ACK_IDS: Final = (1 << REASON_STRING) | (1 << USER_PROPERTY)
AUTH_IDS: Final = (1 << AUTH_METHOD) | (1 << AUTH_DATA)
LIMIT_IDS: Final = (
    (1 << SESSION_EXPIRY) | (1 << RECEIVE_MAXIMUM) | (1 << MAXIMUM_PACKET_SIZE) | (1 << TOPIC_ALIAS_MAXIMUM)
)
CONNACK_IDS: Final = (
    LIMIT_IDS
    | AUTH_IDS
    | ACK_IDS
    | (1 << ASSIGNED_CLIENT_ID)
    | (1 << SERVER_KEEP_ALIVE)
    | (1 << RESPONSE_INFORMATION)
    | (1 << SERVER_REFERENCE)
    | (1 << MAXIMUM_QOS)
    | (1 << RETAIN_AVAILABLE)
    | (1 << WILDCARD_AVAILABLE)
    | (1 << SUBSCRIPTION_ID_AVAILABLE)
    | (1 << SHARED_AVAILABLE)
)
# The identifiers allowed in each packet type, as a bit set.
CARRIERS: Final[list[int]] = [
    0,
    LIMIT_IDS
    | AUTH_IDS
    | (1 << REQUEST_PROBLEM_INFORMATION)
    | (1 << REQUEST_RESPONSE_INFORMATION)
    | (1 << USER_PROPERTY),  # CONNECT
    CONNACK_IDS,
    MESSAGE_IDS | (1 << TOPIC_ALIAS) | (1 << SUBSCRIPTION_ID),  # PUBLISH
    ACK_IDS,  # PUBACK
    ACK_IDS,
    ACK_IDS,
    ACK_IDS,  # PUBCOMP
    (1 << SUBSCRIPTION_ID) | (1 << USER_PROPERTY),  # SUBSCRIBE
    ACK_IDS,  # SUBACK
    1 << USER_PROPERTY,  # UNSUBSCRIBE
    ACK_IDS,  # UNSUBACK
    0,
    0,
    ACK_IDS | (1 << SESSION_EXPIRY) | (1 << SERVER_REFERENCE),  # DISCONNECT
    AUTH_IDS | ACK_IDS,  # AUTH
    MESSAGE_IDS | (1 << WILL_DELAY),  # WILL
]

USER_PROPERTIES_MAX: Final = 1000  # default limit for one packet
VARINT_MAX: Final = 268_435_455
STRING_OCTETS_MAX: Final = 65_535

SECTIONS_TYPE: Final = b"message/vnd.rabbitmq.amqp"  # content type of a payload that is AMQP 1.0 sections
ADDRESS_ANNOTATIONS: Final = ("x-cc", "x-exchange", "x-routing-key")  # message annotations that subscribers do not need

# Prefix of the user properties that carry AMQP fields without an MQTT property.
AMQP_PREFIX: Final = "amqp-"


@final
class Property:
    """A property: a `number`, or a `text` (also binary data), or a user property named `text` with a `value`."""

    def __init__(self, id: i64, number: i64, text: bytes, value: bytes) -> None:
        self.id: i64 = id
        self.number: i64 = number
        self.text = text
        self.value = value


def varint_octets(number: i64) -> i64:
    """Return the number of bytes that a number takes as a variable byte integer."""
    if number < 128:
        return 1
    if number < 16_384:
        return 2
    return 3 if number < 2_097_152 else 4


def write_varint(out: BytesWriter, number: i64) -> None:
    """Append a variable byte integer (section 1.5.5)."""
    assert 0 <= number <= VARINT_MAX
    while number > 127:
        out.append(u8(number & 127 | 128))
        number >>= 7
    out.append(u8(number))


def read_varint(data: bytes, at: i64, end: i64) -> i64:
    """Return the variable byte integer at `at` and its length, as number << 3 | bytes.

    Raises PeerError if it is longer than four bytes or than the shortest encoding, or runs over `end`.
    """
    number: i64 = 0
    shift: i64 = 0
    start = at
    while at < end:
        octet = i64(data[at])
        number |= (octet & 127) << shift
        at += 1
        if octet < 128:
            if octet == 0 and shift:
                raise malformed("variable byte integer: not the shortest form")
            return number << 3 | (at - start)
        shift += 7
        if shift == 28:
            raise malformed("variable byte integer: more than four octets")
    raise malformed("variable byte integer: cut off by the end of the packet")


def read_u16(data: bytes, at: i64) -> i64:
    """Return the 16-bit number at `at`. The caller has checked that it is complete."""
    return i64(data[at]) << 8 | i64(data[at + 1])


def string_end(data: bytes, at: i64, end: i64, what: str) -> i64:
    """Return the end of the string or binary data whose length is at `at`. Raises PeerError if it runs over `end`."""
    if at + 2 > end:
        raise malformed(f"{what}: cut off by the end of the packet")
    stop = at + 2 + read_u16(data, at)
    if stop > end:
        raise malformed(f"{what}: {stop - at - 2} octets announced, {end - at - 2} there")
    return stop


def write_string(out: BytesWriter, text: bytes) -> None:
    """Append a string or binary data, preceded by its length."""
    assert len(text) <= STRING_OCTETS_MAX
    write_i16_be(out, i16_of(len(text)))
    out.write(text)


def i16_of(number: i64) -> i16:
    """Return the signed number with the same bytes as an unsigned 16-bit number."""
    return i16(number - 65_536) if number > 32_767 else i16(number)


def i32_of(number: i64) -> i32:
    """Return the signed number with the same bytes as an unsigned 32-bit number."""
    return i32(number - (1 << 32)) if number > 0x7FFFFFFF else i32(number)


def property_end(data: bytes, at: i64, end: i64, kind: i64) -> i64:
    """Return the end of the value of this kind at `at`. Raises PeerError if it runs over `end`."""
    if kind == PAIR:
        return string_end(data, string_end(data, at, end, "property"), end, "property")
    if kind in (TEXT, BINARY):
        return string_end(data, at, end, "property")
    if kind == VARINT:
        return at + (read_varint(data, at, end) & 7)
    stop = at + (1 if kind == FLAG else 2 if kind == SHORT else 4)
    if stop > end:
        raise malformed("property: cut off by the end of the block")
    return stop


def property_number(data: bytes, at: i64, end: i64, kind: i64) -> i64:
    """Return the numeric value of this kind at `at`. The caller has checked that it is complete."""
    if kind == FLAG:
        return i64(data[at])
    if kind == SHORT:
        return read_u16(data, at)
    if kind == LONG:
        return i64(read_i32_be(data, at)) & 0xFFFFFFFF
    return read_varint(data, at, end) >> 3


def check_properties(data: bytes, at: i64, end: i64, packet: i64, users_max: i64 = USER_PROPERTIES_MAX) -> i64:
    """Check the properties [at, end) of a packet type, and return the bit set of the identifiers found.

    users_max  limit on the number of user properties
    Raises PeerError for an unknown, misplaced or repeated identifier, an invalid value, or too many user properties.
    """
    seen: i64 = 0
    again: i64 = 0
    allowed = i64(CARRIERS[packet])
    while at < end:
        id = i64(data[at])
        kind: i64 = i64(KINDS[id]) if id < IDS else 0
        if kind == 0:
            raise malformed(f"property {id:#04x}: there is none of that identifier")
        bit: i64 = 1  # not `i64(1) << id`: mypyc shifts the literal as a C int of 32 bits
        bit <<= id
        if not allowed & bit:
            raise unexpected(f"property {id:#04x}: not allowed in packet type {packet}")
        if seen & bit:
            if id != USER_PROPERTY and (id != SUBSCRIPTION_ID or packet != codes.PUBLISH):
                raise unexpected(f"property {id:#04x}: occurs twice")
            again += 1
            if again >= users_max:
                raise PeerError(codes.QUOTA, f"property {id:#04x}: more than {users_max} of them")
        seen |= bit
        at += 1
        stop = property_end(data, at, end, kind)
        if kind >= TEXT:
            check_text_property(data, at, stop, kind, id)
        else:
            number = property_number(data, at, end, kind)
            if (kind == FLAG and number > 1) or (number == 0 and bit & NOT_ZERO):
                raise unexpected(f"property {id:#04x}: the value {number} is not allowed")
        at = stop
    return seen


def check_text_property(data: bytes, at: i64, stop: i64, kind: i64, id: i64) -> None:
    if kind == BINARY:
        return
    if kind == PAIR:
        cut = at + 2 + read_u16(data, at)
        check_utf8(data[at + 2 : cut], "user property name")
        check_utf8(data[cut + 2 : stop], "user property value")
        return
    text = data[at + 2 : stop]
    check_utf8(text, "property")
    if id == RESPONSE_TOPIC and (b"+" in text or b"#" in text or not text):
        raise unexpected("response topic: empty or with a wildcard")


def decode_properties(block: bytes) -> list[Property]:
    """Return the properties of a checked block, in their order."""
    found: list[Property] = []
    at: i64 = 0
    end: i64 = len(block)
    while at < end:
        id = i64(block[at])
        kind: i64 = i64(KINDS[id]) if id < IDS else 0
        if kind == 0:
            raise malformed(f"property {id:#04x}: there is none of that identifier")
        at += 1
        stop = property_end(block, at, end, kind)
        if kind == PAIR:
            cut = at + 2 + read_u16(block, at)
            found.append(Property(id, 0, block[at + 2 : cut], block[cut + 2 : stop]))
        elif kind >= TEXT:
            found.append(Property(id, 0, block[at + 2 : stop], b""))
        else:
            found.append(Property(id, property_number(block, at, end, kind), b"", b""))
        at = stop
    return found


def write_property(out: BytesWriter, property: Property) -> None:
    """Append one property."""
    id = property.id
    kind = i64(KINDS[id])
    out.append(u8(id))
    if kind == PAIR:
        write_string(out, property.text)
        write_string(out, property.value)
    elif kind >= TEXT:
        write_string(out, property.text)
    elif kind == FLAG:
        out.append(u8(property.number))
    elif kind == SHORT:
        write_i16_be(out, i16_of(property.number))
    elif kind == LONG:
        write_i32_be(out, i32_of(property.number))
    else:
        write_varint(out, property.number)


def encode_properties(properties: list[Property]) -> bytes:
    """Return the block of these properties, without its length."""
    out = BytesWriter()
    for property in properties:
        write_property(out, property)
    return out.getvalue()


def number_of(block: bytes, id: i64, default: i64) -> i64:
    """Return the value of the first numeric property `id` in a checked block, or `default` if there is none."""
    at: i64 = 0
    end: i64 = len(block)
    while at < end:
        found = i64(block[at])
        kind = i64(KINDS[found])
        if found == id:
            return property_number(block, at + 1, end, kind)
        at = property_end(block, at + 1, end, kind)
    return default


def expiry_at(block: bytes) -> i64:
    """Return the position of the message expiry interval's four bytes in a checked block, or -1 if there is none."""
    at: i64 = 0
    end: i64 = len(block)
    while at < end:
        id = i64(block[at])
        if id == MESSAGE_EXPIRY:
            return at + 1
        at = property_end(block, at + 1, end, i64(KINDS[id]))
    return -1


def rest_of_expiry(block: bytes, waited_us: i64) -> bytes:
    """Return the block with its message expiry interval reduced by the time the message has waited [MQTT-3.3.2-6].

    An interval that has passed becomes 0.
    """
    cut = expiry_at(block)
    waited_s = waited_us // 1_000_000
    if cut < 0 or waited_s <= 0:
        return block
    left = (i64(read_i32_be(block, cut)) & 0xFFFFFFFF) - waited_s
    out = BytesWriter()
    write_i32_be(out, i32_of(max(left, i64(0))))
    return block[:cut] + out.getvalue() + block[cut + 4 :]


def with_expiry_at_most(block: bytes, most_s: i64) -> bytes:
    """Return the block with a message expiry interval of at most `most_s` seconds. Adds the interval if absent."""
    cut = expiry_at(block)
    out = BytesWriter()
    if cut < 0:
        out.append(MESSAGE_EXPIRY)
        write_i32_be(out, i32_of(most_s))
        return out.getvalue() + block
    write_i32_be(out, i32_of(min(most_s, i64(read_i32_be(block, cut)) & 0xFFFFFFFF)))
    return block[:cut] + out.getvalue() + block[cut + 4 :]


def user_property(block: bytes, name: bytes) -> bytes | None:
    """Return the value of the last user property `name` in a checked block, or None if there is none."""
    found: bytes | None = None
    octets: i64 = len(name)
    at: i64 = 0
    end: i64 = len(block)
    while at < end:
        id = i64(block[at])
        at += 1
        stop = property_end(block, at, end, i64(KINDS[id]))
        if id == USER_PROPERTY and read_u16(block, at) == octets and block[at + 2 : at + 2 + octets] == name:
            found = block[at + 4 + octets : stop]
        at = stop
    return found


def content_type_of(block: bytes) -> bytes:
    """Return the content type in a checked block, or b"" if there is none."""
    at: i64 = 0
    end: i64 = len(block)
    while at < end:
        id = i64(block[at])
        stop = property_end(block, at + 1, end, i64(KINDS[id]))
        if id == CONTENT_TYPE:
            return block[at + 3 : stop]
        at = stop
    return b""


def without(block: bytes, ids: i64) -> bytes:
    """Return a checked block without the properties in the bit set `ids`."""
    kept = BytesWriter()
    at: i64 = 0
    end: i64 = len(block)
    while at < end:
        id = i64(block[at])
        stop = property_end(block, at + 1, end, i64(KINDS[id]))
        bit: i64 = 1
        bit <<= id
        if not bit & ids:
            kept.write(block[at:stop])
        at = stop
    return kept.getvalue()


def append_user_property(out: BytesWriter, name: bytes, value: bytes) -> None:
    """Append a user property to an encoded block."""
    out.append(USER_PROPERTY)
    write_string(out, name)
    write_string(out, value)


def append_text_property(out: BytesWriter, id: i64, text: bytes) -> None:
    """Append a string or binary property to an encoded block."""
    out.append(u8(id))
    write_string(out, text)


# ---- the neutral form


def reason_block(text: str, packet_octets_max: i64) -> bytes:
    """Return a block with this reason string, or b"" if the client's maximum packet size leaves no room for it."""
    octets = text.encode("utf-8", "replace")[:REASON_OCTETS_MAX]
    if len(octets) + 16 > packet_octets_max:
        return b""
    out = BytesWriter()
    append_text_property(out, REASON_STRING, octets.decode("utf-8", "ignore").replace("\0", " ").encode())
    return out.getvalue()


def decode_neutral(block: bytes) -> Properties:
    """Return a checked PUBLISH block in the protocol-neutral form. Topic alias and subscription ids are ignored."""
    neutral = Properties()
    for property in decode_properties(block):
        id = property.id
        if id == USER_PROPERTY:
            name = property.text.decode("utf-8")
            value = property.value.decode("utf-8")
            if not name.startswith(AMQP_PREFIX) or not set_amqp_field(neutral, name, value):
                neutral.headers.append((name, value))
        elif id == CONTENT_TYPE:
            neutral.content_type = property.text.decode("utf-8")
        elif id == RESPONSE_TOPIC:
            neutral.reply_to = neutral.reply_topic = property.text.decode("utf-8")
        elif id == CORRELATION_DATA:
            neutral.correlation_id = property.text
        elif id == MESSAGE_EXPIRY:
            neutral.expiration_ms = int(property.number) * 1000
        elif id == PAYLOAD_FORMAT:
            neutral.body_is_text = property.number == 1
    return neutral


def set_amqp_field(neutral: Properties, name: str, value: str) -> bool:
    """Restore a field that `encode_neutral` wrote as a user property. Return False for any other user property.

    `amqp-user-id` stays a header: an AMQP broker vouches for that field, but no broker has checked this value.
    """
    if name == "amqp-message-id":
        neutral.message_id = value
    elif name == "amqp-content-encoding":
        neutral.content_encoding = value
    elif name == "amqp-type":
        neutral.type = value
    elif name == "amqp-app-id":
        neutral.app_id = value
    elif name == "amqp-cluster-id":
        neutral.cluster_id = value
    elif name == "amqp-reply-to":
        neutral.reply_to = value
    elif name == "amqp-priority" and value.isascii() and value.isdigit() and len(value) <= 3 and int(value) < 256:
        neutral.priority = int(value)
    elif name == "amqp-timestamp" and value.isascii() and value.isdigit() and len(value) <= 18:
        neutral.timestamp_s = int(value)
    else:
        return False
    return True


def encode_neutral(neutral: Properties) -> bytes:
    """Return protocol-neutral properties as a PUBLISH block.

    A field without an MQTT property becomes a user property `amqp-…`. A text of more than 65,535 bytes is left out.
    A NUL in a text becomes U+FFFD.
    """
    out = BytesWriter()
    if neutral.body_is_text:
        out.append(PAYLOAD_FORMAT)
        out.append(1)
    if neutral.expiration_ms is not None:
        out.append(MESSAGE_EXPIRY)
        # Rounded up, so that a message never expires before its publisher's deadline.
        write_i32_be(out, i32_of(min(max(0, (neutral.expiration_ms + 999) // 1000), 0xFFFFFFFF)))
    put_text(out, CONTENT_TYPE, SECTIONS_TYPE.decode() if neutral.body_kind == AMQP_SECTIONS else neutral.content_type)
    reply_to = neutral.reply_topic
    if reply_to is None:
        reply_to = neutral.reply_to
    if reply_to is not None:
        if not reply_to or "+" in reply_to or "#" in reply_to:
            put_user(out, "amqp-reply-to", reply_to)
        else:
            put_text(out, RESPONSE_TOPIC, reply_to)
    correlation = neutral.correlation_id
    if correlation is not None and len(correlation) <= STRING_OCTETS_MAX:
        append_text_property(out, CORRELATION_DATA, correlation)
    put_user(out, "amqp-message-id", neutral.message_id)
    put_user(out, "amqp-content-encoding", neutral.content_encoding)
    put_user(out, "amqp-type", neutral.type)
    put_user(out, "amqp-user-id", neutral.user_id)
    put_user(out, "amqp-app-id", neutral.app_id)
    put_user(out, "amqp-cluster-id", neutral.cluster_id)
    if neutral.priority is not None:
        put_user(out, "amqp-priority", str(neutral.priority))
    if neutral.timestamp_s is not None:
        put_user(out, "amqp-timestamp", str(neutral.timestamp_s))
    for name, value in neutral.headers:
        put_user(out, name, header_text(value))
    put_user(out, "x-group-id", neutral.group_id)
    if neutral.message_annotations is not None:
        put_annotations(out, neutral.message_annotations)
    return out.getvalue()


def put_annotations(out: BytesWriter, annotations: list[tuple[object, object]]) -> None:
    """Append the AMQP 1.0 message annotations named `x-…` as user properties, except ADDRESS_ANNOTATIONS."""
    for name, value in annotations:
        if isinstance(name, str) and name.startswith("x-") and name not in ADDRESS_ANNOTATIONS:
            put_user(out, name, header_text(value))


def mqtt_text(text: str) -> bytes:
    """Return a text in UTF-8, with U+FFFD for each NUL, which MQTT forbids."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")


def put_text(out: BytesWriter, id: i64, text: str | None) -> None:
    if text is not None:
        octets = mqtt_text(text)
        if len(octets) <= STRING_OCTETS_MAX:
            append_text_property(out, id, octets)


def put_user(out: BytesWriter, name: str, value: str | None) -> None:
    if value is not None:
        key = mqtt_text(name)
        octets = mqtt_text(value)
        if len(key) <= STRING_OCTETS_MAX and len(octets) <= STRING_OCTETS_MAX:
            append_user_property(out, key, octets)


def header_text(value: object) -> str:
    """Return a header's value as text: None as "", bytes as UTF-8 or else hex, a list or table as JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, list | dict):
        return json.dumps(value, default=header_text, ensure_ascii=False)
    return str(value)
