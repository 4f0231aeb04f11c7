"""Dead letters: where they go, and what their headers say."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Consumer, Message, count, declare, drain, get, put, wait_for_count
from tests.peers.peer import Peer

each_kind = pytest.mark.parametrize("kind", ["classic", "quorum"])


def with_dead_letters(channel: BlockingChannel, kind: str = "classic", **arguments: object) -> None:
    """A queue `q` whose dead letters go over the exchange `dlx` to `dead`."""
    channel.exchange_declare("dlx", "fanout")
    channel.queue_declare("dead", durable=True)
    channel.queue_bind("dead", "dlx")
    declare(channel, "q", kind, x_dead_letter_exchange="dlx", **arguments)


def deaths(found: Message) -> list[dict[str, Any]]:
    """The header x-death without the times, which must be times."""
    entries = [dict(entry) for entry in found.headers["x-death"]]
    for entry in entries:
        assert isinstance(entry.pop("time"), dt.datetime)
    return entries


def marks(found: Message) -> dict[str, Any]:
    """The headers on the first and the last death."""
    return {
        name: value for name, value in found.headers.items() if name.startswith(("x-first-death-", "x-last-death-"))
    }


def death_marks(queue: str, reason: str, exchange: str = "") -> dict[str, str]:
    """These headers after one death."""
    return {
        f"x-{which}-death-{name}": value
        for which in ("first", "last")
        for name, value in (("queue", queue), ("reason", reason), ("exchange", exchange))
    }


@each_kind
def test_what_is_rejected(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    with_dead_letters(channel, kind)
    put(channel, "q", b"x", headers={"mine": 1}, message_id="id", delivery_mode=2)
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    found = get(channel, "dead")
    assert (found.body, found.exchange, found.key, found.redelivered) == (b"x", "dlx", "q", False)
    assert deaths(found) == [{"count": 1, "reason": "rejected", "queue": "q", "exchange": "", "routing-keys": ["q"]}]
    assert marks(found) == death_marks("q", "rejected")
    assert found.headers["mine"] == 1
    assert (found.properties.message_id, found.properties.delivery_mode) == ("id", 2)


@each_kind
def test_what_is_nacked(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    with_dead_letters(channel, kind)
    put(channel, "q", b"1", b"2", b"3")
    tags = [get(channel, "q").tag for _ in range(3)]
    channel.basic_nack(tags[1], multiple=True, requeue=False)
    wait_for_count(channel, "dead", 2)
    assert [deaths(get(channel, "dead"))[0]["reason"] for _ in range(2)] == ["rejected", "rejected"]
    channel.basic_ack(tags[2])
    assert count(channel, "q") == 0


@each_kind
def test_what_expires_in_the_queue(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    with_dead_letters(channel, kind, x_message_ttl=100)
    put(channel, "q", b"x")
    found = get(channel, "dead")
    assert deaths(found) == [{"count": 1, "reason": "expired", "queue": "q", "exchange": "", "routing-keys": ["q"]}]
    assert marks(found) == death_marks("q", "expired")


@each_kind
def test_what_expires_by_itself_keeps_its_expiration_as_a_mark(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    with_dead_letters(channel, kind)
    put(channel, "q", b"x", expiration="100")
    found = get(channel, "dead")
    assert deaths(found) == [
        {
            "count": 1,
            "reason": "expired",
            "queue": "q",
            "exchange": "",
            "routing-keys": ["q"],
            "original-expiration": "100",
        }
    ]
    assert found.properties.expiration is None


@each_kind
def test_what_is_rejected_loses_its_expiration_too(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    with_dead_letters(channel, kind)
    put(channel, "q", b"x", expiration="60000")
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    found = get(channel, "dead")
    assert found.properties.expiration is None
    assert deaths(found)[0]["original-expiration"] == "60000"


@each_kind
def test_what_falls_out_of_a_full_queue(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    with_dead_letters(channel, kind, x_max_length=1)
    put(channel, "q", b"1", b"2")
    found = get(channel, "dead")
    assert (found.body, deaths(found)[0]["reason"]) == (b"1", "maxlen")
    assert marks(found) == death_marks("q", "maxlen")
    assert drain(channel, "q") == [b"2"]


def test_what_was_delivered_too_often(peer: Peer) -> None:
    channel = peer.channel()
    with_dead_letters(channel, "quorum", x_delivery_limit=2)
    put(channel, "q", b"x")
    for _ in range(3):
        channel.basic_reject(get(channel, "q").tag, requeue=True)
    found = get(channel, "dead")
    assert deaths(found)[0]["reason"] == "delivery_limit"
    assert marks(found) == death_marks("q", "delivery_limit")


def test_what_a_full_queue_refuses(peer: Peer) -> None:
    channel = peer.channel(confirms=False)
    with_dead_letters(channel, x_max_length=1, x_overflow="reject-publish-dlx")
    put(channel, "q", b"1", b"2")
    found = get(channel, "dead")
    assert (found.body, deaths(found)[0]["reason"]) == (b"2", "maxlen")
    assert drain(channel, "q") == [b"1"]


@each_kind
def test_another_routing_key(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    channel.exchange_declare("dlx", "direct")
    channel.queue_declare("dead", durable=True)
    channel.queue_bind("dead", "dlx", "buried")
    declare(channel, "q", kind, x_dead_letter_exchange="dlx", x_dead_letter_routing_key="buried")
    put(channel, "q", b"x", headers={"CC": ["elsewhere"]})
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    found = get(channel, "dead")
    assert found.key == "buried"
    # Whether the header CC stays differs between the releases of RabbitMQ; it has no effect any more.
    assert deaths(found)[0]["routing-keys"] == ["q", "elsewhere"]
    assert count(channel, "dead") == 0


@each_kind
def test_the_keys_of_copies(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    channel.exchange_declare("dlx", "direct")
    for key in ("q", "carbon", "blind"):
        channel.queue_declare(f"dead-{key}", durable=True)
        channel.queue_bind(f"dead-{key}", "dlx", key)
    declare(channel, "q", kind, x_dead_letter_exchange="dlx")
    put(channel, "q", b"x", headers={"CC": ["carbon"], "BCC": ["blind"]})
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    found = get(channel, "dead-carbon")
    assert deaths(found)[0]["routing-keys"] == ["q", "carbon"]
    assert found.headers["CC"] == ["carbon"]
    assert "BCC" not in found.headers
    assert get(channel, "dead-q").key == "q"
    # Only RabbitMQ still knows the keys of blind copies, which were told to nobody.
    wait_for_count(channel, "dead-blind", 1 if peer.name == "rabbitmq" else 0)


@each_kind
def test_the_default_exchange_and_a_key_name_a_queue(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    channel.queue_declare("dead", durable=True)
    declare(channel, "q", kind, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    put(channel, "q", b"x")
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    found = get(channel, "dead")
    assert (found.exchange, found.key) == ("", "dead")


@each_kind
def test_a_missing_exchange_takes_nothing(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind, x_dead_letter_exchange="missing")
    put(channel, "q", b"1", b"2")
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    second = get(channel, "q")
    assert second.body == b"2"
    channel.basic_ack(second.tag)
    wait_for_count(channel, "q", 0)


@each_kind
def test_deaths_that_a_client_writes_do_not_count(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    with_dead_letters(channel, kind)
    put(channel, "q", b"x")
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    once = get(channel, "dead", ack=True)
    put(channel, "q", b"x", headers=once.headers)
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    found = get(channel, "dead")
    assert [(entry["queue"], entry["reason"], entry["count"]) for entry in deaths(found)] == [("q", "rejected", 1)]


@each_kind
def test_deaths_in_two_queues_are_listed_newest_first(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    channel.queue_declare("dead", durable=True)
    declare(channel, "second", kind, x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=100)
    declare(channel, "first", kind, x_dead_letter_exchange="", x_dead_letter_routing_key="second")
    put(channel, "first", b"x")
    channel.basic_reject(get(channel, "first").tag, requeue=False)
    found = get(channel, "dead")
    assert [(entry["queue"], entry["reason"]) for entry in deaths(found)] == [
        ("second", "expired"),
        ("first", "rejected"),
    ]
    assert marks(found) == {
        "x-first-death-queue": "first",
        "x-first-death-reason": "rejected",
        "x-first-death-exchange": "",
        "x-last-death-queue": "second",
        "x-last-death-reason": "expired",
        "x-last-death-exchange": "",
    }


@each_kind
def test_a_cycle_of_expiry_ends(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "a", kind, x_dead_letter_exchange="", x_dead_letter_routing_key="b", x_message_ttl=50)
    declare(channel, "b", kind, x_dead_letter_exchange="", x_dead_letter_routing_key="a", x_message_ttl=50)
    declare(channel, "end", kind)
    put(channel, "a", b"x")
    wait_for_count(channel, "a", 0)
    wait_for_count(channel, "b", 0)
    sink = Consumer(channel, "end")
    sink.settle()
    assert (count(channel, "a"), count(channel, "b")) == (0, 0)


@each_kind
def test_a_cycle_with_a_rejection_goes_on(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "work", kind, x_dead_letter_exchange="", x_dead_letter_routing_key="wait")
    declare(channel, "wait", kind, x_dead_letter_exchange="", x_dead_letter_routing_key="work", x_message_ttl=50)
    put(channel, "work", b"x")
    for attempt in range(3):
        found = get(channel, "work")
        counts = {(entry["queue"], entry["reason"]): entry["count"] for entry in found.headers.get("x-death", [])}
        assert counts == ({("work", "rejected"): attempt, ("wait", "expired"): attempt} if attempt else {})
        channel.basic_reject(found.tag, requeue=False)


@each_kind
def test_what_is_purged_or_deleted_is_no_dead_letter(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    with_dead_letters(channel, kind)
    put(channel, "q", b"1", b"2")
    assert channel.queue_purge("q").method.message_count == 2
    put(channel, "q", b"3")
    channel.queue_delete("q")
    with_dead_letters(channel, kind)
    put(channel, "q", b"4")
    channel.basic_reject(get(channel, "q").tag, requeue=False)
    assert get(channel, "dead").body == b"4"
    assert count(channel, "dead") == 0


def test_at_least_once_keeps_what_no_queue_takes(peer: Peer) -> None:
    peer.retry_dead_letters_soon()
    channel = peer.channel()
    channel.exchange_declare("dlx", "direct")
    declare(
        channel,
        "q",
        "quorum",
        x_dead_letter_exchange="dlx",
        x_dead_letter_routing_key="dead",
        x_dead_letter_strategy="at-least-once",
        x_overflow="reject-publish",
        x_message_ttl=50,
    )
    put(channel, "q", b"1", b"2", b"3")
    wait_for_count(channel, "q", 0)
    # They are kept though nobody sees them, and go on when there is a queue.
    channel.queue_declare("dead", durable=True)
    channel.queue_bind("dead", "dlx", "dead")
    wait_for_count(channel, "dead", 3)
    assert sorted(drain(channel, "dead")) == [b"1", b"2", b"3"]
