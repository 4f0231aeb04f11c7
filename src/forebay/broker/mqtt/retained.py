"""Retained messages: the last one of each topic that was published to be kept.

Each is a record of a log of the broker's own; in memory are only its place and its topic. Replacing one is a record
and a settlement of the same turn, and so of the same frame of the write-ahead log: after a crash there is the old one
or the new one, never neither.

Volatile ones are the broker's own statistics: they are gone with the process, and their topics have numbers below 0.
"""

from __future__ import annotations

import heapq
from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.internal_log import RECORD_OVERHEAD, RETAINED_LOG, LedgerLog
from forebay.core.errors import DamagedBlock, note_half_change
from forebay.log.block import Block
from forebay.log.store import Store
from forebay.message.formats.table import format_of, topic_octet
from forebay.routing.cut_work import UNCUT, CutWork
from forebay.routing.topic_tree import TopicTree, TreeSearch

SEAL_OCTETS: Final = 64 << 20  # of bodies gathered in a turn, after which a block is sealed before the turn ends
SWEEP_MAX: Final = 10_000  # expired messages dropped by one `sweep`
SLACK: Final = 1024  # stale entries in the heap of expiries that are worth compacting it
SORTED_MAX: Final = 50_000  # numbers that one search sorts


@final
class RetainedMessage:
    """One retained message, read.

    format    octet as stored: protocol, QoS and flags of the publisher
    stamp_us  when it was stored
    """

    def __init__(self, topic: bytes, format: i64, properties: bytes, body: bytes, stamp_us: i64) -> None:
        self.topic = topic
        self.format: i64 = format
        self.properties = properties
        self.body = body
        self.stamp_us: i64 = stamp_us


@final
class RetainedEntry:
    """The fields of a retained message that need no reading.

    octets  of its body
    due_us  when it expires; 0 for never
    """

    def __init__(self, topic: bytes, octets: i64, due_us: i64) -> None:
        self.topic = topic
        self.octets: i64 = octets
        self.due_us: i64 = due_us


@final
class RetainedSearch(CutWork):
    """The search for the retained messages of the topics that a filter matches, as they are when it begins.

    What is retained while it goes on is left out: who subscribes gets that as it is published.

    end       offset that the next message would have had then
    volatile  number that the next volatile one would have had
    """

    def __init__(self, tree: TopicTree, filter: bytes, end: i64, volatile: i64) -> None:
        super().__init__()
        self.tree_search = TreeSearch(tree, filter)
        self.end: i64 = end
        self.volatile: i64 = volatile

    def run(self, steps: i64) -> i64:
        left = self.tree_search.run(steps)
        self.done = self.tree_search.done
        return left

    def numbers(self) -> list[int]:
        """Return the numbers found, for `Retained.message`: the oldest first, and volatile ones last.

        Very many are in no order, since to sort them would take too long. Reading messages one by one keeps the bodies
        of a wide filter out of memory. A number is never used again, and gives nothing once its message was replaced or
        removed.
        """
        found = [each for each in self.tree_search.found if self.volatile < each < self.end]
        if len(found) > SORTED_MAX:
            return found
        found.sort()
        last = 0
        while last < len(found) and found[last] < 0:
            last += 1
        return found[last:] + found[:last][::-1]


