"""A group: one party's progress over a log, and the consumers that take from it.

`WorkGroup` leases records and sees every one settled; `StreamGroup` holds a cursor. What they share is here: the
round of consumers, and the filter on routing keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import i64

from forebay.core.errors import DamagedBlock
from forebay.core.message import AMQP091
from forebay.log.block import Block
from forebay.log.block_files import Damage
from forebay.log.queue_log import QueueLog
from forebay.queue.counts import Counts
from forebay.queue.facts import TURN_OCTETS
from forebay.queue.leases import Consumer, Delivery, Lease
from forebay.queue.trace import QueueTrace
from forebay.routing.topic_trie import matches, swap_key

BURST: Final = 256  # records for one consumer before the next one's turn
SCAN_RECORDS: Final = 8192  # most that a filter looks at in one turn
MEMO_ENTRIES: Final = 10_000
QUEUE_PREFIX: Final = b"$queue/"


def filter_key(format: i64, exchange: bytes, routing_key: bytes) -> bytes:
    """The text that a group's filter is held against: the topic form of the routing key, without `$queue/<name>/`."""
    key = routing_key
    if format == AMQP091 and not key.startswith(QUEUE_PREFIX):
        key = swap_key(key)
    if key.startswith(QUEUE_PREFIX):
        cut = key.find(b"/", len(QUEUE_PREFIX))
        return b"" if cut < 0 else key[cut + 1 :]
    return key


class Group(ABC):
    """Consumers, cursor and filter of one party.

    id      number within the queue, in the write-ahead log
    cursor  next offset never yet handed out
    picky   some records may not be wanted
    trace   somebody wants to know what happens to its records
    active_us  when its progress was last written down; 0: not since the start
    damage  what it has to hand out next and cannot read: until that is over it hands out nothing
    stuck   only the next start can tell what waits in it
    counts  of its queue
    """

    def __init__(self, id: i64, name: bytes, filter: bytes, log: QueueLog, cursor: i64) -> None:
        self.id = id
        self.name = name
        self.filter = filter
        self.picky = len(filter) > 0
        self.log = log
        self.counts = Counts()  # the queue's own, once it belongs to one
        self.cursor: i64 = cursor
        self.consumers: list[Consumer] = []  # the highest priority first
        self.ranked = False  # their priorities differ from 0
        self.turn: i64 = 0  # index of the consumer whose turn it is
        self.block: Block | None = None  # the block the cursor stands in
        self.turn_octets: i64 = TURN_OCTETS  # octets to hand out in one turn
        self.budget: i64 = 0  # octets left to hand out in this turn
        self.scan: i64 = 0  # records left to look at in this turn
        self.memo: dict[bytes, bool] = {}
        self.trace: QueueTrace | None = None
        self.active_us: i64 = 0
        self.damage: Damage | None = None
        self.stuck = False

    @abstractmethod
    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        """Hand out what the consumers' credit allows; whether a limit of the turn ended it."""

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
    def remove(self, consumer: Consumer) -> None:
        """The consumer is gone; what it held returns at once."""

    @abstractmethod
    def ready(self) -> i64:
        """Records that a consumer with credit could get now."""

    @abstractmethod
    def purge(self) -> i64:
        """Settle all that is ready; how many."""

    @abstractmethod
    def take_progress(self) -> bytes:
        """Progress since the last call, for the write-ahead log; empty when there is none."""

    @abstractmethod
    def restore(self, progress: bytes) -> None:
        """Apply what `take_progress` or `snapshot` gave, in recovery."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """All progress, such that `restore` of it on a new group gives this one."""

    def halt(self, error: DamagedBlock) -> None:
        """Hand out nothing any more, as this cannot be read."""
        self.damage = Damage(error.path, error.position, error.queue, error.name, error.base, error.end, error.why)

    def readable(self, offset: i64) -> Block | None:
        """As the log's `block`; None also for what cannot be read, which halts the group."""
        try:
            return self.log.block(offset)
        except DamagedBlock as error:
            self.halt(error)
            return None

    def check_sound(self) -> None:
        """Go on if what halted the group can be read by now, or is wanted no more; else DamagedBlock."""
        damage = self.damage
        if damage is None:
            return
        if self.stuck:
            raise damage.error()
        if damage.end > self.log.start:
            self.log.block(max(i64(damage.base), self.log.start))
        self.damage = None

    def add(self, consumer: Consumer) -> None:
        place = len(self.consumers)
        if consumer.priority or self.ranked:
            self.ranked = True
            while place and self.consumers[place - 1].priority < consumer.priority:
                place -= 1
        self.consumers.insert(place, consumer)

    def detach(self, consumer: Consumer) -> None:
        """Give the consumer nothing more; what it holds stays with it until it is settled, or `remove`d."""
        self.consumers = [other for other in self.consumers if other is not consumer]

    def next_consumer(self) -> Consumer | None:
        """The consumer that gets the next record: the next in turn that can take one, of those ranked highest."""
        return self.next_ranked() if self.ranked else self.next_in_turn()

    def next_in_turn(self) -> Consumer | None:
        consumers = self.consumers
        count = i64(len(consumers))
        turn = self.turn
        for _ in range(count):
            if turn >= count:
                turn = 0
            consumer = consumers[turn]
            if consumer.can_take():
                self.turn = turn
                return consumer
            turn += 1
        return None

    def next_ranked(self) -> Consumer | None:
        """A lower priority gets something only while no higher one can take anything."""
        consumers = self.consumers
        count = i64(len(consumers))
        first: i64 = 0
        while first < count and not consumers[first].can_take():
            first += 1
        if first == count:
            return None
        priority = consumers[first].priority
        turn = self.turn
        for _ in range(count):
            if turn >= count:
                turn = 0
            consumer = consumers[turn]
            if consumer.priority == priority and consumer.can_take():
                self.turn = turn
                return consumer
            turn += 1
        return None

    def wanted(self, block: Block, index: i64) -> bool:
        """Whether the group's filter wants this record. To be asked of picky groups."""
        key = block.routing_key(index)
        known = self.memo.get(key)
        if known is None:
            exchange = block.exchange(index)
            known = matches(self.filter, filter_key(block.format(index) & 15, exchange, key))
            # A key may mean two topics, by the protocol it came from: only the common case is remembered.
            if len(self.memo) >= MEMO_ENTRIES:
                self.memo.clear()
            self.memo[key] = known
        return known

    def run_length(self, block: Block, index: i64, most: i64) -> i64:
        """Length of the run of wanted records that starts at `index`; negative: of unwanted ones."""
        return self.wanted_run(block, index, most) if self.picky else most

    def wanted_run(self, block: Block, index: i64, most: i64) -> i64:
        """As `run_length`, each record looked at."""
        first = self.wanted(block, index)
        count: i64 = 1
        while count < most and count < self.scan and self.wanted(block, index + count) == first:
            count += 1
        self.scan -= count
        return count if first else -count
