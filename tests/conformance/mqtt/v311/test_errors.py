"""What closes a connection in MQTT 3.1.1: packets that are none, and packets that may not come (sections 2 and 4.8)."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    DISCONNECT,
    PINGREQ,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    V311,
    acknowledge,
    text,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v311.old import connect, connected, mortal, opened, publish, subscribe, unsubscribe

WELL_FORMED = {  # with the flags that each must have
    "PUBACK": acknowledge(PUBACK, 1),
    "PUBREC": acknowledge(PUBREC, 1),
    "PUBREL": acknowledge(PUBREL, 1),
    "PUBCOMP": acknowledge(PUBCOMP, 1),
    "SUBSCRIBE": subscribe(1, ("a", 0)),
    "UNSUBSCRIBE": unsubscribe(1, "a"),
    "PINGREQ": PINGREQ,
    "DISCONNECT": DISCONNECT,
}


@statement(
    "MQTT-2.2.2-1", "MQTT-2.2.2-2", "MQTT-3.6.1-1", "MQTT-3.8.1-1", "MQTT-3.10.1-1", "MQTT-3.14.1-1", version=V311
)  # fmt: skip
@pytest.mark.parametrize("name", WELL_FORMED)
def test_mqtt3_2_2_2_2_flags_of_the_fixed_header_that_are_not_valid(broker: AnyBroker, own: str, name: str) -> None:
    heir = connected(broker, f"{own} heir")
    heir.subscribe(own)
    octets = WELL_FORMED[name]
    for flags in range(16):
        if flags != octets[0] & 15:
            raw = mortal(broker, own, own, b"%d" % flags)
            raw.send(bytes([octets[0] & 0xF0 | flags]) + octets[1:])
            assert raw.ended()
            assert heir.delivery().body == b"%d" % flags  # closed as an error, and not by what the packet asks


@statement("MQTT-2.2.2-1", "MQTT-2.2.2-2", "MQTT-3.1.4-1", version=V311)
def test_mqtt3_2_2_2_2_flags_of_connect_that_are_not_valid(broker: AnyBroker, own: str) -> None:
    octets = connect(own)
    for flags in range(1, 16):
        assert opened(broker, bytes([0x10 | flags]) + octets[1:]).ended()


@statement("MQTT-4.8.0-1", version=V311)
@pytest.mark.parametrize(
    "octets",
    [
        b"\x00\x00",  # type 0
        b"\xf0\x00",  # type 15
        b"\xf0\x02\x18\x00",
        b"\x20\x02\0\0",  # what only servers send
        b"\x90\x03\0\x01\0",
        b"\xb0\x02\0\x01",
        b"\xd0\x00",
        b"\xc0\x01\0",  # octets that these do not have
        b"\xe0\x01\0",
        b"\x40\x03\0\x01\0",
        b"\x50\x04\0\x01\0\0",
        b"\x62\x03\0\x01\0",
        b"\x70\x03\0\x01\0",
        b"\x40\x00",  # octets that these lack
        b"\x50\x01\0",
        b"\x62\x01\x01",
        b"\x70\x00",
        b"\x40\x02\0\0",  # identifier 0
        b"\x50\x02\0\0",
        b"\x62\x02\0\0",
        b"\x70\x02\0\0",
        b"\x30\xff\xff\xff\xff\x01",  # a remaining length of five octets
        b"\xc0\x80\x80\x80\x80\x00",
    ],
)
def test_mqtt3_4_8_0_1_packets_that_none_are_close_the_connection(broker: AnyBroker, own: str, octets: bytes) -> None:
    raw = connected(broker, own)
    raw.send(octets)
    assert raw.ended()


@statement("MQTT-4.8.0-1", version=V311)
@pytest.mark.parametrize("octets", [b"\x00\x00", connect("again"), publish("a/#", b"", 1), subscribe(1)])
def test_mqtt3_4_8_0_1_nothing_behind_a_violation_is_processed(broker: AnyBroker, own: str, octets: bytes) -> None:
    reader = connected(broker, f"{own} reader")
    reader.subscribe(own)
    raw = connected(broker, own)
    raw.send(publish(own, b"before") + octets + publish(own, b"behind"))
    assert raw.ended()
    assert reader.delivery().body == b"before"
    reader.quiet()


@statement("MQTT-4.8.0-1", version=V311)
def test_mqtt3_4_8_0_1_only_the_connection_at_fault_is_closed(broker: AnyBroker, own: str) -> None:
    other = connected(broker, f"{own} other")
    raw = connected(broker, own)
    raw.send(b"\x00\x00")
    assert raw.ended()
    other.quiet()


@statement("MQTT-7.1.1-1", version=V311)
def test_mqtt3_7_1_1_1_octets_may_come_in_any_pieces(broker: AnyBroker, own: str) -> None:
    raw = opened(broker)
    body = bytes(range(256)) * 4
    for octet in connect(own) + subscribe(1, (own, 0)) + publish(own, body) + PINGREQ:
        raw.send(bytes([octet]))
    raw.connack()
    assert raw.granted() == [0]
    found = dict(raw.packet() for _ in range(2))
    assert found[0x30] == text(own) + body
    assert found[0xD0] == b""
