"""Messages of paho for proton, and of proton for paho: what becomes of each property, as RabbitMQ 4 converts them."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import paho.mqtt.client as mqtt
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from proton import Message, byte, int32, symbol, timestamp, ulong
from proton.utils import BlockingConnection, BlockingReceiver

from tests.broker_process import BrokerProcess, running
from tests.interop.amqp10.proton_client import TOPIC, connected, take

WAIT_S = 20
ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


class Subscriber:
    """A client of paho that has subscribed to `to/mqtt/#`."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.got: queue.Queue[mqtt.MQTTMessage] = queue.Queue()
        subscribed: queue.Queue[int] = queue.Queue()
        client = self.client = mqtt.Client(CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion.MQTTv5)
        client.username_pw_set("guest", "guest")

        def on_connect(*_: object) -> None:
            client.subscribe("to/mqtt/#", 1)

        client.on_connect = on_connect
        client.on_subscribe = lambda *_: subscribed.put(1)
        client.on_message = lambda _client, _data, message: self.got.put(message)
        client.connect("127.0.0.1", broker.mqtt_port)
        client.loop_start()
        subscribed.get(timeout=WAIT_S)

    def publish(self, topic: str, payload: bytes, qos: int = 1, **fields: Any) -> None:
        sent = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho types it no better
        for name, value in fields.items():
            setattr(sent, name, value)
        self.client.publish(topic, payload, qos, properties=sent).wait_for_publish(WAIT_S)

    def stop(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that the tests of this module share."""
    folder: Path = tmp_path_factory.mktemp("conversion")
    with running(folder) as made:
        yield made


@pytest.fixture(scope="module")
def subscriber(broker: BrokerProcess) -> Iterator[Subscriber]:
    made = Subscriber(broker)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def connection(broker: BrokerProcess) -> Iterator[BlockingConnection]:
    with connected(broker) as made:
        yield made


@pytest.fixture(scope="module")
def receiver(connection: BlockingConnection) -> BlockingReceiver:
    """A link that has subscribed to `to/amqp/#`."""
    return connection.create_receiver("to/amqp/#", options=[TOPIC], credit=100)


def to_mqtt(
    connection: BlockingConnection, subscriber: Subscriber, message: Message
) -> tuple[mqtt.MQTTMessage, dict[str, Any]]:
    """What paho gets of a message that proton has sent, and its properties by name."""
    sender = connection.create_sender("to/mqtt/a", options=[TOPIC])
    sender.send(message)
    sender.close()
    found = subscriber.got.get(timeout=WAIT_S)
    assert found.topic == "to/mqtt/a"
    return found, vars(found.properties)


# ---- from MQTT


def test_every_property_of_paho(subscriber: Subscriber, receiver: BlockingReceiver) -> None:
    subscriber.publish(
        "to/amqp/a/b",
        b"payload",
        ContentType="text/plain",
        ResponseTopic="answers/here",
        CorrelationData=b"\xffc1",
        MessageExpiryInterval=60,
        PayloadFormatIndicator=1,
        UserProperty=[("name", "value"), ("x-own", "annotation"), ("name", "again")],
    )
    (found,) = take(receiver, 1)
    assert (bytes(found.body), found.inferred, found.durable) == (b"payload", True, True)
    assert 50 < found.ttl <= 60
    assert found.content_type == "text/plain"
    assert bytes(found.correlation_id) == b"\xffc1"
    assert found.reply_to == "/exchanges/amq.topic/answers.here"
    assert found.properties["name"] in {"value", "again"}
    assert found.annotations[symbol("x-own")] == "annotation"
    assert found.annotations[symbol("x-exchange")] == "amq.topic"
    assert found.annotations[symbol("x-routing-key")] == "to.amqp.a.b"


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_paho_without_properties(subscriber: Subscriber, receiver: BlockingReceiver, qos: int) -> None:
    subscriber.publish("to/amqp/plain", b"", qos)
    (found,) = take(receiver, 1)
    assert (bytes(found.body), found.durable) == (b"", True)
    assert (found.id, found.correlation_id, found.reply_to) == (None, None, None)


def test_a_correlation_of_paho_that_is_a_uuid(subscriber: Subscriber, receiver: BlockingReceiver) -> None:
    subscriber.publish("to/amqp/uuid", b"", CorrelationData=f"urn:uuid:{ID}".encode())
    (found,) = take(receiver, 1)
    assert found.correlation_id == ID


# ---- to MQTT


def test_every_field_of_proton(connection: BlockingConnection, subscriber: Subscriber) -> None:
    message = Message(
        b"body",
        inferred=True,
        durable=True,
        ttl=60.0,
        correlation_id="c1",
        reply_to="/exchanges/amq.topic/answers.here",
        content_type=symbol("text/plain"),
        annotations={symbol("x-own"): "annotation", symbol("other"): "lost"},
        properties={"text": "t", "number": int32(-5), "truth": True, "none": None, "time": timestamp(1700000000000)},
    )
    found, properties = to_mqtt(connection, subscriber, message)
    assert (found.payload, found.qos) == (b"body", 1)
    assert 50 < properties["MessageExpiryInterval"] <= 60
    assert (properties["ContentType"], properties["CorrelationData"]) == ("text/plain", b"c1")
    assert properties["ResponseTopic"] == "answers/here"
    user = dict(properties["UserProperty"])
    expected = {"text": "t", "number": "-5", "truth": "true", "none": "", "time": "1700000000", "x-own": "annotation"}
    assert {name: user.get(name) for name in expected} == expected
    assert not {"other", "x-exchange", "x-routing-key"} & set(user)


def test_a_message_that_is_not_durable(connection: BlockingConnection, subscriber: Subscriber) -> None:
    found, properties = to_mqtt(connection, subscriber, Message(b"x", inferred=True))
    assert found.payload == b"x"
    assert not {"CorrelationData", "ResponseTopic", "MessageExpiryInterval"} & set(properties)


@pytest.mark.parametrize(
    ("given", "correlation"), [(ID, f"urn:uuid:{ID}".encode()), (ulong(7), b"7"), (b"\x00\xff", b"\x00\xff")]
)
def test_correlations_of_proton(
    connection: BlockingConnection, subscriber: Subscriber, given: Any, correlation: bytes
) -> None:
    _, properties = to_mqtt(connection, subscriber, Message(b"x", inferred=True, correlation_id=given))
    assert properties["CorrelationData"] == correlation


def test_a_body_of_proton_that_is_no_data(connection: BlockingConnection, subscriber: Subscriber) -> None:
    found, properties = to_mqtt(connection, subscriber, Message({"a": byte(1)}))
    assert found.payload.startswith(b"\x00\x53\x77")
    assert properties["ContentType"] == "message/vnd.rabbitmq.amqp"


def test_a_long_body_both_ways(
    connection: BlockingConnection, subscriber: Subscriber, receiver: BlockingReceiver
) -> None:
    body = bytes(range(250)) * 4000
    assert to_mqtt(connection, subscriber, Message(body, inferred=True))[0].payload == body
    subscriber.publish("to/amqp/long", body)
    (found,) = take(receiver, 1)
    assert bytes(found.body) == body
