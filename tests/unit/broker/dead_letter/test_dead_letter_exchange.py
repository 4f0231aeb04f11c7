"""What dies in a queue with a dead-letter exchange: where it goes, what it says, what stays and what is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.dead_letter import dead_letters
from forebay.broker.mqtt.client_session import Subscription
from forebay.core.errors import REFUSED, RequestError
from forebay.core.message import ACCEPTED, MQTT, REJECTED, Properties
from forebay.message.rendered import rendered_at
from forebay.queue.queue import Queue
from forebay.wire.amqp091 import properties as amqp
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX
from forebay.wire.mqtt.properties import CONTENT_TYPE, Property, encode_properties
from tests.vhosts import EMPTY, OneVhost

TIME_S = 1_700_000_000


def encoded(*headers: tuple[str, object], expiration_ms: int | None = None) -> bytes:
    said = Properties()
    said.durable = False
    said.headers = list(headers)
    said.expiration_ms = expiration_ms
    return amqp.encode_properties(said)


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    broker = OneVhost(tmp_path / "data")
    broker.declare(b"dead")
    return broker


def reject(broker: OneVhost, queue: bytes) -> None:
    """Reject the record that is next."""
    lease = broker.taken(queue)
    broker.vhost.settling.reject(lease, lease.first, 1)
    broker.settle()


def last(broker: OneVhost, name: bytes) -> tuple[bytes, bytes, Properties, bytes]:
    """The address, the properties and the body of the newest record of a queue."""
    log = broker.vhost.catalog.queue(name).log
    block = log.block(log.end - 1)
    assert block is not None
    at = block.count - 1
    properties = rendered_at(block, at)
    amqp.check_properties(properties, TABLE_DEPTH_MAX)
    said = amqp.decode_properties(properties, TABLE_DEPTH_MAX)
    return block.exchange(at), block.routing_key(at), said, block.body(at)


def deaths(broker: OneVhost, name: bytes) -> list[dict[str, object]]:
    """`x-death` of the newest record of a queue."""
    found = last(broker, name)[2].header("x-death")
    assert isinstance(found, list)
    return found


def group_of(broker: OneVhost, name: bytes) -> int:
    group = broker.vhost.catalog.queue(name).find_group(b"")
    assert group is not None
    return int(group.id)


def test_what_is_rejected_goes_on_and_says_where_it_was(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.vhost.catalog.bind(b"q", b"amq.direct", b"k", {})
    broker.publish(b"amq.direct", b"k", b"0", encoded(("colour", "red")))
    reject(broker, b"q")
    exchange, key, said, body = last(broker, b"dead")
    assert (exchange, key, body) == (b"", b"dead", b"0")
    headers = dict(said.headers)
    assert headers.pop("x-death") == [
        {
            "count": 1,
            "reason": "rejected",
            "queue": "q",
            "time": TIME_S,
            "exchange": "amq.direct",
            "routing-keys": ["k"],
        }
    ]
    queue = broker.vhost.catalog.queue(b"q")
    assert headers == {
        "colour": "red",
        "x-first-death-reason": "rejected",
        "x-first-death-queue": "q",
        "x-first-death-exchange": "amq.direct",
        "x-last-death-reason": "rejected",
        "x-last-death-queue": "q",
        "x-last-death-exchange": "amq.direct",
        "dlq-id": f"{queue.id}-{group_of(broker, b'q')}-0",
        "dlq-queue": "q",
        "dlq-offset": 0,
        "dlq-reason": "rejected",
        "dlq-deliveries": 1,
        "dlq-time-ms": TIME_S * 1000,
    }
    assert broker.kept(b"q") == []


def test_what_expires_loses_its_expiration_and_tells_it(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.publish(b"", b"q", b"0", encoded(expiration_ms=50))
    broker.settle()
    broker.later(60)
    assert last(broker, b"dead")[2].expiration_ms is None
    assert [(each["reason"], each["original-expiration"]) for each in deaths(broker, b"dead")] == [("expired", "50")]


def test_what_is_one_too_many_goes_on_oldest_first(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_max_length=2)
    for number in range(5):
        broker.publish(b"", b"q", b"%d" % number)
    broker.settle()
    assert (broker.kept(b"q"), broker.kept(b"dead")) == ([b"3", b"4"], [b"0", b"1", b"2"])
    assert [each["reason"] for each in deaths(broker, b"dead")] == ["maxlen"]


def test_what_failed_too_often_goes_on(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_delivery_limit=1)
    broker.publish(b"", b"q", b"0")
    broker.settle()
    for _ in range(2):
        lease = broker.taken(b"q")
        broker.vhost.settling.nack(lease, lease.first, 1, 0)
        broker.settle()
    assert [each["reason"] for each in deaths(broker, b"dead")] == ["delivery_limit"]
    assert last(broker, b"dead")[2].header("dlq-deliveries") == 2


def test_without_a_key_of_the_queue_it_keeps_its_own_and_those_of_cc(broker: OneVhost) -> None:
    for name in (b"dead", b"other"):
        broker.declare(name)
        broker.vhost.catalog.bind(name, b"amq.direct", name, {})
    broker.declare(b"q", x_dead_letter_exchange="amq.direct")
    broker.vhost.catalog.bind(b"q", b"amq.fanout", b"", {})
    broker.publish(b"amq.fanout", b"dead", b"0", encoded(("CC", ["other"])))
    reject(broker, b"q")
    for name in (b"dead", b"other"):
        exchange, key, said, _ = last(broker, name)
        assert (exchange, key, said.header("CC")) == (b"amq.direct", b"dead", ["other"])
    assert deaths(broker, b"dead")[0]["routing-keys"] == ["dead", "other"]


def test_a_key_of_the_queue_replaces_those_of_cc_too(broker: OneVhost) -> None:
    broker.declare(b"other")
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.vhost.catalog.bind(b"q", b"amq.fanout", b"", {})
    broker.publish(b"amq.fanout", b"k", b"0", encoded(("CC", ["other"])))
    reject(broker, b"q")
    assert (broker.kept(b"dead"), broker.kept(b"other")) == ([b"0"], [])
    assert last(broker, b"dead")[2].header("CC") is None
    assert deaths(broker, b"dead")[0]["routing-keys"] == ["k", "other"]


def test_a_headers_exchange_goes_by_the_headers(broker: OneVhost) -> None:
    broker.vhost.catalog.bind(b"dead", b"amq.headers", b"", {"x-match": "all", "colour": "red"})
    broker.declare(b"q", x_dead_letter_exchange="amq.headers")
    broker.publish(b"", b"q", b"red", encoded(("colour", "red")))
    broker.publish(b"", b"q", b"blue", encoded(("colour", "blue")))
    broker.settle()
    reject(broker, b"q")
    reject(broker, b"q")
    assert broker.kept(b"dead") == [b"red"]
    assert (broker.vhost.dead_letters.moved, broker.vhost.dead_letters.dropped) == (1, 1)


def test_an_internal_exchange_is_as_good_as_any(broker: OneVhost) -> None:
    broker.vhost.catalog.declare_exchange(b"inner", b"fanout", True, False, True, {})
    broker.vhost.catalog.bind(b"dead", b"inner", b"", {})
    broker.declare(b"q", x_dead_letter_exchange="inner")
    broker.publish(b"", b"q", b"0")
    broker.settle()
    reject(broker, b"q")
    assert broker.kept(b"dead") == [b"0"]


def test_an_exchange_that_is_not_there_takes_nothing(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="none")
    broker.publish(b"", b"q", b"0")
    broker.settle()
    reject(broker, b"q")
    assert broker.kept(b"q") == []
    assert broker.vhost.dead_letters.dropped == 1


def test_what_comes_round_without_a_rejection_is_gone(broker: OneVhost) -> None:
    broker.declare(b"a", x_dead_letter_exchange="", x_dead_letter_routing_key="b", x_message_ttl=10)
    broker.declare(b"b", x_dead_letter_exchange="", x_dead_letter_routing_key="a", x_message_ttl=10)
    broker.publish(b"", b"a", b"0")
    broker.settle()
    broker.later(20)
    assert (broker.kept(b"a"), broker.kept(b"b")) == ([], [b"0"])
    broker.later(20)
    assert (broker.kept(b"a"), broker.kept(b"b")) == ([], [])
    assert broker.vhost.dead_letters.dropped == 1


def test_what_is_rejected_may_come_round_for_ever(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="")
    broker.publish(b"", b"q", b"0")
    broker.settle()
    for _ in range(3):
        reject(broker, b"q")
    assert broker.kept(b"q") == [b"0"]
    assert [(each["count"], each["time"]) for each in deaths(broker, b"q")] == [(3, TIME_S)]


def test_a_message_published_again_starts_anew(broker: OneVhost) -> None:
    """The x-death of a client counts for nothing, and hides no circle."""
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.publish(b"", b"q", b"0")
    broker.settle()
    reject(broker, b"q")
    broker.publish(b"", b"q", b"1", amqp.encode_properties(last(broker, b"dead")[2]))
    broker.settle()
    reject(broker, b"q")
    assert [(each["queue"], each["count"]) for each in deaths(broker, b"dead")] == [("q", 1)]


def test_what_came_over_mqtt_goes_on_as_amqp(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.vhost.catalog.bind(b"q", b"amq.topic", b"a.b", {})
    properties = encode_properties([Property(CONTENT_TYPE, 0, b"text/plain", b"")])
    broker.vhost.publishing.publish(broker.vhost.router.route_topic(b"a/b", None), MQTT | 16, properties, b"0")
    broker.settle()
    reject(broker, b"q")
    assert last(broker, b"dead")[2].content_type == "text/plain"
    assert [(each["exchange"], each["routing-keys"]) for each in deaths(broker, b"dead")] == [("amq.topic", ["a.b"])]


def test_a_reject_of_mqtt_goes_to_the_exchange_with_its_reason(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    broker.publish(b"", b"q", b"0")
    lease = broker.held(b"q")
    broker.vhost.dead_letters.reject(lease, 0, b"no such account")
    broker.settle()
    said = last(broker, b"dead")[2]
    assert (said.header("dlq-reason"), said.header("x-last-death-reason")) == ("no such account", "rejected")
    assert b"$dlq/q" not in broker.vhost.catalog.queues
    assert broker.kept(b"q") == []


def test_a_key_that_names_a_dead_letter_queue_makes_it(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="$dlq/all")
    broker.publish(b"", b"q", b"0")
    broker.settle()
    reject(broker, b"q")
    assert broker.kept(b"$dlq/all") == [b"0"]
    assert broker.vhost.catalog.queue(b"$dlq/all").log.durable


@pytest.mark.parametrize("key", ["$dlq/" + "x" * 300, "$queue/", "$dlq/" + "y" * 250, "k" * 400])
def test_an_address_that_nothing_can_have_takes_nothing(broker: OneVhost, key: str) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key=key)
    broker.publish(b"", b"q", b"0")
    broker.settle()
    reject(broker, b"q")
    assert broker.kept(b"q") == []


def test_a_key_that_is_too_long_for_amqp_is_cut(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="amq.fanout", x_dead_letter_routing_key="k" * 300)
    broker.vhost.catalog.bind(b"dead", b"amq.fanout", b"", {})
    broker.publish(b"", b"q", b"0")
    broker.settle()
    reject(broker, b"q")
    assert last(broker, b"dead")[1] == b"k" * 255


# ---- at least once


def keeping(broker: OneVhost, **arguments: object) -> Queue:
    """The queue `q`, whose dead letters are for `dead` at least once."""
    broker.declare(
        b"q",
        x_dead_letter_exchange="amq.direct",
        x_dead_letter_strategy="at-least-once",
        x_overflow="reject-publish",
        x_message_ttl=10,
        **arguments,
    )
    return broker.vhost.catalog.queue(b"q")


def test_what_leads_nowhere_stays_until_it_leads_somewhere(broker: OneVhost) -> None:
    keeping(broker)
    broker.publish(b"", b"q", b"0")
    broker.settle()
    broker.later(20)
    assert broker.kept(b"q") == [b"0"]
    assert broker.vhost.consumers.get(b"q", 1, 1, False) is None
    broker.vhost.catalog.bind(b"dead", b"amq.direct", b"q", {})
    broker.later(1100)
    assert (broker.kept(b"q"), broker.kept(b"dead")) == ([], [b"0"])
    assert [each["count"] for each in deaths(broker, b"dead")] == [1]


def test_what_a_full_queue_refuses_stays_until_there_is_room(broker: OneVhost) -> None:
    broker.declare(b"full", x_max_length=1, x_overflow="reject-publish")
    keeping(broker)
    for name in (b"dead", b"full"):
        broker.vhost.catalog.bind(name, b"amq.direct", b"q", {})
    for number in range(3):
        broker.publish(b"", b"q", b"%d" % number)
    broker.settle()
    broker.later(20)
    assert (broker.kept(b"q"), broker.kept(b"dead"), broker.kept(b"full")) == ([b"1", b"2"], [b"0"], [b"0"])
    broker.later(5000)
    assert broker.kept(b"dead") == [b"0"], "what one target refuses the others get once"
    lease = broker.taken(b"full")
    broker.vhost.settling.ack(lease, lease.first, 1)
    broker.settle()
    assert (broker.kept(b"q"), broker.kept(b"dead"), broker.kept(b"full")) == ([b"2"], [b"0", b"1"], [b"1"])


def test_what_stays_counts_towards_the_limit_of_its_queue(broker: OneVhost) -> None:
    queue = keeping(broker, x_max_length=2)
    for number in range(2):
        assert broker.publish(b"", b"q", b"%d" % number) == ACCEPTED
    broker.settle()
    broker.later(20)
    assert queue.ready() == 0
    assert broker.publish(b"", b"q", b"2") == REJECTED


def test_nobody_waits_behind_what_leads_nowhere(broker: OneVhost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MOVED_AT_ONCE", 2)
    keeping(broker)
    broker.vhost.catalog.bind(b"q", b"amq.fanout", b"", {})
    broker.vhost.catalog.bind(b"dead", b"amq.direct", b"known", {})
    for number in range(9):
        broker.publish(b"amq.fanout", b"unknown", b"%d" % number)
    broker.publish(b"amq.fanout", b"known", b"9")
    broker.settle()
    broker.later(20)
    assert broker.kept(b"dead") == [b"9"]
    assert broker.kept(b"q") == [b"%d" % number for number in range(9)]
    broker.vhost.catalog.bind(b"dead", b"amq.direct", b"unknown", {})
    broker.later(1100)
    assert broker.kept(b"dead") == [b"9", *[b"%d" % number for number in range(9)]], "in the order in which they died"


def test_what_goes_by_its_headers_is_tried_one_by_one(broker: OneVhost) -> None:
    broker.declare(
        b"q",
        x_dead_letter_exchange="amq.headers",
        x_dead_letter_strategy="at-least-once",
        x_overflow="reject-publish",
        x_message_ttl=10,
    )
    broker.vhost.catalog.bind(b"dead", b"amq.headers", b"", {"x-match": "all", "colour": "red"})
    for number, colour in enumerate(("blue", "red", "green", "red")):
        broker.publish(b"", b"q", b"%d" % number, encoded(("colour", colour)))
    broker.settle()
    broker.later(20)
    assert (broker.kept(b"q"), broker.kept(b"dead")) == ([b"0", b"2"], [b"1", b"3"])


def test_what_stays_goes_with_the_exchange(broker: OneVhost, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy may take the dead-letter exchange away while some were tried in vain and others not yet."""
    monkeypatch.setattr(dead_letters, "MOVED_AT_ONCE", 2)
    queue = keeping(broker)
    for number in range(5):
        broker.publish(b"", b"q", b"%d" % number)
    broker.settle()
    broker.tick(20_000)
    broker.turn()
    queue.limits.dead_letter_exchange = None
    broker.settle()
    broker.later(1100)
    assert broker.kept(b"q") == []


