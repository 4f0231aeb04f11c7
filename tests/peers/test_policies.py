"""Policies: what they change, on whom, and who wins."""

from __future__ import annotations

import pika.exceptions
import pytest

from tests.peers.observe import Consumer, count, declare, drain, get, put, wait_for_count
from tests.peers.peer import Peer
from tests.waiting import until

each_kind = pytest.mark.parametrize("kind", ["classic", "quorum"])


@each_kind
def test_a_policy_holds_for_queues_that_are_there_and_that_come(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "jobs-1", kind)
    put(channel, "jobs-1", b"1", b"2", b"3")
    peer.set_policy("short", "^jobs-", {"max-length": 2})
    declare(channel, "jobs-2", kind)
    declare(channel, "other", kind)
    for queue in ("jobs-2", "other"):
        put(channel, queue, b"1", b"2", b"3")
    wait_for_count(channel, "jobs-2", 2)
    assert count(channel, "other") == 3
    put(channel, "jobs-1", b"4")
    wait_for_count(channel, "jobs-1", 2)
    assert drain(channel, "jobs-1") == [b"3", b"4"]


@each_kind
def test_a_cleared_policy_holds_no_more(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    peer.set_policy("short", ".*", {"max-length": 1})
    put(channel, "q", b"1", b"2")
    wait_for_count(channel, "q", 1)
    peer.delete_policy("short")

    def holds_more() -> bool:
        put(channel, "q", b"x")
        return count(channel, "q") > 2

    until(holds_more, "a queue without a limit")


@each_kind
def test_an_argument_goes_before_a_policy(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    peer.set_policy("short", ".*", {"max-length": 1, "message-ttl": 100})
    declare(channel, "q", kind, x_max_length=3)
    put(channel, "q", b"1", b"2", b"3")
    # What the argument does not say, the policy says.
    wait_for_count(channel, "q", 0)


def test_an_operator_policy_goes_before_an_argument_where_it_is_lower(peer: Peer) -> None:
    channel = peer.channel()
    peer.set_policy("limit", ".*", {"max-length": 3}, operator=True)
    peer.set_policy("user", ".*", {"max-length": 100})
    declare(channel, "more", x_max_length=5)
    declare(channel, "fewer", x_max_length=2)
    declare(channel, "none")
    for queue in ("more", "fewer", "none"):
        put(channel, queue, b"1", b"2", b"3", b"4", b"5", b"6")
    assert [count(channel, queue) for queue in ("more", "fewer", "none")] == [3, 2, 3]


def test_the_highest_priority_wins_alone(peer: Peer) -> None:
    channel = peer.channel()
    peer.set_policy("low", ".*", {"max-length": 1, "message-ttl": 100}, priority=1)
    peer.set_policy("high", "^q", {"max-length": 2}, priority=5)
    declare(channel, "q")
    put(channel, "q", b"1", b"2", b"3")
    assert count(channel, "q") == 2
    sink = Consumer(channel, "q", no_ack=True)
    assert sink.bodies(2) == [b"2", b"3"]


def test_a_policy_for_one_type_of_queue(peer: Peer) -> None:
    channel = peer.channel()
    peer.set_policy("short", ".*", {"max-length": 1}, apply_to="quorum_queues")
    declare(channel, "classic")
    declare(channel, "quorum", "quorum")
    for queue in ("classic", "quorum"):
        put(channel, queue, b"1", b"2")
    wait_for_count(channel, "quorum", 1)
    assert count(channel, "classic") == 2


@each_kind
def test_dead_letters_by_a_policy(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "dead")
    declare(channel, "q", kind)
    peer.set_policy("dead", "^q$", {"dead-letter-exchange": "", "dead-letter-routing-key": "dead"})
    put(channel, "q", b"x")
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    assert get(channel, "dead").headers["x-first-death-queue"] == "q"


def test_an_alternate_exchange_by_a_policy(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("x", "direct")
    declare(channel, "rest")
    channel.queue_bind("rest", "amq.fanout")
    with pytest.raises(pika.exceptions.UnroutableError):
        channel.basic_publish("x", "k", b"1", mandatory=True)
    peer.set_policy("rest", "^x$", {"alternate-exchange": "amq.fanout"}, apply_to="exchanges")
    channel.basic_publish("x", "k", b"2", mandatory=True)
    assert drain(channel, "rest") == [b"2"]


def test_refused_publishes_by_a_policy(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    peer.set_policy("full", "^q$", {"max-length": 1, "overflow": "reject-publish"})
    put(channel, "q", b"1")
    with pytest.raises(pika.exceptions.NackError):
        put(channel, "q", b"2")


def test_a_delivery_limit_by_a_policy(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q", "quorum")
    peer.set_policy("patience", "^q$", {"delivery-limit": 1})
    put(channel, "q", b"x")
    for _ in range(2):
        channel.basic_reject(get(channel, "q").tag, requeue=True)
    wait_for_count(channel, "q", 0)
    assert channel.basic_get("q")[0] is None


@pytest.mark.parametrize(
    "definition",
    [{"max-lenght": 1}, {"max-length": -1}, {"max-length": "many"}, {"overflow": "burst"}, {"expires": 0}, {}],
)
def test_a_policy_that_makes_no_sense_is_refused(peer: Peer, definition: dict[str, object]) -> None:
    assert peer.is_policy_refused("bad", ".*", definition)


def test_a_pattern_that_is_no_regular_expression_is_refused(peer: Peer) -> None:
    assert peer.is_policy_refused("bad", "(", {"max-length": 1})
