"""Addresses of AMQP 1.0: where a link publishes to, and what it consumes.

An address means the same with every client:

    /exchanges/<exchange>[/<key>]     publish to an exchange             (RabbitMQ's address format, version 2)
    /queues/<queue>                   publish to a queue, or consume it  (the same)
    $queue/<queue>[/<key or filter>]  a queue, and the key or the filter of keys below it
    <address>::<queue>                a queue                            (Artemis' fully qualified queue name)
    any other text                    a queue if the terminus has the capability `queue` or the text fits one of
                                      `amqp_queue_addresses`, else a topic
    none                              publish each message to what its own `to` says

Segments of the first two are percent-encoded UTF-8. A topic is one of MQTT: the exchange is amq.topic, and `/`, `+` in
the address stand for `.`, `*` in the routing key.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final, final
from urllib.parse import unquote_to_bytes

from forebay.core.errors import INVALID, RequestError
from forebay.message.address import NAME_OCTETS_MAX, QUEUE_PREFIX, TOPIC_EXCHANGE, queue_address
from forebay.routing.topic_trie import swap_key

EXCHANGES: Final = "/exchanges/"
QUEUES: Final = "/queues/"
V1_PREFIXES: Final = ("/exchange/", "/queue/", "/topic/", "/amq/queue/")
MANAGEMENT: Final = "/management"
QUALIFIED: Final = "::"
SHOWN_MAX: Final = 60  # characters of an address that is too long
HEXADECIMAL: Final = "0123456789abcdefABCDEF"

QUEUE_CAPABILITIES: Final = frozenset(["queue", "temporary-queue"])
TOPIC_CAPABILITIES: Final = frozenset(["topic", "temporary-topic"])


@final
class PublishAddress:
    """The exchange that messages are published to, and their routing key.

    queue       name of the queue that must be there, or is declared; b"" for an exchange's address
    is_declared the queue is declared if it is not there
    """

    def __init__(self, exchange: bytes, routing_key: bytes, queue: bytes = b"", is_declared: bool = False) -> None:
        self.exchange = exchange
        self.routing_key = routing_key
        self.queue = queue
        self.is_declared = is_declared


@final
class ConsumeAddress:
    """A queue, or a topic, that a link consumes.

    queue        name of the queue, or `$queue/<queue>[/<filter>]`, which makes the queue; b"" for a topic
    topic        binding key of the topic at amq.topic; b"" for a queue
    is_declared  the queue is declared if it is not there
    """

    def __init__(self, queue: bytes, topic: bytes = b"", is_declared: bool = False) -> None:
        self.queue = queue
        self.topic = topic
        self.is_declared = is_declared


def parse_target(address: str, capabilities: list[str], queue_addresses: list[str]) -> PublishAddress:
    """Return where a sender's address leads to.

    capabilities     of the terminus
    queue_addresses  patterns of the plain addresses that name queues
    raises           RequestError: INVALID, with the address and what is wrong with it
    """
    if address.startswith(EXCHANGES):
        return exchange_target(address)
    if address.startswith(QUEUES):
        queue = queue_of(address)
        return PublishAddress(b"", queue, queue)
    check_is_no_path(address)
    octets = address.encode("utf-8")
    if octets.startswith(QUEUE_PREFIX):
        queue_address(octets)  # which has to name a queue; it is made if it is not there
        return PublishAddress(b"", octets)
    if QUALIFIED in address:
        queue = qualified_queue(address)
        return PublishAddress(b"", queue, queue)
    if names_queue(address, capabilities, queue_addresses):
        queue = checked_name(octets, address)
        return PublishAddress(b"", queue, queue, is_declared=True)
    return PublishAddress(TOPIC_EXCHANGE, swap_key(octets))


def parse_source(address: str, capabilities: list[str], queue_addresses: list[str]) -> ConsumeAddress:
    """Return what a receiver's address stands for; parameters and errors are those of `parse_target`."""
    if address.startswith(QUEUES):
        return ConsumeAddress(queue_of(address))
    if address.startswith(EXCHANGES):
        raise refused(address, "messages are consumed from a queue, /queues/:queue")
    check_is_no_path(address)
    octets = address.encode("utf-8")
    if octets.startswith(QUEUE_PREFIX):
        queue_address(octets)
        return ConsumeAddress(octets)
    if QUALIFIED in address:
        return ConsumeAddress(qualified_queue(address))
    if names_queue(address, capabilities, queue_addresses):
        return ConsumeAddress(checked_name(octets, address), is_declared=True)
    return ConsumeAddress(b"", topic=swap_key(octets))


