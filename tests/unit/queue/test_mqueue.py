"""The session's message queue: cases that the model test does not name."""

from __future__ import annotations

import pytest

from forebay.core.message import MQTT
from forebay.log.block import Block, BlockWriter
from forebay.queue.leases.lease import Consumer
from forebay.queue.mqueue import HIGHEST, LOWEST, Mqueue, MqueueRules

ALICE = Consumer(1, -1, 0, 1, 0, b"", False, 0)
BOB = Consumer(2, -1, 0, 2, 0, b"", False, 0)


def queue_with(limit: int = 0) -> Mqueue:
    return Mqueue(MqueueRules(limit, True, {}, LOWEST))


def block_of(count: int) -> Block:
    writer = BlockWriter()
    for _ in range(count):
        writer.append(MQTT, b"", b"t", b"", b"x")
    return writer.seal(0, 1, False)


def drain(queue: Mqueue, most: int = 1 << 30) -> list[int]:
    """Offsets, in the order they leave; at most so many of one run at once."""
    found: list[int] = []
    while queue.head():
        count = min(most, queue.run_count)
        found += range(queue.run_first, queue.run_first + count)
        queue.take(count)
    return found


def test_priorities_are_by_exact_topic() -> None:
    rules = MqueueRules(0, True, {b"alarm": 255, b"log": 1}, HIGHEST)
    assert [rules.priority(topic) for topic in (b"alarm", b"log", b"alarm/x", b"")] == [255, 1, HIGHEST, HIGHEST]


def test_without_given_priorities_there_is_one_level() -> None:
    assert MqueueRules(0, True, {}, HIGHEST).priority(b"t") == LOWEST


def test_a_run_that_continues_the_last_one_is_merged() -> None:
    queue = queue_with()
    for first in (5, 6, 7):
        queue.push(ALICE, None, first, 1, False, 0)
    assert queue.head()
    assert (queue.run_first, queue.run_count) == (5, 3)


@pytest.mark.parametrize(
    ("consumer", "zero", "first"),
    [(BOB, False, 6), (ALICE, True, 6), (ALICE, False, 7)],
    ids=["of another consumer", "at another QoS", "after a gap"],
)
def test_what_does_not_continue_the_last_run_is_another(consumer: Consumer, zero: bool, first: int) -> None:
    queue = queue_with()
    queue.push(ALICE, None, 5, 1, False, 0)
    queue.push(consumer, None, first, 1, zero, 0)
    assert queue.head()
    assert queue.run_count == 1
    queue.take(1)
    assert queue.head()
    assert (queue.run_consumer, queue.run_first) == (consumer, first)


def test_runs_of_different_blocks_stay_apart() -> None:
    queue = queue_with()
    one, two = block_of(1), block_of(2)
    queue.push(ALICE, one, 0, 1, False, 0)
    queue.push(ALICE, two, 1, 1, False, 0)
    queue.push(ALICE, None, 2, 1, False, 0)
    blocks = []
    while queue.head():
        blocks.append(queue.run_block)
        queue.take(queue.run_count)
    assert blocks == [one, two, None]


def test_a_full_level_drops_qos_0_first() -> None:
    queue = queue_with(limit=3)
    queue.push(ALICE, None, 0, 1, False, 0)
    queue.push(ALICE, None, 1, 1, True, 0)
    queue.push(ALICE, None, 2, 3, False, 0)
    assert (queue.count, queue.dropped) == (3, 2)
    assert drain(queue) == [2, 3, 4]


def test_qos_0_never_displaces_a_higher_qos() -> None:
    queue = queue_with(limit=2)
    queue.push(ALICE, None, 0, 2, False, 0)
    queue.push(ALICE, None, 2, 1, True, 0)
    assert (queue.dropped, drain(queue)) == (1, [0, 1])


def test_the_limit_is_each_levels_own() -> None:
    queue = queue_with(limit=2)
    for priority in (0, 7):
        queue.push(ALICE, None, 10 * priority, 5, False, priority)
    assert (queue.count, queue.dropped) == (4, 6)
    assert drain(queue) == [73, 74, 3, 4]


def test_what_comes_back_goes_first_and_is_not_limited() -> None:
    queue = queue_with(limit=2)
    queue.push(ALICE, None, 5, 2, False, 0)
    for first in (4, 1):
        queue.push_front(ALICE, None, first, 1, False, 0)
    assert (queue.count, queue.dropped) == (4, 0)
    assert drain(queue) == [1, 4, 5, 6]


