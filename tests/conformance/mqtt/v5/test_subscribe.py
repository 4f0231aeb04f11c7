"""SUBSCRIBE and UNSUBSCRIBE of MQTT 5: options, identifiers, what is replaced, what goes on (3.8 to 3.11)."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    acknowledge,
    connected,
    number,
    packet,
    puback,
    publish,
    subscribe,
    text,
    unsubscribe,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v5.flows import (
    DUP,
    NO_LOCAL,
    bodies,
    ids_of,
    packet_maximum,
    publish_whole,
    session,
    settle,
    subscribed,
    subscription_id,
    take,
    take_all,
)


@statement("MQTT-3.8.4-6", "MQTT-3.8.4-7", "MQTT-3.8.4-8")
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_qos_granted_is_the_most_that_comes(broker: AnyBroker, own: str, granted: int) -> None:
    raw = subscribed(connected(broker, own), (own, granted))
    publisher = connected(broker, f"{own} publisher")
    for qos in (0, 1, 2):
        publish_whole(publisher, own, b"x", qos)
    assert [found.qos for found in take_all(raw, 3)] == [min(qos, granted) for qos in (0, 1, 2)]


@statement("MQTT-3.3.4-2")
def test_overlapping_subscriptions_deliver_at_the_highest_qos(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (f"{own}/#", 0), (f"{own}/+", 2), (f"{own}/a", 1))
    publish_whole(connected(broker, f"{own} publisher"), f"{own}/a", b"x", 2)
    found = take(raw)
    assert (found.body, found.qos) == (b"x", 2)
    raw.quiet()


@statement("MQTT-3.8.3-3")
def test_no_local(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (f"{own}/deaf", 1 | NO_LOCAL), (f"{own}/hearing", 1))
    other = connected(broker, f"{own} other")
    for topic in (f"{own}/deaf", f"{own}/hearing"):
        raw.send(publish(topic, b"mine", 0))
        publish_whole(other, topic, b"other's", 0)
    assert sorted((found.topic, found.body) for found in take_all(raw, 3)) == [
        (f"{own}/deaf", b"other's"), (f"{own}/hearing", b"mine"), (f"{own}/hearing", b"other's")
    ]  # fmt: skip
    raw.quiet()


@statement("MQTT-3.8.3-3")
def test_no_local_where_another_subscription_hears(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (f"{own}/a", 2 | NO_LOCAL), (f"{own}/#", 1))
    raw.send(publish(f"{own}/a", b"mine", 2, 3))
    first, rest = raw.packet()
    if first == PUBREC:
        first, rest = raw.packet()
    found = raw.parsed(first, rest)
    assert (found.body, found.qos) == (b"mine", 1)


@statement("MQTT-3.8.4-3")
def test_a_subscription_is_replaced_with_all_its_options(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    subscribed(raw, (own, 2 | NO_LOCAL), properties=subscription_id(1))
    subscribed(raw, (own, 1), properties=subscription_id(2))
    raw.send(publish(own, b"mine", 0))
    found = take(raw)
    assert (found.qos, ids_of(found)) == (0, [2])
    subscribed(raw, (own, 0))
    publish_whole(connected(broker, f"{own} publisher"), own, b"x", 2)
    found = take(raw)
    assert (found.qos, ids_of(found)) == (0, [])
    raw.quiet()


@statement("MQTT-3.8.4-4")
def test_no_message_is_lost_while_a_subscription_is_replaced(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (own, 1))
    publisher = connected(broker, f"{own} publisher")
    sent = [b"%d" % n for n in range(200)]
    found: list[bytes] = []
    acks = 0
    for n, body in enumerate(sent):
        publisher.send(publish(own, body, 1, n + 1))
        raw.send(subscribe(2, (own, 1)))
    while len(found) < len(sent) or acks < len(sent):
        first, rest = raw.packet()
        if first == SUBACK:
            assert rest == b"\0\x02\0\x01"
            acks += 1
        else:
            each = raw.parsed(first, rest)
            found.append(each.body)
            raw.send(puback(each.id))
    assert found == sent
    raw.quiet()


@statement("MQTT-3.8.4-5", "MQTT-3.8.4-6", "MQTT-3.9.3-1")
def test_filters_of_one_subscribe_are_taken_in_order(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    raw.send(subscribe(9, (own, 2), (f"{own}/#/x", 1), (own, 0), (f"{own}/+", 1)))
    assert raw.granted(9) == [2, 0x8F, 0, 1]
    publish_whole(connected(broker, f"{own} publisher"), own, b"x", 2)
    assert take(raw).qos == 0
    raw.quiet()


@statement("MQTT-3.3.4-3", "MQTT-3.3.4-4")
def test_a_copy_has_the_identifiers_of_all_that_match(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    for filter, id in ((f"{own}/#", 1), (f"{own}/+", 268_435_455), (f"{own}/b", 3), ("+/a", 16_384)):
        subscribed(raw, (filter, 1), properties=subscription_id(id))
    subscribed(raw, (f"{own}/a", 1))
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, f"{own}/a", b"x")
    assert ids_of(take(raw)) == [1, 16_384, 268_435_455]
    raw.quiet()  # one copy for all of them


@statement("MQTT-3.3.4-3")
def test_identifiers_are_the_sessions(broker: AnyBroker, own: str) -> None:
    subscribed(session(broker, own), (own, 1), properties=subscription_id(77)).vanish()
    publish_whole(connected(broker, f"{own} publisher"), own, b"x")
    assert ids_of(take(session(broker, own, present=True))) == [77]


@statement("MQTT-3.10.4-3")
def test_unsubscribe_lets_what_has_begun_come_to_its_end(broker: AnyBroker, own: str) -> None:
    raw = subscribed(session(broker, own), (own, 2))
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, own, b"1", 1)
    publish_whole(publisher, own, b"2", 2)
    first, second = raw.delivery(), raw.delivery()
    raw.send(unsubscribe(5, own))
    assert raw.granted(5, UNSUBACK) == [0]
    raw.vanish()
    raw = session(broker, own, present=True)
    again = [raw.delivery(), raw.delivery()]
    assert [(each.id, each.bits) for each in again] == [(first.id, DUP), (second.id, DUP)]
    for each in again:
        settle(raw, each)
    raw.quiet()


@statement("MQTT-3.10.4-1", "MQTT-3.10.4-2", "MQTT-3.10.4-6", "MQTT-3.11.3-1")
def test_unsubscribe_compares_character_by_character(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (f"{own}/a", 0), (f"{own}/+", 1))
    raw.send(unsubscribe(6, f"{own}/A", f"{own}/#", f"{own}/+", f"{own}/+", f"{own}/a "))
    assert raw.granted(6, UNSUBACK) == [0x11, 0x11, 0, 0x11, 0x11]
    raw.send(publish(f"{own}/b"), publish(f"{own}/a", b"x"))
    found = raw.delivery()
    assert (found.topic, found.qos) == (f"{own}/a", 0)
    raw.quiet()


@statement("MQTT-3.10.3-1", "MQTT-3.10.1-1", "MQTT-3.8.1-1")
def test_unsubscribe_that_none_is(broker: AnyBroker, own: str) -> None:
    for octets in (
        packet(0xA2, number(1) + b"\0" + text(b"\xff")),
        packet(0xA2, number(1) + b"\0" + text(b"a\0")),
        packet(0xA2, number(1) + b"\0" + b"\0\x05a"),
        packet(0xA0, number(1) + b"\0" + text("a")),
        packet(0xA3, number(1) + b"\0" + text("a")),
        packet(0x80, number(1) + b"\0" + text("a") + b"\0"),
        packet(0x8A, number(1) + b"\0" + text("a") + b"\0"),
    ):
        raw = connected(broker, own)
        raw.send(octets)
        raw.refused(0x81)


@statement("MQTT-3.11.2-1", "MQTT-3.9.2-1")
def test_answers_fit_into_the_clients_packet_size(broker: AnyBroker, own: str) -> None:
    wrong = ["a/#/b", "$share/g"]
    for properties, most in ((b"", 1000), (packet_maximum(30), 30)):
        raw = connected(broker, own, properties=properties)
        raw.send(subscribe(7, *[(name, 0) for name in wrong]), unsubscribe(8, *wrong))
        answers = [raw.expect(SUBACK), raw.expect(UNSUBACK)]
        assert all(len(rest) + 2 <= most for rest in answers)
        assert answers[0][-2:] == b"\x8f\x8f"


@statement("MQTT-4.6.0-5", "MQTT-4.6.0-6")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_a_topic_come_in_the_order_they_were_published(broker: AnyBroker, own: str, qos: int) -> None:
    raw = subscribed(connected(broker, own), (f"{own}/+", 2))
    publisher = connected(broker, f"{own} publisher")
    sent = [b"%d" % n for n in range(300)]
    for n, body in enumerate(sent):
        publisher.send(publish(f"{own}/{n % 3}", body, qos, n + 1))
    if qos == 2:
        for n in range(len(sent)):
            publisher.acked(n + 1, kind=PUBREC)
        publisher.send(*[acknowledge(PUBREL, n + 1) for n in range(len(sent))])
    if qos:
        for n in range(len(sent)):
            publisher.acked(n + 1, kind=PUBCOMP if qos == 2 else PUBACK)
    assert bodies(raw, len(sent)) == sent


@statement("MQTT-3.8.4-5", "MQTT-3.10.4-6")
def test_a_thousand_filters_in_one_packet(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own)
    names = [f"{own}/{n}" for n in range(1000)]
    raw.send(subscribe(4, *[(name, n % 3) for n, name in enumerate(names)]), unsubscribe(5, *names[1:], own))
    assert raw.granted(4) == [n % 3 for n in range(1000)]
    assert raw.granted(5, UNSUBACK) == [0] * 999 + [0x11]