@final
class Retained(LedgerLog):
    """The retained messages of a vhost.

    messages_max  topics with a durable one; 0 sets no limit
    octets_max    of one body; 0 sets no limit
    """

    def __init__(self, store: Store, messages_max: i64, octets_max: i64, vhost: i64 = 0) -> None:
        super().__init__(RETAINED_LOG, "$retained", store, vhost)
        self.messages_max: i64 = messages_max
        self.octets_max: i64 = octets_max
        self.tree = TopicTree()  # topic -> offset, or number of a volatile one
        self.places: dict[int, RetainedEntry] = {}  # by offset
        self.body_octets: i64 = 0
        self.volatile: dict[int, RetainedMessage] = {}
        self.next_volatile: i64 = -1
        self.expiries: list[tuple[int, int]] = []  # heap of (due, offset); stale where the offset has no place
        self.expiring: i64 = 0  # entries that are not stale
        self.dropped: list[int] = []  # offsets to be settled at the end of the turn
        self.removed = False  # a client waits for that, or for what was dropped before

    # ---- storing

    def put(self, topic: bytes, format: u8, properties: bytes, body: bytes, now_us: i64) -> str:
        """Store a topic's message in place of any other, or with an empty body remove it; why not, or an empty text."""
        try:
            if not body:
                self.source.truncate()
                # Where it is gone already, the client still waits until the disk says so too.
                if self.forget(topic) or self.dropped or self.ledger.undurable:
                    self.removed = True
                return ""
            refusal = self.refusal(topic, properties, body)
            if refusal:
                return refusal
            self.forget(topic)
            offset = self.log.end + self.log.writer.count
            self.log.append(format, b"", topic, properties, body)
            self.take(topic, offset, len(body), expiry_us(i64(format), properties, now_us))
            if self.log.writer.bodies.size() > SEAL_OCTETS:
                self.make_readable(now_us)
            return ""
        except Exception as error:
            note_half_change(error)
            raise

    def refusal(self, topic: bytes, properties: bytes, body: bytes) -> str:
        """Return the reason not to store a message, or an empty text if it may be stored."""
        if self.octets_max and len(body) > self.octets_max:
            return f"the retained message has {len(body)} octets, the limit is {self.octets_max}"
        if self.messages_max and len(self.places) >= self.messages_max:
            number = self.tree.get(topic)
            if number is None or number < 0:
                return f"there are {len(self.places)} retained messages, the limit is {self.messages_max}"
        octets = len(topic) + len(properties) + len(body) + RECORD_OVERHEAD
        if not self.store.reserve(int(self.log.writer.octets() + octets)):
            return "no room on the disk"
        return ""

    def put_volatile(self, topic: bytes, body: bytes, now_us: i64) -> None:
        """Put a message as `put`, in memory only and without a limit."""
        try:
            self.forget(topic)
            if body:
                number = self.next_volatile
                self.next_volatile -= 1
                self.volatile[int(number)] = RetainedMessage(topic, i64(topic_octet(0, True)), b"", body, now_us)
                self.tree.set(topic, number)
        except Exception as error:
            note_half_change(error)
            raise

    def take(self, topic: bytes, offset: i64, octets: i64, due_us: i64) -> None:
        """Make the record at `offset` the retained message of its topic."""
        self.tree.set(topic, offset)
        self.places[int(offset)] = RetainedEntry(topic, octets, due_us)
        self.body_octets += octets
        if due_us:
            heapq.heappush(self.expiries, (int(due_us), int(offset)))
            self.expiring += 1

    def forget(self, topic: bytes) -> bool:
        """Give up a topic's message; whether a durable one was there."""
        number = self.tree.get(topic)
        if number is None:
            return False
        self.tree.remove(topic)
        if number < 0:
            del self.volatile[number]
            return False
        place = self.places.pop(number)
        self.body_octets -= place.octets
        if place.due_us:
            self.expiring -= 1
            if len(self.expiries) > 2 * self.expiring + SLACK:
                self.expiries = [each for each in self.expiries if each[1] in self.places]
                heapq.heapify(self.expiries)
        self.dropped.append(number)
        return True

    # ---- reading

    def search(self, filter: bytes) -> RetainedSearch:
        """Return the search for the topics that a filter matches, to be run."""
        return RetainedSearch(self.tree, filter, self.log.end + self.log.writer.count, self.next_volatile)

    def numbers(self, filter: bytes) -> list[int]:
        """Return the numbers, for `message`, of the topics that a filter matches, in the order of `RetainedSearch`."""
        search = self.search(filter)
        search.run(UNCUT)
        return search.numbers()

    def message(self, number: i64, now_us: i64) -> RetainedMessage | None:
        """Return the retained message of a number, or None if it is gone, unreadable or expired.

        Removes an expired message.
        """
        if number < 0:
            return self.volatile.get(int(number))
        place = self.places.get(int(number))
        if place is None:
            return None
        if place.due_us and place.due_us <= now_us:
            self.forget(place.topic)
            return None
        if number >= self.log.end:
            self.make_readable(now_us)
        try:
            block = self.log.block(number)
        except DamagedBlock:
            return None  # it stays, and the broker says what is damaged
        assert block is not None and block.base <= number, "a wanted record is in the log"
        at = number - block.base
        return RetainedMessage(
            place.topic, block.format(at), block.properties(at), block.body(at), block.timestamp_us(at)
        )

    def matching(self, filter: bytes, now_us: i64) -> list[RetainedMessage]:
        """Return the retained messages of the topics that a filter matches, in stored order, volatile ones last."""
        found: list[RetainedMessage] = []
        for number in self.numbers(filter):
            message = self.message(number, now_us)
            if message is not None:
                found.append(message)
        return found

    def count(self) -> i64:
        """Durable retained messages."""
        return len(self.places)

    def octets(self) -> i64:
        """Return the total size of the bodies in bytes."""
        return self.body_octets

    # ---- time

    def sweep(self, now_us: i64) -> None:
        """Drop some of what has expired, the longest expired first."""
        left: i64 = SWEEP_MAX
        while left > 0 and self.expiries and self.expiries[0][0] <= now_us:
            offset = heapq.heappop(self.expiries)[1]
            place = self.places.get(offset)
            if place is not None:
                self.forget(place.topic)
            left -= 1

    def end_turn(self, now_us: i64) -> None:
        self.make_readable(now_us)
        self.source.truncate()
        if not self.dropped and not self.removed:
            return
        for offset in self.dropped:
            self.ledger.settle(offset, 1)
        self.note(0, self.ledger.progress(), self.removed)
        self.dropped = []
        self.removed = False

    # ---- recovery

    def take_in(self, block: Block, first: i64, end: i64, now_us: i64) -> None:
        for offset in range(first, end):
            at = offset - block.base
            topic = block.routing_key(at)
            due_us = expiry_us(block.format(at), block.properties(at), block.timestamp_us(at))
            if due_us and due_us <= now_us:
                self.dropped.append(int(offset))
            else:
                self.forget(topic)
                self.take(topic, offset, block.body_span(at, 1), due_us)


def expiry_us(format: i64, properties: bytes, stamp_us: i64) -> i64:
    """Return the time at which a message stored at `stamp_us` expires, or 0 for never."""
    if not properties:
        return 0
    published = format_of(format)
    expiration_us = published.expiration_us(properties) if published.keys_are_topics else -1
    return 0 if expiration_us < 0 else stamp_us + expiration_us
