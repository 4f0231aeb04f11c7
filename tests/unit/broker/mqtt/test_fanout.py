"""Who gets a message on a topic, and what of it needs the disk."""

from __future__ import annotations

from forebay.broker.mqtt.audience import DIRECT, LOGGED, Audience, Recipient, identifier_property
from forebay.broker.mqtt.client_session import ClientSession, Subscription
from forebay.broker.mqtt.crowding import Crowding
from forebay.broker.mqtt.fanout import AUDIENCES_MAX, Fanout, Runs, is_zero, topic_at
from forebay.core.message import AMQP091, MQTT
from forebay.log.block import BlockWriter
from forebay.queue.leases.lease import Delivery
from forebay.queue.mqueue import LOWEST, MqueueRules
from forebay.routing.route_cache import RouteCache

RULES = MqueueRules(0, True, {}, LOWEST)


def client(number: int, durable: bool = False, connection: int = -1) -> ClientSession:
    made = ClientSession(number, b"c%d" % number, durable, 600 if durable else 0, RULES)
    made.connection = number if connection < 0 else connection
    return made


def add(
    fanout: Fanout, who: ClientSession, filter: bytes, qos: int, since: int = 0, identifier: int = 0
) -> Subscription:
    made = Subscription(who, filter, qos, since)
    made.identifier = identifier
    fanout.add(made)
    return made


def shape(targets: list[Recipient]) -> list[tuple[int, int, int]]:
    """Number of the client, place and QoS of each."""
    return [(int(each.client.number), int(each.queue), int(each.qos)) for each in targets]


def test_nobody_is_no_audience() -> None:
    fanout = Fanout(True, Crowding(), RouteCache())
    assert fanout.audience(b"a", 0) is None
    subscription = add(fanout, client(1), b"a", 1)
    assert fanout.audience(b"a", 0) is not None
    fanout.remove(subscription)
    assert fanout.audience(b"a", 0) is None
    assert fanout.subscriptions == {}


def test_overlapping_subscriptions_are_one_target() -> None:
    fanout = Fanout(True, Crowding(), RouteCache())
    who = client(1)
    add(fanout, who, b"a/+", 0, identifier=3)
    add(fanout, who, b"a/#", 1, identifier=200).keep_retain = True
    audience = fanout.audience(b"a/b", 0)
    assert audience is not None and audience.zero is audience
    assert shape(audience.direct) == [(1, DIRECT, 1)]
    target = audience.direct[0]
    assert target.keep_retain
    both = (identifier_property(3), identifier_property(200))
    assert target.identifiers in (both[0] + both[1], both[1] + both[0])


def test_where_the_messages_of_durable_sessions_go() -> None:
    """By QoS granted, whether the client is there, and the QoS of the publish."""
    cases = [
        # granted, there, store QoS 0 -> direct and logged of QoS 1 publishes, the same of QoS 0 publishes
        (1, True, True, [], [(1, LOGGED, 1)], [(1, DIRECT, 0)], []),
        (0, True, True, [(1, DIRECT, 0)], [], [(1, DIRECT, 0)], []),
        (1, False, True, [], [(1, LOGGED, 1)], [], [(1, LOGGED, 0)]),
        (0, False, True, [], [(1, LOGGED, 0)], [], [(1, LOGGED, 0)]),
        (1, False, False, [], [(1, LOGGED, 1)], [], []),
        (0, False, False, [], [], [], []),
    ]
    for qos, there, store, direct, logged, zero_direct, zero_logged in cases:
        fanout = Fanout(store, Crowding(), RouteCache())
        add(fanout, client(1, True, 1 if there else 0), b"a", qos)
        audience = fanout.audience(b"a", 0)
        assert audience is not None
        assert (shape(audience.direct), shape(audience.logged)) == (direct, logged)
        assert (shape(audience.zero.direct), shape(audience.zero.logged)) == (zero_direct, zero_logged)
        assert audience.zero.zero is audience.zero


def test_the_oldest_subscription_that_has_messages_in_the_log_counts() -> None:
    fanout = Fanout(True, Crowding(), RouteCache())
    who = client(1, True)
    add(fanout, who, b"#", 0, since=2)
    add(fanout, who, b"+", 1, since=9)
    add(fanout, who, b"a", 2, since=7)
    audience = fanout.audience(b"a", 0)
    assert audience is not None
    assert audience.logged[0].since == 7


