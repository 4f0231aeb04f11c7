"""What a reader of blocks holds stays for it, in every kind of queue, and for nobody else."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.client.blocks import BlockClient
from forebay.client.control import ControlClient
from forebay.core.errors import NOT_FOUND, RequestError
from tests.behaviour.kinds import EPHEMERAL, KINDS, NAME, STREAM, Kind, Reader, broker, open_channel
from tests.blocks import bodies
from tests.broker_process import BrokerProcess
from tests.waiting import until

__all__ = ["broker"]

COUNT = 20
LIMIT_S = 60


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[BlockClient]:
    with BlockClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as made:
        yield made


def consume(channel: BlockingChannel, kind: Kind, count: int) -> None:
    """Take and settle so many messages."""
    reader = Reader(channel, kind)
    until = time.monotonic() + LIMIT_S
    while len(reader.got) < count:
        channel.connection.process_data_events(0.05)
        assert time.monotonic() < until
    for got in reader.got:
        channel.basic_ack(got.tag)
    channel.basic_cancel(reader.tag)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_held_is_read_though_everybody_else_is_done_with_it(
    broker: BrokerProcess, client: BlockClient, kind: Kind
) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    for number in range(COUNT):
        kind.publish(channel, b"%d" % number)
    assert client.hold(NAME, "late", 5, 600) == (5, 0)
    assert client.hold(NAME, "early", 0, 600) == (0, 0)
    consume(channel, kind, COUNT)
    wanted = kind in (STREAM, EPHEMERAL)  # by nobody in particular, or by the group with which the queue was made
    assert channel.queue_purge(NAME).method.message_count == (COUNT if wanted else 0)
    everything = [b"%d" % number for number in range(COUNT)]
    assert bodies(client, NAME, 0, COUNT) == everything
    client.release(NAME, "early")
    assert client.hold(NAME, "again", 0, 600) == (5, 5)
    assert bodies(client, NAME, 0, COUNT) == everything[5:]
    assert client.describe(NAME).start == 5
    kind.publish(channel, b"new")
    late = Reader(channel, kind)
    until = time.monotonic() + LIMIT_S
    while not late.got:
        channel.connection.process_data_events(0.05)
        assert time.monotonic() < until
    assert [got.body for got in late.got] == [b"new"]
    channel.basic_ack(late.got[0].tag)
    if kind is EPHEMERAL:
        return
    broker.restart()
    with BlockClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as after:
        assert bodies(after, NAME, 0, COUNT + 1) == [*everything[5:], b"new"]
        channel = open_channel(broker)
        assert channel.queue_declare(NAME, passive=True).method.message_count == (kind is STREAM)
        after.release(NAME, "late")
        after.release(NAME, "again")
        kind.publish(channel, b"newer")
        if kind is not STREAM:
            consume(channel, kind, 1)
        left = [b"new", b"newer"] if kind is STREAM else []
        assert bodies(after, NAME, 0, COUNT + 2) == left


def test_holds_are_listed_and_ended_by_administrators(broker: BrokerProcess, client: BlockClient) -> None:
    channel = open_channel(broker)
    channel.queue_declare(NAME, durable=True)
    for number in range(COUNT):
        channel.basic_publish("", NAME, b"%d" % number)
    client.hold(NAME, "table", 5, 600)
    consume(channel, KINDS[0], COUNT)
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        _, found = control.items("group.list", queue=NAME)
        assert (found["group"], found["kind"], found["cursor"], found["ready"]) == ("table", "reader", 5, COUNT - 5)
        seconds, octets = found["seconds_left"], found["octets"]
        assert isinstance(seconds, int) and 500 < seconds <= 600
        assert isinstance(octets, int) and 0 < octets <= client.describe(NAME).octets
        shown = control.run("queue.show", queue=NAME)
        assert (shown["start"], shown["kept"], shown["ready"]) == (COUNT, 5, 0)
        control.run("group.release", queue=NAME, group="table")
        assert client.describe(NAME).start == COUNT
        with pytest.raises(RequestError, match="no reader 'table' holds messages") as caught:
            control.run("group.release", queue=NAME, group="table")
        assert caught.value.reason == NOT_FOUND


def test_a_hold_that_is_not_renewed_ends(broker: BrokerProcess, client: BlockClient) -> None:
    channel = open_channel(broker)
    channel.queue_declare(NAME, durable=True)
    channel.basic_publish("", NAME, b"x")
    client.hold(NAME, "table", 0, 1)
    assert channel.basic_get(NAME, auto_ack=True)[2] == b"x"
    until(lambda: client.describe(NAME).start > 0)
    assert bodies(client, NAME, 0, 1) == []
