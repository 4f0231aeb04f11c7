"""The router: a publish goes from exchange to exchange, and to queues and subscribers in the end.

A message goes the ways of all bindings that fit it, through as many exchanges as they lead to; an exchange that leads
it nowhere hands it to its alternate. Each exchange is visited once and each queue gets the message once, however many
ways lead there: so cycles end, and the cost is that of the exchanges on the way.

Most ways depend on the address alone: they are found once, and remembered (`routing/route_cache.py`) until something on
them changes. An exchange that goes by the content leaves the way open (`Route.headers_exchange`) until there is a
message.

A way that takes long to find is found in parts: whoever publishes gives the `WorkInHand` of its connection, and asks
again in the next turn where that raises Later. Without it nothing is cut.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.catalog.addressed import make_addressed
from forebay.broker.catalog.catalog import Catalog
from forebay.broker.mqtt.audience import Audience
from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.mqtt.fanout import AudienceSearch, Fanout
from forebay.broker.publish.publishing_contract import RoutingContract
from forebay.broker.publish.route import Copy, Route, Way
from forebay.core.errors import REFUSED, RequestError
from forebay.core.message import Properties
from forebay.core.options import Options
from forebay.message.address import TOPIC_EXCHANGE, Addresses, queue_address
from forebay.message.annotations import PUBLISHER, with_annotation
from forebay.message.formats.table import format_of
from forebay.queue.queue import SHARE, Queue
from forebay.routing.cut_work import WorkInHand
from forebay.routing.exchange import DirectExchange, Exchange, TopicExchange, text
from forebay.routing.hash_exchange import HashExchange
from forebay.routing.headers_exchange import HeadersExchange
from forebay.routing.route_cache import RouteCache
from forebay.routing.topic_trie import check_topic, find_destinations, swap_key

QUEUE_PREFIX: Final = b"$queue/"
SYS_PREFIX: Final = b"$SYS."
SYS_TOPICS: Final = b"$SYS/"
REMEMBERED_OCTETS_MAX: Final = 512  # of properties and topics; longer ones are seldom the same twice


@final
class Router(RoutingContract):
    """The ways from addresses to queues and subscribers, as the catalog and the subscriptions have them now.

    addresses       what using an address does
    address_queues  what the first use of `$queue/<name>` makes, of at most `address_queues_max` queues
    """

    def __init__(self, catalog: Catalog, fanout: Fanout, options: Options) -> None:
        self.catalog = catalog
        self.fanout = fanout
        self.uncut = WorkInHand(None)
        self.address_queues = options.address_queues
        self.address_queues_max: i64 = options.address_queues_max
        self.addresses: Addresses = RoutedAddresses(self)
        self.routes: RouteCache = catalog.bindings.routes

    # ---- addresses

    def route(self, exchange: bytes, routing_key: bytes, work: WorkInHand | None = None) -> Route:
        """Return the route of an AMQP address. Raises RequestError if nobody can publish there."""
        known = self.remembered((exchange, routing_key))
        if known is None:
            known = self.find_route(exchange, [routing_key], None, work)
            self.remember((exchange, routing_key), known, work)
        return known

    def command_route(self, routing_key: bytes, queue: bytes) -> Route:
        """The route of a command to the broker, which comes through the default exchange and may be about a queue."""
        known = self.remembered((routing_key, queue, True))
        if known is None:
            known = Route(b"", routing_key, [], None)
            known.places = [(b"", queue)]
            self.remember((routing_key, queue, True), known, None)
        return known

    def remembered(self, address: object) -> Route | None:
        """Return the cached route of an address, or None if it is not cached."""
        known = self.routes.get(address)
        if known is None:
            return None
        assert isinstance(known, Route)
        return known

    def remember(self, address: object, route: Route, work: WorkInHand | None) -> None:
        """Remember a route, unless something has changed while it was found: then it is good for one message."""
        if work is not None and work.is_stale(self.routes.changes):
            return
        audience = route.audience
        is_shared = audience is not None and audience.routes > 0
        route.weight = 1 if is_shared else 1 + route.reach
        if audience is not None:
            route.fanout = self.fanout
            self.fanout.hold(audience)
        self.routes.add(address, route)

    def find_route(
        self, exchange: bytes, keys: list[bytes], content: Properties | None, work: WorkInHand | None = None
    ) -> Route:
        if not exchange:
            return self.direct_route(keys)
        where = self.catalog.check_exchange(exchange)
        if where.internal:
            raise RequestError(
                REFUSED, f"cannot publish to internal exchange '{text(exchange)}' in vhost '{text(self.catalog.name)}'"
            )
        if where is self.catalog.topics:
            for key in keys:
                if key.startswith(SYS_PREFIX):
                    raise RequestError(REFUSED, f"routing key '{text(key)}': only the broker publishes below $SYS")
        way = self.follow(where, keys, content, False, work)
        if way.is_open:
            route = Route(exchange, keys[0], [], None)
            route.headers_exchange = where
        else:
            route = self.route_of(way, exchange, keys)
        route.flow = where.flow
        route.places = self.places(way, keys)
        return route

    def direct_route(self, keys: list[bytes]) -> Route:
        """Return the route through the default exchange to the queues that the keys name."""
        route = Route(b"", keys[0], self.addressed(keys), None)
        route.flow = self.catalog.bindings.exchange(b"").flow
        for key in keys:
            route.places += places_of_key(key)
        return route

    def places(self, way: Way, keys: list[bytes]) -> list[tuple[bytes, bytes]]:
        """The places that a message with these routing keys passed on its way."""
        found: list[tuple[bytes, bytes]] = []
        for name in way.exchanges:
            exchange = self.catalog.bindings.exchanges.get(name)
            if isinstance(exchange, TopicExchange):
                for key in keys:
                    found.append((name, swap_key(key)))
            elif not name:
                for key in keys:
                    found += places_of_key(key)
            elif isinstance(exchange, DirectExchange):
                for key in keys:
                    found.append((name, key))
            else:
                found.append((name, b""))
        return found

    def route_of(self, way: Way, exchange: bytes, keys: list[bytes]) -> Route:
        """The route that a way makes for a message with these routing keys."""
        if len(keys) == 1 or not way.subscriptions:
            return Route(exchange, keys[0], self.queues_of(way), self.audience_of(way))
        reached: dict[bytes, list[int]] = {}
        for number, reached_by in way.subscriptions.items():
            reached.setdefault(reached_by, []).append(number)
        served: set[int] = set()  # clients: each gets one copy
        audiences: list[Audience | None] = []
        for key in keys:
            mine: list[int] = []
            for number in reached.pop(key, []):
                if int(self.fanout.subscriptions[number].client.number) not in served:
                    mine.append(number)
            for number in mine:
                served.add(int(self.fanout.subscriptions[number].client.number))
            audiences.append(self.fanout.audience_of(mine, 0))
        route = Route(exchange, keys[0], self.queues_of(way), audiences[0])
        for index in range(1, len(keys)):
            audience = audiences[index]
            if audience is not None:
                route.copies.append(Copy(keys[index], audience))
                route.durable += len(audience.logged)
        return route

    def audience_of(self, way: Way) -> Audience | None:
        """Return the subscribers that a way has come upon; None for nobody."""
        search = way.audience
        if search is not None:
            way.has_no_local = search.has_no_local
            return search.audience()
        ids = list(way.subscriptions)
        way.has_no_local = self.fanout.has_no_local(ids)
        return self.fanout.audience_of(ids, way.publisher if way.has_no_local else 0)

    def addressed(self, keys: list[bytes]) -> list[Queue]:
        """Return the queues that these keys of the default exchange name, each once."""
        found: list[Queue] = []
        for key in keys:
            if key.startswith(QUEUE_PREFIX):
                for queue in self.queues_at(key):
                    if queue not in found:
                        found.append(queue)
                continue
            named = self.named_queue(key)
            if named is not None and named not in found:
                found.append(named)
        return found

    def route_topic(self, topic: bytes, client: ClientSession | None, work: WorkInHand | None = None) -> Route:
        """Return the route of a publish by this client to an MQTT topic. Raises RequestError(INVALID)."""
        number: i64 = 0 if client is None else client.number
        known = self.remembered((topic, 0))
        if client is not None and (known is None or known.is_personal):
            known = self.remembered((topic, int(number)))
        if known is not None:
            return known
        check_topic(topic)
        route = self.find_topic_route(topic, number, work)
        for queue in route.queues:
            if queue.kind == SHARE:
                route.is_personal = True  # its records name the publisher
        if route.is_personal and client is not None:
            route.publisher = with_annotation(b"", PUBLISHER, client.client_id)
        if len(topic) <= REMEMBERED_OCTETS_MAX:
            self.remember((topic, int(number) if route.is_personal else 0), route, work)
        return route

    def find_topic_route(self, topic: bytes, number: i64, work: WorkInHand | None) -> Route:
        """Find the route of a checked topic when the client of this number publishes to it; 0 for none."""
        if topic.startswith(QUEUE_PREFIX):
            if work is not None and not work.parts:
                work.changes = self.routes.changes
            route = Route(TOPIC_EXCHANGE, topic, self.queues_at(topic, work), None)
            route.flow = self.catalog.topics.flow
            route.places = places_of_key(topic)
            return route
        way = self.follow(self.catalog.topics, [swap_key(topic)], None, True, work, number)
        if way.is_open:
            route = Route(TOPIC_EXCHANGE, topic, [], None)
            route.headers_exchange = self.catalog.topics
            route.client_number = number  # whether it matters to anybody, `resolve` finds out
            route.is_personal = True
        else:
            route = Route(TOPIC_EXCHANGE, topic, self.queues_of(way), self.audience_of(way))
            route.note_origin(way)
            route.is_personal = way.has_no_local
        if not topic.startswith(SYS_TOPICS):  # what the broker says of itself is no client's publish
            route.flow = self.catalog.topics.flow
        route.places = self.places(way, [swap_key(topic)])
        return route

    def addressed_queue(self, name: bytes) -> Queue:
        """The queue of `$queue/<name>`, made because somebody uses it; RequestError where that may not be."""
        return make_addressed(self.catalog, name, self.address_queues, int(self.address_queues_max))

    def queues_at(self, address: bytes, work: WorkInHand | None = None) -> list[Queue]:
        """The queues that a publish to `$queue/<name>[/key]` lands in: there is always one."""
        name, _ = queue_address(address)
        numbers = find_destinations(self.catalog.topics.trie, [address], True, work or self.uncut)
        found = [self.catalog.queues_by_id[number] for number in numbers if number in self.catalog.queues_by_id]
        named = self.named_queue(name)
        if named is not None and named not in found:
            found.insert(0, named)
        if not found:
            found.append(self.addressed_queue(name) if self.catalog.fallback is None else self.catalog.fallback)
        return found

    def named_queue(self, name: bytes) -> Queue | None:
        """Return the queue that takes what is published to a name; RequestError if that is a view without one."""
        queue = self.catalog.queues.get(name)
        return self.catalog.publish_target(queue) if queue is not None and queue.is_view else queue

    def queues_of(self, way: Way) -> list[Queue]:
        known = self.catalog.queues_by_id
        return [known[number] for number in way.queues if number in known]  # some may have gone while others were found

    # ---- what depends on the content

    def route_all(
        self, exchange: bytes, keys: list[bytes], format: u8, properties: bytes, work: WorkInHand | None = None
    ) -> Route:
        """The route of a message that has several routing keys, of which the first is that of its address."""
        address = (exchange, tuple(keys), properties)
        known = self.remembered(address)
        if known is None:
            known = self.find_route(exchange, keys, format_of(i64(format)).decode(properties), work)
            self.remember_content(address, known, work)
        return known

    def resolve(self, route: Route, format: u8, properties: bytes, work: WorkInHand | None = None) -> Route:
        """The route of one message whose destinations depend on its content."""
        if format_of(i64(format)).keys_are_topics:
            return self.resolve_anew(route, format, properties, work)
        address = (route.exchange, (route.routing_key,), properties)
        known = self.remembered(address)
        if known is None:
            known = self.resolve_anew(route, format, properties, work)
            self.remember_content(address, known, work)
        return known

    def remember_content(
        self, address: tuple[bytes, tuple[bytes, ...], bytes], route: Route, work: WorkInHand | None
    ) -> None:
        """Remember the route of AMQP messages of one address and the same properties: publishers repeat themselves."""
        if len(address[2]) <= REMEMBERED_OCTETS_MAX:
            self.remember(address, route, work)

    def resolve_anew(self, route: Route, format: u8, properties: bytes, work: WorkInHand | None) -> Route:
        where = route.headers_exchange
        assert where is not None
        published = format_of(i64(format))
        key = swap_key(route.routing_key) if published.keys_are_topics else route.routing_key
        way = self.follow(
            where, [key], published.decode(properties), published.keys_are_topics, work, route.client_number
        )
        found = Route(route.exchange, route.routing_key, self.queues_of(way), self.audience_of(way))
        found.flow = route.flow
        found.publisher = route.publisher
        found.note_origin(way)
        found.places = self.places(way, [key])
        return found

    # ---- from exchange to exchange

    def follow(
        self,
        start: Exchange,
        keys: list[bytes],
        content: Properties | None,
        by_mqtt: bool,
        work: WorkInHand | None = None,
        publisher: i64 = 0,
    ) -> Way:
        """All that a message with these routing keys comes upon from an exchange on."""
        if work is None:
            work = self.uncut
        if not work.parts:
            work.changes = self.routes.changes
        way = Way(by_mqtt, publisher)
        way.visited[start.number] = None
        ahead = [start]
        while ahead:
            where = ahead.pop()
            way.exchanges[where.name] = None
            if where.by_content and content is None:
                way.is_open = True
                return way
            found = self.destinations(where, keys, content, way, work)
            if (
                not found
                and where.alternate is not None
                and not (where is self.catalog.topics and way.has_subscribers())
            ):
                alternate = self.catalog.bindings.exchanges.get(where.alternate)
                if alternate is not None:
                    found.append(alternate.number)
                else:
                    way.exchanges[where.alternate] = None
            for number in found:
                if number > 0:
                    way.queues[number] = None
                elif number not in way.visited:
                    way.visited[number] = None
                    following = self.catalog.bindings.by_number.get(number)
                    if following is not None:
                        ahead.append(following)
        return way

    def destinations(
        self, where: Exchange, keys: list[bytes], content: Properties | None, way: Way, work: WorkInHand
    ) -> list[int]:
        """The route of a message with these routing keys through an exchange."""
        if where is self.catalog.topics:
            return self.topic_destinations(keys, way, work)
        if isinstance(where, TopicExchange):
            return list(find_destinations(where.trie, [swap_key(key) for key in keys], False, work))
        if not where.name:
            return [int(queue.id) for queue in self.addressed(keys)]
        if isinstance(where, HashExchange):
            return where.pick(where.value_of(keys[0], content))
        if content is not None and where.by_content:
            matching = where.route(keys[0], content.headers)
            if isinstance(where, HeadersExchange):
                work.take_at_once(where.spent)
            return matching
        if len(keys) == 1:
            one = where.route(keys[0], [])
            work.take_at_once(len(one))
            return one
        found: dict[int, None] = {}
        for key in keys:
            for number in where.route(key, []):
                found[number] = None
        return list(found)

    def topic_destinations(self, keys: list[bytes], way: Way, work: WorkInHand) -> list[int]:
        """The route through amq.topic; the subscriptions of MQTT are noted in the way."""
        topics: list[bytes] = []
        for key in keys:
            if way.by_mqtt or not key.startswith(SYS_PREFIX):
                topics.append(swap_key(key))  # another exchange led here: still only the broker publishes below $SYS
        found = list(find_destinations(self.catalog.topics.trie, topics, way.by_mqtt, work))
        if len(topics) == 1:
            self.find_subscribers(topics[0], way, work)
            return found
        subscriptions = self.fanout.subscriptions
        for number, topic in find_destinations(self.fanout.trie, topics, True, work).items():
            if number in subscriptions:
                way.subscriptions[number] = swap_key(topic)
        return found

    def find_subscribers(self, topic: bytes, way: Way, work: WorkInHand) -> None:
        """Note in the way which subscriptions of MQTT match a topic, or the audience that they make."""
        fanout = self.fanout
        search = work.parts.get((fanout, topic)) if work.parts else None
        if search is None:
            numbers = fanout.trie.match_within(topic, True, work.at_once)
            work.take_at_once(fanout.trie.spent)
            if numbers is not None:
                key = swap_key(topic)
                for number in numbers:
                    way.subscriptions[number] = key
                return
            search = AudienceSearch(fanout, topic, way.publisher)
            work.parts[fanout, topic] = search
        assert isinstance(search, AudienceSearch)
        way.audience = search
        work.advance(search)


def places_of_key(key: bytes) -> list[tuple[bytes, bytes]]:
    """The places that a message passes which is published with this key to the default exchange."""
    if key.startswith(QUEUE_PREFIX):
        return [(b"", queue_address(key)[0]), (TOPIC_EXCHANGE, key)]
    return [(b"", key)]


@final
class RoutedAddresses(Addresses):
    """Tells which queue the use of an address of a vhost makes there."""

    def __init__(self, router: Router) -> None:
        self.router = router

    def makes(self, address: bytes, publishes: bool) -> bytes:
        name, _ = queue_address(address)
        catalog = self.router.catalog
        if name in catalog.queues:
            return b""
        if publishes and (catalog.fallback is not None or catalog.topics.route_topic(address, True)):
            return b""
        return name
