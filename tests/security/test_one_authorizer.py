"""Rules for topics hold at every door: MQTT, AMQP, the HTTP bridge, the management and the block protocol."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from forebay.client.staging import StagingClient
from forebay.core.errors import REFUSED, RequestError
from forebay.core.message import MQTT
from tests.blocks import EMPTY, staged_block
from tests.broker_process import BrokerProcess, running
from tests.interop.mqtt_client import Client

ACCESS_REFUSED = 403
RULES = """
user guest
topic readwrite rooms/#
topic deny rooms/secret
topic readwrite $queue/jobs
topic deny $queue/locked
topic read only/heard
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "acl"
    path.write_text(RULES)
    return path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, rules: Path) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("doors"), http="127.0.0.1:0", mqtt_acl=str(rules)) as broker:
        with connect(broker) as connection:
            channel = connection.channel()
            for queue in ("jobs", "other", "locked"):
                channel.queue_declare(queue, durable=True)
        yield broker


@pytest.fixture
def connection(broker: BrokerProcess) -> Iterator[pika.BlockingConnection]:
    with connect(broker) as connection:
        yield connection


@pytest.fixture(scope="module")
def http(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as client:
        yield client


def connect(broker: BrokerProcess) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))


def publish(channel: BlockingChannel, exchange: str, key: str, **properties: object) -> None:
    channel.confirm_delivery()
    channel.basic_publish(exchange, key, b"x", pika.BasicProperties(**properties))


def allowed(work: Callable[[], object]) -> bool:
    """Whether a channel may do it; anything but a refusal is an error."""
    try:
        work()
    except ChannelClosedByBroker as error:
        if error.reply_code != ACCESS_REFUSED:
            raise
        return False
    return True


def answered(answer: httpx.Response) -> bool:
    """The same of a request over HTTP."""
    assert answer.status_code < 300 or answer.status_code in (401, 403), answer.text
    return answer.status_code < 300


def staged(broker: BrokerProcess, block: bytes) -> bool:
    """The same of a row that a sink stages."""
    with StagingClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as client:
        try:
            client.stage("q", 1, "p", block)
        except RequestError as error:
            if error.reason != REFUSED:
                raise
            return False
    return True


def read(broker: BrokerProcess, address: str) -> bool:
    """The same of a subscriber over HTTP."""
    place = f"{broker.http_url}/subscribe/{address.replace('#', '%23').replace('$', '%24')}"
    with httpx.Client(auth=("guest", "guest"), timeout=60) as http, http.stream("GET", place) as answer:
        assert answer.status_code in (200, 403)
        return answer.status_code == 200


def message(key: str) -> dict[str, object]:
    return {"properties": {}, "routing_key": key, "payload": "", "payload_encoding": "string"}


@pytest.mark.parametrize(
    ("topic", "may"), [("rooms/1", True), ("rooms/secret", False), ("doors/1", False), ("only/heard", False)]
)
def test_publishing_to_a_topic_takes_the_same_at_every_door(
    broker: BrokerProcess, connection: pika.BlockingConnection, http: httpx.Client, topic: str, may: bool
) -> None:
    key = topic.replace("/", ".")
    over_mqtt = Client(broker, "c1")
    over_mqtt.connect()
    told = {"mqtt": not over_mqtt.publish(topic).is_failure}
    over_mqtt.end()
    told["bridge"] = answered(http.post(f"/publish/{topic}"))
    told["bridge, many"] = answered(http.post("/publish", json=[{"topic": topic, "payload": ""}]))
    told["management"] = answered(http.post("/api/exchanges/%2F/amq.topic/publish", json=message(key)))
    told["amqp"] = allowed(lambda: publish(connection.channel(), "amq.topic", key))
    told["copy"] = allowed(lambda: publish(connection.channel(), "amq.topic", "rooms.1", headers={"CC": [key]}))
    told["stage"] = staged(broker, staged_block((b"amq.topic", key.encode(), EMPTY, b"")))
    told["stage, mqtt"] = staged(broker, staged_block((b"amq.topic", topic.encode(), b"", b""), format=MQTT))
    assert set(told.values()) == {may}, told


@pytest.mark.parametrize(
    ("filter", "may"), [("rooms/1/#", True), ("only/heard", True), ("rooms/#", False), ("#", False), ("doors/+", False)]
)
def test_reading_topics_takes_the_same_at_every_door(
    broker: BrokerProcess, connection: pika.BlockingConnection, http: httpx.Client, filter: str, may: bool
) -> None:
    key = filter.replace("/", ".").replace("+", "*")
    over_mqtt = Client(broker, "c1")
    over_mqtt.connect()
    told = {"mqtt": not over_mqtt.subscribe(filter).is_failure}
    over_mqtt.end()
    told["bridge"] = read(broker, filter)
    binding = {"routing_key": key}
    told["management"] = answered(http.post("/api/bindings/%2F/e/amq.topic/q/other", json=binding))
    told["management, exchange"] = answered(http.post("/api/bindings/%2F/e/amq.topic/e/amq.fanout", json=binding))
    told["amqp"] = allowed(lambda: connection.channel().queue_bind("other", "amq.topic", key))
    told["amqp, exchange"] = allowed(lambda: connection.channel().exchange_bind("amq.fanout", "amq.topic", key))
    assert set(told.values()) == {may}, told