def test_no_local_leaves_out_the_publisher_alone() -> None:
    fanout = Fanout(True, Crowding(), RouteCache())
    for number in (1, 2):
        add(fanout, client(number), b"a", 1).no_local = True
    assert fanout.has_no_local(fanout.trie.match(b"a", True))
    audience = fanout.audience(b"a", 1)
    assert audience is not None and shape(audience.direct) == [(2, DIRECT, 1)]
    audience = fanout.audience(b"a", 0)
    assert audience is not None and len(audience.direct) == 2
    alone = Fanout(True, Crowding(), RouteCache())
    add(alone, client(1), b"a", 1).no_local = True
    assert alone.audience(b"a", 1) is None
    assert not alone.has_no_local(alone.trie.match(b"b", True))


def test_audiences_are_remembered_until_something_changes() -> None:
    fanout = Fanout(True, Crowding(), RouteCache())
    who = client(1)
    add(fanout, who, b"#", 1)
    first = fanout.audience(b"a", 0)
    assert fanout.audience(b"b", 0) is first
    fanout.changed()
    assert fanout.audience(b"a", 0) is not first


def test_so_many_audiences_are_remembered() -> None:
    fanout = Fanout(True, Crowding(), RouteCache())
    who = client(1)
    for number in range(AUDIENCES_MAX + 1):
        add(fanout, who, b"%d" % number, 1)
    for number in range(AUDIENCES_MAX + 1):
        fanout.audience(b"%d" % number, 0)
    assert len(fanout.audiences) == 1


def test_publishes_for_the_same_audience_are_one_run() -> None:
    runs = Runs()
    one, other = Audience(), Audience()
    for audience in (one, one, other, one):
        runs.add(audience)
    runs.cut()
    assert [(each is one, count) for each, count in zip(runs.audiences, runs.counts, strict=True)] == [
        (True, 2),
        (False, 1),
        (True, 1),
    ]


def test_a_turn_is_handed_out_in_its_order_and_to_who_is_there() -> None:
    fanout = Fanout(True, Crowding(), RouteCache())
    there, slow, gone = client(1), client(2), client(3, connection=0)
    slow.paused = True
    for who in (there, slow, gone):
        add(fanout, who, b"a", 0)
    add(fanout, there, b"b", 1)
    for topic, body in [(b"a", b"0"), (b"a", b"1"), (b"b", b"2"), (b"a", b"3")]:
        audience = fanout.audience(topic, 0)
        assert audience is not None
        fanout.append(audience, MQTT, b"", topic, b"", body)
    out: list[Delivery] = []
    fanout.dispatch(1, out)
    got = [
        (int(each.consumer.session_id), each.block.body(each.index + at)) for each in out for at in range(each.count)
    ]
    assert got == [(1, b"0"), (1, b"1"), (1, b"2"), (1, b"3")]
    assert fanout.dropped == 3
    fanout.dispatch(1, out)
    assert len(out) == 3


def test_who_gets_alike_shares_the_encoding() -> None:
    fanout = Fanout(True, Crowding(), RouteCache())
    for number in (1, 2):
        add(fanout, client(number), b"a", 0)
    add(fanout, client(3), b"b", 0)
    for topic in (b"a", b"b"):
        audience = fanout.audience(topic, 0)
        assert audience is not None
        fanout.append(audience, MQTT, b"", topic, b"", b"")
    out: list[Delivery] = []
    fanout.dispatch(1, out)
    assert out[0].encodings is out[1].encodings is not None
    assert out[2].encodings is None


def test_what_a_record_says_of_its_publish() -> None:
    writer = BlockWriter()
    writer.append(MQTT, b"", b"a/b.c", b"", b"")
    writer.append(MQTT | 16, b"", b"a", b"", b"")
    writer.append(AMQP091, b"amq.topic", b"a.b/c", b"", b"")
    block = writer.seal(0, 1, False)
    assert [topic_at(block, index) for index in range(3)] == [b"a/b.c", b"a", b"a/b.c"]
    assert [is_zero(block, index) for index in range(3)] == [True, False, False]


def test_a_subscription_identifier_as_a_property() -> None:
    assert [identifier_property(id) for id in (0, 1, 127, 128)] == [b"", b"\x0b\x01", b"\x0b\x7f", b"\x0b\x80\x01"]
