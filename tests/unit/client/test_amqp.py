"""The client of AMQP against a broker: confirms in any order, long bodies, and ends of all kinds."""

from __future__ import annotations

import os

import pytest

from forebay.client.amqp import AmqpClient
from forebay.client.control import ControlClient
from forebay.core.errors import INVALID, NOT_FOUND, REFUSED, OutcomeUnknown, RequestError, Unreachable
from forebay.core.message import Properties
from forebay.wire.amqp091.properties import decode_properties, encode_properties
from tests.broker_process import BrokerProcess

PLAIN = encode_properties(Properties())
WAIT_S = 60


def connect(broker: BrokerProcess) -> AmqpClient:
    return AmqpClient.connect(f"127.0.0.1:1,127.0.0.1:{broker.amqp_port}", "guest", "guest")


def control(broker: BrokerProcess) -> ControlClient:
    return ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def test_what_is_refused_is_told_apart_from_what_is_confirmed(broker: BrokerProcess) -> None:
    limits = {"x-max-length": 10, "x-overflow": "reject-publish"}
    with control(broker) as administrator, connect(broker) as client:
        administrator.run("queue.declare", queue="full", arguments=limits)
        administrator.run("queue.declare", queue="long")
        client.select_confirms()
        for _ in range(2000):
            client.publish("", "full", PLAIN, b"x")
            client.publish("", "long", PLAIN, b"x")
            client.publish("", "nowhere", PLAIN, b"x")
            if client.unconfirmed > 500:
                client.settle(100)
        client.settle(0)
        assert (client.published, client.confirmed, client.refused) == (6000, 4010, 1990)
        assert (client.returned, client.return_text) == (2000, "NO_ROUTE")


def test_long_bodies_and_properties_come_back_as_they_went(broker: BrokerProcess) -> None:
    properties = Properties()
    properties.headers = [("text", "é"), ("number", 1 << 40), ("table", {"a": [1, None, True]})]
    bodies = [b"", os.urandom(1), os.urandom(131_064), os.urandom(131_065), os.urandom(3_000_000)]
    with connect(broker) as client:
        client.declare_queue("q")
        client.select_confirms()
        for body in bodies:
            client.publish("", "q", encode_properties(properties), body)
        client.settle(0)
        client.consume("q", 2, False, {})
        for body in bodies:
            found = client.next(WAIT_S)
            assert found is not None
            assert found.body == body
            assert decode_properties(found.properties, 16).headers == properties.headers
            client.ack(found.tag)
        client.cancel()
        client.delete_queue("q")


def test_what_is_not_settled_is_given_to_the_next(broker: BrokerProcess) -> None:
    with connect(broker) as client:
        client.declare_queue("q")
        client.select_confirms()
        for body in (b"1", b"2", b"3"):
            client.publish("", "q", PLAIN, body)
        client.settle(0)
        client.consume("q", 10, False, {})
        tags = [found.tag for _ in range(3) if (found := client.next(WAIT_S)) is not None]
        client.ack(tags[0])
        client.requeue(tags[1])
    with connect(broker) as client:
        client.consume("q", 10, True, {})
        rest = [client.next(WAIT_S), client.next(WAIT_S)]
        assert [(each.body, each.redelivered) for each in rest if each is not None] == [(b"2", True), (b"3", True)]
        assert client.next(0.1) is None


def test_what_cannot_be_is_said_by_its_reason(broker: BrokerProcess) -> None:
    with connect(broker) as client, pytest.raises(RequestError, match="no queue 'none'") as missing:
        client.consume("none", 1, False, {})
    assert missing.value.reason == NOT_FOUND
    with connect(broker) as client:
        client.select_confirms()
        client.publish("none", "", PLAIN, b"")
        with pytest.raises(RequestError, match="no exchange 'none'"):
            client.settle(0)
    with connect(broker) as client, pytest.raises(RequestError, match="longer than 255 octets") as long:
        client.publish("", "k" * 300, PLAIN, b"")
    assert long.value.reason == INVALID
    with pytest.raises(RequestError, match="refused") as login:
        AmqpClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "wrong")
    assert login.value.reason == REFUSED
    with pytest.raises(RequestError, match="nowhere"):
        AmqpClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest", "nowhere")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: .*; 127\.0\.0\.1:2: "):
        AmqpClient.connect("127.0.0.1:1,127.0.0.1:2", "guest", "guest")


def test_a_broker_that_dies_leaves_the_outcome_unknown(broker: BrokerProcess) -> None:
    client = connect(broker)
    client.declare_queue("q")
    client.select_confirms()
    client.consume("q", 1, False, {})
    broker.kill9()
    with pytest.raises(OutcomeUnknown):
        client.next(WAIT_S)
    with pytest.raises(OutcomeUnknown):
        client.publish("", "q", PLAIN, b"")
    client.close()
    broker.start()
