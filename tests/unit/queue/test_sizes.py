"""How the octets of a log are shared out among messages, held and ready, in memory or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.message import AMQP091
from forebay.log.block import HEAD_OCTETS, RECORD_OCTETS
from forebay.log.block_files import BlockFile, BlockFiles
from forebay.log.queue_log import BlockCache, QueueLog
from forebay.queue.declaration.spec import QueueSpec
from forebay.queue.leases.lease import UNLIMITED, UNTRIED, Consumer, Delivery, Lease
from forebay.queue.queue import CLASSIC, STREAM, Queue
from forebay.queue.sizes import LEASES_MAX, LOOKS_MAX, QueueSizes
from forebay.queue.source.source import LogSource
from forebay.queue.work.work_group import WorkGroup
from forebay.server.system.disk import DataDisk
from tests.logs import memory_log

RECORD = RECORD_OCTETS + len(b"xkp")  # of a record without a body


def queue_on(log: QueueLog, sizes: list[int], kind: int = CLASSIC) -> Queue:
    """A queue whose log has a block with bodies of these sizes."""
    queue = Queue(1, b"q", kind, QueueSpec(False, False, False, {}, 30_000), LogSource(log))
    append(log, sizes)
    return queue


def append(log: QueueLog, sizes: list[int]) -> None:
    for size in sizes:
        log.append(AMQP091, b"x", b"k", b"p", bytes(size))
    log.seal(1)


def taken(queue: Queue, credit: int = UNLIMITED, name: bytes = b"", turns: int = 1) -> list[Lease]:
    """The leases of a consumer of a new group."""
    group = queue.add_group(queue.next_group, name, b"", True, 0, False)
    group.add(Consumer(1, 1, group.id, 1, 0, b"", False, credit))
    out: list[Delivery] = []
    for now_us in range(turns):
        group.dispatch(now_us, out)
    leases = [each.lease for each in out if each.lease is not None]
    assert len(leases) == len(out)
    return leases


def group_of(queue: Queue) -> WorkGroup:
    group = queue.groups[1]
    assert isinstance(group, WorkGroup)
    return group


def shared(queue: Queue) -> tuple[int, int]:
    """Octets of what is ready and of what is held, which are all of the log."""
    sizes = QueueSizes(queue)
    assert (sizes.octets, sizes.ready + sizes.unacked) == (queue.log.octets, queue.log.octets)
    return sizes.ready, sizes.unacked


def test_nobody_holds_anything(tmp_path: Path) -> None:
    queue = queue_on(memory_log(str(tmp_path)), [100, 200])
    assert shared(queue) == (queue.log.octets, 0)


def test_all_is_held(tmp_path: Path) -> None:
    queue = queue_on(memory_log(str(tmp_path)), [100, 200])
    taken(queue)
    assert shared(queue) == (0, queue.log.octets)


def test_each_weighs_what_it_is(tmp_path: Path) -> None:
    queue = queue_on(memory_log(str(tmp_path)), [100, 2000, 30_000, 4])
    leases = taken(queue, 3)
    assert shared(queue)[1] == 32_100 + 3 * RECORD
    group_of(queue).ack(leases[0], 1, 1)
    assert shared(queue)[1] == 30_100 + 2 * RECORD
    group_of(queue).give_back(leases[0], 0, 1, 0, UNTRIED)
    assert shared(queue)[1] == 30_000 + RECORD


def test_annotations_belong_to_a_record(tmp_path: Path) -> None:
    log = memory_log(str(tmp_path))
    log.append_annotated(AMQP091, b"x", b"k", b"p", bytes(10), b"said")
    queue = queue_on(log, [20, 30])
    taken(queue, 2)
    assert shared(queue)[1] == 30 + 2 * (RECORD + 4) + len(b"said")


def test_a_block_that_is_not_in_memory_is_not_read(tmp_path: Path) -> None:
    """Its records weigh what they do on an average; a whole block what it is."""
    log = memory_log(str(tmp_path))
    queue = queue_on(log, [1000, 1000])
    append(log, [8, 8, 8, 8])
    append(log, [1])
    taken(queue, 3)
    log.cached = {}
    first, second, _ = (int(octets) for octets in log.index.octets)
    assert shared(queue)[1] == first + second // 4


def test_very_many_leases_are_not_counted_one_by_one(tmp_path: Path) -> None:
    log = memory_log(str(tmp_path))
    held = LEASES_MAX + 1
    queue = queue_on(log, [10_000])
    for _ in range(held):
        append(log, [1])
    assert len(taken(queue, held, turns=5)) == held
    assert shared(queue)[1] == int(log.octets) * held // (held + 1)


def test_partly_settled_leases_are_looked_at_up_to_a_limit(tmp_path: Path) -> None:
    log = memory_log(str(tmp_path))
    queue = queue_on(log, [1] * 4 * LOOKS_MAX)
    leases = taken(queue, 3 * LOOKS_MAX, turns=100)
    for lease in leases:
        group_of(queue).ack(lease, lease.first, 1)
    left = 3 * LOOKS_MAX - len(leases)
    assert shared(queue)[1] == pytest.approx(left * (RECORD + 1), abs=len(leases))


def test_what_readers_hold_is_no_message(tmp_path: Path) -> None:
    log = memory_log(str(tmp_path))
    queue = queue_on(log, [1000])
    append(log, [50])
    log.hold_from(0)
    (lease, _) = taken(queue)
    group_of(queue).ack(lease, 0, 1)
    queue.source.truncate()
    sizes = QueueSizes(queue)
    assert (sizes.ready, sizes.unacked) == (0, int(log.index.octets[1]))
    assert sizes.octets == sizes.unacked + int(log.index.octets[0])


def test_dead_letters_have_their_share(tmp_path: Path) -> None:
    log = memory_log(str(tmp_path))
    queue = queue_on(log, [100] * 4)
    (lease,) = taken(queue, 2)
    group = group_of(queue)
    group.limits.dead_letter_exchange = b"dead"
    group.reject(lease, 0, 1)
    sizes = QueueSizes(queue)
    assert (queue.ready(), queue.wanted(), sizes.unacked) == (2, 4, 100 + RECORD)
    assert sizes.ready == (log.octets - sizes.unacked) * 2 // 3


def test_several_groups_hold_each_their_own(tmp_path: Path) -> None:
    log = memory_log(str(tmp_path))
    queue = queue_on(log, [100] * 4)
    taken(queue, 1)
    taken(queue, 2, b"other")
    sizes = QueueSizes(queue)
    assert sizes.unacked == 3 * (100 + RECORD)
    assert sizes.ready == log.octets * 3 // 4


def test_all_of_a_stream_is_ready(tmp_path: Path) -> None:
    queue = queue_on(memory_log(str(tmp_path)), [100, 200], STREAM)
    assert shared(queue) == (queue.log.octets, 0)


def test_what_is_in_memory(tmp_path: Path) -> None:
    files = BlockFiles(DataDisk(str(tmp_path)))
    file = BlockFile(1, "wal", -1, True)
    files.add(file)
    log = QueueLog(1, "q", True, files, BlockCache(1 << 20))
    queue = Queue(1, b"q", CLASSIC, QueueSpec(False, False, False, {}, 30_000), LogSource(log))
    assert QueueSizes(queue).count_in_memory(0) == 0
    for size in (1000, 1000):
        log.append(AMQP091, b"", b"k", b"", bytes(size))
        block = log.seal(1)
        assert block is not None
        log.add_block(block, file, 0)
    sizes = QueueSizes(queue)
    assert (sizes.in_memory, sizes.count_in_memory(2)) == (log.octets, 2)
    log.durable_end = log.end
    log.cached_max = 1600
    log.cache.trim(log)
    sizes = QueueSizes(queue)
    assert (sizes.in_memory, sizes.count_in_memory(2)) == (int(log.index.octets[1]), 1)
    log.cached_max = 1
    log.cache.trim(log)
    sizes = QueueSizes(queue)
    assert (sizes.in_memory, sizes.count_in_memory(2)) == (0, 0)
    assert sizes.ready == log.octets > 2000 + HEAD_OCTETS
