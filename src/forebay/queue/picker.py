"""Which member of a shared subscription gets the next message."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.queue.leases import Consumer

ROUND_ROBIN: Final = "round_robin"
RANDOM: Final = "random"
STICKY: Final = "sticky"
LEAST_INFLIGHT: Final = "least_inflight"
HASH_TOPIC: Final = "hash_topic"
HASH_CLIENT: Final = "hash_clientid"
MULTIPLIER: Final = 1_103_515_245  # the generator of the C standard's example
INCREMENT: Final = 12_345


@final
class Picker:
    """One strategy, and what it remembers. A member whose window is full is passed over, whatever the strategy says."""

    def __init__(self, strategy: str) -> None:
        self.strategy = strategy
        self.turn: i64 = 0
        self.chosen: Consumer | None = None  # whom `sticky` keeps to
        self.state: i64 = 1
        self.by_key = strategy in {HASH_TOPIC, HASH_CLIENT}

    def pick(self, consumers: list[Consumer], key: bytes) -> Consumer | None:
        """The member for a message; `key` is what the hash strategies go by. None if no member has room."""
        count: i64 = len(consumers)
        if count == 0:
            return None
        strategy = self.strategy
        start = self.turn
        if strategy == LEAST_INFLIGHT:
            return most_credit(consumers)
        if strategy == RANDOM:
            self.state = (self.state * MULTIPLIER + INCREMENT) & 0x7FFF_FFFF
            start = self.state >> 16
        elif self.by_key:
            start = hash_of(key)
        elif strategy == STICKY:
            start = self.place_of_chosen(consumers)
        for step in range(count):
            at = (start + step) % count
            consumer = consumers[at]
            if consumer.can_take():
                if strategy == ROUND_ROBIN:
                    self.turn = (at + 1) % count
                elif strategy == STICKY:
                    self.chosen = consumer
                return consumer
        return None

    def place_of_chosen(self, consumers: list[Consumer]) -> i64:
        """Where among the members of now the chosen one is; the first place where it has gone."""
        for at, consumer in enumerate(consumers):
            if consumer is self.chosen:
                return at
        return 0


def most_credit(consumers: list[Consumer]) -> Consumer | None:
    """The consumer with the fewest messages unacknowledged, as all windows were alike at first."""
    best: Consumer | None = None
    for consumer in consumers:
        if consumer.can_take() and (best is None or consumer.credit > best.credit):
            best = consumer
    return best


def hash_of(key: bytes) -> i64:
    """FNV-1a, of which 31 bits are kept: the same in every run, unlike Python's."""
    value: i64 = 2_166_136_261
    for octet in key:
        value = ((value ^ octet) * 16_777_619) & 0xFFFF_FFFF
    return value & 0x7FFF_FFFF
