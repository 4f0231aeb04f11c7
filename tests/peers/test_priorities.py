"""Messages with priorities."""

from __future__ import annotations

from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Consumer, declare, drain, put, wait_for_count
from tests.peers.peer import Peer


def fill(channel: BlockingChannel, *priorities: int | None) -> None:
    """One message of each priority, whose body says it and its number."""
    for number, priority in enumerate(priorities):
        put(channel, "q", f"{priority}:{number}".encode(), priority=priority)
    wait_for_count(channel, "q", len(priorities))


def test_a_higher_priority_comes_first_and_equal_ones_in_order(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", x_max_priority=10)
    fill(channel, 0, 5, 1, 10, 5, 1)
    assert drain(channel, "q") == [b"10:3", b"5:1", b"5:4", b"1:2", b"1:5", b"0:0"]


def test_none_is_0_and_more_than_the_most_is_the_most(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", x_max_priority=3)
    fill(channel, None, 0, 9, 3, 1)
    assert drain(channel, "q") == [b"9:2", b"3:3", b"1:4", b"None:0", b"0:1"]


def test_without_priorities_the_order_is_that_of_arrival(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    fill(channel, 0, 9, 4)
    assert drain(channel, "q") == [b"0:0", b"9:1", b"4:2"]


def test_what_returns_keeps_its_priority(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", x_max_priority=5)
    fill(channel, 1, 3)
    method, _, body = channel.basic_get("q")
    assert body == b"3:1"
    put(channel, "q", b"5:2", priority=5)
    channel.basic_reject(method.delivery_tag, requeue=True)
    wait_for_count(channel, "q", 3)
    assert drain(channel, "q") == [b"5:2", b"3:1", b"1:0"]


def test_what_a_consumer_holds_is_not_overtaken(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", x_max_priority=5)
    fill(channel, 1, 1, 1)
    reader = channel.connection.channel()
    reader.basic_qos(prefetch_count=2)
    sink = Consumer(reader, "q")
    sink.wait(2)
    put(channel, "q", b"5:3", priority=5)
    sink.settle()
    assert [one.body for one in sink.got] == [b"1:0", b"1:1"]
    reader.basic_ack(sink.got[0].tag)
    assert sink.bodies(3)[2] == b"5:3"


def test_the_head_gives_way_in_a_full_queue_whatever_its_priority(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", x_max_priority=5, x_max_length=2)
    put(channel, "q", b"high", priority=5)
    put(channel, "q", b"low", priority=1)
    put(channel, "q", b"middle", priority=3)
    wait_for_count(channel, "q", 2)
    assert drain(channel, "q") == [b"middle", b"low"]


def test_a_quorum_queue_serves_two_classes_two_to_one(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", "quorum")
    fill(channel, *[0] * 6, *[9] * 6)
    order = [body.split(b":")[0] for body in drain(channel, "q")]
    assert order[:9].count(b"9") == 6
    assert order[:9].count(b"0") == 3
    assert order[9:] == [b"0"] * 3
