"""Stream groups: cursor, commits, and what retention does to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import MQTT
from forebay.log.queue_log import QueueLog
from forebay.queue.leases import Consumer, Delivery
from forebay.queue.stream_group import StreamGroup
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


def dispatch(group: StreamGroup) -> list[Delivery]:
    out: list[Delivery] = []
    group.dispatch(1, out)
    return out


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
