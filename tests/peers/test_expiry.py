"""Time to live of messages and of queues."""

from __future__ import annotations

import time

import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Consumer, count, declare, drain, get, put, wait_for_count
from tests.peers.peer import Peer
from tests.waiting import pause, until, until_past

each_kind = pytest.mark.parametrize("kind", ["classic", "quorum"])
LONG_MS = 600_000


def exists(peer: Peer, queue: str) -> bool:
    """Whether there is such a queue, asked so seldom that it can expire between two questions: asking is a use."""
    pause(1)
    connection = peer.connect()
    try:
        connection.channel().queue_declare(queue, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    finally:
        connection.close()
    return True


def publish_counted(channel: BlockingChannel) -> None:
    put(channel, "q", b"1", b"2")
    assert count(channel, "q") == 2


@each_kind
def test_messages_of_a_queue_expire(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_message_ttl=1500)
    publish_counted(channel)
    wait_for_count(channel, "q", 0)


@each_kind
def test_a_message_expires_by_itself(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"short", expiration="100")
    wait_for_count(channel, "q", 0)


@each_kind
def test_the_shorter_of_both_holds(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "long", kind, x_message_ttl=LONG_MS)
    declare(channel, "short", kind, x_message_ttl=100)
    put(channel, "long", b"x", expiration="100")
    put(channel, "short", b"x", expiration=str(LONG_MS))
    for queue in ("long", "short"):
        wait_for_count(channel, queue, 0)


@each_kind
def test_what_expires_waits_behind_what_does_not(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"stays")
    put(channel, "q", b"goes", expiration="1")
    until_past(time.time() + 0.1)
    # Only the head of a queue expires: what is behind it is still counted, but never delivered.
    assert count(channel, "q") == 2
    assert drain(channel, "q") == [b"stays"]


@each_kind
def test_time_0_is_for_those_who_wait(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_message_ttl=0)
    put(channel, "q", b"nobody waits")
    wait_for_count(channel, "q", 0)
    sink = Consumer(channel, "q", no_ack=True)
    put(channel, "q", b"somebody waits")
    assert sink.bodies(1) == [b"somebody waits"]


@each_kind
def test_expiration_0_is_for_those_who_wait(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"nobody waits", expiration="0")
    wait_for_count(channel, "q", 0)
    sink = Consumer(channel, "q", no_ack=True)
    put(channel, "q", b"somebody waits", expiration="0")
    assert sink.bodies(1) == [b"somebody waits"]


@each_kind
def test_what_was_handed_out_does_not_expire(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_message_ttl=300)
    put(channel, "q", b"x")
    held = get(channel, "q")
    until_past(time.time() + 0.6)
    channel.basic_ack(held.tag)  # its tag is still good
    channel.queue_declare("q", passive=True)


@each_kind
def test_what_returns_too_late_expires(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_message_ttl=300)
    put(channel, "q", b"x")
    held = get(channel, "q")
    until_past(time.time() + 0.6)
    channel.basic_nack(held.tag, requeue=True)
    wait_for_count(channel, "q", 0)


@each_kind
def test_the_expiration_stays_in_the_properties(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"x", expiration="60000")
    assert get(channel, "q").properties.expiration == "60000"


@each_kind
def test_an_unused_queue_expires(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_expires=300)
    put(channel, "q", b"x")
    channel.connection.close()
    until(lambda: not exists(peer, "q"), "an expired queue")


@each_kind
def test_a_consumed_queue_does_not_expire_until_its_consumer_is_gone(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_expires=300)
    sink = Consumer(channel, "q", no_ack=True)
    until_past(time.time() + 0.8)
    put(channel, "q", b"x")
    assert sink.bodies(1) == [b"x"]
    channel.connection.close()
    until(lambda: not exists(peer, "q"), "an expired queue")
