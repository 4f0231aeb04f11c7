"""Retained messages of MQTT 3.1.1 (section 3.3.1.3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.mqtt.raw import PINGREQ, PINGRESP, V311, Raw, puback
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v311.old import connected, publish, publish_whole, session, subscribe, unsubscribe


def retain(raw: Raw, topic: str, body: bytes, qos: int = 1) -> None:
    """Publish with RETAIN, and wait until the broker has it."""
    publish_whole(raw, topic, body, qos, bits=1)


def retained(broker: AnyBroker, own: str, filter: str) -> list[tuple[str, bytes, int]]:
    """Topic, body and QoS of what a new subscriber gets, sorted; all of it must have RETAIN set."""
    raw = connected(broker, f"{own} looks")
    raw.subscribe(filter, qos=2)
    raw.send(PINGREQ)
    found: list[tuple[str, bytes, int]] = []
    while (come := raw.packet())[0] != PINGRESP[0]:
        one = raw.parsed(*come)
        assert one.bits == 1
        found.append((one.topic, one.body, one.qos))
    raw.close()
    return sorted(found)


@statement("MQTT-3.3.1-5", "MQTT-3.3.1-6", "MQTT-3.3.1-8", version=V311)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt3_3_3_1_5_message_and_qos_are_kept_for_later_subscribers(broker: AnyBroker, own: str, qos: int) -> None:
    retain(connected(broker, own), own, b"kept", qos)
    for granted in (0, 1, 2):
        raw = connected(broker, f"{own} reader")
        raw.subscribe(own, qos=granted)
        found = raw.delivery()
        assert (found.topic, found.body, found.qos, found.bits) == (own, b"kept", min(qos, granted), 1)
        raw.quiet()


@statement("MQTT-3.3.1-6", version=V311)
def test_mqtt3_3_3_1_6_the_last_one_of_each_topic_that_matches(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    for topic in ("a", "a/b", "a/b/c", "x", "a/"):
        for body in (b"first", topic.encode()):
            retain(raw, f"{own}/{topic}", body)
    for filter, topics in {
        "a": ["a"],
        "+": ["a", "x"],
        "a/+": ["a/", "a/b"],
        "a/#": ["a", "a/", "a/b", "a/b/c"],
        "+/b/#": ["a/b", "a/b/c"],
        "#": ["a", "a/", "a/b", "a/b/c", "x"],
        "none": [],
    }.items():
        expected = [(f"{own}/{topic}", topic.encode(), 1) for topic in topics]
        assert retained(broker, own, f"{own}/{filter}") == expected, filter


@statement("MQTT-3.3.1-6", "MQTT-4.7.2-1", version=V311)
def test_mqtt3_3_3_1_6_wildcards_find_no_retained_dollar_topics(broker: AnyBroker, own: str) -> None:
    retain(connected(broker, own), f"${own}/a", b"dollar")
    assert retained(broker, own, f"${own}/+") == [(f"${own}/a", b"dollar", 1)]
    assert [topic for topic, _, _ in retained(broker, own, "#") if topic.startswith("$")] == []
    assert not [topic for topic, _, _ in retained(broker, own, "+/a") if topic.startswith("$")]


@statement("MQTT-3.3.1-7", version=V311)
def test_mqtt3_3_3_1_7_one_at_qos_0_discards_what_was_kept(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    retain(raw, own, b"old", 2)
    retain(raw, own, b"new", 0)
    assert retained(broker, own, own) == [(own, b"new", 0)]


@statement("MQTT-3.3.1-9", version=V311)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt3_3_3_1_9_who_was_subscribed_gets_it_without_retain(broker: AnyBroker, own: str, qos: int) -> None:
    reader = connected(broker, f"{own} reader")
    reader.subscribe(f"{own}/#", qos=qos)
    retain(connected(broker, own), own, b"news", qos)
    found = reader.delivery()
    assert (found.body, found.qos, found.bits) == (b"news", qos, 0)
    reader.quiet()


@statement("MQTT-3.3.1-8", "MQTT-3.3.1-9", version=V311)
def test_mqtt3_3_3_1_9_an_offline_session_gets_it_without_retain(broker: AnyBroker, own: str) -> None:
    reader = session(broker, f"{own} reader")
    reader.subscribe(own)
    reader.leave()
    retain(connected(broker, own), own, b"news")
    reader = session(broker, f"{own} reader", present=True)
    found = reader.delivery()
    assert (found.body, found.bits) == (b"news", 0)
    reader.quiet()  # a subscription that was resumed is no new one


@statement("MQTT-3.3.1-10", "MQTT-3.3.1-11", version=V311)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt3_3_3_1_10_an_empty_one_is_delivered_and_removes(broker: AnyBroker, own: str, qos: int) -> None:
    raw = connected(broker, own)
    retain(raw, f"{own}/a", b"kept")
    retain(raw, f"{own}/b", b"stays")
    reader = connected(broker, f"{own} reader")
    reader.subscribe(f"{own}/a", qos=0)
    assert reader.delivery().bits == 1
    retain(raw, f"{own}/a", b"", qos)
    found = reader.delivery()
    assert (found.topic, found.body, found.bits) == (f"{own}/a", b"", 0)
    assert retained(broker, own, f"{own}/#") == [(f"{own}/b", b"stays", 1)]


@statement("MQTT-3.3.1-11", version=V311)
def test_mqtt3_3_3_1_11_an_empty_one_is_not_kept(broker: AnyBroker, own: str) -> None:
    retain(connected(broker, own), own, b"")
    assert retained(broker, own, own) == []


@statement("MQTT-3.3.1-12", version=V311)
@pytest.mark.parametrize("body", [b"", b"other"])
def test_mqtt3_3_3_1_12_one_without_retain_leaves_what_is_kept(broker: AnyBroker, own: str, body: bytes) -> None:
    raw = connected(broker, own)
    raw.publish(own, body)
    assert retained(broker, own, own) == []
    retain(raw, own, b"kept")
    for qos in (0, 1):
        raw.publish(own, body, qos)
    assert retained(broker, own, own) == [(own, b"kept", 1)]


@statement("MQTT-3.3.1-6", "MQTT-3.8.4-3", "MQTT-3.8.4-4", version=V311)
def test_mqtt3_3_3_1_6_each_new_subscription_gets_them(broker: AnyBroker, own: str) -> None:
    retain(connected(broker, f"{own} publisher"), f"{own}/a", b"kept")
    raw = connected(broker, own)
    for filter in (f"{own}/a", f"{own}/+", f"{own}/a"):
        raw.subscribe(filter, qos=0)
        assert raw.delivery().bits == 1
        raw.quiet()
    raw.send(unsubscribe(3, f"{own}/a"))
    raw.acked(3, kind=0xB0)
    raw.quiet()


def all_acknowledged(raw: Raw) -> list[tuple[str, bytes]]:
    """Topic and body of all that comes, acknowledged as it comes; the end is where three pings bring nothing."""
    found: list[tuple[str, bytes]] = []
    idle = 0
    while idle < 3:
        raw.send(PINGREQ)
        before = len(found)
        while (come := raw.packet())[0] != PINGRESP[0]:
            one = raw.parsed(*come)
            found.append((one.topic, one.body))
            raw.send(puback(one.id))
        idle = 0 if len(found) > before else idle + 1
    return found


@statement("MQTT-3.3.1-6", "MQTT-4.6.0-6", version=V311)
def test_mqtt3_3_3_1_6_no_old_one_comes_behind_a_newer_message(broker: AnyBroker, own: str) -> None:
    publisher = connected(broker, own)
    topics = [f"{own}/{place}" for place in range(100)]  # more than fit into a window
    for topic in topics:
        retain(publisher, topic, b"old")
    raw = connected(broker, f"{own} reader")
    raw.subscribe(f"{own}/#")
    for topic in topics:
        retain(publisher, topic, b"new")
    last = dict(all_acknowledged(raw))
    assert last == dict.fromkeys(topics, b"new")


@statement("MQTT-3.3.1-6", "MQTT-4.6.0-6", version=V311)
def test_mqtt3_3_3_1_6_what_was_kept_comes_before_what_follows_the_subscribe(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    retain(raw, own, b"kept", 0)
    raw.send(subscribe(1, (own, 0)) + publish(own, b"next"))
    assert raw.granted() == [0]
    assert [raw.delivery().body for _ in range(2)] == [b"kept", b"next"]


@statement("MQTT-3.3.1-5", "MQTT-3.1.2-7", version=V311)
@pytest.mark.parametrize("end", ["stop", "kill9"])
def test_mqtt3_3_3_1_5_what_is_kept_outlives_the_broker(start_process: Callable[..., BrokerProcess], end: str) -> None:
    broker = start_process()
    raw = connected(broker)
    retain(raw, "a", b"old", 2)
    retain(raw, "a", b"new", 2)
    retain(raw, "b", b"removed")
    retain(raw, "b", b"")
    retain(raw, "c", b"at 1")
    broker.stop() if end == "stop" else broker.kill9()
    broker.start()
    assert retained(broker, "own", "#") == [("a", b"new", 2), ("c", b"at 1", 1)]
