"""Leases as clients meet them: told over every protocol, made longer over HTTP; and messages sent at most once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import httpx
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.admin.test_bridge import Subscriber
from tests.behaviour.kinds import next_message, open_channel
from tests.broker_process import BrokerProcess
from tests.interop.amqp10.proton_client import QUEUE, WAIT_S, connected
from tests.interop.mqtt_client import client, told

KINDS = pytest.mark.parametrize("kind", ["classic", "quorum"])
LEASE_MS: Final = 3_600_000


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker(http="127.0.0.1:0")


def declared(broker: BrokerProcess, kind: str, count: int = 1, **arguments: object) -> BlockingChannel:
    channel = open_channel(broker)
    named: dict[str, object] = {name.replace("_", "-"): value for name, value in arguments.items()}
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": kind, **named})
    for number in range(count):
        channel.basic_publish("", "q", b"%d" % number)
    return channel


@KINDS
def test_deliveries_say_their_lease_over_every_protocol(broker: BrokerProcess, kind: str) -> None:
    channel = declared(broker, kind, x_lease_period=LEASE_MS)
    method, properties, _ = channel.basic_get("q")
    assert properties.headers["x-lease-count"] == 1
    until_ms = properties.headers["x-lease-until"]
    channel.basic_reject(method.delivery_tag, requeue=True)
    _, properties, _ = next_message(channel)
    assert properties.headers["x-lease-count"] == 2
    assert properties.headers["x-lease-until"] >= until_ms
    channel.connection.close()
    with connected(broker) as connection:
        receiver = connection.create_receiver("/queues/q", options=[QUEUE], credit=1)
        annotations = receiver.receive(timeout=WAIT_S).annotations
        assert annotations["x-opt-lease-count"] == 3
        assert annotations["x-opt-lease-until"] >= until_ms
        receiver.release(delivered=False)
    with client(broker, "reader") as reader:
        reader.subscribe("$queue/q/#")
        said = told(reader.next())
        assert said["lease-count"] == "4"
        assert int(said["lease-until"]) >= until_ms
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S) as http:
        subscriber = Subscriber(http, "/subscribe/$queue/q", params={"prefetch": 1})
        event = subscriber.take(1)[0]
        assert event["data"]["deliveries"] == 5  # type: ignore[index]
        before_ms = event["data"]["lease_until_ms"]  # type: ignore[index]
        asked = {"queue": "q", "offsets": [0], "action": "extend", "extend_ms": 2 * LEASE_MS}
        assert http.post("/ack", json=asked).json() == {"settled": 1}
        later = http.post("/api/forebay/leases/%2F/q/0/extend", json={}).json()
        assert later["until_ms"] >= before_ms + LEASE_MS // 2, "never earlier than before"
        subscriber.stop()


def test_queues_that_do_not_ask_say_nothing(broker: BrokerProcess) -> None:
    channel = declared(broker, "classic", x_visibility_timeout=LEASE_MS)
    assert next_message(channel)[1].headers is None


@KINDS
def test_at_most_once_over_a_restart(broker: BrokerProcess, kind: str) -> None:
    channel = declared(broker, kind, 3, x_semantics="at-most-once")
    channel.basic_qos(prefetch_count=2)
    tags = [method.delivery_tag for method, _, _ in (next(found) for found in [channel.consume("q")] * 2)]
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    channel.basic_qos(prefetch_count=1)
    _, _, body = next(channel.consume("q", inactivity_timeout=10))
    assert (len(tags), body) == (2, b"2"), "who did not acknowledge gets no more, and what was sent is settled"
    channel.connection.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-semantics", "exactly-once"),
        ("x-lease-period", 0),
        ("x-max-backlog", -1),
        ("x-max-subscription-backlog", "many"),
    ],
)
def test_wrong_values_are_refused_by_name(broker: BrokerProcess, name: str, value: object) -> None:
    channel = open_channel(broker)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=name):
        channel.queue_declare("q", durable=True, arguments={name: value})


def test_streams_and_contradictions_are_refused_by_name(broker: BrokerProcess) -> None:
    for arguments in (
        {"x-queue-type": "stream", "x-semantics": "at-most-once"},
        {"x-lease-period": 5, "x-visibility-timeout": 6},
    ):
        channel = open_channel(broker)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"x-semantics|x-lease-period"):
            channel.queue_declare("q", durable=True, arguments=arguments)


# ---- settling by choice


@KINDS
def test_messages_are_settled_by_choice(broker: BrokerProcess, kind: str) -> None:
    channel = declared(broker, kind, 6, x_leasing="sublet")
    method = channel.basic_get("q")[0]
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S) as http:
        path = "/api/forebay/queues/%2F/q/settle"
        cancelled = {"action": "cancel"}
        assert http.post(path, json=cancelled).json()["done"] == 1
        again, _, body = channel.basic_get("q")
        assert (again.redelivered, body) == (True, b"0")
        found = http.post(path, json={"offsets": [0, [2, 4], [6, 8]]}).json()
        assert (found["done"], found["kept"]) == (3, 2)
        channel.basic_ack(again.delivery_tag)  # too late, and without effect
        channel.basic_ack(method.delivery_tag)
        assert http.post(path, json={"where": "offset = 4"}).json()["done"] == 1
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    for number in range(6, 9):
        channel.basic_publish("", "q", b"%d" % number)
    found_bodies = [channel.basic_get("q", auto_ack=True)[2] for _ in range(3)]
    assert found_bodies == [b"1", b"5", b"8"]
    assert channel.basic_get("q") == (None, None, None)


def test_acknowledgements_of_what_nobody_holds_over_mqtt(broker: BrokerProcess) -> None:
    channel = declared(broker, "classic", 3, x_leasing="sublet", x_max_subscription_backlog=1)
    with client(broker, "reader") as reader:
        reader.subscribe("$queue/q/#")
        assert told(reader.next())["offset"] == "0"
        for offset in (1, 3):
            assert not reader.publish("$queue/q/$ack", message_id=f"q:{offset}").is_failure
        assert reader.publish("$queue/q/$ack", message_id="q:1").is_failure, "it is settled"
        channel.basic_publish("", "q", b"3")
        channel.basic_publish("", "q", b"4")
        for held, after in (("0", "2"), ("2", "4")):
            assert not reader.publish("$queue/q/$ack", message_id=f"q:{held}").is_failure
            assert told(reader.next())["offset"] == after
