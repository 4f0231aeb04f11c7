"""Which remembered routes a change drops, and which it leaves alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from forebay.routing.bindings import Bindings
from forebay.routing.kinds import make_exchange
from forebay.routing.route_cache import EVICTED_AT_ONCE, PLACES_MAX, SEARCH_STEPS, CachedRoute, RouteCache


def route_by(*places: tuple[bytes, bytes], weight: int = 1) -> CachedRoute:
    """A route that passed these places."""
    route = CachedRoute()
    route.places = list(places)
    route.weight = weight
    return route


def entered(cache: RouteCache, *places: tuple[bytes, bytes], weight: int = 1) -> CachedRoute:
    """A route with an address of its own."""
    route = route_by(*places, weight=weight)
    cache.add(object(), route)
    return route


def test_a_route_is_valid_while_it_is_remembered() -> None:
    cache = RouteCache()
    route = route_by((b"x", b"k"))
    steps: list[Callable[[], object]] = [lambda: cache.add("a", route), lambda: cache.drop_key(b"x", b"k")]
    seen = [(route.is_valid, cache.get("a"))]
    for step in steps:
        step()
        seen.append((route.is_valid, cache.get("a")))
    assert seen == [(False, None), (True, route), (False, None)]
    cache.drop(route)
    assert (cache.dropped, cache.exchanges) == (1, {})


def test_another_route_of_an_address_takes_its_place() -> None:
    cache = RouteCache()
    first, second = route_by((b"x", b"k")), route_by((b"x", b"k"))
    cache.add("a", first)
    cache.add("a", second)
    assert (first.is_valid, second.is_valid, cache.get("a")) == (False, True, second)


def test_a_key_drops_the_routes_that_had_it_in_this_exchange() -> None:
    cache = RouteCache()
    here, elsewhere, other = entered(cache, (b"x", b"k")), entered(cache, (b"y", b"k")), entered(cache, (b"x", b"l"))
    behind = entered(cache, (b"z", b""), (b"x", b"k"))
    cache.drop_key(b"x", b"k")
    assert [each.is_valid for each in (here, elsewhere, other, behind)] == [False, True, True, False]
    assert b"z" not in cache.exchanges


@pytest.mark.parametrize(
    ("filter", "dropped"),
    [
        (b"a", {b"a"}),
        (b"a/b", {b"a/b"}),
        (b"none", set()),
        (b"+", {b"a", b"b"}),
        (b"a/#", {b"a", b"a/b", b"a/c/d"}),
        (b"+/b", {b"a/b"}),
        (b"#", {b"a", b"b", b"a/b", b"a/c/d"}),
    ],
)
@pytest.mark.parametrize("has_tree", [False, True])
def test_a_filter_drops_the_routes_that_it_matches(filter: bytes, dropped: set[bytes], has_tree: bool) -> None:
    cache = RouteCache()
    if has_tree:
        entered(cache, (b"x", b"first"))
        cache.drop_matching(b"x", b"+/+/+/+", True)
    routes = {key: entered(cache, (b"x", key)) for key in (b"a", b"b", b"a/b", b"a/c/d", b"$s", b"$s/b")}
    other = entered(cache, (b"y", b"a"))
    if has_tree:
        cache.drop_key(b"x", b"first")
    cache.drop_matching(b"x", filter, True)
    assert {key for key, route in routes.items() if not route.is_valid} == dropped
    assert other.is_valid and cache.wide == 0


def test_a_pattern_of_amqp_matches_keys_that_begin_with_a_dollar() -> None:
    cache = RouteCache()
    route = entered(cache, (b"x", b"$s/a"))
    cache.drop_matching(b"x", b"+/a", False)
    assert not route.is_valid


def test_a_pattern_with_a_hash_inside_drops_at_least_what_it_matches() -> None:
    cache = RouteCache()
    routes = [entered(cache, (b"x", key)) for key in (b"a/b", b"a/x/y/b")]
    cache.drop_matching(b"x", b"a/#/b", False)
    assert not any(route.is_valid for route in routes)


def test_a_filter_for_which_very_much_is_to_be_searched_drops_the_whole_exchange() -> None:
    cache = RouteCache()
    routes = [entered(cache, (b"x", b"%d/a" % number)) for number in range(SEARCH_STEPS + 1)]
    other = entered(cache, (b"y", b"a"))
    cache.drop_matching(b"x", b"+/b", True)
    assert not any(route.is_valid for route in routes)
    assert (cache.wide, other.is_valid, list(cache.exchanges)) == (1, True, [b"y"])


def test_a_route_that_passed_very_much_is_dropped_by_any_change() -> None:
    cache = RouteCache()
    route = entered(cache, *[(b"%d" % number, b"k") for number in range(PLACES_MAX + 1)])
    seen = [route.is_valid]
    cache.drop_key(b"other", b"k")
    assert [*seen, route.is_valid] == [True, False]
    assert (cache.exchanges, cache.by_any_change) == ({}, {})


def test_the_oldest_routes_go_where_there_are_too_many() -> None:
    cache = RouteCache()
    cache.routes_max = 2 * EVICTED_AT_ONCE
    routes = [entered(cache, (b"x", b"%d" % number)) for number in range(2 * EVICTED_AT_ONCE + 1)]
    assert [route.is_valid for route in routes] == [False] * EVICTED_AT_ONCE + [True] * (EVICTED_AT_ONCE + 1)


def test_heavy_routes_count_for_more() -> None:
    cache = RouteCache()
    cache.weight_max = 100
    light, heavy = entered(cache, (b"x", b"a")), entered(cache, (b"x", b"b"), weight=100)
    assert (light.is_valid, heavy.is_valid, cache.weight) == (False, True, 100)


def test_clearing_drops_everything() -> None:
    cache = RouteCache()
    routes = [entered(cache, (b"x", b"a")), entered(cache, (b"y", b""))]
    changes = cache.changes
    cache.clear()
    assert not any(route.is_valid for route in routes)
    assert (cache.routes, cache.exchanges, cache.weight) == ({}, {}, 0)
    assert cache.changes > changes


# ---- what the bindings of each kind of exchange do


def make(bindings: Bindings, name: bytes, kind: bytes) -> None:
    bindings.add_exchange(make_exchange(kind, name, True, False, False, {}))


@pytest.mark.parametrize(
    ("kind", "key", "kept"),
    [(b"direct", b"k", True), (b"topic", b"k.#", True), (b"fanout", b"", False), (b"headers", b"", False)],
)
def test_a_binding_drops_what_it_matters_for(kind: bytes, key: bytes, kept: bool) -> None:
    bindings = Bindings(b"/")
    make(bindings, b"x", kind)
    changes: list[Callable[[], object]] = [
        lambda: bindings.bind(b"x", 1, key, {}),
        lambda: bindings.unbind(b"x", 1, key, {}),
        lambda: bindings.bind(b"x", 1, key, {}),
        lambda: bindings.remove_destination(1),
    ]
    for change in changes:
        has_keys = kind in {b"direct", b"topic"}
        route = entered(bindings.routes, (b"x", b"k" if has_keys else b""))
        other = entered(bindings.routes, (b"x", b"other" if has_keys else b""))
        change()
        assert (route.is_valid, other.is_valid) == (False, kept)


def test_a_binding_that_is_there_already_drops_nothing() -> None:
    bindings = Bindings(b"/")
    make(bindings, b"x", b"direct")
    bindings.bind(b"x", 1, b"k", {})
    route = entered(bindings.routes, (b"x", b"k"))
    bindings.bind(b"x", 1, b"k", {})
    bindings.unbind(b"x", 2, b"k", {})
    assert route.is_valid


def test_an_exchange_that_comes_or_goes_drops_what_passes_it() -> None:
    bindings = Bindings(b"/")
    make(bindings, b"y", b"topic")
    awaits = entered(bindings.routes, (b"x", b""))  # its alternate was not there
    make(bindings, b"x", b"direct")
    assert not awaits.is_valid
    bindings.bind(b"y", bindings.exchange(b"x").number, b"a.*", {})
    through, beside, passes = (entered(bindings.routes, each) for each in ((b"y", b"a/b"), (b"y", b"b"), (b"x", b"k")))
    bindings.remove_exchange(b"x")
    assert (through.is_valid, beside.is_valid, passes.is_valid) == (False, True, False)
