"""The exchanges of one vhost and all bindings from them: who is bound to what, and what goes when somebody goes.

An exchange knows its own bindings; this table knows in which exchanges a destination is bound, so that a queue's end
costs its own bindings and not a look at every exchange. A destination is a positive number, or the negative one that
an exchange gets here: so a binding may lead from one exchange to another.
"""

from __future__ import annotations

from typing import final

from forebay.core.errors import NOT_FOUND, RequestError
from forebay.routing.exchange import Binding, DirectExchange, Exchange, TopicExchange, exchange_octets, text
from forebay.routing.route_cache import RouteCache
from forebay.routing.topic_trie import swap_key


@final
class Bindings:
    """All exchanges and bindings of a vhost.

    Where a binding goes, the answer is the names of the auto-delete exchanges that lost their last one and have to be
    deleted now (`remove_exchange`, which may name more): deleting an exchange has consequences elsewhere, so it is not
    done here.

    octets  estimated memory of all exchanges and bindings
    routes  what is remembered of them, which each change here corrects
    """

    def __init__(self, vhost: bytes) -> None:
        self.vhost = vhost
        self.routes = RouteCache()
        self.exchanges: dict[bytes, Exchange] = {}
        self.by_number: dict[int, Exchange] = {}
        self.last_number = 0
        self.octets = 0
        self.places: dict[int, dict[bytes, None]] = {}  # destination -> exchanges in which it is bound

    def add_exchange(self, exchange: Exchange) -> None:
        assert exchange.name not in self.exchanges
        self.last_number -= 1
        exchange.number = self.last_number
        self.exchanges[exchange.name] = exchange
        self.by_number[exchange.number] = exchange
        self.octets += exchange_octets(exchange.name, exchange.arguments)
        self.routes.drop_exchange(exchange.name)  # it may be the alternate of others

    def exchange(self, name: bytes) -> Exchange:
        """Return the exchange of a name. Raises RequestError if there is none."""
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise RequestError(NOT_FOUND, f"no exchange '{text(name)}' in vhost '{text(self.vhost)}'")
        return exchange

    def remove_exchange(self, name: bytes) -> list[bytes]:
        """Take an exchange away with the bindings from it and to it, if there is one; the auto-delete exchanges to
        delete."""
        exchange = self.exchanges.pop(name, None)
        if exchange is None:
            return []
        self.octets -= exchange.binding_octets + exchange_octets(name, exchange.arguments)
        for destination in list(exchange.bindings):
            exchange.remove_destination(destination)
            self.leave(exchange, destination)
        orphans = self.remove_destination(exchange.number)
        del self.by_number[exchange.number]
        self.routes.drop_exchange(name)
        return orphans

    def bind(
        self, exchange: bytes, destination: int, routing_key: bytes, arguments: dict[str, object], label: bytes = b""
    ) -> bool:
        """Add a binding; False if there is the same one already, RequestError if exchange or arguments are wrong.

        label  the destination's name
        """
        where = self.exchange(exchange)
        before = where.binding_octets
        added = where.bind(destination, routing_key, arguments, label)
        if added:
            self.octets += where.binding_octets - before
            places = self.places.get(destination)
            if places is None:
                places = self.places[destination] = {}
            places[exchange] = None
            self.drop_routes(where, routing_key)
        return added

    def has(self, exchange: bytes, destination: int, routing_key: bytes, arguments: dict[str, object]) -> bool:
        """Return whether there is such a binding."""
        return self.exchange(exchange).has(destination, routing_key, arguments)

    def unbind(
        self, exchange: bytes, destination: int, routing_key: bytes, arguments: dict[str, object]
    ) -> list[bytes]:
        """Take a binding away, if there is one; the auto-delete exchanges to delete."""
        where = self.exchange(exchange)
        before = where.binding_octets
        if not where.unbind(destination, routing_key, arguments):
            return []
        self.octets += where.binding_octets - before
        self.leave(where, destination)
        self.drop_routes(where, routing_key)
        return [exchange] if where.auto_delete and where.is_unused() else []

    def remove_destination(self, destination: int) -> list[bytes]:
        """Take all bindings to a destination away; the auto-delete exchanges to delete."""
        orphans: list[bytes] = []
        for name in self.places.pop(destination, {}):
            exchange = self.exchanges[name]
            before = exchange.binding_octets
            for binding in exchange.bindings[destination].values():
                self.drop_routes(exchange, binding.routing_key)
            exchange.remove_destination(destination)
            self.octets += exchange.binding_octets - before
            if exchange.auto_delete and exchange.is_unused():
                orphans.append(name)
        return orphans

    def drop_routes(self, exchange: Exchange, routing_key: bytes) -> None:
        """Drop the remembered routes for which a binding with this key matters, as it comes or goes."""
        if isinstance(exchange, TopicExchange):
            self.routes.drop_matching(exchange.name, swap_key(routing_key), False)
        elif isinstance(exchange, DirectExchange):
            self.routes.drop_key(exchange.name, routing_key)
        else:
            self.routes.drop_exchange(exchange.name)

    def leave(self, exchange: Exchange, destination: int) -> None:
        """Note that a destination may have lost its last binding in an exchange."""
        places = self.places.get(destination)
        if places is None or destination in exchange.bindings:
            return
        places.pop(exchange.name, None)
        if not places:
            del self.places[destination]

    def list_all(self) -> list[Binding]:
        """All bindings, by exchange in the order of declaration."""
        found: list[Binding] = []
        for exchange in self.exchanges.values():
            found.extend(exchange.list_bindings())
        return found

    def list_exchange(self, name: bytes) -> list[Binding]:
        """Return the bindings from an exchange. Raises RequestError if there is no such exchange."""
        return self.exchange(name).list_bindings()

    def list_destination(self, destination: int) -> list[Binding]:
        """Return the bindings to a destination, by exchange in the order of the first binding from each."""
        found: list[Binding] = []
        for name in self.places.get(destination, {}):
            found.extend(self.exchanges[name].bindings[destination].values())
        return found
