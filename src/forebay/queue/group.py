"""A consumer group: the progress of its consumers over a log.

`WorkGroup` leases records and tracks the settlement of each. `StreamGroup` holds a cursor. This module holds what both
share: consumers and the choice of the next, the filter on routing keys, and the budget of a turn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import i64

from forebay.log.queue_log import QueueLog
from forebay.queue.counts import Counts
from forebay.queue.declaration.limits import Limits
from forebay.queue.fairness import BURST, ByPriority, Fairness, RoundRobin
from forebay.queue.key_filter import KeyFilter
from forebay.queue.leases.lease import FAILED, Consumer, Delivery, Lease
from forebay.queue.log_reader import LogReader
from forebay.queue.properties import NoProperties, PropertyReader
from forebay.queue.trace import QueueTrace
from forebay.queue.turn import TurnShare


def leave(consumers: list[Consumer], consumer: Consumer) -> i64:
    """Remove a consumer from the list. Return the place that it had, or -1 if the list does not have it.

    Consumers often go in the order in which they came, or in the opposite order, so the search starts from both ends.
    """
    last = i64(len(consumers)) - 1
    for index in range(last + 1):
        if consumers[index] is consumer:
            del consumers[index]
            return index
        if consumers[last - index] is consumer:
            del consumers[last - index]
            return last - index
    return -1


class Group(ABC):
    """The consumers of one group, with what every kind of group has.

    id         number within the queue, in the write-ahead log
    limits     the queue's limits, whose values may change at any time
    counts     the queue's counters
    trace      the trace of the queue's messages; None if they are not traced
    active_us  time at which its progress was last logged; 0 if it was not since the start
    consumers  the consumers, the highest priority first
    fairness   the strategy that chooses the next consumer
    paused     an administrator has paused deliveries to its consumers
    draining   some consumer loses its credit when there is nothing more to deliver
    reader     the reader of its log
    turn       what is left of its budget of this turn
    """

    def __init__(
        self,
        id: i64,
        name: bytes,
        filter: bytes,
        log: QueueLog,
        limits: Limits | None,
        properties: PropertyReader | None,
    ) -> None:
        self.id = id
        self.name = name
        self.filter = filter
        self.limits = Limits() if limits is None else limits
        self.properties: PropertyReader = NoProperties() if properties is None else properties
        self.counts = Counts()  # replaced by the queue's counters once the group belongs to a queue
        self.trace: QueueTrace | None = None
        self.active_us: i64 = 0
        self.consumers: list[Consumer] = []
        self.fairness: Fairness = RoundRobin(BURST)
        self.paused = False
        self.draining = False
        self.key_filter = KeyFilter(filter, self.properties)
        self.reader = LogReader(log)
        self.turn = TurnShare()

    @abstractmethod
    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        """Deliver what the consumers' credit allows. Return whether a limit of the turn ended it."""

    @abstractmethod
    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records of a lease. Return how many of them the lease held until now."""

    @abstractmethod
    def give_back(self, lease: Lease, first: i64, count: i64, due_us: i64, how: i64) -> i64:
        """Return records of a lease to the queue. They may be leased again from `due_us` on.

        Return how many of the records the lease held until now.

        how  UNTRIED, FAILED or NACKED
        """

    @abstractmethod
    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        """Reject records of a lease, which die. Return how many of them the lease held until now."""

    @abstractmethod
    def remove(self, consumer: Consumer, how: i64 = FAILED) -> None:
        """Remove a consumer and return the records that it held. `how` says whether that counts as a failure."""

    @abstractmethod
    def ready(self) -> i64:
        """Return the number of records that a consumer with credit could get now."""

    @abstractmethod
    def purge(self) -> i64:
        """Settle all ready records. Return how many there were."""

    @abstractmethod
    def next_offset(self) -> i64:
        """Return the offset behind all records delivered so far."""

    @abstractmethod
    def take_progress(self) -> bytes:
        """Return the progress since the last call, for the write-ahead log; empty if there is none."""

    @abstractmethod
    def restore(self, progress: bytes) -> None:
        """Apply what `take_progress` or `snapshot` returned, in recovery."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """Return all progress. Restored on a new group, it gives the state of this one."""

    def add(self, consumer: Consumer) -> None:
        """Add a consumer. Consumers with a higher priority come first in the list."""
        place = len(self.consumers)
        while place and self.consumers[place - 1].priority < consumer.priority:
            place -= 1
        self.fairness.enter(place, len(self.consumers))
        self.consumers.insert(place, consumer)
        self.choose_fairness()

    def choose_fairness(self) -> None:
        """Choose the consumers by priority from now on if one of them has a priority."""
        consumers = self.consumers  # sorted by priority, so if both ends have priority 0, all have
        if consumers and (consumers[0].priority or consumers[-1].priority) and isinstance(self.fairness, RoundRobin):
            self.fairness = ByPriority(BURST, self.fairness.turn)

    def flow(self, consumer: Consumer, credit: i64, drains: bool) -> None:
        """Set a consumer's credit as in `Consumer.flow`."""
        consumer.flow(credit, drains)
        if drains:
            self.draining = True

    def end_drain(self) -> None:
        """Take the credit of draining consumers away, as nothing more can be delivered.

        Paused consumers keep it for now.
        """
        self.draining = False
        for consumer in self.consumers:
            if consumer.drains and consumer.paused:
                self.draining = True
            elif consumer.drains:
                consumer.credit = 0
                consumer.withheld = 0
                consumer.drains = False

    def detach(self, consumer: Consumer) -> None:
        """Deliver nothing more to a consumer.

        It keeps what it holds until that is settled, or the consumer is `remove`d.
        """
        place = leave(self.consumers, consumer)
        if place >= 0:
            self.fairness.leave(consumer, place)
