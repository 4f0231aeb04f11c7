"""Sessions of MQTT 3.1.1: what outlives a connection, and what is sent again (sections 3.1.2.4, 4.1, 4.4, 4.5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.mqtt.raw import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    V311,
    Raw,
    acknowledge,
    puback,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v5.flows import take_all
from tests.conformance.mqtt.v311.old import connected, publish, publish_whole, session, subscribe, unsubscribe

DUP = 8


def subscribed(broker: AnyBroker, client: str, *filters: tuple[str, int]) -> Raw:
    """A new session with these subscriptions."""
    raw = session(broker, client)
    raw.send(subscribe(1, *filters))
    assert raw.granted() == [qos for _, qos in filters]
    return raw


def received(raw: Raw, count: int = 1) -> list[tuple[bytes, int]]:
    """Body and QoS of so many deliveries, all acknowledged to the end."""
    return [(found.body, found.qos) for found in take_all(raw, count)]


@statement("MQTT-3.1.2-4", "MQTT-4.1.0-1", "MQTT-3.1.4-3", version=V311)
@pytest.mark.parametrize("end", ["leave", "vanish"])
def test_mqtt3_3_1_2_4_subscriptions_outlive_the_connection(broker: AnyBroker, own: str, end: str) -> None:
    raw = subscribed(broker, own, (f"{own}/a", 0), (f"{own}/+/b", 1), (f"{own}/c/#", 2))
    raw.leave() if end == "leave" else raw.vanish()
    raw = session(broker, own, present=True)
    publisher = connected(broker, f"{own} publisher")
    for topic, qos in ((f"{own}/a", 0), (f"{own}/x/b", 1), (f"{own}/c/d/e", 1)):
        publisher.publish(topic, topic.encode())
        assert received(raw) == [(topic.encode(), qos)]
    raw.quiet()


@statement("MQTT-3.1.2-5", "MQTT-4.5.0-1", version=V311)
def test_mqtt3_3_1_2_5_messages_are_kept_for_who_is_away(broker: AnyBroker, own: str) -> None:
    subscribed(broker, own, (f"{own}/#", 2)).leave()
    other = subscribed(broker, f"{own} other", (f"{own}/one", 1))
    publisher = connected(broker, f"{own} publisher")
    publisher.publish(f"{own}/one", b"at 1")
    publish_whole(publisher, f"{own}/two", b"at 2", 2)
    publisher.publish(f"{own}/one", b"at 1 again", id=2)
    assert received(other, 2) == [(b"at 1", 1), (b"at 1 again", 1)]
    raw = session(broker, own, present=True)
    assert received(raw, 3) == [(b"at 1", 1), (b"at 2", 2), (b"at 1 again", 1)]
    raw.quiet()
    raw.leave()
    session(broker, own, present=True).quiet()  # they are acknowledged, and gone


@statement("MQTT-3.1.2-6", "MQTT-3.1.4-3", "MQTT-3.2.2-1", "MQTT-3.2.2-3", version=V311)
def test_mqtt3_3_1_2_6_a_clean_session_takes_nothing_over_and_leaves_nothing(broker: AnyBroker, own: str) -> None:
    subscribed(broker, own, (own, 1)).leave()
    publisher = connected(broker, f"{own} publisher")
    publisher.publish(own, b"kept until the clean one comes")
    clean = connected(broker, own)
    clean.quiet()
    publisher.publish(own, b"for nobody")
    clean.quiet()
    clean.subscribe(own)
    publisher.publish(own, b"unacknowledged")
    assert clean.delivery().body == b"unacknowledged"
    clean.leave()
    publisher.publish(own, b"for nobody")
    raw = session(broker, own)
    raw.quiet()
    publisher.publish(own, b"for nobody")
    raw.quiet()


@statement("MQTT-3.1.2-6", "MQTT-4.1.0-2", version=V311)
def test_mqtt3_4_1_0_2_a_clean_session_lasts_as_long_as_its_connection(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.subscribe(own)
    publisher = connected(broker, f"{own} publisher")
    publisher.publish(own, b"1")
    assert received(raw) == [(b"1", 1)]
    raw.vanish()
    session(broker, own, present=False).quiet()


@statement("MQTT-3.1.2-7", version=V311)
def test_mqtt3_3_1_2_7_retained_messages_outlive_sessions(broker: AnyBroker, own: str) -> None:
    for clean in (True, False):
        raw = connected(broker, own, clean=clean)
        raw.send(publish(f"{own}/{clean}", b"kept", 1, bits=1))
        raw.acked()
        raw.leave()
    connected(broker, own).leave()
    reader = connected(broker, f"{own} reader")
    reader.subscribe(f"{own}/#")
    assert {reader.delivery().topic for _ in range(2)} == {f"{own}/True", f"{own}/False"}


@statement("MQTT-4.4.0-1", "MQTT-3.3.1-1", "MQTT-2.3.1-4", "MQTT-4.6.0-1", "MQTT-4.3.2-1", "MQTT-4.3.3-1", version=V311)
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("end", ["leave", "vanish"])
def test_mqtt3_4_4_0_1_unacknowledged_publishes_come_again(broker: AnyBroker, own: str, qos: int, end: str) -> None:
    raw = subscribed(broker, own, (own, qos))
    publisher = connected(broker, f"{own} publisher")
    bodies = [b"%d" % number for number in range(4)]
    for body in bodies:
        publish_whole(publisher, own, body, qos)
    before = [raw.delivery() for _ in bodies]
    assert [(one.body, one.qos, one.bits) for one in before] == [(body, qos, 0) for body in bodies]
    raw.leave() if end == "leave" else raw.vanish()
    for _ in range(2):
        raw = session(broker, own, present=True)
        again = [raw.delivery() for _ in bodies]
        assert [(one.body, one.id, one.bits) for one in again] == [(one.body, one.id, DUP) for one in before]
        raw.quiet()
        raw.vanish()
    raw = session(broker, own, present=True)
    assert received(raw, len(bodies)) == [(body, qos) for body in bodies]
    raw.quiet()


@statement("MQTT-4.4.0-1", "MQTT-2.3.1-4", "MQTT-3.3.1-1", version=V311)
def test_mqtt3_4_4_0_1_what_was_acknowledged_does_not_come_again(broker: AnyBroker, own: str) -> None:
    raw = subscribed(broker, own, (own, 1))
    publisher = connected(broker, f"{own} publisher")
    for number in range(5):
        publisher.publish(own, b"%d" % number)
    found = [raw.delivery() for _ in range(5)]
    raw.send(puback(found[1].id), puback(found[4].id))
    raw.quiet()
    raw.vanish()
    publisher.publish(own, b"new")
    raw = session(broker, own, present=True)
    again = [raw.delivery() for _ in range(4)]
    assert [(one.body, one.bits) for one in again] == [(b"0", DUP), (b"2", DUP), (b"3", DUP), (b"new", 0)]
    assert [one.id for one in again[:3]] == [found[place].id for place in (0, 2, 3)]
    assert again[3].id not in {one.id for one in again[:3]}
    raw.quiet()


@statement("MQTT-4.4.0-1", "MQTT-4.3.3-1", "MQTT-2.3.1-6", "MQTT-4.6.0-4", version=V311)
def test_mqtt3_4_4_0_1_pubrel_comes_again_and_its_publish_does_not(broker: AnyBroker, own: str) -> None:
    raw = subscribed(broker, own, (own, 2))
    publisher = connected(broker, f"{own} publisher")
    for number in range(3):
        publish_whole(publisher, own, b"%d" % number, 2)
    ids = [raw.delivery().id for _ in range(3)]
    for id in ids[:2]:
        raw.send(acknowledge(PUBREC, id))
        raw.acked(id, kind=PUBREL)
    raw.vanish()
    raw = session(broker, own, present=True)
    come = [raw.packet() for _ in range(3)]
    assert [rest[:2] for first, rest in come if first == PUBREL] == [id.to_bytes(2, "big") for id in ids[:2]]
    assert [rest[-1:] for first, rest in come if first == 0x34 | DUP] == [b"2"]
    raw.send(*[acknowledge(PUBCOMP, id) for id in ids[:2]], acknowledge(PUBREC, ids[2]))
    raw.acked(ids[2], kind=PUBREL)
    raw.send(acknowledge(PUBCOMP, ids[2]))
    raw.quiet()
    raw.vanish()
    session(broker, own, present=True).quiet()


@statement("MQTT-4.3.3-2", "MQTT-3.1.2-4", "MQTT-4.1.0-1", version=V311)
def test_mqtt3_4_3_3_2_identifiers_that_await_pubrel_outlive_the_connection(broker: AnyBroker, own: str) -> None:
    reader = connected(broker, f"{own} reader")
    reader.subscribe(own)
    raw = session(broker, own)
    raw.send(publish(own, b"once", 2, 7))
    raw.acked(7, kind=PUBREC)
    raw.vanish()
    raw = session(broker, own, present=True)
    raw.send(publish(own, b"once", 2, 7, bits=DUP))
    raw.acked(7, kind=PUBREC)
    raw.vanish()
    raw = session(broker, own, present=True)
    raw.send(acknowledge(PUBREL, 7))
    raw.acked(7, kind=PUBCOMP)
    assert received(reader) == [(b"once", 1)]
    publish_whole(raw, own, b"another", 2, 7)
    assert received(reader) == [(b"another", 1)]
    reader.quiet()


@statement("MQTT-4.3.3-2", "MQTT-3.1.2-6", version=V311)
def test_mqtt3_3_1_2_6_a_clean_session_awaits_no_pubrel(broker: AnyBroker, own: str) -> None:
    reader = connected(broker, f"{own} reader")
    reader.subscribe(own)
    raw = session(broker, own)
    raw.send(publish(own, b"1", 2, 7))
    raw.acked(7, kind=PUBREC)
    raw.vanish()
    publish_whole(connected(broker, own), own, b"2", 2, 7)
    found = received(reader)
    if found == [(b"1", 1)]:  # it may be passed on by PUBLISH, or not before PUBREL
        found = received(reader)
    assert found == [(b"2", 1)]
    reader.quiet()


@statement("MQTT-3.10.4-3", version=V311)
@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt3_3_10_4_3_what_was_begun_is_completed_after_unsubscribe(broker: AnyBroker, own: str, qos: int) -> None:
    raw = subscribed(broker, own, (own, qos))
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, own, b"begun", qos)
    found = raw.delivery()
    raw.send(unsubscribe(9, own))
    raw.acked(9, kind=0xB0)
    publisher.publish(own, b"too late")
    raw.quiet()
    raw.vanish()
    raw = session(broker, own, present=True)
    again = raw.delivery()
    assert (again.body, again.id, again.bits) == (b"begun", found.id, DUP)
    if qos == 2:
        raw.send(acknowledge(PUBREC, again.id))
        raw.acked(again.id, kind=PUBREL)
    raw.send(acknowledge(PUBCOMP if qos == 2 else PUBACK, again.id))
    raw.quiet()


@statement("MQTT-3.1.2-4", "MQTT-3.10.4-2", version=V311)
def test_mqtt3_3_1_2_4_subscriptions_changed_since_are_what_comes_back(broker: AnyBroker, own: str) -> None:
    raw = subscribed(broker, own, (f"{own}/a", 2), (f"{own}/b", 1))
    raw.send(subscribe(2, (f"{own}/a", 0)), unsubscribe(3, f"{own}/b"))
    assert raw.granted(2) == [0]
    raw.acked(3, kind=0xB0)
    raw.leave()
    raw = session(broker, own, present=True)
    publisher = connected(broker, f"{own} publisher")
    publisher.publish(f"{own}/b", b"unsubscribed")
    publisher.publish(f"{own}/a", b"at 0")
    assert received(raw) == [(b"at 0", 0)]
    raw.quiet()


@statement("MQTT-4.1.0-1", "MQTT-3.1.2-4", "MQTT-3.1.2-5", "MQTT-4.4.0-1", version=V311)
@pytest.mark.parametrize("end", ["stop", "kill9"])
def test_mqtt3_4_1_0_1_sessions_outlive_the_broker(start_process: Callable[..., BrokerProcess], end: str) -> None:
    broker = start_process()
    raw = subscribed(broker, "reader", ("a", 2))
    publisher = session(broker, "publisher")
    publisher.publish("a", b"sent")
    publish_whole(publisher, "a", b"received", 2)
    publisher.send(publish("a", b"awaits PUBREL", 2, 5))
    publisher.acked(5, kind=PUBREC)
    sent, received, _ = (raw.delivery() for _ in range(3))
    raw.send(acknowledge(PUBREC, received.id))
    raw.acked(received.id, kind=PUBREL)
    raw.vanish()
    publisher.publish("a", b"waits", id=2)
    broker.stop() if end == "stop" else broker.kill9()
    broker.start()
    publisher = session(broker, "publisher", present=True)
    publisher.send(publish("a", b"awaits PUBREL", 2, 5, bits=DUP))
    publisher.acked(5, kind=PUBREC)
    publisher.publish("a", b"new", id=3)
    raw = session(broker, "reader", present=True)
    come = [raw.packet() for _ in range(5)]
    assert [rest[:2] for first, rest in come if first == PUBREL] == [received.id.to_bytes(2, "big")]
    publishes = [(first, rest[3:]) for first, rest in come if first != PUBREL]
    assert [(first & DUP, body[2:]) for first, body in publishes] == [
        (DUP, b"sent"), (DUP, b"awaits PUBREL"), (0, b"waits"), (0, b"new"),
    ]  # fmt: skip
    assert publishes[0][1][:2] == sent.id.to_bytes(2, "big")
