"""Messages of streams whose time is over: no reader gets them, they are counted, and the stream keeps them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

import httpx
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.blocks import BlockClient
from forebay.client.control import ControlClient
from tests.behaviour.kinds import open_channel
from tests.blocks import bodies
from tests.broker_process import BrokerProcess, running
from tests.interop.mqtt_client import client
from tests.waiting import until, until_past

STREAM = {"x-queue-type": "stream"}
SHORT_MS = 100


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder = tmp_path_factory.mktemp("expiry")
    with running(folder, http="127.0.0.1:0", auto_commit_interval_ms=100) as started:
        yield started


@pytest.fixture
def http(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=20) as made:
        yield made


def declare(broker: BrokerProcess, name: str, **arguments: object) -> BlockingChannel:
    channel = open_channel(broker)
    names = {f"x-{each.replace('_', '-')}": value for each, value in arguments.items()}
    channel.queue_declare(name, durable=True, arguments={**STREAM, **names})
    return channel


def publish(channel: BlockingChannel, name: str, *bodies: bytes, expiration_ms: int | None = None) -> None:
    expiration = None if expiration_ms is None else str(expiration_ms)
    for body in bodies:
        channel.basic_publish("", name, body, pika.BasicProperties(expiration=expiration))


def read(broker: BrokerProcess, name: str, last: bytes, **arguments: object) -> list[bytes]:
    """The messages that a reader is given, up to the one that it waits for."""
    channel = open_channel(broker)
    channel.basic_qos(prefetch_count=3)
    names = {f"x-{each.replace('_', '-')}": value for each, value in arguments.items()}
    got: list[bytes] = []
    for method, _, body in channel.consume(name, arguments=names, inactivity_timeout=10):
        assert body is not None, f"nothing came after {got}"
        got.append(body)
        channel.basic_ack(method.delivery_tag)
        if body == last:
            break
    channel.connection.close()
    return got


def expired(http: httpx.Client, name: str) -> int:
    return int(http.get(f"/api/queues/%2F/{name}").json()["forebay"]["expired"])


def test_readers_pass_over_what_has_expired(broker: BrokerProcess, http: httpx.Client) -> None:
    channel = declare(broker, "own")
    publish(channel, "own", b"kept")
    publish(channel, "own", b"short", b"short", expiration_ms=SHORT_MS)
    publish(channel, "own", b"long", expiration_ms=1_000_000)
    until_past(time.time() + 2 * SHORT_MS / 1000)
    publish(channel, "own", b"end")
    assert read(broker, "own", b"end", stream_offset="first") == [b"kept", b"long", b"end"]
    assert expired(http, "own") == 2
    assert read(broker, "own", b"end", stream_offset=1, consumer_group="g") == [b"long", b"end"]
    assert expired(http, "own") == 4, "each group that passes over them counts them"
    items = http.get("/api/forebay/queues/%2F/own/messages").json()["items"]
    assert [each["body"] for each in items] == ["kept", "short", "short", "long", "end"], "the stream keeps them"
    told = http.get("/metrics/per-object").text
    assert 'forebay_queue_messages_expired_total{vhost="/",queue="own"} 4' in told


def test_a_time_to_live_of_the_stream(broker: BrokerProcess, http: httpx.Client) -> None:
    ttl_s = 2  # what comes is read within that
    channel = declare(broker, "brief", message_ttl=1000 * ttl_s)
    publish(channel, "brief", b"1", b"2")
    until_past(time.time() + ttl_s)
    reader = open_channel(broker)
    got: list[bytes] = []
    reader.basic_qos(prefetch_count=10)
    reader.basic_consume("brief", lambda *given: got.append(given[3]), arguments={"x-consumer-group": "g"})
    publish(channel, "brief", b"3")
    until(lambda: bool(got), meanwhile=lambda: reader.connection.process_data_events(0.05))
    assert (got, expired(http, "brief")) == ([b"3"], 2)
    reader.connection.close()


def test_over_mqtt_and_http(broker: BrokerProcess, http: httpx.Client) -> None:
    declare(broker, "far")
    with client(broker, "c") as made:
        made.send("$queue/far", b"short", MessageExpiryInterval=1)
        made.send("$queue/far", b"long", MessageExpiryInterval=1000)
        until_past(time.time() + 1.5)
        assert not made.subscribe("$queue/far", consumer_group="g").is_failure
        assert made.next().payload == b"long"
        assert expired(http, "far") == 1
    with http.stream("GET", "/subscribe/$queue/far", params={"from": "first"}) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                assert json.loads(line.removeprefix("data: "))["payload"] == "long"
                break
    assert expired(http, "far") == 2


def test_a_group_goes_on_behind_what_it_passed_over(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(auto_commit_interval_ms=100)
    channel = declare(broker, "s")
    publish(channel, "s", b"first")
    publish(channel, "s", *[b"short"] * 3, expiration_ms=SHORT_MS)
    until_past(time.time() + 2 * SHORT_MS / 1000)
    reader = open_channel(broker)
    tags = reader.consume("s", arguments={"x-consumer-group": "g"}, inactivity_timeout=10)
    method, _, body = next(tags)
    assert body == b"first"
    reader.basic_ack(method.delivery_tag)
    reader.connection.close()
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        until(lambda: [each["committed"] for each in control.items("group.list", queue="s")] == [4])
    broker.restart()
    publish(open_channel(broker), "s", b"end")
    assert read(broker, "s", b"end", consumer_group="g") == [b"end"]


def test_why_a_reader_has_not_got_it(broker: BrokerProcess, http: httpx.Client) -> None:
    channel = declare(broker, "why")
    publish(channel, "why", b"short", expiration_ms=SHORT_MS)
    until_past(time.time() + 2 * SHORT_MS / 1000)
    publish(channel, "why", b"end")
    assert read(broker, "why", b"end", consumer_group="g") == [b"end"]
    said = http.post("/api/forebay/operations/message.explain", json={"queue": "why", "offset": 0}).json()
    (found,) = said["found"]
    (reason,) = found["reasons"]
    assert (reason["code"], reason["group"]) == ("expired", "g")
    assert "group 'g'" in found["summary"]


def test_blocks_have_everything(broker: BrokerProcess) -> None:
    channel = declare(broker, "table")
    publish(channel, "table", b"short", expiration_ms=SHORT_MS)
    until_past(time.time() + 2 * SHORT_MS / 1000)
    publish(channel, "table", b"end")
    assert read(broker, "table", b"end", stream_offset="first") == [b"end"]
    with BlockClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as blocks:
        assert bodies(blocks, "table", 0, 2) == [b"short", b"end"]
