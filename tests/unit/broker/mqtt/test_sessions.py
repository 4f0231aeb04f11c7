"""MQTT sessions: who is there, what waits for whom, and what of it a crash leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.mqtt.client_session import NEVER, Subscription, Will
from forebay.broker.mqtt.sessions import is_topic
from forebay.broker.vhost import Vhost
from forebay.core.errors import RequestError
from forebay.core.message import AMQP091, Properties
from forebay.log.housekeeping import merged
from forebay.wire.amqp091.properties import encode_properties
from tests.conformance.mqtt.raw import PUBCOMP, PUBREC, PUBREL, acknowledge, connect, publish, subscribe, user, will
from tests.conformance.mqtt.v5.flows import (
    bodies,
    expiry,
    publish_whole,
    receive_maximum,
    settle,
    subscribed,
    take,
    take_all,
)
from tests.mqtt_rig import MqttRig

LONG_S = 600


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


def waiting(vhost: Vhost, name: bytes) -> int:
    return int(vhost.sessions.clients[name].mqueue.count)


# ---- sessions come and go


def test_a_session_is_there_again_if_it_is_durable_and_wanted(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sessions = rig.vhost.sessions
    for durable, clean, present in [(True, False, True), (True, True, False), (False, False, False)]:
        first = sessions.attach(b"c", 1, True, LONG_S if durable else 0, None)
        sessions.detach(first, 1, rig.clock.us)
        second = sessions.attach(b"c", 2, clean, LONG_S, None)
        assert second.resumed is present
        assert (second is first) is present
        assert first.ended is not present
    rig.close()


def test_a_session_that_another_connection_takes_over_is_not_detached_by_the_first(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sessions = rig.vhost.sessions
    client = sessions.attach(b"c", 1, True, LONG_S, None)
    assert sessions.attach(b"c", 2, False, LONG_S, None) is client
    assert sessions.taken == [1]
    sessions.detach(client, 1, rig.clock.us)
    assert client.connection == 2
    rig.close()


def test_there_are_at_most_so_many_sessions(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_sessions_max=2)
    sessions = rig.vhost.sessions
    sessions.attach(b"a", 1, True, 0, None)
    sessions.attach(b"b", 2, True, LONG_S, None)
    with pytest.raises(RequestError, match="there are 2 sessions"):
        sessions.attach(b"c", 3, True, 0, None)
    sessions.attach(b"b", 4, True, LONG_S, None)
    sessions.detach(sessions.clients[b"a"], 1, rig.clock.us)
    sessions.attach(b"c", 5, True, 0, None)
    rig.close()


def test_numbers_of_sessions_are_not_used_again(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    number = rig.durable("c").session.client.number
    rig.connected("c", clean=True).leave()
    rig.flush()
    rig.crash()
    assert rig.vhost.sessions.next_number > number
    rig.close()


@pytest.mark.parametrize(("seconds", "there"), [(9, True), (10, False)])
def test_a_session_ends_when_its_expiry_is_over_also_while_the_broker_is_down(
    tmp_path: Path, seconds: int, there: bool
) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("c"), ("a", 1)).vanish()
    second = rig.connected("c", expiry(10), False, True)
    second.vanish()
    rig.flush()
    rig.clock.us += seconds * 1_000_000
    rig.crash()
    assert (b"c" in rig.vhost.sessions.clients) is there
    rig.connected("c", expiry(10), False, there)
    rig.close()


def test_the_expiry_of_one_that_was_connected_counts_from_the_start(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    rig.connected("c", expiry(10), False)
    rig.clock.us += 100_000_000
    rig.crash()
    rig.later(9000)
    assert b"c" in rig.vhost.sessions.clients
    rig.later(1000)
    assert b"c" not in rig.vhost.sessions.clients
    rig.close()


def test_who_comes_and_goes_before_the_first_turn_keeps_its_session(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    rig.durable("c")
    rig.crash()
    raw = rig.client()
    raw.send(connect("c", properties=expiry(LONG_S), clean=False))
    raw.vanish()
    rig.later(1000)
    rig.durable("c", True)
    rig.close()


def test_a_session_without_end_outlives_everything(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    rig.connected("c", expiry(NEVER), False).vanish()
    rig.later(1000 * 2 * NEVER)
    assert b"c" in rig.vhost.sessions.clients
    rig.close()


def test_routes_to_a_session_that_expired_are_stale(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.connected("c", expiry(1), False), ("a", 1)).vanish()
    source = rig.connected("source")
    assert source.publish("a", b"x") == 0
    rig.later(2000)
    assert source.publish("a", b"x") == 0x10  # no matching subscribers
    rig.close()


# ---- wills


def with_will(rig: MqttRig, name: str, delay_s: int, present: bool = False) -> None:
    """Connect with a will on topic w, and lose the connection."""
    made = rig.client()
    block = b"\x18" + delay_s.to_bytes(4, "big") if delay_s else b""
    made.send(connect(name, properties=expiry(LONG_S), clean=False, will=will("w", b"gone", properties=block)))
    made.connack(present=present)
    made.vanish()


def test_a_will_waits_for_its_delay_and_over_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("w", 1)).vanish()
    with_will(rig, "c", 10)
    rig.flush()
    rig.later(5000)
    assert waiting(rig.vhost, b"sink") == 0
    rig.crash()
    rig.later(4000)
    assert waiting(rig.vhost, b"sink") == 0
    rig.later(1000)
    assert waiting(rig.vhost, b"sink") == 1
    rig.crash()
    assert take(rig.durable("sink", True)).body == b"gone"
    rig.close()


def test_a_will_and_the_note_that_it_is_published_are_on_disk_together(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("w", 1)).vanish()
    with_will(rig, "c", 1)
    rig.flush()
    rig.jump(1000)
    assert rig.vhost.has_work()  # nobody else may ever bring a turn
    rig.turn()
    rig.crash()
    assert rig.vhost.sessions.clients[b"c"].will is None
    assert waiting(rig.vhost, b"sink") == 1
    rig.close()


def test_a_client_that_is_back_in_time_has_no_will_with_delay(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("w", 1)).vanish()
    with_will(rig, "c", 10)
    rig.durable("c", True)
    rig.later(20_000)
    assert waiting(rig.vhost, b"sink") == 0
    rig.close()


def test_the_will_of_who_was_connected_is_published_after_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("w", 1)).vanish()
    client = rig.vhost.sessions.attach(b"c", 99, True, LONG_S, Will(b"w", b"gone", b"", 1, False, 3))
    assert client.will is not None
    rig.turn()
    rig.crash()
    rig.later(2000)
    assert waiting(rig.vhost, b"sink") == 0
    rig.later(1000)
    assert waiting(rig.vhost, b"sink") == 1
    rig.close()


@pytest.mark.parametrize("crashes", [1, 2])
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_will_without_delay_of_who_was_connected_is_published_once_after_a_crash(
    tmp_path: Path, checkpoint: bool, crashes: int
) -> None:
    """The broker died with the connection: nobody else will publish the will, and no session has to expire first."""
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("w", 1)).vanish()
    rig.vhost.sessions.attach(b"c", 99, True, LONG_S, Will(b"w", b"gone", b"", 1, False, 0))
    rig.turn()
    if checkpoint:
        rig.checkpoint()
    for _ in range(crashes):
        rig.crash()
        rig.later(0)
        assert waiting(rig.vhost, b"sink") == 1
        assert rig.vhost.sessions.clients[b"c"].will is None
    sink = rig.durable("sink", True)
    assert take(sink).body == b"gone"
    rig.later(1000 * LONG_S)
    assert b"c" not in rig.vhost.sessions.clients
    assert sink.rest == b""  # the end of the session publishes nothing any more
    rig.close()


def test_a_will_without_delay_survives_a_crash_before_it_is_on_the_disk(tmp_path: Path) -> None:
    """The connection was lost, and the broker with it before the turn's end: the note of the session still has it."""
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("w", 1)).vanish()
    client = rig.vhost.sessions.attach(b"c", 99, True, LONG_S, Will(b"w", b"gone", b"", 1, False, 0))
    rig.turn()
    rig.vhost.clients.detach(client, 99)
    rig.crash()
    rig.later(0)
    assert waiting(rig.vhost, b"sink") == 1
    rig.close()


