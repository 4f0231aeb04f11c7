"""The face that clients of AMQP have for commands, whatever the version: messages out, and in from one queue."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from forebay.core.message import Properties

TOPIC_EXCHANGE: Final = "amq.topic"
SWAPPED: Final = str.maketrans("/.+*", "./*+")  # MQTT's topics as AMQP's routing keys, and back
SILENCE_S_MAX: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Delivered:
    """One message as it came.

    tag         its number among the messages that the client received
    properties  in the encoding of the protocol: `MessageClient.decode`
    """

    tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    properties: bytes
    body: bytes


class MessageClient(Protocol):
    """A client that publishes to exchanges and queues, or consumes one queue or topic.

    published, confirmed, refused  as those of `PublishingClient`
    returned       messages that led nowhere; they are confirmed as well
    refusal        why the broker refused the last message that it refused; "" if it gave no reason
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
        """Messages published of which the broker has said nothing yet."""

    def flush(self) -> None:
        """Send what is gathered."""

    def settle(self, unconfirmed_max: int) -> None:
        """Wait until the broker has said of all but so many messages what became of them; OutcomeUnknown."""

    def select_confirms(self) -> None:
        """Have the broker say of each message when it is on disk."""

    def publish(self, exchange: str, routing_key: str, properties: bytes, body: bytes) -> None:
        """Publish a message; it leaves with others, or with the next `flush` or `settle`."""

    def encode(self, properties: Properties) -> bytes:
        """Return properties as `publish` takes them."""

    def topic_source(self, topic_filter: str) -> str:
        """Return what `consume` takes for the messages of an MQTT topic filter, from now on."""

    def consume(self, queue: str, prefetch: int, no_ack: bool, arguments: dict[str, object]) -> None:
        """Have messages of a queue sent, up to `prefetch` that are not acknowledged, or any number for 0."""

    def cancel(self) -> None:
        """Have no more messages sent; those that came can still be settled."""

    def next(self, timeout_s: float) -> Delivered | None:
        """Return the next message, None if none comes in that time."""

    @property
    def has_next(self) -> bool:
        """True if `next` has a message without waiting."""

    def ack(self, tag: int) -> None:
        """Settle a message and all before it; said to the broker with the next `flush` or `next`."""

    def requeue(self, tag: int) -> None:
        """Give a message and all before it back to the queue."""

    def decode(self, message: Delivered) -> Properties:
        """Return the properties of a message that was received."""
