"""The store: what is on the disk when, and what becomes of full files and full disks."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.errors import CorruptFile, StorageError
from forebay.log.block import BlockWriter
from forebay.log.planning import NAMES_MAX
from forebay.log.segment import SegmentWriter
from forebay.log.store import FrameEntry, Store, StoreOptions
from tests.stores import SMALL, Everything, Opened, PowerCut, SmallDisk, TestClock, bodies

NOTE = 3


def run(opened: Opened) -> None:
    """As a turn does: only what is urgent."""
    commit = opened.store.commit()
    if commit is not None:
        commit.run()
        opened.store.synced(commit)


def full_segments(opened: Opened, count: int, wanted: Everything) -> None:
    """Give queue 1 so many small segments."""
    for number in range(count):
        opened.publish(1, *(b"%d-%d" % (number, each) for each in range(5)))
        assert opened.store.rotate([])
        opened.sync()
        while len(opened.store.wals) > 1:
            assert opened.housekeep(wanted)


def test_turns_are_gathered_while_a_commit_is_away(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1, 2])
    store = opened.store
    opened.publish(1, b"a")
    first = store.lsn
    assert store.due_lsn() == first
    commit = store.commit()
    assert commit is not None
    assert store.in_flight()
    opened.publish(1, b"b")
    opened.publish(2, b"c")
    opened.publish(1, b"d")
    assert store.commit() is None
    assert store.due_lsn() == first + 1
    commit.run()
    assert store.synced(commit) == first
    assert [opened.logs[q].durable_end for q in (1, 2)] == [1, 0]
    run(opened)
    assert store.durable == first + 1
    assert [opened.logs[q].durable_end for q in (1, 2)] == [3, 1]
    assert store.commit() is None
    assert store.due_lsn() == store.durable
    opened.close()


def test_lazy_notes_wait_for_company_or_a_flush(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1])
    opened.store.note(NOTE, 1, 0, b"lazy", False)
    assert opened.store.commit() is None
    assert opened.store.pending() > 0
    opened.store.note(NOTE, 1, 0, b"urgent", True)
    run(opened)
    opened.store.note(NOTE, 1, 0, b"last", False)
    opened.sync()
    opened.crash()
    again = Opened(tmp_path, [1])
    assert [entry.payload for entry in again.recovery.entries] == [b"lazy", b"urgent", b"last"]
    again.close()


def test_a_clean_stop_leaves_nothing_to_report(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1])
    opened.publish(1, b"a")
    opened.store.note(NOTE, 1, 0, b"lazy", False)
    opened.close()
    assert [path.name for path in (tmp_path / "wal").iterdir()] == ["0000000000000001.wal"]
    again = Opened(tmp_path, [1])
    assert again.recovery.report == []
    assert bodies(again.logs[1]) == {0: b"a"}
    assert [entry.payload for entry in again.recovery.entries] == [b"lazy"]
    again.close()


def test_the_end_of_a_log_outlives_its_records(tmp_path: Path) -> None:
    """Offsets are never used twice, though all that had them is consumed and its files are gone."""
    opened = Opened(tmp_path, [1])
    opened.publish(1, b"a", b"b", b"c")
    opened.logs[1].truncate(3)
    assert opened.store.rotate([])  # while its block is not on the disk yet
    opened.sync()
    while opened.housekeep(Everything()):
        pass
    assert len(opened.store.wals) == 1
    opened.crash()
    again = Opened(tmp_path, [1])
    assert (again.logs[1].start, again.logs[1].end) == (3, 3)
    assert again.publish(1, b"d").base == 3
    again.sync()
    again.close()


@pytest.mark.parametrize("changes", range(12))
def test_small_segments_become_one_whatever_happens(tmp_path: Path, changes: int) -> None:
    opened = Opened(tmp_path, [1])
    wanted = Everything()
    full_segments(opened, 7, wanted)
    opened.publish(1, b"a", b"b", b"c", b"d", b"e")
    assert opened.store.rotate([])
    opened.sync()
    assert opened.housekeep(wanted)
    assert len(opened.store.logs.stored[1].segments) == 8
    expected = bodies(opened.logs[1])
    assert len(expected) == 40
    opened.sync()
    job = opened.store.plan(wanted, opened.clock.us)
    assert job is not None
    assert len(job.rewrites) == 1
    opened.disk.changes_max = changes
    try:
        job.run()
    except PowerCut:
        opened.crash()
        opened = Opened(tmp_path, [1])
    else:
        assert changes >= 5
        if changes % 2:  # the power fails before the result is taken in
            opened.crash()
            opened = Opened(tmp_path, [1])
        else:
            opened.disk.changes_max = 1 << 60
            opened.store.done(job)
    assert bodies(opened.logs[1]) == expected
    while opened.housekeep(wanted):
        pass
    assert bodies(opened.logs[1]) == expected
    assert len(opened.store.logs.stored[1].segments) == 1
    assert len(list((tmp_path / "queues/1").glob("*.seg"))) == 1
    opened.close()


def test_one_stuck_record_does_not_hold_the_disk(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1], replace(SMALL, wal_octets_max=1 << 20, segment_octets_max=1 << 20))
    wanted = Everything()
    for number in range(40):
        opened.publish(1, b"%04d" % number * 1000)
    assert opened.store.rotate([])
    opened.sync()
    while opened.housekeep(wanted):
        pass
    before = opened.disk.used()
    assert before > 160_000
    wanted.settled[1] = set(range(1, 40))
    while opened.housekeep(wanted):
        pass
    assert opened.disk.used() < before - 100_000
    log = opened.logs[1]
    assert bodies(log)[0] == b"0000" * 1000
    assert (log.start, log.end) == (0, 40)
    block = log.block(20)
    assert block is None or block.end > 20
    log.truncate(40)
    while opened.housekeep(wanted):
        pass
    assert list((tmp_path / "queues/1").glob("*.seg")) == []
    opened.close()


def test_more_logs_are_rewritten_than_get_their_names_at_once(tmp_path: Path) -> None:
    queues = list(range(1, NAMES_MAX + 51))
    opened = Opened(tmp_path, queues, StoreOptions(rewrite_age_us=0))
    for queue in queues:
        opened.publish(queue, b"kept")
    assert opened.store.rotate([])
    opened.sync()
    while opened.housekeep(Everything()):
        pass
    assert len(list(tmp_path.glob("queues/*/*.seg"))) == len(queues)
    assert len(list(tmp_path.glob("queues/*/queue.json"))) == len(queues)
    opened.close()


def test_what_is_settled_is_not_written_twice(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1, 2])
    opened.publish(1, *[b"x" * 100] * 50)
    opened.publish(2, b"kept")
    opened.store.rotate([])
    opened.sync()
    wanted = Everything()
    wanted.settled[1] = set(range(50))
    while opened.housekeep(wanted):
        pass
    assert list((tmp_path / "queues/1").glob("*.seg")) == []
    assert bodies(opened.logs[2]) == {0: b"kept"}
    opened.close()


def test_a_file_that_was_rewritten_but_not_removed_does_no_harm(tmp_path: Path) -> None:
    """Its first blocks were wanted no more, so that no segment stands for their offsets."""
    opened = Opened(tmp_path, [1])
    for body in (b"a", b"b", b"c", b"d"):
        opened.publish(1, body)
    opened.logs[1].truncate(2)
    assert opened.store.rotate([])
    opened.sync()
    assert opened.housekeep(Everything())
    opened.crash()
    assert (tmp_path / "wal/0000000000000001.wal").exists()
    again = Opened(tmp_path, [1])
    assert bodies(again.logs[1]) == {2: b"c", 3: b"d"}
    while again.housekeep(Everything()):
        pass
    assert not (tmp_path / "wal/0000000000000001.wal").exists()
    assert bodies(again.logs[1]) == {2: b"c", 3: b"d"}
    again.close()


def test_a_purge_is_not_undone_by_a_restart(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1])
    opened.publish(1, b"a")
    opened.publish(1, b"b")
    opened.sync()
    opened.logs[1].truncate(1)
    opened.housekeep(Everything())
    opened.sync()
    opened.crash()
    again = Opened(tmp_path, [1])
    assert bodies(again.logs[1]) == {1: b"b"}
    again.close()


def test_a_dropped_log_goes_with_its_files(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1, 2])
    full_segments(opened, 1, Everything())
    assert json.loads((tmp_path / "queues/1/queue.json").read_text()) == {"name": "q1", "id": 1}
    opened.store.drop_log(1)
    opened.store.note(NOTE, 0, 0, b"dropped", True)
    early = opened.store.plan(Everything(), opened.clock.us)
    if early is not None:
        early.run()
        opened.store.done(early)
    assert (tmp_path / "queues/1").exists()  # not before it is on the disk that the log is gone
    run(opened)
    opened.housekeep(Everything())
    assert not (tmp_path / "queues/1").exists()
    opened.close()
    disk = SmallDisk(str(tmp_path))
    assert sorted(Store(disk, TestClock(), SMALL).open().logs) == [2]
    disk.close_all()


@pytest.mark.parametrize("step", ["planned", "ran"])
def test_a_log_dropped_under_a_job_stays_dropped(tmp_path: Path, step: str) -> None:
    opened = Opened(tmp_path, [1, 2])
    opened.publish(1, b"a")
    opened.store.rotate([])
    opened.sync()
    job = opened.store.plan(Everything(), opened.clock.us)
    assert job is not None
    assert job.rewrites
    if step == "ran":
        job.run()
    opened.store.drop_log(1)
    opened.sync()
    if step == "planned":
        job.run()
    opened.store.done(job)
    while opened.housekeep(Everything()):
        pass
    assert not (tmp_path / "queues/1").exists()
    assert len(opened.store.wals) == 1
    opened.close()


def test_a_log_in_memory_leaves_nothing(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [])
    log = opened.store.create_log(9, "tmp", False)
    log.append(2, b"", b"", b"", b"body")
    block = log.seal(1)
    assert block is not None
    assert block.head == b""
    assert (log.durable_end, log.end) == (1, 1)
    assert log.block(0) is block
    log.truncate(1)
    assert log.block(0) is None
    assert log.cached == {}
    opened.store.drop_log(9)
    opened.housekeep(Everything())
    assert not (tmp_path / "queues").exists()
    opened.close()


def test_a_checkpoint_longer_than_a_file_is_not_followed_by_the_next_at_once(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1], replace(SMALL, wal_octets_max=1 << 20))
    store = opened.store
    opened.housekeep(Everything())  # the file has its name from then on
    assert store.rotate([FrameEntry(NOTE, 0, 0, bytes(3 << 20))])
    run(opened)
    opened.housekeep(Everything())
    assert not store.checkpoint_due()
    for _ in range(4):
        store.note(NOTE, 0, 0, bytes(1 << 20), True)
        run(opened)
    assert store.checkpoint_due()
    opened.close()


# ---- a full disk


def filled(tmp_path: Path) -> tuple[Opened, int]:
    """A store on a disk that has no room for more messages, and how many it took."""
    opened = Opened(tmp_path, [1], replace(SMALL, wal_octets_max=1 << 20))
    opened.housekeep(Everything())  # the spare file
    opened.disk.octets_max = opened.disk.used() + 20_000
    count = 0
    log = opened.logs[1]
    while opened.store.reserve(700):
        log.append(2, b"", b"", b"", b"%03d" % count * 150)
        block = log.seal(1)
        assert block is not None
        opened.store.append(log, block)
        run(opened)
        count += 1
    return opened, count


def test_a_full_disk_is_known_before_anything_is_accepted(tmp_path: Path) -> None:
    opened, count = filled(tmp_path)
    assert count > 20
    assert len(bodies(opened.logs[1])) == opened.logs[1].durable_end == count
    # It is not asked again at once, though there is room now.
    opened.disk.octets_max = 1 << 60
    assert not opened.store.reserve(700)
    opened.clock.us += 1_000_000
    assert opened.store.reserve(700)
    opened.close()


def is_full(store: Store) -> bool:
    """Whether it thinks so; asked by a call, for it changes between two."""
    return store.full


def test_a_full_disk_is_found_to_have_room_though_nobody_publishes(tmp_path: Path) -> None:
    opened, _ = filled(tmp_path)
    store = opened.store
    assert is_full(store)
    opened.clock.us += 1_000_000
    store.look_for_room()
    assert is_full(store)
    opened.disk.octets_max = opened.disk.used() + 100  # less than a step would be gone at once
    opened.clock.us += 1_000_000
    store.look_for_room()
    assert is_full(store)
    opened.disk.octets_max = 1 << 60
    store.look_for_room()
    assert is_full(store)  # it was asked just now
    opened.clock.us += 1_000_000
    store.look_for_room()
    assert not is_full(store)
    room = store.room()
    store.look_for_room()
    assert store.room() == room
    opened.close()


def test_settlements_go_on_when_the_disk_is_full_and_free_it(tmp_path: Path) -> None:
    opened, count = filled(tmp_path)
    store = opened.store
    log = opened.logs[1]
    number = 0
    while store.frame is not None and store.frame.end() + 40 <= store.frame.file.reserved:
        store.note(NOTE, 1, number, b"settled", False)
        number += 1
        opened.sync()
    assert number > 20
    for _ in range(50):  # beyond the margin: they wait in memory
        store.note(NOTE, 1, number, b"settled", False)
        number += 1
    assert store.flush() is None
    assert store.checkpoint_due()
    log.truncate(count)
    assert store.rotate([FrameEntry(NOTE, 1, number, b"all settled")])
    opened.sync()
    assert store.pending() < 100
    for _ in range(2):  # a note that it is not needed, then the dead file goes
        assert opened.housekeep(Everything())
    opened.clock.us += 2_000_000
    assert store.reserve(10_000)
    assert not store.full
    opened.publish(1, b"after")
    opened.sync()
    opened.crash()
    again = Opened(tmp_path, [1])
    assert bodies(again.logs[1]) == {count: b"after"}
    assert [entry.payload for entry in again.recovery.entries] == [b"all settled"]
    again.close()


def test_a_full_disk_of_settled_messages_frees_itself(tmp_path: Path) -> None:
    opened, count = filled(tmp_path)
    assert not opened.store.checkpoint_due()
    opened.logs[1].truncate(count)
    assert opened.store.checkpoint_due()
    assert opened.store.rotate([])
    opened.sync()
    while opened.housekeep(Everything()):
        pass
    opened.clock.us += 2_000_000
    assert opened.store.reserve(10_000)
    opened.close()


def test_a_name_that_had_no_room_is_written_later_and_a_rewrite_finds_its_folder(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1])
    opened.publish(1, b"a")
    opened.sync()
    opened.disk.octets_max = 0
    assert opened.housekeep(Everything())
    assert not (tmp_path / "queues/1/queue.json").exists()
    opened.disk.octets_max = 1 << 60
    opened.clock.us += 11_000_000
    assert opened.store.rotate([])
    opened.sync()
    while len(opened.store.wals) > 1:
        assert opened.housekeep(Everything())
    assert (tmp_path / "queues/1/queue.json").exists()
    assert bodies(opened.logs[1]) == {0: b"a"}
    opened.close()


def test_a_rewrite_without_room_is_tried_again_later(tmp_path: Path) -> None:
    opened, count = filled(tmp_path)
    store = opened.store
    assert store.rotate([])  # onto the spare file
    opened.sync()
    for _ in range(3):
        opened.housekeep(Everything())
    assert len(store.wals) == 2
    assert len(bodies(opened.logs[1])) == count
    opened.disk.octets_max = 1 << 60
    opened.clock.us += 11_000_000
    while opened.housekeep(Everything()):
        pass
    assert len(store.wals) == 1
    assert len(bodies(opened.logs[1])) == count
    opened.close()


def test_after_a_failed_write_nothing_is_confirmed(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1])
    opened.publish(1, b"a")
    commit = opened.store.commit()
    assert commit is not None
    opened.disk.changes_max = 0
    with pytest.raises(StorageError):
        commit.run()
    opened.disk.changes_max = 1 << 60
    durable = opened.store.durable
    opened.publish(1, b"b")
    assert opened.store.commit() is None
    assert opened.store.flush() is None
    assert opened.store.durable == durable
    with pytest.raises(StorageError):
        opened.store.close()
    opened.crash()


# ---- reading


def test_a_damaged_block_is_refused_when_read(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1], replace(SMALL, cache_octets_max=0))
    block = opened.publish(1, b"a", b"b")
    opened.publish(1, b"c")
    opened.sync()
    opened.logs[1].cached.clear()
    wal = opened.store.wals[-1].blocks
    position = int(opened.logs[1].index.positions[0])
    opened.disk.pwrite(wal.handle, [b"\xff"], position + 60)
    with pytest.raises(CorruptFile, match="queue 1, offsets 0 to 1") as damage:
        opened.logs[1].block(1)
    assert damage.value.position == position
    assert damage.value.path == str(tmp_path / wal.path)
    assert block.count == 2
    opened.crash()


def test_a_whole_block_in_the_wrong_place_is_refused(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1], replace(SMALL, cache_octets_max=0))
    for body in (b"a", b"b"):
        opened.publish(1, body)
    opened.sync()
    log = opened.logs[1]
    log.cached.clear()
    handle = opened.store.wals[-1].blocks.handle
    other = opened.disk.pread(handle, int(log.index.octets[1]), int(log.index.positions[1]))
    opened.disk.pwrite(handle, [other], int(log.index.positions[0]))
    with pytest.raises(CorruptFile, match="another block stands here: offsets 1 to 1"):
        log.block(0)
    opened.crash()


def test_the_cache_keeps_to_its_budget(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1, 2], replace(SMALL, cache_octets_max=10_000, wal_octets_max=1 << 20))
    for number in range(100):
        opened.publish(1 + number % 2, b"x" * 1000)
        if number % 10 == 9:
            opened.sync()
    cache = opened.store.logs.cache
    assert cache.octets <= 10_000 + 20_000  # what is not on the disk yet stays in memory
    opened.publish(1, b"x")
    assert cache.octets <= 10_000
    cached = [block for log in opened.logs.values() for block in log.cached.values()]
    assert cache.octets == sum(int(block.octets()) + 400 for block in cached)
    assert all(len(bodies(log)) >= 50 for log in opened.logs.values())
    assert cache.octets <= 10_000
    for log in opened.logs.values():
        log.truncate(log.end)
    assert cache.octets == 0
    opened.crash()


def test_a_file_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1])
    path = tmp_path / opened.store.wals[-1].blocks.path
    opened.close()
    head = bytearray(path.read_bytes())
    head[8] = 6
    from crc32c import crc32c

    head[4:8] = crc32c(bytes(head[8:32])).to_bytes(4, "little")
    path.write_bytes(head)
    with pytest.raises(CorruptFile, match="version 6 of the WAL format is unknown"):
        Opened(tmp_path, [1])


def test_a_missing_piece_of_the_log_is_noticed(tmp_path: Path) -> None:
    """The file before the last lost its last frame at a boundary: the numbers of frames show it."""
    opened = Opened(tmp_path, [1], StoreOptions())
    opened.publish(1, b"a")
    opened.sync()
    old = opened.store.wals[-1]
    end = old.tail
    lost = opened.store.lsn
    opened.publish(1, b"b")
    opened.sync()
    assert opened.store.rotate([])
    opened.sync()
    opened.crash()
    path = tmp_path / old.blocks.path
    shutil.copy(path, tmp_path / "copy")
    path.write_bytes(path.read_bytes()[:end])
    text = f"the file begins with frame {lost + 1}, the one before it ends before {lost}"
    with pytest.raises(CorruptFile, match=text):
        Opened(tmp_path, [1])


def write_segment(opened: Opened, first: int, end: int) -> None:
    """A segment of queue 1 that stands for these offsets."""
    opened.disk.make_folder("queues/1")
    writer = BlockWriter()
    for offset in range(first, end):
        writer.append(2, b"", b"", b"", b"%d" % offset)
    segment = SegmentWriter(opened.disk, 1, first)
    segment.add(writer.seal(first, 1, True))
    segment.finish(end)


def test_of_segments_within_another_the_other_counts(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1])
    for first, end in ((0, 30), (5, 10), (10, 30), (30, 40), (32, 40)):
        write_segment(opened, first, end)
    opened.crash()
    again = Opened(tmp_path, [1])
    assert bodies(again.logs[1]) == {offset: b"%d" % offset for offset in range(40)}
    removed = [line.partition(": ")[0].rpartition("/")[2] for line in again.recovery.report]
    assert removed == [f"{first:020d}.seg" for first in (5, 10, 32)]
    assert len(again.disk.list("queues/1")) == 2
    again.crash()


def test_segments_that_overlap_are_damage(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1])
    for first, end in ((0, 30), (5, 10), (20, 40)):
        write_segment(opened, first, end)
    opened.crash()
    with pytest.raises(CorruptFile, match="offsets from 20"):
        Opened(tmp_path, [1])
