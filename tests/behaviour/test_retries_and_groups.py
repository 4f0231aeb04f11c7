"""Delayed retries and message groups, as a program with pika sees them."""

from __future__ import annotations

import time

import pika
import pytest

from tests.behaviour.kinds import next_message, open_channel
from tests.broker_process import BrokerProcess

WAIT_S = 20
each_type = pytest.mark.parametrize("queue_type", ["classic", "quorum"])


@each_type
def test_what_failed_waits_longer_each_time(broker: BrokerProcess, queue_type: str) -> None:
    channel = open_channel(broker)
    arguments = {
        "x-queue-type": queue_type,
        "x-delayed-retry-type": "all",
        "x-delayed-retry-min": 300,
        "x-delayed-retry-max": 600,
    }
    channel.queue_declare("q", durable=True, arguments=arguments)
    channel.basic_publish("", "q", b"x")
    waited = []
    for _ in range(4):
        tag, *_ = next_message(channel)
        begun = time.monotonic()
        channel.basic_reject(tag, requeue=True)
        next_tag, *_ = next_message(channel)
        waited.append(time.monotonic() - begun)
        channel.basic_reject(next_tag, requeue=True)
    # Never sooner: 300 ms after the first failure, then 600.
    assert waited[0] >= 0.3
    assert min(waited[1:]) >= 0.6


@each_type
def test_others_pass_what_waits_for_its_retry(broker: BrokerProcess, queue_type: str) -> None:
    channel = open_channel(broker)
    arguments = {"x-queue-type": queue_type, "x-delayed-retry-type": "all", "x-delayed-retry-min": 1000}
    channel.queue_declare("q", durable=True, arguments=arguments)
    for body in (b"bad", b"good"):
        channel.basic_publish("", "q", body)
    tag, _, body = next_message(channel)
    assert body == b"bad"
    channel.basic_reject(tag, requeue=True)
    assert [next_message(channel)[2] for _ in range(2)] == [b"good", b"bad"]


@each_type
def test_messages_of_one_group_come_one_at_a_time_and_in_order(broker: BrokerProcess, queue_type: str) -> None:
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": queue_type})
    for number in range(3):
        for key in ("a", "b"):
            properties = pika.BasicProperties(headers={"x-group-id": key})
            channel.basic_publish("", "q", f"{key}{number}".encode(), properties)
    held = {body: tag for tag, _, body in [next_message(channel) for _ in range(2)]}
    assert set(held) == {b"a0", b"b0"}
    assert channel.basic_get("q")[0] is None  # whoever asks: the others wait for those before them
    channel.basic_ack(held[b"a0"])
    tag, _, body = next_message(channel)
    assert body == b"a1"
    # What failed comes again before what is behind it.
    channel.basic_reject(tag, requeue=True)
    tag, _, body = next_message(channel)
    assert body == b"a1"
    channel.basic_ack(tag)
    channel.basic_ack(held[b"b0"])
    assert {next_message(channel)[2] for _ in range(2)} == {b"a2", b"b1"}
