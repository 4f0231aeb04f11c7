"""One suite over every kind of queue: what they share, and what each promises beyond that."""

from __future__ import annotations

import pytest

from tests.behaviour.kinds import CLASSIC, KINDS, NAME, STREAM, Kind, Reader, broker, open_channel
from tests.broker_process import BrokerProcess

__all__ = ["broker"]

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
redelivering = pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.redelivers], ids=lambda kind: kind.name)


@every_kind
def test_records_come_in_the_order_of_publishing(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    reader = Reader(channel, kind, prefetch=1000)
    for number in range(500):
        kind.publish(channel, b"%d" % number)
    assert [got.body for got in reader.wait(500)] == [b"%d" % number for number in range(500)]


@every_kind
@pytest.mark.parametrize("size", [0, 1, 4096, 131_064, 131_065, 700_000])
def test_any_body_comes_back_octet_by_octet(broker: BrokerProcess, kind: Kind, size: int) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    reader = Reader(channel, kind)
    body = bytes(range(256)) * (size // 256 + 1)
    kind.publish(channel, body[:size])
    assert reader.wait(1)[0].body == body[:size]


@every_kind
def test_prefetch_bounds_what_is_outstanding(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    reader = Reader(channel, kind, prefetch=3)
    for number in range(10):
        kind.publish(channel, b"%d" % number)
    reader.wait(3)
    reader.settle()
    assert len(reader.got) == 3
    channel.basic_ack(reader.got[1].tag, multiple=True)
    reader.wait(5)
    reader.settle()
    assert [got.body for got in reader.got] == [b"0", b"1", b"2", b"3", b"4"]


@every_kind
def test_each_group_gets_everything(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    first = Reader(channel, kind, group="first")
    second = Reader(open_channel(broker), kind, group="second")
    for number in range(20):
        kind.publish(channel, b"%d" % number)
    for reader in (first, second):
        assert [got.body for got in reader.wait(20)] == [b"%d" % number for number in range(20)]


@every_kind
def test_consumers_of_one_group_share_the_records(broker: BrokerProcess, kind: Kind) -> None:
    publisher = open_channel(broker)
    kind.declare(publisher)
    readers = [Reader(open_channel(broker), kind, group="g", prefetch=10) for _ in range(2)]
    for number in range(20):
        kind.publish(publisher, b"%d" % number)
    for reader in readers:
        reader.wait(10)
        reader.settle()
    bodies = sorted(int(got.body) for reader in readers for got in reader.got)
    assert bodies == list(range(20))


@every_kind
def test_a_filter_chooses_by_routing_key(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    reader = Reader(channel, kind, address=f"$queue/{NAME}/eu/+", group="eu")
    for number in range(12):
        kind.publish(channel, b"%d" % number, ["eu/paris", "us/boston", "eu/x/y"][number % 3])
    assert [got.body for got in reader.wait(4)] == [b"0", b"3", b"6", b"9"]
    reader.settle()
    assert len(reader.got) == 4


@every_kind
def test_a_deleted_queue_cancels_its_consumers(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    reader = Reader(channel, kind)
    cancelled: list[object] = []
    channel.add_on_cancel_callback(cancelled.append)
    open_channel(broker).queue_delete(NAME)
    for _ in range(100):
        if cancelled:
            break
        channel.connection.process_data_events(0.05)
    assert len(cancelled) == 1
    assert reader.got == []


@redelivering
def test_a_nacked_record_comes_again_to_the_same_consumer(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    reader = Reader(channel, kind, prefetch=1)
    kind.publish(channel, b"a")
    kind.publish(channel, b"b")
    first = reader.wait(1)[0]
    channel.basic_nack(first.tag, requeue=True)
    again = reader.wait(2)[1]
    assert (again.body, again.redelivered) == (b"a", True)
    assert again.headers == ({"x-delivery-count": 0, "x-acquired-count": 1} if kind.name == "quorum" else {})
    channel.basic_ack(again.tag)
    assert reader.wait(3)[2].body == b"b"


@redelivering
def test_a_rejected_record_is_gone(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    reader = Reader(channel, kind, prefetch=1)
    for body in (b"a", b"b"):
        kind.publish(channel, body)
    channel.basic_reject(reader.wait(1)[0].tag, requeue=False)
    second = reader.wait(2)[1]
    assert (second.body, second.redelivered) == (b"b", False)


@redelivering
def test_what_a_lost_consumer_held_goes_to_another_at_once(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    lost = Reader(open_channel(broker), kind, prefetch=5)
    for number in range(5):
        kind.publish(channel, b"%d" % number)
    lost.wait(5)
    heir = Reader(channel, kind, prefetch=5)
    heir.settle()
    assert heir.got == []
    lost.channel.connection.close()
    got = heir.wait(5)
    assert [one.body for one in got] == [b"%d" % number for number in range(5)]
    assert all(one.redelivered for one in got)


def test_a_lease_ends_after_the_visibility_timeout(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare(NAME, durable=True, arguments={"x-visibility-timeout": 400})
    reader = Reader(channel, CLASSIC, prefetch=10)
    CLASSIC.publish(channel, b"slow")
    first, again = reader.wait(2)[:2]
    assert (again.body, again.redelivered) == (b"slow", True)
    # The first holder's settlement no longer means anything; the second one's does.
    channel.basic_ack(first.tag)
    channel.basic_ack(again.tag)
    count = len(reader.got)
    for _ in range(4):
        channel.connection.process_data_events(0.3)
    assert len(reader.got) <= count + 1  # at most one that was under way when the ack came


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.survives_restart], ids=lambda kind: kind.name)
def test_records_and_progress_survive_a_kill(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    reader = Reader(channel, kind, group="g", prefetch=4)
    for number in range(10):
        kind.publish(channel, b"%d" % number)
    reader.wait(4)
    channel.basic_ack(reader.got[1].tag, multiple=True)
    # Settlements ride along with what is synced next: this publish is confirmed behind them.
    kind.publish(channel, b"10")
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    after = Reader(channel, kind, group="g", prefetch=100)
    expected = [b"%d" % number for number in range(0 if kind is STREAM else 2, 11)]
    assert [got.body for got in after.wait(len(expected))] == expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.keeps_what_was_read], ids=lambda kind: kind.name)
def test_what_was_read_can_be_read_again(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    for number in range(10):
        kind.publish(channel, b"%d" % number)
    for _ in range(2):
        reader = Reader(open_channel(broker), kind)
        assert len(reader.wait(10)) == 10


@every_kind
def test_purge_takes_what_is_ready(broker: BrokerProcess, kind: Kind) -> None:
    channel = open_channel(broker)
    kind.declare(channel)
    for number in range(7):
        kind.publish(channel, b"%d" % number)
    assert channel.queue_purge(NAME).method.message_count == 7
    reader = Reader(channel, kind)
    kind.publish(channel, b"new")
    assert reader.wait(1)[0].body == b"new"
