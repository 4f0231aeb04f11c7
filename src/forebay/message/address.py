"""Addresses: what leads where, and those of one protocol in the words of another."""

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
    """The addresses of one vhost, for whoever asks what using one of them does."""

    @abstractmethod
    def makes(self, address: bytes, publishes: bool) -> bytes:
        """The name of the queue that publishing, or else consuming, there makes; empty where it makes none."""


def named_queue(name: bytes) -> bytes:
    """The name of the queue that a name or `$queue/<name>[/<rest>]` stands for; RequestError(INVALID) for neither."""
    return queue_address(name)[0] if name.startswith(QUEUE_PREFIX) else name


def consumed_queue(address: bytes) -> bytes:
    """The same of what is consumed from, which may also be `$dlq/<queue>/<filter>`; RequestError."""
    return dead_letter_address(address)[0] if address.startswith(DEAD_LETTER_PREFIX) else named_queue(address)


def topic_of(exchange: bytes, key: bytes) -> bytes:
    """The address as MQTT says it: a topic, or `$queue/<name>`; empty for what MQTT has no word for."""
    if exchange == TOPIC_EXCHANGE:
        return swap_key(key)
    if exchange:
        return b""
    return key if key.startswith((QUEUE_PREFIX, DEAD_LETTER_PREFIX)) else QUEUE_PREFIX + key


def levels_of(queue: bytes) -> list[str]:
    """The levels of the address of a queue, whose name is one of them."""
    prefix = DEAD_LETTER_PREFIX if queue.startswith(DEAD_LETTER_PREFIX) else b""
    return [text((prefix or QUEUE_PREFIX)[:-1]), text(queue[len(prefix) :])]


def shared_topics(filter: bytes) -> bytes:
    """Return the topic filter in `$share/<group>/<filter>`; any other filter as it is."""
    if not filter.startswith(SHARE_PREFIX):
        return filter
    return filter[filter.find(b"/", len(SHARE_PREFIX)) + 1 :]


def queue_address(address: bytes) -> tuple[bytes, bytes]:
    """Name and rest of `$queue/<name>[/<rest>]`; RequestError(INVALID) without a name."""
    cut = address.find(b"/", 7)
    name = address[7:] if cut < 0 else address[7:cut]
    if not name:
        raise RequestError(INVALID, f"queue address '{text(address)}' names no queue")
    return name, b"" if cut < 0 else address[cut + 1 :]


def dead_letter_address(filter: bytes) -> tuple[bytes, bytes]:
    """Name of the queue, and the filter, of `$dlq/<queue>[/<filter>]`.

    raises  RequestError: INVALID where it names no one queue, NOT_IMPLEMENTED for a command
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
    """RequestError unless the name can stand in every protocol's address."""
    if len(name) > NAME_OCTETS_MAX:
        raise RequestError(INVALID, f"queue name of {len(name)} octets is longer than {NAME_OCTETS_MAX}")
    if b"/" in name and name.startswith(b"$queue/"):
        raise RequestError(INVALID, f"queue name '{text(name)}' is an address")
