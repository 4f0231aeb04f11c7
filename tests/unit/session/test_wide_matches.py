"""What one publish may cause: the search for who gets it is cut, and others have their turns meanwhile."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import cast

import pytest

from forebay.core.message import Properties
from forebay.routing.cut_work import AT_ONCE
from forebay.routing.topic_trie import swap_key
from forebay.wire.amqp091.properties import encode_properties
from tests.conformance.amqp091.raw import Raw as AmqpRaw
from tests.conformance.amqp091.raw import connect, method
from tests.conformance.amqp091.raw import publish as amqp_publish
from tests.conformance.mqtt.raw import PINGREQ, PINGRESP, publish, subscribe
from tests.conformance.mqtt.v5.flows import expiry, take
from tests.mqtt_rig import MqttRig, RigClient
from tests.node_rig import Line

LEVELS = 11
TOPIC = "/".join("a" * LEVELS)
KEY = ".".join("a" * LEVELS)
STEPS = 2_000  # of all connections together, in a turn


def every_filter() -> list[str]:
    """All filters of 'a' and '+': 2,048, and as many nodes again."""
    return ["/".join(each) for each in product("a+", repeat=LEVELS)]


def make_rig(folder: Path) -> MqttRig:
    """A rig with short turns."""
    rig = MqttRig(folder)
    rig.vhost.budgets.publishes.most = STEPS
    return rig


def wide_subscriber(rig: MqttRig, qos: int = 1, properties: bytes = b"") -> RigClient:
    """A client that has subscribed to all of the filters."""
    sink = rig.connected("sink")
    sink.send(subscribe(1, *[(each, qos) for each in every_filter()], properties=properties))
    assert sink.granted() == [qos] * (1 << LEVELS)
    return sink


def turns_until(rig: MqttRig, raw: RigClient, other: RigClient) -> int:
    """Turns until `raw` is sent something, in each of which another client has its answer."""
    turns = 0
    while not raw.line.sent:
        turns += 1
        assert turns < 1000
        other.send(PINGREQ)
        rig.turn()
        assert other.line.sent, "it waits for another client's work"
        assert other.read(len(PINGRESP)) == PINGRESP
    return turns


def test_a_publish_that_matches_very_many_subscriptions_lets_others_have_their_turns(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    sink = wide_subscriber(rig, properties=b"\x0b\x05")
    source, other = rig.connected("source"), rig.connected("other")
    source.send(publish(TOPIC, b"first", 1, 1), publish("b", b"", 1, 2), publish(TOPIC, b"second", 1, 3))
    assert turns_until(rig, source, other) > 4
    for id, code in ((1, 0), (2, 0x10), (3, 0)):
        source.acked(id, code)
    got = [take(sink) for _ in range(2)]
    assert [each.body for each in got] == [b"first", b"second"]
    assert got[0].properties == [(0x0B, 5)] * (1 << LEVELS)  # one copy, with all identifiers
    sink.quiet()
    rig.close()


def test_the_search_ends_although_others_subscribe_meanwhile(tmp_path: Path) -> None:
    """Nobody keeps a publisher waiting by changing subscriptions: what comes meanwhile is not looked for again."""
    rig = make_rig(tmp_path)
    sink = wide_subscriber(rig)
    source, other = rig.connected("source"), rig.connected("other")
    source.send(publish(TOPIC, b"first", 1, 1))
    turns = 0
    while not source.line.sent:
        other.subscribe(f"other/{turns}")
        turns += 1
        assert turns < 100
    assert turns > 2
    source.acked(1)
    assert take(sink).body == b"first"
    # A subscription of which its client knows is served by the very next publish.
    other.subscribe("/".join(["+"] * LEVELS), TOPIC)
    source.publish(TOPIC, b"second")
    assert take(other).body == b"second"
    assert take(sink).body == b"second"
    rig.close()


def test_who_goes_away_meanwhile_gets_nothing_and_harms_nobody(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    sink = wide_subscriber(rig)
    kept = rig.durable("kept")
    kept.subscribe("#")
    source, other = rig.connected("source"), rig.connected("other")
    source.send(publish(TOPIC, b"x", 1, 1))
    assert not source.line.sent
    sink.vanish()
    kept.vanish()
    turns_until(rig, source, other)
    source.acked(1)
    kept = rig.durable("kept", present=True)
    assert take(kept).body == b"x"
    rig.close()


def test_what_was_confirmed_is_there_after_a_crash(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    sink = rig.connected("sink", expiry(1000), False)
    sink.send(subscribe(1, *[(each, 1) for each in every_filter()]))
    sink.granted()
    sink.vanish()
    source = rig.connected("source")
    source.publish(TOPIC, b"x")
    rig.crash()
    sink = rig.connected("sink", expiry(1000), False, present=True)
    assert take(sink).body == b"x"
    rig.close()


def test_many_publishers_share_a_turn(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    wide_subscriber(rig, 0)
    sources = [rig.connected(f"source{number}") for number in range(4)]
    budget = rig.vhost.budgets.publishes
    for source in sources:
        source.send(publish(TOPIC, b"x", 1, 1))
    assert budget.cut == 4
    for _ in range(3):
        rig.turn()
        assert budget.share() == STEPS // 4  # of one of four
        budget.sharers -= 1
    while not all(source.line.sent for source in sources):
        rig.turn()
    for source in sources:
        source.acked(1)
    rig.close()


def test_few_subscriptions_are_never_cut(tmp_path: Path) -> None:
    rig = make_rig(tmp_path)
    sinks = [rig.connected(f"sink{number}") for number in range(50)]
    for sink in sinks:
        sink.subscribe("+/+/c", "a/#", "#")
    rig.connected("source").publish("a/b/c", b"x")
    assert rig.vhost.budgets.publishes.cut == 0
    assert rig.vhost.fanout.trie.spent < AT_ONCE
    assert all(take(sink).body == b"x" for sink in sinks)
    rig.close()


def test_what_is_sent_again_to_very_many_subscriptions_comes_in_parts(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = rig.connected("sink", expiry(1000), False)
    sink.send(subscribe(1, *[(each, 1) for each in every_filter()]))
    sink.granted()
    source = rig.connected("source")
    bodies = [b"%d" % number for number in range(20)]
    for body in bodies:
        source.publish(TOPIC, body)
    assert [sink.delivery().body for _ in bodies] == bodies  # none of which is acknowledged
    sink.vanish()
    sink = rig.connected("sink", expiry(1000), False, present=True)
    outbox = sink.session.outbox
    assert outbox.has_waiting()
    for _ in range(6):
        rig.wait(1)
    assert not outbox.has_waiting()
    assert [take(sink).body for _ in bodies] == bodies
    rig.close()


def test_delayed_messages_that_match_very_much_are_released_one_after_the_other(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    sink = wide_subscriber(rig)
    source = rig.connected("source")
    topics = ["/".join("b" if at == number else "a" for at in range(LEVELS)) for number in range(8)]
    source.send(*[publish(f"$delayed/1/{each}", b"%d" % number, 1, number + 1) for number, each in enumerate(topics)])
    for number in range(8):
        source.acked(number + 1)
    rig.clock.us += 1_000_000
    rig.vhost.mover.release(rig.clock.us)
    assert 0 < rig.vhost.delayed.count() < 8
    rig.wait(1)
    assert sorted(take(sink).body for _ in range(8)) == [b"%d" % number for number in range(8)]
    rig.close()


# ---- AMQP


def bind_all(rig: MqttRig, exchange: bytes = b"amq.topic") -> None:
    """Bind one queue with all of the patterns."""
    rig.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
    for each in every_filter():
        rig.vhost.catalog.bind(b"q", exchange, swap_key(each.encode()), {})


def change_bindings(rig: MqttRig, exchange: bytes) -> None:
    """Bind one queue with one pattern more: routes that are remembered hold no longer."""
    more = b"more" if b"more" not in rig.vhost.catalog.queues else b"most"
    rig.vhost.catalog.declare_queue(more, True, False, False, {}, 0)
    rig.vhost.catalog.bind(more, exchange, b"#", {})


def confirmed_after(rig: MqttRig, raw: AmqpRaw, other: RigClient) -> int:
    """Turns until the first publish is confirmed, in each of which another client has its answer."""
    line = cast(Line, raw.socket)
    turns = 0
    while not line.sent:
        turns += 1
        assert turns < 1000
        other.send(PINGREQ)
        rig.turn()
        assert other.read(len(PINGRESP)) == PINGRESP
    raw.confirmed(1)
    return turns


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("exchange", ["amq.topic", "behind"])
def test_a_publish_that_matches_very_many_bindings(tmp_path: Path, exchange: str, parts: int) -> None:
    """Its method, header and body come in one read or in several, and the topology changes in between."""
    rig = make_rig(tmp_path)
    if exchange == "behind":
        rig.vhost.catalog.declare_exchange(b"behind", b"direct", False, False, False, {})
        rig.vhost.catalog.declare_exchange(b"wide", b"topic", False, False, False, {})
        rig.vhost.catalog.bind_exchange(b"wide", b"behind", KEY.encode(), {})
        bind_all(rig, b"wide")
    else:
        bind_all(rig)
    other = rig.connected("other")
    with connect(rig) as raw:
        raw.confirm()
        whole = amqp_publish(1, KEY, b"body", exchange)
        cut = whole.index(b"\xce\x02") + 1
        end = whole.rindex(b"\x03\0\1")
        reads = {1: [whole], 2: [whole[:cut], whole[cut:]], 3: [whole[:cut], whole[cut:end], whole[end:]]}[parts]
        for number, octets in enumerate(reads):
            raw.send(octets)
            if number + 1 < len(reads):
                rig.settle()
                change_bindings(rig, b"amq.topic" if exchange == "amq.topic" else b"wide")
                other.subscribe(f"other/{number}")
        turns = confirmed_after(rig, raw, other)
        assert turns > 3
        assert raw.count("q") == (1, 0)
    rig.close()


def test_copies_that_match_very_much(tmp_path: Path) -> None:
    """Each key of CC is searched for, and the queue gets the message once."""
    rig = make_rig(tmp_path)
    bind_all(rig)
    sink = wide_subscriber(rig)
    other = rig.connected("other")
    keys = [KEY[:-1] + "b", "b" + KEY[1:]]
    content = Properties()
    content.headers = [("CC", keys)]
    with connect(rig) as raw:
        raw.confirm()
        raw.send(amqp_publish(1, KEY, b"body", "amq.topic", encode_properties(content)))
        assert confirmed_after(rig, raw, other) > 6
        assert raw.count("q") == (1, 0)
    assert take(sink).body == b"body"
    sink.quiet()
    rig.close()


def test_a_transaction_whose_publishes_match_very_much_commits(tmp_path: Path) -> None:
    """Its targets are found anew, as the topology has changed before the commit, and changes all the time."""
    rig = make_rig(tmp_path)
    bind_all(rig)
    other = rig.connected("other")
    with connect(rig) as raw:
        raw.send(method(1, (90, 10)))
        raw.expect(1, (90, 11))
        raw.send(amqp_publish(1, KEY, b"one", "amq.topic"), amqp_publish(1, KEY[:-1] + "b", b"two", "amq.topic"))
        rig.settle()
        change_bindings(rig, b"amq.topic")
        raw.send(method(1, (90, 20)))
        turns = 0
        line = cast(Line, raw.socket)
        while not line.sent:
            other.subscribe(f"other/{turns}")
            turns += 1
            assert turns < 100
        assert turns > 2
        raw.expect(1, (90, 21))
        assert raw.count("q") == (2, 0)
    rig.close()


def test_publishes_to_many_queues_share_a_turn(tmp_path: Path) -> None:
    """Each of two publishers gets on, and what they send is taken in over several turns."""
    rig = MqttRig(tmp_path)
    queues = 60
    budget = rig.vhost.budgets.publishes
    budget.reach_most = 2 * 2 * queues  # two publishes
    for number in range(queues):
        rig.vhost.catalog.declare_queue(b"q%d" % number, False, False, False, {}, 0)
        rig.vhost.catalog.bind(b"q%d" % number, b"amq.fanout", b"", {})
    with connect(rig) as first, connect(rig) as second:
        for raw in (first, second):
            raw.confirm()
            raw.send(*[amqp_publish(1, "", b"x", "amq.fanout")] * 10)
        assert budget.cut == 2
        turns = 0
        while rig.broker.is_due:
            rig.turn()
            turns += 1
        assert turns >= 10
        for raw in (first, second):
            raw.confirmed(10)
        assert first.count("q0") == first.count(f"q{queues - 1}") == (20, 0)
    rig.close()


def test_messages_that_match_many_headers_bindings_are_spread_over_turns(tmp_path: Path) -> None:
    """What each of them takes is counted: the rest of a read waits for the next turn."""
    rig = MqttRig(tmp_path)
    vhost = rig.vhost
    vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
    for number in range(3000):
        vhost.catalog.bind(b"q", b"amq.headers", b"%d" % number, {"a": 1})
    with connect(rig) as raw:
        raw.confirm()
        many: list[bytes] = []
        for number in range(20):  # their properties differ, so that each is looked up
            content = Properties()
            content.headers = [("a", 1), ("n", number)]
            many.append(amqp_publish(1, "", b"x", "amq.headers", encode_properties(content)))
        raw.send(*many)
        line = cast(Line, raw.socket)
        assert line.session is not None and line.session.meter.is_over
        raw.confirmed(20)
        assert raw.count("q") == (20, 0)
    rig.close()
