"""Queues that an expression orders, as clients of every protocol meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pika
import pika.exceptions
import pytest

from tests.behaviour.kinds import next_message, open_channel
from tests.broker_process import BrokerProcess
from tests.interop.amqp10.proton_client import QUEUE, WAIT_S, connected
from tests.interop.mqtt_client import client

KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])
EXPRESSION: Final = "x-priority-expression"


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker()


@KINDS
def test_every_protocol_gets_the_highest_value_first(broker: BrokerProcess, kind: str) -> None:
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind, EXPRESSION: "/n"})
    for body in (b'{"n": 1}', b"none", b'{"n": 18446744073709551615}', b'{"n": "7"}', b'{"n": 7.5}', b'{"n": -3}'):
        channel.basic_publish("", "q", body)
    tag, _, body = next_message(channel)
    assert body == b'{"n": 18446744073709551615}'
    channel.basic_reject(tag, requeue=True)
    tag, _, body = next_message(channel)
    assert body == b'{"n": 18446744073709551615}', "it is back in its place"
    channel.basic_ack(tag)
    channel.connection.close()
    with connected(broker) as connection:
        receiver = connection.create_receiver("/queues/q", options=[QUEUE], credit=1)
        assert bytes(receiver.receive(timeout=WAIT_S).body) == b'{"n": "7"}'
        receiver.accept()
        assert bytes(receiver.receive(timeout=WAIT_S).body) == b'{"n": 7.5}'
        receiver.accept()
    with client(broker, "reader") as reader:
        reader.subscribe("$queue/q/#")
        assert [reader.next().payload for _ in range(3)] == [b'{"n": 1}', b"none", b'{"n": -3}']


def test_it_may_ask_for_headers_and_properties(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    expression = "IF(type = 'urgent', 1000, 0) + COALESCE(header.weight, 0)"
    channel.queue_declare("q", durable=True, arguments={EXPRESSION: expression})
    for body, type, weight in ((b"a", "usual", 5), (b"b", "urgent", 1), (b"c", "usual", 50), (b"d", "urgent", 2)):
        channel.basic_publish("", "q", body, pika.BasicProperties(type=type, headers={"weight": weight}))
    assert [channel.basic_get("q", auto_ack=True)[2] for _ in range(4)] == [b"d", b"b", b"c", b"a"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({EXPRESSION: "qty >"}, EXPRESSION),
        ({EXPRESSION: "/qty > 5"}, "a value is due here"),
        ({EXPRESSION: "deliveries"}, "deliveries is nothing that an order can go by"),
        ({EXPRESSION: 5}, EXPRESSION),
        ({EXPRESSION: "/qty", "x-max-priority": 5}, "x-max-priority gives priorities, too"),
        ({EXPRESSION: "/qty", "x-priority-mode": "strict"}, "x-priority-mode gives priorities, too"),
        ({EXPRESSION: "/qty", "x-queue-type": "stream"}, EXPRESSION),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(broker: BrokerProcess, arguments: dict[str, object], said: str) -> None:
    channel = open_channel(broker)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=said):
        channel.queue_declare("q", durable=True, arguments=arguments)
