"""Messages on which consumers fail: what the delivery limit counts, alike over AMQP, MQTT and HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.admin.test_bridge import Subscriber
from tests.behaviour.kinds import next_message, open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import Client, client, told
from tests.waiting import until

WAIT_S_MAX: Final = 60
LIMIT: Final = 1
TO_DEAD: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])
Broker = BrokerProcess


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker(http="127.0.0.1:0")


def declared(broker: Broker, kind: str, **arguments: object) -> BlockingChannel:
    """A channel, with a message in the queue `q`, of which one failure may come and no more."""
    channel = open_channel(broker)
    channel.queue_declare("dead", durable=True)
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    limit: dict[str, object] = {"x-queue-type": kind, "x-delivery-limit": LIMIT}
    channel.queue_declare("q", durable=True, arguments={**limit, **TO_DEAD, **named})
    channel.basic_publish("", "q", b"poison")
    return channel


def dead(channel: BlockingChannel) -> tuple[str, int]:
    """Why the message died, and how often it had been delivered, once it is dead."""
    found: list[pika.BasicProperties] = []

    def is_there() -> bool:
        method, properties, _ = channel.basic_get("dead", auto_ack=True)
        if method is not None:
            found.append(properties)
        return method is not None

    until(is_there, "the dead letter")
    return found[0].headers["x-death"][0]["reason"], found[0].headers["dlq-deliveries"]


# ---- how a message comes back: each once


def amqp_nack(broker: Broker) -> None:
    channel = open_channel(broker)
    channel.basic_nack(next_message(channel)[0])
    channel.connection.close()


def amqp_recover(broker: Broker) -> None:
    channel = open_channel(broker)
    next_message(channel)
    channel.basic_recover(requeue=True)
    channel.connection.close()


def amqp_reject(broker: Broker) -> None:
    channel = open_channel(broker)
    channel.basic_reject(next_message(channel)[0], requeue=True)
    channel.connection.close()


def amqp_lost(broker: Broker) -> None:
    channel = open_channel(broker)
    next_message(channel)
    channel.connection.close()


@contextmanager
def mqtt_worker(broker: Broker) -> Iterator[Client]:
    with client(broker, "worker") as worker:
        worker.subscribe("$queue/q/#")
        yield worker


def mqtt_nack(broker: Broker) -> None:
    with mqtt_worker(broker) as worker:
        said = told(worker.next())
        code = worker.publish("$queue/q/$nack", message_id=said["message-id"], delay_ms="300")
        assert not code.is_failure


def mqtt_lost(broker: Broker) -> None:
    with mqtt_worker(broker) as worker:
        worker.next()
        worker.cut()


@contextmanager
def http_worker(broker: Broker) -> Iterator[tuple[httpx.Client, Subscriber]]:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as http:
        subscriber = Subscriber(http, "/subscribe/$queue/q", params={"prefetch": 1})
        yield http, subscriber
        subscriber.stop()


def http_nack(broker: Broker) -> None:
    with http_worker(broker) as (_, subscriber):
        offset = int(str(subscriber.take(1)[0]["id"]))
        nack = {"queue": "q", "offsets": [offset], "action": "nack", "delay_ms": 300}
        answer = httpx.post(f"{broker.http_url}/ack", json=nack, auth=("guest", "guest"), timeout=WAIT_S_MAX)
        assert answer.json() == {"settled": 1}


def http_lost(broker: Broker) -> None:
    with http_worker(broker) as (_, subscriber):
        subscriber.take(1)


NACKS: Final = {"amqp": amqp_nack, "recover": amqp_recover, "mqtt": mqtt_nack, "http": http_nack}
FAILURES: Final = {"reject": amqp_reject, "amqp": amqp_lost, "mqtt": mqtt_lost, "http": http_lost}


@KINDS
@pytest.mark.parametrize("way", FAILURES)
def test_lost_consumers_and_requeued_rejections_count_on_every_queue(broker: Broker, kind: str, way: str) -> None:
    channel = declared(broker, kind)
    for _ in range(LIMIT + 1):
        FAILURES[way](broker)
    assert dead(channel) == ("delivery_limit", LIMIT + 1)


@KINDS
@pytest.mark.parametrize("protocol", ["amqp", "mqtt", "http"])
def test_time_outs_count_on_every_queue(broker: Broker, kind: str, protocol: str) -> None:
    channel = declared(broker, kind, x_visibility_timeout=100)
    if protocol == "amqp":
        reader = open_channel(broker)
        reader.basic_consume("q", lambda *_: None)
        assert dead(channel) == ("delivery_limit", LIMIT + 1)
        reader.connection.close()
    elif protocol == "mqtt":
        with mqtt_worker(broker):
            assert dead(channel) == ("delivery_limit", LIMIT + 1)
    else:
        with http_worker(broker):
            assert dead(channel) == ("delivery_limit", LIMIT + 1)


@KINDS
def test_a_consumer_that_is_cancelled_for_taking_too_long_has_failed(broker: Broker, kind: str) -> None:
    channel = declared(broker, kind, x_consumer_timeout=100)
    for _ in range(LIMIT + 1):
        reader = open_channel(broker)
        cancelled: list[object] = []
        reader.add_on_cancel_callback(cancelled.append)
        reader.basic_consume("q", lambda *_: None)
        until(lambda: cancelled, "the cancel", meanwhile=lambda: reader.connection.process_data_events(0.01))  # noqa: B023
        reader.connection.close()
    assert dead(channel) == ("delivery_limit", LIMIT + 1)


@pytest.mark.parametrize("protocol", NACKS)
def test_a_nack_counts(broker: Broker, protocol: str) -> None:
    channel = declared(broker, "classic")
    for _ in range(LIMIT + 1):
        NACKS[protocol](broker)
    assert dead(channel) == ("delivery_limit", LIMIT + 1)


@pytest.mark.parametrize("protocol", NACKS)
def test_a_nack_does_not_count_on_a_quorum_queue(broker: Broker, protocol: str) -> None:
    channel = declared(broker, "quorum")
    for _ in range(LIMIT + 2):
        NACKS[protocol](broker)
    tag, properties, _ = next_message(channel)
    assert properties.headers == {"x-acquired-count": LIMIT + 2, "x-delivery-count": 0}
    channel.basic_ack(tag)


@pytest.mark.parametrize("protocol", NACKS)
def test_a_queue_may_say_otherwise(broker: Broker, protocol: str) -> None:
    channel = declared(broker, "quorum", x_nack_counts=True)
    for _ in range(LIMIT + 1):
        NACKS[protocol](broker)
    assert dead(channel) == ("delivery_limit", LIMIT + 1)
    channel.queue_delete("q")
    channel = declared(broker, "classic", x_nack_counts=False)
    for _ in range(LIMIT + 2):
        NACKS[protocol](broker)
    channel.basic_ack(next_message(channel)[0])


def test_what_an_administrator_takes_back_or_looks_at_has_not_failed(broker: Broker) -> None:
    channel = declared(broker, "classic")
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as http:
        for _ in range(LIMIT + 1):
            next_message(channel)
            http.request("DELETE", "/api/forebay/leases/%2F/q/0").raise_for_status()
            wanted = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
            assert len(http.post("/api/queues/%2F/q/get", json=wanted).json()) == 1
    assert next_message(channel)[1].headers["x-delivery-count"] == 0


def test_retries_of_the_configuration_end_whatever_the_way_and_the_multiplier(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    retry = {"max_retries": 2, "initial_backoff": "10ms", "max_backoff": "1s", "multiplier": 1.5}
    queues = [
        {"name": name, "type": kind, "visibility_timeout_ms": 100, "retry": retry, "dlq": {"enabled": True}}
        for name, kind in (("q", "classic"), ("r", "quorum"))
    ]
    channel = open_channel(start_broker(queues=queues))
    for name in ("q", "r"):
        channel.basic_publish("", name, b"poison")
        attempts: list[int] = []

        def try_it(
            inner: BlockingChannel, method: object, properties: object, body: bytes, attempts: list[int] = attempts
        ) -> None:
            attempts.append(1)
            if len(attempts) != 2:  # the second is left until its time is over
                inner.basic_nack(method.delivery_tag)  # type: ignore[attr-defined]

        channel.basic_consume(name, try_it)
        found: list[bytes] = []
        channel.basic_consume(f"$dlq/{name}", lambda *given, found=found: found.append(given[3]), auto_ack=True)
        until(lambda: found, "the dead letter", meanwhile=lambda: channel.connection.process_data_events(0.01))  # noqa: B023
        assert len(attempts) == 3
