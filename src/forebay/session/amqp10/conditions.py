"""The errors of the broker in AMQP 1.0's words (2.8.14 to 2.8.18)."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import (
    DAMAGED,
    INTERNAL,
    INVALID,
    LOCKED,
    MALFORMED,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    PRECONDITION,
    REFUSED,
    TIMED_OUT,
    TOO_LARGE,
    TOO_MANY,
    UNEXPECTED,
)
from forebay.wire.amqp10 import states
from forebay.wire.amqp10.frames import FRAME
from forebay.wire.amqp10.values import Ushort

CONDITIONS: Final = {
    MALFORMED: states.DECODE_ERROR,
    UNEXPECTED: states.NOT_ALLOWED,
    NOT_IMPLEMENTED: states.NOT_IMPLEMENTED,
    TOO_LARGE: states.MESSAGE_SIZE_EXCEEDED,
    TIMED_OUT: states.RESOURCE_LIMIT_EXCEEDED,
    NOT_FOUND: states.NOT_FOUND,
    PRECONDITION: states.PRECONDITION_FAILED,
    REFUSED: states.UNAUTHORIZED_ACCESS,
    LOCKED: states.RESOURCE_LOCKED,
    INVALID: states.INVALID_FIELD,
    NOT_ALLOWED: states.NOT_ALLOWED,
    TOO_MANY: states.RESOURCE_LIMIT_EXCEEDED,
    DAMAGED: states.INTERNAL_ERROR,
    INTERNAL: states.INTERNAL_ERROR,
    FRAME: states.FRAMING_ERROR,
}

TEXT_MAX: Final = 300  # octets of an error's text


def condition_of(reason: str) -> str:
    """Return the condition of a reason of `core.errors`; a condition stands for itself."""
    return CONDITIONS.get(reason, reason if reason.startswith(("amqp:", "com.microsoft:")) else states.INTERNAL_ERROR)


def error_of(reason: str, text: str) -> states.Error:
    """Return the error of a reason, with a text for people that fits into the smallest frame."""
    octets = text.encode("utf-8", "backslashreplace")
    if len(octets) > TEXT_MAX:
        octets = octets[:TEXT_MAX] + b"..."
    return states.Error(condition_of(reason), octets.decode("utf-8", "ignore"))


def redirect_error(text: str, server: str) -> states.Error:
    """Return the error that sends a client to another node (2.8.16).

    server  HOST:PORT; "" if nobody knows where it is
    """
    host, _, port = server.rpartition(":")
    if not host:
        return error_of(states.CONNECTION_FORCED, text)
    host = host.strip("[]")
    error = error_of(states.CONNECTION_REDIRECT, text)
    error.info = {"hostname": host, "network-host": host, "port": Ushort(int(port))}
    return error
