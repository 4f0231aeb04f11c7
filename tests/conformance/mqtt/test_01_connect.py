"""CONNECT and CONNACK, fixed headers, and what no client may send (MQTT 5.0 sections 1.5, 2, 3.1 and 3.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.mqtt.raw import (
    DISCONNECT,
    PINGREQ,
    V5,
    V311,
    Raw,
    connect,
    connect_head,
    connected,
    packet,
    publish,
    subscribe,
    text,
    will,
)
from tests.conformance.mqtt.statements import statement

VERSIONS = pytest.mark.parametrize("version", [V311, V5])
LOGIN = text("guest") + text("guest")


def refusal(broker: AnyBroker, octets: bytes, code: int, version: int = V5) -> None:
    """These first octets must end the connection; version 5 gets a CONNACK with the code."""
    raw = Raw(broker, version)
    raw.send(octets)
    if version == V5:
        raw.connack(code)
    assert raw.ended()


@statement("MQTT-3.1.0-1", version=V311)
@statement("MQTT-3.1.0-1")
def test_mqtt5_3_1_0_1_first_packet_must_be_connect(broker: AnyBroker) -> None:
    for octets in (
        2 * PINGREQ,
        publish("a"),
        subscribe(1, ("a", 0)),
        2 * DISCONNECT,
        bytes(4),
        b"GET / HTTP/1.1\r\n\r\n",
    ):
        raw = Raw(broker)
        raw.send(octets)
        assert raw.ended()


@statement("MQTT-3.1.0-2", "MQTT-4.8.0-1", version=V311)
@statement("MQTT-3.1.0-2", "MQTT-3.2.0-2")
@VERSIONS
def test_mqtt5_3_1_0_2_second_connect_is_a_protocol_error(broker: AnyBroker, version: int) -> None:
    raw = connected(broker, version=version)
    raw.send(connect(version=version))
    raw.refused(0x82)


def test_the_reason_can_be_read_by_who_publishes_on(broker_process: BrokerProcess) -> None:
    """Had the broker_process closed its socket at once, what is still on its way would have reset the connection."""
    raw = connected(broker_process)
    raw.send(connect())
    raw.send(publish("a", bytes(100_000)) * 80)
    raw.refused(0x82)


@statement("MQTT-3.1.2-1", version=V311)
@statement("MQTT-3.1.2-1")
def test_mqtt5_3_1_2_1_protocol_name_must_be_mqtt(broker: AnyBroker) -> None:
    for name in ("MQTX", "mqtt", ""):
        raw = Raw(broker)
        raw.send(packet(0x10, text(name) + b"\x05\x02\0\0\0" + text("c")))
        assert raw.ended()


@statement("MQTT-3.1.2-2", "MQTT-3.2.2-4", "MQTT-3.2.2-5", version=V311)
@statement("MQTT-3.1.2-2")
def test_mqtt5_3_1_2_2_unsupported_version_is_told(broker: AnyBroker) -> None:
    for head in (text("MQTT") + b"\x06", text("MQTT") + b"\x03", text("MQIsdp") + b"\x03"):
        raw = Raw(broker)
        raw.send(packet(0x10, head + b"\x02\0\0" + text("c")))
        assert raw.read(4) == b"\x20\x02\x00\x01"
        assert raw.ended()


@statement(
    "MQTT-3.1.2-3",
    "MQTT-3.1.2-11",
    "MQTT-3.1.2-13",
    "MQTT-3.1.2-14",
    "MQTT-3.1.2-15",
    "MQTT-3.1.4-1",
    "MQTT-3.2.2-6",
    version=V311,
)
@statement("MQTT-3.1.2-3", "MQTT-3.1.2-11", "MQTT-3.1.2-12", "MQTT-3.1.2-13", "MQTT-3.1.4-1", "MQTT-3.2.2-6")
@VERSIONS
@pytest.mark.parametrize("flags", [0xC3, 0xDE, 0xCA, 0xE2])  # reserved, will QoS 3, will QoS or retain without will
def test_mqtt5_3_1_2_3_connect_flags_that_no_client_may_set(broker: AnyBroker, version: int, flags: int) -> None:
    part = will("w", b"", version) if flags & 4 else b""
    refusal(broker, packet(0x10, connect_head(flags, version) + text("c") + part + LOGIN), 0x81, version)


@statement("MQTT-3.1.2-22", "MQTT-3.1.4-1", version=V311)
def test_mqtt3_3_1_2_22_password_without_user_name(broker: AnyBroker) -> None:
    octets = packet(0x10, connect_head(0x42, V311) + text("c") + text("guest"))
    refusal(broker, octets, 0, V311)
    refusal(broker, packet(0x10, connect_head(0x42) + text("c") + text("guest")), 0x86)  # allowed, but nobody's


@VERSIONS
def test_an_empty_user_name_is_none(broker: AnyBroker, version: int) -> None:
    for flags, login in ((0x82, text("")), (0xC2, text("") + text(""))):
        raw = Raw(broker, version)
        raw.send(packet(0x10, connect_head(flags, version) + text("c") + login))
        raw.connack()
    raw = Raw(broker, version)
    raw.send(packet(0x10, connect_head(0xC2, version) + text("c") + text("") + text("guest")))
    raw.connack(0x86 if version == V5 else 5)


@statement("MQTT-2.1.3-1", "MQTT-3.6.1-1", "MQTT-3.8.1-1", "MQTT-3.10.1-1", "MQTT-3.14.1-1")
def test_mqtt5_2_1_3_1_reserved_flags_of_the_fixed_header(broker: AnyBroker) -> None:
    refusal(broker, b"\x11" + connect()[1:], 0x81, V311)
    for octets in (
        b"\x80" + subscribe(1, ("a", 0))[1:],
        b"\xa0\x06\0\x01\0\0\x01a",
        b"\x60\x02\0\x01",
        b"\x41\x02\0\x01",
        b"\xc1\x00",
        b"\xe1\x00",
    ):
        raw = connected(broker)
        raw.send(octets)
        raw.refused(0x81)


@statement("MQTT-3.1.3-6", "MQTT-3.1.3-7", "MQTT-3.2.2-16")
def test_mqtt5_3_1_3_6_empty_client_identifier(broker: AnyBroker) -> None:
    names = set()
    for _ in range(2):
        raw = Raw(broker)
        raw.send(connect(""))
        names.add(dict(raw.connack())[0x12])
    assert len(names) == 2
    old = Raw(broker, V311)
    old.send(connect("", V311))
    old.connack()
    stale = Raw(broker, V311)
    stale.send(connect("", V311, clean=False))
    assert stale.read(4) == b"\x20\x02\x00\x02"  # [MQTT-3.1.3-8] of 3.1.1
    assert stale.ended()


@statement("MQTT-3.2.2-4", "MQTT-3.2.2-5", version=V311)
@statement("MQTT-3.1.4-2", "MQTT-3.2.2-6", "MQTT-3.2.2-7")
def test_mqtt5_3_1_4_2_bad_login(broker: AnyBroker) -> None:
    for login in (("guest", "wrong"), ("nobody", "guest")):
        refusal(broker, connect(login=login), 0x86)
        old = Raw(broker, V311)
        old.send(connect(version=V311, login=login))
        old.connack(5)
        assert old.ended()


@statement("MQTT-3.1.4-2", "MQTT-3.1.3-2", version=V311)
@statement("MQTT-3.1.4-3", "MQTT-3.1.3-2")
@VERSIONS
def test_mqtt5_3_1_4_3_the_connection_that_comes_last_takes_over(broker: AnyBroker, version: int) -> None:
    first = connected(broker, "same", version)
    second = connected(broker, "same", version)
    first.refused(0x8E)
    second.quiet()
    other = connected(broker, "Same", version)
    second.quiet()
    other.quiet()


@statement(
    "MQTT-3.1.4-1", "MQTT-3.1.2-16", "MQTT-3.1.2-17", "MQTT-3.1.2-18", "MQTT-3.1.2-19", "MQTT-3.1.3-1", "MQTT-3.1.3-3"
)
def test_mqtt5_3_1_4_1_payload_that_is_not_what_the_flags_say(broker: AnyBroker) -> None:
    head = connect_head(0xC2)
    whole = head + text("c") + LOGIN
    for rest in (whole + b"\0", whole[:-1], head + text("c"), head, head[:-1]):
        refusal(broker, packet(0x10, rest), 0x81)


@statement("MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-3.1.3-4", "MQTT-3.1.3-11", "MQTT-3.1.3-12")
def test_mqtt5_1_5_4_1_texts_are_utf_8_without_nul(broker: AnyBroker) -> None:
    for bad in (b"\xff", b"a\0", b"\xed\xa0\x80", b"\xc0\x80"):
        refusal(broker, packet(0x10, connect_head(0xC2) + text(bad) + LOGIN), 0x81)
        refusal(broker, packet(0x10, connect_head(0xC2) + text("c") + text(bad) + text("guest")), 0x81)
        refusal(broker, packet(0x10, connect_head(0xC6) + text("c") + b"\0" + text(bad) + text(b"") + LOGIN), 0x81)


@statement("MQTT-4.12.0-1", "MQTT-4.13.1-1")
@pytest.mark.parametrize(
    ("properties", "code"),
    [
        (b"\x21\0\0", 0x82),  # receive maximum 0
        (b"\x27\0\0\0\0", 0x82),  # maximum packet size 0
        (b"\x21\0\x01\x21\0\x01", 0x82),  # twice
        (b"\x17\x02", 0x82),  # request problem information 2
        (b"\x01\x01", 0x82),  # payload format indicator in a CONNECT
        (b"\x7f\x01", 0x81),  # no such property
        (b"\x21\0", 0x81),  # cut off
        (b"\x16" + text("d"), 0x82),  # authentication data without method
        (b"\x15" + text("SCRAM-SHA-1"), 0x8C),  # [MQTT-4.12.0-1]
    ],
)
def test_mqtt5_3_1_2_11_bad_connect_properties(broker: AnyBroker, properties: bytes, code: int) -> None:
    refusal(broker, connect(properties=properties), code)


@statement("MQTT-3.1.2-29")
def test_mqtt5_3_1_2_29_no_reason_string_for_who_wants_none(broker: AnyBroker) -> None:
    raw = connected(broker, properties=b"\x17\x00")
    raw.send(b"\xc1\x00")
    assert raw.read(3) == b"\xe0\x01\x81"
    assert raw.ended()


@statement("MQTT-3.1.4-1", "MQTT-3.2.2-8")
def test_mqtt5_3_1_4_1_will_that_cannot_be_published(broker: AnyBroker) -> None:
    refusal(broker, connect(will=will("w/#", b"")), 0x90)
    refusal(broker, connect(will=will("", b"")), 0x82)
    refusal(broker, connect(will=will("w", b"", properties=b"\x23\0\x01")), 0x82)


@statement("MQTT-3.1.4-5", "MQTT-3.2.0-1", "MQTT-4.2.0-1")
def test_mqtt5_3_1_4_5_requests_need_not_wait_for_connack(broker: AnyBroker) -> None:
    raw = Raw(broker)
    octets = connect() + subscribe(7, ("a", 1)) + publish("a", b"x", 1, 9)
    for octet in octets:
        raw.send(bytes([octet]))
    raw.connack()
    assert raw.granted(7) == [1]
    found = {raw.packet()[0] for _ in range(2)}
    assert found == {0x32, 0x40}


@statement("MQTT-3.2.2-15")
def test_mqtt5_3_1_2_24_packet_too_large(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(mqtt_packet_octets_max=1024)
    raw = connected(broker)
    raw.send(b"\x30\xfd\x07\0\x01a\0" + bytes(1017))
    raw.quiet()
    raw.send(b"\x30\xfe\x07")  # the length is enough
    raw.refused(0x95)
    old = connected(broker, "old", V311)
    old.send(b"\x30\xff\x07")
    old.refused(0x95)


@statement("MQTT-1.5.5-1")
def test_mqtt5_1_5_5_remaining_length_of_five_octets(broker: AnyBroker) -> None:
    raw = connected(broker)
    raw.send(b"\x30\x80\x80\x80\x80\x01")
    raw.refused(0x81)


@statement("MQTT-4.13.1-1", "MQTT-4.13.2-1")
@pytest.mark.parametrize(
    ("octets", "code"),
    [
        (b"\x00\x00", 0x81),
        (b"\x20\x03\0\0\0", 0x82),
        (b"\x90\x04\0\x01\0\0", 0x82),
        (b"\xb0\x04\0\x01\0\0", 0x82),
        (b"\xd0\x00", 0x82),
        (b"\xf0\x00", 0x82),
        (b"\xc0\x01\0", 0x81),
    ],
)
def test_mqtt5_4_13_1_1_packets_that_only_servers_send(broker: AnyBroker, octets: bytes, code: int) -> None:
    raw = connected(broker)
    raw.send(octets)
    raw.refused(code)
