"""Stream groups: cursor, commits, and what retention does to them."""

from __future__ import annotations

from pathlib import Path

import pytest
from mypy_extensions import u8

from forebay.broker.properties import MessageProperties
from forebay.core.message import AMQP091, EXPIRES, MQTT, Properties
from forebay.log.queue_log import QueueLog
from forebay.queue.declaration.limits import Limits
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.stream.stream_group import StreamGroup
from forebay.wire.amqp091.properties import encode_properties
from tests.logs import memory_log


@pytest.fixture
def log(tmp_path: Path) -> QueueLog:
    """Four blocks of five records."""
    log = memory_log(str(tmp_path))
    for _ in range(4):
        for _ in range(5):
            log.append(MQTT, b"", b"k", b"", b"x")
        log.seal(1)
    return log


def consumer(credit: int) -> Consumer:
    return Consumer(1, 1, 1, 1, 0, b"", False, credit)


def dispatch(group: StreamGroup, now_us: int = 1) -> list[Delivery]:
    out: list[Delivery] = []
    group.dispatch(now_us, out)
    return out


def offsets(group: StreamGroup, now_us: int) -> list[int]:
    """The records that are delivered at this time."""
    out = dispatch(group, now_us)
    return [each.block.base + each.index + step for each in out for step in range(each.count)]


def test_credit_comes_back_with_acknowledgement(log: QueueLog) -> None:
    group = StreamGroup(1, b"g", b"", log, 0, True)
    group.add(consumer(7))
    first = dispatch(group)
    assert [(each.block.base + each.index, each.count) for each in first] == [(0, 5), (5, 2)]
    assert dispatch(group) == []
    lease = first[0].lease
    assert lease is not None
    assert group.ack(lease, 0, 3) == 3
    assert [each.count for each in dispatch(group)] == [3]


def test_commit_stops_at_the_first_record_in_hand(log: QueueLog) -> None:
    group = StreamGroup(1, b"g", b"", log, 0, True)
    group.add(consumer(10))
    first, second = dispatch(group)
    assert first.lease is not None
    assert second.lease is not None
    group.ack(second.lease, 5, 5)
    group.commit_read()
    assert group.committed == 0
    group.ack(first.lease, 0, 5)
    group.commit_read()
    assert group.committed == 10


def test_progress_is_given_once_and_restores(log: QueueLog) -> None:
    group = StreamGroup(1, b"g", b"", log, 0, False)
    assert group.take_progress() == b""
    group.commit(12)
    progress = group.take_progress()
    assert group.take_progress() == b""
    again = StreamGroup(1, b"g", b"", log, 0, False)
    again.restore(progress)
    assert (again.committed, again.cursor) == (12, 12)


def test_the_last_consumer_leaves_the_group_where_it_committed(log: QueueLog) -> None:
    group = StreamGroup(1, b"g", b"", log, 0, True)
    leaving = consumer(5)
    group.add(leaving)
    dispatch(group)
    group.remove(leaving)
    assert group.cursor == 0


def test_an_overtaken_cursor_goes_on_at_the_first_record_kept(log: QueueLog) -> None:
    group = StreamGroup(1, b"g", b"", log, 0, True)
    group.add(consumer(100))
    log.truncate(10)
    assert [each.block.base for each in dispatch(group)] == [10, 15]


def test_a_durable_log_is_read_only_as_far_as_the_disk(log: QueueLog) -> None:
    group = StreamGroup(1, b"g", b"", log, 0, True)
    group.add(consumer(100))
    log.durable = True
    log.durable_end = 7
    assert [(each.block.base, each.count) for each in dispatch(group)] == [(0, 5), (5, 2)]


@pytest.fixture
def ageing(tmp_path: Path) -> QueueLog:
    """Three records of one time, three of 10 ms later."""
    log = memory_log(str(tmp_path))
    for stamp_us in (1000, 11_000):
        for expiration_ms in (None, 5, 50):
            made = Properties()
            made.expiration_ms = expiration_ms
            format = u8(AMQP091 if expiration_ms is None else AMQP091 | EXPIRES)
            log.append(format, b"", b"k", encode_properties(made), b"x")
        log.seal(stamp_us)
    return log


def ageing_group(log: QueueLog, limits: Limits, filter: bytes = b"", credit: int = 100) -> StreamGroup:
    group = StreamGroup(1, b"g", filter, log, 0, True, limits, MessageProperties())
    group.add(consumer(credit))
    return group


@pytest.mark.parametrize(
    ("now_us", "ttl_us", "expected"),
    [
        (6000, -1, [0, 1, 2, 3, 4, 5]),
        (6001, -1, [0, 2, 3, 4, 5]),
        (20_000, -1, [0, 2, 3, 5]),
        (1 << 40, -1, [0, 3]),
        (6001, 10_000, [0, 2, 3, 4, 5]),
        (11_001, 10_000, [3, 4, 5]),
        (16_001, 10_000, [3, 5]),
        (1 << 40, 10_000, []),
        (1001, 0, [3, 4, 5]),
    ],
)
def test_what_has_expired_is_passed_over_and_counted(
    ageing: QueueLog, now_us: int, ttl_us: int, expected: list[int]
) -> None:
    limits = Limits()
    limits.message_ttl_us = ttl_us
    group = ageing_group(ageing, limits)
    assert offsets(group, now_us) == expected
    assert group.counts.expired == 6 - len(expected)
    assert group.cursor == 6
    assert group.counts.delivered == len(expected)


def test_each_is_counted_once_whoever_ends_a_run_at_it(ageing: QueueLog) -> None:
    group = ageing_group(ageing, Limits(), credit=1)
    seen: list[int] = []
    while group.cursor < 6:
        seen += offsets(group, 20_000)
        for lease in group.open:
            group.ack(lease, lease.first, lease.left)
    assert (seen, group.counts.expired) == ([0, 2, 3, 5], 2)
    group.commit_read()
    assert group.committed == 6


def test_a_commit_goes_over_what_was_passed(ageing: QueueLog) -> None:
    limits = Limits()
    limits.message_ttl_us = 0
    group = ageing_group(ageing, limits)
    assert offsets(group, 1 << 40) == []
    group.commit_read()
    assert group.committed == 6


def test_what_expires_while_it_waits_for_credit_is_passed_over(ageing: QueueLog) -> None:
    group = ageing_group(ageing, Limits(), credit=1)
    assert offsets(group, 2000) == [0]
    lease = group.open[0]
    group.ack(lease, 0, 1)
    assert offsets(group, 7000) == [2]
    assert group.counts.expired == 1


def test_what_a_group_does_not_want_is_not_counted(ageing: QueueLog) -> None:
    group = ageing_group(ageing, Limits(), filter=b"other")
    assert offsets(group, 1 << 40) == []
    assert (group.cursor, group.counts.expired) == (6, 0)


def test_a_time_to_live_that_changed_holds_for_what_comes(ageing: QueueLog) -> None:
    limits = Limits()
    limits.earlier_ttls = [(3, -1)]
    limits.message_ttl_us = 1
    group = ageing_group(ageing, limits)
    assert offsets(group, 12_000) == [0, 2]
