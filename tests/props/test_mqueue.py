"""The session's message queue against a list of messages a level."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay.core.message import MQTT
from forebay.log.block import Block, BlockWriter
from forebay.queue.leases.lease import Consumer
from forebay.queue.mqueue import LOWEST, Mqueue, MqueueRules
from tests.examples import examples

PRIORITIES = [0, 1, 2]
BLOCK_RECORDS = 10_000
Message = tuple[Consumer, Block | None, int, bool]  # who, where, offset or index, at QoS 0


def sealed_block() -> Block:
    writer = BlockWriter()
    for _ in range(BLOCK_RECORDS):
        writer.append(MQTT, b"", b"t", b"", b"x")
    return writer.seal(0, 1, False)


CONSUMERS = [Consumer(number, -1, 0, number, 0, b"", False, 0) for number in range(2)]
BLOCKS = [None, None, sealed_block(), sealed_block()]


def turn(priority: int) -> int:
    return (priority + 1) * 10


class MqueueMachine(RuleBasedStateMachine):
    """The model: the messages of each level, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.begin_with(0)

    @initialize(limit=st.sampled_from([0, 1, 7, 60]))
    def begin_with(self, limit: int) -> None:
        self.limit = limit
        self.queue = Mqueue(MqueueRules(limit, True, {}, LOWEST))
        self.levels: dict[int, list[Message]] = {priority: [] for priority in PRIORITIES}
        self.ends = [0 for _ in BLOCKS]
        self.dropped = 0
        self.lost: list[int] = []
        self.waited = dict.fromkeys(PRIORITIES, 0)  # messages of other levels since it got something, or its turn

    @rule(
        who=st.integers(0, 1),
        where=st.integers(0, len(BLOCKS) - 1),
        gap=st.sampled_from([0, 0, 0, 1, -3]),
        count=st.sampled_from([1, 1, 1, 2, 20]),
        zero=st.booleans(),
        priority=st.sampled_from(PRIORITIES),
        times=st.sampled_from([1, 1, 5, 40]),
    )
    def push(self, who: int, where: int, gap: int, count: int, zero: bool, priority: int, times: int) -> None:
        for _ in range(times):
            first = max(0, self.ends[where] + gap)
            self.ends[where] = first + count
            self.queue.push(CONSUMERS[who], BLOCKS[where], first, count, zero, priority)
            self.add(priority, self.messages(who, where, first, count, zero), front=False)

    @rule(
        who=st.integers(0, 1),
        where=st.integers(0, len(BLOCKS) - 1),
        first=st.integers(0, 50),
        count=st.sampled_from([1, 1, 3]),
        zero=st.booleans(),
        priority=st.sampled_from(PRIORITIES),
    )
    def push_front(self, who: int, where: int, first: int, count: int, zero: bool, priority: int) -> None:
        self.queue.push_front(CONSUMERS[who], BLOCKS[where], first, count, zero, priority)
        self.add(priority, self.messages(who, where, first, count, zero), front=True)

    @precondition(lambda self: self.queue.count > 0)
    @rule(part=st.sampled_from([0.0, 0.5, 1.0]), times=st.sampled_from([1, 10, 40]), back=st.booleans())
    def take(self, part: float, times: int, back: bool) -> None:
        for _ in range(times):
            if not self.queue.head():
                return
            priority, run = self.head()
            count = max(1, int(len(run) * part))
            self.queue.take(count)
            del self.levels[priority][:count]
            self.served(priority, count)
        if back:
            who, block, first, zero = run[count - 1]
            self.queue.push_front(who, block, first, 1, zero, priority)
            self.add(priority, [run[count - 1]], front=True)

    @rule()
    def take_nothing(self) -> None:
        if self.queue.head():
            self.queue.take(0)

    @precondition(lambda self: self.queue.dropped > 5)
    @rule()
    def clear(self) -> None:
        self.queue.clear()
        for level in self.levels.values():
            level.clear()

    def messages(self, who: int, where: int, first: int, count: int, zero: bool) -> list[Message]:
        return [(CONSUMERS[who], BLOCKS[where], offset, zero) for offset in range(first, first + count)]

    def add(self, priority: int, messages: list[Message], front: bool) -> None:
        level = self.levels[priority]
        if not level:
            self.waited[priority] = 0
        if front:
            level[:0] = messages
            return
        level += messages
        while self.limit and len(level) > self.limit:
            zeros = [index for index, message in enumerate(level) if message[3]]
            _, block, offset, _ = level.pop(zeros[0] if zeros else 0)
            self.dropped += 1
            if block is None:
                self.lost.append(offset)

    def head(self) -> tuple[int, list[Message]]:
        """The level and the messages of the run that the queue names; it must be the beginning of a level."""
        queue = self.queue
        assert queue.run_consumer is not None and queue.run_count > 0
        named = [
            (queue.run_consumer, queue.run_block, offset)
            for offset in range(queue.run_first, queue.run_first + queue.run_count)
        ]
        heads = {priority: self.levels[priority][: len(named)] for priority in PRIORITIES}
        found = [priority for priority, head in heads.items() if [message[:3] for message in head] == named]
        assert queue.turn is not None and queue.turn.priority in found
        run = heads[int(queue.turn.priority)]
        assert len({message[3] for message in run}) == 1  # all of them go at QoS 0, or none
        return int(queue.turn.priority), run

    def served(self, priority: int, count: int) -> None:
        self.waited[priority] = 0
        for other in PRIORITIES:
            if other != priority and self.levels[other]:
                self.waited[other] += count
                most = sum(2 * turn(each) for each in PRIORITIES if each != other)
                assert self.waited[other] <= most, f"level {other} waits for {self.waited[other]} messages"

    def logged(self, first: int, end: int) -> list[tuple[int, int]]:
        """Intervals of the offsets within [first, end) that wait in the log."""
        offsets = {message[2] for level in self.levels.values() for message in level if message[1] is None}
        found: list[tuple[int, int]] = []
        for offset in sorted(offset for offset in offsets if first <= offset < end):
            if found and found[-1][1] == offset:
                found[-1] = (found[-1][0], offset + 1)
            else:
                found.append((offset, offset + 1))
        return found

    @invariant()
    def counts_agree(self) -> None:
        assert self.queue.count == sum(len(level) for level in self.levels.values())
        assert self.queue.dropped == self.dropped

    @invariant()
    def what_the_log_lost_is_told(self) -> None:
        bounds, self.queue.lost = self.queue.lost, []
        found = [offset for at in range(0, len(bounds), 2) for offset in range(bounds[at], bounds[at + 1])]
        assert found == self.lost
        self.lost.clear()

    @invariant()
    def head_is_the_oldest_of_a_level_and_stays(self) -> None:
        assert self.queue.head() == (self.queue.count > 0)
        if self.queue.count:
            first = self.head()
            assert self.queue.head()
            assert self.head() == first

    @invariant()
    def the_log_is_known(self) -> None:
        everything = self.logged(0, 1 << 40)
        assert self.queue.logged(0, 1 << 40) == everything
        assert self.queue.logged(20, 90) == self.logged(20, 90)
        assert self.queue.floor(-5) == (everything[0][0] if everything else -5)

    @invariant()
    def used_up_runs_do_not_pile_up(self) -> None:
        for level in self.queue.levels:
            assert len(level.firsts) <= 2 * level.runs + 30
            assert level.zero_count == sum(message[3] for message in self.levels[int(level.priority)])


MqueueMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=50, deadline=None)
TestMqueue = MqueueMachine.TestCase
