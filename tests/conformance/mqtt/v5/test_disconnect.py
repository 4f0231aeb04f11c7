"""DISCONNECT of MQTT 5, and how errors end a connection (sections 3.14 and 4.13)."""

from __future__ import annotations

from collections.abc import Callable

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.mqtt.raw import (
    DISCONNECT,
    DISCONNECTED,
    PINGREQ,
    Raw,
    connect,
    connected,
    packet,
    properties_of,
    publish,
    split_block,
    subscribe,
    text,
    user,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v5.flows import expiry, packet_maximum, session, subscribed


def farewell(raw: Raw) -> tuple[int, set[int]]:
    """Code and property identifiers of the DISCONNECT that must come, behind which nothing comes."""
    rest = raw.expect(DISCONNECTED)
    assert raw.ended()
    return rest[0], {id for id, _ in properties_of(split_block(rest[1:] or b"\0")[0])}


@statement("MQTT-3.14.0-1")
def test_no_disconnect_before_connack(broker: AnyBroker, own: str) -> None:
    for octets in (2 * PINGREQ, publish("a"), 2 * b"\xf0\x00", 2 * DISCONNECT):
        raw = Raw(broker)
        raw.send(octets)
        assert raw.ended()
    for octets, code in ((connect(own, login=("guest", "wrong")), 0x86), (connect(own, properties=b"\x21\0\0"), 0x82)):
        raw = Raw(broker)
        raw.send(octets)
        raw.connack(code)
        assert raw.ended()


@statement("MQTT-3.14.2-1", "MQTT-3.14.2-2", "MQTT-3.14.4-1", "MQTT-3.14.4-2", "MQTT-4.13.2-1")
def test_what_a_disconnect_of_the_broker_says(broker: AnyBroker, own: str) -> None:
    for octets, code in (
        (b"\xc1\x00", 0x81),
        (connect(own), 0x82),
        (publish("a/+"), 0x90),
        (publish("a", properties=b"\x23\xff\xff"), 0x94),
    ):
        raw = session(broker, own, present=octets != b"\xc1\x00")
        raw.send(octets, PINGREQ)
        found, properties = farewell(raw)
        assert found == code
        assert 0x11 not in properties  # the session expiry interval


@statement("MQTT-3.14.2-3", "MQTT-3.1.2-24")
def test_a_disconnect_fits_into_the_clients_packet_size(broker: AnyBroker, own: str) -> None:
    reasons = []
    for properties in (b"", packet_maximum(20)):
        raw = connected(broker, own, properties=properties)
        raw.send(b"\xc1\x00")
        reasons.append(farewell(raw))
    assert reasons == [(0x81, {0x1F}), (0x81, set())]


@statement("MQTT-3.14.1-1", "MQTT-2.1.3-1")
def test_reserved_bits_of_disconnect(broker: AnyBroker, own: str) -> None:
    for bit in (1, 2, 4, 8):
        raw = connected(broker, own)
        raw.send(packet(DISCONNECTED | bit, b""))
        assert farewell(raw)[0] == 0x81


@statement("MQTT-3.14.4-1", "MQTT-3.14.4-2")
def test_what_stands_in_a_clients_disconnect(broker: AnyBroker, own: str) -> None:
    reader = subscribed(connected(broker, f"{own} reader"), (own, 0))
    properties = b"\x1f" + text("why") + user("n", "v") + user("n", "v")
    for rest in (b"", b"\x00", b"\x00\x00", b"\x04\x00", b"\x80", b"\x00" + bytes([len(properties)]) + properties):
        raw = connected(broker, own)
        raw.send(packet(DISCONNECTED, rest), publish(own, b"behind"))
        assert raw.ended()
    reader.quiet()


@statement("MQTT-4.13.1-1", "MQTT-4.13.2-1")
def test_an_expiry_that_begins_at_disconnect(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own, properties=expiry(0))
    raw.send(packet(DISCONNECTED, b"\x00\x05" + expiry(10)))
    assert farewell(raw)[0] == 0x82
    connected(broker, own, clean=False, present=False).quiet()


@statement("MQTT-4.13.1-1")
def test_an_error_of_one_client_is_no_other_clients(broker: AnyBroker, own: str) -> None:
    reader = subscribed(connected(broker, f"{own} reader"), (own, 0))
    raw = connected(broker, own)
    raw.send(publish(own, b"before"), b"\xff\xff\xff\xff\xff", publish(own, b"behind"))
    assert farewell(raw)[0] == 0x81
    assert reader.delivery().body == b"before"
    reader.quiet()


@statement("MQTT-3.14.2-1", "MQTT-3.14.4-2")
def test_a_broker_that_stops_says_so(start_process: Callable[..., BrokerProcess]) -> None:
    broker = start_process()
    raw = session(broker, "c")
    raw.send(subscribe(1, ("a", 0)))
    raw.granted()
    broker.stop()
    assert farewell(raw)[0] == 0x8B
    broker.start()
    session(broker, "c", present=True).quiet()
