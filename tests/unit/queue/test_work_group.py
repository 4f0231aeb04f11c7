"""Work groups: cases that the model test does not name."""

from __future__ import annotations

from pathlib import Path

import pytest
from librt.strings import BytesWriter, write_i64_le

from forebay.core.message import AMQP091, MQTT
from forebay.log.queue_log import BlockIndex, QueueLog
from forebay.message.formats.table import format_of
from forebay.queue.declaration.limits import STRICT, Limits
from forebay.queue.fairness import BURST
from forebay.queue.key_filter import filter_key
from forebay.queue.leases.lease import FAILED, UNLIMITED, Consumer, Delivery
from forebay.queue.leases.page import PAGE_RECORDS
from forebay.queue.work.work_group import WorkGroup
from tests.logs import memory_log
from tests.unit.queue.test_sifting import KeyFacts


def filled(folder: Path, count: int, keys: list[bytes] | None = None) -> QueueLog:
    log = memory_log(str(folder))
    for number in range(count):
        log.append(MQTT, b"", keys[number % len(keys)] if keys else b"k", b"", b"x")
    log.seal(1)
    return log


def group_on(log: QueueLog, filter: bytes = b"", start: int = 0) -> WorkGroup:
    return WorkGroup(1, b"", filter, log, start)


def dispatch(group: WorkGroup, now_us: int = 1) -> list[Delivery]:
    out: list[Delivery] = []
    group.dispatch(now_us, out)
    return out


def test_ready_records_cost_nothing(tmp_path: Path) -> None:
    group = group_on(filled(tmp_path, 5000))
    assert group.ready() == 5000
    assert group.settlement.pages == {}


def test_pages_go_once_they_are_settled(tmp_path: Path) -> None:
    log = filled(tmp_path, 3 * PAGE_RECORDS)
    group = group_on(log)
    group.add(Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED))
    for delivery in dispatch(group):
        assert delivery.lease is not None
        group.ack(delivery.lease, delivery.lease.first, delivery.count)
    assert group.settlement.pages == {}
    assert group.settlement.advance() == log.end
    assert len(group.take_progress()) == 16  # one interval for all of it


def test_consumers_take_turns_by_bursts(tmp_path: Path) -> None:
    group = group_on(filled(tmp_path, 4 * BURST))
    consumers = [Consumer(id, 1, 1, id, 0, b"", False, UNLIMITED) for id in (1, 2)]
    for consumer in consumers:
        group.add(consumer)
    assert [each.consumer.id for each in dispatch(group)] == [1, 2, 1, 2]


def joined(group: WorkGroup, *priorities: int, credit: int = UNLIMITED, no_ack: bool = False) -> list[Consumer]:
    consumers = [Consumer(id, 1, 1, id, 0, b"", no_ack, credit) for id in range(1, len(priorities) + 1)]
    for consumer, priority in zip(consumers, priorities, strict=True):
        consumer.priority = priority
        group.add(consumer)
    return consumers


def receivers(group: WorkGroup) -> list[int]:
    """Who gets each record of one turn, in the records' order."""
    return [int(each.consumer.id) for each in dispatch(group) for _ in range(each.count)]


def append(log: QueueLog, count: int) -> None:
    for _ in range(count):
        log.append(MQTT, b"", b"k", b"", b"x")
    log.seal(1)


def test_few_records_go_round_one_by_one(tmp_path: Path) -> None:
    log = filled(tmp_path, 7)
    group = group_on(log)
    joined(group, 0, 0, 0)
    assert receivers(group) == [1, 2, 3, 1, 2, 3, 1]
    append(log, 4)
    assert receivers(group) == [2, 3, 1, 2]


def test_a_backlog_is_divided_evenly(tmp_path: Path) -> None:
    log = filled(tmp_path, 100)
    group = group_on(log)
    joined(group, 0, 0, 0)
    assert [(each.consumer.id, each.count) for each in dispatch(group)] == [(1, 33), (2, 33), (3, 33), (1, 1)]
    append(log, 50)
    assert receivers(group) == [2] * 16 + [3] * 16 + [1] * 16 + [2, 3]


