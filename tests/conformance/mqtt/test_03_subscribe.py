"""SUBSCRIBE and UNSUBSCRIBE, what a filter matches, and how deliveries come (MQTT 5.0 sections 3.8 to 3.11, 4.7)."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    UNSUBACK,
    V5,
    V311,
    connected,
    number,
    packet,
    puback,
    publish,
    subscribe,
    text,
    unsubscribe,
)
from tests.conformance.mqtt.statements import statement

VERSIONS = pytest.mark.parametrize("version", [V311, V5])


@statement(
    "MQTT-3.8.4-1",
    "MQTT-3.8.4-2",
    "MQTT-3.8.4-6",
    "MQTT-3.8.4-7",
    "MQTT-3.9.3-1",
    "MQTT-3.9.3-2",
    "MQTT-4.7.1-1",
    "MQTT-4.7.1-2",
    "MQTT-2.2.1-6",
)
@VERSIONS
def test_mqtt5_3_8_4_6_a_code_for_each_filter(broker: AnyBroker, version: int) -> None:
    raw = connected(broker, version=version)
    filters = [("a", 0), ("b/+", 1), ("c/#", 2), ("#/d", 0), ("e+", 1), ("", 0), ("$queue/#", 1), ("$share/g/t", 1)]
    raw.send(subscribe(513, *filters, version=version))
    wrong = [0x8F if version == V5 else 0x80] * 4
    assert raw.granted(513) == [0, 1, 2, *wrong, 1]
    raw.send(publish("c/x", b"2", 2, 1, version))
    assert (raw.delivery().qos, raw.packet()[0]) == (2, 0x50)


@statement("MQTT-3.8.3-1", "MQTT-3.8.3-2", "MQTT-3.8.3-4", "MQTT-3.8.3-5", "MQTT-3.10.3-2")
@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (subscribe(1), 0x82),  # [MQTT-3.8.3-2]
        (packet(0xA2, number(1) + b"\0"), 0x82),  # [MQTT-3.10.3-2]
        (subscribe(1, ("a", 3)), 0x81),
        (subscribe(1, ("a", 0x40)), 0x81),  # [MQTT-3.8.3-5]
        (subscribe(1, ("a", 0x30)), 0x82),
        (subscribe(1, ("$share/g/a", 4)), 0x82),  # [MQTT-3.8.3-4]
        (packet(0x82, number(1) + b"\0" + text("a")), 0x81),  # no options
        (subscribe(1, (b"\xff", 0)), 0x81),  # [MQTT-3.8.3-1]
        (subscribe(1, ("a", 0), properties=b"\x0b\0"), 0x82),  # subscription identifier 0
        (subscribe(1, ("a", 0), properties=b"\x0b\x01\x0b\x02"), 0x82),
    ],
)
def test_mqtt5_3_8_3_2_subscribe_that_none_is(broker: AnyBroker, octets: bytes, code: int) -> None:
    raw = connected(broker)
    raw.send(octets)
    raw.refused(code)


@statement(
    "MQTT-3.10.4-1", "MQTT-3.10.4-2", "MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-3.10.4-6", "MQTT-2.3.1-7", version=V311
)
@statement(
    "MQTT-3.10.4-1",
    "MQTT-3.10.4-2",
    "MQTT-3.10.4-4",
    "MQTT-3.10.4-5",
    "MQTT-3.10.4-6",
    "MQTT-3.11.3-1",
    "MQTT-3.11.3-2",
    "MQTT-2.2.1-6",
)
@VERSIONS
def test_mqtt5_3_10_4_1_unsubscribe(broker: AnyBroker, version: int) -> None:
    raw = connected(broker, version=version)
    raw.subscribe("a", "b/#")
    raw.send(unsubscribe(9, "b/#", "b", "a/#", version=version))
    assert raw.granted(9, UNSUBACK) == ([0, 0x11, 0x11] if version == V5 else [])
    raw.publish("b/c", b"no", 0)
    raw.send(publish("a", b"yes", version=version))
    assert raw.delivery().body == b"yes"
    raw.quiet()


@statement("MQTT-4.7.2-1", version=V311)
@statement("MQTT-4.7.2-1")
@VERSIONS
def test_mqtt5_4_7_2_1_wildcards_do_not_match_dollar_topics(broker: AnyBroker, version: int) -> None:
    raw = connected(broker, version=version)
    raw.subscribe("#", "+/x", "+/#")
    other = connected(broker, "other", version)
    other.subscribe("$mine/#")
    raw.publish("$mine/x", b"dollar", 0)
    assert other.delivery().topic == "$mine/x"
    raw.quiet()


MATCHES = {
    "sport/tennis/+": ["sport/tennis/p1", "sport/tennis/"],
    "sport/tennis/#": ["sport/tennis", "sport/tennis/p1", "sport/tennis/p1/x", "sport/tennis/"],
    "sport/+": ["sport/", "sport/tennis"],
    "+": ["finance", "Finance", "a.b"],
    "+/+": ["/finance", "sport/", "sport/tennis", "a b/ü.*"],
    "/+": ["/finance"],
    "#": ["/finance", "finance", "Finance", "sport/", "sport/tennis", "sport/tennis/", "sport/tennis/p1",
          "sport/tennis/p1/x", "a b/ü.*", "a.b"],
    "finance": ["finance"],
    "a b/ü.*": ["a b/ü.*"],
    "a.b": ["a.b"],
}  # fmt: skip


@statement("MQTT-4.7.3-4", "MQTT-3.3.2-3")
def test_mqtt5_4_7_3_4_each_filter_matches_its_topics_and_no_others(broker: AnyBroker) -> None:
    publisher = connected(broker, "publisher")
    readers = {}
    for name in MATCHES:
        readers[name] = connected(broker, f"reader {name}")
        readers[name].subscribe(name, qos=0)
    topics = sorted(MATCHES["#"])
    for topic in topics:
        publisher.publish(topic, b"x")
    for name, reader in readers.items():
        expected = sorted(MATCHES[name])
        assert [reader.delivery().topic for _ in expected] == expected, name
        reader.quiet()


@statement("MQTT-3.3.5-1", "MQTT-3.8.4-3", version=V311)
@statement("MQTT-3.3.4-2", "MQTT-3.8.4-3")
@VERSIONS
def test_mqtt5_3_3_4_2_overlapping_subscriptions_one_copy_at_the_highest_qos(broker: AnyBroker, version: int) -> None:
    raw = connected(broker, version=version)
    raw.send(subscribe(1, ("a/#", 0), ("a/+", 1), ("a/b", 0), version=version))
    assert raw.granted() == [0, 1, 0]
    raw.subscribe("a/b", qos=0)  # the same filter again replaces the subscription [MQTT-3.8.4-3]
    publisher = connected(broker, "publisher", version)
    publisher.publish("a/b", b"1")
    found = raw.delivery()
    assert (found.body, found.qos) == (b"1", 1)
    raw.send(puback(found.id))
    raw.quiet()
    raw.send(unsubscribe(3, "a/+", version=version))
    raw.granted(3, UNSUBACK)
    publisher.publish("a/b", b"2")
    assert raw.delivery().qos == 0
    raw.quiet()


@statement("MQTT-3.8.4-8", "MQTT-4.3.1-1")
def test_mqtt5_3_8_4_8_qos_is_the_lower_of_both(broker: AnyBroker) -> None:
    raw = connected(broker)
    raw.subscribe("one")
    raw.subscribe("zero", qos=0)
    publisher = connected(broker, "publisher")
    for topic, qos, delivered in (("one", 0, 0), ("one", 1, 1), ("zero", 0, 0), ("zero", 1, 0)):
        publisher.publish(topic, b"", qos)
        assert raw.delivery().qos == delivered


@statement("MQTT-3.3.4-9", "MQTT-3.3.4-10", "MQTT-4.9.0-1", "MQTT-4.9.0-2", "MQTT-4.9.0-3")
@VERSIONS
def test_mqtt5_3_3_4_9_no_more_in_flight_than_the_receive_maximum(broker: AnyBroker, version: int) -> None:
    raw = connected(broker, version=version, properties=b"\x21\0\x02")
    raw.subscribe("a")
    publisher = connected(broker, "publisher")
    for body in (b"1", b"2", b"3", b"4"):
        publisher.publish("a", body)
    found = [raw.delivery() for _ in range(2 if version == V5 else 4)]
    raw.quiet()
    if version == V5:
        publisher.publish("a", b"at QoS 0", 0)
        assert raw.delivery().body == b"at QoS 0"  # which the window does not hold back
        raw.send(puback(found[1].id))
        found.append(raw.delivery())
        raw.send(puback(found[0].id, 0x80), puback(found[2].id))
        found.append(raw.delivery())
    assert [one.body for one in found] == [b"1", b"2", b"3", b"4"]
    raw.quiet()


@statement("MQTT-3.1.2-24", "MQTT-3.1.2-25")
def test_mqtt5_3_1_2_25_no_packet_larger_than_the_client_takes(broker: AnyBroker) -> None:
    raw = connected(broker, properties=b"\x27\0\0\0\x28")  # 40 octets
    raw.subscribe("a")
    publisher = connected(broker, "publisher")
    publisher.publish("a", bytes(34))  # 2 octets of head, 3 of topic, 2 of identifier, 1 of properties: 42
    publisher.publish("a", bytes(32))
    publisher.publish("a", bytes(35), 0)
    publisher.publish("a", bytes(34), 0)
    assert [len(raw.delivery().body) for _ in range(2)] == [32, 34]
    raw.quiet()


@statement("MQTT-3.9.2-1", "MQTT-3.8.4-7")
def test_mqtt5_3_8_4_1_refusals_say_why_within_the_packet_size(broker: AnyBroker) -> None:
    raw = connected(broker)
    raw.send(subscribe(1, ("a/#/b", 0)))
    assert b"'#' must be the last level" in raw.expect(0x90)
    small = connected(broker, "small", properties=b"\x27\0\0\0\x28")
    small.send(subscribe(1, ("a/#/b", 0)))
    assert small.expect(0x90) == b"\0\x01\0\x8f"
