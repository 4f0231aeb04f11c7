"""SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK of MQTT 3.1.1 (sections 3.8 to 3.11)."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    PUBCOMP,
    PUBREC,
    PUBREL,
    UNSUBACK,
    V311,
    acknowledge,
    number,
    packet,
    puback,
    text,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v311.old import connected, publish, publish_whole, subscribe, unsubscribe


@statement(
    "MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-3.8.4-4", "MQTT-3.8.4-5", "MQTT-3.9.3-1", "MQTT-3.9.3-2", "MQTT-2.3.1-7",
    version=V311,
)  # fmt: skip
def test_mqtt3_3_9_3_1_a_code_for_each_filter_in_order(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    filters = [(own, 2), ("#/d", 0), (f"{own}/+", 0), ("e+", 1), (f"{own}/c/#", 1), ("", 2), (f"{own}/d", 2)]
    raw.send(subscribe(513, *filters))
    assert raw.expect(0x90) == number(513) + b"\x02\x80\x00\x80\x01\x80\x02"


@statement("MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-3.10.4-4", "MQTT-2.3.1-7", version=V311)
@pytest.mark.parametrize("id", [1, 256, 65_535])
def test_mqtt3_3_8_4_2_answers_have_the_identifier_of_their_request(broker: AnyBroker, own: str, id: int) -> None:
    raw = connected(broker, own)
    raw.send(subscribe(id, (own, 0)), unsubscribe(id, own))
    assert raw.read(9) == b"\x90\x03" + number(id) + b"\0" + b"\xb0\x02" + number(id)


@statement("MQTT-2.3.1-1", "MQTT-4.8.0-1", version=V311)
@pytest.mark.parametrize("octets", [subscribe(0, ("a", 0)), unsubscribe(0, "a"), packet(0x82, b"\0"), packet(0xA2)])
def test_mqtt3_2_3_1_1_a_request_without_identifier_closes_the_connection(broker: AnyBroker, octets: bytes) -> None:
    raw = connected(broker, "without identifier")
    raw.send(octets)
    assert raw.ended()


@statement("MQTT-3.8.3-3", "MQTT-3.10.3-2", version=V311)
@pytest.mark.parametrize("octets", [subscribe(1), unsubscribe(1)])
def test_mqtt3_3_8_3_3_a_request_without_filter_closes_the_connection(broker: AnyBroker, octets: bytes) -> None:
    raw = connected(broker, "without filter")
    raw.send(octets)
    assert raw.ended()


@statement("MQTT-3.8.3-4", version=V311)
@pytest.mark.parametrize("options", [3, 4, 8, 0x10, 0x20, 0x40, 0x80, 0xFC])
def test_mqtt3_3_8_3_4_reserved_bits_and_qos_3_close_the_connection(broker: AnyBroker, options: int) -> None:
    raw = connected(broker, "options")
    raw.send(subscribe(1, ("a", 0), ("b", options)))
    assert raw.ended()


@statement("MQTT-3.8.3-3", "MQTT-3.8.3-4", "MQTT-3.10.3-1", version=V311)
@pytest.mark.parametrize(
    "octets",
    [
        packet(0x82, number(1) + text("a")),  # no QoS
        packet(0x82, number(1) + text("a") + b"\0" + b"\0"),
        packet(0x82, number(1) + b"\0\x05a\0"),
        packet(0xA2, number(1) + b"\0\x05a"),
        packet(0xA2, number(1) + text("a") + b"\0"),
    ],
)
def test_mqtt3_3_8_3_3_a_request_cut_short_closes_the_connection(broker: AnyBroker, octets: bytes) -> None:
    raw = connected(broker, "cut short")
    raw.send(octets)
    assert raw.ended()


@statement("MQTT-1.5.3-1", "MQTT-1.5.3-2", "MQTT-3.8.3-1", "MQTT-3.10.3-1", "MQTT-4.7.3-2", version=V311)
@pytest.mark.parametrize("bad", [b"\xff", b"a/\xed\xa0\x80", b"\xc0\x80", b"a\0", b"\0"])
def test_mqtt3_3_8_3_1_filters_are_utf_8_without_nul(broker: AnyBroker, bad: bytes) -> None:
    for octets in (subscribe(1, (bad, 0)), packet(0xA2, number(1) + text(bad))):
        raw = connected(broker, "bad filter")
        raw.send(octets)
        assert raw.ended()


@statement("MQTT-3.8.4-6", version=V311)
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_mqtt3_3_8_4_6_qos_is_the_lower_of_both(broker: AnyBroker, own: str, granted: int) -> None:
    raw = connected(broker, own)
    raw.subscribe(own, qos=granted)
    publisher = connected(broker, f"{own} publisher")
    for published in (2, 0, 1):
        publish_whole(publisher, own, b"%d" % published, published)
        found = raw.delivery()
        assert (found.body, found.qos) == (b"%d" % published, min(published, granted))


@statement("MQTT-3.8.4-3", version=V311)
@pytest.mark.parametrize(("before", "after"), [(0, 2), (2, 0), (1, 1)])
def test_mqtt3_3_8_4_3_the_same_filter_again_replaces_the_subscription(
    broker: AnyBroker, own: str, before: int, after: int
) -> None:
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, f"{own}/kept", b"retained", 2, bits=1)
    raw = connected(broker, own)
    for qos in (before, after):
        raw.send(subscribe(7, (f"{own}/#", qos)))
        assert raw.granted(7) == [qos]
        found = raw.delivery()
        assert (found.body, found.bits, found.qos) == (b"retained", 1, qos)
    publish_whole(publisher, f"{own}/a", b"once", 2)
    found = raw.delivery()
    assert (found.body, found.qos) == (b"once", after)
    raw.quiet()


@statement("MQTT-3.8.4-3", version=V311)
def test_mqtt3_3_8_4_3_no_message_is_lost_or_doubled_meanwhile(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    octets = [subscribe(1, (own, 1))]
    for count in range(50):
        octets += [publish(own, number(count), 1, count + 1), subscribe(1, (own, 1))]
    raw.send(*octets)
    bodies: list[int] = []
    answers = 0
    while answers < 101 or len(bodies) < 50:
        first, rest = raw.packet()
        if first == 0x32:
            bodies.append(int.from_bytes(rest[-2:], "big"))
            raw.send(puback(int.from_bytes(rest[-4:-2], "big")))
        else:
            answers += 1
    assert bodies == list(range(50))
    raw.quiet()


@statement("MQTT-3.8.4-4", version=V311)
def test_mqtt3_3_8_4_4_of_the_same_filter_twice_the_last_holds(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.send(subscribe(1, (own, 2), (f"{own}/x", 1), (own, 0)))
    assert raw.granted() == [2, 1, 0]
    publisher = connected(broker, f"{own} publisher")
    publisher.publish(own, b"x")
    found = raw.delivery()
    assert (found.body, found.qos) == (b"x", 0)
    raw.quiet()


@statement("MQTT-3.10.4-1", "MQTT-3.10.4-5", version=V311)
def test_mqtt3_3_10_4_1_filters_are_compared_octet_by_octet(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.subscribe(f"{own}/é/+")
    others = [f"{own}/é/#", f"{own}/#", "#", f"{own}/é", f"{own}/é/a", f"{own}/É/+", f"{own}/e\u0301/+"]
    for name in others:
        raw.send(unsubscribe(5, name))
        assert raw.expect(UNSUBACK) == number(5)
    publisher = connected(broker, f"{own} publisher")
    publisher.publish(f"{own}/é/a", b"still")
    assert raw.delivery().body == b"still"
    raw.send(unsubscribe(6, f"{own}/é/+"))
    assert raw.expect(UNSUBACK) == number(6)
    publisher.publish(f"{own}/é/a", b"no more")
    raw.quiet()


@statement("MQTT-3.10.4-2", "MQTT-3.10.4-3", version=V311)
def test_mqtt3_3_10_4_3_exchanges_that_have_begun_are_completed(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.subscribe(own, qos=2)
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, own, b"1", 1)
    publish_whole(publisher, own, b"2", 2)
    first, second = raw.delivery(), raw.delivery()
    raw.send(unsubscribe(5, own))
    raw.expect(UNSUBACK)
    publisher.publish(own, b"no more", id=3)
    raw.send(puback(first.id), acknowledge(PUBREC, second.id))
    raw.acked(second.id, kind=PUBREL)
    raw.send(acknowledge(PUBCOMP, second.id))
    raw.quiet()
