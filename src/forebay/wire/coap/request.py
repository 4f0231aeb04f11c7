"""The options of a request: those that the broker knows, checked, and blocks (RFC 7959)."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.wire.coap.message import CoapMessage, decode_number, encode_number

# Options by their numbers; those with an odd number are critical: who does not know them must refuse the request.
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
SIZE_EXPONENT_MAX: Final = 6  # blocks of 1,024 octets; 7 is of CoAP over TCP
BLOCK_OCTETS_MIN: Final = 16
MORE: Final = 8
NUMBER_SHIFT: Final = 4


@final
class BlockOption:
    """A part of a body: block `number` of `octets` each, and whether there are more."""

    def __init__(self, number: i64, more: bool, exponent: i64) -> None:
        self.number: i64 = number
        self.more = more
        self.exponent: i64 = exponent
        self.octets: i64 = BLOCK_OCTETS_MIN << exponent

    def value(self) -> bytes:
        """Return the value of the option that says the same."""
        return encode_number(self.number << NUMBER_SHIFT | (MORE if self.more else 0) | self.exponent)


@final
class CoapRequest:
    """The options of one request.

    path, queries   as sent, each part alone
    observe         NONE without the option
    content_format  NONE without the option; `accept`, `size1` alike
    no_response     classes of answers that the client does not want, as bits
    bad_option      number of an option that must be known and is not, or has no value that it can have; NONE
    is_proxied      the client takes the broker for a proxy
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
    """Return the options of a request. What is wrong with them is said there, and not raised."""
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
    """Return whether a critical option needs nothing: it says by which name the client knows the broker."""
    if number == URI_HOST:
        return 1 <= length <= TEXT_OCTETS_MAX
    return number == URI_PORT and length <= 2


def refuse(request: CoapRequest, number: i64) -> None:
    """Note an option that is unknown, too long or there twice, unless its number says that it may be ignored."""
    if number & 1 and request.bad_option == NONE:
        request.bad_option = number


def is_block(value: bytes) -> bool:
    """Return whether an option's value is a block's; the size of 7 is reserved."""
    return len(value) <= 3 and decode_number(value) & 7 <= SIZE_EXPONENT_MAX


def decode_block(value: bytes) -> BlockOption:
    """Return the block that an option's value says."""
    number = decode_number(value)
    return BlockOption(number >> NUMBER_SHIFT, number & MORE != 0, number & 7)
