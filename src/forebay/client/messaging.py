"""The interface of the AMQP clients for the commands, for all versions of AMQP."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from forebay.core.message import Properties

TOPIC_EXCHANGE: Final = "amq.topic"
SWAPPED: Final = str.maketrans("/.+*", "./*+")  # translates MQTT topics to AMQP routing keys, and back
SILENCE_S_MAX: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """One received message.

    tag         its number among the messages that the client received
    properties  in the encoding of the protocol; see `MessageClient.decode`
    """

    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


class MessageClient(Protocol):
    """A client that publishes to exchanges and queues, or consumes one queue or topic.

    published, confirmed, refused  as in `PublishingClient`
    returned       number of unroutable messages; they are confirmed as well
    refusal        reason for the broker's last refusal of a message; "" if it gave none
    silence_s_max  longest time for which the client may send nothing
    """

    published: int
    confirmed: int
    refused: int
    returned: int
    refusal: str
    silence_s_max: float

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    @property
    def unconfirmed(self) -> int:
        """Return the number of published messages that the broker has neither confirmed nor refused."""

    def flush(self) -> None:
        """Send buffered bytes."""

    def settle(self, unconfirmed_max: int) -> None:
        """Wait until at most `unconfirmed_max` messages are unconfirmed.

        Raises OutcomeUnknown if that takes too long.
        """

    def select_confirms(self) -> None:
        """Enable publisher confirms: the broker confirms each message once it is on disk."""

    def publish(self, exchange: str, routing_key: str, properties: bytes, body: bytes) -> None:
        """Buffer a message for publishing. It is sent when the buffer is full, or with the next `flush` or `settle`."""

    def encode(self, properties: Properties) -> bytes:
        """Return properties encoded for `publish`."""

    def topic_source(self, topic_filter: str) -> str:
        """Return the source to pass to `consume` for the messages of an MQTT topic filter, from now on."""

    def consume(self, queue: str, prefetch: int, no_ack: bool, arguments: dict[str, object]) -> None:
        """Start consuming a queue, with at most `prefetch` unacknowledged messages, or any number for 0."""

    def cancel(self) -> None:
        """Stop consuming. Messages already received can still be settled."""

    def next(self, timeout_s: float) -> Delivered | None:
        """Return the next message, or None if none arrives within `timeout_s`."""

    @property
    def has_next(self) -> bool:
        """Return whether `next` has a message without waiting."""

    def ack(self, tag: int) -> None:
        """Acknowledge a message and all earlier ones. This is sent with the next `flush` or `next`."""

    def requeue(self, tag: int) -> None:
        """Return a message and all earlier ones to the queue."""

    def decode(self, message: Delivered) -> Properties:
        """Return the properties of a received message."""
