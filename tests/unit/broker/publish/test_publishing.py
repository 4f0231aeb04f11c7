"""Where a publish leads, and what becomes of it there."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.mqtt.client_session import ClientSession, Subscription, Will
from forebay.broker.mqtt.session_rules import mqueue_rules
from forebay.core.errors import RequestError
from forebay.core.message import ACCEPTED, AMQP091, MQTT, REJECTED, RETAIN, UNROUTABLE
from forebay.core.options import make_options
from forebay.message.annotations import ORIGIN, PUBLISHER, annotation, number_annotation
from forebay.queue.mqueue import HIGHEST, LOWEST
from forebay.wire.mqtt.properties import WILL_DELAY, Property, encode_properties
from tests.conformance.mqtt.raw import publish, subscribe
from tests.conformance.mqtt.v5.flows import RETAIN as RETAIN_BIT
from tests.conformance.mqtt.v5.flows import (
    bodies,
    message_expiry,
    publish_whole,
    receive_maximum,
    retain,
    subscribed,
    take,
    take_all,
)
from tests.mqtt_rig import MqttRig

FULL = b"x" * 20_000


def attached(rig: MqttRig, connection: int, filter: bytes, qos: int, no_local: bool = False) -> ClientSession:
    """A durable session with one subscription."""
    vhost = rig.vhost
    client = vhost.sessions.attach(b"c%d" % connection, connection, True, 600, None)
    subscription = Subscription(client, filter, qos, vhost.sessions.next_offset())
    subscription.no_local = no_local
    vhost.clients.subscribe(client, subscription)
    return client


def test_a_topic_leads_to_queues_and_subscribers(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    vhost = rig.vhost
    assert vhost.publishing.publish(vhost.router.route_topic(b"a", None), MQTT | 16, b"", b"").status == UNROUTABLE
    attached(rig, 1, b"a", 1)
    vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    vhost.catalog.bind(b"q", b"amq.topic", b"a", {})
    route = vhost.router.route_topic(b"a", None)
    assert (len(route.queues), route.durable) == (1, 2)
    assert vhost.publishing.publish(route, MQTT | 16, b"", b"x").status == ACCEPTED
    rig.turn()
    assert (vhost.catalog.queue(b"q").ready(), vhost.sessions.log.end) == (1, 1)
    rig.close()


@pytest.mark.parametrize("topic", [b"", b"a/+", b"#"])
def test_what_is_no_topic_leads_nowhere(tmp_path: Path, topic: bytes) -> None:
    rig = MqttRig(tmp_path)
    with pytest.raises(RequestError):
        rig.vhost.router.route_topic(topic, None)
    assert rig.vhost.publishing.publish_topic(topic, MQTT, b"", b"").status == REJECTED
    rig.close()


def test_the_log_says_who_published_where_that_matters(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    own = attached(rig, 1, b"a", 1, no_local=True)
    assert rig.vhost.router.route_topic(b"a", own).audience is None
    other = attached(rig, 2, b"#", 1)
    route = rig.vhost.router.route_topic(b"a", own)
    said = number_annotation(route.origin, ORIGIN, 0), annotation(route.publisher, PUBLISHER)
    assert said == (int(own.number), b"c1")
    assert route.audience is not None and [each.client for each in route.audience.logged] == [other]
    assert rig.vhost.router.route_topic(b"b", own).origin == b""
    rig.close()


def test_qos_0_is_on_disk_only_for_who_is_away(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    vhost = rig.vhost
    client = attached(rig, 1, b"a", 1)
    vhost.publishing.publish(vhost.router.route_topic(b"a", None), MQTT, b"", b"x")
    rig.turn()
    assert vhost.sessions.log.end == 0
    vhost.clients.detach(client, 1)
    vhost.publishing.publish(vhost.router.route_topic(b"a", None), MQTT, b"", b"x")
    vhost.touch()
    rig.turn()
    assert vhost.sessions.log.end == 1
    rig.close()


def test_a_publish_from_amqp_has_the_topic_of_its_key(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    vhost = rig.vhost
    client = attached(rig, 1, b"a/b", 1)
    vhost.clients.detach(client, 1)
    assert vhost.publishing.publish(vhost.router.route(b"amq.topic", b"a.b"), AMQP091, b"", b"x").status == ACCEPTED
    rig.turn()
    assert client.mqueue.count == 1
    with pytest.raises(RequestError, match="only the broker publishes"):
        vhost.router.route(b"amq.topic", b"$SYS.a")
    rig.close()


def test_a_full_disk_refuses_what_needs_it(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    vhost = rig.vhost
    attached(rig, 1, b"logged", 1)
    vhost.clients.subscribe(vhost.sessions.attach(b"clean", 2, True, 0, None), direct(rig, b"direct"))
    rig.turn()
    rig.disk.octets_max = rig.disk.used()
    refused = vhost.publishing.publish(vhost.router.route_topic(b"logged", None), MQTT | 16, b"", FULL)
    assert refused.status == REJECTED
    assert refused.reason == "no room on the disk"
    assert vhost.publishing.retain(b"direct", MQTT | RETAIN, b"", FULL).status == REJECTED
    assert vhost.publishing.delay(b"", rig.clock.us, MQTT, b"direct", b"", FULL).status == REJECTED
    assert vhost.publishing.publish(vhost.router.route_topic(b"direct", None), MQTT | 16, b"", FULL).status == ACCEPTED
    rig.close()


def direct(rig: MqttRig, filter: bytes) -> Subscription:
    return Subscription(rig.vhost.sessions.clients[b"clean"], filter, 1, 0)


def test_a_will_loses_its_delay_and_may_be_retained(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    block = encode_properties([Property(WILL_DELAY, 5, b"", b"")])
    rig.vhost.clients.publish_will(Will(b"w", b"gone", block, 1, True, 5))
    rig.turn()
    sink = subscribed(rig.connected("sink"), ("w", 1))
    found = take(sink)
    assert (found.body, found.qos, found.bits, found.properties) == (b"gone", 1, 1, [])
    rig.close()


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_more_retained_messages_than_window_and_queue_have_room_for(tmp_path: Path, durable: bool, qos: int) -> None:
    rig = MqttRig(tmp_path, mqtt_max_mqueue_len=2)
    source = rig.connected("source")
    for number in range(40):
        retain(source, f"t/{number}", b"%d" % number, 1 if qos == 2 else qos)
    sink = rig.durable("sink", properties=receive_maximum(3)) if durable else rig.connected("sink", receive_maximum(3))
    sink.send(subscribe(1, ("t/#", qos)), b"\xc0\x00")
    sink.send(b"\xc0\x00")  # a second read in the same turn
    assert sink.granted() == [qos]
    sink.send(b"\xc0\x00")
    found: list[bytes] = []
    while len(found) < 40:
        first, rest = sink.packet()
        if first == 0xD0:
            continue
        made = sink.parsed(first, rest)
        assert made.bits & RETAIN_BIT
        found.append(made.body)
        if made.qos:
            sink.send(b"\x40\x02" + made.id.to_bytes(2, "big"))
    assert sorted(found) == sorted(b"%d" % number for number in range(40))
    rig.close()


def test_a_retained_message_given_to_a_durable_session_comes_after_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    retain(rig.connected("source"), "a", b"kept", properties=message_expiry(100))
    rig.later(10_000)
    subscribed(rig.durable("sink"), ("a", 1))
    rig.turn()
    rig.crash()
    rig.later(10_000)
    found = take(rig.durable("sink", True))
    assert (found.body, found.bits & RETAIN_BIT, found.properties) == (b"kept", RETAIN_BIT, [(2, 80)])
    rig.close()


@pytest.mark.parametrize("durable", [False, True])
def test_what_memory_has_no_room_for_waits_on_the_disk(tmp_path: Path, durable: bool) -> None:
    rig = MqttRig(tmp_path, mqtt_max_mqueue_len=2, mqtt_mqueue_overflow="spill")
    one = receive_maximum(1)
    sink = subscribed(rig.durable("sink", properties=one) if durable else rig.connected("sink", one), ("a", 1))
    source = rig.connected("source")
    expected = [b"%d" % number for number in range(30)]
    for number, body in enumerate(expected):
        publish_whole(source, "a", body, properties=message_expiry(100))
        if number == 20:
            rig.later(10_000)
            rig.checkpoint()
    rig.later(10_000)
    found = take_all(sink, 30)
    assert [each.body for each in found] == expected
    assert [dict(each.properties)[2] for each in found] == [100, *[80] * 20, *[90] * 9]
    rig.later(1000)
    log = rig.vhost.sessions.log
    assert log.start == log.end
    rig.close()


def test_what_has_spilled_waits_as_one_run(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_max_mqueue_len=2, mqtt_mqueue_overflow="spill")
    sink = subscribed(rig.connected("sink", receive_maximum(1)), ("a", 1))
    source = rig.connected("source")
    for number in range(100):
        publish_whole(source, "a", b"%d" % number)
    level = rig.vhost.sessions.clients[b"sink"].mqueue.levels[0]
    assert level.count == 99
    assert level.runs <= 2 + 1, "those in memory, and what is in the log"
    assert [each.body for each in take_all(sink, 100)] == [b"%d" % number for number in range(100)]
    rig.close()


def test_what_has_spilled_for_a_connection_ends_with_it(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_max_mqueue_len=1, mqtt_mqueue_overflow="spill")
    sink = subscribed(rig.connected("sink", receive_maximum(1)), ("a", 1))
    source = rig.connected("source")
    for number in range(9):
        publish_whole(source, "a", b"%d" % number)
    log = rig.vhost.sessions.log
    assert log.end > log.start
    sink.vanish()
    rig.later(1000)
    assert log.start == log.end
    rig.crash()
    assert not rig.vhost.sessions.clients
    rig.close()


def test_a_message_may_wait_for_so_long(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_message_expiry_max_s=10)
    subscribed(rig.durable("sink"), ("#", 1)).vanish()
    source = rig.connected("source")
    for body, block in [(b"none", b""), (b"long", message_expiry(99)), (b"short", message_expiry(5))]:
        source.publish("a", body, properties=block)
    rig.later(4000)
    sink = rig.durable("sink", True)
    found = take_all(sink, 3)
    assert [(each.body, each.properties) for each in found] == [
        (b"none", [(2, 6)]),
        (b"long", [(2, 6)]),
        (b"short", [(2, 1)]),
    ]
    sink.vanish()
    source.publish("a", b"late")
    rig.later(10_000)
    sink = rig.durable("sink", True)
    sink.quiet()
    source.publish("a", b"next")
    assert bodies(sink, 1) == [b"next"]
    rig.close()


@pytest.mark.parametrize(
    ("options", "limit", "crowd_at", "levels"),
    [
        ({}, 0, 1000, [LOWEST, LOWEST]),
        ({"mqtt_mqueue_overflow": "spill"}, 0, 0, [LOWEST, LOWEST]),
        ({"mqtt_mqueue_overflow": "drop"}, 1000, 0, [LOWEST, LOWEST]),
        ({"mqtt_max_mqueue_len": 7, "mqtt_mqueue_priorities": {"a": 3}}, 0, 7, [3, LOWEST]),
        ({"mqtt_mqueue_priorities": {"a": 3}, "mqtt_mqueue_default_priority": "highest"}, 0, 1000, [3, HIGHEST]),
    ],
)
def test_what_the_options_say_of_message_queues(
    options: dict[str, object], limit: int, crowd_at: int, levels: list[int]
) -> None:
    rules = mqueue_rules(make_options(options))
    assert (rules.limit, rules.crowd_at) == (limit, crowd_at)
    assert [rules.priority(topic) for topic in (b"a", b"b")] == levels


def test_a_publish_is_answered_when_it_is_on_the_disk(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("a", 2)).vanish()
    source = rig.connected("source")
    for qos in (1, 2):
        source.send(publish("a", b"x", qos, qos))
    rig.turn(sync=False)
    assert source.rest == b""
    rig.sync()
    source.acked(1)
    source.acked(2, kind=0x50)
    rig.close()
