"""A group: one party's progress over a log, and the consumers that take from it.

`WorkGroup` leases records and sees every one settled; `StreamGroup` holds a cursor. What they share is here: consumers
and who of them is next, the filter on routing keys, the share of a turn.
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
    """Remove a consumer from the list, and return the place it had; -1 if the list does not have it.

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
    """Consumers of one party, and what every kind of group has.

    id         number within the queue, in the write-ahead log
    limits     of the queue; what they say may change at any time
    counts     of its queue
    trace      somebody wants to know what happens to its records
    active_us  when its progress was last written down; 0: not since the start
    consumers  the highest priority first
    fairness   who of them is next
    paused     somebody who administers wants nothing to be delivered to its consumers
    draining   some consumer's credit is lost when there is nothing more to deliver
    reader     of its log
    turn       what is left of its share of this turn
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
        self.counts = Counts()  # the queue's own, once it belongs to one
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
        """Deliver what the consumers' credit allows; whether a limit of the turn ended it."""

    @abstractmethod
    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records of a lease; how many of them were held by it until now."""

    @abstractmethod
    def give_back(self, lease: Lease, first: i64, count: i64, due_us: i64, how: i64) -> i64:
        """Return records of a lease, to be leased again from `due_us` on; how many of them were held by it.

        how  UNTRIED, FAILED or NACKED
        """

    @abstractmethod
    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        """Have records of a lease die; how many of them were held by it."""

    @abstractmethod
    def remove(self, consumer: Consumer, how: i64 = FAILED) -> None:
        """The consumer is gone; the records it held return at once, and `how` says whether that is a failure."""

    @abstractmethod
    def ready(self) -> i64:
        """Records that a consumer with credit could get now."""

    @abstractmethod
    def purge(self) -> i64:
        """Settle all that is ready; how many."""

    @abstractmethod
    def next_offset(self) -> i64:
        """The offset behind all that were delivered so far."""

    @abstractmethod
    def take_progress(self) -> bytes:
        """Progress since the last call, for the write-ahead log; empty when there is none."""

    @abstractmethod
    def restore(self, progress: bytes) -> None:
        """Apply what `take_progress` or `snapshot` gave, in recovery."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """All progress, such that `restore` of it on a new group gives this one."""

    def add(self, consumer: Consumer) -> None:
        """Have a consumer take part; the highest priority goes first."""
        place = len(self.consumers)
        while place and self.consumers[place - 1].priority < consumer.priority:
            place -= 1
        self.fairness.enter(place, len(self.consumers))
        self.consumers.insert(place, consumer)
        self.choose_fairness()

    def choose_fairness(self) -> None:
        """Be fair in the way that these consumers ask for."""
        consumers = self.consumers  # in the order of their priorities, so that all have none where both ends have none
        if consumers and (consumers[0].priority or consumers[-1].priority) and isinstance(self.fairness, RoundRobin):
            self.fairness = ByPriority(BURST, self.fairness.turn)

    def flow(self, consumer: Consumer, credit: i64, drains: bool) -> None:
        """Have a consumer take so many more (see `Consumer.flow`)."""
        consumer.flow(credit, drains)
        if drains:
            self.draining = True

    def end_drain(self) -> None:
        """Nothing more can be delivered: credit of consumers that drain is lost, but for those that are paused."""
        self.draining = False
        for consumer in self.consumers:
            if consumer.drains and consumer.paused:
                self.draining = True
            elif consumer.drains:
                consumer.credit = 0
                consumer.withheld = 0
                consumer.drains = False

    def detach(self, consumer: Consumer) -> None:
        """Give the consumer nothing more; what it holds stays with it until it is settled, or `remove`d."""
        place = leave(self.consumers, consumer)
        if place >= 0:
            self.fairness.leave(consumer, place)
