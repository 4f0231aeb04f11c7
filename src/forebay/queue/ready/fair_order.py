"""The order of a queue with a fair key: deliveries go round the keys with ready records, oldest first in each.

A key is the value of an expression, such as the tenant. In each round a key has as many turns as its weight. A key with
nothing ready is in no list. A new key goes to the end of the round. A key with as many records out as the queue allows
is left out until one of them is settled or comes back.
"""

from __future__ import annotations

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from forebay.filter.parser import Filter
from forebay.filter.values import first, text
from forebay.log.block import Block
from forebay.queue.declaration.fair_key import EVERY_OTHER
from forebay.queue.declaration.limits import Limits
from forebay.queue.leases.page import Page
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.level import PriorityLevel
from forebay.queue.ready.order import Order
from forebay.queue.ready.selector import look_cost
from forebay.queue.turn import TurnShare

KEY_CHARACTERS_MAX: Final = 256  # significant characters of a key
HEADS: Final = 64  # keys whose first records one check for expiry covers


@final
class FairKey:
    """A key with records that are ready or out.

    level     its ready records
    out       number of its records that are out, if the queue limits their number
    left      turns that it has left in this round
    in_round  it waits for its turn
    """

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.level = PriorityLevel()
        self.out: i64 = 0
        self.left: i64 = 0
        self.in_round = False


