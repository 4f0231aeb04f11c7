"""The sending half of a connection: windows, acknowledgements, what waits for the disk, and what is sent again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.mqtt.raw import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Delivery,
    Raw,
    acknowledge,
    puback,
    publish,
    unsubscribe,
)
from tests.conformance.mqtt.v5.flows import (
    bodies,
    message_expiry,
    packet_maximum,
    publish_whole,
    receive_maximum,
    retain,
    settle,
    subscribed,
    take,
)
from tests.mqtt_rig import MqttRig, RigClient

FAILED = 0x80
NOT_FOUND = 0x92
DUP = 8


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def come(rig: MqttRig, raw: Raw) -> list[Delivery]:
    """What has come, not acknowledged."""
    rig.turn()
    raw.send(PINGREQ)
    found: list[Delivery] = []
    while (each := raw.packet())[0] != PINGRESP[0]:
        found.append(raw.parsed(*each))
    return found


def member(rig: MqttRig, durable: bool, window: int = 65_535, name: str = "sink", present: bool = False) -> RigClient:
    block = receive_maximum(window)
    return rig.durable(name, present, block) if durable else rig.connected(name, block)


# ---- the window


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("qos", [1, 2])
def test_the_window_is_the_smaller_of_two(tmp_path: Path, durable: bool, qos: int) -> None:
    rig = MqttRig(tmp_path, mqtt_max_inflight=4)
    source = rig.connected("source")
    for window, expected in [(2, 2), (9, 4)]:
        sink = subscribed(member(rig, durable, window, f"sink {window}"), ("a", qos))
        for number in range(6):
            publish_whole(source, "a", b"%d" % number, qos)
        found = come(rig, sink)
        assert [each.body for each in found] == numbered(0, expected)
        assert len({each.id for each in found}) == expected
        settle(sink, found[0])
        assert [each.body for each in come(rig, sink)] == numbered(expected, expected + 1)
    rig.close()


@pytest.mark.parametrize("durable", [False, True])
def test_a_place_is_free_by_pubcomp_and_not_before(tmp_path: Path, durable: bool) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(member(rig, durable, 1), ("a", 2))
    source = rig.connected("source")
    for number in range(2):
        publish_whole(source, "a", b"%d" % number, 2)
    found = sink.delivery()
    sink.send(acknowledge(PUBREC, found.id))
    sink.acked(found.id, kind=PUBREL)
    sink.quiet()
    sink.send(acknowledge(PUBCOMP, found.id))
    assert take(sink).body == b"1"
    rig.close()


@pytest.mark.parametrize("durable", [False, True])
def test_a_message_that_a_client_refuses_is_settled(tmp_path: Path, durable: bool) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(member(rig, durable, 1), ("a", 2))
    source = rig.connected("source")
    for qos in (1, 2, 1):
        publish_whole(source, "a", b"%d" % qos, qos)
    sink.send(puback(sink.delivery().id, FAILED))
    sink.send(acknowledge(PUBREC, sink.delivery().id, FAILED))
    assert take(sink).body == b"1"
    sink.quiet()
    rig.close()


@pytest.mark.parametrize(("store", "bypass"), [(True, True), (True, False), (False, False)])
def test_qos_0_passes_a_full_window_or_waits_behind_it(tmp_path: Path, store: bool, bypass: bool) -> None:
    for number, granted in enumerate((1, 0)):
        rig = MqttRig(tmp_path / str(number), mqtt_mqueue_store_qos0=store, mqtt_mqueue_qos0_bypass=bypass)
        sink = subscribed(member(rig, False, 1), ("a", 1), ("b", granted))
        source = rig.connected("source")
        for topic, body, qos in [("a", b"0", 1), ("a", b"1", 1), ("b", b"2", 0)]:
            publish_whole(source, topic, body, qos)
        first = sink.delivery()
        waits = store and not bypass
        assert [each.body for each in come(rig, sink)] == ([] if waits else [b"2"])
        settle(sink, first)
        assert bodies(sink, 2 if waits else 1) == ([b"1", b"2"] if waits else [b"1"])
        rig.close()


@pytest.mark.parametrize("durable", [False, True])
def test_a_packet_too_large_for_the_client_is_passed_over(tmp_path: Path, durable: bool) -> None:
    rig = MqttRig(tmp_path)
    block = packet_maximum(50)
    sink = rig.durable("sink", properties=block) if durable else rig.connected("sink", block)
    subscribed(sink, ("a", 2))
    source = rig.connected("source")
    for qos, body in [(1, b"x" * 50), (2, b"x" * 50), (1, b"1"), (2, b"2")]:
        publish_whole(source, "a", body, qos)
    assert sorted(bodies(sink, 2)) == [b"1", b"2"]
    assert rig.vhost.sessions.clients[b"sink"].inflight == {}
    rig.close()


# ---- acknowledgements that do not fit


def test_acknowledgements_of_nothing_change_nothing(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = rig.durable("sink")
    subscribed(sink, ("a", 2))
    source = rig.connected("source")
    for qos in (1, 2):
        publish_whole(source, "a", b"%d" % qos, qos)
    one, two = sorted(come(rig, sink), key=lambda each: each.qos)
    sink.send(puback(77), acknowledge(PUBCOMP, 77))
    sink.quiet()
    sink.send(acknowledge(PUBREC, 77))
    sink.acked(77, NOT_FOUND, PUBREL)
    for each in (one, two):
        settle(sink, each)
    sink.quiet()
    assert rig.vhost.sessions.clients[b"sink"].inflight == {}
    rig.close()


# ---- the disk


def test_a_packet_of_qos_2_leaves_when_its_identifier_is_on_the_disk(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(rig.durable("sink"), ("a", 2))
    source = rig.connected("source")
    source.send(publish("a", b"2", 2, 1), publish("a", b"1", 1, 2), publish("a", b"0", 0))
    rig.turn(sync=False)
    assert sink.delivery().body == b"0"
    assert sink.rest == b""  # that of QoS 1 does not overtake
    rig.sync()
    assert [sink.delivery().body for _ in range(2)] == [b"2", b"1"]
    rig.close()


def test_pubrel_leaves_when_pubrec_is_on_the_disk_also_if_it_came_twice(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(rig.durable("sink"), ("a", 2))
    publish_whole(rig.connected("source"), "a", b"x", 2)
    id = sink.delivery().id
    rig.turn()
    for _ in range(2):
        sink.send(acknowledge(PUBREC, id))
        rig.turn(sync=False)
        assert sink.rest == b""
    rig.sync()
    for _ in range(2):
        sink.acked(id, kind=PUBREL)
    rig.close()


# ---- a session goes on


@pytest.mark.parametrize("window", [1, 3, 65_535])
def test_what_was_not_acknowledged_is_sent_again_in_its_order(tmp_path: Path, window: int) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(member(rig, True), ("a", 2))
    source = rig.connected("source")
    for number in range(6):
        publish_whole(source, "a", b"%d" % number, 1 + number % 2)
    before = come(rig, sink)
    sink.send(acknowledge(PUBREC, before[1].id))
    sink.acked(before[1].id, kind=PUBREL)
    sink.vanish()
    publish_whole(source, "a", b"6")
    sink = member(rig, True, window, present=True)
    again: list[Delivery] = []
    released = 0
    while len(again) < 6 or not released:
        first, rest = sink.packet()
        if first == PUBREL:
            id = int.from_bytes(rest[:2], "big")
            if id == before[1].id:
                assert [each.body for each in again] == [b"0", *numbered(2, 6)]
                released += 1
            sink.send(acknowledge(PUBCOMP, id))
            continue
        again.append(sink.parsed(first, rest))
        sink.send(acknowledge(PUBACK if again[-1].qos == 1 else PUBREC, again[-1].id))
    assert [each.body for each in again] == [b"0", *numbered(2, 7)]
    assert [each.id for each in again[:5]] == [each.id for each in before if each.body != b"1"]
    assert [each.bits for each in again] == [DUP] * 5 + [0]
    rig.close()


EXPIRY_S = 5


def publish_brief(source: Raw, topic: str, body: bytes, qos: int = 1) -> None:
    publish_whole(source, topic, body, qos, message_expiry(EXPIRY_S))


@pytest.mark.parametrize("restarts", [False, True])
def test_what_expired_on_its_way_is_not_sent_again(tmp_path: Path, restarts: bool) -> None:
    """But QoS 2: a message that was sent does not expire [MQTT-4.3.3-7], and its handshake ends."""
    rig = MqttRig(tmp_path)
    sink = subscribed(member(rig, True, 3), ("a", 2))
    source = rig.connected("source")
    publish_brief(source, "a", b"acknowledged", 2)
    publish_brief(source, "a", b"once", 2)
    publish_brief(source, "a", b"expired", 1)
    publish_whole(source, "a", b"fresh")
    found = come(rig, sink)
    assert [each.body for each in found] == [b"acknowledged", b"once", b"expired"]
    sink.send(acknowledge(PUBREC, found[0].id))
    sink.acked(found[0].id, kind=PUBREL)
    sink.vanish()
    rig.later(1000 * EXPIRY_S)
    if restarts:
        rig.flush()
        rig.crash()
    sink = member(rig, True, 3, present=True)
    again = sink.delivery()
    assert (again.body, again.qos, again.bits, again.properties) == (b"once", 2, DUP, [(0x02, 1)])
    sink.acked(found[0].id, kind=PUBREL)
    last = sink.delivery()  # in the place of the one that has expired
    assert (last.body, last.bits) == (b"fresh", 0)
    sink.quiet()
    fields = sink.session.describe()
    assert (fields["expired"], fields["inflight"]) == (1, 3)
    sink.vanish()
    sink = member(rig, True, 3, present=True)
    assert [sink.delivery().body, sink.packet()[0], sink.delivery().body] == [b"once", PUBREL, b"fresh"]
    assert sink.session.describe()["expired"] == 0
    rig.close()


def test_a_shared_message_that_expired_with_one_member_goes_to_no_other(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    first = subscribed(member(rig, False, name="first"), ("$share/g/a", 1))
    source = rig.connected("source")
    publish_brief(source, "a", b"expired")
    publish_whole(source, "a", b"fresh")
    assert [each.body for each in come(rig, first)] == [b"expired", b"fresh"]
    other = member(rig, False, name="other")
    subscribed(other, ("$share/g/a", 1))
    rig.later(1000 * EXPIRY_S)
    first.vanish()
    assert take(other).body == b"fresh"
    other.quiet()
    assert other.session.describe()["expired"] == 1
    rig.close()


@pytest.mark.parametrize("way", ["lease returns", "waits for the window"])
def test_a_message_of_a_queue_that_expires_with_a_consumer_dies_of_that(tmp_path: Path, way: str) -> None:
    rig = MqttRig(tmp_path)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead", "x-visibility-timeout": 60_000}
    rig.vhost.catalog.declare_queue(b"q", True, False, False, arguments, 0)
    rig.vhost.catalog.declare_queue(b"dead", True, False, False, {}, 0)
    sink = subscribed(member(rig, False, 1), ("$queue/q/#", 1), ("a", 1))
    source = rig.connected("source")
    if way == "waits for the window":
        publish_whole(source, "a", b"in front")
    publish_brief(source, "$queue/q/a", b"expired")
    found = come(rig, sink)
    assert len(found) == 1
    rig.later(1000 * EXPIRY_S)
    if way == "waits for the window":
        sink.send(puback(found[0].id))
        sink.quiet()
    else:
        sink.vanish()
    rig.settle()
    counts = rig.vhost.catalog.queue(b"q").counts
    assert (counts.expired, counts.rejected, rig.vhost.catalog.queue(b"dead").ready()) == (1, 0, 1)
    rig.close()


def test_a_client_comes_back_in_the_turn_in_which_a_shared_message_became_its_own(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(member(rig, True, 1), ("$share/g/a", 2))
    source = rig.connected("source")
    for number in range(2):
        publish_whole(source, "a", b"%d" % number, 2)
    first = sink.delivery()
    sink.send(acknowledge(PUBREC, first.id))
    sink.acked(first.id, kind=PUBREL)
    sink.send(acknowledge(PUBCOMP, first.id))
    sink.vanish()
    sink = member(rig, True, 1, present=True)
    again = sink.delivery()
    assert (again.body, again.qos, again.bits) == (b"1", 2, DUP)
    settle(sink, again)
    sink.quiet()
    rig.close()


def test_new_identifiers_do_not_meet_those_that_wait_to_be_sent_again(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(member(rig, True), ("a", 1), ("$share/g/s", 1))
    source = rig.connected("source")
    for number in range(5):
        publish_whole(source, "a", b"%d" % number)
    first = {each.id: each.body for each in come(rig, sink)}
    sink.vanish()
    publish_whole(source, "s", b"shared")
    sink = member(rig, True, 2, present=True)
    open = dict(first)
    for _ in range(6):
        found = take(sink)
        if found.body == b"shared":
            assert found.id not in open
        else:
            assert open.pop(found.id) == found.body
    assert open == {}
    rig.close()


# ---- a connection that takes no more


@pytest.mark.parametrize("durable", [False, True])
def test_a_connection_that_takes_no_more_gets_the_rest_later(tmp_path: Path, durable: bool) -> None:
    rig = MqttRig(tmp_path)
    sink = member(rig, durable)
    subscribed(sink, ("a", 1), ("$share/g/s", 1))
    source = rig.connected("source")
    rig.vhost.pause(sink.session.id, True)
    for number in range(3):
        publish_whole(source, "a", b"%d" % number)
        publish_whole(source, "s", b"s%d" % number)
    assert sink.rest == b""
    rig.vhost.pause(sink.session.id, False)
    rig.later(1000)
    assert sorted(bodies(sink, 6)) == [*numbered(0, 3), b"s0", b"s1", b"s2"]
    sink.quiet()
    rig.close()


def test_qos_0_is_lost_where_a_connection_takes_no_more(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = rig.durable("sink")
    subscribed(sink, ("a", 1))
    rig.vhost.pause(sink.session.id, True)
    publish_whole(rig.connected("source"), "a", b"lost", 0)
    rig.vhost.pause(sink.session.id, False)
    rig.later(1000)
    sink.quiet()
    assert rig.vhost.fanout.dropped == 1
    rig.close()


# ---- retained messages, and what ends


def test_older_messages_go_before_what_is_retained(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(member(rig, True, 1), ("a", 1))
    source = rig.connected("source")
    retain(source, "b", b"kept")
    for number in range(3):
        publish_whole(source, "a", b"%d" % number)
    held = sink.delivery()
    subscribed(sink, ("b", 1))
    settle(sink, held)
    assert [held.body, *bodies(sink, 3)] == [*numbered(0, 3), b"kept"]
    rig.close()


def test_no_retained_message_follows_the_end_of_its_subscription(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    source = rig.connected("source")
    for number in range(9):
        retain(source, f"t/{number}", b"%d" % number)
    sink = subscribed(member(rig, False, 2), ("t/+", 1))
    found = come(rig, sink)
    assert len(found) == 2
    sink.send(unsubscribe(3, "t/+"))
    assert sink.granted(3, 0xB0) == [0]
    for each in found:
        settle(sink, each)
    assert come(rig, sink) == []
    rig.close()
