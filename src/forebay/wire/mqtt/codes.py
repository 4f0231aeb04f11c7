"""MQTT's numbers: packet types, reason codes, and the code that answers each kind of error."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.core.errors import (
    DAMAGED,
    INVALID,
    LOCKED,
    MALFORMED,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION,
    REFUSED,
    TAKEN_OVER,
    TIMED_OUT,
    TOO_LARGE,
    TOO_MANY,
    UNEXPECTED,
    UNSUPPORTED_VERSION,
    PeerError,
)

V311: Final = 4
V5: Final = 5

# Packet types: the upper four bits of a packet's first octet.
CONNECT: Final = 1
CONNACK: Final = 2
PUBLISH: Final = 3
PUBACK: Final = 4
PUBREC: Final = 5
PUBREL: Final = 6
PUBCOMP: Final = 7
SUBSCRIBE: Final = 8
SUBACK: Final = 9
UNSUBSCRIBE: Final = 10
UNSUBACK: Final = 11
PINGREQ: Final = 12
PINGRESP: Final = 13
DISCONNECT: Final = 14
AUTH: Final = 15
WILL: Final = 16  # not a packet type; stands for the will properties in CONNECT

SHARE_PREFIX: Final = b"$share/"  # prefix of a shared subscription's topic filter

# Reason codes of version 5 (section 2.4).
SUCCESS: Final = 0x00
DISCONNECT_WITH_WILL: Final = 0x04
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION: Final = 0x11
CONTINUE_AUTHENTICATION: Final = 0x18
RE_AUTHENTICATE: Final = 0x19
FAILURE: Final = 0x80  # codes from here on are errors
MALFORMED_PACKET: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION_ERROR: Final = 0x83
UNSUPPORTED_PROTOCOL: Final = 0x84
BAD_CLIENT_ID: Final = 0x85
BAD_USER: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
SHUTTING_DOWN: Final = 0x8B
BAD_AUTH_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
SESSION_TAKEN_OVER: Final = 0x8E
FILTER_INVALID: Final = 0x8F
TOPIC_INVALID: Final = 0x90
ID_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
ALIAS_INVALID: Final = 0x94
PACKET_TOO_LARGE: Final = 0x95
QUOTA_EXCEEDED: Final = 0x97
ADMINISTRATIVE_ACTION: Final = 0x98
PAYLOAD_INVALID: Final = 0x99
QOS_UNSUPPORTED: Final = 0x9B
USE_ANOTHER_SERVER: Final = 0x9C
SERVER_MOVED: Final = 0x9D

# Return codes of a 3.1.1 CONNACK.
V311_BAD_VERSION: Final = 1
V311_BAD_CLIENT_ID: Final = 2
V311_UNAVAILABLE: Final = 3
V311_NOT_AUTHORIZED: Final = 5

# Error reasons that only MQTT uses.
IDENTIFIER: Final = "client-identifier-not-valid"
TOPIC: Final = "topic-name-invalid"
RECEIVE_MAXIMUM: Final = "receive-maximum-exceeded"
ALIAS: Final = "topic-alias-invalid"
ADMINISTRATIVE: Final = "administrative-action"
UNREAD: Final = "answers-not-read"
QOS: Final = "qos-not-supported"
QUOTA: Final = "quota-exceeded"
REJECTED_PUBLISH: Final = "publish-refused"
UNSPECIFIED: Final = "unspecified"  # an internal error of the broker

PEER_CODES: Final = {
    MALFORMED: MALFORMED_PACKET,
    UNEXPECTED: PROTOCOL_ERROR,
    NOT_IMPLEMENTED: IMPLEMENTATION_ERROR,
    TOO_LARGE: PACKET_TOO_LARGE,
    UNSUPPORTED_VERSION: UNSUPPORTED_PROTOCOL,
    TIMED_OUT: KEEP_ALIVE_TIMEOUT,
    TAKEN_OVER: SESSION_TAKEN_OVER,
    TOPIC: TOPIC_INVALID,
    RECEIVE_MAXIMUM: RECEIVE_MAXIMUM_EXCEEDED,
    ALIAS: ALIAS_INVALID,
    ADMINISTRATIVE: ADMINISTRATIVE_ACTION,
    UNREAD: QUOTA_EXCEEDED,
    QUOTA: QUOTA_EXCEEDED,
    QOS: QOS_UNSUPPORTED,
    REJECTED_PUBLISH: QUOTA_EXCEEDED,
    UNSPECIFIED: FAILURE,
}

# Reason codes besides 0 that a packet of each type may carry (section 2.4), from client or server.
_ACK_CODES: Final = frozenset((0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99))
_CLIENT_ENDS: Final = frozenset((0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99))
_SERVER_ENDS: Final = frozenset(
    (0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2)
)
REASON_CODES: Final = {
    PUBACK: _ACK_CODES,
    PUBREC: _ACK_CODES,
    PUBREL: frozenset((ID_NOT_FOUND,)),
    PUBCOMP: frozenset((ID_NOT_FOUND,)),
    DISCONNECT: _CLIENT_ENDS | _SERVER_ENDS,
    AUTH: frozenset((CONTINUE_AUTHENTICATION, RE_AUTHENTICATE)),
}

# SUBACK codes of a refused subscription.
REQUEST_CODES: Final = {
    NOT_FOUND: FILTER_INVALID,
    INVALID: FILTER_INVALID,
    REFUSED: NOT_AUTHORIZED,
    NOT_ALLOWED: NOT_AUTHORIZED,
    LOCKED: NOT_AUTHORIZED,
    PRECONDITION: IMPLEMENTATION_ERROR,
    TOO_MANY: QUOTA_EXCEEDED,
    NOT_IMPLEMENTED: IMPLEMENTATION_ERROR,
    DAMAGED: IMPLEMENTATION_ERROR,
}


def malformed(text: str) -> PeerError:
    """Return the error for a malformed packet."""
    return PeerError(MALFORMED, text)


def check_client_end(code: i64) -> None:
    """Raise PeerError for a client's DISCONNECT whose reason code only servers may send."""
    if code in _SERVER_ENDS:
        raise unexpected(f"DISCONNECT: reason code {code:#04x}: only servers send it")


