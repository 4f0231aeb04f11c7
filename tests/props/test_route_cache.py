"""Remembered routes beside routes that are found anew, over any sequence of changes."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.catalog.commands.policies import ClearPolicy, SetPolicy
from forebay.broker.catalog.policies import EXCHANGES as OF_EXCHANGES
from forebay.broker.catalog.policies import Policy
from forebay.broker.mqtt.audience import Audience, Recipient
from forebay.broker.mqtt.client_session import ClientSession, Subscription
from forebay.broker.publish.route import Route
from forebay.broker.vhost import Vhost
from forebay.core.errors import RequestError
from forebay.core.message import AMQP091, Properties
from forebay.routing.route_cache import RouteCache
from forebay.wire.amqp091.properties import encode_properties
from tests.vhosts import OneVhost

EXCHANGES = [b"d", b"t", b"h", b"f"]
KINDS = [b"direct", b"topic", b"headers", b"fanout"]
QUEUES = [b"p", b"q"]
KEYS = [b"a", b"a.b", b"$x", b"$queue.p.k"]
PATTERNS = [*KEYS, b"#", b"*", b"a.#", b"#.b", b"*.b"]
TOPICS = [b"a", b"a/b", b"b", b"$x", b"$queue/p", b"$queue/p/k", b"$queue/r/k"]
FILTERS = [b"a", b"a/b", b"#", b"+", b"a/#", b"+/b", b"$x", b"$share/g/a/#", b"$share/h/b"]
CLIENTS = [1, 2, 3]

Find = Callable[[], Route]


# ---- what is compared


def recipient(each: Recipient) -> tuple[object, ...]:
    """All that matters of a recipient."""
    place = int(each.queue), int(each.qos), int(each.since), each.keep_retain, each.identifiers
    return int(each.client.number), int(each.client.connection), *place


def audience_of(audience: Audience | None) -> tuple[object, ...]:
    """All that matters of an audience; the order in which its members were found does not."""
    if audience is None:
        return ()
    return tuple(sorted(map(recipient, each)) for each in parts_of(audience))


def parts_of(audience: Audience) -> tuple[list[Recipient], ...]:
    zero = audience.zero
    return audience.direct, audience.logged, zero.direct, zero.logged


def led(route: Route) -> tuple[object, ...]:
    """All that a publisher gets from a route."""
    where = route.headers_exchange
    to = sorted(int(queue.id) for queue in route.queues), audience_of(route.audience)
    copies = [(copy.key, audience_of(copy.audience)) for copy in route.copies]
    who = route.publisher, int(route.client_number), route.origin, route.is_personal
    about = int(route.durable), int(route.reach), route.is_wide, None if where is None else where.number
    return route.exchange, route.routing_key, to, copies, who, about, id(route.flow)


def anew(vhost: Vhost, find: Find) -> tuple[object, ...]:
    """The outcome of a search while nothing is remembered."""
    router, fanout = vhost.router, vhost.fanout
    before = router.routes, fanout.held, fanout.audiences
    router.routes, fanout.held, fanout.audiences = RouteCache(), {}, {}
    try:
        return outcome(find)
    finally:
        router.routes, fanout.held, fanout.audiences = before


def content(header: str) -> bytes:
    made = Properties()
    made.headers = [("h", header)]
    return encode_properties(made)


def probes(vhost: Vhost) -> list[Find]:
    """The publishes that are made after each change."""
    router = vhost.router
    found: list[Find] = []
    clients = [None, *(client_of(vhost, number) for number in CLIENTS)]
    for topic in TOPICS:
        found += [partial(router.route_topic, topic, client) for client in clients]
    for exchange in [b"", b"amq.topic", *EXCHANGES]:
        found += [partial(router.route, exchange, key) for key in [*KEYS, b"p", b"q", b"$queue/p/k"]]
        found.append(partial(router.route_all, exchange, [b"a", b"a.b"], AMQP091, content("1")))
    if b"h" in vhost.catalog.bindings.exchanges:
        open_route = router.route(b"h", b"a")
        found += [partial(router.resolve, open_route, AMQP091, content(header)) for header in ("1", "2")]
    return found


def outcome(find: Find) -> tuple[object, ...]:
    try:
        return led(find())
    except RequestError as error:
        return (error.reason,)


def check(vhost: Vhost) -> None:
    """Each route that is remembered is the one that would be found now, and what is kept of it is consistent."""
    for find in probes(vhost):
        assert outcome(find) == anew(vhost, find)
    check_index(vhost)


def check_index(vhost: Vhost) -> None:
    cache = vhost.router.routes
    entered = {
        (id(route), exchange, key)
        for exchange, index in cache.exchanges.items()
        for key, routes in index.by_key.items()
        for route in routes
    }
    assert entered == {(id(route), *place) for route in cache.routes.values() for place in route.places}
    assert all(route.is_valid and cache.routes[route.address] is route for route in cache.routes.values())
    assert cache.weight == sum(route.weight for route in cache.routes.values())
    for index in cache.exchanges.values():
        if index.tree is not None:
            assert index.tree.size() == len(index.names) == len(index.by_key)
    held: Counter[int] = Counter()
    for route in cache.routes.values():
        assert isinstance(route, Route)
        if route.audience is not None and route.audience.ids:
            held[id(route.audience)] += 1
    assert held == {id(audience): int(audience.routes) for audience in vhost.fanout.held.values()}


# ---- what changes


def client_of(vhost: Vhost, number: int) -> ClientSession | None:
    return vhost.sessions.clients.get(b"c%d" % number)


def act(vhost: Vhost, action: tuple[object, ...]) -> None:
    """Do it, where it is possible."""
    catalog = vhost.catalog
    match action:
        case ("exchange", int(at), alternate):
            arguments: dict[str, object] = {} if alternate is None else {"alternate-exchange": str(alternate)}
            if EXCHANGES[at] not in catalog.bindings.exchanges:
                catalog.declare_exchange(EXCHANGES[at], KINDS[at], False, False, False, arguments)
        case ("queue", bytes(name)):
            if name not in catalog.queues:  # a durable one that its address has made
                catalog.declare_queue(name, False, False, False, {}, 1)
        case ("delete", bytes(name)):
            if name in catalog.queues:
                vhost.upkeep.delete_queue(name, False, False)
            catalog.delete_exchange(name, False)
        case ("bind", bytes(source), bytes(to), bytes(key), bool(binds)):
            to_exchange = to in EXCHANGES
            there = catalog.bindings.exchanges
            if source in there and to in (there if to_exchange else catalog.queues):
                asked: dict[str, object] = {"h": "1"} if source == b"h" else {}
                if to_exchange:
                    (catalog.bind_exchange if binds else catalog.unbind_exchange)(to, source, key, asked)
                else:
                    (catalog.bind if binds else catalog.unbind)(to, source, key, asked)
        case ("policy", str(alternate)):
            catalog.execute(SetPolicy(Policy("p", False, ".*", OF_EXCHANGES, {"alternate-exchange": alternate}, 0)))
        case ("policy", None):
            if "p" in catalog.policies.table_of(False):
                catalog.execute(ClearPolicy("p"))
        case ("fallback", bool(is_set)):
            catalog.set_fallback(catalog.queues.get(b"q") if is_set else None)
        case _:
            act_of_client(vhost, action)


def act_of_client(vhost: Vhost, action: tuple[object, ...]) -> None:
    match action:
        case ("connect", int(number), bool(clean), bool(durable)):
            vhost.sessions.attach(b"c%d" % number, number + 10, clean, 600 if durable else 0, None)
        case ("disconnect", int(number)):
            client = client_of(vhost, number)
            if client is not None:
                vhost.clients.detach(client, client.connection)
                vhost.clients.end_sessions()
        case ("end", int(number)):
            client = client_of(vhost, number)
            if client is not None:
                vhost.clients.forget(client)
                vhost.clients.end_sessions()
        case ("subscribe", int(number), bytes(filter), int(qos), bool(no_local)):
            client = client_of(vhost, number)
            if client is not None:
                wanted = Subscription(client, filter, qos, vhost.sessions.next_offset())
                wanted.no_local = no_local and not filter.startswith(b"$share")
                vhost.clients.subscribe(client, wanted)
        case ("unsubscribe", int(number), bytes(filter)):
            client = client_of(vhost, number)
            if client is not None:
                vhost.clients.unsubscribe(client, filter)
        case _:
            raise AssertionError(action)


NUMBER = st.sampled_from(CLIENTS)
FLAG = st.booleans()
SOURCE = st.sampled_from([b"amq.topic", b"amq.topic", *EXCHANGES])
END = st.sampled_from([*QUEUES, *EXCHANGES])
ALTERNATE = st.sampled_from(["d", "t", "f"])
ACTION = st.one_of(
    st.tuples(st.just("exchange"), st.integers(0, 3), st.none() | ALTERNATE),
    st.tuples(st.just("queue"), st.sampled_from(QUEUES)),
    st.tuples(st.just("delete"), END),
    st.tuples(st.just("bind"), SOURCE, END, st.sampled_from(PATTERNS), FLAG),
    st.tuples(st.just("policy"), st.none() | ALTERNATE),
    st.tuples(st.just("fallback"), FLAG),
    st.tuples(st.just("connect"), NUMBER, FLAG, FLAG),
    st.tuples(st.just("disconnect"), NUMBER),
    st.tuples(st.just("end"), NUMBER),
    st.tuples(st.just("subscribe"), NUMBER, st.sampled_from(FILTERS), st.integers(0, 2), FLAG),
    st.tuples(st.just("unsubscribe"), NUMBER, st.sampled_from(FILTERS)),
)


@given(actions=st.lists(ACTION, min_size=1, max_size=15))
@settings(deadline=None)
def test_a_remembered_route_is_the_one_that_is_found_anew(actions: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = OneVhost(Path(folder))
        vhost = broker.vhost
        for name in EXCHANGES:
            act(vhost, ("exchange", EXCHANGES.index(name), None))
        for name in QUEUES:
            act(vhost, ("queue", name))
        for number in CLIENTS:
            act(vhost, ("connect", number, True, number > 1))
        check(vhost)
        for action in actions:
            act(vhost, action)
            check(vhost)
        broker.close()


STALE: list[tuple[str, tuple[object, ...]]] = [
    ("a subscription", ("subscribe", 1, b"a/#", 1, False)),
    ("a binding", ("bind", b"t", b"p", b"#.b", True)),
    ("a binding of an exchange", ("bind", b"f", b"t", b"", True)),
    ("a queue's end", ("delete", b"p")),
    ("an exchange's end", ("delete", b"d")),
    ("an alternate", ("policy", "f")),
]


@pytest.mark.parametrize("action", [action for _, action in STALE], ids=[what for what, _ in STALE])
def test_a_planted_stale_route_is_found(tmp_path: Path, action: tuple[object, ...]) -> None:
    """The same check fails where the cache has lost sight of what its routes passed."""
    broker = OneVhost(tmp_path)
    vhost = broker.vhost
    for at in range(len(EXCHANGES)):
        act(vhost, ("exchange", at, None))
    for name in QUEUES:
        act(vhost, ("queue", name))
        act(vhost, ("bind", b"f", name, b"", True))
    act(vhost, ("connect", 1, True, False))
    check(vhost)
    cache = vhost.router.routes
    for name in list(cache.exchanges):
        del cache.exchanges[name]
    act(vhost, action)
    with pytest.raises(AssertionError):
        check(vhost)
    broker.close()
