"""Consumers with filters over a work group: what is looked at, how often, and what that costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import AMQP091
from forebay.filter.parser import parse
from forebay.filter.subject import Subject
from forebay.log.block import Block
from forebay.queue.declaration.limits import NO_PRIORITY, STRICT, Limits
from forebay.queue.leases.lease import UNLIMITED, UNTRIED, Consumer, Delivery, Lease
from forebay.queue.properties import Looks, PropertyReader
from forebay.queue.ready.order import ENTRIES_SLACK
from forebay.queue.turn import SCAN_RECORDS
from forebay.queue.work.work_group import WorkGroup
from tests.logs import memory_log


class CountingFacts(PropertyReader):
    """The routing key of a record is `<priority>:<letter>`; what was looked at is remembered."""

    def __init__(self, looks: Looks | None = None) -> None:
        super().__init__(looks)
        self.looked: list[int] = []

    def priority(self, block: Block, index: int) -> int:
        return int(block.routing_key(index).partition(b":")[0])

    def expiration_us(self, block: Block, index: int) -> int:
        return -1

    def key(self, block: Block, index: int) -> bytes:
        return b""

    def filter_value(self, block: Block, index: int) -> bytes | None:
        return None

    def has_topic(self, block: Block, index: int) -> bool:
        return False

    def subject(self, queue: bytes, block: Block, index: int, deliveries: int, failures: int) -> Subject:
        self.looked.append(block.base + index)
        return Letter(block.routing_key(index).partition(b":")[2])


class Letter(Subject):
    """Says its letter, by a header and in the body."""

    def __init__(self, letter: bytes) -> None:
        super().__init__()
        self.letter = letter

    def property(self, name: str) -> object:
        return None

    def header(self, name: str) -> object:
        return self.letter

    def parse_body(self) -> object:
        return {"letter": self.letter.decode()}


class Rig:
    """A group over a log in memory."""

    def __init__(self, folder: Path, mode: int = NO_PRIORITY, looks: Looks | None = None) -> None:
        self.log = memory_log(str(folder))
        self.limits = Limits()
        self.limits.priority_mode = mode
        self.limits.max_priority = 9
        self.facts = CountingFacts(looks)
        self.group = WorkGroup(1, b"", b"", self.log, 0, self.limits, self.facts)
        if mode:
            self.group.ready_queue.make_ordered(False)
        self.next_id = 1

    def publish(self, letters: str, priority: int = 0, body: bytes = b"x") -> None:
        for letter in letters:
            self.log.append(AMQP091, b"", b"%d:%b" % (priority, letter.encode()), b"", body)
        self.log.seal(1)

    def join(self, text: str = "", credit: int = UNLIMITED, no_ack: bool = False) -> Consumer:
        consumer = Consumer(self.next_id, 1, 1, self.next_id, 0, b"", no_ack, credit)
        consumer.timeout_us = 1_000_000
        self.next_id += 1
        if text:
            self.group.select(consumer, parse(text))
        self.group.add(consumer)
        return consumer

    def turn(self) -> dict[int, list[int]]:
        """What each consumer, by its number, was given in one turn."""
        given: dict[int, list[int]] = {}
        for delivery in self.deliveries():
            first = delivery.block.base + delivery.index
            given.setdefault(delivery.consumer.id, []).extend(range(first, first + delivery.count))
        return given

    def deliveries(self) -> list[Delivery]:
        out: list[Delivery] = []
        self.facts.looks.begin()
        self.more = self.group.dispatch(1, out)
        self.group.look_after(1)
        return out

    def leases(self) -> list[Lease]:
        return [delivery.lease for delivery in self.deliveries() if delivery.lease is not None]


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


A = "header.letter = 'a'"
B = "header.letter = 'b'"


def test_what_one_does_not_want_goes_to_others_in_order(rig: Rig) -> None:
    rig.publish("bbabca")
    rig.join(A)
    assert rig.turn() == {1: [2, 5]}
    rig.join(B, credit=2)
    assert rig.turn() == {2: [0, 1]}
    rig.join()
    assert rig.turn() == {3: [3, 4]}
    assert rig.group.ready() == 0


def test_each_record_is_looked_at_once(rig: Rig) -> None:
    rig.publish("b" * 3000)
    rig.join(A)
    while rig.turn() or rig.more:
        pass
    assert sorted(rig.facts.looked) == list(range(3000))
    rig.turn()
    rig.publish("bab")
    assert rig.turn() == {1: [3001]}
    assert sorted(rig.facts.looked) == list(range(3003))


def test_filters_that_are_equally_far_look_together(rig: Rig) -> None:
    rig.join(A)
    rig.join(B)
    rig.join("header.letter IN ('a', 'c')")
    rig.publish("abcd" * 100)
    given = rig.turn()
    assert len(rig.facts.looked) == 400
    assert sorted(at for offsets in given.values() for at in offsets) == [at for at in range(400) if at % 4 != 3]
    assert given[2] == list(range(1, 400, 4))


def test_equal_filters_are_one(rig: Rig) -> None:
    first, second = rig.join("header.letter='a'"), rig.join("(header.letter = 'a')")
    assert first.selector is second.selector
    rig.publish("a" * 600)
    given = rig.turn()
    assert sorted(given[1] + given[2]) == list(range(600))
    assert given[2]
    assert len(rig.facts.looked) == 600


def test_only_what_came_back_is_looked_at_again(rig: Rig) -> None:
    rig.publish("b" * 500 + "a" + "b" * 500)
    rig.join(A)
    (lease,) = rig.leases()
    rig.facts.looked.clear()
    rig.group.give_back(lease, 500, 1, 0, UNTRIED)
    assert rig.turn() == {1: [500]}
    assert rig.facts.looked == [500]


def test_what_came_back_is_offered_to_all_that_had_passed_it_over(rig: Rig) -> None:
    rig.publish("ccbc")
    rig.join(A)
    rig.join("", credit=4)
    (lease,) = rig.leases()
    assert lease.count == 4
    rig.join(B)
    rig.turn()
    rig.group.give_back(lease, 2, 1, 0, UNTRIED)
    rig.facts.looked.clear()
    given = rig.turn()
    assert given in ({3: [2]}, {2: [2]})
    assert len(rig.facts.looked) <= 2  # once for each filter


@pytest.mark.parametrize("letters", ["ab" * 8, "a" * 16, "abb" * 8])
def test_consumers_of_one_filter_take_turns_whatever_goes_to_others(rig: Rig, letters: str) -> None:
    consumers = [rig.join(text) for text in (A, A, "")]
    given: dict[int, int] = {}
    for letter in letters:
        rig.publish(letter)
        for id, offsets in rig.turn().items():
            given[id] = given.get(id, 0) + len(offsets)
    assert abs(given[consumers[0].id] - given[consumers[1].id]) <= 1
    assert sum(given.values()) == len(letters)


def test_a_turn_looks_at_so_many_and_no_more(rig: Rig) -> None:
    rig.publish("b" * 10_000)
    rig.join(A)
    rig.turn()
    assert rig.more
    assert SCAN_RECORDS // 8 < len(rig.facts.looked) <= SCAN_RECORDS // 4


def test_long_bodies_count_for_more_where_a_filter_asks_for_them(tmp_path: Path) -> None:
    looked = []
    for name, text in (("body", "/letter = 'a'"), ("key", A)):
        rig = Rig(tmp_path / name)
        rig.publish("b" * 200, body=b"x" * 10_000)
        rig.join(text)
        rig.turn()
        looked.append(len(rig.facts.looked))
    assert looked[0] <= SCAN_RECORDS // (10_000 >> 6) + 1
    assert looked[1] == 200


def test_those_without_a_filter_are_served_while_others_search(rig: Rig) -> None:
    rig.publish("b" * 20_000)
    rig.join(A)
    rig.join("", credit=5)
    assert rig.turn() == {2: [0, 1, 2, 3, 4]}
    assert rig.more


def test_a_backlog_that_nobody_wants_costs_next_to_nothing(rig: Rig) -> None:
    rig.join(A)
    for _ in range(30):
        rig.publish("b" * 1000 + "a")
        while rig.turn() or rig.more:
            pass
    order = rig.group.ready_queue.order
    assert order is not None
    assert order.levels[0].entries() == 1
    (selector,) = rig.group.filters.selectors
    assert selector.size == 0
    assert not selector.again
    rig.facts.looked.clear()
    for _ in range(100):
        assert not rig.turn()
    assert not rig.facts.looked


def test_what_a_filter_found_and_retention_has_dropped_is_settled_and_waits_no_more(rig: Rig) -> None:
    rig.publish("b")
    rig.publish("aa")
    wanting = rig.join("deliveries IS NULL AND header.letter = 'a'", credit=1)
    (lease,) = rig.leases()  # 1, and 2 is found and waits
    rig.group.give_back(lease, 1, 1, 0, UNTRIED)
    rig.log.truncate(rig.log.end)
    rig.publish("a")
    wanting.credit = UNLIMITED
    assert rig.turn() == {1: [3]}
    assert rig.group.ready() == 2  # 0, which this filter does not want, and 1, at which it did not look again
    rig.join()
    rig.turn()
    assert rig.group.ready() == 0


def test_lines_do_not_grow_by_what_comes_back_over_and_over(rig: Rig) -> None:
    rig.publish("b" * 10 + "a")
    rig.join(A)
    waiting = rig.join("header.letter IN ('a', 'z')", credit=0)
    for _ in range(2 * ENTRIES_SLACK):
        (lease,) = rig.leases()
        rig.group.give_back(lease, lease.first, 1, 0, UNTRIED)
    rig.turn()
    order = rig.group.ready_queue.order
    assert order is not None
    selector = waiting.selector
    assert selector is not None
    for line in (order.levels[0], selector.found.levels[0]):
        assert line.entries() <= ENTRIES_SLACK + 30
    assert len(selector.again) <= 1


def test_the_one_found_with_the_highest_priority_goes_first(tmp_path: Path) -> None:
    rig = Rig(tmp_path, STRICT)
    rig.publish("aab" * 300, priority=1)
    rig.publish("bab", priority=7)
    rig.publish("ba", priority=9)
    rig.join(A, credit=3)
    assert rig.turn() == {1: [904, 901, 0]}
    rig.join("", credit=4)
    assert rig.turn() == {2: [903, 900, 902, 1]}


def test_what_came_back_goes_first_and_the_others_by_priority(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.limits.priority_mode = STRICT
    rig.group.filters.keep_ordered(True)
    rig.publish("a", priority=1)
    rig.publish("a", priority=7)
    rig.publish("a", priority=4)
    rig.join(A, credit=1)
    (lease,) = rig.leases()
    assert lease.first == 1
    rig.group.give_back(lease, 1, 1, 0, UNTRIED)
    rig.publish("a", priority=9)
    rig.join(A)
    given = rig.turn()
    assert sorted(given[1] + given[2]) == [0, 1, 2, 3]
    assert (given[1], given[2]) in (([1], [3, 2, 0]), ([3], [1, 2, 0]))


def test_a_queue_is_plain_again_when_the_last_filter_has_gone(rig: Rig) -> None:
    rig.publish("abab")
    consumer = rig.join(B, credit=1)
    (lease,) = rig.leases()
    rig.group.detach(consumer)
    assert rig.group.ready_queue.order is None
    rig.group.give_back(lease, 1, 1, 0, UNTRIED)
    rig.publish("c")
    rig.join()
    assert rig.turn() == {2: [0, 1, 2, 3, 4]}


def test_an_order_that_others_need_stays(rig: Rig) -> None:
    consumer = rig.join(B)
    rig.group.filters.keep_ordered(False)
    rig.publish("abc")
    assert rig.turn() == {1: [1]}
    rig.group.remove(consumer)
    assert rig.group.ready_queue.order is not None
    rig.join()
    assert rig.turn() == {2: [0, 1, 2]}


def test_what_was_taken_and_came_back_first_waits_once_when_the_last_filter_has_gone(rig: Rig) -> None:
    """Of a quorum queue: it has an entry where it stood, and one among those that go first."""
    rig.group.filters.keep_ordered(True)
    rig.publish("abab")
    consumer = rig.join(B)
    for lease in rig.leases():
        rig.group.give_back(lease, lease.first, lease.count, 0, UNTRIED)
    rig.group.detach(consumer)
    order = rig.group.ready_queue.order
    assert order is not None
    assert (order.count, sum(level.count for level in order.all_levels())) == (4, 4)
    rig.join()
    assert rig.turn() == {2: [1, 3, 0, 2]}


def test_what_is_not_acknowledged_needs_no_lease(rig: Rig) -> None:
    rig.publish("abab")
    rig.join(A, no_ack=True)
    assert rig.turn() == {1: [0, 2]}
    assert rig.group.settled == 2
    assert rig.group.settlement.advance() == 1
    rig.join("", no_ack=True)
    rig.turn()
    assert rig.group.settlement.advance() == 4


def test_who_is_active_decides_by_its_filter(rig: Rig) -> None:
    rig.limits.single_active = True
    rig.publish("abab")
    active = rig.join(A)
    rig.join()
    assert rig.turn() == {1: [0, 2]}
    rig.group.remove(active)
    assert rig.turn() == {2: [0, 1, 2, 3]}


def test_a_higher_rank_that_wants_nothing_lets_others_have_it(rig: Rig) -> None:
    rig.publish("bab")
    high = Consumer(50, 1, 1, 50, 0, b"", False, UNLIMITED)
    high.priority = 5
    rig.group.select(high, parse(A))
    rig.group.add(high)
    rig.join()
    assert rig.turn() == {50: [1], 1: [0, 2]}


def test_recovery_finds_what_was_passed_over(rig: Rig) -> None:
    rig.publish("abcabc")
    rig.join(A)
    for lease in rig.leases():
        rig.group.ack(lease, lease.first, lease.count)
    again = WorkGroup(1, b"", b"", rig.log, 0, rig.limits, rig.facts)
    again.restore(rig.group.take_progress())
    again.finish_restore()
    rig.group = again
    assert again.ready() == 4
    rig.join(B)
    assert rig.turn() == {2: [1, 4]}
    rig.join()
    assert rig.turn() == {3: [2, 5]}


# ---- what filters may cost


def test_all_queues_together_look_at_so_much_in_a_turn(tmp_path: Path) -> None:
    looks = Looks(400)
    one, two = Rig(tmp_path / "one", looks=looks), Rig(tmp_path / "two", looks=looks)
    for rig in (one, two):
        rig.publish("b" * 5000)
        rig.join(A)
    looks.begin()
    for rig in (one, two):
        rig.more = rig.group.dispatch(1, [])
        assert rig.more
    assert len(one.facts.looked) in range(75, 102)
    assert two.facts.looked == []
    looks.begin()
    two.group.dispatch(1, [])
    assert len(two.facts.looked) in range(75, 102)
    assert looks.put_off == 1


def test_many_dear_filters_do_not_look_at_one_message_in_one_turn(tmp_path: Path) -> None:
    looks = Looks()
    rig = Rig(tmp_path, looks=looks)
    rig.publish("b", body=b"x" * 500_000)
    for number in range(40):
        rig.join(f"/letter = 'a{number}'")
    turns = 0
    while turns == 0 or rig.more:
        rig.turn()
        turns += 1
        assert turns < 100
    assert turns > 2
    assert len(rig.facts.looked) == 20  # two at a time
    assert rig.join("/letter = 'b'").credit == UNLIMITED
    assert rig.turn() == {41: [0]}
