"""The kinds of queue as a client meets them: how each is made, published to and consumed from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker_process import BrokerProcess
from tests.waiting import WAIT_S_MAX, until

NAME = "q"


@dataclass(frozen=True)
class Kind:
    """One kind of queue, and what it promises beyond the common behaviour."""

    name: str
    redelivers: bool
    survives_restart: bool
    keeps_what_was_read: bool

    def declare(self, channel: BlockingChannel) -> None:
        """Make the queue; an ephemeral one comes to be when somebody consumes from its address."""
        if self.name in {"stream", "quorum"}:
            channel.queue_declare(NAME, durable=True, arguments={"x-queue-type": self.name})
        elif self.name == "classic":
            channel.queue_declare(NAME, durable=True)
        else:
            tag = channel.basic_consume(f"$queue/{NAME}", lambda *_: None, arguments={"x-consumer-group": "opener"})
            channel.basic_cancel(tag)

    def publish(self, channel: BlockingChannel, body: bytes, key: str = "") -> None:
        """Publish to the queue's own address, so that each record has a routing key to filter by."""
        channel.basic_publish("", f"$queue/{NAME}/{key}" if key else f"$queue/{NAME}", body)


CLASSIC = Kind("classic", redelivers=True, survives_restart=True, keeps_what_was_read=False)
QUORUM = Kind("quorum", redelivers=True, survives_restart=True, keeps_what_was_read=False)
STREAM = Kind("stream", redelivers=False, survives_restart=True, keeps_what_was_read=True)
EPHEMERAL = Kind("ephemeral", redelivers=True, survives_restart=False, keeps_what_was_read=False)
KINDS = [CLASSIC, QUORUM, STREAM, EPHEMERAL]


def open_channel(broker: BrokerProcess) -> BlockingChannel:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def next_message(channel: BlockingChannel) -> tuple[int, pika.BasicProperties, bytes]:
    """Tag, properties and body of the next message of `q`, waited for."""
    found: list[tuple[int, pika.BasicProperties, bytes]] = []

    def is_there() -> bool:
        method, properties, body = channel.basic_get(NAME)
        if method is not None:
            found.append((method.delivery_tag, properties, body))
        return method is not None

    until(is_there, f"a message in {NAME}")
    return found[0]


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    """A running broker on which each kind can be made."""
    return start_broker(address_queues="memory")


def take_all(channel: BlockingChannel) -> None:
    """Have callbacks called for all that is on its way: the second answer of the broker comes a turn behind it."""
    for _ in range(2):
        channel.exchange_declare("amq.direct", passive=True)
    channel.connection.process_data_events(0)


@dataclass
class Got:
    """One delivery."""

    body: bytes
    tag: int
    redelivered: bool
    key: str
    headers: dict[str, object]


class Reader:
    """A consumer that gathers what it is given."""

    def __init__(
        self, channel: BlockingChannel, kind: Kind, address: str = NAME, prefetch: int = 100, group: str = ""
    ) -> None:
        self.channel = channel
        self.got: list[Got] = []
        channel.basic_qos(prefetch_count=prefetch)
        arguments: dict[str, object] = {"x-consumer-group": group} if group else {}
        if kind is STREAM:
            arguments["x-stream-offset"] = "first"
        self.tag = channel.basic_consume(address, self.take, arguments=arguments)

    def take(
        self,
        _channel: BlockingChannel,
        method: pika.spec.Basic.Deliver,
        properties: pika.BasicProperties,
        body: bytes,
    ) -> None:
        self.got.append(
            Got(body, method.delivery_tag, method.redelivered, method.routing_key, dict(properties.headers or {}))
        )

    def wait(self, count: int, seconds: float = WAIT_S_MAX) -> list[Got]:
        """Until so many deliveries came; those beyond stay in `got`."""
        deadline = time.monotonic() + seconds
        while len(self.got) < count and time.monotonic() < deadline:
            self.channel.connection.process_data_events(0.05)
        assert len(self.got) >= count, f"only {len(self.got)} of {count} came"
        return self.got

    def settle(self) -> None:
        """Everything that was on its way has come."""
        take_all(self.channel)
