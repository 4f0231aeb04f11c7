"""The calls by which sessions publish, find ways, answer, and stage rows: parts of a vhost's contract."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import i64, u8

from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.publish.headers import PublishHeaders
from forebay.broker.publish.outcome import PublishOutcome
from forebay.broker.publish.route import Route
from forebay.broker.publish.staging import CommittedBatch
from forebay.queue.leases.lease import Consumer
from forebay.queue.queue import Queue
from forebay.routing.cut_work import WorkInHand
from forebay.routing.route_cache import RouteCache


class PublishingContract(ABC):
    """Publishing in a vhost, as its sessions see it."""

    @abstractmethod
    def publish(
        self,
        route: Route,
        format: u8,
        properties: bytes,
        body: bytes,
        annotations: bytes = b"",
        owed: bool = False,
    ) -> PublishOutcome:
        """Append a message to the queues of its route: see `Publishing.publish`."""

    @abstractmethod
    def publish_with_headers(
        self, route: Route, headers: PublishHeaders, format: u8, body: bytes, user: bytes, found: Route | None = None
    ) -> PublishOutcome:
        """Publish for a user with what the headers ask for: see `Publishing.publish_with_headers`."""

    @abstractmethod
    def route_with_headers(
        self, route: Route, headers: PublishHeaders, format: u8, work: WorkInHand | None = None
    ) -> Route:
        """Return the route of a message by all its routing keys."""

    @abstractmethod
    def retain(self, topic: bytes, format: u8, properties: bytes, body: bytes) -> PublishOutcome:
        """Keep a message for those who subscribe later, or forget the one there is."""

    @abstractmethod
    def delay(
        self,
        key: bytes,
        due_us: i64,
        format: u8,
        topic: bytes,
        properties: bytes,
        body: bytes,
        exchange: bytes = b"",
        recurrence: bytes = b"",
    ) -> PublishOutcome:
        """Keep a message until its time: see `Publishing.delay`."""


class RoutingContract(ABC):
    """The ways from addresses to queues and subscribers, as sessions see them.

    routes  those that are remembered
    """

    routes: RouteCache

    @abstractmethod
    def route(self, exchange: bytes, routing_key: bytes, work: WorkInHand | None = None) -> Route:
        """Return the route of an address."""

    @abstractmethod
    def command_route(self, routing_key: bytes, queue: bytes) -> Route:
        """Return the route of a command, which leads to no queue."""

    @abstractmethod
    def route_topic(self, topic: bytes, client: ClientSession | None, work: WorkInHand | None = None) -> Route:
        """Return the route of a topic, for the messages of a client."""

    @abstractmethod
    def queues_at(self, address: bytes, work: WorkInHand | None = None) -> list[Queue]:
        """Return the queues that an address names."""

    @abstractmethod
    def resolve(self, route: Route, format: u8, properties: bytes, work: WorkInHand | None = None) -> Route:
        """Return the route of a message whose content decides where it goes."""


class RepliesContract(ABC):
    """Direct replies, as sessions see them."""

    @abstractmethod
    def has(self, name: bytes) -> bool:
        """Return whether a consumer gets the replies to this name."""

    @abstractmethod
    def append(self, name: bytes, format: u8, properties: bytes, body: bytes) -> bool:
        """Add a reply for the consumer of a name; return False if there is none."""

    @abstractmethod
    def close(self, consumer: Consumer) -> None:
        """End a consumer of replies."""


class BatchesContract(ABC):
    """The batches of staged rows, as the connections of sinks see them."""

    @abstractmethod
    def stage(self, query: str, batch: i64, part: str, rows: i64, block: bytes) -> bool:
        """Keep a block of rows for a batch that is not committed; return False, and keep none, if there is no room."""

    @abstractmethod
    def commit(self, query: str, batch: i64, parts: dict[str, int]) -> CommittedBatch:
        """Decide that the staged parts of a batch are published: see `Staging.commit`."""

    @abstractmethod
    def abort(self, query: str, batch: i64) -> None:
        """Delete what is staged for a batch; RequestError(PRECONDITION) if it is committed."""

    @abstractmethod
    def is_committed(self, query: str, batch: i64) -> bool:
        """Return whether this batch of a query, or a later one, is committed."""

    @abstractmethod
    def last_batch(self, query: str) -> i64:
        """Return the last batch of a query that was committed, -1 if none is known."""

    @abstractmethod
    def is_durable(self, lsn: i64) -> bool:
        """Return whether the disk has everything up to an lsn."""
