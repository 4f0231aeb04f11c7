"""Chooses the consumer that gets a group's next record: one strategy for each way to be fair.

A consumer that can take nothing is passed over by every strategy: its window is full, it is paused, or its filter
matches nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64

from forebay.queue.declaration.limits import FAST
from forebay.queue.leases.lease import UNLIMITED, Consumer

BURST: Final = 256  # most records for one consumer before the next one's turn
FEW: Final = 4  # records per consumer that make a backlog; fewer are delivered one by one

# Strategies of shared subscriptions, by their option's values.
ROUND_ROBIN: Final = "round_robin"
RANDOM: Final = "random"
STICKY: Final = "sticky"
LEAST_INFLIGHT: Final = "least_inflight"
HASH_TOPIC: Final = "hash_topic"
HASH_CLIENT: Final = "hash_clientid"

SHARE_MAX: Final = 1 << 30  # records at which the size of a backlog is capped

# Fields of a record that a strategy uses as key.
NO_KEY: Final = 0
BY_TOPIC: Final = 1
BY_PUBLISHER: Final = 2

MULTIPLIER: Final = 1_103_515_245  # the generator of the C standard's example
INCREMENT: Final = 12_345


class Fairness(ABC):
    """A strategy and its state.

    burst   most records for one consumer at a time, if there are several
    turn    index of the consumer whose turn it is
    key_of  the field of the record that the strategy uses as key
    """

    def __init__(self, burst: i64, turn: i64 = 0) -> None:
        self.burst: i64 = burst
        self.turn: i64 = turn
        self.key_of: i64 = NO_KEY

    @abstractmethod
    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        """Return the consumer that gets the next record, or None if none can take it.

        The highest priority is first in the list.

        key  key of the record, if the strategy uses one
        """

    def begin(self) -> None:  # noqa: B027  most strategies do not divide what is ready
        """Begin to deliver what is ready by now to several consumers."""

    def share(self, consumers: list[Consumer], consumer: Consumer, ready: i64) -> i64:
        """Return how many of the ready records the consumer that `next` chose may take at once."""
        return self.burst

    def took(self, consumer: Consumer, count: i64) -> None:  # noqa: B027  most strategies do not take turns
        """Record that the consumer that `next` chose has taken `count` records."""

    def enter(self, place: i64, before: i64) -> None:
        """Keep the turn of the same consumer after another enters the list of `before` consumers at `place`."""
        if self.turn >= before:
            self.turn = 0
        if place < self.turn:
            self.turn += 1

    def leave(self, consumer: Consumer, place: i64) -> None:
        """Keep the turn of the same consumer after another has left its place in the list."""
        if place < self.turn:
            self.turn -= 1


class Rotation(Fairness):
    """A strategy that gives records to one consumer after the other.

    Few records go round one by one. A backlog is divided evenly, in bursts, among all consumers that can take some of
    it, because each record that goes alone costs a delivery of its own.

    left     records that the consumer whose turn it is may still have
    portion  records for each consumer of this round
    places   consumers of this round that have not had their turn
    one_by_one  what is ready is no backlog, until `begin`
    """

    def __init__(self, burst: i64, turn: i64 = 0) -> None:
        super().__init__(burst, turn)
        self.left: i64 = 0
        self.portion: i64 = 1
        self.places: i64 = 0
        self.one_by_one = False

    def begin(self) -> None:
        if self.left:  # a limit of the turn cut this consumer's portion
            self.turn += 1
            self.left = 0
        self.places = 0
        self.one_by_one = self.burst == 1

    def share(self, consumers: list[Consumer], consumer: Consumer, ready: i64) -> i64:
        if self.left == 0:
            if self.places == 0:
                if self.one_by_one or ready < 2 * FEW:
                    self.left = 1
                    return 1
                self.divide(consumers, consumer.priority, ready)
            self.places -= 1
            self.left = self.portion
        return self.left

    def divide(self, consumers: list[Consumer], priority: i64, ready: i64) -> None:
        """Begin a round: divide the ready records evenly among the consumers of this priority that can take some."""
        limit = ready // FEW
        able: i64 = 0
        for consumer in consumers:
            if consumer.priority == priority and consumer.can_take():
                able += 1
                if able > limit:
                    break
        self.one_by_one = able > limit
        self.places = 1 if self.one_by_one else able
        self.portion = 1 if self.one_by_one else min(self.burst, ready // able)

    def took(self, consumer: Consumer, count: i64) -> None:
        self.left -= count
        if self.left == 0:
            self.turn += 1

    def leave(self, consumer: Consumer, place: i64) -> None:
        if place == self.turn:
            self.left = 0
        super().leave(consumer, place)


@final
class RoundRobin(Rotation):
    """A rotation over all consumers."""

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        count = i64(len(consumers))
        turn = self.turn
        for _ in range(count):
            if turn >= count:
                turn = 0
            consumer = consumers[turn]
            if consumer.can_take():
                if turn != self.turn:
                    self.turn = turn
                    self.left = 0
                return consumer
            turn += 1
        return None


@final
class ByPriority(Rotation):
    """A rotation over the consumers of the highest priority.

    A lower one gets records only while no higher one can take any.
    """

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
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
                if turn != self.turn:
                    self.turn = turn
                    self.left = 0
                return consumer
            turn += 1
        return None


@final
class ByFilter(Fairness):
    """Chooses, of the consumers with the highest priority, the one that has waited longest.

    Each consumer wants other records. Of two consumers with one filter, each gets every second record, however many go
    to others between them.

    served  number of deliveries so far
    """

    def __init__(self, burst: i64) -> None:
        super().__init__(burst)
        self.served: i64 = 0

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        best: Consumer | None = None
        for consumer in consumers:
            if best is not None and consumer.priority < best.priority:
                break
            if consumer.can_take() and (best is None or consumer.served_at < best.served_at):
                best = consumer
        return best

    def share(self, consumers: list[Consumer], consumer: Consumer, ready: i64) -> i64:
        """Return how many records the consumer may take: its part of those that are known to match its filter."""
        selector = consumer.selector
        sharers: i64 = 0
        if selector is not None:
            ready = selector.size
            sharers = selector.users
        else:
            for other in consumers:
                sharers += 1 if other.selector is None else 0
        if self.burst == 1 or ready < FEW * sharers:
            return 1
        return min(self.burst, ready // sharers)

    def took(self, consumer: Consumer, count: i64) -> None:
        self.served += 1
        consumer.served_at = self.served


@final
class SingleActive(Fairness):
    """Gives everything to one consumer until it leaves, or until one of a higher priority takes over.

    active  the active consumer, once there was something to deliver
    """

    def __init__(self) -> None:
        super().__init__(UNLIMITED)
        self.active: Consumer | None = None

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        if not consumers:
            return None
        first = consumers[0]
        active = self.active
        if active is None or (active.held == 0 and first.priority > active.priority):
            active = first
            self.active = active
        # The next consumer takes over once everything that the active one holds is settled.
        if first.priority > active.priority or not active.can_take():
            return None
        return active

    def leave(self, consumer: Consumer, place: i64) -> None:
        if consumer is self.active:
            self.active = None


@final
class Fast(Fairness):
    """Chooses the first consumer that can take records, by priority, and gives it as many as it takes."""

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        for consumer in consumers:
            if consumer.can_take():
                return consumer
        return None


@final
class Proportional(Fairness):
    """Chooses, of the consumers with the highest priority, the one with the largest unused share of its backlog.

    Of consumers with equal shares the one that has waited longest is next.

    served  number of deliveries so far
    """

    def __init__(self) -> None:
        super().__init__(1)
        self.served: i64 = 0

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        best: Consumer | None = None
        for consumer in consumers:
            if best is not None and consumer.priority < best.priority:
                break
            if consumer.can_take() and (best is None or is_freer(consumer, best)):
                best = consumer
        return best

    def took(self, consumer: Consumer, count: i64) -> None:
        self.served += 1
        consumer.served_at = self.served


@final
class LeastHeld(Fairness):
    """Chooses the consumer with the fewest unacknowledged messages. All windows start equal."""

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        best: Consumer | None = None
        for consumer in consumers:
            if consumer.can_take() and (best is None or consumer.credit > best.credit):
                best = consumer
        return best


@final
class ByHash(Fairness):
    """Chooses always the same consumer for the same key."""

    def __init__(self, key_of: i64) -> None:
        super().__init__(1)
        self.key_of = key_of

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        at = next_from(consumers, hash_of(key))
        return None if at < 0 else consumers[at]


@final
class AtRandom(Fairness):
    """Chooses any consumer, by a generator that gives the same sequence in every run."""

    def __init__(self) -> None:
        super().__init__(1)
        self.state: i64 = 1

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        self.state = (self.state * MULTIPLIER + INCREMENT) & 0x7FFF_FFFF
        at = next_from(consumers, self.state >> 16)
        return None if at < 0 else consumers[at]


@final
class Sticky(Fairness):
    """Chooses the same consumer as before, as long as it can take records."""

    def __init__(self) -> None:
        super().__init__(1)
        self.chosen: Consumer | None = None

    def next(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        start: i64 = 0
        for at, consumer in enumerate(consumers):
            if consumer is self.chosen:
                start = at
        found = next_from(consumers, start)
        if found < 0:
            return None
        self.chosen = consumers[found]
        return self.chosen


def is_freer(consumer: Consumer, other: Consumer) -> bool:
    """Return whether a consumer has a larger unused share than another, or an equal one and has waited longer."""
    held = min(consumer.held, SHARE_MAX)
    other_held = min(other.held, SHARE_MAX)
    used = held * min(other_held + other.credit, SHARE_MAX)
    other_used = other_held * min(held + consumer.credit, SHARE_MAX)
    return used < other_used or (used == other_used and consumer.served_at < other.served_at)


def fairness_of(strategy: i64, current: Fairness) -> Fairness:
    """Return a queue's strategy, FAST or PROPORTIONAL. Return the current one if it is that already."""
    if strategy == FAST:
        return current if isinstance(current, Fast) else Fast(BURST)
    return current if isinstance(current, Proportional) else Proportional()


def fairness_named(strategy: str) -> Fairness:
    """Return a new strategy of a shared subscription, by its option name."""
    if strategy == LEAST_INFLIGHT:
        return LeastHeld(1)
    if strategy == RANDOM:
        return AtRandom()
    if strategy == STICKY:
        return Sticky()
    if strategy == HASH_TOPIC:
        return ByHash(BY_TOPIC)
    if strategy == HASH_CLIENT:
        return ByHash(BY_PUBLISHER)
    assert strategy == ROUND_ROBIN, strategy
    return RoundRobin(1)


def next_from(consumers: list[Consumer], start: i64) -> i64:
    """Return the index of the first consumer that can take records, from `start` on and round, or -1 for none."""
    count = i64(len(consumers))
    for step in range(count):
        at = (start + step) % count
        if consumers[at].can_take():
            return at
    return -1


def hash_of(key: bytes) -> i64:
    """Return 31 bits of the FNV-1a hash of a key. Unlike Python's hash it is the same in every run."""
    value: i64 = 2_166_136_261
    for octet in key:
        value = ((value ^ octet) * 16_777_619) & 0xFFFF_FFFF
    return value & 0x7FFF_FFFF
