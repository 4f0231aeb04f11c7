"""A source: two queues over one log, and what the log keeps for either."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import MQTT
from forebay.log.queue_log import NOT_HELD
from forebay.queue.declaration.spec import QueueSpec
from forebay.queue.leases.lease import UNLIMITED, Consumer, Delivery
from forebay.queue.queue import CLASSIC, STREAM, Queue
from forebay.queue.source.source import LogSource
from forebay.queue.work.work_group import WorkGroup
from tests.logs import memory_log

RECORDS = 10


def source_in(folder: Path) -> LogSource:
    """A log of ten records, a block each."""
    log = memory_log(str(folder))
    for _ in range(RECORDS):
        log.append(MQTT, b"", b"k", b"", b"x")
        log.seal(1)
    return LogSource(log)


def queue_over(source: LogSource, id: int, kind: int = CLASSIC) -> Queue:
    return Queue(id, b"q%d" % id, kind, QueueSpec(False, False, False, {}, 30_000), source)


def work_group(queue: Queue, id: int = 1) -> WorkGroup:
    group = queue.add_group(id, b"" if id == 1 else b"g%d" % id, b"", True, queue.start(), True)
    assert isinstance(group, WorkGroup)
    return group


class Party:
    """A queue's group, whose one consumer has every record of the source."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.group = work_group(queue)
        self.group.add(Consumer(1, 1, 1, int(queue.id), 0, b"", False, UNLIMITED))
        self.out: list[Delivery] = []
        queue.dispatch(1, self.out)
        assert len(self.out) == RECORDS

    def ack(self, first: int, count: int) -> None:
        for offset in range(first, first + count):
            lease = self.out[offset].lease
            assert lease is not None
            self.group.ack(lease, offset, 1)


def offsets(source: LogSource) -> list[int]:
    """The first offset of each block that the log has."""
    index = source.log.index
    return [int(index.bases[at]) for at in range(source.log.first, index.size())]


def test_a_record_stays_as_long_as_one_of_two_queues_needs_it(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    fast, slow = Party(queue_over(source, 1)), Party(queue_over(source, 2))
    fast.ack(0, RECORDS)
    source.truncate()
    assert source.needed(0, RECORDS) == [(0, RECORDS)]
    assert offsets(source) == list(range(RECORDS))
    slow.ack(0, 3)
    slow.ack(5, 2)
    source.truncate()
    assert source.needed(0, RECORDS) == [(3, 5), (7, RECORDS)]
    assert (source.log.start, offsets(source)) == (3, list(range(3, RECORDS)))


def test_truncation_follows_the_slower_queue(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    parties = [Party(queue_over(source, id)) for id in (1, 2)]
    at = [0, 0]
    for which, count in ((0, 4), (1, 2), (1, 5), (0, 6), (1, 3)):
        parties[which].ack(at[which], count)
        at[which] += count
        source.truncate()
        assert source.needed_from() == source.log.start == min(at)


def test_a_hole_goes_only_where_both_queues_have_settled(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    first, second = Party(queue_over(source, 1)), Party(queue_over(source, 2))
    first.ack(2, 4)
    second.ack(4, 4)
    assert source.needed(0, RECORDS) == [(0, 4), (6, RECORDS)]
    assert source.needed(3, 7) == [(3, 4), (6, 7)]


def test_a_deleted_queue_leaves_the_records_of_the_other(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    slow = queue_over(source, 1)
    work_group(slow)
    fast = queue_over(source, 2)
    Party(fast).ack(0, 6)
    source.truncate()
    assert source.log.start == 0
    source.remove_reader(slow)
    assert (source.log.start, offsets(source)) == (6, [6, 7, 8, 9])
    assert (fast.ready(), fast.wanted()) == (0, 4)


def test_a_deleted_queue_takes_nothing_that_the_other_has_not_settled(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    fast = queue_over(source, 1)
    party = Party(fast)
    idle = queue_over(source, 2)
    party.ack(0, RECORDS)
    source.remove_reader(fast)
    assert (source.log.start, idle.ready()) == (0, RECORDS)
    assert source.needed(0, RECORDS) == [(0, RECORDS)]


@pytest.mark.parametrize("kind", [CLASSIC, STREAM])
def test_what_one_queue_gives_up_the_other_keeps(tmp_path: Path, kind: int) -> None:
    source = source_in(tmp_path)
    purged, other = queue_over(source, 1, kind), queue_over(source, 2)
    purged.release(RECORDS - 2)
    assert (purged.start(), purged.ready(), other.ready()) == (RECORDS - 2, 2, RECORDS)
    assert (source.log.start, source.needed(0, RECORDS)) == (0, [(0, RECORDS)])
    group = purged.add_group(1, b"", b"", True, 0, True)
    assert group.next_offset() == RECORDS - 2
    other.release(4)
    assert (source.log.start, other.ready()) == (4, 6)
    purged.release(2)  # never backwards
    assert purged.start() == RECORDS - 2


def test_what_a_queue_gives_up_ends_with_the_log(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    queue = queue_over(source, 1)
    queue.release(1 << 40)
    assert queue.start() == source.log.start == RECORDS
    source.log.append(MQTT, b"", b"k", b"", b"x")
    assert queue.ready() == 1


def test_the_lowest_pin_of_all_queues_holds(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    first, second = queue_over(source, 1), queue_over(source, 2)
    first.pins.put(b"spark", 2, 1, 0)
    second.pins.put(b"spark", 5, 1, 0)  # same name, and another pin
    source.hold_pinned()
    for queue in (first, second):
        queue.release(RECORDS)
    assert (source.log.start, source.log.kept) == (RECORDS, 2)
    assert source.needed(0, RECORDS) == [(2, RECORDS)]
    source.remove_reader(first)
    assert (source.log.held, source.log.kept) == (5, 5)
    second.pins.end(b"spark")
    source.hold_pinned()
    assert (source.log.held, source.log.kept, offsets(source)) == (NOT_HELD, RECORDS, [])


def test_the_lowest_group_or_pin_of_all_queues_is_named(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    first, second = queue_over(source, 1), queue_over(source, 2)
    assert source.lowest_keeper() is None
    fast, slow = Party(first), Party(second)
    fast.ack(0, 7)
    slow.ack(0, 3)
    keeper = source.lowest_keeper()
    assert keeper is not None and keeper.group is slow.group
    assert (keeper.offset, keeper.free) == (3, 3)  # a queue without groups keeps all for its next consumer
    work_group(second, 2).settlement.begin(5)
    keeper = source.lowest_keeper()
    assert keeper is not None and (keeper.group, keeper.offset, keeper.free) == (slow.group, 3, 5)
    first.pins.put(b"spark", 1, 1, 0)
    keeper = source.lowest_keeper()
    assert keeper is not None and keeper.group is None and keeper.pin is first.pins.by_name[b"spark"]
    assert (keeper.offset, keeper.free) == (1, 3)


def test_a_log_without_readers_forgets_nothing_by_itself(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    queue = queue_over(source, 1)
    source.remove_reader(queue)
    source.truncate()
    assert (source.readers, source.log.start, offsets(source)) == ([], 0, list(range(RECORDS)))
    assert source.needed(0, RECORDS) == []
