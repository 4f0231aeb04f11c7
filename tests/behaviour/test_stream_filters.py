"""Readers of a stream that want records of certain values only."""

from __future__ import annotations

import time
from collections.abc import Callable

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import client

STREAM = {"x-queue-type": "stream"}
FIRST = {"x-stream-offset": "first"}


def publish(channel: BlockingChannel, body: bytes, value: object = None) -> None:
    headers = None if value is None else {"x-stream-filter-value": value}
    channel.basic_publish("", "s", body, pika.BasicProperties(headers=headers))


@pytest.fixture
def channel(broker: BrokerProcess) -> BlockingChannel:
    """A channel, and a stream of 90 records: values a, b and none, in turn."""
    opened = open_channel(broker)
    opened.queue_declare("s", durable=True, arguments=STREAM)
    for number in range(90):
        publish(opened, b"%d" % number, ("a", "b", None)[number % 3])
    return opened


def read(broker: BrokerProcess, until: bytes, prefetch: int = 10, **arguments: object) -> list[bytes]:
    """Everything that a reader with these arguments is given, up to the record that it waits for."""
    channel = open_channel(broker)
    channel.basic_qos(prefetch_count=prefetch)
    names = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    got: list[bytes] = []
    for method, _, body in channel.consume("s", arguments={**FIRST, **names}, inactivity_timeout=10):
        assert body is not None, f"after {got[-3:]} nothing came"
        got.append(body)
        channel.basic_ack(method.delivery_tag)
        if body == until:
            break
    channel.connection.close()
    return got


def bodies(*remainders: int) -> list[bytes]:
    return [b"%d" % number for number in range(90) if number % 3 in remainders]


@pytest.mark.parametrize("prefetch", [1, 7, 1000])
def test_only_what_is_wanted_comes(broker: BrokerProcess, channel: BlockingChannel, prefetch: int) -> None:
    assert read(broker, b"87", prefetch, stream_filter="a") == bodies(0)
    assert read(broker, b"88", prefetch, stream_filter="b") == bodies(1)
    assert read(broker, b"88", prefetch, stream_filter=["a", "b"]) == bodies(0, 1)


def test_what_has_no_value_comes_where_it_is_asked_for(broker: BrokerProcess, channel: BlockingChannel) -> None:
    assert read(broker, b"89", stream_filter="a", stream_match_unfiltered=True) == bodies(0, 2)
    assert read(broker, b"87", stream_filter="a", stream_match_unfiltered=False) == bodies(0)
    assert read(broker, b"89", stream_filter="nothing", stream_match_unfiltered=True) == bodies(2)


def test_a_reader_without_a_filter_gets_all(broker: BrokerProcess, channel: BlockingChannel) -> None:
    assert read(broker, b"89") == bodies(0, 1, 2)


def test_a_filter_holds_for_what_is_published_later(broker: BrokerProcess, channel: BlockingChannel) -> None:
    reader = open_channel(broker)
    reader.basic_qos(prefetch_count=10)
    got: list[bytes] = []
    reader.basic_consume(
        "s", lambda *given: got.append(given[3]), arguments={"x-stream-offset": "next", "x-stream-filter": "a"}
    )
    for number in range(20):
        publish(channel, b"new %d" % number, "a" if number % 10 == 9 else "b")
    deadline = time.monotonic() + 10
    while len(got) < 2 and time.monotonic() < deadline:
        reader.connection.process_data_events(0.05)
    assert got == [b"new 9", b"new 19"]


def test_values_are_compared_whole(broker: BrokerProcess, channel: BlockingChannel) -> None:
    """RabbitMQ's filter lets through what looks alike; here what comes is what was asked for."""
    for number in range(300):
        publish(channel, b"v%d" % number, f"value {number}")
    assert read(broker, b"v299", stream_filter="value 299") == [b"v299"]
    assert read(broker, b"v299", stream_filter=["value 29", "value 299"]) == [b"v29", b"v299"]


def test_a_filter_survives_what_is_rewritten_and_restarted(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(wal_octets_max=1 << 20, wal_chunk_octets=1 << 20)
    channel = open_channel(broker)
    channel.queue_declare("s", durable=True, arguments=STREAM)
    body = bytes(10_000)
    for number in range(600):
        publish(channel, b"%d " % number + body, "rare" if number % 200 == 199 else "usual")
    for _ in range(2):
        got = read(broker, b"599 " + body, stream_filter="rare")
        assert [each.partition(b" ")[0] for each in got] == [b"199", b"399", b"599"]
        broker.kill9()
        broker.start()


def test_readers_of_one_group_have_one_filter(broker: BrokerProcess, channel: BlockingChannel) -> None:
    first = open_channel(broker)
    first.basic_qos(prefetch_count=1)
    arguments: dict[str, object] = {**FIRST, "x-consumer-group": "g", "x-stream-filter": ["a", "b"]}
    first.basic_consume("s", lambda *_: None, arguments=arguments)
    second = open_channel(broker)
    second.basic_consume("s", lambda *_: None, arguments={**arguments, "x-stream-filter": ["b", "a", "b"]})
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="reads with another filter"):
        second.basic_consume("s", lambda *_: None, arguments={**arguments, "x-stream-filter": "a"})


@pytest.mark.parametrize("value", [5, True, None, [], ["a", 1]])
def test_a_wrong_filter_is_refused(broker: BrokerProcess, channel: BlockingChannel, value: object) -> None:
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.basic_consume("s", lambda *_: None, arguments={"x-stream-filter": value})
    assert refused.value.reply_code == 406
    assert "invalid arg 'x-stream-filter' for queue 's' in vhost '/': " in refused.value.reply_text


def test_a_filter_is_refused_where_there_is_no_stream(broker: BrokerProcess, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        channel.basic_consume("q", lambda *_: None, arguments={"x-stream-filter": "a"})
    text = "invalid arg 'x-stream-filter' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
    assert refused.value.reply_text == f"PRECONDITION_FAILED - {text}"


def test_mqtt_publishes_and_subscribes_by_value(broker: BrokerProcess, channel: BlockingChannel) -> None:
    with client(broker, "reader-1") as reader, client(broker, "writer-1") as writer:
        granted = reader.subscribe(
            "$queue/s", stream_offset="first", stream_filter="b", stream_match_unfiltered="false"
        )
        assert not granted.is_failure
        assert [reader.next().payload for _ in range(30)] == bodies(1)
        assert not writer.publish("$queue/s", b"over", x_stream_filter_value="a").is_failure
        assert not writer.publish("$queue/s", b"mqtt", x_stream_filter_value="b").is_failure
        assert reader.next().payload == b"mqtt"
    assert read(broker, b"mqtt", stream_filter="b") == [*bodies(1), b"mqtt"]


def test_mqtt_is_told_of_a_wrong_filter(broker: BrokerProcess, channel: BlockingChannel) -> None:
    with client(broker, "reader-1") as reader:
        assert reader.subscribe("$queue/s", stream_filter="a", stream_match_unfiltered="perhaps").is_failure
