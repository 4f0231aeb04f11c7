"""What one client may have done at once: packets that are too long or hold too much, and reads that hold many."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.session.meter import WORK_A_TURN
from forebay.session.mqtt.incoming.publish import ROUTE_POINTS
from forebay.session.mqtt.incoming.subscribe import FILTER_POINTS
from tests.conformance.mqtt.raw import (
    PINGREQ,
    PINGRESP,
    UNSUBACK,
    V5,
    V311,
    connect,
    packet,
    publish,
    subscribe,
    unsubscribe,
    user,
    will,
)
from tests.mqtt_rig import MqttRig, RigClient

QUOTA_EXCEEDED, TOO_LARGE, FAILURE, MALFORMED = 0x97, 0x95, 0x80, 0x81
RETAIN = 1
KIB = 1024
NAMELESS = user("", "")


def is_answered(raw: RigClient) -> bool:
    """Return whether a PINGREQ is answered before anything else."""
    raw.send(PINGREQ)
    return raw.read(len(PINGRESP)) == PINGRESP


@pytest.mark.parametrize("version", [V311, V5])
def test_a_connect_beyond_64_kib_is_refused_by_its_length(tmp_path: Path, version: int) -> None:
    rig = MqttRig(tmp_path)
    raw = rig.client(version)
    whole = connect("c", version, will=will("w", b"x" * 65_535, version), will_flags=4)
    raw.send(whole[:100])  # its length is enough
    if version == V5:
        raw.connack(TOO_LARGE)
    assert raw.ended()
    assert raw.line.handshake is not None and "65" in raw.line.handshake.reason
    rig.close()


def test_the_limit_before_login_is_an_option(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, login_octets_max=128 * KIB)
    raw = rig.client()
    raw.send(connect("c", will=will("w", b"x" * 65_535), will_flags=4))
    raw.connack()
    raw.send(publish("a", b"x" * 1000 * KIB, 1, 1))
    raw.acked(1, 0x10)
    rig.close()


def test_a_connect_may_have_so_many_user_properties(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_user_properties_max=3)
    raw = rig.client()
    raw.send(connect("c", properties=NAMELESS * 3))
    raw.connack()
    raw = rig.client()
    raw.send(connect("d", properties=NAMELESS * 4))
    raw.connack(QUOTA_EXCEEDED)
    rig.close()


@pytest.mark.parametrize(
    "octets",
    [
        publish("a", b"x", 1, 1, properties=NAMELESS * 1001),
        subscribe(1, ("a", 0), properties=NAMELESS * 1001),
        packet(0xE0, b"\0" + b"\x8d\x27" + NAMELESS * 1001),
    ],
)
def test_properties_of_a_packet_are_counted(tmp_path: Path, octets: bytes) -> None:
    rig = MqttRig(tmp_path)
    raw = rig.connected("c")
    raw.send(octets)
    raw.refused(QUOTA_EXCEEDED)
    rig.close()


def test_as_many_as_the_limits_say_are_taken(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    raw = rig.connected("c")
    raw.send(subscribe(1, *[("a", 0)] * 1000, properties=NAMELESS * 1000))
    assert raw.granted() == [0] * 1000
    raw.send(publish("a", b"x", 1, 1, properties=NAMELESS * 1000))
    assert len(raw.delivery().properties) == 1000
    rig.close()


def test_a_read_of_many_subscriptions_is_spread_over_turns(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    raw = rig.connected("c")
    one = subscribe(7, *[(f"a/{number}", 0) for number in range(300)])
    raw.send(one * 10)
    most = -(-WORK_A_TURN // (300 * FILTER_POINTS))
    assert len(raw.line.rest) >= (10 - most) * len(one)
    for _ in range(10):
        assert raw.granted(7) == [0] * 300
    assert not raw.session.meter.is_over
    rig.close()


@pytest.mark.parametrize("version", [V311, V5])
def test_a_packet_of_many_filters_is_spread_over_turns(tmp_path: Path, version: int) -> None:
    """As MQTT.js sends it when it comes back: all of its subscriptions in one packet."""
    filters = 3 * WORK_A_TURN // FILTER_POINTS
    rig = MqttRig(tmp_path, mqtt_max_subscriptions=filters - 1)
    raw = rig.client(version)
    raw.send(connect("c", version))
    raw.connack()
    names = [f"a/{number}" for number in range(filters)]
    raw.send(subscribe(7, *[(name, 1) for name in names], version=version), PINGREQ)
    other = rig.connected("other")
    turns = 0
    while not raw.line.sent:
        assert is_answered(other)  # by one turn
        turns += 1
    assert turns >= 3
    refused = QUOTA_EXCEEDED if version == V5 else FAILURE
    assert raw.granted(7) == [1] * (filters - 1) + [refused]
    assert raw.packet()[0] == PINGRESP[0]
    raw.send(unsubscribe(8, *names, version=version), PINGREQ)
    assert not raw.line.sent
    gone = [0] * (filters - 1) + [0x11]
    assert raw.granted(8, UNSUBACK) == (gone if version == V5 else [])
    assert raw.packet()[0] == PINGRESP[0]
    assert not rig.vhost.sessions.clients[b"c"].subscriptions
    rig.close()


def test_a_long_packet_that_is_malformed_changes_nothing(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    raw = rig.durable("c")
    whole = subscribe(7, *[(f"a/{number}", 1) for number in range(WORK_A_TURN)])
    raw.send(whole[:-1] + b"\3")  # QoS 3, of the last filter
    raw.refused(MALFORMED)
    assert not rig.vhost.sessions.clients[b"c"].subscriptions
    rig.close()


def test_the_search_for_what_is_retained_is_spread_over_turns(tmp_path: Path) -> None:
    """The topics are many, and the filter matches few of them."""
    rig = MqttRig(tmp_path)
    for number in range(3000):
        rig.vhost.retained.put(b"r/%d/x" % number, 0, b"", b"x", rig.clock.us)
    rig.vhost.retained.put(b"r/7/y", 0, b"", b"y", rig.clock.us)
    rig.turn()
    rig.vhost.budgets.publishes.most = 1000
    raw, source = rig.connected("c"), rig.connected("source")
    raw.send(subscribe(1, ("r/+/y", 0)))
    assert not raw.line.sent
    source.send(publish("r/8/y", b"new", bits=RETAIN), publish("r/7/y", b"newer", bits=RETAIN))
    assert [raw.delivery().body for _ in range(2)] == [b"new", b"newer"]  # by the subscription, which is there already
    assert raw.granted() == [0]
    assert is_answered(raw)  # nothing of that comes again
    rig.close()


def test_a_read_of_many_new_topics_is_spread_over_turns_and_loses_none(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    raw = rig.connected("c")
    raw.subscribe("#", qos=0)
    most = -(-WORK_A_TURN // ROUTE_POINTS)
    raw.send(*[publish(f"t/{number}", b"x", 0, 0) for number in range(3 * most)], PINGREQ)
    assert raw.session.inbox.received == most
    topics: list[str] = []
    pings = 0
    while not (pings and len(topics) == 3 * most):
        first, rest = raw.packet()
        if first == PINGRESP[0]:
            pings += 1
        else:
            topics.append(raw.parsed(first, rest).topic)
    assert topics == [f"t/{number}" for number in range(3 * most)]
    assert raw.session.inbox.received == 3 * most
    rig.close()


def test_many_filters_of_queues_look_for_their_arguments_once(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {"x-queue-type": "stream"}, 0)
    raw = rig.connected("c")
    properties = user("stream-filter", "one") + user("stream-filter", "two") + user("stream-offset", "first")
    raw.send(subscribe(1, ("$queue/q", 1), ("$queue/q", 1), properties=properties))
    assert raw.granted() == [1, 1]
    assert raw.session.subscriptions.asked[b"stream-filter"] == [b"one", b"two"]
    rig.close()
