"""What a client can see of a broker, as plain values that compare."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pika
import pika.exceptions
from pika.adapters.blocking_connection import BlockingChannel

from tests.waiting import until

WAIT_S = 30  # a guard against a hang
QUIET_S = 0.4  # how long nothing must come to say that nothing comes


def declare(channel: BlockingChannel, queue: str = "q", kind: str = "classic", **arguments: object) -> None:
    """A durable queue; `x_max_length=3` is the argument x-max-length."""
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare(queue, durable=True, arguments={"x-queue-type": kind, **named})


def put(channel: BlockingChannel, queue: str, *bodies: bytes, **properties: object) -> None:
    """Publish to a queue."""
    for body in bodies:
        channel.basic_publish("", queue, body, pika.BasicProperties(**properties))


def count(channel: BlockingChannel, queue: str) -> int:
    """How many messages are ready."""
    return int(channel.queue_declare(queue, passive=True).method.message_count)


def wait_for_count(channel: BlockingChannel, queue: str, expected: int) -> None:
    """Until so many are ready: RabbitMQ counts, and moves dead letters, some time after it confirmed."""
    until(lambda: count(channel, queue) == expected, f"{expected} ready messages in {queue}")


@dataclass
class Message:
    """One message as it was delivered."""

    body: bytes
    tag: int = 0
    redelivered: bool = False
    exchange: str = ""
    key: str = ""
    consumer: str = ""
    properties: Any = None
    headers: dict[str, Any] = field(default_factory=dict)


def message(method: Any, properties: Any, body: bytes) -> Message:
    """A delivery or the answer of basic.get."""
    return Message(
        body,
        method.delivery_tag,
        method.redelivered,
        method.exchange,
        method.routing_key,
        getattr(method, "consumer_tag", ""),
        properties,
        dict(properties.headers or {}),
    )


def get(channel: BlockingChannel, queue: str, ack: bool = False) -> Message:
    """The next message of a queue, waited for."""
    found: list[Message] = []

    def is_there() -> bool:
        method, properties, body = channel.basic_get(queue, auto_ack=ack)
        if method is not None:
            found.append(message(method, properties, body))
        return method is not None

    until(is_there, f"a message in {queue}")
    return found[0]


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    """The bodies of all that is ready, taken."""
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2])
    return bodies


class Consumer:
    """A consumer that keeps what it is given, and settles only on demand."""

    def __init__(
        self,
        channel: BlockingChannel,
        queue: str = "q",
        tag: str | None = None,
        no_ack: bool = False,
        exclusive: bool = False,
        **arguments: object,
    ) -> None:
        self.channel = channel
        self.got: list[Message] = []
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self.tag = channel.basic_consume(
            queue, self._take, auto_ack=no_ack, exclusive=exclusive, consumer_tag=tag, arguments=named
        )

    def _take(self, _channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
        self.got.append(message(method, properties, body))

    def wait(self, expected: int) -> list[Message]:
        """Until so many came in all."""
        serve = partial(self.channel.connection.process_data_events, 0.05)
        until(lambda: len(self.got) >= expected, lambda: f"{len(self.got)} of {expected} messages", meanwhile=serve)
        return self.got

    def bodies(self, expected: int) -> list[bytes]:
        """The bodies, once so many came and no more come."""
        self.wait(expected)
        self.settle()
        return [one.body for one in self.got]

    def settle(self) -> None:
        """Let come what still comes: of forebay before its second answer, of RabbitMQ some time."""
        connection = self.channel.connection
        if connection._impl.server_properties["product"] != "RabbitMQ":
            for _ in range(2):
                connection.channel().close()
            connection.process_data_events(0)
            return
        deadline = time.monotonic() + QUIET_S
        while (left := deadline - time.monotonic()) > 0:
            before = len(self.got)
            self.channel.connection.process_data_events(left)
            if len(self.got) > before:
                deadline = time.monotonic() + QUIET_S


@dataclass(frozen=True)
class Refusal:
    """How a broker refuses: what it closes, the code and the text."""

    scope: str
    code: int
    text: str


def refusal(connection: pika.BlockingConnection, call: Callable[[BlockingChannel], object]) -> Refusal:
    """What becomes of a new channel that does something that must be refused."""
    channel = connection.channel()
    channel.confirm_delivery()
    return refused(channel, call)


def refused(channel: BlockingChannel, call: Callable[[BlockingChannel], object]) -> Refusal:
    """What becomes of this channel; what a publish or an ack did wrong is told later than the call."""
    reasons: list[pika.exceptions.AMQPError] = []
    channel._impl.add_on_close_callback(lambda _channel, reason: reasons.append(reason))
    deadline = time.monotonic() + WAIT_S
    with suppress(pika.exceptions.AMQPError):
        call(channel)
        while not reasons and time.monotonic() < deadline:
            channel.connection.process_data_events(0.05)
    assert reasons, "it was not refused"
    reason = reasons[0]
    if isinstance(reason, pika.exceptions.ChannelClosedByBroker):
        return Refusal("channel", reason.reply_code, reason.reply_text)
    assert isinstance(reason, pika.exceptions.ConnectionClosedByBroker), reason
    return Refusal("connection", reason.reply_code, reason.reply_text)
