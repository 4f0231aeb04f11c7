"""Events: what clients read in the stream `$events`, and what the log says."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
import pika
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.broker_process import BrokerProcess
from tests.waiting import until

WAIT_S = 60
Start = Callable[..., BrokerProcess]


def connect(broker: BrokerProcess) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))


def read(broker: BrokerProcess, wanted: set[str]) -> list[tuple[str, dict[str, Any]]]:
    """Routing key and body of each record of `$events`, once all the wanted types are there."""
    connection = connect(broker)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=100)
    found: list[tuple[str, dict[str, Any]]] = []
    deadline = time.monotonic() + WAIT_S
    asked = {"x-stream-offset": "first"}
    for method, properties, body in channel.consume("$events", arguments=asked, inactivity_timeout=0.1):
        if method is not None:
            assert properties.content_type == "application/json"
            found.append((method.routing_key, json.loads(body)))
            channel.basic_ack(method.delivery_tag)
        if wanted <= {event["type"] for _, event in found}:
            break
        assert time.monotonic() < deadline, found
    connection.close()
    return found


def client(broker: BrokerProcess, name: str) -> paho.Client:
    """An MQTT 5 client that is connected."""
    made = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5)
    made.connect("127.0.0.1", broker.mqtt_port)
    made.loop_start()
    until(made.is_connected)
    return made


def test_clients_queues_and_messages_are_in_the_stream_of_events(start_broker: Start) -> None:
    broker = start_broker(events=["*"])
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", "orders", b"secret words")
    assert channel.basic_get("orders", auto_ack=True)[2] == b"secret words"
    ann = client(broker, "ann")
    ann.subscribe("home/+", qos=1)
    ann.publish("home/door", b"open", qos=1, retain=True).wait_for_publish(WAIT_S)
    ann.unsubscribe("home/+")
    other = client(broker, "ann")
    ann.loop_stop()
    wanted = {
        "client.connected",
        "client.disconnected",
        "client.session_takeover",
        "message.published",
        "message.delivered",
        "message.retained",
        "subscription.created",
        "queue.created",
    }
    found = read(broker, wanted)
    for key, event in found:
        assert key == event["type"], "the routing key is the type"
        assert event["vhost"] == "/" or event["type"].startswith(("vhost", "auth")), "these belong to no vhost"
        assert "secret words" not in json.dumps(event)
    numbers = [event["number"] for _, event in found]
    assert numbers == sorted(numbers)
    by_type = {event["type"]: event["data"] for _, event in found}
    assert by_type["queue.created"]["queue"] == "orders"
    assert by_type["subscription.created"] == {"client_id": "ann", "filter": "home/+", "qos": 1}
    assert by_type["message.retained"] == {"topic": "home/door", "qos": 1, "octets": 4}
    assert by_type["message.delivered"]["client_id"] == "ann"
    published = [event["data"] for _, event in found if event["type"] == "message.published"]
    assert {"exchange": "", "routing_key": "orders", "octets": 12} in published
    assert by_type["client.session_takeover"]["client_id"] == "ann"
    connected = [event["data"] for _, event in found if event["type"] == "client.connected"]
    assert connected[0]["protocol"] == "AMQP 0.9.1" and connected[0]["user"] == "guest"
    assert connected[0]["peer"].startswith("127.0.0.1:")
    other.loop_stop()
    connection.close()


def test_events_outlive_the_broker_and_have_filters_as_queues_have(start_broker: Start) -> None:
    broker = start_broker(events=["queue.*", "client.connected"])
    connection = connect(broker)
    connection.channel().queue_declare("first", durable=True)
    connection.close()
    read(broker, {"queue.created", "client.connected"})
    broker.restart()
    assert "first" in [event["data"].get("queue") for _, event in read(broker, {"queue.created"})]
    messages: list[paho.MQTTMessage] = []
    reader = client(broker, "reader")
    reader.on_message = lambda _client, _data, message: messages.append(message)
    properties = Properties(PacketTypes.SUBSCRIBE)  # type: ignore[no-untyped-call]
    properties.UserProperty = [("stream-offset", "first")]
    reader.subscribe("$queue/$events/queue/+", qos=1, properties=properties)
    until(lambda: messages)
    bodies = [json.loads(each.payload) for each in messages]
    assert {each["type"] for each in bodies} == {"queue.created"}
    reader.disconnect()
    reader.loop_stop()


def test_reading_events_makes_none(start_broker: Start) -> None:
    broker = start_broker(events=["message.*", "consumer.*"])
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.basic_publish("", "q", b"1")
    assert len(read(broker, {"message.published"})) == 1
    assert len(read(broker, {"message.published"})) == 1, "neither the consumer nor what it got is in the stream"
    connection.close()


def test_a_broker_without_events_has_no_stream_of_them(broker: BrokerProcess) -> None:
    connection = connect(broker)
    channel = connection.channel()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="404"):
        channel.queue_declare("$events", passive=True)
    connection.close()


def test_the_log_may_be_json_with_events_in_it_and_no_secret(start_broker: Start) -> None:
    users = {"ann": "a very long password", "guest": "guest"}
    broker = start_broker(log_format="json", log_events=["*"], users=users, log_level="debug")
    parameters = pika.ConnectionParameters(
        "127.0.0.1", broker.amqp_port, credentials=pika.PlainCredentials("ann", users["ann"])
    )
    connection = pika.BlockingConnection(parameters)
    connection.channel().queue_declare("q", durable=True)
    wrong = pika.ConnectionParameters(
        "127.0.0.1", broker.amqp_port, credentials=pika.PlainCredentials("ann", "not the password")
    )
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(wrong)
    connection.close()
    until(lambda: "client.disconnected" in broker.log_text())
    broker.stop()
    text = broker.log_text()
    lines = [json.loads(line) for line in text.splitlines() if not line.startswith("ready ")]
    assert all({"time", "level", "message"} <= set(line) for line in lines)
    by_event = {line["event"]: line for line in lines if "event" in line}
    assert by_event["client.connected"]["data"]["user"] == "ann"
    assert by_event["queue.created"]["vhost"] == "/"
    assert users["ann"] not in text and "not the password" not in text
