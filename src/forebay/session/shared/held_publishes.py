"""Publishes that a transaction holds back until its commit.

All of them are done in one turn, and so are in one frame of the write-ahead log: after a crash all of them are there,
or none. A commit that would be refused is refused before any of it is done.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.contract import VhostContract
from forebay.broker.internal_log import RECORD_OVERHEAD
from forebay.broker.publish.commands import MESSAGE
from forebay.broker.publish.headers import PublishHeaders
from forebay.broker.publish.route import Route
from forebay.core.errors import PRECONDITION, RequestError
from forebay.session.shared.target import PublishTarget

HELD_OCTETS: Final = 256  # of memory that one publish, or one settlement, takes beside its octets
HEADERS_OCTETS: Final = 512  # of memory that the headers of one publish take beside theirs


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

    def route(self, vhost: VhostContract) -> Route | None:
        """The route that it will take; None if its time is yet to come."""
        route = self.target.route
        if self.target.command == MESSAGE and self.headers is not None:
            if self.headers.is_delayed():
                return None
            return vhost.messages.route_with_headers(route, self.headers, self.format)
        return route if route.headers_exchange is None else vhost.routes.resolve(route, self.format, self.properties)

    def memory_octets(self) -> i64:
        """Return the bytes of memory that the publish takes until the commit."""
        octets = HELD_OCTETS + i64(len(self.properties)) + i64(len(self.body))
        headers = self.headers
        if headers is not None:
            octets += HEADERS_OCTETS + i64(len(headers.properties)) + i64(len(headers.delayed))
            for key in headers.keys:
                octets += HELD_OCTETS + i64(len(key))
        return octets

    def octets(self) -> i64:
        """The octets that it takes on the disk, at most."""
        route = self.target.route
        each = len(self.properties) + len(self.body) + RECORD_OVERHEAD + len(route.exchange) + len(route.routing_key)
        copies = max(route.durable, 1)
        if self.headers is not None:
            copies += len(self.headers.keys) + 2  # a record for each of its keys, and those that name it
        return each * copies


@final
class HeldPublishes:
    """The publishes of one transaction, and the memory that all of it takes.

    octets_max  of that memory
    found       publishes of which the commit has found the target
    """

    def __init__(self, octets_max: i64) -> None:
        self.octets_max: i64 = octets_max
        self.octets: i64 = 0
        self.found: i64 = 0
        self.held: list[HeldPublish] = []

    def publish(self, held: HeldPublish) -> None:
        """Hold a publish back. Raises RequestError if the transaction would grow too large."""
        self.charge(held.memory_octets())
        self.held.append(held)

    def charge(self, octets: i64) -> None:
        """Count memory that the transaction takes. Raises RequestError if that is too much for one."""
        self.octets += octets
        if self.octets > self.octets_max:
            raise RequestError(
                PRECONDITION, f"transaction is larger than transaction_octets_max {self.octets_max} before its commit"
            )

    def is_welcome(self, vhost: VhostContract) -> bool:
        """Return whether disk and queues have room for all that is held back."""
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
            if vhost.refuses(route):
                return False
            for queue in route.queues:
                if queue.limits.refuses:
                    id = int(queue.id)
                    if queue.refuses(len(held.body), messages.get(id, 0), lengths.get(id, 0)):
                        return False
                    messages[id] = messages.get(id, 0) + 1
                    lengths[id] = lengths.get(id, 0) + len(held.body)
        return vhost.has_room(octets) and (delayed == 0 or vhost.delayed.has_places(delayed))

    def clear(self) -> None:
        """Begin anew."""
        self.octets = 0
        self.found = 0
        self.held = []
