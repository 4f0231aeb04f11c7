"""Queries that real clients ask by messages, over every protocol, and their answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import paho.mqtt.client as paho
import pika
import pytest
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker
from proton import Message
from proton.utils import SendException

from forebay.client.control import ControlClient
from tests.broker_process import BrokerProcess, running
from tests.interop.amqp10.proton_client import WAIT_S, connected
from tests.interop.amqp10.test_direct_replies import replies_of
from tests.waiting import until

QUERY = "$queue/orders/$query"
BY_KIND = {"select": "/k AS k, SUM(/n) AS s", "group_by": "/k", "order_by": "k"}
SUMS = [{"k": "a", "s": 20}, {"k": "b", "s": 25}]


def connect(broker: BrokerProcess, user: str = "guest", password: str = "guest") -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, credentials=credentials))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("broker")) as broker:
        with connect(broker) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("orders", durable=True)
            for n in range(10):
                channel.basic_publish("", "orders", json.dumps({"n": n, "k": "ab"[n % 2]}).encode())
        yield broker


@pytest.fixture
def channel(broker: BrokerProcess) -> Iterator[BlockingChannel]:
    with connect(broker) as connection:
        yield connection.channel()


def direct(channel: BlockingChannel, query: object, body: bytes = b"") -> Any:
    """The answer to a query by direct reply-to."""
    answers: list[tuple[pika.BasicProperties, bytes]] = []
    tag = channel.basic_consume(
        "amq.rabbitmq.reply-to", lambda _c, _m, found, body: answers.append((found, body)), auto_ack=True
    )
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="7")
    channel.basic_publish("", QUERY, body or json.dumps(query).encode(), properties)
    while not answers:
        channel.connection.process_data_events(0.05)
    channel.basic_cancel(tag)
    assert (answers[0][0].correlation_id, answers[0][0].content_type) == ("7", "application/json")
    return json.loads(answers[0][1])


def test_pika_asks_with_a_direct_reply(channel: BlockingChannel) -> None:
    answer = direct(channel, BY_KIND)
    assert (answer["rows"], answer["scanned"], answer["end"]) == (SUMS, 10, 10)
    assert direct(channel, {"select": "/n", "where": "/n > 7"})["rows"] == [{"/n": 8}, {"/n": 9}]
    page = direct(channel, {"select": "/n", "limit": 6})
    assert len(page["rows"]) == 6
    rest = direct(channel, {"select": "/n", "limit": 6, **page["next"]})
    assert [row["/n"] for row in rest["rows"]] == [6, 7, 8, 9] and "next" not in rest


def test_pika_asks_with_a_queue_for_the_answer(channel: BlockingChannel) -> None:
    channel.queue_declare("answers")
    properties = pika.BasicProperties(reply_to="answers", message_id="by-id")
    channel.basic_publish("", QUERY, json.dumps(BY_KIND).encode(), properties)
    found = until(lambda: (got := channel.basic_get("answers", auto_ack=True))[0] and got)
    assert found[1].correlation_id == "by-id"
    assert json.loads(found[2])["rows"] == SUMS


def test_what_is_wrong_with_a_query_is_its_answer(channel: BlockingChannel) -> None:
    assert direct(channel, {"where": "/n >"})["error"] == "invalid"
    assert "did you mean where?" in direct(channel, {"whre": "/n"})["reason"]
    assert "no JSON" in direct(channel, None, b"{")["reason"]
    assert direct(channel, [1])["reason"] == "query: is no object of JSON"
    assert "more than 65536" in direct(channel, {"where": "x" * 70_000})["reason"]


def test_a_query_without_a_place_for_its_answer_or_without_a_queue_is_refused(broker: BrokerProcess) -> None:
    for key, properties, code in (
        (QUERY, pika.BasicProperties(), 406),
        ("$queue/nothing/$query", pika.BasicProperties(reply_to="answers"), 404),
    ):
        with connect(broker) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(ChannelClosedByBroker) as caught:
                channel.basic_publish("", key, b"{}", properties)
            assert caught.value.reply_code == code


def test_proton_asks(broker: BrokerProcess) -> None:
    with connected(broker) as connection:
        receiver = replies_of(connection)
        address = receiver.link.remote_source.address
        sender = connection.create_sender(QUERY)
        sender.send(Message(json.dumps(BY_KIND), reply_to=address, id="q-1"))
        answer = receiver.receive(WAIT_S)
        assert (answer.correlation_id, answer.content_type) == ("q-1", "application/json")
        assert json.loads(answer.body)["rows"] == SUMS
        sender.send(Message(json.dumps({"limit": 0}), reply_to=address, correlation_id="c"))
        assert "limit: 0" in json.loads(receiver.receive(WAIT_S).body)["reason"]
        with pytest.raises(SendException):
            sender.send(Message("{}"))


def mqtt_client(broker: BrokerProcess, name: str, answers: list[paho.MQTTMessage]) -> paho.Client:
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, protocol=paho.MQTTv5)
    client.on_message = lambda _client, _data, message: answers.append(message)
    ready = threading.Event()
    client.on_subscribe = lambda *_: ready.set()
    client.connect("127.0.0.1", broker.mqtt_port)
    client.loop_start()
    until(client.is_connected)
    client.subscribe(f"answers/{name}", qos=1)
    assert ready.wait(WAIT_S)
    return client


def test_paho_asks_with_a_response_topic(broker: BrokerProcess) -> None:
    answers: list[paho.MQTTMessage] = []
    client = mqtt_client(broker, "asker", answers)
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    properties.ResponseTopic = "answers/asker"
    properties.CorrelationData = b"\x00\x07"
    client.publish(QUERY, json.dumps(BY_KIND), qos=1, properties=properties).wait_for_publish(WAIT_S)
    until(lambda: answers)
    assert json.loads(answers[0].payload)["rows"] == SUMS
    assert answers[0].properties is not None and answers[0].properties.CorrelationData == b"\x00\x07"  # type: ignore[attr-defined]
    assert answers[0].properties.ContentType == "application/json"  # type: ignore[attr-defined]
    client.disconnect()
    client.loop_stop()


def test_who_may_not_read_the_queue_or_write_the_answer_may_not_ask(broker: BrokerProcess) -> None:
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as administrator:
        administrator.run("user.add", user="asker", password="a")
        administrator.run("permission.set", user="asker", vhost="/", configure=".*", write="", read="^orders$|^mine")
        administrator.run("queue.declare", queue="secret", vhost="/")
    for queue, reply_to in (("secret", "mine"), ("orders", "mine")):
        with connect(broker, "asker", "a") as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.queue_declare("mine")
            with pytest.raises(ChannelClosedByBroker) as caught:
                channel.basic_publish("", f"$queue/{queue}/$query", b"{}", pika.BasicProperties(reply_to=reply_to))
            assert caught.value.reply_code == 403
    with connect(broker, "asker", "a") as connection:
        assert direct(connection.channel(), BY_KIND)["rows"] == SUMS


def test_clients_that_ask_much_and_go(broker: BrokerProcess, channel: BlockingChannel) -> None:
    for _ in range(20):
        connection = connect(broker)
        rude = connection.channel()
        rude.basic_consume("amq.rabbitmq.reply-to", lambda *_: None, auto_ack=True)
        for _ in range(20):
            rude.basic_publish("", QUERY, b"{}", pika.BasicProperties(reply_to="amq.rabbitmq.reply-to"))
        connection.close()
    assert direct(channel, BY_KIND)["rows"] == SUMS
    assert channel.queue_declare("orders", passive=True).method.message_count == 10
