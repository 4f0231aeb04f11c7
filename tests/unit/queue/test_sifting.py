"""Records taken out of the middle of a group that delivers by priority or message group, or counts octets."""

from __future__ import annotations

from pathlib import Path

from forebay.core.message import AMQP091, KEYED
from forebay.filter.parser import parse
from forebay.filter.subject import Subject
from forebay.log.block import Block
from forebay.queue.declaration.limits import NO_PRIORITY, STRICT, Limits
from forebay.queue.leases.lease import UNLIMITED, UNTRIED, Consumer, Delivery
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.delayed import FROM_NOW
from forebay.queue.work.sifting import is_waiting, take_out
from forebay.queue.work.work_group import WorkGroup
from tests.logs import memory_log


class KeyFacts(PropertyReader):
    """The routing key of a record is its priority, its properties are its message group."""

    def priority(self, block: Block, index: int) -> int:
        return int(block.routing_key(index))

    def expiration_us(self, block: Block, index: int) -> int:
        return -1

    def key(self, block: Block, index: int) -> bytes:
        return block.properties(index)

    def filter_value(self, block: Block, index: int) -> bytes | None:
        return None

    def has_topic(self, block: Block, index: int) -> bool:
        return False

    def subject(self, queue: bytes, block: Block, index: int, deliveries: int, failures: int) -> Subject:
        return KeySubject(block.routing_key(index))


class KeySubject(Subject):
    """Each header has the routing key for its value."""

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self.key = key

    def property(self, name: str) -> object:
        return None

    def header(self, name: str) -> object:
        return self.key

    def parse_body(self) -> object:
        return None


class Rig:
    """A group over a log in memory."""

    def __init__(self, folder: Path, mode: int, ordered: bool, **limits: int) -> None:
        self.log = memory_log(str(folder))
        self.limits = Limits()
        self.limits.priority_mode = mode
        self.limits.max_priority = 9
        for name, value in limits.items():
            setattr(self.limits, name, value)
        self.group = WorkGroup(1, b"", b"", self.log, 0, self.limits, KeyFacts())
        if ordered:
            self.group.ready_queue.make_ordered(False)

    def publish(self, *records: tuple[int, bytes]) -> None:
        """A block of records of these priorities and message groups."""
        for priority, key in records:
            self.log.append(AMQP091 | (KEYED if key else 0), b"", b"%d" % priority, key, b"x" * 10)
        self.log.seal(1)

    def delivered(self, credit: int = UNLIMITED, now_us: int = 1) -> list[int]:
        """The offsets that a new consumer gets."""
        consumer = Consumer(1, 1, 1, 1, 0, b"", False, credit)
        consumer.timeout_us = 1_000_000
        self.group.add(consumer)
        found = self.turn(now_us)
        self.group.detach(consumer)
        return found

    def turn(self, now_us: int = 1) -> list[int]:
        """The offsets that the consumers which are there get."""
        out: list[Delivery] = []
        self.group.dispatch(now_us, out)
        return [int(each.block.base + each.index) + at for each in out for at in range(each.count)]


def test_levels_of_priority_keep_their_order(tmp_path: Path) -> None:
    rig = Rig(tmp_path, STRICT, True)
    rig.publish((1, b""), (5, b""), (1, b""), (5, b""))
    rig.publish((9, b""), (1, b""))
    take_out(rig.group, {1, 2})
    assert rig.group.ready() == 4
    assert rig.delivered() == [4, 3, 0, 5]
    assert [is_waiting(rig.group, offset) for offset in range(7)] == [False] * 7


def test_what_waits_behind_its_message_group_comes_forward(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NO_PRIORITY, True)
    rig.publish((0, b"a"), (0, b"a"), (0, b"b"), (0, b"a"), (0, b"b"))
    assert rig.delivered(1) == [0]
    take_out(rig.group, {1, 2})
    assert rig.delivered() == [4], "3 waits for 0, of its message group, and 4 for nobody any more"
    lease = rig.group.leases.find(0)
    assert lease is not None
    rig.group.ack(lease, 0, 1)
    assert rig.delivered() == [3]


def test_a_record_that_is_held_up_by_a_delay_is_taken_out_too(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NO_PRIORITY, True)
    rig.publish((0, b"a"), (0, b"a"))
    assert rig.delivered() == [0]
    lease = rig.group.leases.find(0)
    assert lease is not None
    rig.group.give_back(lease, 0, 1, 1_000_000, UNTRIED)
    assert is_waiting(rig.group, 0)
    take_out(rig.group, {0})
    assert rig.group.delayed.count == 0
    assert rig.delivered() == [1]


def test_what_filters_passed_over_behind_its_message_group_is_offered_to_them(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NO_PRIORITY, True)
    rig.publish((1, b"a"), (2, b"a"), (1, b"b"))
    consumer = Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED)
    rig.group.select(consumer, parse("header.any = '2'"))
    rig.group.add(consumer)
    assert rig.turn() == []
    take_out(rig.group, {0})
    assert rig.turn() == [1]


def test_a_record_that_is_given_back_until_a_time_waits_for_it(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NO_PRIORITY, False)
    rig.publish((0, b""), (0, b""))
    assert rig.delivered() == [0, 1]
    lease = rig.group.leases.find(0)
    assert lease is not None
    rig.group.give_back(lease, 0, 1, 5_000, UNTRIED)
    rig.group.give_back(lease, 1, 1, FROM_NOW + 7_000, UNTRIED)
    assert rig.group.ready() == 0
    assert rig.delivered(now_us=1_000) == []
    assert rig.group.next_due_us() == 5_000
    assert rig.delivered(now_us=4_999) == []
    assert rig.delivered(now_us=5_000) == [0]
    assert rig.delivered(now_us=7_999) == []
    assert rig.delivered(now_us=8_000) == [1]


def test_octets_that_are_gone_count_no_more(tmp_path: Path) -> None:
    rig = Rig(tmp_path, NO_PRIORITY, False, max_octets=1000)
    rig.publish((0, b""), (0, b""), (0, b""))
    rig.group.ready_queue.measure()
    assert rig.group.ready_queue.octets.count == 30
    take_out(rig.group, {1})
    rig.group.ready_queue.measure()
    assert rig.group.ready_queue.octets.count == 20
    assert rig.delivered() == [0, 2]
    assert rig.group.ready_queue.octets.count == 0