def test_levels_take_turns_from_the_highest() -> None:
    queue = queue_with()
    for priority in (1, 0, 3):
        queue.push(ALICE, None, 1000 * priority, 100, False, priority)
    order = [offset // 1000 for offset in drain(queue, 7)]
    turns = [3] * 40 + [1] * 20 + [0] * 10
    assert order[:140] == turns * 2
    assert order[140:] == [3] * 20 + [1] * 20 + [0] * 10 + [1] * 20 + [0] * 10 + [1] * 20 + [0] * 60


def test_who_is_alone_uses_up_no_turn() -> None:
    queue = queue_with()
    queue.push(ALICE, None, 0, 100, False, 0)
    assert queue.head()
    assert queue.run_count == 100
    queue.take(7)
    queue.push(ALICE, None, 1000, 100, False, 3)
    assert [offset // 1000 for offset in drain(queue)][:90] == [1] * 40 + [0] * 10 + [1] * 40


def test_what_comes_to_a_higher_level_is_next() -> None:
    queue = queue_with()
    queue.push(ALICE, None, 0, 100, False, 0)
    queue.push(ALICE, None, 1000, 1, False, 5)
    assert queue.head()
    queue.take(1)
    assert queue.head()
    queue.take(4)
    queue.push(ALICE, None, 1001, 1, False, 5)
    assert queue.head()
    assert queue.run_first == 1001


def test_levels_that_refill_cannot_hold_off_a_lower_one() -> None:
    """Two higher levels of which one always has a message; neither is ever alone."""
    queue = queue_with()
    queue.push(ALICE, None, 0, 1, False, 0)
    for priority in (1, 2):
        queue.push(BOB, None, 1000 * priority, 1, False, priority)
    for taken in range(2 * (20 + 30) + 1):
        assert queue.head()
        if queue.run_consumer is ALICE:
            return
        priority = queue.run_first // 1000
        queue.take(1)
        queue.push(BOB, None, 1000 * priority + taken, 1, False, priority)
    raise AssertionError("the lowest level never had its turn")


def test_clear_forgets_what_waits_but_not_what_was_dropped() -> None:
    queue = queue_with(limit=1)
    queue.push(ALICE, block_of(2), 0, 2, False, 0)
    assert queue.head()
    queue.clear()
    assert (queue.count, queue.dropped, queue.head(), queue.run_block) == (0, 1, False, None)
    queue.push(ALICE, None, 3, 1, False, 0)
    assert drain(queue) == [3]


def test_floor_and_logged_see_the_log_only() -> None:
    queue = queue_with()
    assert (queue.floor(77), queue.logged(0, 100)) == (77, [])
    queue.push(ALICE, block_of(5), 0, 5, False, 0)
    assert (queue.floor(77), queue.logged(0, 100)) == (77, [])
    queue.push(ALICE, None, 20, 5, False, 0)
    queue.push(BOB, None, 22, 5, False, 0)
    queue.push(ALICE, None, 10, 2, False, 9)
    assert queue.floor(77) == 10
    assert queue.logged(0, 100) == [(10, 12), (20, 27)]
    assert queue.logged(11, 21) == [(11, 12), (20, 21)]


def test_floor_and_logged_do_not_rely_on_the_order_of_offsets() -> None:
    queue = queue_with()
    queue.push(ALICE, block_of(1), 0, 1, False, 0)
    queue.push_front(ALICE, None, 50, 3, False, 0)
    queue.push(ALICE, None, 10, 1, False, 0)
    queue.push(ALICE, None, 90, 1, False, 0)
    assert queue.floor(77) == 10
    assert queue.logged(0, 60) == [(10, 11), (50, 53)]
    assert queue.logged(0, 40) == [(10, 11)]


def test_floor_is_known_when_what_is_used_up_was_cleared_away() -> None:
    queue = queue_with()
    for offset in range(0, 100, 2):
        queue.push(ALICE, None, offset, 1, False, 0)
    for offset in range(2, 100, 2):
        assert queue.head()
        queue.take(1)
        assert queue.floor(77) == offset


def test_a_full_queue_of_qos_0_does_not_grow_behind_a_message_that_stays() -> None:
    """Each push drops from the middle: what is used up there must go too."""
    queue = queue_with(limit=100)
    queue.push(ALICE, None, 0, 1, False, 0)
    for offset in range(2, 100_000, 2):
        queue.push(ALICE, None, offset, 1, True, 0)
    assert len(queue.levels[0].firsts) < 300
    assert drain(queue) == [0, *range(99_998 - 98 * 2, 100_000, 2)]


def test_what_was_taken_keeps_no_block_alive() -> None:
    queue = queue_with()
    for _ in range(3):
        queue.push(ALICE, block_of(1), 0, 1, False, 0)
    assert queue.head()
    queue.take(1)
    assert [block is None for block in queue.levels[0].blocks] == [True, False, False]


def test_take_needs_a_head_of_its_own() -> None:
    queue = queue_with()
    queue.push(ALICE, None, 0, 2, False, 0)
    assert queue.head()
    queue.take(1)
    with pytest.raises(AssertionError, match="take follows head"):
        queue.take(1)
