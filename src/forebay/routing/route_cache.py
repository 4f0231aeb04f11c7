"""The routes that a vhost remembers, for all protocols, each until something on its way changes.

A route is entered under its address and under the places that it passed: an exchange, and the key that it had there.

    binding, or subscription of MQTT      drops the routes that passed its exchange with a key that its pattern matches
    queue declared or deleted             drops those to its name, and those of its bindings
    exchange declared, deleted, governed  drops those that passed it, or would have passed it had it been there
    client connects or disconnects        drops those that its subscriptions match: none where it has no subscriptions

Who publishes keeps the route itself and looks at `is_valid`. A route that was dropped never becomes valid again: the
router finds another one.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.routing.topic_tree import TopicTree, TreeSearch

ROUTES_MAX: Final = 200_000
WEIGHT_MAX: Final = 2_000_000
EVICTED_AT_ONCE: Final = 1_000  # of the oldest, where there are too many
PLACES_MAX: Final = 64  # of one route; one that passed more is dropped by any change
SEARCH_STEPS: Final = 500  # for the routes that a wildcard matches; beyond it all of the exchange are dropped


class CachedRoute:
    """A route that the cache may hold.

    is_valid  the cache holds it: nothing on its way has changed
    address   names the route in the cache
    places    exchange and key of each step of its way
    weight    memory that it takes, in queues and subscribers; at least 1
    """

    def __init__(self) -> None:
        self.is_valid = False
        self.address: object = None
        self.places: list[tuple[bytes, bytes]] = []
        self.weight: i64 = 1

    def dropped(self) -> None:
        """Give back what the route shares with others: the cache holds it no more."""


@final
class ExchangeRoutes:
    """The routes that passed one exchange, by the key that they had there.

    tree   the keys by number, once a wildcard was looked for
    names  the keys of these numbers
    """

    def __init__(self) -> None:
        self.by_key: dict[bytes, dict[CachedRoute, None]] = {}
        self.tree: TopicTree | None = None
        self.names: dict[int, bytes] = {}
        self.last: i64 = 0

    def add(self, key: bytes, route: CachedRoute) -> None:
        """Add a route under a key."""
        routes = self.by_key.get(key)
        if routes is None:
            routes = self.by_key[key] = {}
            if self.tree is not None:
                self.number(self.tree, key)
        routes[route] = None

    def remove(self, key: bytes, route: CachedRoute) -> None:
        """Remove a route from those of a key."""
        routes = self.by_key.get(key)
        if routes is None:
            return
        routes.pop(route, None)
        if not routes:
            del self.by_key[key]
            if self.tree is not None:
                number = self.tree.get(key)
                assert number is not None, "each key has a number"
                self.tree.remove(key)
                del self.names[number]

    def number(self, tree: TopicTree, key: bytes) -> None:
        """Give a key the next number."""
        self.last += 1
        tree.set(key, self.last)
        self.names[int(self.last)] = key

    def matching(self, filter: bytes, dollar_rule: bool) -> list[bytes] | None:
        """Return the keys that a filter matches, and perhaps some that it does not; None if these are very many."""
        if b"+" not in filter and b"#" not in filter:
            return [filter] if filter in self.by_key else []
        tree = self.tree
        if tree is None:
            tree = self.tree = TopicTree()
            for key in self.by_key:
                self.number(tree, key)
        search = TreeSearch(tree, filter, dollar_rule)
        search.run(SEARCH_STEPS)
        return [self.names[number] for number in search.found] if search.done else None


@final
class RouteCache:
    """The routes of one vhost.

    changes  changes of the topology and of subscriptions so far
    dropped  routes that were dropped by them, or as there were too many
    wide     how often all routes of an exchange were dropped, as a filter matched very many
    routes_max, weight_max  of all routes together; beyond it the oldest go
    """

    def __init__(self) -> None:
        self.routes: dict[object, CachedRoute] = {}
        self.exchanges: dict[bytes, ExchangeRoutes] = {}
        self.by_any_change: dict[CachedRoute, None] = {}
        self.routes_max: i64 = ROUTES_MAX
        self.weight_max: i64 = WEIGHT_MAX
        self.weight: i64 = 0
        self.changes: i64 = 0
        self.dropped: i64 = 0
        self.wide: i64 = 0

    def get(self, address: object) -> CachedRoute | None:
        """Return the route of an address, or None if it has to be found."""
        return self.routes.get(address)

    def add(self, address: object, route: CachedRoute) -> None:
        """Hold a route, which is valid from now on, in place of any other of this address."""
        old = self.routes.get(address)
        if old is not None:
            self.drop(old)
        if len(self.routes) >= self.routes_max or self.weight + route.weight > self.weight_max:
            self.evict(route.weight)
        self.routes[address] = route
        self.weight += route.weight
        route.address = address
        route.is_valid = True
        if len(route.places) > PLACES_MAX:
            route.places = []
            self.by_any_change[route] = None
        for exchange, key in route.places:
            index = self.exchanges.get(exchange)
            if index is None:
                index = self.exchanges[exchange] = ExchangeRoutes()
            index.add(key, route)

    def evict(self, weight: i64) -> None:
        """Drop the oldest routes, and go on until there is room for one of this weight."""
        oldest = list(self.routes.values())
        at: i64 = 0
        while at < len(oldest) and (at < EVICTED_AT_ONCE or self.weight + weight > self.weight_max):
            self.drop(oldest[at])
            at += 1

    def drop(self, route: CachedRoute) -> None:
        """Drop a route, if that was not done before."""
        if not route.is_valid:
            return
        route.is_valid = False
        self.dropped += 1
        self.weight -= route.weight
        del self.routes[route.address]
        self.by_any_change.pop(route, None)
        for exchange, key in route.places:
            index = self.exchanges.get(exchange)
            if index is not None:
                index.remove(key, route)
                if not index.by_key:
                    del self.exchanges[exchange]
        route.places = []
        route.dropped()

    # ---- what changes

    def changed(self) -> None:
        """Count a change, and drop the routes that passed too much for anybody to say which change matters to them."""
        self.changes += 1
        if self.by_any_change:
            for route in list(self.by_any_change):
                self.drop(route)

    def drop_key(self, exchange: bytes, key: bytes) -> None:
        """Drop the routes that passed an exchange with this key."""
        self.changed()
        index = self.exchanges.get(exchange)
        if index is not None:
            self.drop_keys(index, [key])

    def drop_matching(self, exchange: bytes, filter: bytes, dollar_rule: bool) -> None:
        """Drop the routes that passed a topic exchange with a key that a filter matches, both in the form of MQTT.

        dollar_rule  a wildcard on the first level does not match a topic that begins with '$'
        """
        self.changed()
        index = self.exchanges.get(exchange)
        if index is None:
            return
        keys = index.matching(filter, dollar_rule)
        if keys is None:
            self.wide += 1
            self.drop_exchange(exchange)
        else:
            self.drop_keys(index, keys)

    def drop_keys(self, index: ExchangeRoutes, keys: list[bytes]) -> None:
        """Drop the routes under these keys of an exchange."""
        for key in keys:
            routes = index.by_key.get(key)
            if routes is not None:
                for route in list(routes):
                    self.drop(route)

    def drop_exchange(self, exchange: bytes) -> None:
        """Drop all routes that passed an exchange."""
        self.changed()
        index = self.exchanges.pop(exchange, None)
        if index is not None:
            for routes in index.by_key.values():
                for route in routes:
                    self.drop(route)

    def clear(self) -> None:
        """Drop all routes."""
        self.changed()
        self.exchanges = {}
        for route in list(self.routes.values()):
            self.drop(route)