def test_without_reject_publish_it_is_at_most_once(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="amq.direct", x_dead_letter_strategy="at-least-once", x_message_ttl=10)
    broker.publish(b"", b"q", b"0")
    broker.settle()
    broker.later(20)
    assert broker.kept(b"q") == []


def test_a_reject_of_mqtt_is_refused_where_nobody_takes_the_message(broker: OneVhost) -> None:
    keeping(broker)
    broker.publish(b"", b"q", b"0")
    lease = broker.held(b"q")
    with pytest.raises(RequestError, match="dead-letter exchange: it leads to no queue") as refused:
        broker.vhost.dead_letters.reject(lease, 0, b"")
    assert refused.value.reason == REFUSED
    assert broker.vhost.settling.find_lease(b"q", b"", 0) is lease


def test_no_dead_letter_is_lost_because_the_disk_is_full(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=10)
    broker.publish(b"", b"q", b"x" * 20_000)
    broker.settle()
    broker.disk.octets_max = broker.disk.used()
    broker.later(20)
    assert (len(broker.kept(b"q")), len(broker.kept(b"dead"))) == (1, 0)
    broker.disk.octets_max = 1 << 60
    broker.later(1100)
    assert (len(broker.kept(b"q")), len(broker.kept(b"dead"))) == (0, 1)


