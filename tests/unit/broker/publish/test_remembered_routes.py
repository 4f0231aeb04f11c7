"""Whose remembered routes a client that comes, goes or subscribes drops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.broker.mqtt.client_session import ClientSession, Subscription
from forebay.broker.publish.route import Route
from forebay.broker.vhost import Vhost
from tests.vhosts import OneVhost


@pytest.fixture
def vhost(tmp_path: Path) -> Iterator[Vhost]:
    broker = OneVhost(tmp_path)
    yield broker.vhost
    broker.close()


def attached(vhost: Vhost, number: int, *filters: bytes, expiry_s: int = 600) -> ClientSession:
    client = vhost.sessions.attach(b"c%d" % number, number, False, expiry_s, None)
    for filter in filters:
        vhost.clients.subscribe(client, Subscription(client, filter, 1, 0))
    return client


def routes_of(vhost: Vhost) -> list[Route]:
    """A route of each kind, which no client but one with a matching subscription has anything to do with."""
    vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    return [
        vhost.router.route_topic(b"load/1", None),
        vhost.router.route(b"amq.topic", b"load.1"),
        vhost.router.route(b"amq.direct", b"k"),
        vhost.router.route(b"", b"q"),
        vhost.router.route_topic(b"$queue/q/k", None),
    ]


def test_a_client_without_a_subscription_that_matches_drops_nothing_of_others(vhost: Vhost) -> None:
    routes = routes_of(vhost)
    for expiry_s in (0, 600):
        client = attached(vhost, 1, b"of/1", b"of/+/1/#", b"other/#", expiry_s=expiry_s)
        vhost.clients.unsubscribe(client, b"of/1")
        vhost.clients.detach(client, 1)
        vhost.clients.forget(attached(vhost, 1))
    assert all(route.is_valid for route in routes)
    assert vhost.router.route_topic(b"load/1", None) is routes[0]


def test_a_client_that_comes_and_goes_drops_what_its_subscriptions_match(vhost: Vhost) -> None:
    first, second, *others = routes_of(vhost)
    client = attached(vhost, 1, b"load/+", b"of/1")
    steps: list[Callable[[], object]] = [
        lambda: vhost.clients.detach(client, 1),
        lambda: attached(vhost, 1),
        lambda: vhost.clients.subscribe(client, Subscription(client, b"load/+", 0, 0)),
        lambda: vhost.clients.unsubscribe(client, b"load/+"),
        lambda: vhost.clients.subscribe(client, Subscription(client, b"load/1", 0, 0)),
        lambda: vhost.clients.forget(client),
    ]
    for step in steps:
        first, second = vhost.router.route_topic(b"load/1", None), vhost.router.route(b"amq.topic", b"load.1")
        step()
        assert not first.is_valid and not second.is_valid
        assert all(route.is_valid for route in others)


def test_an_expired_session_drops_what_its_subscriptions_match(vhost: Vhost) -> None:
    client = attached(vhost, 1, b"load/#", expiry_s=1)
    vhost.clients.detach(client, 1)
    first, *others = routes_of(vhost)
    vhost.sweep(vhost.turn.now_us + 2_000_000)
    assert client.ended and not first.is_valid
    assert all(route.is_valid for route in others[1:])


def test_publishers_share_a_route_unless_it_matters_who_publishes(vhost: Vhost) -> None:
    one, two = attached(vhost, 1), attached(vhost, 2)
    assert vhost.router.route_topic(b"t", one) is vhost.router.route_topic(b"t", two)
    wanted = Subscription(one, b"t", 1, 0)
    wanted.no_local = True
    vhost.clients.subscribe(one, wanted)
    own, other = vhost.router.route_topic(b"t", one), vhost.router.route_topic(b"t", two)
    assert own.audience is None and other.audience is not None
    assert vhost.router.route_topic(b"t", one) is own and vhost.router.route_topic(b"t", two) is other
    vhost.clients.subscribe(two, Subscription(two, b"$share/g/s", 1, 0))
    assert vhost.router.route_topic(b"s", one).publisher != vhost.router.route_topic(b"s", two).publisher


def test_topics_with_the_same_subscribers_share_their_audience(vhost: Vhost) -> None:
    attached(vhost, 1, b"load/#")
    first, second = vhost.router.route_topic(b"load/1", None), vhost.router.route_topic(b"load/2", None)
    attached(vhost, 2, b"load/2")
    assert [each.is_valid for each in (first, second)] == [True, False]
    third = vhost.router.route_topic(b"load/3", None)
    assert third.audience is first.audience is not None
    vhost.clients.forget(vhost.sessions.clients[b"c1"])
    assert [each.is_valid for each in (first, third)] == [False, False]
    assert vhost.fanout.held == {}


def test_a_queue_that_comes_or_goes_drops_what_is_published_to_its_name(vhost: Vhost) -> None:
    before = vhost.router.route(b"", b"late"), vhost.router.route(b"", b"other")
    vhost.catalog.declare_queue(b"late", False, False, False, {}, 1)
    assert [route.is_valid for route in before] == [False, True]
    address = vhost.router.route_topic(b"$queue/late/k", None)
    command = vhost.router.command_route(b"$queue/late/$commit", b"late")
    vhost.upkeep.delete_queue(b"late", False, False)
    assert not address.is_valid and not command.is_valid
    vhost.router.route_topic(b"$queue/made/k", None)
    assert b"made" in vhost.catalog.queues


def test_the_queue_for_all_other_addresses_drops_all_routes(vhost: Vhost) -> None:
    routes = routes_of(vhost)
    vhost.catalog.set_fallback(vhost.catalog.queues[b"q"])
    assert not any(route.is_valid for route in routes)
    kept = vhost.router.route_topic(b"$queue/nothing/k", None)
    vhost.catalog.set_fallback(vhost.catalog.queues[b"q"])
    seen = [kept.is_valid]
    vhost.upkeep.delete_queue(b"q", False, False)
    assert [*seen, kept.is_valid] == [True, False]


def test_what_a_vhost_remembered_ends_with_it(vhost: Vhost) -> None:
    routes = routes_of(vhost)
    vhost.catalog.abandon()
    assert not any(route.is_valid for route in routes)