@final
class FairOrder(Order):
    """The records that wait below the cursor of a group, by key.

    fair_keys  all keys with records ready or out, by name
    round      keys with records that can be delivered now, in the order of their turns
    probe      place in the round at which the next search for expired records begins
    keys       by offset: key of each record that is out, if the queue limits their number
    parked     number of records of keys with as many out as allowed, and of `pending`
    """

    def __init__(
        self, limits: Limits, properties: PropertyReader, pages: dict[int, Page], turn: TurnShare, fair_key: Filter
    ) -> None:
        super().__init__(limits, properties, False, pages, False)
        self.limits = limits
        self.turn = turn
        self.fair_key = fair_key
        self.fair_keys: dict[bytes, FairKey] = {}
        self.round: deque[FairKey] = deque()
        self.probe: i64 = 0
        self.is_fair = True

    # ---- keys

    def key_of(self, block: Block, index: i64) -> FairKey:
        """Return the key of a record. The evaluation of its expression is charged to the turn."""
        expression = self.fair_key
        looks = self.properties.looks
        octets = block.body_span(index, 1) if expression.asks_body else 0
        subject = self.properties.subject(b"", block, index, 0, 0)
        value = text(first(expression.value(subject)))
        name = b"" if value is None else value[:KEY_CHARACTERS_MAX].encode("utf-8", "replace")
        self.turn.looks -= looks.charge(look_cost(expression, octets), subject)
        if looks.left <= 0:
            self.turn.looks = 0
        return self.named(name)

    def named(self, name: bytes) -> FairKey:
        key = self.fair_keys.get(name)
        if key is None:
            key = self.fair_keys[name] = FairKey(name)
        return key

    def weight(self, key: FairKey) -> i64:
        weights = self.limits.fair_weights
        if not weights:
            return 1
        found = weights.get(key.name)
        if found is None:
            found = weights.get(EVERY_OTHER, 1)
        return found

    def is_stalled(self, key: FairKey) -> bool:
        """Return whether a key has as many records out as it may have."""
        return 0 < self.limits.key_concurrency <= key.out

    def affordable(self, count: i64) -> i64:
        """Return for how many of `count` records this turn can still compute the key; at least 1."""
        return max(1, min(count, self.turn.looks // look_cost(self.fair_key, 0)))

    # ---- coming

    def take_in(self, block: Block, index: i64, count: i64) -> None:
        for at in range(index, index + count):
            key = self.key_of(block, at)
            key.level.add(block.base + at, 1)
            self.enter(key, 1)

    def enter(self, key: FairKey, count: i64) -> None:
        """Record that `count` more records of a key are ready."""
        if self.is_stalled(key):
            self.parked += count
            return
        self.count += count
        if not key.in_round:
            key.in_round = True
            key.left = 0
            self.round.append(key)

    def give_back(self, block: Block, index: i64, count: i64) -> None:
        for at in range(index, index + count):
            offset = block.base + at
            name = self.keys.get(int(offset))
            self.follow(offset)
            key = self.key_of(block, at) if name is None else self.named(name)
            key.level.give_back(offset, 1)
            self.enter(key, 1)

    def follow(self, offset: i64) -> i64:
        """Record that a record is out no more, so that its key may send another.

        Return -1: it releases no record itself.
        """
        name = self.keys.pop(int(offset), None)
        key = None if name is None else self.fair_keys.get(name)
        if key is not None:
            was_stalled = self.is_stalled(key)
            key.out -= 1
            ready = key.level.count
            if was_stalled and ready and not self.is_stalled(key):
                self.parked -= ready
                self.enter(key, ready)
            elif not ready:
                self.leave(key)
        return -1

    # ---- going

    def leave(self, key: FairKey) -> None:
        """Forget a key that has nothing ready and nothing out."""
        if key.out == 0 and not key.in_round:
            self.fair_keys.pop(key.name, None)

    def next_key(self) -> FairKey:
        """Return the key whose turn it is. There must be one with a record."""
        key = self.round[0]
        while not key.level.count:  # its last record has expired
            self.round.popleft()
            key.in_round = False
            self.leave(key)
            key = self.round[0]
        if key.left <= 0:
            key.left = self.weight(key)
        return key

    def choose(self) -> i64:
        self.chosen = self.next_key().level
        return self.chosen.first()

    def length(self, most: i64) -> i64:
        key = self.next_key()
        length = min(key.level.length(), most)
        if len(self.round) > 1:
            length = min(length, key.left)
        limit = self.limits.key_concurrency
        return min(length, limit - key.out) if limit else length

    def take(self, count: i64) -> None:
        key = self.next_key()
        level = key.level
        if self.limits.key_concurrency:
            for offset in range(level.first(), level.first() + count):
                self.keys[int(offset)] = key.name
            key.out += count
        level.take(count)
        self.count -= count
        key.left -= count
        if not level.count:
            self.round.popleft()
            key.in_round = False
            self.leave(key)
        elif self.is_stalled(key):
            self.round.popleft()
            key.in_round = False
            self.count -= level.count
            self.parked += level.count
        elif key.left <= 0:
            self.round.rotate(-1)

    def heads(self) -> list[PriorityLevel]:
        """Return the levels of the next key and of some others. Each call returns another part of the round."""
        found: list[PriorityLevel] = []
        if not self.count:
            return found
        self.next_key()
        size = i64(len(self.round))
        found.append(self.round[0].level)
        for _ in range(min(HEADS, size) - 1):
            self.probe += 1
            if self.probe >= size:
                self.probe = 1
            found.append(self.round[self.probe].level)
        return found

    def trim(self, level: PriorityLevel) -> None:
        """Do nothing: entries hold exactly what waits, and keys without records leave at their turn."""

    def has_more_heads(self) -> bool:
        """Return whether there are keys that `heads` has left out."""
        return len(self.round) > HEADS

    # ---- all of it

    def all_levels(self) -> list[PriorityLevel]:
        found: list[PriorityLevel] = []
        for key in self.fair_keys.values():
            if key.level.count:
                found.append(key.level)
        return found

    def runs(self) -> list[tuple[int, int]]:
        entries: list[tuple[int, int]] = []
        for level in self.all_levels():
            entries += level.all_runs()
        return entries + self.pending

    def take_all(self) -> list[tuple[int, int]]:
        runs = self.runs()
        self.pending = []
        for key in list(self.fair_keys.values()):
            key.level.clear()
            key.in_round = False
            self.leave(key)
        self.round.clear()
        self.count = 0
        self.parked = 0
        return runs
