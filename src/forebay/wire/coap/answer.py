"""A CoAP answer before it becomes a message: its code, its options, and its body or one block of a long body."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.wire.coap.message import CoapMessage, encode_number
from forebay.wire.coap.request import (
    BLOCK1,
    BLOCK2,
    CONTENT_FORMAT,
    ECHO,
    ETAG,
    MAX_AGE,
    NONE,
    OBSERVE,
    SIZE1,
    SIZE2,
    BlockOption,
)

CHANGED: Final = 68  # 2.04
CONTENT: Final = 69  # 2.05
CONTINUE: Final = 95  # 2.31
BAD_REQUEST: Final = 128
UNAUTHORIZED: Final = 129
BAD_OPTION: Final = 130
FORBIDDEN: Final = 131
NOT_FOUND: Final = 132
METHOD_NOT_ALLOWED: Final = 133
NOT_ACCEPTABLE: Final = 134
INCOMPLETE: Final = 136  # 4.08
TOO_LARGE: Final = 141  # 4.13
UNSUPPORTED_FORMAT: Final = 143  # 4.15
TOO_MANY: Final = 157  # 4.29
INTERNAL: Final = 160
UNAVAILABLE: Final = 163  # 5.03
NO_PROXY: Final = 165  # 5.05


@final
class CoapAnswer:
    """An answer to a request, or a notification.

    payload   for an error, a text that explains it to people
    format    Content-Format of the payload, or NONE
    max_age   seconds for which the answer is fresh, or after which a refused client may retry; or NONE
    observe   sequence number of a notification, or NONE
    echo      value that the client must send back to prove its address, or empty
    etag      identifies the body that this block belongs to, or empty
    size1     maximum size in bytes of a request's body, or NONE
    size2     size in bytes of the whole body that this block belongs to, or NONE
    block1    block of the request's body that is answered
    block2    block of the answer's body
    changes   the request changed the broker's state, so that it must not be executed again
    """

    def __init__(self, code: i64, payload: bytes = b"", format: i64 = NONE) -> None:
        self.code: i64 = code
        self.payload = payload
        self.format: i64 = format
        self.max_age: i64 = NONE
        self.observe: i64 = NONE
        self.echo = b""
        self.etag = b""
        self.size1: i64 = NONE
        self.size2: i64 = NONE
        self.block1: BlockOption | None = None
        self.block2: BlockOption | None = None
        self.changes = False

    def message(self, type: i64, message_id: i64, token: bytes) -> CoapMessage:
        """Return the message that carries the answer."""
        options: list[tuple[int, bytes]] = []
        if self.etag:
            options.append((ETAG, self.etag))
        add_number(options, OBSERVE, self.observe)
        add_number(options, CONTENT_FORMAT, self.format)
        add_number(options, MAX_AGE, self.max_age)
        if self.block2 is not None:
            options.append((BLOCK2, self.block2.value()))
        if self.block1 is not None:
            options.append((BLOCK1, self.block1.value()))
        add_number(options, SIZE2, self.size2)
        add_number(options, SIZE1, self.size1)
        if self.echo:
            options.append((ECHO, self.echo))
        return CoapMessage(type, self.code, message_id, token, options, self.payload)

    def is_error(self) -> bool:
        """Return whether the request was refused or failed."""
        return self.code >= BAD_REQUEST


def add_number(options: list[tuple[int, bytes]], number: int, value: i64) -> None:
    """Add an option with a number, unless the number is NONE."""
    if value != NONE:
        options.append((number, encode_number(value)))