# ---- full queues


def test_what_a_full_queue_will_not_take_goes_to_its_dead_letters(broker: OneVhost) -> None:
    broker.declare(
        b"q",
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
        x_max_length=1,
        x_overflow="reject-publish-dlx",
    )
    assert broker.publish(b"", b"q", b"0") == ACCEPTED
    assert broker.publish(b"", b"q", b"1", encoded(("colour", "red"), expiration_ms=9)) == REJECTED
    broker.settle()
    assert (broker.kept(b"q"), broker.kept(b"dead")) == ([b"0"], [b"1"])
    said = last(broker, b"dead")[2]
    assert (said.header("colour"), said.header("dlq-reason"), said.header("dlq-offset")) == ("red", "maxlen", None)
    assert [(each["reason"], each["original-expiration"]) for each in deaths(broker, b"dead")] == [("maxlen", "9")]


def test_full_queues_that_are_each_others_dead_letters_end(broker: OneVhost) -> None:
    for name, other in ((b"a", "b"), (b"b", "a")):
        broker.declare(
            name,
            x_dead_letter_exchange="",
            x_dead_letter_routing_key=other,
            x_max_length=0,
            x_overflow="reject-publish-dlx",
        )
    assert broker.publish(b"", b"a", b"0") == REJECTED
    broker.settle()
    assert (broker.kept(b"a"), broker.kept(b"b")) == ([], [])


