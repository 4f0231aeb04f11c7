"""`redelivered` after a kill -9: false is said only of what nobody can have had."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker_process import BrokerProcess

PERSISTENT = pika.BasicProperties(delivery_mode=2, headers={"own": 1})
KINDS = ("classic", "quorum")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path, http="127.0.0.1:0", drain_timeout_ms=300)
    broker.start()
    yield broker
    broker.stop()


def opened(broker: BrokerProcess) -> BlockingChannel:
    channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)).channel()
    channel.confirm_delivery()
    return channel


def publish(channel: BlockingChannel, queue: str, *bodies: str) -> None:
    for body in bodies:
        channel.basic_publish("", queue, body, PERSISTENT)


def stop_in_order(broker: BrokerProcess) -> None:
    os.kill(broker.pid, signal.SIGTERM)
    assert broker.wait() == 0, broker.log_text()


def flags(channel: BlockingChannel, queue: str) -> list[tuple[str, bool]]:
    """The messages of the queue, which stay there, and what is said of each."""
    found: list[tuple[str, bool]] = []
    while True:
        method, properties, body = channel.basic_get(queue)
        if method is None:
            return found
        assert properties.headers["own"] == 1
        found.append((body.decode(), method.redelivered))


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_there_at_a_crash_may_have_been_delivered(broker: BrokerProcess, kind: str) -> None:
    channel = opened(broker)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    publish(channel, "q", "held", "waiting")
    assert channel.basic_get("q")[2] == b"held"
    broker.kill9()
    broker.start()
    channel = opened(broker)
    publish(channel, "q", "new", "newer")
    assert flags(channel, "q") == [("held", True), ("waiting", True), ("new", False), ("newer", False)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_consumer_is_told_so_without_counts(broker: BrokerProcess, kind: str) -> None:
    channel = opened(broker)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    publish(channel, "q", *(str(number) for number in range(20)))
    broker.kill9()
    broker.start()
    channel = opened(broker)
    publish(channel, "q", "new")
    found = []
    consumed = channel.consume("q", inactivity_timeout=10)
    for method, properties, body in consumed:
        found.append((body.decode(), method.redelivered, properties.headers))
        if len(found) == 21:
            break
    assert found == [*((str(number), True, {"own": 1}) for number in range(20)), ("new", False, {"own": 1})]
    channel.basic_nack(0, multiple=True)
    method, properties, body = next(consumed)
    assert (body, method.redelivered) == (b"0", True)
    assert properties.headers.get("x-acquired-count") == (1 if kind == "quorum" else None)


def test_a_consumer_with_delivery_headers_is_told_so(broker: BrokerProcess) -> None:
    channel = opened(broker)
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "old")
    broker.kill9()
    broker.start()
    channel = opened(broker)
    publish(channel, "q", "new")
    consumed = channel.consume("q", arguments={"x-delivery-headers": "forebay"}, inactivity_timeout=10)
    found = [next(consumed) for _ in range(2)]
    assert [(body, method.redelivered) for method, _, body in found] == [(b"old", True), (b"new", False)]


def test_the_http_api_says_so(broker: BrokerProcess) -> None:
    channel = opened(broker)
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "old")
    broker.kill9()
    broker.start()
    publish(opened(broker), "q", "new")
    wanted = {"count": 2, "ackmode": "ack_requeue_false", "encoding": "auto"}
    request = Request(f"{broker.http_url}/api/queues/%2F/q/get", json.dumps(wanted).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    with urlopen(request) as answer:
        assert [each["redelivered"] for each in json.load(answer)] == [True, False]


def test_a_stop_in_order_is_no_crash(broker: BrokerProcess) -> None:
    channel = opened(broker)
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "held", "waiting")
    assert channel.basic_get("q")[2] == b"held"
    stop_in_order(broker)
    broker.start()
    assert flags(opened(broker), "q") == [("held", True), ("waiting", False)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_stop_that_waits_for_nobody_notes_what_was_held(broker: BrokerProcess, kind: str) -> None:
    channel = opened(broker)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind})
    publish(channel, "q", "held", "waiting")
    assert channel.basic_get("q")[2] == b"held"
    os.kill(broker.pid, signal.SIGTERM)
    os.kill(broker.pid, signal.SIGINT)  # the second one: no client is waited for
    assert broker.wait() in (128 + signal.SIGTERM, 128 + signal.SIGINT), broker.log_text()
    broker.start()
    assert flags(opened(broker), "q") == [("held", True), ("waiting", False)]


def test_a_start_after_a_stop_in_order_may_crash_at_once(broker: BrokerProcess) -> None:
    channel = opened(broker)
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "first", "second")
    stop_in_order(broker)
    broker.start()
    assert opened(broker).basic_get("q")[2] == b"first"  # of which nothing is written down
    broker.kill9()
    broker.start()
    assert flags(opened(broker), "q") == [("first", True), ("second", True)]


def test_what_a_crash_made_doubtful_stays_so(broker: BrokerProcess) -> None:
    channel = opened(broker)
    channel.queue_declare("q", durable=True)
    publish(channel, "q", "before the crash")
    broker.kill9()
    broker.start()
    publish(opened(broker), "q", "after it")
    for _ in range(2):
        stop_in_order(broker)
        broker.start()
    assert flags(opened(broker), "q") == [("before the crash", True), ("after it", False)]


def test_a_queue_without_consumers_yet_is_told_of_too(broker: BrokerProcess) -> None:
    channel = opened(broker)
    channel.exchange_declare("e", "fanout", durable=True)
    channel.queue_declare("q", durable=True)
    channel.queue_bind("q", "e")
    channel.basic_publish("e", "", b"old", PERSISTENT)
    assert channel.basic_get("q")[2] == b"old"  # the queue's group is new, and may be on no disk yet
    broker.kill9()
    broker.start()
    assert flags(opened(broker), "q") == [("old", True)]
