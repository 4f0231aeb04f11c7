"""Routes: the queues and subscribers that an address leads to, and what a search for them has come upon."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.mqtt.audience import Audience
from forebay.broker.mqtt.fanout import AudienceSearch, Fanout
from forebay.message.annotations import ORIGIN, with_number
from forebay.queue.queue import Queue
from forebay.routing.exchange import Exchange
from forebay.routing.flow import ExchangeCounts
from forebay.routing.route_cache import CachedRoute

COUNTED_MIN: Final = 100  # points above which a publish counts


@final
class Copy:
    """Subscribers of MQTT whom a further routing key of a message reaches, and not that of its address.

    They get it under that key: it is the topic that they know, and by which they are found again after a crash.
    """

    def __init__(self, key: bytes, audience: Audience) -> None:
        self.key = key
        self.audience = audience


@final
class Route(CachedRoute):
    """The queues and subscribers that one address leads to, for as long as it is valid.

    headers_exchange  not None: the destinations depend on the message's content, see `Router.resolve`
    publisher         annotations of its records in shared subscriptions, some of which go by the publisher
    client_number     of the client that gets nothing of its own by subscriptions that say so; 0 for none
    origin            annotations of its records in the log of sessions
    reach             to how many queues and subscribers
    is_wide           what is published is delivered to subscribers over several turns
    is_counted        a publish leads to so much that it counts, with `points`
    is_personal       another publisher has another route
    fanout            remembers the audience while the route is valid
    flow              counters of the exchange to which messages are published
    """

    def __init__(self, exchange: bytes, routing_key: bytes, queues: list[Queue], audience: Audience | None) -> None:
        super().__init__()
        self.exchange = exchange
        self.routing_key = routing_key
        self.queues = queues
        self.audience = audience
        self.copies: list[Copy] = []
        self.headers_exchange: Exchange | None = None
        self.publisher = b""
        self.client_number: i64 = 0
        self.origin = b""
        self.reach: i64 = len(queues)
        self.is_personal = False
        self.fanout: Fanout | None = None
        self.is_wide = False
        self.flow = ExchangeCounts()  # nobody's, where none is put in its place
        self.durable: i64 = 0  # destinations that write to disk
        for queue in queues:
            if queue.log.durable:
                self.durable += 1
        if audience is not None:
            self.reach += len(audience.direct) + len(audience.logged)
            if audience.logged or audience.zero.logged:
                self.durable += 1
            self.is_wide = audience.is_wide()
        self.points: i64 = (self.reach + 3 * i64(len(queues))) >> 1
        self.is_counted = self.points > COUNTED_MIN

    def dropped(self) -> None:
        """Let the fanout forget the audience, unless another route leads to it."""
        if self.fanout is not None and self.audience is not None:
            self.fanout.release(self.audience)

    def note_origin(self, way: Way) -> None:
        """Note who has published, where that matters to a subscription."""
        if way.has_no_local and way.publisher:
            self.client_number = way.publisher
            self.origin = with_number(b"", ORIGIN, way.publisher)


@final
class Way:
    """The places that a message has come upon on its way through exchanges.

    by_mqtt        it was published on an MQTT topic
    queues         by number, each once, in the order in which they were found
    subscriptions  those of MQTT, by number, with the routing key that reached them
    audience       the search for the subscriptions of MQTT instead, where they are many
    publisher      number of the client that publishes; 0 for nobody
    has_no_local   one of the subscriptions wants nothing that its own client has published
    is_open        an exchange goes by the content, and there was none to go by: the rest means nothing
    exchanges      names of those that it passed, and of alternates that are not there
    """

    def __init__(self, by_mqtt: bool, publisher: i64) -> None:
        self.by_mqtt = by_mqtt
        self.publisher: i64 = publisher
        self.audience: AudienceSearch | None = None
        self.has_no_local = False
        self.visited: dict[int, None] = {}
        self.queues: dict[int, None] = {}
        self.subscriptions: dict[int, bytes] = {}
        self.is_open = False
        self.exchanges: dict[bytes, None] = {}

    def has_subscribers(self) -> bool:
        """Return whether a subscription of MQTT matches."""
        return bool(self.subscriptions) or (self.audience is not None and bool(self.audience.search.found))
