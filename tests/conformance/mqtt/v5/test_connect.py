"""CONNECT and CONNACK of MQTT 5: whose session it is, and what the broker says it can (sections 3.1 and 3.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
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
from tests.conformance.mqtt.v5.flows import (
    LONG_S,
    bodies,
    expiry,
    packet_maximum,
    publish_whole,
    session,
    subscribed,
)


def answer(broker: AnyBroker, octets: bytes) -> bytes:
    """The CONNACK behind its fixed header."""
    raw = Raw(broker)
    raw.send(octets)
    return raw.expect(0x20)


@statement("MQTT-3.1.2-4", "MQTT-3.1.4-4", "MQTT-3.2.2-2")
def test_clean_start_discards_the_session(broker: AnyBroker, own: str) -> None:
    subscribed(session(broker, own), (own, 1)).vanish()
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, own, b"for the session that was")
    raw = connected(broker, own, clean=True, present=False)
    assert publisher.publish(own, b"nobody's") == 0x10
    raw.quiet()


@statement("MQTT-3.1.2-4", "MQTT-3.1.4-3")
def test_clean_start_discards_the_session_of_a_live_connection(broker: AnyBroker, own: str) -> None:
    first = subscribed(session(broker, own), (own, 1))
    second = connected(broker, own, properties=expiry(LONG_S), clean=True, present=False)
    first.refused(0x8E)
    assert second.publish(own, b"nobody's") == 0x10
    second.quiet()


@statement("MQTT-3.1.2-5", "MQTT-3.1.2-23", "MQTT-3.2.2-3", "MQTT-3.1.3-2")
@pytest.mark.parametrize("end", ["leave", "vanish"])
def test_a_session_is_resumed(broker: AnyBroker, own: str, end: str) -> None:
    raw = subscribed(session(broker, own), (own, 1))
    raw.leave() if end == "leave" else raw.vanish()
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, own, b"while away")
    raw = session(broker, own, present=True)
    assert bodies(raw, 1) == [b"while away"]
    publish_whole(publisher, own, b"while there")
    assert bodies(raw, 1) == [b"while there"]
    raw.quiet()


@statement("MQTT-3.1.2-6", "MQTT-3.2.2-3", "MQTT-3.1.4-5")
def test_without_a_session_a_new_one_begins(broker: AnyBroker, own: str) -> None:
    session(broker, own, present=False).leave()
    session(broker, own, present=True).quiet()


@statement("MQTT-3.2.2-1", "MQTT-3.2.2-2", "MQTT-3.2.2-3")
def test_acknowledge_flags_are_session_present_and_nothing_else(broker: AnyBroker, own: str) -> None:
    lasting = connect(own, properties=expiry(LONG_S), clean=False)
    assert answer(broker, lasting)[:2] == b"\x00\x00"
    assert answer(broker, lasting)[:2] == b"\x01\x00"
    assert answer(broker, connect(own, properties=expiry(LONG_S)))[:2] == b"\x00\x00"
    assert answer(broker, connect(own, login=("guest", "wrong"), clean=False))[:2] == b"\x00\x86"


@statement("MQTT-3.1.2-28", "MQTT-4.12.0-6", "MQTT-3.2.2-9", "MQTT-3.2.2-22")
def test_connack_says_only_what_is_not_the_default(broker: AnyBroker, own: str) -> None:
    raw = Raw(broker)
    raw.send(connect(own, properties=b"\x19\x00" + expiry(30), beat=30))
    told = dict(raw.connack())
    assert (told[0x21], told[0x22], told[0x27]) == (1024, 32, 17 << 20)  # receive maximum, aliases, packet size
    # Maximum QoS 2, retain, wildcards, subscription identifiers and shared subscriptions: all there, so unsaid or 1.
    assert 0x24 not in told
    assert [told.get(id, 1) for id in (0x25, 0x28, 0x29, 0x2A)] == [1, 1, 1, 1]
    assert told.get(0x11, 30) == 30  # session expiry as asked
    # No assigned identifier, server keep alive, response information, authentication.
    assert not {0x12, 0x13, 0x1A, 0x15, 0x16} & set(told)


def test_a_session_expiry_beyond_the_brokers_is_told(start_broker: Callable[..., AnyBroker]) -> None:
    raw = Raw(start_broker(mqtt_session_expiry_max_s=5))
    raw.send(connect(properties=expiry(LONG_S)))
    assert dict(raw.connack())[0x11] == 5


@statement("MQTT-3.1.3-5")
def test_client_identifiers_of_letters_and_digits(broker: AnyBroker) -> None:
    for client in ("0123456789abcdefghijklm", "nopqrstuvwxyzABCDEFGHIJ", "KLMNOPQRSTUVWXYZ", "7"):
        connected(broker, client).quiet()


@statement("MQTT-3.1.3-6", "MQTT-3.1.3-7")
def test_an_assigned_client_identifier_names_a_session(broker: AnyBroker, own: str) -> None:
    raw = Raw(broker)
    raw.send(connect("", properties=expiry(LONG_S), clean=False))
    name = dict(raw.connack())[0x12]
    assert isinstance(name, bytes)
    subscribed(raw, (own, 1)).leave()
    publish_whole(connected(broker, f"{own} publisher"), own, b"x")
    assert bodies(session(broker, name.decode(), present=True), 1) == [b"x"]


@statement("MQTT-3.1.2-9")
def test_a_will_flag_without_a_will(broker: AnyBroker, own: str) -> None:
    login = text("guest") + text("guest")
    for rest in (b"", login, b"\0" + text("topic"), b"\0" + text("topic") + text("body")):
        assert answer(broker, packet(0x10, connect_head(0xC6) + text(own) + rest))[:2] == b"\x00\x81"


@statement("MQTT-3.1.4-6", "MQTT-3.2.2-7", "MQTT-3.2.2-8")
def test_nothing_behind_a_refused_connect_is_processed(broker: AnyBroker, own: str) -> None:
    reader = subscribed(connected(broker, f"{own} reader"), (own, 0))
    raw = Raw(broker)
    raw.send(connect(own, login=("guest", "wrong")), publish(own, b"never", 1, 1), subscribe(2, (own, 0)))
    raw.connack(0x86)
    assert raw.ended()
    reader.quiet()


@statement("MQTT-3.2.2-9", "MQTT-3.2.2-10", "MQTT-3.2.2-11", "MQTT-3.2.2-12")
def test_a_broker_of_qos_1(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(mqtt_max_qos=1)
    raw = Raw(broker)
    raw.send(connect())
    assert dict(raw.connack())[0x24] == 1
    raw.send(subscribe(3, ("a", 0), ("b", 1), ("c", 2)))
    assert raw.granted(3) == [0, 1, 1]
    raw.send(publish("c", b"", 2, 1))
    raw.refused(0x9B)
    assert answer(broker, connect(will=will("w", b""), will_flags=0x14))[:2] == b"\x00\x9b"
    connected(broker).quiet()


@statement("MQTT-3.2.2-21")
def test_the_servers_keep_alive_is_the_one_that_counts(start_broker: Callable[..., AnyBroker]) -> None:
    raw = Raw(start_broker(mqtt_server_keep_alive_s=1))
    raw.send(connect(beat=0))
    assert dict(raw.connack())[0x13] == 1
    raw.refused(0x8D)


@statement("MQTT-3.2.2-19", "MQTT-3.1.2-24")
def test_a_refusal_fits_into_the_clients_packet_size(broker: AnyBroker, own: str) -> None:
    part = will("a/#", b"")
    assert b"\x1f" in answer(broker, connect(own, will=part))  # the reason string
    assert answer(broker, connect(own, properties=packet_maximum(20), will=part)) == b"\x00\x90\x00"


@statement("MQTT-3.1.2-24")
def test_a_client_that_takes_no_connack_is_refused_and_takes_no_session_over(broker: AnyBroker, own: str) -> None:
    raw = Raw(broker)
    raw.send(connect(own, properties=expiry(LONG_S)))
    octets = 2 + len(raw.expect(0x20))
    short, enough = (expiry(LONG_S) + packet_maximum(each) for each in (octets - 1, octets))
    assert answer(broker, connect(own, properties=short)) == b"\x00\x95\x00"
    raw.quiet()
    raw.vanish()
    assert answer(broker, connect(own, clean=False, properties=enough))[:2] == b"\x01\x00"


def test_no_more_sessions_than_the_limit(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(mqtt_sessions_max=1)
    raw = session(broker, "first")
    assert answer(broker, connect("second"))[:2] == b"\x00\x97"
    raw.vanish()
    assert answer(broker, connect("second"))[:2] == b"\x00\x97"
    session(broker, "first", present=True).quiet()


@statement("MQTT-3.2.2-19", "MQTT-3.1.2-24")
def test_an_error_in_connect_fits_too(broker: AnyBroker, own: str) -> None:
    for properties in (packet_maximum(20) + b"\x21\0\0", b"\x21\0\0" + packet_maximum(20)):
        rest = answer(broker, connect(own, properties=properties))
        assert rest[:2] == b"\x00\x82" and len(rest) <= 18
