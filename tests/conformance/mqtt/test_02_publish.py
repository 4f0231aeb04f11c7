"""PUBLISH and its acknowledgements (MQTT 5.0 sections 3.3 to 3.7 and 4.3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    V5,
    V311,
    Raw,
    connected,
    number,
    packet,
    puback,
    publish,
    subscribe,
    text,
    user,
)
from tests.conformance.mqtt.statements import statement

VERSIONS = pytest.mark.parametrize("version", [V311, V5])


def pubrel(id: int) -> bytes:
    return packet(0x62, number(id))


def answers(broker: AnyBroker, octets: bytes, code: int) -> None:
    """These octets must end a connection of version 5 with the code."""
    raw = connected(broker)
    raw.send(octets)
    raw.refused(code)


@statement("MQTT-4.3.2-2", "MQTT-2.3.1-6", "MQTT-3.3.4-1", version=V311)
@statement("MQTT-4.3.2-4", "MQTT-2.2.1-5", "MQTT-3.3.4-1", "MQTT-3.4.2-1")
@VERSIONS
def test_mqtt5_4_3_2_4_qos_1_is_acknowledged_with_its_identifier(broker: AnyBroker, version: int) -> None:
    raw = connected(broker, version=version)
    raw.send(*[publish("nobody/wants", b"x", 1, id, version) for id in (7, 65535, 1)])
    for id in (7, 65535, 1):
        raw.acked(id, 0x10 if version == V5 else 0)  # no matching subscribers
    wanting = connected(broker, "d", version)
    wanting.subscribe("a")
    raw.send(publish("a", b"x", 1, 5, version))
    assert raw.read(4) == b"\x40\x02\x00\x05"
    assert wanting.delivery().body == b"x"


@statement("MQTT-4.3.3-2", "MQTT-2.3.1-6", "MQTT-3.3.4-1", version=V311)
@statement("MQTT-4.3.3-8", "MQTT-4.3.3-10", "MQTT-4.3.3-11", "MQTT-4.3.3-12", "MQTT-2.2.1-5", "MQTT-3.7.2-1")
@VERSIONS
def test_mqtt5_4_3_3_8_qos_2_comes_once(broker: AnyBroker, version: int) -> None:
    reader = connected(broker, "reader", version)
    reader.subscribe("a")
    raw = connected(broker, version=version)
    raw.send(publish("a", b"1", 2, 9, version))
    raw.acked(9, kind=PUBREC)
    raw.send(publish("a", b"1", 2, 9, version, bits=8))  # again, before PUBREL [MQTT-4.3.3-10]
    raw.acked(9, kind=PUBREC)
    raw.send(pubrel(9))
    raw.acked(9, kind=PUBCOMP)
    raw.send(publish("a", b"2", 2, 9, version), pubrel(9))  # the identifier is free again [MQTT-4.3.3-12]
    assert {raw.packet()[0] for _ in range(2)} == {PUBREC, PUBCOMP}
    for body in (b"1", b"2"):
        found = reader.delivery()
        assert (found.body, found.bits) == (body, 0)
        reader.send(packet(PUBACK, number(found.id)))
    reader.quiet()
    raw.send(pubrel(11))
    raw.acked(11, 0x92 if version == V5 else 0, PUBCOMP)  # never heard of


@statement("MQTT-3.5.2-1")
def test_mqtt5_3_5_2_1_qos_2_that_nobody_wants(broker: AnyBroker) -> None:
    raw = connected(broker)
    raw.send(publish("a", b"", 2, 3))
    raw.acked(3, 0x10, PUBREC)
    raw.send(pubrel(3))
    raw.acked(3, 0, PUBCOMP)


@statement("MQTT-2.2.1-3")
def test_mqtt5_2_2_1_3_packet_identifier_0(broker: AnyBroker) -> None:
    for octets in (
        publish("a", b"", 1, 0),
        publish("a", b"", 2, 0),
        subscribe(0, ("a", 0)),
        b"\x40\x02\0\0",
        pubrel(0),
    ):
        answers(broker, octets, 0x82)


@statement("MQTT-3.3.2-1", "MQTT-3.3.2-2", "MQTT-4.7.0-1", "MQTT-4.7.3-1", "MQTT-4.7.3-2")
def test_mqtt5_3_3_2_2_topic_names_that_are_none(broker: AnyBroker) -> None:
    for topic in ("a/#", "+", "a+b", "#"):
        answers(broker, publish(topic), 0x90)
    answers(broker, publish("/".join("a" * 129)), 0x90)
    answers(broker, publish(""), 0x82)  # [MQTT-4.7.3-1]
    for octets in (b"a\0", b"\xff", b"\xed\xa0\x80"):
        answers(broker, publish(octets), 0x81)


@statement("MQTT-3.3.1-2", "MQTT-3.3.1-4")
def test_mqtt5_3_3_1_4_flags_that_no_publish_has(broker: AnyBroker) -> None:
    answers(broker, packet(0x36, text("a") + b"\0\x01\0"), 0x81)  # QoS 3
    answers(broker, publish("a", bits=8), 0x81)  # DUP at QoS 0 [MQTT-3.3.1-2]


def test_mqtt5_3_3_0_1_publish_cut_short(broker: AnyBroker) -> None:
    for rest in (b"", b"\0", b"\0\x02a", text("a"), text("a") + b"\x01", text("a") + b"\x05\x01\x01"):
        answers(broker, packet(0x30, rest), 0x81)
    answers(broker, packet(0x32, text("a") + b"\0"), 0x81)


@statement("MQTT-3.3.2-8", "MQTT-3.3.2-9", "MQTT-3.3.2-14", "MQTT-3.3.2-19", "MQTT-3.3.4-6", "MQTT-1.5.7-1")
@pytest.mark.parametrize(
    ("properties", "code"),
    [
        (b"\x23\0\x21", 0x94),  # topic alias; the broker's maximum is 32 [MQTT-3.3.2-9]
        (b"\x23\0\0", 0x82),  # [MQTT-3.3.2-8]
        (b"\x0b\x01", 0x82),  # subscription identifier [MQTT-3.3.4-6]
        (b"\x08" + text("a/+"), 0x82),  # [MQTT-3.3.2-14]
        (b"\x01\x02", 0x82),
        (b"\x03" + text("t") + b"\x03" + text("t"), 0x82),
        (b"\x03" + text(b"\xff"), 0x81),  # [MQTT-3.3.2-19]
        (b"\x21\0\x01", 0x82),
        (b"\x02\0\0\0", 0x81),
        (b"\x26" + text("n"), 0x81),
    ],
)
def test_mqtt5_3_3_2_14_bad_publish_properties(broker: AnyBroker, properties: bytes, code: int) -> None:
    answers(broker, publish("a", properties=properties), code)


@statement("MQTT-3.3.2-4", "MQTT-3.3.2-15", "MQTT-3.3.2-16", "MQTT-3.3.2-17", "MQTT-3.3.2-18", "MQTT-3.3.2-20")
def test_mqtt5_3_3_2_17_message_and_properties_pass_unaltered(broker: AnyBroker) -> None:
    raw = connected(broker)
    raw.subscribe("a/b")
    sent = (
        b"\x01\x01\x03" + text("text/plain") + user("b", "1") + user("a", "2") + user("b", "3")
        + b"\x08" + text("answer/here") + b"\x09" + text(b"\0\xff")
    )  # fmt: skip
    body = bytes(range(256)) * 300
    assert raw_code(raw, publish("a/b", body, 1, 4, properties=sent)) == (body, [
        (0x01, 1),
        (0x03, b"text/plain"),
        (0x26, ("b", "1")),
        (0x26, ("a", "2")),
        (0x26, ("b", "3")),
        (0x08, b"answer/here"),
        (0x09, b"\0\xff"),
    ])  # fmt: skip
    old = connected(broker, "old", V311)
    old.subscribe("a/b")
    raw.send(publish("a/b", b"for all", properties=sent))
    assert (old.delivery().body, raw.delivery().body) == (b"for all", b"for all")


def raw_code(raw: Raw, octets: bytes) -> tuple[bytes, list[tuple[int, object]]]:
    """What a client is delivered of its own publish."""
    raw.send(octets)
    first = raw.delivery()
    raw.expect(PUBACK)
    return first.body, first.properties


@statement("MQTT-3.3.1-3", "MQTT-4.3.2-1", version=V311)
@statement("MQTT-3.3.1-3", "MQTT-4.3.2-2")
@VERSIONS
def test_mqtt5_3_3_1_3_dup_and_retain_are_not_passed_on(broker: AnyBroker, version: int) -> None:
    reader = connected(broker, "reader", version)
    reader.subscribe("a")
    raw = connected(broker, version=version)
    raw.send(publish("a", b"again", 1, 3, version, bits=8))
    raw.acked(3)
    found = reader.delivery()
    assert (found.body, found.bits, found.qos) == (b"again", 0, 1)


@statement("MQTT-4.6.0-2", "MQTT-4.6.0-5", "MQTT-4.6.0-6")
def test_mqtt5_4_6_0_2_acknowledgements_in_order(broker: AnyBroker) -> None:
    raw = connected(broker)
    raw.subscribe("in/order")
    ids = list(range(300, 200, -1))
    raw.send(*[publish("in/order", number(id), 1, id) for id in ids])
    bodies: list[int] = []
    acks: list[int] = []
    while len(bodies) + len(acks) < 2 * len(ids):
        first, rest = raw.packet()
        if first == PUBACK:
            acks.append(int.from_bytes(rest[:2], "big"))
        else:
            bodies.append(int.from_bytes(rest[-2:], "big"))
            raw.send(puback(raw.parsed(first, rest).id))
    assert acks == ids
    assert bodies == ids  # [MQTT-4.6.0-5]


def test_mqtt5_4_9_0_1_payload_beyond_the_limit(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(message_octets_max=100)
    raw = connected(broker)
    assert raw.publish("a", bytes(100)) == 0x10
    raw.send(publish("a", bytes(101)))
    raw.refused(0x95)


@statement("MQTT-3.6.2-1")
def test_mqtt5_4_3_3_1_acknowledgements_that_belong_to_nothing(broker: AnyBroker) -> None:
    raw = connected(broker)
    raw.send(packet(PUBACK, number(77)), packet(PUBCOMP, number(77)))
    raw.quiet()
    raw.send(packet(PUBREC, number(77)))
    raw.acked(77, 0x92, 0x62)
    raw.quiet()
