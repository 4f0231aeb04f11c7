"""Queues, exchanges and bindings of a configuration file as clients meet them: in force, or refused at the start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import client
from tests.waiting import until

WAIT_S = 60


def get(channel: Any, queue: str) -> tuple[Any, bytes]:
    """The next message of a queue, once there is one."""
    found: list[tuple[Any, bytes]] = []

    def is_there() -> bool:
        method, _, body = channel.basic_get(queue)
        if method is not None:
            found.append((method, body))
        return method is not None

    until(is_there, f"a message in {queue}")
    return found[0]


def test_what_fails_too_often_goes_to_the_dead_letters_of_its_queue(start_broker: Callable[..., BrokerProcess]) -> None:
    entry = {
        "name": "tasks",
        "type": "classic",
        "topics": ["jobs/#"],
        "limits": {"max_message_size": 10485760, "max_depth": 100000, "message_ttl": "168h"},
        "retry": {"max_retries": 1, "initial_backoff": "1ms", "max_backoff": "2ms", "multiplier": 2.0},
        "dlq": {"enabled": True, "topic": ""},
    }
    rest = {"name": "mqtt", "topics": ["$queue/#"], "reserved": True}
    broker = start_broker(queues=[entry, rest])
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "jobs.print", b"page", mandatory=True)
    for _ in range(2):
        method, body = get(channel, "tasks")
        assert body == b"page"
        channel.basic_reject(method.delivery_tag, requeue=True)
    method, body = get(channel, "$dlq/tasks")
    assert body == b"page" and method.routing_key == "$dlq/tasks"
    channel.basic_ack(method.delivery_tag)
    channel.basic_publish("", "$queue/nobody/has/it", b"rest", mandatory=True)
    assert get(channel, "mqtt")[1] == b"rest"
    connection.close()


def test_a_message_longer_than_its_queue_takes_is_refused(start_broker: Callable[..., BrokerProcess]) -> None:
    entries = [
        {
            "name": kind,
            "type": kind,
            "topics": ["jobs/#"] if kind == "stream" else [],
            "limits": {"max_message_size": 8},
        }
        for kind in ("classic", "quorum", "stream")
    ]
    broker = start_broker(queues=entries, http="127.0.0.1:0")
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    for name in ("classic", "quorum", "stream"):
        channel.basic_publish("", name, b"12345678", mandatory=True)
        with pytest.raises(pika.exceptions.NackError):
            channel.basic_publish("", name, b"123456789", mandatory=True)
    assert channel.queue_declare("classic", passive=True).method.message_count == 1
    with client(broker, "worker") as worker:
        assert not worker.publish("jobs/a", b"12345678").is_failure
        assert worker.publish("jobs/a", b"123456789").value == 0x97
    url = f"{broker.http_url}/publish/jobs/a"
    answer = httpx.post(url, content=b"123456789", auth=("guest", "guest"), timeout=WAIT_S)
    assert answer.status_code == 413 and "takes no message above 8 octets" in answer.text, answer.text
    other = connection.channel()
    other.tx_select()
    other.basic_publish("", "quorum", b"123456789")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="406"):
        other.tx_commit()
    connection.close()


def test_what_fails_for_too_long_goes_to_the_dead_letters(start_broker: Callable[..., BrokerProcess]) -> None:
    """Its time begins with its first failure, and goes on over a restart."""
    entry = {
        "name": "tasks",
        "retry": {"max_retries": 1_000_000, "total_timeout": "500ms"},
        "dlq": {"enabled": True},
    }
    broker = start_broker(queues=[entry])

    def opened() -> Any:
        return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)).channel()

    channel = opened()
    channel.confirm_delivery()
    channel.basic_publish("", "tasks", b"page", mandatory=True)
    broker.wait_out(0.6)
    for _ in range(2):  # it waited for longer than that, but has not failed for so long
        method, _ = get(channel, "tasks")
        channel.basic_reject(method.delivery_tag, requeue=True)
    get(channel, "tasks")
    broker.restart()
    broker.wait_out(0.6)
    channel = opened()
    method, _ = get(channel, "tasks")
    channel.basic_reject(method.delivery_tag, requeue=True)
    assert get(channel, "$dlq/tasks")[1] == b"page"
    channel.connection.close()


EXCHANGES = [
    {"name": "orders", "type": "headers", "arguments": {"alternate-exchange": "rest"}},
    {"name": "rest", "type": "fanout", "internal": True},
]
BINDINGS = [
    {"source": "orders", "destination": "express", "arguments": {"x-match": "all", "speed": "express", "floor": 2}},
    {"source": "rest", "destination": "others"},
    {"source": "amq.topic", "destination": "orders", "destination_type": "exchange", "routing_key": "orders.#"},
]


def test_exchanges_and_bindings_are_in_force(start_broker: Callable[..., BrokerProcess]) -> None:
    queues: list[dict[str, object]] = [{"name": "express"}, {"name": "others"}]
    broker = start_broker(exchanges=EXCHANGES, bindings=BINDINGS, queues=queues, http="127.0.0.1:0")
    for _ in range(2):
        channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)).channel()
        channel.confirm_delivery()
        fits = pika.BasicProperties(headers={"speed": "express", "floor": 2})
        channel.basic_publish("amq.topic", "orders.new", b"fast", fits, mandatory=True)
        channel.basic_publish("orders", "", b"slow", mandatory=True)
        for queue, body in (("express", b"fast"), ("others", b"slow")):
            method, found = get(channel, queue)
            assert found == body
            channel.basic_ack(method.delivery_tag)
        broker.restart()  # what is there is as the configuration wants it
    late = {"source": "amq.topic", "destination": "$dlq/late", "routing_key": "late"}
    queues.append({"name": "late", "dlq": {"enabled": True}})
    broker.options = {**broker.options, "bindings": [BINDINGS[0], late], "queues": queues}
    broker.write_options()
    answer = httpx.post(f"{broker.http_url}/api/forebay/reload", auth=("guest", "guest"), timeout=WAIT_S)
    assert answer.status_code == 200, answer.text
    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)).channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("amq.topic", "orders.new", b"fast", fits, mandatory=True)
    channel.basic_publish("orders", "", b"fast", fits, mandatory=True)
    channel.basic_publish("amq.topic", "late", b"x", mandatory=True)
    channel.connection.close()


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        (
            "queues:\n- name: s\n  type: stream\n  limits:\n    max_depth: 5\n",
            ":5: queues[0].limits.max_depth cannot be in force on a stream",
        ),
        (
            "queues:\n- name: s\n  type: stream\n  dlq: {enabled: true}\n",
            ":4: queues[0].dlq.enabled cannot be in force",
        ),
        ("mqtt: ''\nqueue_manager:\n  auto_commit_interval: 5s\n", ":2: queue_manager: a section of FluxMQ's"),
        ("exchanges:\n- name: x\n  type: topics\n", ":2: exchanges[0]: unknown exchange type 'topics'"),
        ("exchanges:\n- name: amq.x\n", ":2: exchanges[0].name: 'amq.x' begins with 'amq.'"),
        ("exchanges:\n- name: x\n  arguments: {alternate: y}\n", ":2: exchanges[0]: invalid arg 'alternate'"),
        ("exchanges:\n- name: x\n  arguments: {a: [1]}\n", ":3: exchanges[0].arguments.a: [1] is out of range"),
        ("bindings:\n- destination: q\n", ":2: bindings[0].source: missing"),
        (
            "bindings:\n- source: amq.direct\n  destination: q\n",
            ":2: bindings[0] 'amq.direct': destination: 'q' is no queue",
        ),
        ("bindings:\n- source: x\n  destination: q\n", ":2: bindings[0] 'x': source: 'x' is no exchange"),
    ],
)
def test_what_cannot_be_in_force_stops_the_start_with_its_line(tmp_path: Path, yaml: str, said: str) -> None:
    broker = BrokerProcess(tmp_path)
    broker.write_options = lambda: None  # type: ignore[method-assign]
    broker.config.write_text(yaml, encoding="utf-8")
    broker.launch()
    assert broker.wait() == 2
    assert f"{broker.config}{said}" in broker.log_text(), broker.log_text()
    assert "Traceback" not in broker.log_text()


def test_an_exchange_that_is_there_and_is_another_stops_the_start(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)).channel()
    channel.exchange_declare("orders", "fanout", durable=True)
    channel.connection.close()
    broker.stop()
    broker.options["exchanges"] = EXCHANGES
    broker.launch()
    assert broker.wait() == 2
    assert "exchanges[0]: inequivalent arg 'type' for exchange 'orders'" in broker.log_text()
