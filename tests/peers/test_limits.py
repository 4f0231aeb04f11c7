"""What a queue holds at most, and what happens to the rest."""

from __future__ import annotations

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Consumer, count, declare, drain, get, put, wait_for_count
from tests.peers.peer import Peer
from tests.waiting import until

each_kind = pytest.mark.parametrize("kind", ["classic", "quorum"])


def is_refused(channel: BlockingChannel, queue: str, body: bytes) -> bool:
    """Whether the broker nacks a publish."""
    try:
        channel.basic_publish("", queue, body)
    except pika.exceptions.NackError:
        return True
    return False


@each_kind
def test_the_oldest_give_way(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_max_length=3)
    put(channel, "q", *(b"%d" % number for number in range(10)))
    wait_for_count(channel, "q", 3)
    assert drain(channel, "q") == [b"7", b"8", b"9"]


@each_kind
def test_the_oldest_give_way_to_octets(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_max_length_bytes=250)
    put(channel, "q", *(b"%d" % number * 100 for number in range(5)))
    wait_for_count(channel, "q", 2)
    assert [body[:1] for body in drain(channel, "q")] == [b"3", b"4"]


@each_kind
def test_what_was_handed_out_does_not_count(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_max_length=2)
    put(channel, "q", b"1", b"2")
    held = [get(channel, "q").tag for _ in range(2)]
    put(channel, "q", b"3", b"4")
    assert count(channel, "q") == 2
    for tag in held:
        channel.basic_ack(tag)
    assert drain(channel, "q") == [b"3", b"4"]


@each_kind
def test_nothing_is_kept_where_nothing_may(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_max_length=0)
    put(channel, "q", b"1", b"2")
    wait_for_count(channel, "q", 0)


@each_kind
def test_a_full_queue_refuses(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_max_length=2, x_overflow="reject-publish")
    # Some more than the limit may come in before a quorum queue tells its publishers.
    until(lambda: is_refused(channel, "q", b"x"), "a refused publish")
    held = count(channel, "q")
    assert held >= 2
    assert is_refused(channel, "q", b"y")
    drain(channel, "q")
    until(lambda: not is_refused(channel, "q", b"z"), "a publish that is taken again")
    assert drain(channel, "q") == [b"z"]


def test_a_full_classic_queue_refuses_exactly_what_is_too_much(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", x_max_length=2, x_overflow="reject-publish")
    assert [is_refused(channel, "q", b"%d" % number) for number in range(4)] == [False, False, True, True]
    assert drain(channel, "q") == [b"0", b"1"]


def test_one_full_queue_of_two_refuses_for_both(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "full", x_max_length=1, x_overflow="reject-publish")
    declare(channel, "free")
    for queue in ("full", "free"):
        channel.queue_bind(queue, "amq.fanout")
    channel.basic_publish("amq.fanout", "", b"1")
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("amq.fanout", "", b"2")
    assert drain(channel, "full") == [b"1"]
    # The queue that had room keeps it all the same: a nack says that not all took it.
    assert drain(channel, "free") == [b"1", b"2"]


def test_without_confirms_what_is_refused_is_gone(peer: Peer) -> None:
    channel = peer.channel(confirms=False)
    declare(channel, "q", x_max_length=1, x_overflow="reject-publish")
    put(channel, "q", b"1", b"2", b"3")
    assert drain(channel, "q") == [b"1"]


@each_kind
def test_what_returns_to_a_full_queue_is_its_oldest(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_max_length=2)
    put(channel, "q", b"1", b"2")
    held = get(channel, "q")
    put(channel, "q", b"3")
    assert count(channel, "q") == 2
    channel.basic_nack(held.tag, requeue=True)
    wait_for_count(channel, "q", 2)
    assert drain(channel, "q") == [b"2", b"3"]


@each_kind
def test_a_consumer_gets_what_is_left(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_max_length=2)
    put(channel, "q", b"1", b"2", b"3")
    wait_for_count(channel, "q", 2)
    sink = Consumer(channel, "q", no_ack=True)
    assert sink.bodies(2) == [b"2", b"3"]
