"""PUBLISH and its acknowledgements in MQTT 3.1.1, both ways (sections 3.3 to 3.7, 4.3 and 4.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    V311,
    acknowledge,
    number,
    packet,
    puback,
    text,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v311.old import connected, publish, publish_whole, session, subscribe

pytestmark = pytest.mark.over_sockets
DUP, RETAIN = 8, 1


@statement("MQTT-2.3.1-5", "MQTT-3.3.1-2", "MQTT-4.3.1-1", version=V311)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt3_4_3_1_1_qos_0_has_neither_identifier_nor_dup(broker: AnyBroker, own: str, qos: int) -> None:
    raw = connected(broker, own)
    raw.subscribe(own, qos=0)
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, own, b"\0\x07body", qos, 5, bits=DUP if qos else 0)
    assert raw.expect(0x30) == text(own) + b"\0\x07body"


@statement("MQTT-3.3.1-2", "MQTT-4.8.0-1", version=V311)
def test_mqtt3_3_3_1_2_dup_at_qos_0_closes_the_connection(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.send(publish(own, bits=DUP))
    assert raw.ended()


@statement("MQTT-3.3.1-4", "MQTT-2.2.2-2", version=V311)
@pytest.mark.parametrize("bits", [0, RETAIN, DUP])
def test_mqtt3_3_3_1_4_qos_3_closes_the_connection(broker: AnyBroker, own: str, bits: int) -> None:
    reader = connected(broker, f"{own} reader")
    reader.subscribe(own)
    raw = connected(broker, own)
    raw.send(packet(0x36 | bits, text(own) + number(1)))
    assert raw.ended()
    reader.quiet()


@statement("MQTT-2.3.1-1", version=V311)
@pytest.mark.parametrize("qos", [1, 2])
def test_mqtt3_2_3_1_1_publish_with_identifier_0_closes_the_connection(broker: AnyBroker, own: str, qos: int) -> None:
    raw = connected(broker, own)
    raw.send(publish(own, b"", qos, 0))
    assert raw.ended()


@statement("MQTT-3.3.2-1", "MQTT-4.8.0-1", version=V311)
@pytest.mark.parametrize("rest", [b"", b"\0", b"\0\x02a", b"\xff\xff", b"\0\x05a/b"])
@pytest.mark.parametrize("first", [0x30, 0x32, 0x34])
def test_mqtt3_3_3_2_1_publish_without_topic_or_identifier(broker: AnyBroker, first: int, rest: bytes) -> None:
    raw = connected(broker, "cut")
    raw.send(packet(first, rest))
    assert raw.ended()


@statement("MQTT-2.3.1-1", version=V311)
@pytest.mark.parametrize("first", [0x32, 0x34])
def test_mqtt3_2_3_1_1_publish_that_ends_within_its_identifier(broker: AnyBroker, own: str, first: int) -> None:
    raw = connected(broker, own)
    raw.send(packet(first, text(own) + b"\0"))
    assert raw.ended()


@statement("MQTT-3.3.2-2", "MQTT-4.7.1-1", version=V311)
@pytest.mark.parametrize("topic", ["#", "+", "a/#", "+/a", "a+b", "a#"])
def test_mqtt3_3_3_2_2_a_topic_name_with_a_wildcard_closes_the_connection(
    broker: AnyBroker, own: str, topic: str
) -> None:
    raw = connected(broker, own)
    raw.send(publish(topic, b"", 1))
    assert raw.ended()


@statement("MQTT-3.3.2-3", version=V311)
def test_mqtt3_3_3_2_3_a_delivery_has_the_topic_published_to(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.subscribe(f"{own}/+/c/#", qos=0)
    publisher = connected(broker, f"{own} publisher")
    for topic in (f"{own}/b/c", f"{own}//c/", f"{own}/b/c/d/e.f"):
        publisher.publish(topic, b"")
        assert raw.delivery().topic == topic


@statement("MQTT-3.3.4-1", "MQTT-2.3.1-6", "MQTT-4.3.2-2", "MQTT-4.3.3-2", version=V311)
@pytest.mark.parametrize("id", [1, 255, 256, 65_535])
def test_mqtt3_3_3_4_1_each_qos_has_its_answer(broker: AnyBroker, own: str, id: int) -> None:
    raw = connected(broker, own)
    raw.send(publish(own, b"at 0"), PINGREQ)
    assert raw.read(2) == PINGRESP
    raw.send(publish(own, b"at 1", 1, id))
    assert raw.read(4) == b"\x40\x02" + number(id)
    raw.send(publish(own, b"at 2", 2, id))
    assert raw.read(4) == b"\x50\x02" + number(id)
    raw.send(acknowledge(PUBREL, id))
    assert raw.read(4) == b"\x70\x02" + number(id)


@statement("MQTT-3.3.4-1", "MQTT-4.3.2-2", "MQTT-4.3.3-2", version=V311)
def test_mqtt3_3_3_4_1_a_publish_above_the_highest_qos_has_its_answer(
    start_broker: Callable[..., AnyBroker],
) -> None:
    """Version 3.1.1 has no way to say what the highest is."""
    broker = start_broker(mqtt_max_qos=1)
    reader = connected(broker, "reader")
    reader.subscribe("a", qos=1)
    raw = connected(broker, "writer")
    publish_whole(raw, "a", b"x", 2)
    found = reader.delivery()
    assert (found.body, found.qos) == (b"x", 1)


@statement("MQTT-4.3.2-2", "MQTT-3.3.1-3", version=V311)
def test_mqtt3_4_3_2_2_behind_its_puback_an_identifier_is_new(broker: AnyBroker, own: str) -> None:
    reader = connected(broker, f"{own} reader")
    reader.subscribe(own)
    raw = connected(broker, own)
    for body, bits in ((b"1", 0), (b"2", DUP), (b"2", DUP)):
        raw.send(publish(own, body, 1, 5, bits=bits))
        raw.acked(5)
        found = reader.delivery()
        assert (found.body, found.bits) == (body, 0)


@statement("MQTT-4.6.0-2", "MQTT-4.6.0-3", version=V311)
@pytest.mark.parametrize(("qos", "kind"), [(1, PUBACK), (2, PUBREC)])
def test_mqtt3_4_6_0_2_acknowledgements_in_the_order_of_the_publishes(
    broker: AnyBroker, own: str, qos: int, kind: int
) -> None:
    raw = connected(broker, own)
    ids = [*range(60, 0, -1), 65_535, *range(100, 130)]
    raw.send(*[publish(own, b"", qos, id) for id in ids])
    for id in ids:
        raw.acked(id, kind=kind)
    if qos == 2:
        raw.send(*[acknowledge(PUBREL, id) for id in reversed(ids)])
        for id in reversed(ids):
            raw.acked(id, kind=PUBCOMP)


@statement("MQTT-4.3.2-1", "MQTT-2.3.1-4", "MQTT-4.6.0-6", version=V311)
def test_mqtt3_4_3_2_1_identifiers_in_flight_are_not_used_anew(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.subscribe(own)
    publisher = connected(broker, f"{own} publisher")
    held: list[int] = []
    for count in range(300):
        publisher.publish(own, number(count))
        found = raw.delivery()
        assert (found.body, found.qos, found.bits) == (number(count), 1, 0)
        assert found.id not in held
        if count < 5:
            held.append(found.id)
        else:
            raw.send(puback(found.id))
    raw.send(*[puback(id) for id in reversed(held)])
    raw.quiet()


@statement("MQTT-4.3.3-1", "MQTT-2.3.1-4", "MQTT-2.3.1-6", "MQTT-3.6.1-1", version=V311)
def test_mqtt3_4_3_3_1_qos_2_to_the_client(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.subscribe(own, qos=2)
    publisher = connected(broker, f"{own} publisher")
    used: list[int] = []
    for count in range(3):
        publish_whole(publisher, own, number(count), 2, count + 1)
        found = raw.delivery()
        assert (found.body, found.qos, found.bits) == (number(count), 2, 0)
        used.append(found.id)
    assert len(set(used)) == 3
    for id in used:
        raw.send(acknowledge(PUBREC, id))
        assert raw.read(4) == b"\x62\x02" + number(id)
    raw.send(acknowledge(PUBREC, used[0]))  # again: PUBREL again, and no PUBLISH
    assert raw.read(4) == b"\x62\x02" + number(used[0])
    raw.send(*[acknowledge(PUBCOMP, id) for id in used])
    raw.quiet()


@statement("MQTT-4.3.3-1", "MQTT-2.3.1-4", version=V311)
def test_mqtt3_4_3_3_1_an_identifier_is_in_use_until_pubcomp(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.subscribe(own, qos=2)
    publisher = connected(broker, f"{own} publisher")
    waiting: set[int] = set()
    for count in range(200):
        publish_whole(publisher, own, number(count), 2)
        found = raw.delivery()
        assert found.id not in waiting
        raw.send(acknowledge(PUBREC, found.id))
        raw.acked(found.id, kind=PUBREL)
        if count < 4:
            waiting.add(found.id)
        else:
            raw.send(acknowledge(PUBCOMP, found.id))


@statement("MQTT-4.6.0-4", version=V311)
def test_mqtt3_4_6_0_4_pubrels_in_the_order_of_the_pubrecs(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.subscribe(own, qos=2)
    publisher = connected(broker, f"{own} publisher")
    for count in range(20):
        publish_whole(publisher, own, number(count), 2)
    ids = [raw.delivery().id for _ in range(20)]
    order = ids[::2] + ids[1::2]
    raw.send(*[acknowledge(PUBREC, id) for id in order])
    for id in order:
        raw.acked(id, kind=PUBREL)


@statement("MQTT-4.6.0-5", "MQTT-4.6.0-6", version=V311)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_mqtt3_4_6_0_6_messages_in_the_order_of_their_publishes(broker: AnyBroker, own: str, qos: int) -> None:
    direct, wild = connected(broker, f"{own} direct"), connected(broker, f"{own} wild")
    direct.subscribe(own, qos=qos)
    wild.subscribe(f"{own}/#", qos=qos)
    raw = connected(broker, own)
    count = 200
    raw.send(*[publish(own, number(place), qos, place + 1) for place in range(count)])
    if qos == 2:
        raw.send(*[acknowledge(PUBREL, place + 1) for place in range(count)])
    for reader in (direct, wild):
        bodies: list[int] = []
        while len(bodies) < count:
            first, rest = reader.packet()
            if first == PUBREL:
                reader.send(packet(PUBCOMP, rest))
                continue
            assert first == 0x30 | qos << 1
            bodies.append(int.from_bytes(rest[-2:], "big"))
            if qos:
                reader.send(packet(PUBACK if qos == 1 else PUBREC, rest[-4:-2]))
        assert bodies == list(range(count))


@statement("MQTT-3.3.5-1", version=V311)
@pytest.mark.parametrize(("filters", "qos"), [((0, 1, 2), 2), ((2, 1, 0), 2), ((0, 1, 0), 1), ((0, 0, 0), 0)])
def test_mqtt3_3_3_5_1_overlapping_subscriptions_deliver_at_the_highest_qos(
    broker: AnyBroker, own: str, filters: tuple[int, int, int], qos: int
) -> None:
    raw = connected(broker, own)
    raw.send(subscribe(1, *zip((f"{own}/a", f"{own}/+", f"{own}/#"), filters, strict=True)))
    assert raw.granted() == list(filters)
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, f"{own}/a", b"x", 2)
    assert raw.delivery().qos == qos


@statement("MQTT-3.3.5-2", version=V311)
def test_mqtt3_3_3_5_2_what_may_not_be_published_is_acknowledged_or_closes(broker: AnyBroker, own: str) -> None:
    reader = connected(broker, f"{own} reader")
    reader.subscribe(f"$SYS/{own}", qos=0)
    raw = connected(broker, own)
    raw.send(publish(f"$SYS/{own}", b"forged", 1, 3))
    answer = raw.socket.recv(65536)
    assert answer in {b"", b"\x40\x02\0\x03"}
    reader.quiet()


@statement("MQTT-4.5.0-1", version=V311)
def test_mqtt3_4_5_0_1_every_matching_session_gets_the_message(broker: AnyBroker, own: str) -> None:
    filters = [f"{own}/a", f"{own}/+", f"{own}/#", "+/a", "#"]
    readers = [connected(broker, f"{own} {place}") for place in range(len(filters))]
    away = session(broker, f"{own} away")
    for reader, name in zip([*readers, away], [*filters, f"{own}/a"], strict=True):
        reader.subscribe(name)
    away.leave()
    publisher = connected(broker, f"{own} publisher")
    publisher.publish(f"{own}/a", b"x")
    for reader in readers:
        assert reader.delivery().body == b"x"
        reader.quiet()
    assert session(broker, f"{own} away", present=True).delivery().body == b"x"
