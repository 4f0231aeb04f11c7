"""The client of AMQP 1.0 against a broker: outcomes, credit, long bodies, and ends of all kinds."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from threading import Thread

import pytest

from forebay.client.amqp10 import Amqp10Client, source_address, target_address
from forebay.client.control import ControlClient
from forebay.core.errors import INVALID, NOT_FOUND, REFUSED, OutcomeUnknown, RequestError, Unreachable
from forebay.core.message import Properties
from forebay.wire.amqp10.neutral import encode_neutral
from tests.broker_process import BrokerProcess

PLAIN = encode_neutral(Properties())
WAIT_S = 60
AMQP_091 = b"AMQP\x00\x00\x09\x01"


def connect(broker: BrokerProcess, vhost: str = "/") -> Amqp10Client:
    return Amqp10Client.connect(f"127.0.0.1:1,127.0.0.1:{broker.amqp_port}", "guest", "guest", vhost)


def control(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def declare(broker: BrokerProcess, queue: str, **arguments: object) -> None:
    with control(broker) as administrator:
        administrator.run("queue.declare", queue=queue, arguments=arguments)


def bodies(client: Amqp10Client, count: int) -> list[bytes]:
    found = [client.next(WAIT_S) for _ in range(count)]
    return [each.body for each in found if each is not None]


@pytest.mark.parametrize(
    ("exchange", "key", "address"),
    [
        ("", "orders", "/queues/orders"),
        ("", "a/b c%é", "/queues/a%2Fb%20c%25%C3%A9"),
        ("", "$queue/orders/new", "$queue/orders/new"),
        ("logs", "", "/exchanges/logs"),
        ("logs", "eu.*", "/exchanges/logs/eu.%2A"),
    ],
)
def test_addresses(exchange: str, key: str, address: str) -> None:
    assert target_address(exchange, key) == address
    if not exchange:
        assert source_address(key) == address


def test_each_outcome_is_counted(broker: BrokerProcess) -> None:
    declare(broker, "full", **{"x-max-length": 10, "x-overflow": "reject-publish"})
    declare(broker, "long")
    with connect(broker) as client:
        for _ in range(2000):
            client.publish("", "full", PLAIN, b"x")
            client.publish("", "long", PLAIN, b"x")
            client.publish("amq.topic", "nobody.listens", PLAIN, b"x")
        client.settle(0)
        assert (client.published, client.confirmed, client.refused) == (6000, 4010, 1990)
        assert (client.returned, client.return_text) == (2000, "released")
        assert "queue 'full'" in client.refusal


def test_long_bodies_and_properties_come_back_as_they_went(broker: BrokerProcess) -> None:
    declare(broker, "q")
    properties = Properties()
    properties.headers = [("text", "é"), ("number", 1 << 40), ("yes", True), ("nothing", None)]
    properties.message_id = "m"
    sent = [b"", os.urandom(1), os.urandom(131_000), os.urandom(131_072), os.urandom(3_000_000)]
    with connect(broker) as client:
        for body in sent:
            client.publish("", "q", client.encode(properties), body)
        client.settle(0)
        client.consume("q", 2, False, {})
        for number, body in enumerate(sent, 1):
            found = client.next(WAIT_S)
            assert found is not None
            assert (found.tag, found.redelivered, found.exchange, found.routing_key) == (number, False, "", "q")
            assert found.body == body
            decoded = client.decode(found)
            assert decoded.headers == properties.headers
            assert (decoded.message_id, decoded.durable) == ("m", True)
            client.ack(found.tag)
        client.cancel()
    with connect(broker) as client:
        client.consume("q", 10, False, {})
        assert client.next(0.1) is None


def test_credit_is_the_prefetch(broker: BrokerProcess) -> None:
    """No more messages come than may be there without being settled; each settlement brings another one."""
    declare(broker, "q")
    with connect(broker) as client:
        for number in range(3000):
            client.publish("", "q", PLAIN, b"%d" % number)
        client.settle(0)
        client.consume("q", 5, False, {})
        assert bodies(client, 5) == [b"%d" % number for number in range(5)]
        assert client.next(0.2) is None
        client.ack(3)
        assert bodies(client, 3) == [b"5", b"6", b"7"]
        assert client.next(0.2) is None
        client.cancel()
        client.ack(8)
        assert client.next(0.2) is None
    with connect(broker) as client:
        client.consume("q", 100, True, {})
        assert bodies(client, 2992) == [b"%d" % number for number in range(8, 3000)]


def test_what_is_not_settled_is_given_to_the_next(broker: BrokerProcess) -> None:
    declare(broker, "q")
    with connect(broker) as client:
        for body in (b"1", b"2", b"3", b"4"):
            client.publish("", "q", PLAIN, body)
        client.settle(0)
        client.consume("q", 3, False, {})
        assert bodies(client, 3) == [b"1", b"2", b"3"]
        client.ack(1)
        client.cancel()
        client.requeue(2)
    with connect(broker) as client:
        client.consume("q", 10, False, {})
        rest = [client.next(WAIT_S) for _ in range(3)]
        assert [(each.body, each.redelivered) for each in rest if each is not None] == [
            (b"2", True),
            (b"3", True),
            (b"4", False),
        ]


def test_topics_and_arguments_of_consumers(broker: BrokerProcess) -> None:
    with connect(broker) as client, connect(broker) as publisher:
        client.consume(client.topic_source("kitchen/+/now"), 10, False, {"x-filter": "/n > 1"})
        for number in (1, 2):
            publisher.publish("amq.topic", "kitchen.oven.now", PLAIN, b'{"n": %d}' % number)
        publisher.settle(0)
        found = client.next(WAIT_S)
        assert found is not None
        assert (found.body, found.routing_key) == (b'{"n": 2}', "kitchen.oven.now")


def test_what_cannot_be_is_said_by_its_reason(broker: BrokerProcess) -> None:
    with connect(broker) as client, pytest.raises(RequestError, match="no queue 'none'") as missing:
        client.consume("none", 1, False, {})
    assert missing.value.reason == NOT_FOUND
    with connect(broker) as client, pytest.raises(RequestError, match="no exchange 'none'"):
        client.publish("none", "", PLAIN, b"")
    with connect(broker) as client, pytest.raises(RequestError, match="address '/queues/kkk") as long:
        client.publish("", "k" * 300, PLAIN, b"")
    assert long.value.reason == INVALID
    with pytest.raises(RequestError, match="refused") as login:
        Amqp10Client.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "wrong")
    assert login.value.reason == REFUSED
    with pytest.raises(RequestError, match="nowhere"):
        connect(broker, "nowhere")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: .*; 127\.0\.0\.1:2: "):
        Amqp10Client.connect("127.0.0.1:1,127.0.0.1:2", "guest", "guest")


def test_a_broker_that_dies_leaves_the_outcome_unknown(broker: BrokerProcess) -> None:
    declare(broker, "q")
    client, publisher = connect(broker), connect(broker)
    client.consume("q", 1, False, {})
    publisher.publish("", "q", PLAIN, b"1")
    publisher.settle(0)
    broker.kill9()
    with pytest.raises(OutcomeUnknown):
        bodies(client, 2)
    publisher.publish("", "q", PLAIN, b"2")
    with pytest.raises(OutcomeUnknown):
        publisher.settle(0)
    assert publisher.unconfirmed == 1
    client.close()
    publisher.close()
    broker.start()


def test_a_broker_that_stops_is_no_fault_of_the_caller(broker: BrokerProcess) -> None:
    declare(broker, "q")
    client = connect(broker)
    client.consume("q", 1, False, {})
    broker.stop()
    with pytest.raises(OutcomeUnknown, match="the broker stops"):
        client.next(WAIT_S)
    client.close()


def test_a_deleted_queue_ends_the_consumer(broker: BrokerProcess) -> None:
    declare(broker, "q")
    with connect(broker) as client:
        client.consume("q", 1, False, {})
        with control(broker) as administrator:
            administrator.run("queue.delete", queue="q")
        with pytest.raises(RequestError) as gone:
            client.next(WAIT_S)
        assert gone.value.reason == NOT_FOUND


def test_a_client_that_has_nothing_to_send_is_not_silent(start_broker: Callable[..., BrokerProcess]) -> None:
    """The broker asks for a frame so often, and ends connections that are silent for twice as long."""
    with connect(start_broker(amqp_heartbeat_s=2)) as client:
        assert client.silence_s_max == 0.5
        client.consume(client.topic_source("a"), 1, False, {})
        for _ in range(25):
            assert client.next(0.2) is None


@pytest.mark.parametrize("answer", [AMQP_091, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x30\x00", b""])
def test_what_is_no_broker_of_amqp_10(answer: bytes) -> None:
    def serve(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client:
            client.recv(100)
            client.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Thread(target=serve, args=(listener,))
        server.start()
        with pytest.raises(Unreachable):
            Amqp10Client.connect(f"127.0.0.1:{listener.getsockname()[1]}", "guest", "guest")
        server.join()
