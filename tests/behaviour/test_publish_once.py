"""A publish that says which message it is: taken once, by whichever protocol it comes, however often, over kill -9."""

from __future__ import annotations

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import connected, publish, user
from tests.conformance.mqtt.v5.flows import publish_whole

REFUSED_PROPERTIES = 0x99


def numbered(producer: str, number: int) -> bytes:
    return user("x-producer-id", producer) + user("x-sequence", str(number))


def bound_queue(broker: BrokerProcess) -> BlockingChannel:
    """A confirming channel, and the queue `q` that takes the topic `t/1`."""
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "t.1")
    return channel


def taken(channel: BlockingChannel) -> list[bytes]:
    found = []
    while (got := channel.basic_get("q", auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_repeated_publish_over_mqtt(broker: BrokerProcess, qos: int) -> None:
    channel = bound_queue(broker)
    raw = connected(broker, "publisher")
    for number, body in ((1, b"a"), (1, b"b"), (2, b"c"), (1, b"d")):
        publish_whole(raw, "t/1", body, qos, numbered("p", number))
    publish_whole(raw, "t/1", b"e", qos, user("x-deduplication-key", "k"))
    publish_whole(raw, "t/1", b"f", qos, user("x-deduplication-key", "k"))
    publish_whole(raw, "t/1", b"g", qos, user("x-other", "k"))
    assert taken(channel) == [b"a", b"c", b"e", b"g"]


def test_the_protocols_know_of_each_other_also_after_kill_9(broker: BrokerProcess) -> None:
    channel = bound_queue(broker)
    publish_whole(connected(broker, "publisher"), "t/1", b"by MQTT", 1, numbered("p", 7))
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    for number in (7, 8):
        properties = pika.BasicProperties(headers={"x-producer-id": "p", "x-sequence": number})
        channel.basic_publish("amq.topic", "t.1", b"by AMQP", properties)
    publish_whole(connected(broker, "publisher"), "t/1", b"by MQTT again", 1, numbered("p", 8))
    assert taken(channel) == [b"by MQTT", b"by AMQP"]


def test_a_number_that_is_none_is_refused(broker: BrokerProcess) -> None:
    channel = bound_queue(broker)
    raw = connected(broker, "publisher")
    for block in (user("x-producer-id", "p"), user("x-producer-id", "p") + user("x-sequence", "-1")):
        raw.send(publish("t/1", b"x", 1, 5, properties=block))
        raw.acked(5, REFUSED_PROPERTIES)
    assert taken(channel) == []