@pytest.mark.parametrize("delay_s", [0, 3])
def test_a_client_that_is_back_after_a_crash_does_not_take_back_a_will_without_delay(
    tmp_path: Path, delay_s: int
) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("w", 1)).vanish()
    rig.vhost.sessions.attach(b"c", 99, True, LONG_S, Will(b"w", b"gone", b"", 1, False, delay_s))
    rig.turn()
    rig.crash()
    rig.durable("c", True)
    rig.later(5000)
    assert waiting(rig.vhost, b"sink") == (0 if delay_s else 1)
    rig.close()


# ---- what waits, and recovery


@pytest.mark.parametrize("checkpoint", [False, True])
def test_what_was_published_while_a_client_was_away_comes_after_a_crash(tmp_path: Path, checkpoint: bool) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("a/+", 2)).vanish()
    source = rig.connected("source")
    for number in range(6):
        publish_whole(source, f"a/{number % 2}", b"%d" % number, number % 3)
        if number == 3 and checkpoint:
            rig.checkpoint()
    rig.crash()
    found = take_all(rig.durable("sink", True), 6)
    for qos in range(3):  # each QoS in its order
        assert [each.body for each in found if each.qos == qos] == [b"%d" % qos, b"%d" % (qos + 3)]
    rig.close()


def test_what_amqp_published_is_found_again_by_its_topic(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("a/b", 1)).vanish()
    rig.vhost.publishing.publish(
        rig.vhost.router.route(b"amq.topic", b"a.b"), AMQP091, encode_properties(Properties()), b"x"
    )
    rig.turn()
    rig.crash()
    found = take(rig.durable("sink", True))
    assert (found.topic, found.body, found.qos) == ("a/b", b"x", 1)
    rig.close()


