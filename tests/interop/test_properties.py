"""A message published over one protocol and consumed over the other, with real clients."""

from __future__ import annotations

import queue

import paho.mqtt.client as mqtt
import pika
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.broker_process import BrokerProcess

WAIT_S = 20


def mqtt_client(broker: BrokerProcess) -> tuple[mqtt.Client, queue.Queue[mqtt.MQTTMessage]]:
    """A connected client, and what it receives from the topic `news/#`."""
    got: queue.Queue[mqtt.MQTTMessage] = queue.Queue()
    subscribed: queue.Queue[int] = queue.Queue()
    client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
    client.username_pw_set("guest", "guest")

    def on_connect(*_: object) -> None:
        client.subscribe("news/#", 1)

    client.on_connect = on_connect
    client.on_subscribe = lambda *_: subscribed.put(1)
    client.on_message = lambda _client, _data, message: got.put(message)
    client.connect("127.0.0.1", broker.mqtt_port)
    client.loop_start()
    subscribed.get(timeout=WAIT_S)
    return client, got


def test_both_directions(broker: BrokerProcess) -> None:
    client, got = mqtt_client(broker)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "amq.topic", "news.*.today")

    sent = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho types it no better
    for name, value in {
        "ContentType": "text/plain",
        "ResponseTopic": "answers",
        "CorrelationData": b"c1",
        "MessageExpiryInterval": 60,
        "PayloadFormatIndicator": 1,
        "UserProperty": [("name", "value"), ("amqp-type", "kind")],
    }.items():
        setattr(sent, name, value)
    client.publish("news/eu/today", b"hello", 1, properties=sent).wait_for_publish(WAIT_S)
    method, properties, body = next(channel.consume("q", auto_ack=True, inactivity_timeout=WAIT_S))
    channel.cancel()
    assert (method.exchange, method.routing_key, body) == ("amq.topic", "news.eu.today", b"hello")
    assert (properties.content_type, properties.reply_to, properties.correlation_id) == ("text/plain", "answers", "c1")
    assert (properties.expiration, properties.type, properties.delivery_mode) == ("60000", "kind", 2)
    assert properties.headers == {"name": "value", "mqtt-payload-format": 1}
    assert got.get(timeout=WAIT_S).payload == b"hello"

    channel.basic_publish(
        "amq.topic",
        "news.us.today",
        b"back",
        pika.BasicProperties(content_type="text/html", correlation_id="c2", headers={"n": 5}, message_id="m"),
    )
    message = got.get(timeout=WAIT_S)
    found = vars(message.properties)
    assert (message.topic, message.payload) == ("news/us/today", b"back")
    assert (found["ContentType"], found["CorrelationData"]) == ("text/html", b"c2")
    assert ("n", "5") in found["UserProperty"]
    assert ("amqp-message-id", "m") in found["UserProperty"]
    client.disconnect()
    client.loop_stop()
    connection.close()