def test_what_leads_into_topics_must_be_let_publish_there(
    connection: pika.BlockingConnection, http: httpx.Client
) -> None:
    def declare(name: str, **arguments: str) -> Callable[[], object]:
        given = {key.replace("_", "-"): value for key, value in arguments.items()}
        return lambda: connection.channel().queue_declare(name, durable=True, arguments=given)

    exchange = "amq.topic"
    assert allowed(declare("dead-1", x_dead_letter_exchange=exchange, x_dead_letter_routing_key="rooms.1"))
    assert not allowed(declare("dead-2", x_dead_letter_exchange=exchange, x_dead_letter_routing_key="rooms.secret"))
    assert not allowed(declare("dead-3", x_dead_letter_exchange=exchange))  # with whatever key they have
    assert not answered(http.put("/api/queues/%2F/dead-4", json={"arguments": {"x-dead-letter-exchange": exchange}}))
    other = {"alternate-exchange": exchange}
    assert not allowed(lambda: connection.channel().exchange_declare("unrouted", "direct", arguments=other))
    assert not answered(http.put("/api/exchanges/%2F/unrouted", json={"type": "direct", "arguments": other}))
    for source, key, may in (
        ("amq.direct", "rooms.1", True),
        ("amq.direct", "rooms.secret", False),
        ("amq.fanout", "rooms.1", False),
    ):
        asked = {"routing_key": key}
        assert answered(http.post(f"/api/bindings/%2F/e/{source}/e/{exchange}", json=asked)) is may
        assert allowed(lambda: connection.channel().exchange_bind(exchange, source, key)) is may  # noqa: B023


@pytest.mark.parametrize(("queue", "by_address", "by_name"), [("jobs", True, True), ("locked", False, False)])
def test_a_queue_is_one_by_its_name_and_by_its_address(
    broker: BrokerProcess,
    connection: pika.BlockingConnection,
    http: httpx.Client,
    queue: str,
    by_address: bool,
    by_name: bool,
) -> None:
    address = f"$queue/{queue}"
    over_mqtt = Client(broker, "c1")
    over_mqtt.connect()
    told = {
        "publish, mqtt": not over_mqtt.publish(address).is_failure,
        "subscribe, mqtt": not over_mqtt.subscribe(address).is_failure,
    }
    over_mqtt.end()
    told["publish, bridge"] = answered(http.post(f"/publish/{address}"))
    told["subscribe, bridge"] = read(broker, address)
    told["publish, amqp"] = allowed(lambda: publish(connection.channel(), "", address))
    assert set(told.values()) == {by_address}, told
    names = {
        "publish, amqp": allowed(lambda: publish(connection.channel(), "", queue)),
        "publish, management": answered(http.post("/api/exchanges/%2F/amq.default/publish", json=message(queue))),
        "get": allowed(lambda: connection.channel().basic_get(queue)),
        "consume": allowed(lambda: connection.channel().basic_consume(queue, lambda *_: None)),
        "stage": staged(broker, staged_block((b"", queue.encode(), EMPTY, b""))),
    }
    got = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    names["get, management"] = answered(http.post(f"/api/queues/%2F/{queue}/get", json=got))
    assert set(names.values()) == {by_name}, names


def test_a_queue_that_no_rule_names_is_left_to_the_permissions(
    broker: BrokerProcess, connection: pika.BlockingConnection, http: httpx.Client
) -> None:
    assert allowed(lambda: publish(connection.channel(), "", "other"))
    assert allowed(lambda: connection.channel().basic_get("other"))
    assert not allowed(lambda: publish(connection.channel(), "", "$queue/other"))
    assert not answered(http.post("/publish/$queue/other"))


def test_new_rules_hold_at_once_for_who_is_connected(start_broker: Callable[..., BrokerProcess], rules: Path) -> None:
    broker = start_broker(http="127.0.0.1:0")
    with connect(broker) as connection:
        channel = connection.channel()
        publish(channel, "amq.topic", "doors.1")
        broker.options["mqtt_acl"] = str(rules)
        broker.write_options()
        os.kill(broker.pid, signal.SIGHUP)
        while "configuration read again" not in broker.log_text():
            connection.process_data_events(0.05)
        assert not allowed(lambda: publish(channel, "amq.topic", "doors.1"))
