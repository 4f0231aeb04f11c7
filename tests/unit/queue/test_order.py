"""The order of priorities and message groups, for itself."""

from __future__ import annotations

from pathlib import Path

from forebay.core.message import AMQP091, KEYED
from forebay.filter.subject import Subject
from forebay.log.block import Block
from forebay.queue.declaration.limits import FAIR, NO_PRIORITY, STRICT, Limits
from forebay.queue.leases.lease import UNLIMITED
from forebay.queue.properties import NoSubject, PropertyReader
from forebay.queue.ready.order import Order
from tests.logs import memory_log


class KeyFacts(PropertyReader):
    """A record's routing key says everything: "<priority>" or "<priority>:<message group>"."""

    def priority(self, block: Block, index: int) -> int:
        return int(block.routing_key(index).partition(b":")[0] or b"-1")

    def expiration_us(self, block: Block, index: int) -> int:
        return -1

    def key(self, block: Block, index: int) -> bytes:
        return block.routing_key(index).partition(b":")[2]

    def filter_value(self, block: Block, index: int) -> bytes | None:
        return None

    def has_topic(self, block: Block, index: int) -> bool:
        return False

    def subject(self, queue: bytes, block: Block, index: int, deliveries: int, failures: int) -> Subject:
        return NoSubject()


def block_of(folder: Path, keys: list[bytes]) -> Block:
    log = memory_log(str(folder))
    for key in keys:
        log.append(AMQP091 | (KEYED if b":" in key else 0), b"", key, b"", b"x")
    block = log.seal(1)
    assert block is not None
    return block


def order_of(mode: int, most: int = 0, returned_first: bool = False) -> Order:
    limits = Limits()
    limits.priority_mode = mode
    limits.max_priority = most
    return Order(limits, KeyFacts(), returned_first, {})


def drain(order: Order) -> list[int]:
    out: list[int] = []
    while order.count:
        first = order.choose()
        count = order.length(UNLIMITED)
        order.take(count)
        out += range(first, first + count)
    return out


def test_the_highest_level_goes_first_and_each_by_age(tmp_path: Path) -> None:
    order = order_of(STRICT, 5)
    block = block_of(tmp_path, [b"1", b"9", b"", b"5", b"1", b"1"])  # 9 counts as 5, none as 0
    order.take_in(block, 0, 6)
    assert drain(order) == [1, 3, 0, 4, 5, 2]


def test_of_two_classes_the_high_one_gets_two_turns_of_three(tmp_path: Path) -> None:
    order = order_of(FAIR)
    order.take_in(block_of(tmp_path, [b"4"] * 4 + [b"5"] * 6), 0, 10)
    assert drain(order) == [4, 5, 0, 6, 7, 1, 8, 9, 2, 3]


def test_a_high_record_that_is_older_than_all_others_goes_first_always(tmp_path: Path) -> None:
    order = order_of(FAIR)
    order.take_in(block_of(tmp_path, [b"9"] * 4 + [b"0"] * 2), 0, 6)
    assert drain(order) == [0, 1, 2, 3, 4, 5]


def test_without_a_priority_a_record_of_a_quorum_queue_counts_as_four(tmp_path: Path) -> None:
    order = order_of(STRICT, 31, returned_first=True)
    order.take_in(block_of(tmp_path, [b"3", b"", b"5"]), 0, 3)
    assert drain(order) == [2, 1, 0]


def test_what_returns_goes_to_its_level_or_before_all(tmp_path: Path) -> None:
    for returned_first, expected in ((False, [1, 0]), (True, [0, 1])):
        order = order_of(STRICT, 5, returned_first)
        block = block_of(tmp_path / str(returned_first), [b"1", b"5"])
        order.take_in(block, 0, 1)
        order.choose()
        order.take(1)
        order.take_in(block, 1, 1)
        order.give_back(block, 0, 1)
        assert drain(order) == expected


def test_one_record_of_a_message_group_is_out_at_a_time(tmp_path: Path) -> None:
    order = order_of(NO_PRIORITY)
    block = block_of(tmp_path, [b":a", b":a", b":b", b"", b":a", b":b"])
    order.take_in(block, 0, 6)
    assert order.parked == 3
    assert drain(order) == [0, 2, 3]
    assert order.follow(0) == 1
    order.release(block, 1)
    assert drain(order) == [1]
    assert order.follow(3) == -1  # it belongs to no group
    assert order.follow(1) == 4
    order.release(block, 4)
    assert order.follow(4) == -1
    assert order.follow(2) == 5
    order.release(block, 5)
    assert drain(order) == [4, 5]
    order.follow(5)
    assert order.keys == {}
    assert order.busy == {}


def test_a_purge_takes_what_waits_and_leaves_the_groups_of_what_is_out(tmp_path: Path) -> None:
    order = order_of(NO_PRIORITY)
    block = block_of(tmp_path, [b":a", b":a", b":b", b":b"])
    order.take_in(block, 0, 4)
    assert order.choose() == 0
    order.take(1)
    assert sorted(order.take_all()) == [(1, 1), (2, 1), (3, 1)]
    assert order.count == order.parked == 0
    assert order.keys == {0: b"a"}
    order.follow(0)
    assert order.busy == {}


def test_a_level_forgets_what_it_has_handed_out(tmp_path: Path) -> None:
    order = order_of(STRICT, 1)
    block = block_of(tmp_path, [b"0", b"1"] * 20_000)
    order.take_in(block, 0, 40_000)
    assert drain(order) == [*range(1, 40_000, 2), *range(0, 40_000, 2)]
    assert len(order.levels[0].runs) < 40_000
