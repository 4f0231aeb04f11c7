"""A transaction of AMQP 0.9.1: it holds publishes, and what settles deliveries, back until its commit.

All of it is done in one turn, and so is in one frame of the write-ahead log: after a crash all of it is there, or
nothing. A commit that would be refused is refused before any of it is done.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64, u8

from forebay.broker.internal_log import RECORD_OVERHEAD
from forebay.broker.publish.commands import MESSAGE
from forebay.broker.publish.headers import PublishHeaders, route_with_headers
from forebay.broker.publish.router import Route
from forebay.broker.vhost import Vhost
from forebay.core.errors import PRECONDITION, RequestError
from forebay.session.shared.target import PublishTarget


@final
class HeldPublish:
    """One publish."""

    def __init__(
        self, target: PublishTarget, headers: PublishHeaders | None, format: u8, properties: bytes, body: bytes
    ) -> None:
        self.target = target
        self.headers = headers
        self.format = format
        self.properties = properties
        self.body = body

    def route(self, vhost: Vhost) -> Route | None:
        """The route that it will take; None if its time is yet to come."""
        route = self.target.route
        if self.target.command == MESSAGE and self.headers is not None:
            if self.headers.is_delayed():
                return None
            return route_with_headers(vhost.publishing, route, self.headers, self.format)
        return route if route.headers_exchange is None else vhost.router.resolve(route, self.format, self.properties)

    def octets(self) -> i64:
        """The octets that it takes on the disk, at most."""
        route = self.target.route
        each = len(self.properties) + len(self.body) + RECORD_OVERHEAD + len(route.exchange) + len(route.routing_key)
        copies = max(route.durable, 1)
        if self.headers is not None:
            copies += len(self.headers.keys) + 2  # a record for each of its keys, and those that name it
        return each * copies


@final
class HeldSettlement:
    """One basic.ack, basic.nack or basic.reject."""

    def __init__(self, tag: i64, multiple: bool, how: i64) -> None:
        self.tag: i64 = tag
        self.multiple = multiple
        self.how: i64 = how


@final
class Transaction:
    """The transaction of one channel.

    octets_max  of the publishes held back
    found       publishes of which the commit has found the target
    floor       tags up to here that were outstanding are settled by the commit, and so are those in `tags`
    """

    def __init__(self, octets_max: i64) -> None:
        self.octets_max: i64 = octets_max
        self.octets: i64 = 0
        self.found: i64 = 0
        self.held: list[HeldPublish] = []
        self.settlements: list[HeldSettlement] = []
        self.floor: i64 = 0
        self.tags: set[int] = set()

    def publish(self, held: HeldPublish) -> None:
        """Hold a publish back; RequestError where there are too many."""
        self.octets += len(held.properties) + len(held.body)
        if self.octets > self.octets_max:
            raise RequestError(
                PRECONDITION, f"transaction is larger than transaction_octets_max {self.octets_max} before its commit"
            )
        self.held.append(held)

    def is_welcome(self, vhost: Vhost) -> bool:
        """True if disk and queues have room for all that is held back."""
        octets: i64 = 0
        delayed: i64 = 0
        messages: dict[int, int] = {}
        lengths: dict[int, int] = {}
        for held in self.held:
            octets += held.octets()
            route = held.route(vhost)
            if route is None:
                delayed += 1
                continue
            if vhost.common.crowding.refusing and vhost.admission.over_quota(route) is not None:
                return False
            for queue in route.queues:
                if queue.limits.refuses:
                    id = int(queue.id)
                    if queue.refuses(len(held.body), messages.get(id, 0), lengths.get(id, 0)):
                        return False
                    messages[id] = messages.get(id, 0) + 1
                    lengths[id] = lengths.get(id, 0) + len(held.body)
        return vhost.admission.has_room(octets) and (delayed == 0 or vhost.delayed.has_places(delayed))

    def settles(self, tag: i64) -> bool:
        """True if the commit settles this tag."""
        return tag <= self.floor or int(tag) in self.tags

    def settle(self, tag: i64, multiple: bool, how: i64) -> None:
        """Hold back what settles an outstanding tag; RequestError if something does already."""
        if self.settles(tag):
            raise RequestError(PRECONDITION, f"unknown delivery tag {tag}")
        self.settlements.append(HeldSettlement(tag, multiple, how))
        if multiple:
            self.floor = tag
        else:
            self.tags.add(int(tag))

    def clear(self) -> None:
        """Begin anew."""
        self.octets = 0
        self.held = []
        self.settlements = []
        self.floor = 0
        self.tags = set()
