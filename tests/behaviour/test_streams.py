"""Streams: where a reader starts, what a group remembers, what retention takes."""

from __future__ import annotations

import time
from collections.abc import Callable

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.waiting import until, until_past

STREAM = {"x-queue-type": "stream"}


def read(broker: BrokerProcess, count: int, start: object = None, group: str = "", ack: bool = True) -> list[bytes]:
    """Consume until `count` records came; their bodies. Leaves politely."""
    channel = open_channel(broker)
    channel.basic_qos(prefetch_count=100)
    arguments: dict[str, object] = {}
    if start is not None:
        arguments["x-stream-offset"] = start
    if group:
        arguments["x-consumer-group"] = group
    got: list[bytes] = []

    def take(
        on: BlockingChannel, method: pika.spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes
    ) -> None:
        assert properties.headers is not None
        assert isinstance(properties.headers["x-stream-offset"], int)
        if len(got) < count:
            got.append(body)
            if ack:
                on.basic_ack(method.delivery_tag)

    channel.basic_consume("s", take, arguments=arguments)
    until(lambda: len(got) >= count, meanwhile=lambda: channel.connection.process_data_events(0.05))
    channel.connection.close()
    return got


def fill(broker: BrokerProcess, first: int, count: int, **arguments: object) -> BlockingChannel:
    channel = open_channel(broker)
    names = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    channel.queue_declare("s", durable=True, arguments={**STREAM, **names})
    for number in range(first, first + count):
        channel.basic_publish("", "s", b"%d" % number)
    return channel


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("first", b"0"),
        ("last", b"19"),
        ("resume", b"0"),
        (7, b"7"),
        ("offset=7", b"7"),
        ("timestamp=0", b"0"),
        (-1, b"0"),
    ],
)
def test_a_reader_starts_where_it_asks(broker: BrokerProcess, start: object, expected: bytes) -> None:
    fill(broker, 0, 20)
    assert read(broker, 1, start) == [expected]


@pytest.mark.parametrize(
    ("group", "start", "expected"),
    [
        ("g", None, [b"0", b"1", b"2", b"new"]),
        ("g", "next", [b"new"]),
        ("", None, [b"new"]),
    ],
)
def test_a_new_group_misses_nothing_unless_it_asks_for_what_comes(
    broker: BrokerProcess, group: str, start: str | None, expected: list[bytes]
) -> None:
    publisher = fill(broker, 0, 3)
    until(lambda: count_of(publisher) == 3)
    reader = open_channel(broker)
    reader.basic_qos(prefetch_count=100)
    arguments = {"x-consumer-group": group, "x-stream-offset": start}
    got: list[bytes] = []
    given = {name: value for name, value in arguments.items() if value}
    reader.basic_consume("s", lambda *delivery: got.append(delivery[3]), arguments=given)
    publisher.basic_publish("", "s", b"new")
    until(lambda: b"new" in got, meanwhile=lambda: reader.connection.process_data_events(0.05))
    assert got == expected


def test_a_group_that_is_known_goes_on_where_it_was(broker: BrokerProcess) -> None:
    fill(broker, 0, 3)
    assert read(broker, 2, None, "g") == [b"0", b"1"]
    assert read(broker, 1, None, "g") == [b"2"]
    assert read(broker, 3, None, "h") == [b"0", b"1", b"2"]


def test_a_reader_starts_at_a_time(broker: BrokerProcess) -> None:
    fill(broker, 0, 5)
    between_ms = time.time_ns() // 1_000_000 + 1
    until_past(between_ms / 1000)
    fill(broker, 5, 5)
    assert read(broker, 1, f"timestamp={between_ms}") == [b"5"]


@pytest.mark.parametrize("start", ["middle", "offset=x", "-1", True, {"a": 1}, ["first"], 1 << 62])
def test_a_wrong_start_is_refused_by_value(broker: BrokerProcess, start: object) -> None:
    channel = fill(broker, 0, 1)
    with pytest.raises(pika.exceptions.AMQPError, match="x-stream-offset"):
        channel.basic_consume("s", lambda *_: None, arguments={"x-stream-offset": start})


