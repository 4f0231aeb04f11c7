"""Flow control of MQTT 5 (section 4.9), and the window of deliveries that bounds it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    UNSUBACK,
    acknowledge,
    connected,
    puback,
    publish,
    subscribe,
    unsubscribe,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v5.flows import (
    DUP,
    bodies,
    packet_maximum,
    publish_whole,
    receive_maximum,
    session,
    subscribed,
)


@statement("MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2")
def test_qos_2_takes_its_place_until_pubcomp(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own, properties=receive_maximum(1)), (own, 2))
    publisher = connected(broker, f"{own} publisher")
    for body in (b"1", b"2", b"3"):
        publish_whole(publisher, own, body, 2)
    found = raw.delivery()
    raw.send(acknowledge(PUBREC, found.id))
    raw.acked(found.id, kind=PUBREL)
    raw.quiet()
    raw.send(acknowledge(PUBCOMP, found.id))
    found = raw.delivery()
    assert found.body == b"2"
    raw.send(acknowledge(PUBREC, found.id, 0x80))  # an error ends it here
    assert raw.delivery().body == b"3"


@statement("MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2")
@pytest.mark.parametrize(("client", "most"), [(65_535, 4), (4, 4), (3, 3)])
def test_the_window_is_the_lower_of_both(start_broker: Callable[..., AnyBroker], client: int, most: int) -> None:
    broker = start_broker(mqtt_max_inflight=4)
    raw = subscribed(connected(broker, properties=receive_maximum(client)), ("a", 1))
    publisher = connected(broker, "publisher")
    for n in range(6):
        publish_whole(publisher, "a", b"%d" % n)
    found = [raw.delivery() for _ in range(most)]
    raw.quiet()
    raw.send(*[puback(each.id) for each in found])
    assert bodies(raw, 6 - most) == [b"%d" % n for n in range(most, 6)]


def test_a_window_of_0_is_no_limit(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(mqtt_max_inflight=0)
    raw = subscribed(connected(broker), ("a", 1))
    publisher = connected(broker, "publisher")
    for n in range(50):
        publish_whole(publisher, "a", b"%d" % n)
    assert bodies(raw, 50) == [b"%d" % n for n in range(50)]


@statement("MQTT-3.3.4-10", "MQTT-4.9.0-3")
def test_other_packets_are_answered_while_the_window_is_full(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own, properties=receive_maximum(1)), (own, 2))
    publisher = connected(broker, f"{own} publisher")
    for _ in range(2):
        publish_whole(publisher, own)
    assert raw.delivery().qos == 1
    subscribed(raw, (f"{own}/a", 0))
    raw.send(publish(f"{own}/b", b"", 1, 4), publish(f"{own}/b", b"", 2, 5))
    raw.acked(4, 0x10, PUBACK)
    raw.acked(5, 0x10, PUBREC)
    raw.send(acknowledge(PUBREL, 5))
    raw.acked(5, 0, PUBCOMP)
    raw.send(unsubscribe(6, f"{own}/a"), subscribe(7, (f"{own}/a/#/x", 0)))
    assert raw.granted(6, UNSUBACK) == [0]
    assert raw.granted(7) == [0x8F]
    raw.quiet()


@statement("MQTT-3.3.4-9", "MQTT-4.4.0-1")
def test_a_resumed_session_has_the_new_connections_window(broker: AnyBroker, own: str) -> None:
    raw = subscribed(session(broker, own), (own, 1))
    publisher = connected(broker, f"{own} publisher")
    for n in range(4):
        publish_whole(publisher, own, b"%d" % n)
    for _ in range(4):
        raw.delivery()
    raw.vanish()
    raw = session(broker, own, present=True, properties=receive_maximum(2))
    found = [raw.delivery() for _ in range(2)]
    assert [(each.body, each.bits) for each in found] == [(b"0", DUP), (b"1", DUP)]
    raw.quiet()
    raw.send(puback(found[1].id), puback(found[0].id))
    found = [raw.delivery() for _ in range(2)]
    assert [(each.body, each.bits) for each in found] == [(b"2", DUP), (b"3", DUP)]


@statement("MQTT-3.1.2-25")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_message_too_large_leaves_its_place_to_the_next(broker: AnyBroker, own: str, qos: int) -> None:
    raw = session(broker, own, properties=receive_maximum(1) + packet_maximum(100))
    subscribed(raw, (own, 2))
    publisher = connected(broker, f"{own} publisher")
    for body in (bytes(100), b"fits", bytes(200)):
        publish_whole(publisher, own, body, qos)
    assert bodies(raw, 1) == [b"fits"]
    raw.quiet()
    raw.vanish()
    session(broker, own, present=True).quiet()  # it was not put off either


@statement("MQTT-3.3.4-7")
def test_a_client_that_sends_more_than_the_receive_maximum(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(mqtt_receive_max=2)
    raw = connected(broker)
    raw.send(publish("a", b"", 2, 1), publish("a", b"", 2, 2))
    raw.acked(1, 0x10, PUBREC)
    raw.acked(2, 0x10, PUBREC)
    raw.send(publish("a", b"", 2, 1, bits=DUP))  # no new one
    assert raw.expect(PUBREC)[:2] == b"\0\x01"
    raw.send(publish("a", b"", 2, 3))
    raw.refused(0x93)
