"""Counters of exchanges and queues in a vhost: what adds to them, and what stays of those that are gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.message import ACCEPTED, AMQP091, MQTT, REJECTED, UNROUTABLE
from forebay.queue.leases.lease import Delivery
from tests.vhosts import EMPTY, OneVhost


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneVhost]:
    made = OneVhost(tmp_path / "data")
    yield made
    made.close()


def declare(broker: OneVhost, name: bytes, **arguments: object) -> None:
    values = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
    broker.vhost.catalog.declare_queue(name, False, False, False, values, 0)


def publish(broker: OneVhost, exchange: bytes, key: bytes) -> int:
    vhost = broker.vhost
    return vhost.publishing.publish(vhost.router.route(exchange, key), AMQP091, EMPTY, b"x").status


def flow_of(broker: OneVhost, exchange: bytes) -> tuple[int, int, int]:
    flow = broker.vhost.catalog.bindings.exchange(exchange).flow
    return flow.published_in, flow.published_out, flow.unroutable


def counted(broker: OneVhost, queue: bytes) -> dict[str, int]:
    """The counters of a queue that are not 0."""
    return {name: count for name, count in broker.vhost.catalog.queue(queue).counts.fields().items() if count}


def test_each_copy_is_counted_where_the_message_was_published(broker: OneVhost) -> None:
    vhost = broker.vhost
    for name in (b"one", b"two"):
        declare(broker, name)
    vhost.catalog.declare_exchange(b"inner", b"fanout", False, False, False, {})
    vhost.catalog.declare_exchange(b"outer", b"direct", False, False, False, {})
    vhost.catalog.bind_exchange(b"inner", b"outer", b"k", {})
    vhost.catalog.bind(b"one", b"inner", b"", {})
    vhost.catalog.bind(b"two", b"inner", b"", {})
    assert publish(broker, b"outer", b"k") == ACCEPTED
    assert publish(broker, b"outer", b"other") == UNROUTABLE
    assert flow_of(broker, b"outer") == (2, 2, 1)
    assert flow_of(broker, b"inner") == (0, 0, 0)
    assert publish(broker, b"", b"one") == ACCEPTED
    assert flow_of(broker, b"") == (1, 1, 0)
    broker.turn()
    assert (counted(broker, b"one"), counted(broker, b"two")) == ({"published": 2}, {"published": 1})


def test_topics_of_mqtt_are_the_topic_exchange(broker: OneVhost) -> None:
    vhost = broker.vhost
    declare(broker, b"captured")
    vhost.catalog.bind(b"captured", b"amq.topic", b"a.#", {})
    assert vhost.publishing.publish(vhost.router.route_topic(b"a/b", None), MQTT, b"", b"x").status == ACCEPTED
    assert vhost.publishing.publish(vhost.router.route_topic(b"b", None), MQTT, b"", b"x").status == UNROUTABLE
    assert flow_of(broker, b"amq.topic") == (2, 1, 1)


def test_where_the_content_decides_the_exchange_counts_as_well(broker: OneVhost) -> None:
    vhost = broker.vhost
    declare(broker, b"all")
    vhost.catalog.declare_exchange(b"by-header", b"headers", False, False, False, {})
    vhost.catalog.bind(b"all", b"by-header", b"", {})
    route = vhost.router.route(b"by-header", b"")
    assert route.headers_exchange is not None
    for _ in range(2):
        vhost.publishing.publish(vhost.router.resolve(route, AMQP091, EMPTY), AMQP091, EMPTY, b"x")
    assert flow_of(broker, b"by-header") == (2, 2, 0)


def test_what_a_full_queue_does_not_take(broker: OneVhost) -> None:
    declare(broker, b"full", max_length=1, overflow="reject-publish")
    assert publish(broker, b"", b"full") == ACCEPTED
    broker.turn()
    assert publish(broker, b"", b"full") == REJECTED
    broker.turn()
    assert counted(broker, b"full") == {"published": 1, "refused": 1}


def consumed(broker: OneVhost, queue: bytes, no_ack: bool, **arguments: object) -> list[Delivery]:
    vhost = broker.vhost
    values = {key.replace("_", "-"): value for key, value in arguments.items()}
    vhost.consumers.consume(queue, 1, 1, b"t", no_ack, False, 0, values)
    return broker.deliveries()


def test_deliveries_with_and_without_acknowledgement(broker: OneVhost) -> None:
    for name in (b"kept", b"gone"):
        declare(broker, name)
        for _ in range(3):
            publish(broker, b"", name)
    consumed(broker, b"gone", True)
    assert counted(broker, b"gone") == {"published": 3, "delivered_settled": 3}
    lease = consumed(broker, b"kept", False)[0].lease
    assert lease is not None
    broker.vhost.settling.ack(lease, 0, 1)
    broker.vhost.settling.nack(lease, 1, 1, 0)
    broker.vhost.settling.reject(lease, 2, 1)
    broker.turn()
    assert counted(broker, b"kept") == {
        "published": 3,
        "delivered": 4,
        "redelivered": 1,
        "acked": 1,
        "rejected": 1,
    }


def test_a_stream_s_readers_acknowledge_for_their_credit(broker: OneVhost) -> None:
    broker.vhost.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 0)
    for _ in range(3):
        publish(broker, b"", b"s")
    broker.turn()
    lease = consumed(broker, b"s", False, x_stream_offset="first")[0].lease
    assert lease is not None
    broker.vhost.settling.ack(lease, 0, 2)
    broker.vhost.settling.nack(lease, 2, 1, 0)
    assert counted(broker, b"s") == {"published": 3, "delivered": 3, "acked": 2}
    broker.vhost.upkeep.purge(b"s")
    assert counted(broker, b"s")["purged"] == 3


def test_what_is_purged(broker: OneVhost) -> None:
    declare(broker, b"q")
    for _ in range(4):
        publish(broker, b"", b"q")
    assert broker.vhost.upkeep.purge(b"q") == 4
    assert counted(broker, b"q") == {"published": 4, "purged": 4}


def test_what_is_gone_stays_counted(broker: OneVhost) -> None:
    vhost = broker.vhost
    declare(broker, b"q")
    vhost.catalog.declare_exchange(b"x", b"fanout", False, False, False, {})
    vhost.catalog.bind(b"q", b"x", b"", {})
    publish(broker, b"x", b"")
    broker.turn()
    vhost.upkeep.delete_queue(b"q", False, False)
    vhost.catalog.delete_exchange(b"x", False)
    assert (vhost.catalog.past_counts.published, vhost.catalog.past_queues) == (1, 1)
    assert (vhost.catalog.past_flow.published_in, vhost.catalog.past_flow.published_out) == (1, 1)


def test_what_was_in_a_vhost_stays_counted(broker: OneVhost) -> None:
    vhosts = broker.vhosts
    other = vhosts.add(b"other")
    other.catalog.declare_queue(b"q", False, False, False, {}, 0)
    other.publishing.publish(other.router.route(b"", b"q"), AMQP091, EMPTY, b"x")
    broker.turn()
    vhosts.delete(b"other")
    assert (vhosts.past_counts.published, vhosts.past_flow.published_in, vhosts.past_queues) == (1, 1, 1)
