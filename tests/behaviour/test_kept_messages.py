"""Acknowledged messages come, also to subscribers that are slower than publishers; and what is lost is told."""

from __future__ import annotations

import json
from collections.abc import Callable

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.conformance.mqtt.raw import V311, connected, publish
from tests.flow import Reader, sent_until_acknowledged
from tests.waiting import until

SLOW_S = 0.001
HOLD_MS = 500
OCTETS = 128 << 10
OCTETS_COUNT = 320
SLACK_S = 10  # of a busy machine


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "durable"])
def test_a_slow_subscriber_loses_nothing(start_broker: Callable[..., BrokerProcess], clean: bool) -> None:
    broker = start_broker(mqtt_max_mqueue_len=200)
    reader = Reader(broker, "slow", "t", 1, SLOW_S, clean)
    reader.take(3000)
    sent_until_acknowledged(broker, "t", 3000, window=1000)
    assert reader.all() == list(range(3000))
    reader.close()
    assert "has lost" not in broker.log_text()


def test_a_session_that_is_away_loses_nothing(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    reader = Reader(broker, "away", "t", 1, 0, clean=False)
    reader.leave()
    sent_until_acknowledged(broker, "t", 5000)
    back = Reader(broker, "away", clean=False)
    back.take(5000)
    assert back.all() == list(range(5000))
    back.close()


def test_qos_0_waits_for_a_reader_that_is_slower(start_broker: Callable[..., BrokerProcess]) -> None:
    """Its publisher is held back while the connection is full, so that nothing of 40 MiB is lost."""
    broker = start_broker(send_buffer_octets_max=1 << 20)
    reader = Reader(broker, "slow", "t", 0, 0.005)
    reader.take(OCTETS_COUNT)
    source = connected(broker, "source", V311)
    source.socket.settimeout(60)
    for number in range(OCTETS_COUNT):
        source.send(publish("t", b"%d" % number + b" " * OCTETS, version=V311))
    assert reader.all() == list(range(OCTETS_COUNT))
    for each in (source, reader):
        each.close()


@pytest.mark.parametrize("qos", [0, 1])
def test_a_dead_reader_among_ten_holds_nobody_for_long(start_broker: Callable[..., BrokerProcess], qos: int) -> None:
    """It loses messages, which is told; the others get all, and the publisher waits no longer than it may."""
    broker = start_broker(mqtt_max_mqueue_len=100, mqtt_publisher_hold_ms=HOLD_MS, log_events=["client.messages_lost"])
    dead = Reader(broker, "dead", "t", 1, 0)  # it never acknowledges
    others = [Reader(broker, f"r{at}", "t", qos, 0) for at in range(9)]
    for each in others:
        each.take(2000)
    longest = sent_until_acknowledged(broker, "t", 2000, window=500)
    for each in others:
        assert sorted(each.all()) == list(range(2000))
        each.close()
    assert longest < HOLD_MS / 1000 + SLACK_S
    lost = 2000 - 32 - 100
    until(lambda: "MQTT client 'dead' does not keep up" in broker.log_text(), "the warning")
    until(lambda: "client.messages_lost" in broker.log_text(), "the event")
    address = f"127.0.0.1:{broker.amqp_port}"
    with ControlClient.connect(address, "guest", "guest") as control:
        assert control.run("broker.status")["messages_lost"] == lost
        found = control.run("message.explain", client_id="dead")["found"]
    assert isinstance(found, list)
    explained = found[0]
    told = next(each for each in explained["reasons"] if each["code"] == "messages_lost")
    assert (told["lost"], explained["dropped"]) == (lost, lost)
    dead.close()


def test_a_client_that_publishes_to_itself_goes_on(start_broker: Callable[..., BrokerProcess]) -> None:
    """It is held back for itself, and yet its acknowledgements come in."""
    broker = start_broker(mqtt_max_mqueue_len=50)
    echo = Reader(broker, "echo", "t", 1, 0)
    echo.take(500)
    echo.publish("t", 500)
    assert sorted(echo.all()) == list(range(500))
    echo.close()


def test_emqx_way_is_there_for_who_asks_for_it(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(mqtt_max_mqueue_len=10, mqtt_mqueue_overflow="drop", log_format="json")
    Reader(broker, "away", "t", clean=False).leave()
    sent_until_acknowledged(broker, "t", 100)
    line = until(lambda: next((each for each in broker.log_text().splitlines() if "has lost" in each), ""))
    assert "'away'" in json.loads(line)["message"] and "90 messages" in line
    back = Reader(broker, "away", clean=False)
    back.take(10)
    assert back.all() == list(range(90, 100))
    back.close()


@pytest.mark.parametrize("prefetch", [1, 20])
def test_a_consumer_with_a_small_prefetch_gets_all_beside_a_publisher_at_full_speed(
    start_broker: Callable[..., BrokerProcess], prefetch: int
) -> None:
    broker = start_broker()
    consumer = open_channel(broker)
    consumer.queue_declare("q", durable=True)
    consumer.basic_qos(prefetch_count=prefetch)
    found: list[int] = []

    def take(
        channel: BlockingChannel, method: pika.spec.Basic.Deliver, _properties: pika.BasicProperties, body: bytes
    ) -> None:
        found.append(int(body))
        channel.basic_ack(method.delivery_tag)

    consumer.basic_consume("q", take)
    publisher = open_channel(broker)
    count = 2000
    for number in range(count):
        publisher.basic_publish("", "q", b"%d" % number)
        consumer.connection.process_data_events(0)
    until(lambda: len(found) >= count, meanwhile=lambda: consumer.connection.process_data_events(0.1))
    assert found == list(range(count))
