"""Sessions of MQTT 5: what they keep, what is sent again, when they end (sections 4.1, 4.3 to 4.5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.client.control import ControlClient
from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.mqtt.raw import (
    DISCONNECTED,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Raw,
    acknowledge,
    connect,
    connected,
    packet,
    puback,
    publish,
    will,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v5.flows import (
    DUP,
    LONG_S,
    bodies,
    expiry,
    packet_maximum,
    publish_whole,
    receive_maximum,
    session,
    settle,
    subscribed,
    take,
    take_all,
)
from tests.waiting import until


@statement("MQTT-4.1.0-2")
def test_a_session_of_expiry_0_ends_with_its_connection(broker: AnyBroker, own: str) -> None:
    for properties in (b"", expiry(0)):
        subscribed(connected(broker, own, properties=properties, clean=False), (own, 1)).vanish()
        raw = connected(broker, own, clean=False, present=False)
        assert raw.publish(own, b"nobody's") == 0x10
        raw.leave()


@statement("MQTT-4.1.0-2")
def test_a_session_ends_when_its_expiry_has_passed(broker: AnyBroker, own: str) -> None:
    heir = subscribed(connected(broker, f"{own} heir"), (f"{own}/will", 1))
    raw = Raw(broker)
    part = will(f"{own}/will", b"ended", properties=b"\x18\xff\xff\xff\xff")
    raw.send(connect(own, properties=expiry(1), will=part))
    raw.connack()
    subscribed(raw, (own, 1)).vanish()
    assert take(heir).body == b"ended"  # it is published when the session ends
    raw = session(broker, own, present=False)
    assert raw.publish(own, b"nobody's") == 0x10
    raw.quiet()


@statement("MQTT-3.1.2-23")
def test_a_session_that_never_expires(broker: AnyBroker, own: str) -> None:
    connected(broker, own, properties=b"\x11\xff\xff\xff\xff").leave()
    connected(broker, own, clean=False, present=True).quiet()


def sessions(broker: BrokerProcess) -> set[object]:
    """The client identifiers of all sessions."""
    with ControlClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest") as control:
        return {each["client_id"] for each in control.items("session.list")}


@statement("MQTT-4.1.0-2", "MQTT-3.1.2-23")
def test_disconnect_may_change_the_expiry(broker_process: BrokerProcess, own: str) -> None:
    raw = subscribed(session(broker_process, own), (own, 1))
    raw.send(packet(DISCONNECTED, b"\x00\x05" + expiry(0)))
    assert raw.ended()
    raw = connected(broker_process, own, properties=expiry(1), clean=False, present=False)
    raw.send(packet(DISCONNECTED, b"\x00\x05" + expiry(LONG_S)))
    assert raw.ended()
    connected(broker_process, f"{own} short", properties=expiry(1)).leave()
    until(lambda: f"{own} short" not in sessions(broker_process))  # whose expiry is the one it had first, and later
    session(broker_process, own, present=True).quiet()


@statement("MQTT-4.1.0-1")
def test_a_session_is_kept_while_its_connection_is_taken_over(broker: AnyBroker, own: str) -> None:
    first = subscribed(connected(broker, own), (own, 1))  # of expiry 0
    second = connected(broker, own, clean=False, present=False)  # its connection was over, so was the session
    first.refused(0x8E)
    subscribed(second, (own, 1)).leave()
    first = subscribed(session(broker, own), (own, 1))
    second = session(broker, own, present=True)
    first.refused(0x8E)
    publish_whole(connected(broker, f"{own} publisher"), own, b"x")
    assert bodies(second, 1) == [b"x"]


@statement("MQTT-4.5.0-1", "MQTT-4.6.0-5", "MQTT-4.6.0-6")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_reach_every_session_that_matches_in_order(broker: AnyBroker, own: str, qos: int) -> None:
    here = [subscribed(session(broker, f"{own} here {n}"), (f"{own}/+", 2)) for n in range(2)]
    for n in range(2):
        subscribed(session(broker, f"{own} away {n}"), (f"{own}/#", 2)).vanish()
    publisher = connected(broker, f"{own} publisher")
    sent = [b"%d" % n for n in range(40)]  # more than the window holds
    for body in sent:
        publish_whole(publisher, f"{own}/t", body, qos)
    for raw in here + [session(broker, f"{own} away {n}", present=True) for n in range(2)]:
        found = take_all(raw, len(sent))
        assert [each.body for each in found] == sent
        assert {(each.qos, each.bits) for each in found} == {(qos, 0)}
        raw.quiet()


@statement("MQTT-4.4.0-1", "MQTT-3.3.1-1", "MQTT-4.3.2-3", "MQTT-4.3.3-3", "MQTT-4.6.0-1")
@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_not_acknowledged_is_sent_again(broker: AnyBroker, own: str, qos: int) -> None:
    raw = subscribed(session(broker, own), (own, qos))
    publisher = connected(broker, f"{own} publisher")
    for body in (b"1", b"2", b"3"):
        publish_whole(publisher, own, body, qos)
    first, second, third = raw.delivery(), raw.delivery(), raw.delivery()
    settle(raw, second)
    raw.quiet()  # nothing is sent again while the connection lasts
    raw.vanish()
    publish_whole(publisher, own, b"4", qos)
    raw = session(broker, own, present=True)
    found = [raw.delivery() for _ in range(3)]
    assert [each.body for each in found] == [b"1", b"3", b"4"]
    assert [each.bits for each in found] == [DUP, DUP, 0]
    assert [each.id for each in found[:2]] == [first.id, third.id]
    assert {each.qos for each in found} == {qos}
    for each in found:
        settle(raw, each)
    raw.quiet()
    raw.vanish()
    session(broker, own, present=True).quiet()


@statement("MQTT-4.4.0-1", "MQTT-4.3.3-5", "MQTT-4.3.3-6")
def test_behind_pubrel_only_pubrel_is_sent_again(broker: AnyBroker, own: str) -> None:
    raw = subscribed(session(broker, own), (own, 2))
    publish_whole(connected(broker, f"{own} publisher"), own, b"once", 2)
    found = raw.delivery()
    raw.send(acknowledge(PUBREC, found.id))
    raw.acked(found.id, kind=PUBREL)
    for _ in range(2):
        raw.vanish()
        raw = session(broker, own, present=True)
        raw.acked(found.id, kind=PUBREL)
        raw.quiet()
    raw.send(acknowledge(PUBCOMP, found.id))
    raw.vanish()
    session(broker, own, present=True).quiet()


@statement("MQTT-4.4.0-2")
def test_an_acknowledgement_with_an_error_is_one(broker: AnyBroker, own: str) -> None:
    raw = subscribed(session(broker, own), (own, 2))
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, own, b"1", 1)
    publish_whole(publisher, own, b"2", 2)
    raw.send(puback(raw.delivery().id, 0x83), acknowledge(PUBREC, raw.delivery().id, 0x97))
    raw.quiet()
    raw.vanish()
    session(broker, own, present=True).quiet()


@statement("MQTT-4.3.3-10", "MQTT-4.3.3-12", "MQTT-3.1.2-23")
def test_qos_2_of_a_client_that_reconnects_comes_once(broker: AnyBroker, own: str) -> None:
    reader = subscribed(connected(broker, f"{own} reader"), (own, 0))
    raw = session(broker, own)
    raw.send(publish(own, b"once", 2, 5))
    raw.acked(5, kind=PUBREC)
    raw.vanish()
    raw = session(broker, own, present=True)
    raw.send(publish(own, b"once", 2, 5, bits=DUP))
    raw.acked(5, kind=PUBREC)
    raw.send(acknowledge(PUBREL, 5))
    raw.acked(5, kind=PUBCOMP)
    publish_whole(raw, own, b"behind", 0)
    assert [reader.delivery().body for _ in range(2)] == [b"once", b"behind"]
    reader.quiet()


@statement("MQTT-3.1.2-23", "MQTT-4.4.0-1", "MQTT-4.3.3-10")
def test_sessions_survive_the_broker(start_process: Callable[..., BrokerProcess]) -> None:
    broker = start_process()
    raw = subscribed(session(broker, "c"), ("a", 2))
    publisher = session(broker, "publisher")
    for body in (b"released", b"unanswered", b"at 1"):
        publish_whole(publisher, "a", body, 1 if body == b"at 1" else 2)
    released, unanswered, at_1 = raw.delivery(), raw.delivery(), raw.delivery()
    raw.send(acknowledge(PUBREC, released.id))
    raw.acked(released.id, kind=PUBREL)
    raw.vanish()
    publisher.send(publish("a", b"from before", 2, 7))
    publisher.acked(7, kind=PUBREC)
    broker.kill9()
    broker.start()
    publisher = session(broker, "publisher", present=True)
    publisher.send(publish("a", b"from before", 2, 7, bits=DUP))
    publisher.acked(7, kind=PUBREC)
    publisher.send(acknowledge(PUBREL, 7))
    publisher.acked(7, kind=PUBCOMP)
    raw = session(broker, "c", present=True)
    packets = [raw.packet() for _ in range(4)]
    assert [int.from_bytes(rest[:2], "big") for first, rest in packets if first == PUBREL] == [released.id]
    found = [raw.parsed(*each) for each in packets if each[0] != PUBREL]
    assert [(each.body, each.bits) for each in found] == [(b"unanswered", DUP), (b"at 1", DUP), (b"from before", 0)]
    assert [each.id for each in found[:2]] == [unanswered.id, at_1.id]
    raw.quiet()


@statement("MQTT-4.1.0-2")
def test_the_expiry_is_that_of_the_last_connection(broker: AnyBroker, own: str) -> None:
    session(broker, own).leave()
    connected(broker, own, properties=expiry(0), clean=False, present=True).leave()
    connected(broker, own, properties=expiry(0), clean=False, present=False).leave()


@statement("MQTT-4.1.0-2", "MQTT-3.1.2-6")
def test_a_session_of_expiry_0_does_not_survive_the_broker(start_process: Callable[..., BrokerProcess]) -> None:
    broker = start_process()
    subscribed(connected(broker, properties=expiry(0)), ("a", 1))
    session(broker, "lasting")
    broker.kill9()
    broker.start()
    raw = session(broker, "c", present=False)
    assert raw.publish("a", b"nobody's") == 0x10
    session(broker, "lasting", present=True).quiet()


@statement("MQTT-4.4.0-1", "MQTT-3.3.2-7", "MQTT-3.1.2-27")
def test_what_is_sent_again_needs_no_alias_of_the_connection_before(broker: AnyBroker, own: str) -> None:
    raw = subscribed(session(broker, own, properties=b"\x22\0\x05"), (own, 2))
    publisher = connected(broker, f"{own} publisher")
    for qos in (1, 2, 1):
        publish_whole(publisher, own, b"x", qos)
        raw.delivery()
    raw.vanish()
    raw = session(broker, own, present=True)
    found = [raw.delivery() for _ in range(3)]
    assert [(each.topic, each.bits, each.properties) for each in found] == [(own, DUP, [])] * 3


@statement("MQTT-4.4.0-1", "MQTT-3.1.2-24", "MQTT-3.1.2-25")
def test_what_is_sent_again_fits_the_new_connection(broker: AnyBroker, own: str) -> None:
    raw = subscribed(session(broker, own), (own, 2))
    publisher = connected(broker, f"{own} publisher")
    for qos, body in ((1, bytes(200)), (2, bytes(200)), (1, b"small")):
        publish_whole(publisher, own, body, qos)
        raw.delivery()
    raw.vanish()
    raw = session(broker, own, present=True, properties=packet_maximum(100))
    found = raw.delivery()
    assert (found.body, found.bits) == (b"small", DUP)
    settle(raw, found)
    raw.quiet()
    raw.vanish()
    session(broker, own, present=True).quiet()  # the others are as if they had been sent


@statement("MQTT-4.4.0-1", "MQTT-3.3.1-1")
def test_what_was_never_sent_has_no_dup(broker: AnyBroker, own: str) -> None:
    raw = subscribed(session(broker, own, properties=receive_maximum(1)), (own, 1))
    publisher = connected(broker, f"{own} publisher")
    for body in (b"1", b"2"):
        publish_whole(publisher, own, body)
    raw.delivery()
    raw.vanish()
    raw = session(broker, own, present=True)
    assert [(each.body, each.bits) for each in take_all(raw, 2)] == [(b"1", DUP), (b"2", 0)]
