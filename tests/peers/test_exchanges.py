"""Exchanges and bindings: what goes where."""

from __future__ import annotations

from collections.abc import Sequence

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Refusal, count, declare, drain, refused
from tests.peers.peer import Peer


def bound(channel: BlockingChannel, exchange: str, **keys: str) -> None:
    """A queue for each name, bound with the key."""
    for queue, key in keys.items():
        declare(channel, queue)
        channel.queue_bind(queue, exchange, key)


def taken(channel: BlockingChannel, queues: Sequence[str]) -> dict[str, list[bytes]]:
    return {queue: drain(channel, queue) for queue in queues}


def has_exchange(peer: Peer, name: str) -> bool:
    connection = peer.connect()
    try:
        connection.channel().exchange_declare(name, passive=True)
    except pika.exceptions.ChannelClosedByBroker:
        return False
    finally:
        connection.close()
    return True


def test_direct(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("x", "direct")
    bound(channel, "x", red="red", also="red", blue="blue")
    channel.basic_publish("x", "red", b"1")
    channel.basic_publish("x", "green", b"2")
    assert taken(channel, ["red", "also", "blue"]) == {"red": [b"1"], "also": [b"1"], "blue": []}


def test_fanout(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("x", "fanout")
    bound(channel, "x", a="", b="whatever")
    channel.basic_publish("x", "any", b"1")
    assert taken(channel, ["a", "b"]) == {"a": [b"1"], "b": [b"1"]}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a.b.c", "abc star_c hash a_hash hash_c"),
        ("a", "hash a_hash"),
        ("", "hash empty"),
        ("a.b", "hash a_hash star_b"),
        ("b.c", "hash hash_c"),
        ("c", "hash hash_c"),
        ("a..c", "hash a_hash hash_c star_c"),
        ("a.b.b.c", "hash a_hash hash_c"),
    ],
)
def test_topic(peer: Peer, key: str, expected: str) -> None:
    channel = peer.channel()
    channel.exchange_declare("x", "topic")
    patterns = {
        "abc": "a.b.c",
        "star_c": "a.*.c",
        "hash": "#",
        "a_hash": "a.#",
        "hash_c": "#.c",
        "star_b": "*.b",
        "empty": "",
    }
    bound(channel, "x", **patterns)
    channel.basic_publish("x", key, b"1")
    assert sorted(queue for queue in patterns if drain(channel, queue)) == sorted(expected.split())


@pytest.mark.parametrize(
    ("match", "headers", "expected"),
    [
        ("all", {"a": 1, "b": "x"}, True),
        ("all", {"a": 1, "b": "x", "c": 3}, True),
        ("all", {"a": 1}, False),
        ("all", {"a": 1, "b": "y"}, False),
        ("any", {"a": 1, "b": "y"}, True),
        ("any", {"a": 2, "b": "y"}, False),
        ("any", {}, False),
        ("all-with-x", {"a": 1, "b": "x"}, False),
        ("all-with-x", {"a": 1, "b": "x", "x-c": 3}, True),
        ("any-with-x", {"x-c": 3}, True),
        ("any", {"x-c": 3}, False),
        ("all", {"a": True, "b": "x"}, False),
        ("all", {"a": "1", "b": "x"}, False),
    ],
)
def test_headers(peer: Peer, match: str, headers: dict[str, object], expected: bool) -> None:
    channel = peer.channel()
    declare(channel, "q")
    channel.queue_bind("q", "amq.headers", "", {"x-match": match, "a": 1, "b": "x", "x-c": 3})
    channel.basic_publish("amq.headers", "", b"1", pika.BasicProperties(headers=headers))
    assert drain(channel, "q") == ([b"1"] if expected else [])