# ---- many


def test_more_than_a_turn_moves_is_moved_in_order(broker: OneVhost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "MOVED_AT_ONCE", 7)
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead", x_message_ttl=10)
    wanted = [b"%d" % number for number in range(200)]
    for body in wanted:
        broker.publish(b"", b"q", body, EMPTY)
    broker.settle()
    broker.later(20)
    assert (broker.kept(b"q"), broker.kept(b"dead")) == ([], wanted)


def test_the_move_is_on_disk_as_a_whole_or_not_at_all(broker: OneVhost) -> None:
    broker.declare(b"q", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    for number in range(4):
        broker.publish(b"", b"q", b"%d" % number)
    lease = broker.held(b"q")
    broker.vhost.settling.reject(lease, 0, 2)
    broker.turn()
    broker.vhost.settling.reject(lease, 2, 1)
    broker.turn(sync=False)
    broker.crash()
    assert (broker.kept(b"q"), broker.kept(b"dead")) == ([b"2", b"3"], [b"0", b"1"])
    broker.close()


def test_a_dead_letter_to_a_session_of_mqtt_is_in_the_frame_of_its_settlement(broker: OneVhost) -> None:
    vhost = broker.vhost
    arguments: dict[str, object] = {"x-dead-letter-exchange": "amq.topic", "x-dead-letter-routing-key": "a.b"}
    vhost.catalog.declare_queue(b"dying", True, False, False, arguments, 1)
    broker.declare(b"other")
    client = vhost.sessions.attach(b"reader", 8, False, 3600, None)
    vhost.clients.subscribe(client, Subscription(client, b"a/b", 1, 0))
    vhost.clients.detach(client, 8)
    broker.publish(b"", b"dying", b"kept")
    lease = broker.held(b"dying")
    broker.flush()
    vhost.settling.reject(lease, 0, 1)
    broker.publish(b"", b"other", b"that is confirmed")
    broker.broker.flush_due = True
    broker.do(broker.node.turn())
    broker.write()
    broker.crash()
    (session,) = broker.vhost.sessions.by_number.values()
    assert (broker.vhost.catalog.queue(b"dying").ready(), session.mqueue.count) == (0, 1)
