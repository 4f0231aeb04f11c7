"""Last-value queues as clients of each protocol meet them."""

from __future__ import annotations

import json

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from proton import Disposition, Message, symbol
from proton.utils import SendException

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.amqp10.proton_client import connected
from tests.interop.mqtt_client import client

PATCH = pika.BasicProperties(headers={"x-merge-patch": True}, delivery_mode=2)


def declare(channel: BlockingChannel, **arguments: object) -> None:
    channel.queue_declare("prices", durable=True, arguments={"x-last-value-key": "/symbol", **arguments})


def all_in(channel: BlockingChannel) -> list[dict[str, object]]:
    """Get and settle all messages of the queue."""
    found: list[dict[str, object]] = []
    while True:
        method, _, body = channel.basic_get("prices", auto_ack=True)
        if method is None:
            return found
        found.append(json.loads(body))


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_every_protocol_replaces_and_patches(broker: BrokerProcess, kind: str) -> None:
    channel = open_channel(broker)
    declare(channel, **{"x-queue-type": kind})
    channel.basic_publish("", "prices", b'{"symbol":"A","bid":1,"ask":2}')
    channel.basic_publish("", "prices", b'{"symbol":"B","bid":1}')
    channel.basic_publish("", "prices", b'{"symbol":"A","bid":3}', PATCH)
    with client(broker, "feed") as feed:
        assert not feed.publish("$queue/prices", b'{"symbol":"B","ask":4}', x_merge_patch="true").is_failure
        assert not feed.publish("$queue/prices", b'{"symbol":"C","ask":5}').is_failure
    with connected(broker) as connection:
        sender = connection.create_sender("/queues/prices")
        patch = Message(b'{"symbol":"C","ask":null,"bid":6}', inferred=True)
        patch.annotations = {symbol("x-merge-patch"): True}
        assert sender.send(patch).remote_state == Disposition.ACCEPTED
        with pytest.raises(SendException):
            sender.send(Message(b"{}", inferred=True))
    assert all_in(channel) == [
        {"symbol": "A", "bid": 3, "ask": 2},
        {"symbol": "B", "bid": 1, "ask": 4},
        {"symbol": "C", "bid": 6},
    ]


def test_a_message_without_a_key_and_a_new_key_of_a_full_queue_are_refused(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare(channel, **{"x-max-length": 1})
    channel.basic_publish("", "prices", b'{"symbol":"A","bid":1}')
    for body in (b"{}", b'{"symbol":"B"}'):
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", "prices", body)
    with client(broker, "feed") as feed:
        answer = feed.publish("$queue/prices", b'{"symbol":"B"}')
        assert answer.is_failure, answer
    channel.basic_publish("", "prices", b'{"symbol":"A","bid":2}')
    assert all_in(channel) == [{"symbol": "A", "bid": 2}]


def test_a_slow_consumer_gets_the_latest_and_no_more_than_its_window(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare(channel)
    slow = open_channel(broker)
    slow.basic_qos(prefetch_count=1)
    deliveries = slow.consume("prices", inactivity_timeout=10)
    channel.basic_publish("", "prices", b'{"symbol":"A","bid":0}')
    method, _, body = next(deliveries)
    assert json.loads(body)["bid"] == 0
    for bid in range(1, 50):
        channel.basic_publish("", "prices", b'{"symbol":"A","bid":%d}' % bid)
    slow.basic_nack(method.delivery_tag, requeue=True)
    method, _, body = next(deliveries)
    assert json.loads(body)["bid"] == 49, "what it gave back was replaced, as was all between"
    slow.basic_ack(method.delivery_tag)
    channel.basic_publish("", "prices", b'{"symbol":"B","bid":1}')
    assert json.loads(next(deliveries)[2]) == {"symbol": "B", "bid": 1}


def test_each_group_gets_the_latest_of_each_key(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare(channel)
    for bid in range(6):
        channel.basic_publish("", "prices", b'{"symbol":"%s","bid":%d}' % (b"AB"[bid % 2 : bid % 2 + 1], bid))
    for group in ("risk", "audit"):
        reader = open_channel(broker)
        got: list[object] = []
        for method, _, body in reader.consume("prices", arguments={"x-consumer-group": group}, inactivity_timeout=10):
            got.append(json.loads(body)["bid"])
            reader.basic_ack(method.delivery_tag)
            if len(got) == 2:
                break
        assert got == [4, 5], group
        reader.connection.close()
    assert [each["bid"] for each in all_in(channel)] == [4, 5]


def test_the_queue_is_the_same_after_a_restart(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare(channel)
    for bid in range(10):
        channel.basic_publish("", "prices", b'{"symbol":"A","bid":%d}' % bid)
    channel.basic_publish("", "prices", b'{"symbol":"B","bid":1}')
    broker.stop()
    broker.start()
    channel = open_channel(broker)
    declare(channel)
    channel.basic_publish("", "prices", b'{"symbol":"A","ask":1}', PATCH)
    assert all_in(channel) == [{"symbol": "B", "bid": 1}, {"symbol": "A", "bid": 9, "ask": 1}]
