"""A message of CoAP over UDP (RFC 7252, section 3): decoding and encoding.

 0                   1                   2                   3
 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
+---+---+-------+---------------+-------------------------------+
|Ver| T |  TKL  |      Code     |          Message ID           |
+---+---+-------+---------------+-------------------------------+
|   Token, TKL bytes, 0 to 8
|   Options: delta and length of 4 bits each, extended by 1 or 2 bytes if they are 13 or 14
|   0xFF and the payload, if there is a payload
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import MALFORMED, NOT_IMPLEMENTED, PeerError

VERSION: Final = 1
HEAD_OCTETS: Final = 4
TOKEN_OCTETS_MAX: Final = 8
PAYLOAD_MARKER: Final = 0xFF
OPTIONS_MAX: Final = 64  # in one message; a usual request has about ten
OPTION_NUMBER_MAX: Final = 65_535

# Types of messages.
CONFIRMABLE: Final = 0
NON_CONFIRMABLE: Final = 1
ACKNOWLEDGEMENT: Final = 2
RESET: Final = 3

# Codes, class * 32 + detail.
EMPTY: Final = 0
GET: Final = 1
POST: Final = 2
PUT: Final = 3
CLASS_SHIFT: Final = 5


@final
class CoapMessage:
    """A CoAP message.

    options  number and value of each option, sorted by number
    """

    def __init__(
        self,
        type: i64,
        code: i64,
        message_id: i64,
        token: bytes = b"",
        options: list[tuple[int, bytes]] | None = None,
        payload: bytes = b"",
    ) -> None:
        self.type: i64 = type
        self.code: i64 = code
        self.message_id: i64 = message_id
        self.token = token
        self.options: list[tuple[int, bytes]] = options if options is not None else []
        self.payload = payload


def decode_message(data: bytes) -> CoapMessage:
    """Return the message in a datagram.

    Raises PeerError: MALFORMED, or NOT_IMPLEMENTED for another version, to which no answer may be sent.
    """
    octets: i64 = len(data)
    if octets < HEAD_OCTETS:
        raise PeerError(MALFORMED, f"a message of {int(octets)} octets")
    first: i64 = data[0]
    if first >> 6 != VERSION:
        raise PeerError(NOT_IMPLEMENTED, f"version {int(first >> 6)}")
    token_octets = first & 0x0F
    code: i64 = data[1]
    message_id = i64(data[2]) << 8 | i64(data[3])
    at: i64 = HEAD_OCTETS + token_octets
    if token_octets > TOKEN_OCTETS_MAX or at > octets:
        raise PeerError(MALFORMED, f"a token of {int(token_octets)} octets")
    if code == EMPTY and octets > HEAD_OCTETS:
        raise PeerError(MALFORMED, "an empty message with octets behind its head")
    options: list[tuple[int, bytes]] = []
    number: i64 = 0
    while at < octets:
        head: i64 = data[at]
        at += 1
        if head == PAYLOAD_MARKER:
            if at == octets:
                raise PeerError(MALFORMED, "no payload behind the payload marker")
            break
        delta = head >> 4
        length = head & 0x0F
        if delta == 15 or length == 15:
            raise PeerError(MALFORMED, "an option with a reserved length")
        if at + extension_octets(delta) + extension_octets(length) > octets:
            raise PeerError(MALFORMED, "an option that is cut off")
        if delta >= 13:
            count = extension_octets(delta)
            delta = extended(data, at, delta)
            at += count
        if length >= 13:
            count = extension_octets(length)
            length = extended(data, at, length)
            at += count
        number += delta
        if number > OPTION_NUMBER_MAX or at + length > octets:
            raise PeerError(MALFORMED, "an option that is cut off")
        if len(options) == OPTIONS_MAX:
            raise PeerError(MALFORMED, f"more than {OPTIONS_MAX} options")
        options.append((int(number), data[at : at + length]))
        at += length
    return CoapMessage(
        first >> 4 & 3, code, message_id, data[HEAD_OCTETS : HEAD_OCTETS + token_octets], options, data[at:]
    )


def extension_octets(nibble: i64) -> i64:
    """Return the number of bytes, 0 to 2, that extend an option's 4-bit delta or length."""
    if nibble < 13:
        return 0
    return 1 if nibble == 13 else 2


def extended(data: bytes, at: i64, nibble: i64) -> i64:
    """Return an option's delta or length whose extension, of 1 or 2 bytes, is at `at`."""
    if nibble == 13:
        return i64(data[at]) + 13
    return (i64(data[at]) << 8 | i64(data[at + 1])) + 269


def encode_message(message: CoapMessage) -> bytes:
    """Return the encoded message. Its options must be sorted by number."""
    head = bytes(
        [
            int(VERSION << 6 | message.type << 4 | len(message.token)),
            int(message.code),
            int(message.message_id >> 8),
            int(message.message_id & 0xFF),
        ]
    )
    parts = [head, message.token]
    last = 0
    for number, value in message.options:
        parts.append(option_head(number - last, len(value)))
        parts.append(value)
        last = number
    if message.payload:
        parts.append(b"\xff")
        parts.append(message.payload)
    return b"".join(parts)


def option_head(delta: i64, length: i64) -> bytes:
    """Return the encoded head of an option. `delta` is its number minus the number of the previous option."""
    head = bytes([int(nibble_of(delta) << 4 | nibble_of(length))])
    return head + extension_of(delta) + extension_of(length)


def nibble_of(value: i64) -> i64:
    """Return the 4 bits that encode an option's delta or length in its first byte."""
    if value < 13:
        return value
    return 13 if value < 269 else 14


def extension_of(value: i64) -> bytes:
    """Return the bytes, at most two, that extend the 4 bits of an option's delta or length."""
    if value < 13:
        return b""
    if value < 269:
        return bytes([int(value - 13)])
    return bytes([int(value - 269 >> 8), int(value - 269 & 0xFF)])


def encode_number(value: i64) -> bytes:
    """Return a number as an option's value: big-endian, without leading zeros."""
    octets: list[int] = []
    while value:
        octets.append(int(value & 0xFF))
        value >>= 8
    octets.reverse()
    return bytes(octets)


def decode_number(value: bytes) -> i64:
    """Return the number in an option's value of at most 4 bytes."""
    found: i64 = 0
    for octet in value:
        found = found << 8 | octet
    return found


def code_text(code: i64) -> str:
    """Return a code as text in the form `2.04`."""
    return f"{int(code >> CLASS_SHIFT)}.{int(code & 0x1F):02d}"
