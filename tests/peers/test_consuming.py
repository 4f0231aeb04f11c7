"""Getting and consuming messages, settling them, and who gets what."""

from __future__ import annotations

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Consumer, count, declare, drain, get, put, wait_for_count
from tests.peers.peer import Peer
from tests.waiting import until

each_kind = pytest.mark.parametrize("kind", ["classic", "quorum"])


@each_kind
def test_get_tells_what_is_left(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    assert channel.basic_get("q")[0] is None
    put(channel, "q", b"1", b"2", b"3")
    left = []
    for _ in range(3):
        method, _, _ = channel.basic_get("q", auto_ack=True)
        left.append(method.message_count)
    assert left == [2, 1, 0]
    assert channel.basic_get("q")[0] is None


@each_kind
def test_an_ack_of_several(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", *(b"%d" % number for number in range(5)))
    tags = [get(channel, "q").tag for _ in range(5)]
    assert tags == [1, 2, 3, 4, 5]
    channel.basic_ack(3, multiple=True)
    channel.connection.close()
    after = peer.channel()
    wait_for_count(after, "q", 2)
    assert drain(after, "q") == [b"3", b"4"]


@each_kind
def test_tag_0_is_all(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", *(b"%d" % number for number in range(5)))
    for _ in range(5):
        get(channel, "q")
    channel.basic_ack(0, multiple=True)
    channel.connection.close()
    assert count(peer.channel(), "q") == 0


@each_kind
def test_what_returns_comes_first_and_is_marked(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"1", b"2", b"3")
    first = get(channel, "q")
    assert not first.redelivered
    channel.basic_reject(first.tag, requeue=True)
    again = [get(channel, "q") for _ in range(3)]
    # A quorum queue puts what returns behind the others.
    assert sorted(one.body for one in again) == [b"1", b"2", b"3"]
    assert {one.body: one.redelivered for one in again} == {b"1": True, b"2": False, b"3": False}


@each_kind
def test_a_closed_channel_returns_what_it_held(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"1", b"2", b"3")
    other = channel.connection.channel()
    sink = Consumer(other, "q")
    assert sink.bodies(3) == [b"1", b"2", b"3"]
    other.basic_ack(sink.got[0].tag)
    other.close()
    wait_for_count(channel, "q", 2)
    again = [get(channel, "q") for _ in range(2)]
    assert [(one.body, one.redelivered) for one in again] == [(b"2", True), (b"3", True)]


@each_kind
def test_recover_returns_what_the_channel_held(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"1", b"2")
    for _ in range(2):
        get(channel, "q")
    channel.basic_recover(requeue=True)
    wait_for_count(channel, "q", 2)
    again = [get(channel, "q") for _ in range(2)]
    assert [(one.body, one.redelivered) for one in again] == [(b"1", True), (b"2", True)]


@each_kind
def test_a_prefetch_is_each_consumers_own(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", *(b"%d" % number for number in range(10)))
    reader = channel.connection.channel()
    reader.basic_qos(prefetch_count=3)
    first, second = Consumer(reader, "q"), Consumer(reader, "q")
    first.wait(3)
    second.wait(3)
    first.settle()
    assert (len(first.got), len(second.got)) == (3, 3)
    reader.basic_ack(first.got[0].tag)
    first.wait(4)
    first.settle()
    assert (len(first.got), len(second.got)) == (4, 3)


def test_a_prefetch_for_the_whole_channel(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    put(channel, "q", *(b"%d" % number for number in range(10)))
    reader = channel.connection.channel()
    reader.basic_qos(prefetch_count=3, global_qos=True)
    first, second = Consumer(reader, "q"), Consumer(reader, "q")
    wait_until_settled(first, second, 3)
    reader.basic_ack(0, multiple=True)
    wait_until_settled(first, second, 6)


def wait_until_settled(first: Consumer, second: Consumer, expected: int) -> None:
    """Until both together got so many, and no more come."""

    def is_there() -> bool:
        first.settle()
        return len(first.got) + len(second.got) >= expected

    until(is_there, f"{expected} messages")
    first.settle()
    assert len(first.got) + len(second.got) == expected


def test_prefetch_of_the_channel_and_of_each_consumer_both_hold(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    put(channel, "q", *(b"%d" % number for number in range(20)))
    reader = channel.connection.channel()
    reader.basic_qos(prefetch_count=4)
    reader.basic_qos(prefetch_count=6, global_qos=True)
    first, second = Consumer(reader, "q"), Consumer(reader, "q")
    wait_until_settled(first, second, 6)
    assert max(len(first.got), len(second.got)) <= 4


@each_kind
def test_consumers_take_turns(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    reader = channel.connection.channel()
    reader.basic_qos(prefetch_count=10)
    sinks = [Consumer(reader, "q") for _ in range(3)]
    put(channel, "q", *(b"%d" % number for number in range(9)))
    for sink in sinks:
        sink.wait(3)
    assert [len(sink.got) for sink in sinks] == [3, 3, 3]


@each_kind
def test_a_cancelled_consumer_keeps_what_it_holds(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"1", b"2")
    reader = channel.connection.channel()
    reader.basic_qos(prefetch_count=1)
    sink = Consumer(reader, "q")
    sink.wait(1)
    # The tag of a delivery is good after its consumer is gone.
    reader.basic_cancel(sink.tag)
    method = channel.queue_declare("q", passive=True).method
    assert method.message_count == 1
    if kind == "classic":  # RabbitMQ's quorum queues count it until it has settled all
        assert method.consumer_count == 0
    reader.basic_ack(sink.got[0].tag)
    reader.close()
    assert drain(channel, "q") == [b"2"]


@each_kind
def test_a_consumer_is_told_that_its_queue_is_gone(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    reader = peer.channel()
    gone: list[str] = []
    reader.add_on_cancel_callback(lambda frame: gone.append(frame.method.consumer_tag))
    sink = Consumer(reader, "q")
    channel.queue_delete("q")
    until(lambda: reader.connection.process_data_events(0.05) or gone, "basic.cancel")
    assert gone == [sink.tag]
    assert reader.is_open


@each_kind
def test_cancel_of_an_unknown_consumer_is_no_error(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    answers: list[object] = []
    channel._impl._send_method(pika.spec.Basic.Cancel(consumer_tag="nobody"))
    channel._impl.add_callback(answers.append, [pika.spec.Basic.CancelOk])
    until(lambda: channel.connection.process_data_events(0.05) or answers, "cancel-ok")
    assert channel.is_open


def test_an_exclusive_consumer_is_followed_by_another(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    sink = Consumer(channel, "q", exclusive=True)
    other = peer.connect()
    with pytest.raises(pika.exceptions.ChannelClosedByBroker):
        Consumer(other.channel(), "q")
    channel.basic_cancel(sink.tag)
    Consumer(other.channel(), "q")


@each_kind
def test_consumers_of_a_higher_priority_come_first(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    reader = channel.connection.channel()
    reader.basic_qos(prefetch_count=2)
    low = Consumer(reader, "q", x_priority=-1)
    none = Consumer(reader, "q")
    high = Consumer(reader, "q", x_priority=5)
    put(channel, "q", b"1", b"2", b"3", b"4", b"5")
    assert high.bodies(2) == [b"1", b"2"]
    assert none.bodies(2) == [b"3", b"4"]
    assert low.bodies(1) == [b"5"]
    reader.basic_ack(high.got[0].tag)
    put(channel, "q", b"6", b"7")
    assert high.bodies(3) == [b"1", b"2", b"6"]
    assert low.bodies(2) == [b"5", b"7"]


@each_kind
def test_one_consumer_is_active_at_a_time(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_single_active_consumer=True)
    first_channel, second_channel = peer.channel(), peer.channel()
    first, second = Consumer(first_channel, "q"), Consumer(second_channel, "q")
    put(channel, "q", b"1", b"2")
    assert first.bodies(2) == [b"1", b"2"]
    second.settle()
    assert second.got == []
    first_channel.connection.close()
    found = second.wait(2)
    assert [(one.body, one.redelivered) for one in found] == [(b"1", True), (b"2", True)]
    put(channel, "q", b"3")
    assert second.bodies(3)[2:] == [b"3"]


@each_kind
def test_the_next_consumer_becomes_active_when_the_first_is_cancelled(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_single_active_consumer=True)
    reader = peer.channel()
    first, second = Consumer(reader, "q"), Consumer(reader, "q")
    put(channel, "q", b"1")
    first.wait(1)
    reader.basic_ack(first.got[0].tag)
    reader.basic_cancel(first.tag)
    put(channel, "q", b"2")
    assert second.bodies(1) == [b"2"]


def test_a_higher_priority_takes_over_as_the_active_consumer(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", "quorum", x_single_active_consumer=True)
    reader = peer.channel()
    first = Consumer(reader, "q")
    put(channel, "q", b"1")
    first.wait(1)
    second = Consumer(reader, "q", x_priority=10)
    put(channel, "q", b"2")
    second.settle()
    assert second.got == []  # the first still holds something
    reader.basic_ack(first.got[0].tag)
    put(channel, "q", b"3")
    assert {one.body for one in second.wait(1)} <= {b"2", b"3"}
    put(channel, "q", b"4")
    second.settle()
    assert b"4" in [one.body for one in second.got]


@each_kind
def test_nobody_acknowledges_where_none_is_asked_for(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"1", b"2")
    sink = Consumer(channel, "q", no_ack=True)
    assert sink.bodies(2) == [b"1", b"2"]
    channel.connection.close()
    assert count(peer.channel(), "q") == 0


def test_counts_of_attempts(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", "quorum")
    put(channel, "q", b"x")
    seen = []
    for _ in range(3):
        found = get(channel, "q")
        seen.append((found.redelivered, found.headers.get("x-delivery-count")))
        channel.basic_reject(found.tag, requeue=True)
    assert seen == [(False, None), (True, 1), (True, 2)]


def test_whether_a_nack_is_a_failure(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", "quorum")
    put(channel, "q", b"x")
    channel.basic_nack(get(channel, "q").tag, requeue=True)
    found = get(channel, "q")
    # RabbitMQ 4.0 counts it; 4.3 and forebay count only what was rejected or lost.
    assert found.redelivered
    assert found.headers.get("x-delivery-count", 0) == (1 if peer.name == "rabbitmq" else 0)


def test_the_delivery_limit_of_a_quorum_queue_is_20(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", "quorum")
    put(channel, "q", b"x")
    deliveries = 0
    while (got := channel.basic_get("q"))[0] is not None:
        deliveries += 1
        channel.basic_reject(got[0].delivery_tag, requeue=True)
        if deliveries > 30:
            break
    assert deliveries == 21
    assert count(channel, "q") == 0


def test_a_delivery_limit_of_its_own(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", "quorum", x_delivery_limit=1)
    put(channel, "q", b"x")
    for _ in range(2):
        channel.basic_reject(get(channel, "q").tag, requeue=True)
    wait_for_count(channel, "q", 0)
    assert channel.basic_get("q")[0] is None


def test_no_delivery_limit(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", "quorum", x_delivery_limit=-1)
    put(channel, "q", b"x")
    for _ in range(30):
        channel.basic_reject(get(channel, "q").tag, requeue=True)
    assert get(channel, "q").headers["x-delivery-count"] == 30


@each_kind
def test_what_is_held_too_long_goes_to_somebody_else(peer: Peer, kind: str) -> None:
    peer.look_at_timeouts_often()
    channel = peer.channel()
    declare(channel, "q", kind, x_consumer_timeout=1000)
    put(channel, "q", b"x")
    reader = peer.channel()
    sink = Consumer(reader, "q")
    sink.wait(1)
    # What becomes of the consumer differs: RabbitMQ 4.0 closes its channel, later ones cancel it as is done here.
    until(lambda: ends(reader, sink) and count(channel, "q") == 1, "the message in the queue again")
    again = get(channel, "q")
    assert (again.body, again.redelivered) == (b"x", True)


def ends(channel: BlockingChannel, consumer: Consumer) -> bool:
    """Whether a channel is closed or its consumer cancelled."""
    if channel.is_open:
        channel.connection.process_data_events(0.05)
    return not channel.is_open or consumer.tag not in channel.consumer_tags
