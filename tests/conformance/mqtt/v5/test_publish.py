"""PUBLISH of MQTT 5, both ways: octets, identifiers, acknowledgements, expiry, aliases (1.5, 2.2, 3.3, 4.3)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.mqtt.raw import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Raw,
    acknowledge,
    connected,
    number,
    packet,
    puback,
    publish,
    subscribe,
    text,
    user,
)
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v5.flows import (
    DUP,
    alias,
    bodies,
    message_expiry,
    packet_maximum,
    publish_whole,
    session,
    settle,
    subscribed,
    take,
    take_all,
)

pytestmark = pytest.mark.over_sockets
ALIASES = 32  # the broker's Topic Alias Maximum


@statement("MQTT-4.3.1-1", "MQTT-2.2.1-2", "MQTT-2.2.2-1", "MQTT-3.3.1-2", "MQTT-1.5.5-1", "MQTT-3.3.2-1")
@pytest.mark.parametrize("length", [0, 122, 123, 16_378, 16_379])  # the length is of one, two, three octets
def test_the_octets_of_a_delivery_at_qos_0(broker: AnyBroker, own: str, length: int) -> None:
    raw = subscribed(connected(broker, own), ("ab", 0))
    raw.send(publish("ab", bytes(length)))
    expected = packet(0x30, b"\0\x02ab\0" + bytes(length))
    assert raw.read(len(expected)) == expected


@statement("MQTT-4.3.3-1", "MQTT-4.3.3-2", "MQTT-4.3.3-4", "MQTT-3.6.1-1", "MQTT-3.6.2-1", "MQTT-2.2.1-5")
def test_a_delivery_at_qos_2(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (own, 2))
    publish_whole(connected(broker, f"{own} publisher"), own, b"x", 2)
    found = raw.delivery()
    assert (found.body, found.qos, found.bits) == (b"x", 2, 0)
    raw.send(acknowledge(PUBREC, found.id))
    assert raw.read(4) == b"\x62\x02" + number(found.id)
    raw.send(acknowledge(PUBCOMP, found.id))
    raw.quiet()


@statement("MQTT-2.2.1-4", "MQTT-4.3.2-1", "MQTT-4.3.2-2", "MQTT-4.3.3-1")
def test_identifiers_of_deliveries_are_unused(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (own, 2))
    publisher = connected(broker, f"{own} publisher")
    open_ids: set[int] = set()
    for round in range(10):
        for qos in (1, 2, 1):
            publish_whole(publisher, own, b"x", qos)
        found = [raw.delivery() for _ in range(3)]
        ids = {each.id for each in found}
        assert len(ids) == 3 and 0 not in ids and not ids & open_ids
        assert {each.bits for each in found} == {0}
        open_ids.add(found[round % 3].id)  # which is never acknowledged
        for each in found:
            if each.id not in open_ids:
                settle(raw, each)


@statement("MQTT-4.3.2-5")
def test_behind_puback_the_identifier_is_a_new_message(broker: AnyBroker, own: str) -> None:
    reader = subscribed(connected(broker, f"{own} reader"), (own, 0))
    raw = connected(broker, own)
    for bits in (0, DUP):
        raw.send(publish(own, b"%d" % bits, 1, 5, bits=bits))
        raw.acked(5)
    assert [reader.delivery().body for _ in range(2)] == [b"0", b"8"]


@statement("MQTT-4.3.3-9", "MQTT-3.5.2-1")
def test_behind_a_pubrec_with_an_error_the_identifier_is_a_new_message(broker: AnyBroker, own: str) -> None:
    reader = subscribed(connected(broker, f"{own} reader"), (own, 0))
    raw = connected(broker, own)
    raw.send(publish("$queue/q/$ack", b"", 2, 5))  # a command that says nothing
    assert raw.expect(PUBREC)[:3] == b"\0\x05\x99"
    raw.send(publish(own, b"new", 2, 5))
    raw.acked(5, kind=PUBREC)
    raw.send(acknowledge(PUBREL, 5))
    raw.acked(5, kind=PUBCOMP)
    assert reader.delivery().body == b"new"


@statement("MQTT-1.5.4-3")
def test_a_byte_order_mark_is_a_character(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (f"\ufeff{own}", 0))
    plain = subscribed(connected(broker, f"{own} plain"), (own, 0))
    publish_whole(plain, f"\ufeff{own}", b"x", 1, user("\ufeffn", "\ufeffv"))
    found = raw.delivery()
    assert (found.topic, found.facts()) == (f"\ufeff{own}", {"\ufeffn": "\ufeffv"})
    plain.quiet()


@statement("MQTT-1.5.7-1", "MQTT-1.5.4-1", "MQTT-1.5.4-2", "MQTT-3.3.2-13")
@pytest.mark.parametrize("bad", [b"\xff", b"a\0", b"\xed\xa0\x80"])
def test_texts_of_properties_are_utf_8(broker: AnyBroker, own: str, bad: bytes) -> None:
    for properties in (
        b"\x26" + text(bad) + text("v"), b"\x26" + text("n") + text(bad), b"\x08" + text(bad), b"\x03" + text(bad)
    ):  # fmt: skip
        raw = connected(broker, own)
        raw.send(publish(own, properties=properties))
        raw.refused(0x81)


@statement("MQTT-4.7.3-3")
def test_a_topic_of_65535_octets(broker: AnyBroker, own: str) -> None:
    longest = own.ljust(17, "x") + "ü" * 32_759
    raw = subscribed(connected(broker, own), (longest, 0))
    raw.send(publish(longest, b"x"))
    assert raw.delivery().topic == longest


@statement("MQTT-3.3.2-15", "MQTT-3.3.2-16", "MQTT-3.3.4-1")
def test_request_and_response(broker: AnyBroker, own: str) -> None:
    server = subscribed(connected(broker, f"{own} server"), (f"{own}/ask", 1))
    client = subscribed(connected(broker, own), (f"{own}/answer", 1))
    client.send(
        publish(f"{own}/ask", b"2 + 2", 1, 3, properties=b"\x08" + text(f"{own}/answer") + b"\x09" + text(b"\0"))
    )
    client.acked(3)
    asked = dict(take(server).properties)
    assert asked == {0x08: f"{own}/answer".encode(), 0x09: b"\0"}
    publish_whole(server, f"{own}/answer", b"4", 1, b"\x09" + text(b"\0"))
    found = take(client)
    assert (found.body, found.properties) == (b"4", [(0x09, b"\0")])


# ---- expiry


@statement("MQTT-3.3.2-5", "MQTT-3.3.2-6")
def test_a_message_that_waits_grows_older_and_expires(broker: AnyBroker, own: str) -> None:
    subscribed(session(broker, own), (own, 2)).vanish()
    publisher = connected(broker, f"{own} publisher")
    for seconds in (1, 600):
        for qos in (0, 1, 2):
            publish_whole(publisher, own, b"%d" % seconds, qos, message_expiry(seconds))
    broker.wait_out(1)
    raw = session(broker, own, present=True)
    found = take_all(raw, 3)
    assert [(each.qos, each.body) for each in found] == [(0, b"600"), (1, b"600"), (2, b"600")]
    for each in found:
        assert 500 < int(str(dict(each.properties)[0x02])) <= 599  # whole seconds of waiting count
    raw.quiet()


@statement("MQTT-3.3.2-6")
def test_a_message_that_does_not_wait_has_its_expiry(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (own, 1))
    publish_whole(connected(broker, f"{own} publisher"), own, b"x", 1, message_expiry(600))
    assert 590 < int(str(dict(take(raw).properties)[0x02])) <= 600


@statement("MQTT-4.3.3-7")
def test_a_publish_that_was_sent_does_not_expire(broker: AnyBroker, own: str) -> None:
    raw = subscribed(session(broker, own), (own, 2))
    publisher = connected(broker, f"{own} publisher")
    publish_whole(publisher, own, b"x", 2, message_expiry(1))
    found = raw.delivery()
    raw.vanish()
    broker.wait_out(1)
    raw = session(broker, own, present=True)
    again = raw.delivery()
    assert (again.body, again.id, again.bits) == (b"x", found.id, DUP)
    settle(raw, again)
    raw.quiet()


@statement("MQTT-4.3.3-13")
def test_the_acknowledgements_go_on_when_the_message_has_expired(broker: AnyBroker, own: str) -> None:
    subscribed(session(broker, f"{own} away"), (own, 2)).vanish()
    raw = session(broker, own)
    raw.send(publish(own, b"x", 2, 5, properties=message_expiry(1)))
    raw.acked(5, kind=PUBREC)
    broker.wait_out(1)
    raw.send(publish(own, b"x", 2, 5, properties=message_expiry(1), bits=DUP))
    raw.acked(5, kind=PUBREC)
    raw.send(acknowledge(PUBREL, 5))
    raw.acked(5, kind=PUBCOMP)
    session(broker, f"{own} away", present=True).quiet()


# ---- topic aliases


@statement("MQTT-3.3.2-12")
def test_every_alias_up_to_the_brokers_maximum(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (f"{own}/#", 0))
    names = [f"{own}/{n}" for n in range(1, ALIASES + 1)]
    for n, name in enumerate(names, 1):
        raw.send(publish(name, properties=alias(n)))
    for n in range(ALIASES, 0, -1):
        raw.send(publish("", properties=alias(n)))
    raw.send(publish(f"{own}/new", properties=alias(1)), publish("", properties=alias(1)))  # a mapping may change
    found = [raw.delivery() for _ in range(2 * ALIASES + 2)]
    assert [each.topic for each in found] == [*names, *reversed(names), f"{own}/new", f"{own}/new"]
    assert [each.properties for each in found] == [[]] * len(found)  # the publisher's alias is its own


@statement("MQTT-3.3.2-9", "MQTT-3.2.2-17", "MQTT-3.2.2-18", "MQTT-3.3.2-8")
def test_aliases_that_the_broker_does_not_have(start_broker: Callable[..., AnyBroker]) -> None:
    broker = start_broker(mqtt_topic_alias_max=3)
    for octets, codes in (
        (publish("a", properties=alias(4)), {0x94}),
        (publish("a", properties=alias(0)), {0x82, 0x94}),
        (publish("", properties=alias(3)), {0x82, 0x94}),  # of which nothing is known
        (publish(""), {0x82}),
    ):
        raw = connected(broker)
        raw.send(octets)
        assert raw.expect(0xE0)[0] in codes
        assert raw.ended()
    broker = start_broker(mqtt_topic_alias_max=0)
    raw = connected(broker)
    raw.send(publish("a", properties=alias(1)))
    raw.refused(0x94)


@statement("MQTT-3.3.2-7")
def test_aliases_end_with_their_connection(broker: AnyBroker, own: str) -> None:
    raw = session(broker, own)
    publish_whole(raw, own, b"", 0, alias(1))
    raw.vanish()
    raw = session(broker, own, present=True)
    raw.send(publish("", properties=alias(1)))
    assert raw.expect(0xE0)[0] in {0x82, 0x94}
    assert raw.ended()


def unaliased(raw: Raw, known: dict[int, str], most: int) -> tuple[str, bool]:
    """Topic of the next delivery, and whether it came without its name."""
    found = raw.delivery()
    value = dict(found.properties).get(0x23)
    if value is None:
        return found.topic, False
    assert isinstance(value, int) and 0 < value <= most
    short = not found.topic
    if not short:
        known[value] = found.topic
    return known[value], short


@statement("MQTT-3.1.2-26", "MQTT-3.3.2-11", "MQTT-3.3.2-8", "MQTT-3.3.2-7")
def test_the_broker_uses_aliases_up_to_the_clients_maximum(broker: AnyBroker, own: str) -> None:
    publisher = connected(broker, f"{own} publisher")
    for _ in range(2):
        raw = connected(broker, own, properties=b"\x22\0\x02")
        subscribed(raw, (f"{own}/#", 1))
        sent = [f"{own}/{n}" for n in (1, 1, 2, 3, 1, 2, 3, 3, 1, 1)]
        known: dict[int, str] = {}
        found = []
        for n, topic in enumerate(sent):
            publish_whole(publisher, topic, b"x", n % 2)
            found.append(unaliased(raw, known, 2))
        assert [topic for topic, _ in found] == sent
        assert any(short for _, short in found)  # or they would be of no use
        raw.leave()


@statement("MQTT-3.1.2-27")
@pytest.mark.parametrize("properties", [b"", b"\x22\0\0"])
def test_no_aliases_for_who_takes_none(broker: AnyBroker, own: str, properties: bytes) -> None:
    raw = subscribed(connected(broker, own, properties=properties), (own, 0))
    for _ in range(3):
        raw.send(publish(own))
        found = raw.delivery()
        assert (found.topic, found.properties) == (own, [])


# ---- reason strings, which must fit


@statement("MQTT-3.4.2-2", "MQTT-3.5.2-2", "MQTT-3.1.2-24")
@pytest.mark.parametrize(("qos", "kind"), [(1, PUBACK), (2, PUBREC)])
def test_no_reason_string_makes_an_acknowledgement_too_large(broker: AnyBroker, own: str, qos: int, kind: int) -> None:
    octets = publish("$queue/q/$ack", b"", qos, 5)
    for properties, reason in ((b"", True), (packet_maximum(30), False)):
        raw = connected(broker, own, properties=properties)
        raw.send(octets)
        rest = raw.expect(kind)
        assert (rest[:3], b"message-id" in rest) == (b"\0\x05\x99", reason)
        assert reason or len(rest) <= 28


@statement("MQTT-3.1.2-29")
def test_no_reason_string_for_who_wants_none(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own, properties=b"\x17\x00")
    raw.send(publish("$queue/q/$ack", b"", 1, 5))
    assert raw.expect(PUBACK) in (b"\0\x05\x99", b"\0\x05\x99\0")
    raw.send(publish("$queue/q/$ack", b"", 2, 6))
    assert raw.expect(PUBREC) in (b"\0\x06\x99", b"\0\x06\x99\0")
    raw.send(subscribe(7, ("a/#/b", 0)))
    assert raw.expect(0x90) == b"\0\x07\0\x8f"
    raw.send(acknowledge(PUBREL, 8))
    assert raw.expect(PUBCOMP) in (b"\0\x08\x92", b"\0\x08\x92\0")


@statement("MQTT-3.6.2-1", "MQTT-3.7.2-1", "MQTT-3.6.2-2", "MQTT-3.7.2-2")
def test_releases_of_nothing(broker: AnyBroker, own: str) -> None:
    raw = connected(broker, own, properties=packet_maximum(30))
    raw.send(acknowledge(PUBREC, 77))
    rest = raw.expect(PUBREL)
    assert rest[:3] == b"\0\x4d\x92" and len(rest) <= 28
    raw.send(acknowledge(PUBREL, 78))
    rest = raw.expect(PUBCOMP)
    assert rest[:3] == b"\0\x4e\x92" and len(rest) <= 28


def test_bodies_pass_unaltered(broker: AnyBroker, own: str) -> None:
    raw = subscribed(connected(broker, own), (own, 1))
    publisher = connected(broker, f"{own} publisher")
    sent = [bytes(range(256)), b"", b"\0" * 70_000]
    for body in sent:
        publish_whole(publisher, own, body)
    assert bodies(raw, len(sent)) == sent


@statement("MQTT-2.2.1-4", "MQTT-4.3.2-1")
def test_identifiers_that_are_used_again_pass_over_those_in_use(start_broker: Callable[..., AnyBroker]) -> None:
    count = 1000
    broker = start_broker(mqtt_max_inflight=count + 1)
    raw = subscribed(connected(broker), ("a", 1))
    publisher = connected(broker, "publisher")
    publish_whole(publisher, "a")
    held = raw.delivery().id  # which is never acknowledged
    octets = [publish("a", b"", 1, n + 1) for n in range(count)]
    for _ in range(66):  # more messages than there are identifiers
        publisher.send(*octets)
        ids = [raw.delivery().id for _ in range(count)]
        assert len(set(ids)) == count and held not in ids
        raw.send(*[puback(id) for id in ids])
        publisher.read(4 * count)
