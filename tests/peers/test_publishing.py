"""Publishing: confirms, returns, copies, transactions, and answers without a queue."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.peers.observe import Consumer, Refusal, count, declare, drain, get, put, refused
from tests.peers.peer import Peer
from tests.waiting import until

each_kind = pytest.mark.parametrize("kind", ["classic", "quorum"])
REPLY_TO = "amq.rabbitmq.reply-to"


def confirms_of(channel: BlockingChannel, calls: list[tuple[str, str]]) -> tuple[list[int], list[int]]:
    """Publish with mandatory to (exchange, key)s without waiting; the delivery tags acked and nacked, in any order."""
    acked: set[int] = set()
    nacked: set[int] = set()

    def note(frame: Any) -> None:
        method = frame.method
        target = acked if isinstance(method, pika.spec.Basic.Ack) else nacked
        first = 1 if method.multiple else method.delivery_tag
        target.update(set(range(first, method.delivery_tag + 1)) - acked - nacked)

    channel._impl.confirm_delivery(note)
    for exchange, key in calls:
        channel._impl.basic_publish(exchange, key, b"x")
    until(lambda: channel.connection.process_data_events(0.05) or len(acked | nacked) == len(calls), "all confirms")
    return sorted(acked), sorted(nacked)


def test_confirms_are_numbered_from_1(peer: Peer) -> None:
    channel = peer.channel(confirms=False)
    declare(channel, "q")
    channel.basic_publish("", "q", b"before confirms")
    assert confirms_of(channel, [("", "q")] * 5) == ([1, 2, 3, 4, 5], [])
    assert count(channel, "q") == 6


def test_a_nack_has_the_number_of_what_was_refused(peer: Peer) -> None:
    channel = peer.channel(confirms=False)
    declare(channel, "q")
    declare(channel, "full", x_max_length=1, x_overflow="reject-publish")
    acked, nacked = confirms_of(channel, [("", "full"), ("", "q"), ("", "full"), ("", "q"), ("", "full")])
    assert (acked, nacked) == ([1, 2, 4], [3, 5])


def test_a_return_tells_why_and_comes_before_the_confirm(peer: Peer) -> None:
    channel = peer.channel(confirms=False)
    events: list[tuple[object, ...]] = []
    channel._impl.add_on_return_callback(
        lambda _channel, method, properties, body: events.append(
            (method.reply_code, method.reply_text, method.exchange, method.routing_key, properties.message_id, body)
        )
    )
    channel._impl.confirm_delivery(lambda frame: events.append((frame.method.NAME, frame.method.delivery_tag)))
    properties = pika.BasicProperties(message_id="id")
    channel._impl.basic_publish("amq.direct", "nowhere", b"x", properties, mandatory=True)
    until(lambda: channel.connection.process_data_events(0.05) or len(events) == 2, "a return and a confirm")
    assert events == [(312, "NO_ROUTE", "amq.direct", "nowhere", "id", b"x"), ("Basic.Ack", 1)]


def test_what_cannot_be_routed_and_need_not_is_confirmed(peer: Peer) -> None:
    channel = peer.channel(confirms=False)
    assert confirms_of(channel, [("amq.direct", "nowhere")] * 2) == ([1, 2], [])


@each_kind
def test_all_properties_and_field_types_come_back(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    headers = {
        "text": "é",
        "octets": b"\x00\xff",
        "small": 5,
        "negative": -7,
        "long": 1 << 40,
        "yes": True,
        "no": False,
        "nothing": None,
        "decimal": decimal.Decimal("3.14"),
        "time": dt.datetime(2024, 2, 29, 12, 30, tzinfo=dt.UTC),
        "list": [1, "a", [True, None], {"b": 2}],
        "table": {"inner": {"deep": [1, 2]}},
    }
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="utf-8",
        headers=headers,
        delivery_mode=2,
        priority=3,
        correlation_id="corr",
        reply_to="answers",
        expiration="60000",
        message_id="id",
        timestamp=1_700_000_000,
        type="kind",
        user_id="guest",
        app_id="app",
    )
    channel.basic_publish("", "q", b"x", sent)
    found = get(channel, "q")
    assert vars(found.properties) == vars(sent)


@each_kind
def test_bodies_of_every_length(peer: Peer, kind: str) -> None:
    channel = peer.channel()
    declare(channel, "q", kind)
    lengths = [0, 1, 131_064, 131_065, 262_128, 262_129, 3_000_000]
    put(channel, "q", *(bytes([length % 251]) * length for length in lengths))
    assert [len(body) for body in drain(channel, "q")] == lengths


def test_copies_and_blind_copies(peer: Peer) -> None:
    channel = peer.channel()
    for queue in ("to", "carbon", "blind"):
        declare(channel, queue)
    put(channel, "to", b"x", headers={"CC": ["carbon"], "BCC": ["blind"], "mine": 1})
    for queue in ("to", "carbon", "blind"):
        found = get(channel, queue)
        assert (found.key, found.headers) == ("to", {"CC": ["carbon"], "mine": 1})


def test_copies_by_an_exchange_come_once(peer: Peer) -> None:
    channel = peer.channel()
    channel.exchange_declare("x", "topic")
    declare(channel, "q")
    channel.queue_bind("q", "x", "a.*")
    channel.basic_publish("x", "a.1", b"x", pika.BasicProperties(headers={"CC": ["a.2", "a.3"]}))
    assert drain(channel, "q") == [b"x"]


def test_a_copy_makes_a_message_routed(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "carbon")
    channel.basic_publish("", "nowhere", b"x", pika.BasicProperties(headers={"CC": ["carbon"]}), mandatory=True)
    assert drain(channel, "carbon") == [b"x"]


def test_a_user_id_of_ones_own(peer: Peer) -> None:
    channel = peer.channel()
    declare(channel, "q")
    put(channel, "q", b"x", user_id="guest")
    assert get(channel, "q").properties.user_id == "guest"


# ---- transactions


@each_kind
def test_a_commit_publishes(peer: Peer, kind: str) -> None:
    channel = peer.channel(confirms=False)
    observer = peer.channel()
    declare(channel, "q", kind)
    channel.tx_select()
    put(channel, "q", b"1", b"2")
    assert count(channel, "q") == 0
    channel.tx_commit()
    assert drain(observer, "q") == [b"1", b"2"]


@each_kind
def test_a_rollback_publishes_nothing(peer: Peer, kind: str) -> None:
    channel = peer.channel(confirms=False)
    declare(channel, "q", kind)
    channel.tx_select()
    put(channel, "q", b"1")
    channel.tx_rollback()
    put(channel, "q", b"2")
    channel.tx_commit()
    assert drain(channel, "q") == [b"2"]


@each_kind
def test_acks_are_part_of_a_transaction(peer: Peer, kind: str) -> None:
    channel = peer.channel(confirms=False)
    declare(channel, "q", kind)
    put(channel, "q", b"1", b"2")
    until(lambda: count(channel, "q") == 2, "both messages")
    worker = peer.channel(confirms=False)
    worker.tx_select()
    tags = [get(worker, "q").tag for _ in range(2)]
    worker.basic_ack(tags[0])
    worker.tx_commit()
    worker.basic_ack(tags[1])
    worker.connection.close()  # the second ack was never committed
    until(lambda: count(channel, "q") == 1, "one message")
    assert drain(channel, "q") == [b"2"]


def test_a_rolled_back_ack_may_be_given_again(peer: Peer) -> None:
    channel = peer.channel(confirms=False)
    declare(channel, "q")
    channel.tx_select()
    put(channel, "q", b"1")
    channel.tx_commit()
    tag = get(channel, "q").tag
    channel.basic_ack(tag)
    channel.tx_rollback()
    channel.basic_ack(tag)
    channel.tx_commit()
    channel.connection.close()
    assert count(peer.channel(), "q") == 0


def test_what_is_returned_comes_before_the_commit_is_done(peer: Peer) -> None:
    channel = peer.channel(confirms=False)
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _channel, _method, _properties, body: returned.append(body))
    channel.tx_select()
    channel.basic_publish("", "nowhere", b"x", mandatory=True)
    channel.connection.process_data_events(0.2)
    assert returned == []
    channel.tx_commit()
    channel.connection.process_data_events(0)
    assert returned == [b"x"]


def test_no_confirms_on_a_channel_with_transactions(peer: Peer) -> None:
    channel = peer.channel(confirms=False)
    channel.tx_select()
    channel.tx_select()  # once more is no error
    expected = Refusal("channel", 406, "PRECONDITION_FAILED - cannot switch from tx to confirm mode")
    assert refused(channel, lambda made: made.confirm_delivery()) == expected


# ---- answers without a queue


def test_a_request_and_its_answer(peer: Peer) -> None:
    server, client = peer.channel(), peer.channel()
    declare(server, "requests")
    answers = Consumer(client, REPLY_TO, no_ack=True)
    put(client, "requests", b"ping", reply_to=REPLY_TO, correlation_id="1")
    request = get(server, "requests")
    address = request.properties.reply_to
    assert address.startswith(f"{REPLY_TO}.")
    properties = pika.BasicProperties(correlation_id=request.properties.correlation_id)
    server.basic_publish("", address, b"pong", properties)
    found = answers.wait(1)[0]
    assert (found.body, found.exchange, found.key, found.properties.correlation_id) == (b"pong", "", address, "1")


def test_an_answer_to_somebody_who_left(peer: Peer) -> None:
    server, client = peer.channel(), peer.channel()
    declare(server, "requests")
    Consumer(client, REPLY_TO, no_ack=True)
    put(client, "requests", b"ping", reply_to=REPLY_TO)
    address = get(server, "requests").properties.reply_to
    assert server.queue_declare(address, passive=True).method.consumer_count == 1
    client.connection.close()
    with pytest.raises(pika.exceptions.UnroutableError):
        server.basic_publish("", address, b"pong", mandatory=True)
    expected = Refusal("channel", 404, f"NOT_FOUND - no queue '{address}' in vhost '{peer.vhost}'")
    assert refused(server, lambda made: made.queue_declare(address, passive=True)) == expected


def test_the_pseudo_queue_of_answers_is_there_to_be_asked_for(peer: Peer) -> None:
    channel = peer.channel()
    assert channel.queue_declare(REPLY_TO, passive=True).method.queue == REPLY_TO
