"""The vhost over a real store: routing, recovery, and what a publish came to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.broker.mqtt.client_session import ClientSession, Subscription
from forebay.broker.vhost import Vhost
from forebay.core.errors import RequestError
from forebay.core.message import ACCEPTED, AMQP091, MQTT, REJECTED, UNROUTABLE
from tests.vhosts import OneVhost


def handed(broker: OneVhost) -> list[bytes]:
    """End a turn; the bodies that it delivers."""
    return [each.block.body(each.index + at) for each in broker.deliveries() for at in range(each.count)]


def attached(vhost: Vhost, connection: int, filter: bytes, qos: int) -> ClientSession:
    """An MQTT client with one subscription, whose session lasts as long as its connection."""
    client = vhost.sessions.attach(b"c%d" % connection, connection, True, 0, None)
    vhost.clients.subscribe(client, Subscription(client, filter, qos, 0))
    return client


def subscription(vhost: Vhost, client_id: bytes, filter: bytes) -> Subscription:
    """A subscription that a client may have."""
    return Subscription(vhost.sessions.clients[client_id], filter, 1, 0)


@pytest.fixture
def broker(tmp_path: Path) -> OneVhost:
    return OneVhost(tmp_path / "data")


def test_a_publish_is_accepted_unroutable_or_refused(broker: OneVhost) -> None:
    vhost = broker.vhost
    vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    assert vhost.publishing.publish(vhost.router.route(b"", b"q"), AMQP091, b"", b"x").status == ACCEPTED
    assert vhost.publishing.publish(vhost.router.route(b"", b"none"), AMQP091, b"", b"x").status == UNROUTABLE
    broker.turn()
    broker.disk.octets_max = broker.disk.used()
    refused = vhost.publishing.publish(vhost.router.route(b"", b"q"), AMQP091, b"", b"x" * 20_000)
    assert refused.status == REJECTED
    assert refused.reason == "no room on the disk"


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_a_queue_keeps_its_limits_though_nobody_consumes(broker: OneVhost, queue_type: str) -> None:
    vhost = broker.vhost
    for name, limit in ((b"short", "x-max-length"), (b"small", "x-max-length-bytes"), (b"brief", "x-message-ttl")):
        vhost.catalog.declare_queue(name, True, False, False, {"x-queue-type": queue_type, limit: 2}, 1)
        for body in (b"1", b"2", b"3"):
            vhost.publishing.publish(vhost.router.route(b"", name), AMQP091, b"\0\0", body)
    broker.turn()
    broker.tick(3000)
    broker.turn()
    assert [vhost.catalog.queue(name).ready() for name in (b"short", b"small", b"brief")] == [2, 2, 0]


def test_a_refused_publish_is_in_no_queue(broker: OneVhost) -> None:
    vhost = broker.vhost
    for name in (b"a", b"b"):
        vhost.catalog.declare_queue(name, True, False, False, {}, 1)
        vhost.catalog.bind(name, b"amq.fanout", b"", {})
    broker.turn()
    broker.disk.octets_max = broker.disk.used()
    assert (
        vhost.publishing.publish(vhost.router.route(b"amq.fanout", b""), AMQP091, b"", b"x" * 20_000).status == REJECTED
    )
    assert (vhost.catalog.queue(b"a").ready(), vhost.catalog.queue(b"b").ready()) == (0, 0)


def test_a_route_tells_when_it_is_stale(broker: OneVhost) -> None:
    vhost = broker.vhost
    vhost.catalog.declare_exchange(b"y", b"direct", False, False, False, {"alternate-exchange": "x"})
    vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    steps: list[Callable[[], object]] = [
        lambda: vhost.catalog.bind(b"q", b"amq.direct", b"k", {}),
        lambda: vhost.catalog.unbind(b"q", b"amq.direct", b"k", {}),
        lambda: vhost.catalog.declare_exchange(b"x", b"fanout", False, False, False, {}),
        lambda: vhost.catalog.delete_exchange(b"x", False),
        lambda: attached(vhost, 1, b"a/#", 1),
        lambda: vhost.clients.unsubscribe(vhost.sessions.clients[b"c1"], b"a/#"),
        lambda: vhost.clients.subscribe(vhost.sessions.clients[b"c1"], subscription(vhost, b"c1", b"a/#")),
        lambda: vhost.clients.detach(vhost.sessions.clients[b"c1"], 1),
        lambda: vhost.upkeep.delete_queue(b"q", False, False),
    ]
    for step in steps:
        routes = [
            vhost.router.route(b"amq.direct", b"k"),
            vhost.router.route(b"y", b"k"),
            vhost.router.route_topic(b"a/b", None),
            vhost.router.route(b"", b"q"),
        ]
        assert all(route.is_valid for route in routes)
        step()
        assert not all(route.is_valid for route in routes)


def test_subscribers_see_the_order_of_publishing_across_topics(broker: OneVhost) -> None:
    vhost = broker.vhost
    attached(vhost, 1, b"#", 0)
    attached(vhost, 2, b"a/+", 0)
    expected = [(b"a/x", b"1"), (b"b/x", b"2"), (b"a/y", b"3"), (b"a/x", b"4")]
    for topic, body in expected:
        vhost.publishing.publish(vhost.router.route_topic(topic, None), MQTT, b"", body)
    got: dict[int, list[bytes]] = {1: [], 2: []}
    for delivery in broker.deliveries():
        for at in range(delivery.count):
            got[int(delivery.consumer.session_id)].append(delivery.block.body(delivery.index + at))
    assert got == {1: [b"1", b"2", b"3", b"4"], 2: [b"1", b"3", b"4"]}


def test_overlapping_subscriptions_of_a_session_give_one_copy_at_the_highest_qos(broker: OneVhost) -> None:
    vhost = broker.vhost
    client = attached(vhost, 1, b"a/+", 0)
    vhost.clients.subscribe(client, Subscription(client, b"a/#", 1, 0))
    vhost.publishing.publish(vhost.router.route_topic(b"a/b", None), MQTT | 16, b"", b"x")
    assert [(each.count, each.consumer.qos) for each in broker.deliveries()] == [(1, 1)]


def test_a_paused_session_gets_nothing_until_it_reads_again(broker: OneVhost) -> None:
    vhost = broker.vhost
    vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    vhost.consumers.consume(b"q", 7, 1, b"c", False, False, 0, {})
    vhost.pause(7, True)
    vhost.publishing.publish(vhost.router.route(b"", b"q"), AMQP091, b"", b"x")
    assert handed(broker) == []
    vhost.pause(7, False)
    assert handed(broker) == [b"x"]


def test_everything_declared_and_settled_is_there_after_recovery(broker: OneVhost) -> None:
    vhost = broker.vhost
    vhost.catalog.declare_exchange(b"x", b"topic", True, False, False, {"x-internal-purpose": [1, {"b": b"\xff"}]})
    queue = vhost.catalog.declare_queue(b"q", True, False, False, {"x-visibility-timeout": 5000}, 1)
    vhost.catalog.bind(b"q", b"x", b"a.#", {})
    consumer = vhost.consumers.consume(b"$queue/q/+", 1, 1, b"c", False, False, 4, {"x-consumer-group": "g"})
    for body in (b"0", b"1", b"2", b"3"):
        vhost.publishing.publish(vhost.router.route(b"x", b"a"), AMQP091, b"", body)
    lease = broker.deliveries()[0].lease
    assert lease is not None
    vhost.settling.ack(lease, 1, 2)
    broker.flush()
    assert consumer.credit == 2
    broker.crash()

    found = broker.vhost.catalog.queue(b"q")
    assert found.id == queue.id
    assert found.spec.visibility_ms == 5000
    assert broker.vhost.catalog.check_exchange(b"x").arguments == {"x-internal-purpose": [1, {"b": b"\xff"}]}
    group = found.find_group(b"g@+")
    assert group is not None
    assert found.needed(0, 4) == [(0, 1), (3, 4)]
    broker.vhost.consumers.consume(b"$queue/q/+", 1, 1, b"c", False, False, 4, {"x-consumer-group": "g"})
    assert handed(broker) == [b"0", b"3"]


def test_ids_of_deleted_queues_are_not_used_again(broker: OneVhost) -> None:
    vhost = broker.vhost
    first = vhost.catalog.declare_queue(b"q", True, False, False, {}, 1).id
    vhost.publishing.publish(vhost.router.route(b"", b"q"), AMQP091, b"", b"of the first")
    vhost.upkeep.delete_queue(b"q", False, False)
    broker.turn()
    broker.crash()
    second = broker.vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    assert second.id > first
    assert second.ready() == 0


def test_a_group_of_the_other_kind_is_refused(broker: OneVhost) -> None:
    vhost = broker.vhost
    vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    vhost.consumers.consume(b"q", 1, 1, b"", False, False, 0, {"x-consumer-group": "g"})
    with pytest.raises(RequestError, match="of the other kind"):
        vhost.consumers.consume(b"q", 1, 1, b"", False, False, 0, {"x-consumer-group": "g", "x-stream-offset": "first"})


def test_a_stream_may_be_read_over_a_work_queue(broker: OneVhost) -> None:
    vhost = broker.vhost
    vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    vhost.consumers.consume(b"q", 1, 1, b"", False, False, 0, {})
    vhost.consumers.consume(b"q", 2, 1, b"", False, False, 0, {"x-stream-offset": "first"})
    vhost.publishing.publish(vhost.router.route(b"", b"q"), AMQP091, b"", b"x")
    assert handed(broker) == [b"x"]  # the worker at once
    assert handed(broker) == [b"x"]  # the reader once it is on disk


def test_an_exclusive_consumer_is_alone(broker: OneVhost) -> None:
    vhost = broker.vhost
    vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    vhost.consumers.consume(b"q", 1, 1, b"", False, True, 0, {})
    with pytest.raises(RequestError, match="exclusive use"):
        vhost.consumers.consume(b"q", 2, 1, b"", False, False, 0, {})
