"""The message queue of one MQTT session: runs of messages by priority, up to a limit, like EMQX's mqueue.

Ten thousand sessions may have a thousand runs each, so a run is no object but an index of parallel arrays, 33 bytes.
Runs before `head` are used up. A run in the middle is used up if the limit took its last QoS 0 message. When used-up
runs outnumber the others, the arrays are rewritten.

Turns: each level may deliver (priority + 1) * 10 messages a round, the highest level first. A round ends when every
level with messages has had its turn, or when only one level has messages. A message for a higher level is thus next,
and no level waits for more than two turns of each other level.
"""

from __future__ import annotations

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from forebay.core.errors import note_half_change
from forebay.log.block import Block
from forebay.queue.leases.lease import Consumer

LOWEST: Final = 0
HIGHEST: Final = 256  # above the priorities of topics, 1 to 255
TURN_MESSAGES: Final = 10  # messages in a turn of the lowest level
USED_UP_MIN: Final = 16  # used-up runs before the arrays are rewritten
ROOM_MIN: Final = 8  # least free places made in front of the first run


@final
class MqueueRules:
    """The rules for the queues of all sessions.

    limit             messages per level; 0 for no limit
    store_qos0        whether QoS 0 messages may wait at all, enforced by the caller of `push`
    qos0_bypass       whether QoS 0 messages overtake waiting ones, enforced by the caller of `push`
    crowd_at          messages of a connected session beyond which its publishers are delayed; 0 for no limit
    priorities        priority of each exact topic, 1 to 255
    default_priority  priority of all other topics: LOWEST or HIGHEST
    """

    def __init__(self, limit: i64, store_qos0: bool, priorities: dict[bytes, int], default_priority: i64) -> None:
        self.limit = limit
        self.store_qos0 = store_qos0
        self.qos0_bypass = False
        self.crowd_at: i64 = 0
        self.priorities = priorities
        self.default_priority = default_priority

    def priority(self, topic: bytes) -> i64:
        """Return the priority of a message to this topic. It is the same for all topics if none has its own."""
        if not self.priorities:
            return LOWEST
        given = self.priorities.get(topic)
        return self.default_priority if given is None else given