def test_parts_of_a_backlog_do_not_depend_on_its_blocks(tmp_path: Path) -> None:
    log = filled(tmp_path, 10)
    for count in (1, 10, 1, 10, 1, 10, 1):
        append(log, count)
    group = group_on(log)
    joined(group, 0, 0)
    found = receivers(group)
    assert (found.count(1), found.count(2)) == (22, 22)


def test_a_consumer_without_room_leaves_its_part_to_the_others(tmp_path: Path) -> None:
    log = filled(tmp_path, 90)
    group = group_on(log)
    first, *_ = joined(group, 0, 0, 0)
    first.set_window(5)
    found = receivers(group)
    assert [found.count(id) for id in (1, 2, 3)] == [5, 43, 42]


def test_the_highest_priority_shares_alone_until_its_windows_are_full(tmp_path: Path) -> None:
    group = group_on(filled(tmp_path, 60))
    consumers = joined(group, 0, 5, 5)
    for consumer in consumers[1:]:
        consumer.set_window(15)
    found = receivers(group)
    assert [found.count(id) for id in (1, 2, 3)] == [30, 15, 15]
    assert found[-30:] == [1] * 30


def test_who_is_next_stays_so_when_others_come_and_go(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    group = group_on(log)
    first, _, _ = joined(group, 0, 0, 0)
    assert receivers(group) == [1, 2]
    group.detach(first)
    append(log, 1)
    assert receivers(group) == [3]
    group.add(first)
    append(log, 3)
    assert receivers(group) == [2, 3, 1]


def test_a_limit_of_the_turn_ends_a_consumers_part(tmp_path: Path) -> None:
    log = filled(tmp_path, 5)
    for _ in range(11):
        append(log, 5)
    group = group_on(log)
    group.turn.most_octets = 600  # two blocks
    joined(group, 0, 0)
    assert [receivers(group) for _ in range(4)] == [[1] * 10, [2] * 10, [1] * 10, [2] * 10]


def test_a_consumer_is_not_passed_over_for_records_that_its_group_does_not_want(tmp_path: Path) -> None:
    log = filled(tmp_path, 60, [b"$queue/q/eu/a", b"$queue/q/us/a", b"$queue/q/us/b"])
    group = group_on(log, b"eu/+")
    joined(group, 0, 0)
    assert receivers(group) == [1, 2] * 10


def test_without_acknowledgement_a_record_is_settled_by_delivery(tmp_path: Path) -> None:
    log = filled(tmp_path, 10)
    group = group_on(log)
    group.add(Consumer(1, 1, 1, 1, 0, b"", True, UNLIMITED))
    assert [each.lease for each in dispatch(group)] == [None]
    assert group.settlement.advance() == 10


def test_a_group_may_start_in_the_middle_of_a_page(tmp_path: Path) -> None:
    log = filled(tmp_path, 20)
    group = group_on(log, start=7)
    group.add(Consumer(1, 1, 1, 1, 0, b"", False, 2))
    lease = dispatch(group)[0].lease
    assert lease is not None
    assert (lease.first, lease.count) == (7, 2)
    group.ack(lease, 7, 2)
    assert group.settlement.advance() == 9


def test_only_what_a_crash_or_a_consumer_has_had_is_marked_redelivered(tmp_path: Path) -> None:
    """Of what was there before a crash nobody knows whether it was delivered."""
    log = filled(tmp_path, 2)
    log.recovered(0, 2)
    for _ in range(2):
        log.append(MQTT, b"", b"k", b"", b"x")
        log.seal(1)
    group = group_on(log)
    group.reader.crash_end = 2
    group.add(Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED))
    given = dispatch(group)
    assert [(each.block.base, each.redelivered) for each in given] == [(0, True), (2, False), (3, False)]
    lease = given[1].lease
    assert lease is not None
    group.give_back(lease, 2, 1, 0, FAILED)
    (again,) = dispatch(group)
    assert (again.redelivered, again.deliveries, again.failures) == (True, 2, 1)


