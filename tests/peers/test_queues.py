"""How queues are made, found and taken away."""

from __future__ import annotations

import pika
import pika.exceptions
import pytest

from tests.peers.observe import Consumer, Refusal, count, declare, drain, put, refusal
from tests.peers.peer import Peer
from tests.waiting import until

each_kind = pytest.mark.parametrize("kind", ["classic", "quorum"])


def has_queue(peer: Peer, name: str) -> bool:
    connection = peer.connect()
    try:
        connection.channel().queue_declare(name, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    finally:
        connection.close()
    return True


@each_kind
def test_a_declare_tells_messages_and_consumers(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"1", b"2")
    Consumer(channel.connection.channel(), "q").wait(2)
    put(channel, "q", b"3")
    other = peer.channel()
    other.basic_qos(prefetch_count=1)
    method = other.queue_declare("q", durable=True, arguments={"x-queue-type": kind}).method
    assert (method.queue, method.consumer_count) == ("q", 1)


@each_kind
def test_purge_takes_what_is_ready_and_tells_how_much(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"1", b"2", b"3")
    held = channel.basic_get("q")[0].delivery_tag
    assert channel.queue_purge("q").method.message_count == 2
    channel.basic_nack(held, requeue=True)
    until(lambda: count(channel, "q") == 1, "what was not purged")
    assert drain(channel, "q") == [b"1"]


@each_kind
def test_delete_tells_how_much_was_ready(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    put(channel, "q", b"1", b"2")
    assert channel.queue_delete("q").method.message_count == 2
    assert channel.queue_delete("q").method.message_count == 0  # there is none: no error
    assert not has_queue(peer, "q")


def test_delete_on_conditions_that_hold(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    channel.queue_delete("q", if_unused=True, if_empty=True)
    assert not has_queue(peer, "q")


def test_the_broker_finds_a_name(peer: Peer) -> None:
    channel = peer.channel()
    names = [channel.queue_declare("", exclusive=True).method.queue for _ in range(2)]
    assert all(name.startswith("amq.gen-") for name in names)
    assert names[0] != names[1]
    put(channel, names[0], b"x")
    assert drain(channel, names[0]) == [b"x"]


def test_an_exclusive_queue_is_locked_to_others_and_goes_with_its_connection(peer: Peer) -> None:
    owner = peer.channel()
    owner.queue_declare("q", exclusive=True)
    other = peer.connect()
    expected = Refusal(
        "channel",
        405,
        f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '{peer.vhost}'. It could be "
        "originally declared on another connection or the exclusive property value does not match that of the "
        "original declaration.",
    )
    for spoil in (
        lambda channel: channel.queue_declare("q", exclusive=True),
        lambda channel: channel.queue_declare("q", passive=True),
        lambda channel: channel.basic_consume("q", lambda *_: None),
        lambda channel: channel.basic_get("q"),
        lambda channel: channel.queue_purge("q"),
        lambda channel: channel.queue_delete("q"),
        lambda channel: channel.queue_bind("q", "amq.fanout"),
    ):
        assert refusal(other, spoil) == expected
    put(peer.channel(), "q", b"x")  # anybody may publish to it
    assert drain(owner, "q") == [b"x"]
    owner.connection.close()
    until(lambda: not has_queue(peer, "q"), "the end of an exclusive queue")


def test_an_auto_delete_queue_goes_with_its_last_consumer(peer: Peer) -> None:
    channel = peer.channel()
    channel.queue_declare("q", auto_delete=True)
    assert has_queue(peer, "q")  # never used, never deleted
    first, second = Consumer(channel, "q"), Consumer(channel, "q")
    channel.basic_cancel(first.tag)
    assert has_queue(peer, "q")
    channel.basic_cancel(second.tag)
    until(lambda: not has_queue(peer, "q"), "the end of an auto-delete queue")


def test_an_auto_delete_queue_goes_with_the_connection_of_its_consumer(peer: Peer) -> None:
    channel = peer.channel()
    channel.queue_declare("q", auto_delete=True)
    Consumer(channel, "q")
    channel.connection.close()
    until(lambda: not has_queue(peer, "q"), "the end of an auto-delete queue")


@each_kind
def test_declared_twice_alike(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    for _ in range(2):
        declare(channel, "q", kind, x_max_length=10, x_message_ttl=60_000, x_dead_letter_exchange="amq.fanout")
    # The width of a number does not matter.
    arguments = {
        "x-queue-type": kind,
        "x-max-length": 10,
        "x-message-ttl": 60_000,
        "x-dead-letter-exchange": "amq.fanout",
    }
    channel.queue_declare("q", durable=True, arguments={**arguments, "x-max-length": pika.compat.long(10)})


def test_an_unknown_argument_is_refused_where_rabbitmq_takes_it_and_does_nothing(peer: Peer) -> None:
    channel = peer.channel()
    if peer.name == "forebay":
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="invalid arg 'x-colour'"):
            declare(channel, "q", x_colour="green")
        channel = peer.channel()
        declare(channel, "q")
    else:
        declare(channel, "q", x_colour="green", x_list=[1, 2])
    put(channel, "q", b"x")
    assert drain(channel, "q") == [b"x"]


def test_a_queue_without_a_type_is_a_classic_one(peer: Peer) -> None:
    channel = peer.channel()
    channel.queue_declare("q", durable=True)
    declare(channel, "q", "classic")
    assert channel.is_open


def test_names_of_255_octets_and_of_any_letters(peer: Peer) -> None:
    channel = peer.channel()
    for name in ("é" * 127, "a b/c#*+.$", "x" * 255):
        channel.queue_declare(name, durable=True)
        put(channel, name, b"x")
        assert drain(channel, name) == [b"x"]
