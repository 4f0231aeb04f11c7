"""Exchanges, queues and bindings: shared by all connections and protocols, and there again after a kill."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import paho.mqtt.client as mqtt
import pika
import pika.exceptions
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess


def drain(channel: BlockingChannel, queue: str) -> list[bytes]:
    bodies = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        bodies.append(got[2])
    return bodies


def publish_mqtt(broker: BrokerProcess, topic: str, *payloads: bytes) -> None:
    """Publish at QoS 1 and wait for every PUBACK."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.username_pw_set("guest", "guest")
    connected = threading.Event()
    client.on_connect = lambda *_: connected.set()
    client.connect("127.0.0.1", broker.mqtt_port)
    client.loop_start()
    assert connected.wait(10)
    for payload in payloads:
        client.publish(topic, payload, qos=1).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


@contextmanager
def told_one(broker: BrokerProcess, filter: str) -> Iterator[list[tuple[str, bytes]]]:
    """What a subscriber at QoS 1 is told until it ends, which is after a first message."""
    got: list[tuple[str, bytes]] = []
    arrived = threading.Event()
    subscribed = threading.Event()
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5)
    client.username_pw_set("guest", "guest")
    client.on_subscribe = lambda *_: subscribed.set()

    def on_connect(*_: object) -> None:
        client.subscribe(filter, qos=1)

    def on_message(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
        got.append((message.topic, bytes(message.payload)))
        arrived.set()

    client.on_connect = on_connect
    client.on_message = on_message
    client.connect("127.0.0.1", broker.mqtt_port)
    client.loop_start()
    assert subscribed.wait(10)
    yield got
    assert arrived.wait(10)
    client.disconnect()
    client.loop_stop()


def declare_all_kinds(channel: BlockingChannel) -> None:
    for kind, key, arguments in (
        ("direct", "red", None),
        ("fanout", "", None),
        ("topic", "eu.*.#", None),
        ("headers", "", {"x-match": "all", "colour": "red", "size": 3}),
    ):
        channel.exchange_declare(f"x-{kind}", kind, durable=True)
        channel.queue_declare(f"q-{kind}", durable=True)
        channel.queue_bind(f"q-{kind}", f"x-{kind}", key, arguments)


def publish_to_all_kinds(channel: BlockingChannel) -> None:
    channel.basic_publish("x-direct", "red", b"direct", mandatory=True)
    channel.basic_publish("x-fanout", "anything", b"fanout", mandatory=True)
    channel.basic_publish("x-topic", "eu.paris.north", b"topic", mandatory=True)
    headers = pika.BasicProperties(headers={"colour": "red", "size": 3, "more": True})
    channel.basic_publish("x-headers", "", b"headers", headers, mandatory=True)


def test_every_kind_of_exchange_routes_before_and_after_a_kill(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare_all_kinds(channel)
    channel.queue_declare("settled", durable=True)
    for _ in range(2):
        channel = open_channel(broker)  # another connection than the one that declared
        publish_to_all_kinds(channel)
        for kind in ("direct", "fanout", "topic", "headers"):
            assert drain(channel, f"q-{kind}") == [kind.encode()]
        channel.basic_publish("", "settled", b"takes the settlements before it to the disk")
        broker.kill9()
        broker.start()


@pytest.mark.parametrize(
    ("exchange", "key", "headers"),
    [("x-direct", "blue", {}), ("x-topic", "us.boston", {}), ("x-headers", "", {"colour": "red", "size": 4})],
)
def test_what_fits_no_binding_comes_back_to_a_mandatory_publisher(
    broker: BrokerProcess, exchange: str, key: str, headers: dict[str, object]
) -> None:
    channel = open_channel(broker)
    declare_all_kinds(channel)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish(exchange, key, b"lost?", pika.BasicProperties(headers=headers), mandatory=True)


def test_an_unbound_queue_gets_nothing_more_also_after_a_kill(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    declare_all_kinds(channel)
    channel.queue_unbind("q-direct", "x-direct", "red")
    channel.queue_delete("q-fanout")
    channel.exchange_delete("x-topic")
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("x-direct", "red", b"", mandatory=True)
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("x-fanout", "red", b"", mandatory=True)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no exchange 'x-topic'"):
        channel.exchange_declare("x-topic", passive=True)


def test_one_publish_lands_in_every_queue_bound_by_topic(start_broker: Callable[..., BrokerProcess]) -> None:
    queues = [
        {"name": "all", "topics": ["$queue/flights/#"]},
        {"name": "united", "topics": ["$queue/flights/UA/+"]},
        {"name": "history", "type": "stream", "topics": ["$queue/flights/#"]},
    ]
    broker = start_broker(queues=queues)
    publish_mqtt(broker, "$queue/flights/UA/EWR", b"1")
    publish_mqtt(broker, "$queue/flights/AA/JFK", b"2")
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    assert drain(channel, "all") == [b"1", b"2"]
    assert drain(channel, "united") == [b"1"]
    assert channel.queue_declare("history", durable=True, passive=True).method.message_count == 2


def test_the_reserved_queue_takes_what_no_other_queue_takes(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(queues=[{"name": "mqtt", "reserved": True}])
    channel = open_channel(broker)
    channel.queue_declare("jobs", durable=True)
    publish_mqtt(broker, "$queue/jobs/a", b"mine")
    publish_mqtt(broker, "$queue/nobody/a", b"stray")
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    assert drain(channel, "jobs") == [b"mine"]
    assert drain(channel, "mqtt") == [b"stray"]


def test_an_mqtt_topic_reaches_queues_bound_to_amq_topic_and_back(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "sensors.*.temperature")
    publish_mqtt(broker, "sensors/kitchen/temperature", b"21")
    frame, properties, body = channel.basic_get("q", auto_ack=True)
    assert (frame.exchange, frame.routing_key, body) == ("amq.topic", "sensors.kitchen.temperature", b"21")
    assert properties.headers in (None, {})

    with told_one(broker, "sensors/+/set") as got:
        channel.basic_publish("amq.topic", "sensors.kitchen.set", b"19")
    assert got == [("sensors/kitchen/set", b"19")]


def test_exclusive_and_auto_delete_queues_go_with_their_connection(broker: BrokerProcess) -> None:
    owner = open_channel(broker)
    owner.queue_declare("mine", exclusive=True)
    owner.queue_declare("shared", durable=True, auto_delete=True)
    owner.basic_consume("shared", lambda *_: None)
    other = open_channel(broker)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="exclusive"):
        other.queue_declare("mine", passive=True)
    owner.connection.close()
    for name in ("mine", "shared"):
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue"):
            open_channel(broker).queue_declare(name, passive=True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-queue-type": "quorums"}, "unsupported queue type 'quorums'"),
        ({"x-queue-type": "quorum", "x-max-priority": 5}, "of queue type rabbit_quorum_queue"),
        ({"x-queue-type": "stream", "x-max-age": "7 weeks"}, "invalid_max_age"),
        ({"x-max-age": "7D"}, "x-max-age"),
        ({"x-queue-type": "stream", "x-max-length": -1}, "-1"),
        ({"x-visibility-timeout": 0}, "x-visibility-timeout"),
        ({"x-message-ttl": "1000"}, "expected integer, got longstr"),
    ],
)
def test_a_wrong_argument_is_refused_by_name_and_nothing_is_made(
    broker: BrokerProcess, arguments: dict[str, object], text: str
) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
        open_channel(broker).queue_declare("q", durable=True, arguments=arguments)
    assert caught.value.reply_code == 406 and text in caught.value.reply_text
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue"):
        open_channel(broker).queue_declare("q", passive=True)
