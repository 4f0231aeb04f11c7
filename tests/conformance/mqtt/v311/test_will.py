"""Wills of MQTT 3.1.1 (section 3.1.2.5 to 3.1.2.7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import V311, Raw
from tests.conformance.mqtt.raw import connected as connected_at
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v311.old import connect, connected, mortal, opened, publish, session, will

QOS_BITS = 8  # of the will's QoS in the flags of CONNECT
WILL, WILL_RETAIN = 4, 0x20


def heir_of(broker: AnyBroker, own: str, qos: int = 2) -> Raw:
    """Who hears of wills on the test's topic."""
    raw = connected(broker, f"{own} heir")
    raw.subscribe(own, qos=qos)
    return raw


@statement("MQTT-3.1.2-8", "MQTT-3.1.2-9", "MQTT-3.1.2-14", "MQTT-3.1.2-16", version=V311)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("clean", [False, True])
def test_mqtt3_3_1_2_8_will_of_a_connection_that_breaks(broker: AnyBroker, own: str, qos: int, clean: bool) -> None:
    heir = heir_of(broker, own)
    raw = opened(broker, connect(own, will=will(own, b"gone"), will_flags=WILL | qos * QOS_BITS, clean=clean))
    raw.connack()
    heir.quiet()
    raw.close()
    found = heir.delivery()
    assert (found.topic, found.body, found.qos, found.bits) == (own, b"gone", qos, 0)
    later = connected(broker, f"{own} later")
    later.subscribe(own)
    later.quiet()
    heir.quiet()


@statement("MQTT-3.1.2-8", "MQTT-4.8.0-1", version=V311)
@pytest.mark.parametrize("octets", [b"\x00\x00", connect(), b"\xe0\x01\x00", b"\xe1\x00"])
def test_mqtt3_3_1_2_8_will_of_who_breaks_the_protocol(broker: AnyBroker, own: str, octets: bytes) -> None:
    heir = heir_of(broker, own)
    raw = mortal(broker, own, own, b"gone")
    raw.send(octets)
    assert raw.ended()
    assert heir.delivery().body == b"gone"


@statement("MQTT-3.1.2-8", "MQTT-3.1.4-2", version=V311)
def test_mqtt3_3_1_2_8_will_of_who_was_taken_over(broker: AnyBroker, own: str) -> None:
    heir = heir_of(broker, own)
    first = mortal(broker, own, own, b"taken over")
    second = connected(broker, own)
    assert first.ended()
    assert heir.delivery().body == b"taken over"
    second.vanish()
    heir.quiet()


@statement("MQTT-3.1.2-10", "MQTT-3.14.4-3", version=V311)
@pytest.mark.parametrize("clean", [False, True])
def test_mqtt3_3_1_2_10_disconnect_removes_the_will(broker: AnyBroker, own: str, clean: bool) -> None:
    heir = heir_of(broker, own)
    raw = opened(broker, connect(own, will=will(own, b"never"), clean=clean))
    raw.connack()
    raw.leave()
    heir.quiet()
    connected(broker, own, clean=clean, present=not clean).vanish()
    heir.quiet()


@statement("MQTT-3.1.2-10", "MQTT-3.1.2-12", version=V311)
def test_mqtt3_3_1_2_10_a_will_is_published_once(broker: AnyBroker, own: str) -> None:
    heir = heir_of(broker, own)
    raw = opened(broker, connect(own, will=will(own, b"once"), clean=False))
    raw.connack()
    raw.vanish()
    assert heir.delivery().body == b"once"
    session(broker, own, present=True).vanish()
    heir.quiet()


@statement("MQTT-3.1.2-12", version=V311)
def test_mqtt3_3_1_2_12_no_will_flag_no_will(broker: AnyBroker, own: str) -> None:
    heir = connected(broker, f"{own} heir")
    heir.subscribe("#")
    connected(broker, own).vanish()
    heir.quiet()


@statement("MQTT-3.1.2-17", version=V311)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt3_3_1_2_17_a_will_that_is_retained(broker: AnyBroker, own: str, qos: int) -> None:
    heir = heir_of(broker, own)
    mortal(broker, own, own, b"last words", WILL | WILL_RETAIN | qos * QOS_BITS).vanish()
    found = heir.delivery()
    assert (found.body, found.qos, found.bits) == (b"last words", qos, 0)
    later = connected(broker, f"{own} later")
    later.subscribe(own, qos=2)
    found = later.delivery()
    assert (found.body, found.qos, found.bits) == (b"last words", qos, 1)


@statement("MQTT-3.1.2-16", "MQTT-3.3.1-12", version=V311)
def test_mqtt3_3_1_2_16_a_will_that_is_not_retained_leaves_what_was(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, f"{own} publisher")
    raw.send(publish(own, b"kept", 1, bits=1))
    raw.acked()
    heir = heir_of(broker, own)
    assert heir.delivery().body == b"kept"
    mortal(broker, own, own, b"gone").vanish()
    assert heir.delivery().body == b"gone"
    later = connected(broker, f"{own} later")
    later.subscribe(own)
    assert later.delivery().body == b"kept"
    later.quiet()


@statement("MQTT-3.1.2-8", "MQTT-4.5.0-1", version=V311)
def test_mqtt3_3_1_2_8_a_will_waits_for_who_is_away(broker: AnyBroker, own: str) -> None:
    heir = session(broker, f"{own} heir")
    heir.subscribe(own)
    heir.leave()
    mortal(broker, own, own, b"gone", WILL | QOS_BITS).vanish()
    found = session(broker, f"{own} heir", present=True).delivery()
    assert (found.body, found.qos) == (b"gone", 1)


@statement("MQTT-3.1.2-8", version=V311)
def test_mqtt3_3_1_2_8_a_will_reaches_a_client_of_version_5(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker()
    heir = connected_at(broker, "heir")
    heir.subscribe("w")
    mortal(broker, "mortal", "w", b"gone", WILL | QOS_BITS).vanish()
    found = heir.delivery()
    assert (found.body, found.qos, found.properties) == (b"gone", 1, [])
