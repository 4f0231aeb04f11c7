"""Retained messages of MQTT 5 (sections 3.3.1.3 and 3.8.3.1)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.mqtt.raw import connected, text, user
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v5.flows import (
    AS_PUBLISHED,
    DUP,
    IF_NEW,
    NEVER,
    RETAIN,
    bodies,
    ids_of,
    message_expiry,
    publish_whole,
    retain,
    session,
    subscribed,
    subscription_id,
    take,
    take_all,
)


@statement("MQTT-3.3.1-5", "MQTT-3.3.1-9")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_the_last_retained_message_is_sent_to_who_subscribes(broker: AnyBroker, own: str, qos: int) -> None:
    publisher = connected(broker, f"{own} publisher")
    retain(publisher, own, b"first", 2 - qos)
    retain(publisher, own, b"last", qos)
    found = take(subscribed(connected(broker, own), (own, 2)))
    assert (found.topic, found.body, found.qos, found.bits) == (own, b"last", qos, RETAIN)


@statement("MQTT-3.3.1-6", "MQTT-3.3.1-7")
def test_an_empty_message_removes_the_retained_one(broker: AnyBroker, own: str) -> None:
    reader = subscribed(connected(broker, f"{own} reader"), (own, AS_PUBLISHED))
    publisher = connected(broker, f"{own} publisher")
    retain(publisher, own, b"kept")
    retain(publisher, own, b"")
    assert bodies(reader, 2) == [b"kept", b""]  # it is delivered like any other
    subscribed(connected(broker, own), (own, 1)).quiet()
    retain(publisher, own, b"")  # nothing to remove
    subscribed(connected(broker, own), (own, 1)).quiet()


@statement("MQTT-3.3.1-8")
def test_a_message_without_retain_leaves_the_retained_one(broker: AnyBroker, own: str) -> None:
    publisher = connected(broker, f"{own} publisher")
    retain(publisher, own, b"kept")
    for body in (b"passing", b""):
        assert publisher.publish(own, body) == 0x10
    assert bodies(subscribed(connected(broker, own), (own, 1)), 1) == [b"kept"]
    assert publisher.publish(f"{own}/new", b"passing") == 0x10
    subscribed(connected(broker, own), (f"{own}/new", 1)).quiet()


@statement("MQTT-3.3.1-9", "MQTT-3.8.4-4")
def test_retain_handling_0_sends_them_at_each_subscribe(broker: AnyBroker, own: str) -> None:
    retain(connected(broker, f"{own} publisher"), own, b"kept")
    raw = connected(broker, own)
    for _ in range(2):
        assert bodies(subscribed(raw, (own, 1)), 1) == [b"kept"]


@statement("MQTT-3.3.1-10")
def test_retain_handling_1_sends_them_to_new_subscriptions(broker: AnyBroker, own: str) -> None:
    retain(connected(broker, f"{own} publisher"), own, b"kept")
    raw = session(broker, own)
    assert bodies(subscribed(raw, (own, 1 | IF_NEW)), 1) == [b"kept"]
    subscribed(raw, (own, 1 | IF_NEW)).quiet()
    raw.leave()
    raw = session(broker, own, present=True)
    subscribed(raw, (own, 1 | IF_NEW)).quiet()
    assert bodies(subscribed(raw, (f"{own}/#", 1 | IF_NEW)), 1) == [b"kept"]


@statement("MQTT-3.3.1-11")
def test_retain_handling_2_sends_none(broker: AnyBroker, own: str) -> None:
    publisher = connected(broker, f"{own} publisher")
    retain(publisher, own, b"kept")
    raw = subscribed(connected(broker, own), (own, 1 | NEVER))
    raw.quiet()
    publish_whole(publisher, own, b"new")
    assert bodies(raw, 1) == [b"new"]


@statement("MQTT-3.3.1-12", "MQTT-3.3.1-13")
def test_retain_as_published(broker: AnyBroker, own: str) -> None:
    plain = subscribed(connected(broker, f"{own} plain"), (own, 1))
    keeping = subscribed(connected(broker, f"{own} keeping"), (own, 1 | AS_PUBLISHED))
    publisher = connected(broker, f"{own} publisher")
    retain(publisher, own, b"kept")
    publish_whole(publisher, own, b"passing")
    assert [(each.body, each.bits) for each in take_all(plain, 2)] == [(b"kept", 0), (b"passing", 0)]
    assert [(each.body, each.bits) for each in take_all(keeping, 2)] == [(b"kept", RETAIN), (b"passing", 0)]
    # What a SUBSCRIBE brings has RETAIN 1 in any case.
    for options in (1, 1 | AS_PUBLISHED):
        assert take(subscribed(connected(broker, f"{own} late"), (own, options))).bits == RETAIN


@statement("MQTT-3.3.1-9", "MQTT-4.7.2-1")
def test_retained_messages_are_found_by_filters(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker()
    publisher = connected(broker, "publisher")
    for topic in ("t/a", "t/a/b", "t/c/b", "$t/a", "t"):
        retain(publisher, topic, topic.encode())
    for filter, expected in (
        ("#", ["t", "t/a", "t/a/b", "t/c/b"]),
        ("t/#", ["t", "t/a", "t/a/b", "t/c/b"]),
        ("+/a", ["t/a"]),
        ("t/+/b", ["t/a/b", "t/c/b"]),
        ("$t/#", ["$t/a"]),
        ("a/#", []),
    ):
        raw = subscribed(connected(broker), (filter, 1))
        assert sorted(found.topic for found in take_all(raw, len(expected))) == expected, filter
        raw.quiet()


@statement("MQTT-3.3.2-4", "MQTT-3.3.2-17", "MQTT-3.3.2-18", "MQTT-3.3.2-20", "MQTT-3.3.4-3")
def test_properties_of_retained_messages(broker: AnyBroker, own: str) -> None:
    sent = b"\x01\x01\x03" + text("t") + user("b", "1") + user("a", "2") + user("b", "3")
    retain(connected(broker, f"{own} publisher"), own, b"kept", properties=sent)
    found = take(subscribed(connected(broker, own), (own, 1), properties=subscription_id(7)))
    assert ids_of(found) == [7]
    assert [each for each in found.properties if each[0] != 0x0B] == [
        (0x01, 1), (0x03, b"t"), (0x26, ("b", "1")), (0x26, ("a", "2")), (0x26, ("b", "3"))
    ]  # fmt: skip


@statement("MQTT-3.3.2-5", "MQTT-3.3.2-6")
def test_retained_messages_expire(broker: AnyBroker, own: str) -> None:
    publisher = connected(broker, f"{own} publisher")
    retain(publisher, f"{own}/short", b"x", properties=message_expiry(1))
    retain(publisher, f"{own}/long", b"x", properties=message_expiry(600))
    broker.wait_out(1)
    raw = subscribed(connected(broker, own), (f"{own}/+", 1))
    found = take(raw)
    assert found.topic == f"{own}/long"
    assert 500 < int(str(dict(found.properties)[0x02])) <= 599
    raw.quiet()


@statement("MQTT-3.3.1-5", "MQTT-3.3.1-6")
def test_retained_messages_survive_the_broker(start_process: Callable[..., BrokerProcess]) -> None:
    broker = start_process()
    publisher = connected(broker, "publisher")
    for topic, body in (("a", b"1"), ("b", b"2"), ("a", b"3"), ("b", b"")):
        retain(publisher, topic, body)
    broker.kill9()
    broker.start()
    raw = subscribed(connected(broker), ("#", 1))
    assert bodies(raw, 1) == [b"3"]
    raw.quiet()


@statement("MQTT-4.4.0-1", "MQTT-4.5.0-1")
def test_retained_messages_are_sent_again(broker: AnyBroker, own: str) -> None:
    publisher = connected(broker, f"{own} publisher")
    for n in range(3):
        retain(publisher, f"{own}/{n}", b"%d" % n, n)
    raw = subscribed(session(broker, own), (f"{own}/+", 2))
    first = [raw.delivery() for _ in range(3)]
    raw.vanish()
    raw = session(broker, own, present=True)
    again = take_all(raw, 2)
    assert [(each.body, each.id, each.bits) for each in again] == [
        (each.body, each.id, RETAIN | DUP) for each in first if each.qos
    ]
    raw.quiet()


@statement("MQTT-3.8.4-5", "MQTT-3.3.1-9")
def test_each_filter_of_a_subscribe_brings_its_retained_messages(broker: AnyBroker, own: str) -> None:
    retain(connected(broker, f"{own} publisher"), f"{own}/a", b"kept")
    raw = subscribed(connected(broker, own), (f"{own}/a", 1), (f"{own}/+", 0), (f"{own}/#", 1 | NEVER))
    assert sorted(each.qos for each in take_all(raw, 2)) == [0, 1]
    raw.quiet()