def test_what_a_client_has_acknowledged_does_not_come_again(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(rig.durable("sink"), ("a", 1))
    source = rig.connected("source")
    for number in range(5):
        publish_whole(source, "a", b"%d" % number)
    assert bodies(sink, 3) == numbered(0, 3)
    rig.turn()
    rig.flush()
    rig.crash()
    assert bodies(rig.durable("sink", True), 2) == numbered(3, 5)
    rig.close()


def test_qos_0_given_to_a_client_that_was_there_does_not_come_again(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("away"), ("a", 1)).vanish()  # for this one it is in the log
    sink = subscribed(rig.durable("sink"), ("a", 1))
    source = rig.connected("source")
    source.publish("a", b"0", 0)
    rig.turn()
    assert sink.delivery().body == b"0"
    sink.vanish()
    source.publish("a", b"1", 0)
    rig.turn()
    rig.flush()
    rig.crash()
    for name, expected in [("sink", [b"1"]), ("away", [b"0", b"1"])]:
        assert bodies(rig.durable(name, True), len(expected)) == expected
    rig.close()


def test_a_subscription_of_higher_qos_does_not_bring_back_what_came_at_qos_0(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("away"), ("a", 1)).vanish()
    sink = subscribed(rig.durable("sink"), ("#", 0))
    source = rig.connected("source")
    publish_whole(source, "a", b"0")
    assert sink.delivery().qos == 0
    subscribed(sink, ("#", 1), ("a", 1))
    publish_whole(source, "a", b"1")
    rig.crash()
    sink = rig.durable("sink", True)
    assert bodies(sink, 1) == [b"1"]
    sink.quiet()
    rig.close()


@pytest.mark.parametrize("store", [True, False])
def test_what_waits_is_not_lost_with_the_qos_of_its_subscription(tmp_path: Path, store: bool) -> None:
    rig = MqttRig(tmp_path, mqtt_mqueue_store_qos0=store)
    sink = subscribed(rig.durable("sink", properties=receive_maximum(1)), ("a", 1))
    source = rig.connected("source")
    for number in range(3):
        publish_whole(source, "a", b"%d" % number)
    sink.delivery()
    subscribed(sink, ("a", 0))
    publish_whole(source, "a", b"3")
    rig.crash()
    sink = rig.durable("sink", True)
    assert bodies(sink, 3) == numbered(0, 3)
    sink.quiet()
    rig.close()


def test_what_came_in_the_turn_of_a_lower_qos_is_there_after_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    reader = subscribed(rig.durable("c", properties=receive_maximum(1)), ("a", 1))
    reader.send(
        publish("a", b"sent", 1, 1), publish("a", b"waits", 1, 2), subscribe(1, ("a", 0)), publish("a", b"later", 0)
    )
    rig.turn()
    rig.crash()
    again = rig.durable("c", True)
    assert [again.delivery().body for _ in range(2)] == [b"sent", b"waits"]
    again.quiet()
    rig.close()


def test_no_local_holds_in_recovery(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    own = rig.durable("own")
    own.send(subscribe(1, ("a", 1 | 4)))
    own.granted()
    subscribed(rig.durable("other"), ("a", 1)).vanish()
    publish_whole(own, "a", b"0")
    own.vanish()
    rig.crash()
    assert waiting(rig.vhost, b"own") == 0
    assert waiting(rig.vhost, b"other") == 1
    rig.close()


def test_what_the_limit_dropped_stays_dropped(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_max_mqueue_len=3, mqtt_mqueue_overflow="drop")
    subscribed(rig.durable("sink"), ("a", 1)).vanish()
    source = rig.connected("source")
    for number in range(8):
        publish_whole(source, "a", b"%d" % number)
    rig.crash()
    assert bodies(rig.durable("sink", True), 3) == numbered(5, 8)
    rig.close()


def test_what_waits_for_long_is_on_the_disk_and_not_in_memory(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    log = rig.vhost.sessions.log
    log.cached_max = 4096
    subscribed(rig.durable("sink"), ("a", 1)).vanish()
    source = rig.connected("source")
    for number in range(100):
        publish_whole(source, "a", b"%d" % number)
    assert log.octets > 2 * log.cached_max >= 2 * log.cached_octets > 0
    assert bodies(rig.durable("sink", True), 100) == numbered(0, 100)
    assert log.cached_octets <= log.cached_max
    rig.later(1000)
    assert (log.octets, log.cached_octets) == (0, 0)
    rig.close()


def test_priorities_hold_in_recovery(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_mqueue_priorities={"high": 5})
    subscribed(rig.durable("sink"), ("#", 1)).vanish()
    source = rig.connected("source")
    publish_whole(source, "low", b"0")
    publish_whole(source, "high", b"1")
    rig.crash()
    assert bodies(rig.durable("sink", True), 2) == [b"1", b"0"]
    rig.close()


def test_an_identifier_in_flight_means_the_same_after_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(rig.durable("sink"), ("a", 2))
    source = rig.connected("source")
    for number in range(3):
        publish_whole(source, "a", b"%d" % number, 2)
    before = [sink.delivery() for _ in range(3)]
    sink.send(acknowledge(PUBREC, before[1].id))
    sink.acked(before[1].id, kind=PUBREL)
    rig.crash()
    sink = rig.durable("sink", True)
    again = [sink.delivery() for _ in range(2)]
    assert [(each.id, each.body, each.bits & 8) for each in again] == [
        (before[0].id, b"0", 8),
        (before[2].id, b"2", 8),
    ]
    sink.acked(before[1].id, kind=PUBREL)
    sink.send(acknowledge(PUBCOMP, before[1].id))
    for each in again:
        settle(sink, each)
    sink.quiet()
    rig.close()


def test_identifiers_of_publishes_at_qos_2_are_known_after_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("a", 2)).vanish()
    source = rig.durable("source")
    source.send(publish("a", b"x", 2, 7))
    source.acked(7, kind=PUBREC)
    rig.crash()
    source = rig.durable("source", True)
    source.send(publish("a", b"x", 2, 7, bits=8))
    source.acked(7, kind=PUBREC)
    source.send(acknowledge(PUBREL, 7))
    source.acked(7, kind=PUBCOMP)
    assert waiting(rig.vhost, b"sink") == 1
    rig.crash()
    source = rig.durable("source", True)
    publish_whole(source, "a", b"y", 2)
    assert waiting(rig.vhost, b"sink") == 2
    rig.close()


@pytest.mark.parametrize("qos", [1, 2])
def test_an_identifier_whose_record_is_gone_was_acknowledged(tmp_path: Path, qos: int) -> None:
    """A segment may go before the note of the acknowledgement is on the disk."""
    rig = MqttRig(tmp_path)
    sink = subscribed(rig.durable("sink"), ("a", qos))
    publish_whole(rig.connected("source"), "a", b"x", qos)
    found = sink.delivery()
    rig.flush()
    rig.vhost.sessions.log.truncate(rig.vhost.sessions.log.end)
    rig.store.note_starts()
    rig.flush()
    rig.crash()
    sink = rig.durable("sink", True)
    if qos == 2:  # the client may hold the identifier until it is released
        sink.acked(found.id, kind=PUBREL)
        sink.send(acknowledge(PUBCOMP, found.id))
    sink.quiet()
    rig.close()


def test_the_log_forgets_what_nobody_wants(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    log = rig.vhost.sessions.log
    slow = subscribed(rig.durable("slow"), ("a", 1))
    fast = subscribed(rig.durable("fast"), ("a", 1))
    source = rig.connected("source")
    for number in range(4):
        publish_whole(source, "a", b"%d" % number)
    found = slow.delivery()
    bodies(fast, 4)
    rig.later(1000)
    assert (log.start, log.end) == (0, 4)
    assert rig.vhost.sessions.source.needed(0, 4) == [(0, 4)]
    settle(slow, found)
    assert rig.vhost.sessions.source.needed(0, 4) == [(1, 4)]
    slow.vanish()
    rig.connected("slow", clean=True).leave()
    rig.later(1000)
    assert log.start == log.end == 4
    rig.close()


def test_the_end_of_a_session_is_for_good(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("sink"), ("a", 1), ("$share/g/a", 1)).vanish()
    publish_whole(rig.connected("source"), "a", b"x")
    rig.connected("sink", clean=True).leave()
    rig.turn()
    rig.crash()
    vhost = rig.vhost
    assert not vhost.sessions.clients and not vhost.fanout.subscriptions and not vhost.catalog.queues
    rig.close()


def test_options_of_a_subscription_are_there_after_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = subscribed(rig.durable("sink"), ("a", 1 | 4 | 8), properties=b"\x0b\x05")
    subscribed(sink, ("b", 2))
    rig.crash()
    kept = rig.vhost.sessions.clients[b"sink"].subscriptions
    assert [options(each) for each in kept.values()] == [(b"a", 1, True, True, 5), (b"b", 2, False, False, 0)]
    rig.close()


def options(subscription: Subscription) -> tuple[bytes, int, bool, bool, int]:
    return (
        subscription.filter,
        int(subscription.qos),
        subscription.no_local,
        subscription.keep_retain,
        int(subscription.identifier),
    )


def test_a_subscription_to_a_queue_is_there_after_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
    subscribed(rig.durable("sink"), ("$queue/q/#", 1), properties=user("consumer-group", "g"))
    rig.crash()
    sink = rig.durable("sink", True)
    publish_whole(rig.connected("source"), "$queue/q/k", b"x")
    found = sink.delivery()
    assert (found.body, found.facts()["group-id"]) == (b"x", "g")
    rig.close()


def test_which_filters_are_topics() -> None:
    filters = [b"a/#", b"$SYS/#", b"$queue/q", b"$share/g/a", b"$dlq/q", b"$queues/a"]
    assert [is_topic(each) for each in filters] == [True, True, False, False, False, True]


def test_intervals_are_merged() -> None:
    assert merged([(5, 7), (0, 2), (2, 3), (6, 9), (1, 2)]) == [(0, 3), (5, 9)]
    assert merged([]) == []
