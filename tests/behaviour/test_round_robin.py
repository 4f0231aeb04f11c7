"""Consumers of one queue share what is published one by one evenly, as RabbitMQ has them: 90 to three are 30 each."""

from __future__ import annotations

from collections.abc import Callable

import paho.mqtt.client as mqtt
import pika
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.broker_process import BrokerProcess
from tests.waiting import until

ARGUMENTS: dict[str, dict[str, object]] = {
    "classic": {},
    "quorum": {"x-queue-type": "quorum"},
    "priorities": {"x-max-priority": 5},
    "stream group": {"x-queue-type": "stream"},
}
MESSAGES = 90


class Worker:
    """A consumer on a connection of its own, which acknowledges unless nobody has to."""

    def __init__(self, broker: BrokerProcess, prefetch: int, auto_ack: bool, arguments: dict[str, object]) -> None:
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        self.channel = self.connection.channel()
        self.channel.basic_qos(prefetch_count=prefetch)
        self.auto_ack = auto_ack
        self.count = 0
        self.channel.basic_consume("q", self.take, auto_ack=auto_ack, arguments=arguments)

    def take(
        self, _channel: object, method: pika.spec.Basic.Deliver, _properties: pika.BasicProperties, _body: bytes
    ) -> None:
        self.count += 1
        if not self.auto_ack:
            self.channel.basic_ack(method.delivery_tag)

    def read_on(self) -> int:
        self.connection.process_data_events(0.001)
        return self.count


def shared_out(
    broker: BrokerProcess,
    arguments: dict[str, object],
    prefetch: int,
    auto_ack: bool = False,
    confirms: bool = False,
    priorities: tuple[int, ...] = (0, 0, 0),
) -> list[int]:
    """Return how many of the messages, published one by one, each consumer gets."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.queue_declare("q", durable=True, arguments=arguments)
    if confirms:
        channel.confirm_delivery()
    workers = []
    for priority in priorities:
        options: dict[str, object] = {"x-priority": priority} if priority else {}
        if arguments.get("x-queue-type") == "stream":
            options |= {"x-consumer-group": "g"}
        workers.append(Worker(broker, prefetch, auto_ack, options))
    for number in range(MESSAGES):
        channel.basic_publish("", "q", b"%d" % number)
        if confirms:
            for worker in workers:
                worker.read_on()
    until(lambda: sum(worker.read_on() for worker in workers) == MESSAGES, "all messages at the consumers")
    return [worker.count for worker in workers]


@pytest.mark.parametrize("kind", ARGUMENTS)
@pytest.mark.parametrize("auto_ack", [False, True], ids=["acknowledged", "auto-ack"])
def test_three_consumers_get_thirty_each(start_broker: Callable[..., BrokerProcess], kind: str, auto_ack: bool) -> None:
    prefetch = 300 if kind == "stream group" else 0
    assert shared_out(start_broker(), ARGUMENTS[kind], prefetch, auto_ack) == [30, 30, 30]


@pytest.mark.parametrize("prefetch", [1, 10, 300])
def test_windows_change_nothing_for_consumers_that_keep_up(
    start_broker: Callable[..., BrokerProcess], prefetch: int
) -> None:
    """With a confirm for each message windows have room, but that of one message, whose acknowledgement may be late."""
    found = shared_out(start_broker(), {}, prefetch, confirms=True)
    assert found == [30, 30, 30] if prefetch > 1 else min(found) >= 15


def test_a_window_wide_enough_for_all_shares_without_confirms(start_broker: Callable[..., BrokerProcess]) -> None:
    assert shared_out(start_broker(), {}, 300) == [30, 30, 30]


def test_those_of_the_highest_priority_share(start_broker: Callable[..., BrokerProcess]) -> None:
    assert shared_out(start_broker(), {}, 0, priorities=(0, 7, 7)) == [0, 45, 45]


@pytest.mark.parametrize("qos", [0, 1])
def test_members_of_a_shared_subscription_get_thirty_each(start_broker: Callable[..., BrokerProcess], qos: int) -> None:
    broker = start_broker()
    counts = [0, 0, 0]
    clients = []
    for at in range(3):
        client = mqtt.Client(CallbackAPIVersion.VERSION2, f"c{at}", protocol=mqtt.MQTTv5)
        subscribed: list[int] = []
        client.on_subscribe = lambda *_, subscribed=subscribed: subscribed.append(1)

        def take(_client: object, _data: object, _message: object, at: int = at) -> None:
            counts[at] += 1

        client.on_message = take
        client.connect("127.0.0.1", broker.mqtt_port)
        client.loop_start()
        client.subscribe("$share/g/t", qos)
        until(subscribed.copy, "the subscription")
        clients.append(client)
    try:
        for number in range(MESSAGES):
            clients[0].publish("t", b"%d" % number, qos)
        until(lambda: sum(counts) == MESSAGES, "all messages at the members")
    finally:
        for client in clients:
            client.disconnect()
            client.loop_stop()
    assert counts == [30, 30, 30]
