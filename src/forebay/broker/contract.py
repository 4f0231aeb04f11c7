"""The contract between a vhost and its sessions: all that a session may use of the vhost that it is in.

A part that each message passes is an attribute here: a session calls it without a method in between. The rest are
methods of the vhost.
"""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64

from forebay.broker.audit import Origin
from forebay.broker.consuming.message_sessions import QueueSessions
from forebay.broker.consuming.settling import Settling
from forebay.broker.joining import Joining
from forebay.broker.limits.topology_memory import TopologyMemory
from forebay.broker.mqtt.client_session import ClientSession, Owner, Subscription, Will
from forebay.broker.mqtt.fanout import Fanout
from forebay.broker.mqtt.retained import RetainedMessage, RetainedSearch
from forebay.broker.mqtt.session_recovery import StoredSessions
from forebay.broker.publish.deduplication import Deduplication
from forebay.broker.publish.delayed import Delayed
from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.replies import Replies, ReplyConsumer
from forebay.broker.publish.router import Route, Router
from forebay.broker.publish.staging import CommittedBatch
from forebay.broker.shared.turn_budgets import TurnBudgets
from forebay.directory.open_vhost import OpenVhost
from forebay.directory.permissions import Rights
from forebay.log.store import Job
from forebay.queue.leases.lease import Consumer, Delivery, Lease
from forebay.queue.queue import Queue
from forebay.queue.watch import Watch
from forebay.routing.exchange import Exchange


