"""Addresses: which queue an address means, and how one protocol writes the addresses of another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import i64

from forebay.core.errors import INVALID, NOT_IMPLEMENTED, RequestError
from forebay.routing.exchange import text
from forebay.routing.topic_trie import swap_key
from forebay.wire.mqtt.codes import SHARE_PREFIX

QUEUE_PREFIX: Final = b"$queue/"
DEAD_LETTER_PREFIX: Final = b"$dlq/"
TOPIC_EXCHANGE: Final = b"amq.topic"
NAME_OCTETS_MAX: Final = 255


class Addresses(ABC):
    """Tells which queues the addresses of one vhost would create."""

    @abstractmethod
    def makes(self, address: bytes, publishes: bool) -> bytes:
        """Return the name of the queue that publishing to the address, or consuming, creates; empty if none."""


def named_queue(name: bytes) -> bytes:
    """Return the queue that a name or `$queue/<name>[/<rest>]` means. Raises RequestError(INVALID) without a name."""
    return queue_address(name)[0] if name.startswith(QUEUE_PREFIX) else name


def consumed_queue(address: bytes) -> bytes:
    """Return the queue to consume from, as `named_queue` does, but also for `$dlq/<queue>/<filter>`. RequestError."""
    return dead_letter_address(address)[0] if address.startswith(DEAD_LETTER_PREFIX) else named_queue(address)


def topic_of(exchange: bytes, key: bytes) -> bytes:
    """Return an AMQP address as MQTT writes it, a topic or `$queue/<name>`; empty if MQTT cannot address it."""
    if exchange == TOPIC_EXCHANGE:
        return swap_key(key)
    if exchange:
        return b""
    return key if key.startswith((QUEUE_PREFIX, DEAD_LETTER_PREFIX)) else QUEUE_PREFIX + key


def levels_of(queue: bytes) -> list[str]:
    """Return the topic levels of a queue's address. The queue's name is a single level."""
    prefix = DEAD_LETTER_PREFIX if queue.startswith(DEAD_LETTER_PREFIX) else b""
    return [text((prefix or QUEUE_PREFIX)[:-1]), text(queue[len(prefix) :])]


def shared_topics(filter: bytes) -> bytes:
    """Return the topic filter in `$share/<group>/<filter>`. Returns any other filter unchanged."""
    if not filter.startswith(SHARE_PREFIX):
        return filter
    return filter[filter.find(b"/", len(SHARE_PREFIX)) + 1 :]


def queue_address(address: bytes) -> tuple[bytes, bytes]:
    """Return name and rest of `$queue/<name>[/<rest>]`. Raises RequestError(INVALID) if the name is empty."""
    cut = address.find(b"/", 7)
    name = address[7:] if cut < 0 else address[7:cut]
    if not name:
        raise RequestError(INVALID, f"queue address '{text(address)}' names no queue")
    return name, b"" if cut < 0 else address[cut + 1 :]


def dead_letter_address(filter: bytes) -> tuple[bytes, bytes]:
    """Return the name of the queue, and the filter, of `$dlq/<queue>[/<filter>]`.

    raises  RequestError: INVALID if it does not name a single queue, NOT_IMPLEMENTED for a command
    """
    cut: i64 = filter.find(b"/", len(DEAD_LETTER_PREFIX))
    name = filter if cut < 0 else filter[:cut]
    rest = b"" if cut < 0 else filter[cut + 1 :]
    if name[len(DEAD_LETTER_PREFIX) :] in (b"", b"+", b"#"):
        raise RequestError(INVALID, f"dead-letter queue '{text(name)}': must name one queue")
    if rest.startswith(b"$"):
        raise RequestError(NOT_IMPLEMENTED, f"topic filter '{text(filter)}': commands cannot be subscribed to")
    return name, rest


def check_queue_name(name: bytes) -> None:
    """Refuse a queue name that not every protocol can address with RequestError."""
    if len(name) > NAME_OCTETS_MAX:
        raise RequestError(INVALID, f"queue name of {len(name)} octets is longer than {NAME_OCTETS_MAX}")
    if b"/" in name and name.startswith(b"$queue/"):
        raise RequestError(INVALID, f"queue name '{text(name)}' is an address")
