"""Keepalive, DISCONNECT and the will (MQTT 5.0 sections 3.1.2.5, 3.1.2.10, 3.12 to 3.14)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.mqtt.raw import (
    DISCONNECT,
    DISCONNECTED,
    PINGREQ,
    PINGRESP,
    V5,
    V311,
    Raw,
    connect,
    connected,
    packet,
    publish,
    user,
    will,
)
from tests.conformance.mqtt.statements import statement

VERSIONS = pytest.mark.parametrize("version", [V311, V5])


def mortal(broker: AnyBroker, version: int = V5, body: bytes = b"gone", properties: bytes = b"") -> Raw:
    """A connection with a will of QoS 1 on `will/x`."""
    raw = Raw(broker, version)
    raw.send(connect("mortal", version, will=will("will/x", body, version, properties), will_flags=0x0C))
    raw.connack()
    return raw


@pytest.fixture
def heir(broker: AnyBroker) -> Raw:
    """Who hears of wills."""
    raw = connected(broker, "heir")
    raw.subscribe("will/#")
    return raw


@statement("MQTT-3.12.4-1", version=V311)
@statement("MQTT-3.12.4-1")
@VERSIONS
def test_mqtt5_3_12_4_1_pingreq_is_answered(broker: AnyBroker, version: int) -> None:
    raw = connected(broker, version=version)
    raw.send(PINGREQ, PINGREQ)
    assert raw.read(4) == PINGRESP + PINGRESP


@statement("MQTT-3.1.2-24", version=V311)
@statement("MQTT-3.1.2-22", "MQTT-3.2.2-22")
def test_mqtt5_3_1_2_22_silence_of_one_and_a_half_keep_alives_ends_the_connection(broker: AnyBroker, heir: Raw) -> None:
    started = broker.now()
    silent = [Raw(broker, version) for version in (V311, V5)]
    for raw in silent:
        raw.send(connect(f"silent {raw.version}", raw.version, beat=1, will=will("will/x", b"late", raw.version)))
        raw.connack()
    pinging = Raw(broker)
    pinging.send(connect("pinging", beat=1))
    pinging.connack()
    wills = 0
    heir.socket.settimeout(0.25)
    while wills < len(silent):
        pinging.quiet()
        try:
            assert heir.delivery().body == b"late"
            wills += 1
        except TimeoutError:
            assert heir.rest == b""
    assert broker.now() - started >= 1.5
    for raw in silent:
        raw.refused(0x8D)
    pinging.quiet()


@statement("MQTT-3.14.4-3", "MQTT-3.14.4-2", "MQTT-3.1.2-10", version=V311)
@statement("MQTT-3.14.4-3", "MQTT-3.14.4-1", "MQTT-3.1.2-10")
@VERSIONS
def test_mqtt5_3_14_4_3_no_will_behind_disconnect(broker: AnyBroker, heir: Raw, version: int) -> None:
    raw = mortal(broker, version)
    raw.send(DISCONNECT, publish("will/behind", b"never heard", version=version))  # [MQTT-3.14.4-1]
    assert raw.ended()
    heir.quiet()


@statement("MQTT-3.1.2-8")
def test_mqtt5_3_1_2_10_disconnect_with_will(broker: AnyBroker, heir: Raw) -> None:
    raw = mortal(broker)
    raw.send(packet(DISCONNECTED, b"\x04"))
    assert raw.ended()
    assert heir.delivery().body == b"gone"


@statement("MQTT-3.1.2-8", "MQTT-3.1.2-16", version=V311)
@statement("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.2-14")
@VERSIONS
def test_mqtt5_3_1_2_8_will_of_a_connection_that_breaks(broker: AnyBroker, heir: Raw, version: int) -> None:
    delay = b"\x18\0\0\0\x00" + user("why", "broken") + b"\x03\0\x01t"
    mortal(broker, version, properties=delay).close()
    found = heir.delivery()
    assert (found.topic, found.body, found.qos, found.bits) == ("will/x", b"gone", 1, 0)
    assert found.properties == ([(0x26, ("why", "broken")), (0x03, b"t")] if version == V5 else [])
    heir.quiet()


@statement("MQTT-3.1.2-8", "MQTT-3.1.2-10")
def test_mqtt5_3_1_4_3_will_of_who_was_taken_over_or_broke_the_protocol(broker: AnyBroker, heir: Raw) -> None:
    first = mortal(broker, body=b"taken over")
    second = mortal(broker, body=b"broke off")
    first.refused(0x8E)
    assert heir.delivery().body == b"taken over"
    second.send(b"\x00\x00")
    second.refused(0x81)
    assert heir.delivery().body == b"broke off"


@pytest.mark.parametrize(
    ("rest", "code"),
    [(b"\x00\x05\x11\0\0\0\x01", 0x82), (b"\x00\x02\x21\0", 0x82), (b"\x00\x01", 0x81), (b"\x00\x00\x00", 0x81)],
)
def test_mqtt5_3_14_2_2_disconnect_that_is_none(broker: AnyBroker, rest: bytes, code: int) -> None:
    raw = connected(broker)
    raw.send(packet(DISCONNECTED, rest))
    raw.refused(code)
    old = connected(broker, "old", V311)
    old.send(packet(DISCONNECTED, rest))
    assert old.ended()


def test_mqtt5_3_1_4_0_no_connect_in_time(start_broker: Callable[..., AnyBroker]) -> None:
    raw = Raw(start_broker(handshake_timeout_ms=10))
    raw.send(connect()[:-1])
    assert raw.ended()


@statement("MQTT-3.14.2-1", "MQTT-3.14.2-2", "MQTT-3.14.4-2")
def test_mqtt5_3_14_0_1_a_broker_that_stops_says_so(broker_process: BrokerProcess) -> None:
    raw = connected(broker_process)
    old = connected(broker_process, "old", V311)
    broker_process.stop()
    raw.refused(0x8B)
    assert old.ended()
    broker_process.start()