def test_one_record_is_taken_by_who_asks_for_it(tmp_path: Path) -> None:
    log = filled(tmp_path, 2)
    group = group_on(log)
    asking = Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED)
    first = group.take_one(asking, 1)
    assert first is not None and first.lease is not None
    assert (first.block.base + first.index, first.count) == (0, 1)
    second = group.take_one(Consumer(2, 1, 1, 1, 0, b"", True, UNLIMITED), 1)
    assert second is not None
    assert (second.block.base + second.index, second.count, second.lease) == (1, 1, None)
    assert group.take_one(asking, 1) is None
    log.append(MQTT, b"", b"k", b"", b"x")
    log.seal(1)
    third = group.take_one(asking, 1)
    assert third is not None and third.block.base == 2


def test_one_record_is_taken_by_the_order_of_the_queue(tmp_path: Path) -> None:
    """Records that came since the last turn are taken in first."""
    limits = Limits()
    limits.priority_mode = STRICT
    limits.max_priority = 9
    log = memory_log(str(tmp_path))
    group = WorkGroup(1, b"", b"", log, 0, limits, KeyFacts())
    group.ready_queue.make_ordered(False)
    for priority in (1, 7):
        log.append(MQTT, b"", b"%d" % priority, b"", b"x")
        log.seal(1)
    taken = [group.take_one(Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED), 1) for _ in range(3)]
    assert [None if each is None else int(each.block.base) for each in taken] == [1, 0, None]


def test_attempts_go_with_the_dead_letter_and_are_forgotten_by_the_queue(tmp_path: Path) -> None:
    limits = Limits()
    limits.dead_letter_exchange = b"dead"
    group = WorkGroup(1, b"", b"", filled(tmp_path, 3), 0, limits)
    group.add(Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED))
    for _ in range(2):  # delivered twice, and returned once
        (delivery,) = dispatch(group)
        assert delivery.lease is not None
        group.give_back(delivery.lease, 0, 3, 0, FAILED)
    (delivery,) = dispatch(group)
    assert delivery.lease is not None
    assert group.reject(delivery.lease, 1, 1) == 1
    assert sorted(group.attempts.by_offset) == [0, 2]
    (run,) = group.dead_letters.runs
    assert (run.first, run.count, run.cause, run.deliveries, run.failures) == (1, 1, "rejected", 3, 2)


def test_what_a_filter_passes_over_is_settled(tmp_path: Path) -> None:
    log = filled(tmp_path, 12, [b"$queue/q/eu/a", b"$queue/q/us/a", b"$queue/q/us/b"])
    group = group_on(log, b"eu/+")
    group.add(Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED))
    deliveries = dispatch(group)
    assert [each.block.base + each.index for each in deliveries] == [0, 3, 6, 9]
    for delivery in deliveries:
        assert delivery.lease is not None
        group.ack(delivery.lease, delivery.lease.first, delivery.count)
    assert group.settlement.advance() == 12


@pytest.mark.parametrize(
    ("format", "key", "expected"),
    [
        (MQTT, b"$queue/q/eu/a", b"eu/a"),
        (MQTT, b"$queue/q", b""),
        (MQTT, b"eu/a", b"eu/a"),
        (AMQP091, b"eu.a", b"eu/a"),
        (AMQP091, b"$queue/q/eu/a", b"eu/a"),
    ],
)
def test_filters_see_one_form_of_every_protocols_key(format: int, key: bytes, expected: bytes) -> None:
    assert filter_key(format_of(format).keys_are_topics, key) == expected