def test_a_named_group_resumes_after_a_kill(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(auto_commit_interval_ms=100)
    fill(broker, 0, 10)
    assert read(broker, 4, "first", "g") == [b"0", b"1", b"2", b"3"]
    # The broker lets streams forget once a second, after it has noted how far their groups are.
    channel = fill(broker, 10, 0)
    channel.queue_declare("short", durable=True, arguments={**STREAM, "x-max-length": 1})
    for _ in range(30):
        channel.basic_publish("", "short", b"x")
    until(lambda: count_of(channel, "short") < 30)
    fill(broker, 10, 1)  # which takes what nobody waits for along to the disk
    broker.kill9()
    broker.start()
    assert read(broker, 2, None, "g") == [b"4", b"5"]


def test_an_explicit_commit_decides_where_a_group_resumes(broker: BrokerProcess) -> None:
    channel = fill(broker, 0, 10)
    assert len(read(broker, 8, "first", "g")) == 8
    commit = pika.BasicProperties(headers={"x-group-id": "g", "x-offset": 3})
    channel.basic_publish("", "$queue/s/$commit", b"", commit)
    assert read(broker, 1, None, "g") == [b"3"]


def test_an_explicit_commit_is_on_the_disk_when_it_is_confirmed(broker: BrokerProcess) -> None:
    fill(broker, 0, 10)
    assert len(read(broker, 8, "first", "g")) == 8
    channel = open_channel(broker)
    commit = pika.BasicProperties(headers={"x-group-id": "g", "x-offset": 3})
    channel.basic_publish("", "$queue/s/$commit", b"", commit)
    broker.kill9()
    broker.start()
    assert read(broker, 1, None, "g") == [b"3"]


def test_retention_by_count_takes_the_oldest_and_waits_for_nobody(broker: BrokerProcess) -> None:
    channel = fill(broker, 0, 50, max_length=10)
    until(lambda: count_of(channel) <= 20)
    count = count_of(channel)
    assert count >= 10
    first = int(read(broker, 1, "first")[0])
    assert first == 50 - count
    broker.kill9()
    broker.start()
    assert int(read(broker, 1, "first")[0]) >= first


def test_get_is_refused_on_a_stream(broker: BrokerProcess) -> None:
    channel = fill(broker, 0, 1)
    with pytest.raises(pika.exceptions.AMQPError, match="stream"):
        channel.basic_get("s")


def count_of(channel: BlockingChannel, queue: str = "s") -> int:
    return int(channel.queue_declare(queue, durable=True, passive=True).method.message_count)


@pytest.mark.parametrize("limit", [{"max_length_bytes": 40_000}, {"max_age": "2s"}])
def test_retention_by_size_and_age_holds_after_a_restart(
    start_broker: Callable[..., BrokerProcess], limit: dict[str, object]
) -> None:
    broker = start_broker()
    channel = open_channel(broker)
    names = {f"x-{name.replace('_', '-')}": value for name, value in limit.items()}
    channel.queue_declare("s", durable=True, arguments={**STREAM, **names})
    for number in range(100):
        channel.basic_publish("", "s", b"%d " % number + bytes(2000))
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    until(lambda: count_of(channel) <= 25)
    channel.basic_publish("", "s", b"new")
    assert 100 - 25 <= read_offsets(broker, 1)[0] <= 100


def read_offsets(broker: BrokerProcess, count: int) -> list[int]:
    """Offsets of the first records that are kept."""
    channel = open_channel(broker)
    channel.basic_qos(prefetch_count=10)
    offsets: list[int] = []
    for _, properties, body in channel.consume("s", arguments={"x-stream-offset": "first"}, inactivity_timeout=10):
        assert body is not None
        offsets.append(properties.headers["x-stream-offset"])
        if len(offsets) == count:
            break
    channel.connection.close()
    return offsets


def test_a_reader_that_retention_overtakes_goes_on_at_what_is_kept(broker: BrokerProcess) -> None:
    channel = fill(broker, 0, 30, max_length=10)
    reader = open_channel(broker)
    reader.basic_qos(prefetch_count=2)
    got: list[tuple[int, bytes]] = []

    def take(
        _: BlockingChannel, method: pika.spec.Basic.Deliver, properties: pika.BasicProperties, body: bytes
    ) -> None:
        assert properties.headers is not None
        got.append((properties.headers["x-stream-offset"], body))

    reader.basic_consume("s", take, arguments={"x-stream-offset": "first", "x-consumer-group": "g"})
    reader.connection.process_data_events(0.2)
    assert len(got) == 2  # it holds two, and settles nothing while retention goes on
    fill(broker, 30, 30, max_length=10)
    until(lambda: count_of(channel) <= 15)
    kept = count_of(channel)
    reader.basic_ack(2, multiple=True)
    until(lambda: len(got) >= 4, meanwhile=lambda: reader.connection.process_data_events(0.05))
    assert got[2:] == [(60 - kept, b"%d" % (60 - kept)), (61 - kept, b"%d" % (61 - kept))]


def test_a_group_whose_place_is_gone_resumes_at_what_is_kept(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(auto_commit_interval_ms=100)
    channel = fill(broker, 0, 30, max_length=10)
    assert len(read(broker, 1, "first", "g")) == 1
    fill(broker, 30, 30, max_length=10)
    until(lambda: count_of(channel) <= 15)
    broker.restart()
    assert int(read(broker, 1, None, "g")[0]) == 60 - count_of(open_channel(broker))


def test_each_message_says_when_it_was_written(broker: BrokerProcess) -> None:
    before_ms = time.time_ns() // 1_000_000
    fill(broker, 0, 1)
    middle_ms = time.time_ns() // 1_000_000
    until_past(middle_ms / 1000 + 0.01)
    fill(broker, 1, 40)
    reader = open_channel(broker)
    reader.basic_qos(prefetch_count=100)
    stamps: list[int] = []
    for _, properties, _ in reader.consume("s", arguments={"x-stream-offset": "first"}, inactivity_timeout=10):
        stamps.append(properties.headers["x-stream-timestamp"])
        if len(stamps) == 41:
            break
    assert stamps == sorted(stamps)
    assert before_ms <= stamps[0] <= stamps[-1] <= time.time_ns() // 1_000_000
    reader.connection.close()
    assert read(broker, 1, f"timestamp={stamps[1]}") == [b"1"]


def test_a_reader_starts_so_long_ago(broker: BrokerProcess) -> None:
    fill(broker, 0, 5)
    until_past(time.time() + 2)
    fill(broker, 5, 5)
    assert read(broker, 1, "2s") == [b"5"]
    assert read(broker, 1, "1h") == [b"0"]


def test_the_work_on_a_stream_goes_on_past_what_retention_took(broker: BrokerProcess) -> None:
    arguments: dict[str, object] = {"x-primary-group": "workers", "x-max-length": 10}
    channel = open_channel(broker)
    channel.queue_declare("s", durable=True, arguments={**STREAM, **arguments})
    worker = open_channel(broker)
    worker.basic_qos(prefetch_count=1)
    got: list[tuple[int, bytes]] = []
    worker.basic_consume(
        "s", lambda *given: got.append((given[1].delivery_tag, given[3])), arguments={"x-consumer-group": "workers"}
    )
    for number in range(60):
        channel.basic_publish("", "s", b"%d" % number)
    deadline = time.monotonic() + 10
    while (count_of(channel) > 15 or not got) and time.monotonic() < deadline:
        worker.connection.process_data_events(0.1)
    kept = count_of(channel)
    assert got == [(1, b"0")]
    worker.basic_nack(1)  # to be done again, but there is nothing left of it
    while len(got) < 2 and time.monotonic() < deadline:
        worker.connection.process_data_events(0.05)
    assert got[1] == (2, b"%d" % (60 - kept))
    broker.kill9()
    broker.start()
    again = open_channel(broker)
    bodies = []
    for method, _, body in again.consume("s", arguments={"x-consumer-group": "workers"}, inactivity_timeout=10):
        bodies.append(body)
        again.basic_ack(method.delivery_tag)
        if len(bodies) == kept:
            break
    assert bodies == [b"%d" % number for number in range(60 - kept, 60)]
