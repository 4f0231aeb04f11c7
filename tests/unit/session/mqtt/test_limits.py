"""What options limit, and how a client is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.mqtt.raw import PINGREQ, PUBREC, V5, V311, connect, publish, subscribe, unsubscribe, will
from tests.conformance.mqtt.v5.flows import expiry, publish_whole, subscribed, take
from tests.conformance.mqtt.v311.old import publish_whole as publish_old
from tests.mqtt_rig import MqttRig, RigClient

MAXIMUM_QOS, SERVER_KEEP_ALIVE, SESSION_EXPIRY = 0x24, 0x13, 0x11
QUOTA_EXCEEDED, QOS_NOT_SUPPORTED, FAILURE = 0x97, 0x9B, 0x80
UNAVAILABLE = 3  # in 3.1.1


def connacked(rig: MqttRig, name: str, version: int = V5, beat: int = 0, clean: bool = True) -> RigClient:
    raw = rig.client(version)
    raw.send(connect(name, version, beat=beat, clean=clean))
    raw.connack()
    return raw


# ---- QoS


@pytest.mark.parametrize("most", [0, 1])
def test_the_highest_qos_is_announced_and_granted(tmp_path: Path, most: int) -> None:
    rig = MqttRig(tmp_path, mqtt_max_qos=most)
    sink = rig.client()
    sink.send(connect("sink"))
    assert dict(sink.connack())[MAXIMUM_QOS] == most
    sink.send(subscribe(1, ("a", 2), ("$share/g/b", 2)))
    assert sink.granted() == [most, most]
    publish_whole(connacked(rig, "source"), "a", b"x", most)
    assert take(sink).qos == most
    rig.close()


def test_a_publish_above_it_ends_the_connection(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_max_qos=1)
    source = connacked(rig, "source")
    source.send(publish("a", b"x", 2, 1))
    source.refused(QOS_NOT_SUPPORTED)
    rig.close()


@pytest.mark.parametrize("most", [0, 1])
def test_who_cannot_know_it_is_answered_as_asked(tmp_path: Path, most: int) -> None:
    """The message of a client of 3.1.1 goes on with the highest QoS; its will and what is delayed, too."""
    rig = MqttRig(tmp_path, mqtt_max_qos=most)
    sink = connacked(rig, "sink")
    sink.send(subscribe(1, ("#", 2)))
    assert sink.granted() == [most]
    source = rig.client(V311)
    source.send(connect("source", V311, will=will("w", b"gone", V311), will_flags=4 | 2 << 3))
    source.connack()
    for qos in (1, 2):
        publish_old(source, f"at/{qos}", b"x", qos)
        found = take(sink)
        assert (found.topic, found.qos) == (f"at/{qos}", most)
    source.send(publish("once", b"x", 2, 7, V311), publish("once", b"x", 2, 7, V311, bits=8))
    for _ in range(2):
        source.acked(7, kind=PUBREC)
    assert take(sink).qos == most
    source.vanish()
    found = take(sink)
    assert (found.topic, found.qos) == ("w", most)
    sink.quiet()
    rig.close()


def test_a_will_above_it_is_refused(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_max_qos=1)
    raw = rig.client()
    raw.send(connect("c", will=will("w", b"gone"), will_flags=4 | 2 << 3))
    raw.connack(QOS_NOT_SUPPORTED)
    rig.close()


# ---- sessions and subscriptions


@pytest.mark.parametrize(("version", "code"), [(V311, UNAVAILABLE), (V5, QUOTA_EXCEEDED)])
def test_a_session_too_many_is_refused(tmp_path: Path, version: int, code: int) -> None:
    rig = MqttRig(tmp_path, mqtt_sessions_max=2)
    rig.durable("away").vanish()
    first = connacked(rig, "first")
    raw = rig.client(version)
    raw.send(connect("second", version))
    if version == V5:
        raw.connack(code)
    else:
        assert raw.expect(0x20) == bytes([0, code])
    assert raw.ended()
    rig.durable("away", True)
    first.leave()
    connacked(rig, "second", version)
    rig.close()


@pytest.mark.parametrize(("version", "code"), [(V311, FAILURE), (V5, QUOTA_EXCEEDED)])
def test_a_subscription_too_many_is_refused(tmp_path: Path, version: int, code: int) -> None:
    rig = MqttRig(tmp_path, mqtt_max_subscriptions=2)
    raw = connacked(rig, "c", version)
    raw.send(subscribe(1, ("a", 1), ("$share/g/b", 1), ("c", 1), ("a", 0), version=version))
    assert raw.granted() == [1, 1, code, 0]
    raw.send(unsubscribe(2, "a", version=version))
    raw.granted(2, 0xB0)
    raw.send(subscribe(3, ("c", 2), version=version))
    assert raw.granted(3) == [2]
    rig.close()


# ---- time


@pytest.mark.parametrize(("version", "alive_s"), [(V5, 15), (V311, 150)])
def test_the_server_keep_alive_counts_for_who_can_be_told(tmp_path: Path, version: int, alive_s: int) -> None:
    rig = MqttRig(tmp_path, mqtt_server_keep_alive_s=10)
    raw = rig.client(version)
    raw.send(connect("c", version, beat=100))
    told = dict(raw.connack())
    assert told.get(SERVER_KEEP_ALIVE) == (10 if version == V5 else None)
    rig.later(0)
    rig.later(1000 * (alive_s - 1))
    raw.send(PINGREQ)
    rig.later(1000)
    rig.later(1000 * alive_s)
    closing = [raw.session.closing]
    rig.later(1000)
    assert [*closing, raw.session.closing] == [False, True]
    rig.close()


@pytest.mark.parametrize(("asked", "granted"), [(5, 5), (10, 10), (11, 10), (0xFFFFFFFF, 10)])
def test_a_session_lasts_as_long_as_it_may_at_most(tmp_path: Path, asked: int, granted: int) -> None:
    rig = MqttRig(tmp_path, mqtt_session_expiry_max_s=10)
    raw = rig.client()
    raw.send(connect("c", properties=expiry(asked), clean=False))
    assert dict(raw.connack()).get(SESSION_EXPIRY, asked) == granted
    raw.vanish()
    rig.later(1000 * (granted - 1))
    assert b"c" in rig.vhost.sessions.clients
    rig.later(1000)
    assert b"c" not in rig.vhost.sessions.clients
    rig.close()


@pytest.mark.parametrize(("seconds", "there"), [(0, False), (20, True)])
def test_a_session_without_clean_session_lasts_as_the_option_says(tmp_path: Path, seconds: int, there: bool) -> None:
    rig = MqttRig(tmp_path, mqtt_session_expiry_s=seconds)
    raw = connacked(rig, "c", V311, clean=False)
    raw.vanish()
    rig.later(19_000)
    rig.crash()
    assert (b"c" in rig.vhost.sessions.clients) is there
    rig.later(1000)
    assert b"c" not in rig.vhost.sessions.clients
    rig.close()


# ---- what a client publishes


def test_so_many_publishes_of_qos_2_may_wait_for_their_pubrel(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_max_awaiting_rel=2)
    subscribed(rig.durable("sink"), ("a", 2))
    source = rig.connected("source")
    for id in (1, 2):
        source.send(publish("a", b"x", 2, id))
        source.acked(id, kind=PUBREC)
    source.send(publish("a", b"x", 2, 2, bits=8))
    source.acked(2, kind=PUBREC)
    source.send(publish("a", b"x", 2, 3))
    source.refused(0x93)
    rig.close()