def test_settlements_beyond_the_log_are_not_believed(tmp_path: Path) -> None:
    """A crash may keep a settlement's interval only with its records; a longer one is cut at the log's end."""
    log = filled(tmp_path, 10)
    ahead = group_on(log)
    ahead.add(Consumer(1, 1, 1, 1, 0, b"", True, UNLIMITED))
    dispatch(ahead)
    progress = ahead.take_progress()
    shorter = group_on(filled(tmp_path / "other", 4))
    shorter.restore(progress)
    shorter.finish_restore()
    assert shorter.settlement.advance() == 4
    assert shorter.settlement.cursor == 4


def test_records_that_are_gone_at_the_end_of_the_log_end_no_turn_and_stop_nothing(tmp_path: Path) -> None:
    """Housekeeping left them out as settled, and a crash lost the note of that."""
    log = filled(tmp_path, 3)
    log.recovered(0, 8)  # the log had reached 8
    group = group_on(log)
    group.add(Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED))
    assert [(each.block.base + each.index, each.count) for each in dispatch(group)] == [(0, 3)]
    assert group.settlement.cursor == 8
    assert group.ready() == 0
    log.append(MQTT, b"", b"k", b"", b"later")
    log.seal(2)
    assert [(each.block.base + each.index, each.count) for each in dispatch(group)] == [(8, 1)]


def test_records_that_are_gone_below_the_cursor_do_not_count_as_ready_after_a_restart(tmp_path: Path) -> None:
    """Housekeeping left them out before the group began; a note of a later record moves its cursor past them."""
    log = filled(tmp_path, 3)
    log.recovered(0, 8)
    group = group_on(log)
    settled = BytesWriter()
    for bound in (7, 8):
        write_i64_le(settled, bound)
    group.restore(settled.getvalue())
    group.finish_restore()
    assert group.ready() == 3
    assert group.settlement.unsettled(3, 8) == []
    group.add(Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED))
    assert [(each.block.base + each.index, each.count) for each in dispatch(group)] == [(0, 3)]
    assert group.ready() == 0


def test_a_group_that_begins_anew_passes_over_what_was_left_out_of_the_log(tmp_path: Path) -> None:
    """Compaction leaves out what is settled: what is gone neither counts as ready nor is delivered."""
    log = memory_log(str(tmp_path))
    for _ in range(6):
        for _ in range(5):
            log.append(MQTT, b"", b"k", b"", b"x")
        log.seal(1)
    for first in (5, 15, 25):
        log.replace(first, first + 5, BlockIndex())
    group = group_on(log)
    group.move(2, [])
    assert group.ready() == 13
    group.add(Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED))
    given = dispatch(group)
    assert [(each.block.base + each.index, each.count) for each in given] == [(2, 3), (10, 5), (20, 5)]
    for each in given:
        assert each.lease is not None and each.lease.deliveries == 1
        group.ack(each.lease, each.lease.first, each.count)
    assert group.settlement.advance() == log.end


def test_consumers_leave_from_anywhere_and_the_others_stay_in_their_order(tmp_path: Path) -> None:
    group = group_on(filled(tmp_path, 1))
    consumers = [Consumer(id, 1, 1, id, 0, b"", False, UNLIMITED) for id in range(7)]
    for consumer in consumers:
        group.add(consumer)
    for gone in (0, 6, 3, 3):  # the last time nothing is there to take out
        group.detach(consumers[gone])
    assert group.consumers == [consumers[number] for number in (1, 2, 4, 5)]


def test_a_consumer_whose_messages_were_all_extended_is_not_cancelled(tmp_path: Path) -> None:
    group = group_on(filled(tmp_path, 2))
    consumer = Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED)
    consumer.timeout_us = 100
    consumer.cancels = True
    group.add(consumer)
    lease = dispatch(group, 1)[0].lease
    assert lease is not None
    assert group.leases.extend(lease, 0, 2, 500) == 2
    assert dispatch(group, 200) == []
    assert (group.overdue, consumer.timed_out, lease.left) == ([], False, 2)
    group.ack(lease, 0, 1)
    dispatch(group, 600)
    assert (group.overdue, consumer.timed_out) == ([consumer], True)
