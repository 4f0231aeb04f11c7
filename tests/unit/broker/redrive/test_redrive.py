"""Messages that are moved: where they go, what they say there, and what is left where they cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.redrive.redrive import RedriveTarget, move
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.core.message import AMQP091, MQTT, QOS_SHIFT
from forebay.filter.parser import parse
from forebay.wire.mqtt.properties import USER_PROPERTY, Property, encode_properties
from tests.vhosts import OneVhost

ALL = 1000


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    broker = OneVhost(tmp_path / "data")
    for name in (b"from", b"to"):
        broker.declare(name)
    return broker


def fill(broker: OneVhost, *bodies: bytes) -> None:
    for body in bodies:
        broker.publish(b"", b"from", body)
    broker.settle()


def to_queue(name: bytes) -> RedriveTarget:
    return RedriveTarget(name, b"", None)


def test_what_is_held_stays_and_the_rest_moves_in_one_frame(broker: OneVhost) -> None:
    fill(broker, b"1", b"2", b"3", b"4")
    held = broker.taken(b"from")
    portion = move(broker.vhost, b"from", to_queue(b"to"), parse("offset != 2"), 0, ALL)
    assert (portion.done, portion.held, portion.refused, portion.next) == (2, 1, 0, None)
    broker.settle()
    broker.vhost.settling.ack(held, held.first, 1)
    broker.settle()
    broker.flush()
    broker.crash()
    assert (broker.kept(b"from"), broker.kept(b"to")) == ([b"3"], [b"2", b"4"])


def test_a_crash_before_the_turns_end_leaves_all_where_it_was(broker: OneVhost) -> None:
    fill(broker, b"1", b"2")
    assert move(broker.vhost, b"from", to_queue(b"to"), None, 0, ALL).done == 2
    broker.crash()
    assert (broker.kept(b"from"), broker.kept(b"to")) == ([b"1", b"2"], [])


def test_what_a_full_queue_refuses_is_left(broker: OneVhost) -> None:
    broker.declare(b"small", x_max_length=1, x_overflow="reject-publish")
    fill(broker, b"1", b"2", b"3")
    portion = move(broker.vhost, b"from", to_queue(b"small"), None, 0, ALL)
    assert (portion.done, portion.refused, portion.refusal) == (1, 2, "queue 'small' is full")
    broker.settle()
    assert (broker.kept(b"from"), broker.kept(b"small")) == ([b"2", b"3"], [b"1"])


def test_an_exchange_gives_it_to_all_of_its_queues_or_to_none(broker: OneVhost) -> None:
    broker.declare(b"small", x_max_length=0, x_overflow="reject-publish")
    for name in (b"to", b"small"):
        broker.vhost.catalog.bind(name, b"amq.fanout", b"", {})
    fill(broker, b"1")
    portion = move(broker.vhost, b"from", RedriveTarget(None, b"amq.fanout", b"k"), None, 0, ALL)
    assert (portion.done, portion.refusal) == (0, "queue 'small' is full")
    broker.vhost.catalog.unbind(b"small", b"amq.fanout", b"", {})
    assert move(broker.vhost, b"from", RedriveTarget(None, b"amq.fanout", b"k"), None, 0, ALL).done == 1
    broker.settle()
    block = broker.vhost.catalog.queue(b"to").log.block(0)
    assert block is not None
    assert (block.exchange(0), block.routing_key(0), block.body(0)) == (b"amq.fanout", b"k", b"1")


def test_a_message_of_mqtt_goes_to_an_exchange_in_the_words_of_amqp(broker: OneVhost) -> None:
    broker.vhost.catalog.bind(b"to", b"amq.direct", b"a.b", {})
    properties = encode_properties([Property(USER_PROPERTY, 0, b"who", b"me")])
    route = broker.vhost.router.route_topic(b"$queue/from/a/b", None)
    broker.vhost.publishing.publish(route, MQTT | 1 << QOS_SHIFT, properties, b"on")
    broker.settle()
    portion = move(broker.vhost, b"from", RedriveTarget(None, b"amq.direct", b"a.b"), None, 0, ALL)
    assert (portion.done, portion.refusal) == (1, "")
    broker.settle()
    block = broker.vhost.catalog.queue(b"to").log.block(0)
    assert block is not None
    assert (block.format(0), block.body(0)) == (AMQP091, b"on")
    assert b"who" in block.properties(0)


def test_what_cannot_be_moved_is_refused_at_once(broker: OneVhost) -> None:
    broker.declare(b"s", x_queue_type="stream")
    cases = [
        (b"from", to_queue(b"none"), NOT_FOUND),
        (b"none", to_queue(b"to"), NOT_FOUND),
        (b"from", to_queue(b"from"), INVALID),
        (b"s", to_queue(b"to"), INVALID),
        (b"from", RedriveTarget(None, b"none", None), NOT_FOUND),
    ]
    for name, target, reason in cases:
        with pytest.raises(RequestError) as caught:
            move(broker.vhost, name, target, None, 0, ALL)
        assert caught.value.reason == reason
