"""Shared subscriptions of MQTT 5 (section 4.8.2)."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    PUBCOMP,
    PUBREC,
    PUBREL,
    UNSUBACK,
    Delivery,
    Raw,
    acknowledge,
    connected,
    puback,
    subscribe,
    unsubscribe,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v5.flows import (
    NO_LOCAL,
    bodies,
    expiry,
    ids_of,
    publish_whole,
    retain,
    session,
    settle,
    subscribed,
    subscription_id,
    take,
)


def drained(raw: Raw) -> list[Delivery]:
    """All that is on its way to a client, acknowledged at QoS 1."""
    found: list[Delivery] = []
    raw.send(b"\xc0\x00")
    while (each := raw.packet())[0] != 0xD0:
        made = raw.parsed(*each)
        found.append(made)
        if made.qos == 1:
            raw.send(puback(made.id))
    return found


def picked(first: Raw, second: Raw) -> tuple[Raw, Raw, Delivery]:
    """Who of two members got the message, who did not, and the delivery, which is not acknowledged."""
    for one, other in ((first, second), (second, first)):
        one.send(b"\xc0\x00")
        packet = one.packet()
        if packet[0] != 0xD0:
            assert one.packet()[0] == 0xD0
            other.quiet()
            return one, other, one.parsed(*packet)
    raise AssertionError("nobody got the message")


@statement("MQTT-4.8.2-1", "MQTT-4.8.2-2")
@pytest.mark.parametrize("wrong", ["", "g", "/a", "g/", "+/a", "#/a", "g+/a", "g#/a", "g/a/#/b"])
def test_shared_filters_that_are_none(broker: AnyBroker, own: str, wrong: str) -> None:
    raw = connected(broker, own)
    raw.send(subscribe(3, (f"$share/{wrong}", 1), (f"$share/g/{own}", 1)))
    assert raw.granted(3) == [0x8F, 1]


@statement("MQTT-4.8.2-1", "MQTT-4.8.2-2")
def test_each_message_goes_to_one_member(broker: AnyBroker, own: str) -> None:
    members = [subscribed(connected(broker, f"{own} {n}"), (f"$share/{own}/{own}/+", 1)) for n in range(3)]
    others = [
        subscribed(connected(broker, f"{own} plain"), (f"{own}/#", 1)),
        subscribed(connected(broker, f"{own} group"), (f"$share/other{own}/{own}/+", 1)),
        subscribed(connected(broker, f"{own} filter"), (f"$share/{own}/{own}/#", 1)),
    ]
    publisher = connected(broker, f"{own} publisher")
    sent = [b"%d" % n for n in range(30)]
    for body in sent:
        publish_whole(publisher, f"{own}/a", body)
    for other in others:
        assert bodies(other, len(sent)) == sent
    found = [[each.body for each in drained(member)] for member in members]
    assert sorted(body for each in found for body in each) == sorted(sent)
    assert all(found)  # each of them has some


@statement("MQTT-3.8.3-4")
def test_no_local_is_not_for_shared_subscriptions(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.send(subscribe(3, (own, 1), (f"$share/g/{own}", 1 | NO_LOCAL)))
    raw.refused(0x82)


@statement("MQTT-4.8.2-3", "MQTT-3.8.4-8")
def test_a_member_gets_messages_at_the_qos_it_was_granted(broker: AnyBroker, own: str) -> None:
    members = [subscribed(connected(broker, f"{own} {qos}"), (f"$share/g/{own}", qos)) for qos in (0, 1)]
    publisher = connected(broker, f"{own} publisher")
    for _ in range(6):
        publish_whole(publisher, own, b"x", 2)
    for qos, member in enumerate(members):
        found = drained(member)
        assert found and {each.qos for each in found} == {qos}


@statement("MQTT-4.8.2-4")
def test_a_delivery_of_qos_2_that_has_begun_is_completed_with_its_member(broker: AnyBroker, own: str) -> None:
    members = [subscribed(session(broker, f"{own} {n}"), (f"$share/g/{own}", 2)) for n in range(2)]
    publish_whole(connected(broker, f"{own} publisher"), own, b"x", 2)
    one, other, found = picked(members[0], members[1])
    client = f"{own} {members.index(one)}"
    one.send(acknowledge(PUBREC, found.id))
    one.acked(found.id, kind=PUBREL)
    one.vanish()
    other.quiet()
    one = session(broker, client, present=True)
    one.acked(found.id, kind=PUBREL)
    one.send(acknowledge(PUBCOMP, found.id))
    one.quiet()
    other.quiet()


@statement("MQTT-4.8.2-5")
def test_nobody_else_gets_what_was_begun_at_qos_2_when_the_session_ends(broker: AnyBroker, own: str) -> None:
    members = [
        subscribed(connected(broker, f"{own} {n}", properties=expiry(0)), (f"$share/g/{own}", 2)) for n in range(2)
    ]
    publish_whole(connected(broker, f"{own} publisher"), own, b"x", 2)
    one, other, _ = picked(members[0], members[1])
    one.vanish()
    other.quiet()


def test_nobody_else_gets_what_was_acknowledged_just_before_its_member_left(broker: AnyBroker, own: str) -> None:
    members = [subscribed(session(broker, f"{own} {n}"), (f"$share/g/{own}", 1)) for n in range(2)]
    publish_whole(connected(broker, f"{own} publisher"), own, b"x")
    one, other, found = picked(members[0], members[1])
    one.send(puback(found.id), unsubscribe(2, f"$share/g/{own}"))
    assert one.granted(2, UNSUBACK) == [0]
    other.quiet()


@statement("MQTT-4.8.2-6")
@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_member_refuses_nobody_else_gets(broker: AnyBroker, own: str, qos: int) -> None:
    members = [subscribed(session(broker, f"{own} {n}"), (f"$share/g/{own}", qos)) for n in range(2)]
    publish_whole(connected(broker, f"{own} publisher"), own, b"x", qos)
    one, other, found = picked(members[0], members[1])
    one.send(puback(found.id, 0x80) if qos == 1 else acknowledge(PUBREC, found.id, 0x80))
    one.quiet()
    other.quiet()
    one.vanish()
    other.quiet()


def test_retained_messages_are_not_sent_to_shared_subscriptions(broker: AnyBroker, own: str) -> None:
    retain(connected(broker, f"{own} publisher"), own, b"kept")
    subscribed(connected(broker, own), (f"$share/g/{own}", 1)).quiet()


@statement("MQTT-3.3.4-3", "MQTT-3.10.4-1")
def test_a_shared_subscription_is_one_like_others(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (f"$share/g/{own}", 1), properties=subscription_id(5))
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, own, b"x")
    assert ids_of(take(raw)) == [5]
    raw.send(unsubscribe(4, own, f"$share/h/{own}", f"$share/g/{own}"))
    assert raw.granted(4, 0xB0) == [0x11, 0x11, 0]
    assert publisher.publish(own, b"nobody's") == 0x10
    raw.quiet()


@statement("MQTT-4.5.0-1")
def test_messages_wait_for_a_member_that_is_away(broker: AnyBroker, own: str) -> None:
    subscribed(session(broker, own), (f"$share/g/{own}", 1)).vanish()
    publish_whole(connected(broker, f"{own} publisher"), own, b"x")
    raw = session(broker, own, present=True)
    found = raw.delivery()
    assert found.body == b"x"
    settle(raw, found)


@statement("MQTT-4.8.2-1", "MQTT-3.3.4-3")
def test_a_client_may_have_a_message_for_each_of_its_subscriptions(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    for id, filter in enumerate((f"$share/g/{own}", f"$share/h/{own}", own), 1):
        subscribed(raw, (filter, 1), properties=subscription_id(id))
    publish_whole(connected(broker, f"{own} publisher"), own, b"x")
    assert sorted(ids_of(take(raw)) for _ in range(3)) == [[1], [2], [3]]
    raw.quiet()


@statement("MQTT-4.8.2-3", "MQTT-3.8.4-3")
def test_a_shared_subscription_again_replaces_it(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (f"$share/g/{own}", 2))
    subscribed(raw, (f"$share/g/{own}", 0))
    publish_whole(connected(broker, f"{own} publisher"), own, b"x", 2)
    assert take(raw).qos == 0
    raw.quiet()