def queue_path(queue: bytes) -> str:
    """Return the address of a queue."""
    return QUEUES + encode_segment(queue)


def exchange_path(exchange: bytes, key: bytes) -> str:
    """Return the address of an exchange with a routing key."""
    return EXCHANGES + encode_segment(exchange) + (f"/{encode_segment(key)}" if key else "")


def exchange_target(address: str) -> PublishAddress:
    """Return the target of `/exchanges/:exchange[/:key]`."""
    parts = address[len(EXCHANGES) :].split("/")
    if len(parts) > 2 or (len(parts) == 2 and not parts[1]):
        raise refused(address, "must be /exchanges/:exchange or /exchanges/:exchange/:key, percent-encoded")
    exchange = decode_segment(parts[0], address)
    if not exchange or exchange == b"amq.default":
        raise refused(address, "the default exchange has no address; a queue's is /queues/:queue")
    return PublishAddress(exchange, decode_segment(parts[1], address) if len(parts) == 2 else b"")


def queue_of(address: str) -> bytes:
    """Return the queue of `/queues/:queue`."""
    parts = address[len(QUEUES) :].split("/")
    if len(parts) != 1 or not parts[0]:
        raise refused(address, "must be /queues/:queue, percent-encoded")
    return decode_segment(parts[0], address)


def qualified_queue(address: str) -> bytes:
    """Return the queue of `<address>::<queue>`."""
    return checked_name(address.partition(QUALIFIED)[2].encode("utf-8"), address)


def names_queue(address: str, capabilities: list[str], queue_addresses: list[str]) -> bool:
    """Return whether a plain address names a queue; else it is a topic."""
    if not QUEUE_CAPABILITIES.isdisjoint(capabilities):
        return True
    if not TOPIC_CAPABILITIES.isdisjoint(capabilities):
        return False
    return len([pattern for pattern in queue_addresses if fnmatchcase(address, pattern)]) > 0


def check_is_no_path(address: str) -> None:
    """Refuse an address that is empty, too long, or has the form of RabbitMQ's version 1."""
    if not address:
        raise refused(address, "must not be empty")
    octets = len(address.encode("utf-8"))
    if octets > NAME_OCTETS_MAX:
        raise refused(address[:SHOWN_MAX], f"has {octets} bytes, which must be at most {NAME_OCTETS_MAX}")
    if address.startswith(V1_PREFIXES):
        raise refused(address, "RabbitMQ's address format version 1; use /exchanges/:exchange/:key or /queues/:queue")


def checked_name(name: bytes, address: str) -> bytes:
    """Return the name of a queue, which must not be empty or too long."""
    if not name or len(name) > NAME_OCTETS_MAX:
        raise refused(address, f"the queue's name has {len(name)} bytes, which must be 1 to {NAME_OCTETS_MAX}")
    return name


def decode_segment(segment: str, address: str) -> bytes:
    """Return a percent-encoded segment's text, as UTF-8."""
    at = segment.find("%")
    while at >= 0:
        if not is_hexadecimal(segment[at + 1 : at + 3]):
            raise refused(address, f"'{segment[at : at + 3]}' is no percent-encoding")
        at = segment.find("%", at + 3)
    octets = unquote_to_bytes(segment)
    try:
        octets.decode("utf-8")
    except UnicodeDecodeError:
        raise refused(address, f"segment '{segment}' is no UTF-8") from None
    if len(octets) > NAME_OCTETS_MAX:
        raise refused(address, f"a segment has {len(octets)} bytes, which must be at most {NAME_OCTETS_MAX}")
    return octets


def is_hexadecimal(digits: str) -> bool:
    """Return whether these are two hexadecimal digits."""
    return len(digits) == 2 and digits[0] in HEXADECIMAL and digits[1] in HEXADECIMAL


def encode_segment(text: bytes) -> str:
    """Return a segment with all but unreserved characters percent-encoded."""
    return "".join([chr(each) if is_unreserved(each) else f"%{each:02X}" for each in text])


def is_unreserved(octet: int) -> bool:
    """Return whether a character stands for itself in a segment (RFC 3986, 2.3)."""
    return (chr(octet).isalnum() and octet < 128) or octet in b"-._~"


def refused(address: str, reason: str) -> RequestError:
    """Return the error of an address."""
    return RequestError(INVALID, f"address '{address}': {reason}")