def unexpected(text: str) -> PeerError:
    """Return the error for a packet that violates the protocol."""
    return PeerError(UNEXPECTED, text)


def check_utf8(data: bytes, what: str) -> None:
    """Raise PeerError unless `data` is an MQTT string: well-formed UTF-8 without U+0000 [MQTT-1.5.4-1, -2].

    what  name of the field, for the error text
    """
    if b"\0" in data:
        raise malformed(f"{what} contains U+0000")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise malformed(f"{what} is not UTF-8") from None


def check_topic_name(topic: bytes, what: str, levels_max: i64) -> None:
    """Raise PeerError unless `topic` is a valid topic name to publish to [MQTT-3.3.2-1, -2].

    what        name of the field, for the error text
    levels_max  limit on the number of topic levels
    """
    if not topic:
        raise unexpected(f"{what}: empty")
    check_utf8(topic, what)
    if b"+" in topic or b"#" in topic:
        raise PeerError(TOPIC, f"{what}: contains a wildcard")
    if topic.count(b"/") >= levels_max:
        raise PeerError(TOPIC, f"{what}: more than {levels_max} levels")


def filter_error(filter: bytes, levels_max: i64) -> str:
    """Return what is wrong with a topic filter [MQTT-4.7.1-1 to -3], or "" if it is valid.

    The caller has checked that the filter is UTF-8.
    """
    if not filter:
        return "topic filter: empty"
    levels = filter.split(b"/")
    if len(levels) > levels_max:
        return f"topic filter: {len(levels)} levels, the limit is {levels_max}"
    last = len(levels) - 1
    for index, level in enumerate(levels):
        if b"#" in level and (len(level) != 1 or index != last):
            return "topic filter: '#' must be the last level and stand alone in it"
        if b"+" in level and len(level) != 1:
            return "topic filter: '+' must stand alone in its level"
    return ""