class VhostContract(OpenVhost):
    """A vhost, as its sessions see it.

    publishing, router  append messages, and find the ways that they go
    settling            settles the records that consumers hold
    sessions, fanout    MQTT sessions, and what goes to their subscriptions
    replies             direct replies
    delayed             messages whose time has not come
    deduplication       messages that were taken before
    memory              of what clients have declared
    budgets             of what a turn may cost
    """

    name: bytes
    number: i64
    publishing: Publishing
    router: Router
    settling: Settling
    sessions: StoredSessions
    fanout: Fanout
    replies: Replies
    delayed: Delayed
    deduplication: Deduplication
    memory: TopologyMemory
    budgets: TurnBudgets

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
    def recovered_lsn(self) -> int:
        """Return the lsn up to which a leader must be committed before it tells of what it found at its take-over."""

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

    @abstractmethod
    def come_again(self, session_id: i64) -> None:
        """Add a connection to the next turn, as this turn has no time left for its request."""

    @abstractmethod
    def is_deleted(self) -> bool:
        """Return whether the vhost is deleted: its sessions are about to end."""

    # ---- queues, exchanges and bindings. Each raises RequestError and changes nothing if it is refused

    @abstractmethod
    def has_queue(self, name: bytes) -> bool:
        """Return whether there is a queue of that name."""

    @abstractmethod
    def find_queue(self, name: bytes) -> Queue | None:
        """Return the queue of that name, None if there is none."""

    @abstractmethod
    def any_queue(self, name: bytes) -> Queue:
        """Return the queue of that name, whoever owns it; RequestError if there is none."""

    @abstractmethod
    def queue(self, name: bytes, session_id: i64) -> Queue:
        """Return the queue of that name; RequestError if there is none, or it is exclusive to another session."""

    @abstractmethod
    def queue_of(self, consumer: Consumer) -> Queue:
        """Return the queue that a consumer reads."""

    @abstractmethod
    def queue_names(self) -> list[bytes]:
        """Return the names of all queues."""

    @abstractmethod
    def check_owner(self, name: bytes, session_id: i64) -> None:
        """Refuse with RequestError(LOCKED) if there is a queue of that name and it is exclusive to another session."""

    @abstractmethod
    def catch_up(self, queue: Queue) -> None:
        """Bring a queue's counts up to all that has happened in this turn."""

    @abstractmethod
    def declare_queue(
        self,
        rights: Rights,
        name: bytes,
        durable: bool,
        exclusive: bool,
        auto_delete: bool,
        arguments: dict[str, object],
        session_id: i64,
        user: str,
    ) -> Queue:
        """Declare a queue, or check that the one there is was declared alike; name "" for one that the broker makes."""

    @abstractmethod
    def delete_queue(self, rights: Rights, name: bytes, if_unused: bool, if_empty: bool, session_id: i64) -> int:
        """Delete a queue if there is one, and return the number of its messages."""

    @abstractmethod
    def remove_queue(self, name: bytes) -> None:
        """Delete a queue that the session has made for itself; RequestError if there is none."""

    @abstractmethod
    def purge_queue(self, rights: Rights, name: bytes, session_id: i64) -> int:
        """Remove all ready messages of a queue, and return their number."""

    @abstractmethod
    def bind_queue(
        self, rights: Rights, name: bytes, exchange: bytes, key: bytes, arguments: dict[str, object], session_id: i64
    ) -> None:
        """Bind a queue to an exchange; nothing changes if it is bound so already."""

    @abstractmethod
    def unbind_queue(
        self, rights: Rights, name: bytes, exchange: bytes, key: bytes, arguments: dict[str, object], session_id: i64
    ) -> None:
        """Delete a binding of a queue, if there is one."""

    @abstractmethod
    def find_exchange(self, name: bytes) -> Exchange | None:
        """Return the exchange of that name, None if there is none."""

    @abstractmethod
    def exchange(self, name: bytes) -> Exchange:
        """Return the exchange of that name; RequestError if there is none."""

    @abstractmethod
    def is_topic_exchange(self, name: bytes) -> bool:
        """Return whether there is a topic exchange of that name: rights may depend on routing keys then."""

    @abstractmethod
    def declare_exchange(
        self,
        rights: Rights,
        name: bytes,
        kind: bytes,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: dict[str, object],
    ) -> None:
        """Declare an exchange, or check that the one there is was declared alike."""

    @abstractmethod
    def delete_exchange(self, rights: Rights, name: bytes, if_unused: bool) -> None:
        """Delete an exchange and its bindings, if there is one."""

    @abstractmethod
    def bind_exchange(
        self, rights: Rights, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
    ) -> None:
        """Bind an exchange to another one, the source."""

    @abstractmethod
    def unbind_exchange(
        self, rights: Rights, destination: bytes, source: bytes, key: bytes, arguments: dict[str, object]
    ) -> None:
        """Delete a binding of an exchange to another one, if there is one."""

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
    def reject_for(
        self, lease: Lease, offset: i64, reason: bytes, headers: list[tuple[str, object]] | None = None
    ) -> None:
        """Move a record of a lease to its dead letters, for a reason and with headers that its consumer gives."""

    # ---- consuming

    @abstractmethod
    def consume(
        self,
        queue: bytes,
        session_id: i64,
        channel: i64,
        tag: bytes,
        no_ack: bool,
        exclusive: bool,
        credit: i64,
        arguments: dict[str, object],
        cancels: bool = False,
    ) -> Consumer:
        """Attach a consumer to a group of a queue: see `Consumers.consume`."""

    @abstractmethod
    def browse(
        self, queue: bytes, session_id: i64, channel: i64, tag: bytes, no_ack: bool, arguments: dict[str, object]
    ) -> Consumer:
        """Attach a consumer of copies of what waits in a queue: see `Consumers.browse`."""

    @abstractmethod
    def consume_replies(self, session_id: i64, channel: i64, tag: bytes) -> ReplyConsumer:
        """Attach a consumer of direct replies."""

    @abstractmethod
    def get(self, queue: bytes, session_id: i64, channel: i64, no_ack: bool) -> Delivery | None:
        """Lease one record of a queue at once; return None if none is ready."""

    @abstractmethod
    def cancel(self, consumer: Consumer) -> None:
        """Detach a consumer, and return the records that it holds."""

    @abstractmethod
    def detach_consumer(self, consumer: Consumer) -> None:
        """Deliver nothing more to a consumer; it keeps the records that it holds."""

    @abstractmethod
    def take_early(self, consumer: Consumer) -> list[Delivery]:
        """Return the deliveries that a consumer about to go would get at the end of the turn."""

    @abstractmethod
    def set_window(self, consumer: Consumer, size: i64) -> None:
        """Set how many records a consumer may hold unsettled."""

    @abstractmethod
    def set_credit(self, consumer: Consumer, credit: i64, drains: bool) -> None:
        """Set how many more records a consumer gets, whatever it settles; `drains`: those that there are now alone."""

    @abstractmethod
    def close_channel(self, session_id: i64, channel: i64) -> None:
        """Cancel the consumers of a channel, and return what it got and did not settle."""

    @abstractmethod
    def has_consumers(self, session_id: i64) -> bool:
        """Return whether a session has consumers."""

    @abstractmethod
    def is_paused(self, session_id: i64) -> bool:
        """Return whether a session's connection takes no more octets for now."""

    # ---- readers of blocks

    @abstractmethod
    def hold_records(self, queue: Queue, name: bytes, offset: i64, ttl_us: i64) -> i64:
        """Keep records from `offset` on for a reader, and return the first that is still there."""

    @abstractmethod
    def release_records(self, queue: Queue, name: bytes) -> None:
        """End a reader's hold, if there is one."""

    @abstractmethod
    def rewriting(self, log: int) -> Job | None:
        """Return the job that rewrites a file with records of a log, None if there is none."""

    @abstractmethod
    def is_rewriting(self, job: Job) -> bool:
        """Return whether a job is not done yet."""

    @abstractmethod
    def watch(self, watch: Watch) -> None:
        """Register a connection that waits until one of its queues has more, or its time is over."""

    @abstractmethod
    def unwatch(self, watch: Watch) -> None:
        """Remove a connection from those that wait for their queues."""

    # ---- MQTT sessions and what is retained

    @abstractmethod
    def attach_client(
        self, client_id: bytes, connection: i64, clean: bool, expiry_s: i64, will: Will | None, owner: Owner
    ) -> ClientSession:
        """Take up or make the session of a client identifier for a connection: see `Sessions.attach`."""

    @abstractmethod
    def detach_client(self, client: ClientSession, connection: i64) -> None:
        """Note that the connection of an MQTT session is gone."""

    @abstractmethod
    def check_subscription(self, client: ClientSession, wanted: Subscription, session_id: i64, octets: i64) -> None:
        """Refuse with RequestError(TOO_MANY) if there is no memory for a subscription and its consumer's `octets`."""

    @abstractmethod
    def subscribe(self, client: ClientSession, wanted: Subscription) -> bool:
        """Add or replace a subscription of an MQTT session, and return whether it is new."""

    @abstractmethod
    def unsubscribe(self, client: ClientSession, filter: bytes) -> bool:
        """End a subscription of an MQTT session, and return whether there was one."""

    @abstractmethod
    def search_retained(self, filter: bytes) -> RetainedSearch:
        """Return the search for retained topics that a filter matches, to be run."""

    @abstractmethod
    def retained_numbers(self, filter: bytes) -> list[int]:
        """Return the numbers, for `retained_message`, of retained topics that a filter matches."""

    @abstractmethod
    def retained_message(self, number: i64) -> RetainedMessage | None:
        """Return a retained message, None if it is there no longer or has expired."""

    @abstractmethod
    def give_retained(self, client: ClientSession, qos: i64, identifier: i64, message: RetainedMessage) -> None:
        """Deliver a retained message to an MQTT session."""

    # ---- entities of Azure Service Bus

    @abstractmethod
    def message_sessions_of(self, queue: Queue) -> QueueSessions:
        """Return the message sessions of a queue."""

    @abstractmethod
    def defer(self, lease: Lease, offset: i64, how: i64) -> i64:
        """Defer a record until a client asks for its offset; see `Settling.defer`."""

    @abstractmethod
    def take_deferred(self, consumer: Consumer, offsets: list[int]) -> list[Delivery]:
        """Lease records that wait to be asked for; none if one of them does not."""

    # ---- batches of staged rows

    @abstractmethod
    def is_durable(self, lsn: i64) -> bool:
        """Return whether the disk has everything up to an lsn."""

    @abstractmethod
    def stage(self, query: str, batch: i64, part: str, rows: i64, block: bytes) -> bool:
        """Keep a block of rows for a batch that is not committed; return False, and keep none, if there is no room."""

    @abstractmethod
    def commit_batch(self, query: str, batch: i64, parts: dict[str, int]) -> CommittedBatch:
        """Decide that the staged parts of a batch are published: see `Staging.commit`."""

    @abstractmethod
    def abort_batch(self, query: str, batch: i64) -> None:
        """Delete what is staged for a batch; RequestError(PRECONDITION) if it is committed."""

    @abstractmethod
    def is_committed(self, query: str, batch: i64) -> bool:
        """Return whether this batch of a query, or a later one, is committed."""

    @abstractmethod
    def last_batch(self, query: str) -> i64:
        """Return the last batch of a query that was committed, -1 if none is known."""