@final
class MqueueLevel:
    """The runs of one priority, oldest first, and what is left of its turn.

    count         number of messages; `zero_count` of them are sent at QoS 0
    credit        number of messages until the end of its turn
    runs          number of runs with messages left
    head          no run before this index has messages left
    first_zero    no run before this one has a QoS 0 message left
    first_logged  no run before this one has a message in the log left
    ascending     each run in the log begins at or behind the end of those before it
    logged_end    highest end of a run in the log so far
    """

    def __init__(self, priority: i64) -> None:
        self.priority = priority
        self.count: i64 = 0
        self.zero_count: i64 = 0
        self.credit: i64 = (priority + 1) * TURN_MESSAGES
        self.runs: i64 = 0
        self.head: i64 = 0
        self.first_zero: i64 = 0
        self.first_logged: i64 = 0
        self.ascending = True
        self.logged_end: i64 = 0
        self.consumers: list[Consumer | None] = []
        self.blocks: list[Block | None] = []
        self.firsts = vec[i64]()
        self.counts = vec[i64]()
        self.zeros = vec[bool]()

    def renew(self) -> None:
        self.credit = (self.priority + 1) * TURN_MESSAGES

    # ---- adding

    def push(self, consumer: Consumer, block: Block | None, first: i64, count: i64, zero: bool) -> None:
        last = i64(len(self.firsts)) - 1
        if (
            self.count > 0
            and self.counts[last] > 0
            and self.firsts[last] + self.counts[last] == first
            and self.same_kind(last, consumer, block, zero)
        ):
            self.counts[last] = self.counts[last] + count
        else:
            self.append(consumer, block, first, count, zero)
            self.runs += 1
        self.count += count
        if zero:
            self.zero_count += count
        if block is None:
            if first < self.logged_end:
                self.ascending = False
            self.logged_end = max(self.logged_end, first + count)

    def push_front(self, consumer: Consumer, block: Block | None, first: i64, count: i64, zero: bool) -> None:
        if self.count == 0:
            self.push(consumer, block, first, count, zero)
            return
        end = first + count
        if block is None:
            lowest = self.lowest_logged()
            self.ascending = self.ascending and (lowest < 0 or end <= lowest)
            self.logged_end = max(self.logged_end, end)
        self.count += count
        if zero:
            self.zero_count += count
        head = self.find_head()
        if self.firsts[head] == end and self.same_kind(head, consumer, block, zero):
            self.firsts[head] = first
            self.counts[head] = self.counts[head] + count
            return
        if head == 0:
            self.rewrite(ROOM_MIN + (self.runs >> 2))
            head = self.head
        head -= 1
        self.consumers[head] = consumer
        self.blocks[head] = block
        self.firsts[head] = first
        self.counts[head] = count
        self.zeros[head] = zero
        self.runs += 1
        self.head = head
        if zero:
            self.first_zero = head
        if block is None:
            self.first_logged = head

    def same_kind(self, index: i64, consumer: Consumer, block: Block | None, zero: bool) -> bool:
        return self.consumers[index] is consumer and self.blocks[index] is block and self.zeros[index] == zero

    def append(self, consumer: Consumer | None, block: Block | None, first: i64, count: i64, zero: bool) -> None:
        self.consumers.append(consumer)
        self.blocks.append(block)
        self.firsts = append(self.firsts, first)
        self.counts = append(self.counts, count)
        self.zeros = append(self.zeros, zero)

    def rewrite(self, room: i64) -> None:
        """Rewrite the arrays without the used-up runs, with free places for `room` runs in front of the first."""
        consumers = self.consumers
        blocks = self.blocks
        firsts = self.firsts
        counts = self.counts
        zeros = self.zeros
        self.consumers = []
        self.blocks = []
        self.firsts = vec[i64]()
        self.counts = vec[i64]()
        self.zeros = vec[bool]()
        for _ in range(room):
            self.append(None, None, 0, 0, False)
        for index in range(self.head, i64(len(firsts))):
            if counts[index] > 0:
                self.append(consumers[index], blocks[index], firsts[index], counts[index], zeros[index])
        self.head = room
        self.first_zero = room
        self.first_logged = room

    # ---- taking

    def remove(self, index: i64, count: i64) -> None:
        """Remove the first `count` messages of a run."""
        self.count -= count
        if self.zeros[index]:
            self.zero_count -= count
        left = self.counts[index] - count
        self.counts[index] = left
        self.firsts[index] = self.firsts[index] + count
        if left > 0:
            return
        self.consumers[index] = None
        self.blocks[index] = None
        self.runs -= 1
        if self.count == 0:
            self.ascending = True
            self.logged_end = 0
        if i64(len(self.firsts)) > 2 * self.runs + USED_UP_MIN:
            self.rewrite(0)

    def drop(self, count: i64, lost: list[int]) -> None:
        """Remove the oldest QoS 0 messages, or the oldest of all if there are none.

        lost  receives the first offset and the end of each removed run in the log
        """
        while count > 0:
            index = self.find_zero() if self.zero_count > 0 else self.find_head()
            part = min(count, self.counts[index])
            if self.blocks[index] is None:
                lost.append(int(self.firsts[index]))
                lost.append(int(self.firsts[index] + part))
            self.remove(index, part)
            count -= part

    # ---- looking

    def find_head(self) -> i64:
        """Return the index of the first run. There must be one."""
        index = self.head
        while self.counts[index] == 0:
            index += 1
        self.head = index
        return index

    def find_zero(self) -> i64:
        """Return the index of the first run at QoS 0. There must be one."""
        index = max(self.first_zero, self.head)
        while self.counts[index] == 0 or not self.zeros[index]:
            index += 1
        self.first_zero = index
        return index

    def find_logged(self) -> i64:
        """Return the index of the first run in the log, or the end of the arrays if there is none."""
        index = max(self.first_logged, self.head)
        end = i64(len(self.firsts))
        while index < end and (self.counts[index] == 0 or self.blocks[index] is not None):
            index += 1
        self.first_logged = index
        return index

    def lowest_logged(self) -> i64:
        """Return the lowest offset of a run in the log, or -1 if there is none."""
        begin = self.find_logged()
        end = i64(len(self.firsts))
        if begin == end:
            return -1
        lowest = self.firsts[begin]
        if not self.ascending:
            for index in range(begin + 1, end):
                if self.counts[index] > 0 and self.blocks[index] is None:
                    lowest = min(lowest, self.firsts[index])
        return lowest

    def logged(self, first: i64, end: i64, out: list[tuple[int, int]]) -> None:
        """Append the waiting parts of [first, end), run by run."""
        for index in range(self.find_logged(), i64(len(self.firsts))):
            if self.counts[index] == 0 or self.blocks[index] is not None:
                continue
            low = max(first, self.firsts[index])
            high = min(end, self.firsts[index] + self.counts[index])
            if low < high:
                out.append((int(low), int(high)))
            elif self.ascending and low >= end:
                return


