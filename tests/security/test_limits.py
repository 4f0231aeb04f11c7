"""How much and how fast: connections and channels of a user, and who comes, publishes or subscribes too quickly."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import closing

import httpx
import pika
import pika.exceptions
import pytest

from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import Client
from tests.waiting import until

GUEST = ("guest", "guest")
WAIT_S = 60


def connect(broker: BrokerProcess, user: str = "guest", password: str = "guest") -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, credentials=credentials))


def test_a_user_has_so_many_connections_and_channels(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0", users={"guest": "guest", "app": "app"})
    with httpx.Client(base_url=broker.http_url, auth=GUEST) as http:
        for name, most in (("max-connections", 2), ("max-channels", 3)):
            assert http.put(f"/api/user-limits/app/{name}", json={"value": most}).status_code == 204
        answer = http.get("/api/user-limits/app").json()
        assert answer == [{"user": "app", "value": {"max-connections": 2, "max-channels": 3}}]
        broker.restart()
        one = connect(broker, "app", "app")
        with closing(connect(broker, "app", "app")) as two:
            with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="connection limit \\(2\\) is reached"):
                connect(broker, "app", "app")
            client = Client(broker, "c", password="app")
            client.client.username_pw_set("app", "app")
            assert client.connect()[0].getName() == "Quota exceeded"
            connect(broker).close()  # another user
            first, _, _ = one.channel(), one.channel(), two.channel()
            first.close()
            two.channel()
            with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
                one.channel()
            assert "maximum allowed user limit of (3)" in caught.value.reply_text
            assert http.delete("/api/user-limits/app/max-connections").status_code == 204
            connect(broker, "app", "app").close()
            connect(broker, "app", "app").close()
            two.channel()


def ignore(*_: object) -> None:
    """A message that nobody waits for."""


def consume_on(channel: pika.adapters.blocking_connection.BlockingChannel) -> None:
    """More consumers than may come in the time that this takes."""
    for _ in range(20):
        channel.basic_consume("q", ignore)


def test_who_connects_too_often_is_cut_off(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(address_connections_per_min=1, address_connections_burst=3)
    for _ in range(3):
        connect(broker).close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(broker)


@pytest.mark.parametrize(
    "limits",
    [
        {"client_messages_per_s": 50, "client_messages_burst": 10},
        {"user_messages_per_s": 50},
        {"client_octets_per_s": 6000},
        {"user_octets_per_s": 6000},
    ],
)
def test_who_publishes_too_fast_is_slowed_down_and_loses_nothing(
    start_broker: Callable[..., BrokerProcess], limits: dict[str, object]
) -> None:
    broker = start_broker(**limits)
    client = Client(broker, "c")
    client.connect()
    begun = time.monotonic()
    for number in range(200):
        client.client.publish("a", b"%100d" % number, 1)
    answers = [client.acked.get(timeout=WAIT_S) for _ in range(200)]
    assert not any(answer.is_failure for answer in answers)
    assert time.monotonic() - begun > 2, "200 messages of 100 octets, at 50 messages or 6000 octets a second"
    client.end()


@pytest.mark.parametrize("limits", [{"user_messages_per_s": 50}, {"user_octets_per_s": 6000}])
def test_who_publishes_too_fast_over_http_gets_its_answer_later(
    start_broker: Callable[..., BrokerProcess], limits: dict[str, object]
) -> None:
    broker = start_broker(http="127.0.0.1:0", **limits)
    batch = [{"topic": "a", "payload": f"{number:100}"} for number in range(200)]
    begun = time.monotonic()
    answer = httpx.post(f"{broker.http_url}/publish", json=batch, auth=("guest", "guest"), timeout=WAIT_S)
    assert answer.status_code == 200
    assert time.monotonic() - begun > 2, "200 messages of more than 100 octets, at 50 messages or 6000 octets a second"


def test_who_subscribes_too_fast_is_refused(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(client_subscribes_per_s=1, client_subscribes_burst=5)
    client = Client(broker, "c")
    client.connect()
    names = [client.subscribe(f"a/{number}").getName() for number in range(20)]
    assert names[:5] == ["Granted QoS 1"] * 5
    assert "Quota exceeded" in names
    client.end()
    with closing(connect(broker)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        for _ in range(5):
            channel.basic_consume("q", ignore)
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="client_subscribes_per_s"):
            consume_on(channel)


def test_without_limits_nobody_is_slowed_down(broker: BrokerProcess) -> None:
    for _ in range(60):
        with socket.create_connection(("127.0.0.1", broker.amqp_port), timeout=WAIT_S) as plain:
            plain.sendall(b"AMQP\x00\x00\x09\x01")
            assert plain.recv(1) == b"\x01"


def test_a_full_vhost_is_told_to_listeners(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(vhosts=[{"name": "small", "connections_max": 1}], log_events=["limit.*"])
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "small")
    with closing(pika.BlockingConnection(parameters)):
        with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match="connection limit \\(1\\) is reached"):
            pika.BlockingConnection(parameters)
        until(lambda: "limit.reached" in broker.log_text())
