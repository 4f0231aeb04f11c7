"""The contract between a vhost and its sessions: all that a session may use of the vhost that it is in.

What every protocol needs are methods of the vhost. What belongs to one subject is an attribute: the part of that
subject, which a session calls without a method in between.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from mypy_extensions import i64

from forebay.broker.audit import Origin
from forebay.broker.catalog.topology_requests import Requester, TopologyOutcome, TopologyRequest
from forebay.broker.consuming.block_reads_contract import BlockReadsContract
from forebay.broker.consuming.consuming_contract import ConsumingContract
from forebay.broker.consuming.message_sessions import QueueSessions
from forebay.broker.consuming.settling_contract import SettlingContract
from forebay.broker.joining import Joining
from forebay.broker.limits.topology_memory import TopologyMemory
from forebay.broker.mqtt.clients_contract import ClientsContract
from forebay.broker.mqtt.fanout import Fanout
from forebay.broker.mqtt.session_recovery import StoredSessions
from forebay.broker.publish.deduplication import Deduplication
from forebay.broker.publish.delayed import Delayed
from forebay.broker.publish.publishing_contract import (
    BatchesContract,
    PublishingContract,
    RepliesContract,
    RoutingContract,
)
from forebay.broker.publish.route import Route
from forebay.broker.query.requests_contract import QueryRequestsContract
from forebay.broker.shared.turn_budgets import TurnBudgets
from forebay.directory.open_vhost import OpenVhost
from forebay.queue.leases.lease import Consumer, Lease
from forebay.queue.queue import Queue
from forebay.routing.exchange import Exchange

ANY_SESSION: Final = -1  # whoever owns a queue


class VhostContract(OpenVhost):
    """A vhost, as its sessions see it.

    messages, routes    append messages, and find the ways that they go
    settlement          settles the records that consumers hold
    sessions, fanout    MQTT sessions, and what goes to their subscriptions
    direct_replies      what is answered to a consumer, and stored nowhere
    delayed             messages whose time has not come
    deduplication       messages that were taken before
    memory              of what clients have declared
    budgets             of what a turn may cost
    consuming           consumers come, go, and say how much they take
    mqtt_clients        the sessions of MQTT clients, as their connections use them, and what is retained
    batches             staged rows, which sinks commit
    block_reads         readers of blocks
    query_requests      queries of queues
    """

    name: bytes
    number: i64
    messages: PublishingContract
    routes: RoutingContract
    settlement: SettlingContract
    sessions: StoredSessions
    fanout: Fanout
    direct_replies: RepliesContract
    delayed: Delayed
    deduplication: Deduplication
    memory: TopologyMemory
    budgets: TurnBudgets
    consuming: ConsumingContract
    mqtt_clients: ClientsContract
    batches: BatchesContract
    block_reads: BlockReadsContract
    query_requests: QueryRequestsContract

    # ---- the connection of a session

    @abstractmethod
    def touch(self) -> None:
        """Add this vhost to the next turn, as something in it may have changed."""

    @abstractmethod
    def pause(self, session_id: i64, paused: bool) -> None:
        """Stop or resume deliveries to a session whose connection does not keep up."""

    @abstractmethod
    def fill(self, session_id: i64, is_full: bool) -> None:
        """Hold back publishers to a client whose connection has more to send than it should, or no longer."""

    @abstractmethod
    def session_closed(self, session_id: i64) -> None:
        """Take back everything that a connection had: leases at once, consumers, exclusive queues."""

    # ---- names, time, the disk

    @abstractmethod
    def now_us(self) -> i64:
        """Return the time of this turn, in microseconds."""

    @abstractmethod
    def lsn(self) -> int:
        """Return the lsn at which everything changed so far is on disk."""

    @abstractmethod
    def hurry(self) -> None:
        """Write the frame of this turn at once, as somebody waits for it."""

    @abstractmethod
    def note_event(self, what: str, fields: dict[str, object]) -> None:
        """Publish an event of this vhost, such as a refused publish."""

    @abstractmethod
    def note_change(self, origin: Origin, what: str, fields: dict[str, object]) -> None:
        """Note in the audit log that an operation of a protocol has changed something here."""

    @abstractmethod
    def join_body(self, joining: Joining) -> None:
        """Hand the pieces of a long body to the server, one of whose threads puts them together."""

    # ---- queues, exchanges and bindings. Each raises RequestError and changes nothing if it is refused

    @abstractmethod
    def find_queue(self, name: bytes) -> Queue | None:
        """Return the queue of that name, None if there is none."""

    @abstractmethod
    def queue(self, name: bytes, session_id: i64) -> Queue:
        """Return the queue of that name; RequestError if there is none, or it is exclusive to another session.

        session_id  ANY_SESSION for a queue whoever owns it
        """

    @abstractmethod
    def queue_of(self, consumer: Consumer) -> Queue:
        """Return the queue that a consumer reads."""

    @abstractmethod
    def change(self, requester: Requester, request: TopologyRequest) -> TopologyOutcome:
        """Change queues, exchanges and bindings: see broker/catalog/topology_requests.py."""

    @abstractmethod
    def check_owner(self, name: bytes, session_id: i64) -> None:
        """Refuse with RequestError(LOCKED) if there is a queue of that name and it is exclusive to another session."""

    @abstractmethod
    def catch_up(self, queue: Queue) -> None:
        """Bring a queue's counts up to all that has happened in this turn."""

    @abstractmethod
    def find_exchange(self, name: bytes) -> Exchange | None:
        """Return the exchange of that name, None if there is none."""

    @abstractmethod
    def exchange(self, name: bytes) -> Exchange:
        """Return the exchange of that name; RequestError if there is none."""

    @abstractmethod
    def is_topic_exchange(self, name: bytes) -> bool:
        """Return whether there is a topic exchange of that name: rights may depend on routing keys then."""

    # ---- publishing

    @abstractmethod
    def has_room(self, octets: i64) -> bool:
        """Return whether the disk has room for so many octets."""

    @abstractmethod
    def refuses(self, route: Route) -> bool:
        """Return whether a publish would be refused for an MQTT session for which too much waits."""

    @abstractmethod
    def take_room(self, octets: i64) -> bool:
        """Return whether the disk has room for so many octets, and count them if it has."""

    @abstractmethod
    def dead_letter_queue(self, name: bytes) -> Queue:
        """Return the queue `$dlq/<queue>`, made if there is none: see `dead_letter_queue`."""

    @abstractmethod
    def reject_for(
        self, lease: Lease, offset: i64, reason: bytes, headers: list[tuple[str, object]] | None = None
    ) -> None:
        """Move a record of a lease to its dead letters, for a reason and with headers that its consumer gives."""

    # ---- entities of Azure Service Bus

    @abstractmethod
    def message_sessions_of(self, queue: Queue) -> QueueSessions:
        """Return the message sessions of a queue."""