@final
class Mqueue:
    """Runs of waiting records, by priority level. A run is consecutive records of one block in memory, or of one log.

    count          number of messages
    limit          messages per level, as the rules say unless a session sets another; 0 for no limit
    dropped        number of messages that the limit took, since the beginning
    lost           first, end, ... of those that were in the log, since `take_lost`
    run_consumer   and the other three: the run whose turn it is, as `head` found it; invalid after `take`
    run_block      None if `run_first` is an offset in the log; else `run_first` is an index in this block
    """

    def __init__(self, rules: MqueueRules) -> None:
        self.rules = rules
        self.limit: i64 = rules.limit
        self.count: i64 = 0
        self.dropped: i64 = 0
        self.lost: list[int] = []
        self.levels: list[MqueueLevel] = []  # the highest first; empty while nothing waits
        self.turn: MqueueLevel | None = None  # the level of the run that `head` found
        self.run_consumer: Consumer | None = None
        self.run_block: Block | None = None
        self.run_first: i64 = 0
        self.run_count: i64 = 0

    def push(self, consumer: Consumer, block: Block | None, first: i64, count: i64, zero: bool, priority: i64) -> None:
        """Append messages as the newest of a level.

        Over the limit, its oldest QoS 0 messages go first, then its oldest.

        block  None: `first` is an offset in the log; else an index in this block
        zero   send at QoS 0, whatever they were published with
        """
        try:
            assert count > 0
            level = self.level(priority)
            level.push(consumer, block, first, count, zero)
            self.count += count
            self.turn = None
            limit = self.limit
            if limit > 0 and level.count > limit:
                excess = level.count - limit
                level.drop(excess, self.lost)
                self.count -= excess
                self.dropped += excess
        except Exception as error:
            note_half_change(error)
            raise

    def push_front(
        self, consumer: Consumer, block: Block | None, first: i64, count: i64, zero: bool, priority: i64
    ) -> None:
        """Put returned messages before all others of a level, whatever its limit. Call for the newest run first."""
        try:
            assert count > 0
            self.level(priority).push_front(consumer, block, first, count, zero)
            self.count += count
            self.turn = None
        except Exception as error:
            note_half_change(error)
            raise

    def head(self) -> bool:
        """Find the run whose turn it is. Return False if nothing waits."""
        if self.count == 0:
            self.run_consumer = None
            self.run_block = None
            return False
        level = self.next_level()
        assert level is not None, "a round ends only where another begins"
        index = level.find_head()
        self.turn = level
        self.run_consumer = level.consumers[index]
        self.run_block = level.blocks[index]
        self.run_first = level.firsts[index]
        self.run_count = level.counts[index]
        if level.count < self.count:
            self.run_count = min(self.run_count, level.credit)
        return True

    def take(self, count: i64) -> None:
        """Remove the first `count` messages of the run that `head` found: they were sent, have expired, or moved."""
        try:
            level = self.turn
            assert level is not None and 0 <= count <= self.run_count, "take follows head"
            alone = level.count == self.count
            level.remove(level.find_head(), count)
            level.credit -= count
            self.count -= count
            self.turn = None
            if self.count == 0:
                self.levels.clear()
            elif alone or self.next_level() is None:
                for other in self.levels:
                    other.renew()
        except Exception as error:
            note_half_change(error)
            raise

    def take_lost(self) -> list[int]:
        """Return first, end, ... of the messages in the log that the limit took since the last call."""
        lost, self.lost = self.lost, []
        return lost

    def clear(self) -> None:
        """Remove everything that waits."""
        self.levels.clear()
        self.count = 0
        self.turn = None
        self.run_consumer = None
        self.run_block = None

    def floor(self, none: i64) -> i64:
        """Return the lowest offset in the log that waits, or `none` if there is none."""
        floor = none
        found = False
        for level in self.levels:
            lowest = level.lowest_logged()
            if lowest >= 0 and (not found or lowest < floor):
                floor = lowest
                found = True
        return floor

    def logged(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """Return the intervals of [first, end) in the log that wait, ascending and merged."""
        parts: list[tuple[int, int]] = []
        for level in self.levels:
            level.logged(first, end, parts)
        parts.sort()
        merged: list[tuple[int, int]] = []
        for low, high in parts:
            if merged and low <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        return merged

    def level(self, priority: i64) -> MqueueLevel:
        """Return the level of a priority. Create it if it is missing."""
        at: i64 = 0
        for level in self.levels:
            if level.priority == priority:
                return level
            if level.priority < priority:
                break
            at += 1
        made = MqueueLevel(priority)
        self.levels.insert(at, made)
        return made

    def next_level(self) -> MqueueLevel | None:
        """Return the highest level that has messages and credit, or None at the end of a round."""
        for level in self.levels:
            if level.count > 0 and level.credit > 0:
                return level
        return None
