"""The options of a request that the broker knows, validated, and block options (RFC 7959)."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.wire.coap.message import CoapMessage, decode_number, encode_number

# Option numbers. An odd number is critical: a server that does not know the option must refuse the request.
URI_HOST: Final = 3
ETAG: Final = 4
OBSERVE: Final = 6
URI_PORT: Final = 7
URI_PATH: Final = 11
CONTENT_FORMAT: Final = 12
MAX_AGE: Final = 14
URI_QUERY: Final = 15
ACCEPT: Final = 17
BLOCK2: Final = 23
BLOCK1: Final = 27
SIZE2: Final = 28
PROXY_URI: Final = 35
PROXY_SCHEME: Final = 39
SIZE1: Final = 60
ECHO: Final = 252
NO_RESPONSE: Final = 258
REQUEST_TAG: Final = 292

TEXT_OCTETS_MAX: Final = 255
ECHO_OCTETS_MAX: Final = 40
OTHERS_OCTETS_MAX: Final = 8
NUMBER_OCTETS_MAX: Final = 4
NONE: Final = -1
REGISTER: Final = 0
DEREGISTER: Final = 1
SIZE_EXPONENT_MAX: Final = 6  # blocks of 1,024 bytes; 7 is for CoAP over TCP only
BLOCK_OCTETS_MIN: Final = 16
MORE: Final = 8
NUMBER_SHIFT: Final = 4


@final
class BlockOption:
    """A block of a body: block `number` of `octets` bytes each, and whether `more` blocks follow."""

    def __init__(self, number: i64, more: bool, exponent: i64) -> None:
        self.number: i64 = number
        self.more = more
        self.exponent: i64 = exponent
        self.octets: i64 = BLOCK_OCTETS_MIN << exponent

    def value(self) -> bytes:
        """Return the encoded value of the option."""
        return encode_number(self.number << NUMBER_SHIFT | (MORE if self.more else 0) | self.exponent)


@final
class CoapRequest:
    """The options of one request.

    path, queries   segments of the path and queries, as sent
    observe         NONE if absent
    content_format  NONE if absent, like `accept` and `size1`
    no_response     classes of answers that the client does not want, as a bit set
    bad_option      number of the first critical option that is unknown or has an invalid value, or NONE
    is_proxied      the client uses the broker as a proxy
    """

    def __init__(self) -> None:
        self.path: list[bytes] = []
        self.queries: list[bytes] = []
        self.observe: i64 = NONE
        self.content_format: i64 = NONE
        self.accept: i64 = NONE
        self.size1: i64 = NONE
        self.no_response: i64 = 0
        self.block1: BlockOption | None = None
        self.block2: BlockOption | None = None
        self.echo = b""
        self.request_tag = b""
        self.bad_option: i64 = NONE
        self.is_proxied = False


def read_request(message: CoapMessage) -> CoapRequest:  # tidy: dispatcher, one branch an option
    """Return the options of a request. Does not raise: a wrong option is recorded in `bad_option`."""
    found = CoapRequest()
    last = 0
    for number, value in message.options:
        length = len(value)
        is_repeated = number == last
        last = number
        if number == URI_PATH and length <= TEXT_OCTETS_MAX:
            found.path.append(value)
        elif number == URI_QUERY and length <= TEXT_OCTETS_MAX:
            found.queries.append(value)
        elif number == REQUEST_TAG and length <= OTHERS_OCTETS_MAX:
            found.request_tag += value + b"/"
        elif is_repeated:
            refuse(found, number)
        elif number == CONTENT_FORMAT and length <= 2:
            found.content_format = decode_number(value)
        elif number == OBSERVE and length <= 3:
            found.observe = decode_number(value)
        elif number == BLOCK1 and is_block(value):
            found.block1 = decode_block(value)
        elif number == BLOCK2 and is_block(value):
            found.block2 = decode_block(value)
        elif number == ACCEPT and length <= 2:
            found.accept = decode_number(value)
        elif number == SIZE1 and length <= NUMBER_OCTETS_MAX:
            found.size1 = decode_number(value)
        elif number == ECHO and 1 <= length <= ECHO_OCTETS_MAX:
            found.echo = value
        elif number == NO_RESPONSE and length <= 1:
            found.no_response = decode_number(value)
        elif number in (PROXY_URI, PROXY_SCHEME):
            found.is_proxied = True
        elif not is_ignored(number, length):
            refuse(found, number)
    return found


def is_ignored(number: i64, length: i64) -> bool:
    """Return whether an option only names the broker's host or port, so that a valid one needs no action."""
    if number == URI_HOST:
        return 1 <= length <= TEXT_OCTETS_MAX
    return number == URI_PORT and length <= 2


def refuse(request: CoapRequest, number: i64) -> None:
    """Record an option that is unknown, repeated or invalid as `bad_option`, unless its number is not critical."""
    if number & 1 and request.bad_option == NONE:
        request.bad_option = number


def is_block(value: bytes) -> bool:
    """Return whether an option's value is a valid block. Size exponent 7 is reserved."""
    return len(value) <= 3 and decode_number(value) & 7 <= SIZE_EXPONENT_MAX


def decode_block(value: bytes) -> BlockOption:
    """Return the block that an option's value encodes."""
    number = decode_number(value)
    return BlockOption(number >> NUMBER_SHIFT, number & MORE != 0, number & 7)
