"""The common part of the vhosts of one store: the numbers of queues, and the room on the disk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64

from forebay.broker.audit import Audit
from forebay.broker.joining import Joining
from forebay.broker.mqtt.crowding import Crowding
from forebay.broker.read_offers import ReadOffers
from forebay.log.block import Block
from forebay.message.events import Events
from forebay.queue.leases.lease import Delivery
from forebay.queue.properties import Looks
from forebay.queue.queue import Queue
from forebay.queue.watch import Watch
from forebay.routing.cut_work import WorkBudget


class Gatherer(ABC):
    """A gatherer of records before the store has them."""

    @abstractmethod
    def gathered(self) -> i64:
        """Octets on their way to the disk of which the store does not know yet."""


@final
class Sealed:
    """Records that a queue took in this turn."""

    def __init__(self, vhost: bytes, queue: Queue, block: Block) -> None:
        self.vhost = vhost
        self.queue = queue
        self.block = block


@final
class Common:
    """One for all vhosts.

    room        octets that may be accepted before the store has to make room
    next_queue  number of the next queue: no two vhosts have queues of one number
    events      what happens, for whoever listens
    audit       who has changed what
    touched     numbers of the vhosts in which somebody may have done something since the turn before
    deletes     a vhost or a user was deleted, and connections that had to do with it are not ended yet
    tracing     what is published is to be told to whoever makes traces of it: `sealed`
    delivered   what sessions took before the turn's end, for whoever makes traces of deliveries
    secret      chance, of which names are made that nobody may guess
    watches     of connections that wait until a queue has more
    woken       connections whose wait is over, for the server to have them take part in the turn
    joinings    long bodies that connections wait for, to be put together by whoever has threads
    crowded     queues over their share of disk or memory, and those whose dead letters go to one
    behind      of the latter, which queue that is
    crowding    MQTT sessions that do not keep up
    looks       what filters of consumers cost
    read_offers  the other members of a group that reads may go to, while this node leads one
    work        that was done in this turn for readers with filters (session/blocks/picking.py)
    budget      of what one packet may cause: the search for who gets a message, and for what is retained
    """

    def __init__(self) -> None:
        self.parts: list[Gatherer] = []
        self.room: i64 = 0
        self.next_queue: i64 = 1
        self.events = Events()
        self.audit = Audit()
        self.touched: list[int] = []
        self.deletes = False
        self.tracing = False
        self.sealed: list[Sealed] = []
        self.delivered: list[Delivery] = []
        self.secret = b""
        self.watches: list[Watch] = []
        self.woken: list[int] = []
        self.joinings: list[Joining] = []
        self.disk_share: i64 = 0  # octets that one queue with a file may hold; 0 sets no limit
        self.memory_share: i64 = 0  # the same of one without
        self.crowded: list[Queue] = []
        self.behind: dict[Queue, Queue] = {}
        self.crowding = Crowding()
        self.looks = Looks()
        self.work: i64 = 0
        self.budget = WorkBudget()
        self.read_offers: ReadOffers | None = None

    def gathered(self) -> i64:
        """Octets gathered by all."""
        octets: i64 = 0
        for part in self.parts:
            octets += part.gathered()
        return octets

    def share_of(self, queue: Queue) -> i64:
        """Octets that the queue may hold; 0 sets no limit."""
        return self.disk_share if queue.log.durable else self.memory_share

    def crowd(self, queue: Queue) -> None:
        """The queue is over its share, or its vhost is."""
        if not queue.crowded:
            queue.crowded = True
            self.crowded.append(queue)

    def take_joinings(self) -> list[Joining]:
        """Return the bodies to be put together since the last call."""
        joinings, self.joinings = self.joinings, []
        return joinings

    def crowd_behind(self, source: Queue, target: Queue) -> None:
        """Dead letters of a queue go to one that is over its share: publishers of the former wait, too."""
        if source is not target:
            self.behind[source] = target
            self.crowd(source)

    def wake(self, watch: Watch) -> None:
        """Have the connection take part: what it waits for has come, or time is over."""
        if not watch.woken:
            watch.woken = True
            self.woken.append(int(watch.session_id))

    def wake_overdue(self, now_us: i64) -> None:
        """Wake those that have waited for as long as they wanted to."""
        for watch in self.watches:
            if watch.until_us <= now_us:
                self.wake(watch)