def test_a_header_without_a_value_need_only_be_there(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    channel.queue_bind("q", "amq.match", "", {"x-match": "all", "a": None})
    for headers in ({"a": 5}, {"b": 5}):
        channel.basic_publish("amq.match", "", b"1", pika.BasicProperties(headers=headers))
    assert drain(channel, "q") == [b"1"]


def test_the_default_exchange_reaches_every_queue_by_its_name(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    channel.basic_publish("", "q", b"1", mandatory=True)
    assert drain(channel, "q") == [b"1"]


def test_a_queue_bound_twice_gets_a_message_once(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("x", "topic")
    declare(channel, "q")
    for pattern in ("a.*", "*.b", "#"):
        channel.queue_bind("q", "x", pattern)
    channel.basic_publish("x", "a.b", b"1")
    assert drain(channel, "q") == [b"1"]


def test_unbind(peer: Peer) -> None:
    channel = peer.channel()
    bound(channel, "amq.direct", q="key")
    channel.queue_unbind("q", "amq.direct", "another")  # there is none: no error
    channel.queue_unbind("q", "amq.direct", "key")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("amq.direct", "key", b"1", mandatory=True)


def test_an_empty_name_is_the_last_queue_declared(peer: Peer) -> None:
    channel = peer.channel()
    name = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind("", "amq.direct", "")
    channel.basic_publish("amq.direct", name, b"1", mandatory=True)  # queue and key empty: the key is its name
    assert channel.basic_get("", auto_ack=True)[2] == b"1"


def test_an_auto_delete_exchange_goes_with_its_last_binding(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("x", "direct", auto_delete=True)
    assert has_exchange(peer, "x")
    bound(channel, "x", a="a", b="b")
    channel.queue_unbind("a", "x", "a")
    assert has_exchange(peer, "x")
    channel.queue_delete("b")
    assert not has_exchange(peer, "x")


def test_a_deleted_exchange_takes_its_bindings_along(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("x", "direct")
    bound(channel, "x", q="q")
    channel.exchange_delete("x")
    channel.exchange_delete("x")  # there is none: no error
    channel.exchange_declare("x", "direct")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("x", "q", b"1", mandatory=True)


# ---- between exchanges


def test_an_exchange_bound_to_another(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("outer", "topic")
    channel.exchange_declare("inner", "direct")
    channel.exchange_bind("inner", "outer", "a.#")
    bound(channel, "inner", q="a.b")
    for key in ("a.b", "a.c", "b"):
        channel.basic_publish("outer", key, key.encode())
    assert drain(channel, "q") == [b"a.b"]
    channel.exchange_unbind("inner", "outer", "a.#")
    channel.basic_publish("outer", "a.b", b"1")
    assert count(channel, "q") == 0


def test_two_ways_and_a_circle_bring_a_message_once(peer: Peer) -> None:
    channel = peer.channel()
    for exchange in ("a", "b", "c"):
        channel.exchange_declare(exchange, "fanout")
    for source, destination in (("a", "b"), ("a", "c"), ("b", "c"), ("c", "a")):
        channel.exchange_bind(destination, source)
    for exchange in ("b", "c"):
        declare(channel, "q")
        channel.queue_bind("q", exchange)
    channel.basic_publish("a", "", b"1")
    assert drain(channel, "q") == [b"1"]


def test_an_auto_delete_exchange_that_is_a_source(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("source", "fanout", auto_delete=True)
    channel.exchange_declare("sink", "fanout")
    channel.exchange_bind("sink", "source")
    channel.exchange_delete("sink")
    assert not has_exchange(peer, "source")


def test_an_internal_exchange_is_reached_by_another(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("inner", "fanout", internal=True)
    channel.exchange_bind("inner", "amq.fanout")
    bound(channel, "inner", q="")
    channel.basic_publish("amq.fanout", "", b"1")
    assert drain(channel, "q") == [b"1"]


# ---- alternate exchanges


def test_an_alternate_exchange_takes_what_nobody_takes(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("rest", "fanout")
    bound(channel, "rest", lost="")
    channel.exchange_declare("x", "direct", arguments={"alternate-exchange": "rest"})
    bound(channel, "x", q="known")
    channel.basic_publish("x", "known", b"1", mandatory=True)
    channel.basic_publish("x", "unknown", b"2", mandatory=True)
    assert taken(channel, ["q", "lost"]) == {"q": [b"1"], "lost": [b"2"]}


def test_alternate_exchanges_of_alternate_exchanges_and_a_circle(peer: Peer) -> None:
    channel = peer.channel()
    for name, other in (("a", "b"), ("b", "c"), ("c", "a")):
        channel.exchange_declare(name, "direct", arguments={"alternate-exchange": other})
    bound(channel, "c", q="key")
    channel.basic_publish("a", "key", b"1", mandatory=True)
    assert drain(channel, "q") == [b"1"]
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("a", "nowhere", b"2", mandatory=True)


def test_an_alternate_exchange_that_is_missing(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("x", "direct", arguments={"alternate-exchange": "missing"})
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("x", "key", b"1", mandatory=True)


# ---- by hash


def test_a_consistent_hash_spreads_by_weight_and_keeps_to_a_queue(peer: Peer) -> None:
    peer.need_consistent_hash()
    channel = peer.channel()
    channel.exchange_declare("x", "x-consistent-hash")
    bound(channel, "x", light="1", heavy="3")
    keys = [f"key-{number}" for number in range(400)]
    for _ in range(2):
        for key in keys:
            channel.basic_publish("x", key, key.encode(), mandatory=True)
    found = taken(channel, ["light", "heavy"])
    assert {len(bodies) for bodies in found.values()} != {0}
    light, heavy = set(found["light"]), set(found["heavy"])
    assert light.isdisjoint(heavy)
    assert len(light) + len(heavy) == len(keys)
    assert 1.5 < len(heavy) / len(light) < 6


def test_a_consistent_hash_of_a_header(peer: Peer) -> None:
    peer.need_consistent_hash()
    channel = peer.channel()
    channel.exchange_declare("x", "x-consistent-hash", arguments={"hash-header": "customer"})
    bound(channel, "x", a="10", b="10")
    for number in range(100):
        properties = pika.BasicProperties(headers={"customer": f"c{number % 10}"})
        channel.basic_publish("x", str(number), b"c%d" % (number % 10), properties)
    found = taken(channel, ["a", "b"])
    assert set(found["a"]).isdisjoint(found["b"])
    assert len(found["a"]) + len(found["b"]) == 100


def test_a_consistent_hash_needs_weights(peer: Peer) -> None:
    peer.need_consistent_hash()
    channel = peer.channel()
    channel.exchange_declare("x", "x-consistent-hash")
    declare(channel, "q")
    expected = Refusal("channel", 406, 'PRECONDITION_FAILED - The binding key must be an integer: <<"heavy">>')
    assert refused(channel, lambda made: made.queue_bind("q", "x", "heavy")) == expected
