"""A replicated store at the node that leads: what is committed, and what may be done by that."""

from __future__ import annotations

import gc
import shutil
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.errors import CorruptFile
from forebay.log.folder.inventory import read_inventory
from forebay.log.folder.required import MissingFile
from forebay.log.frame import CHECKPOINT, CLEAN, SEGMENTS, WALS, FrameEntry
from forebay.log.store import Store
from tests.replicated import Following, Leading, frames
from tests.stores import SMALL, Everything, Opened, SmallDisk, TestClock, bodies

NOTE = 3


def test_what_is_on_the_disk_is_durable_once_it_is_committed(tmp_path: Path) -> None:
    leading = Leading(tmp_path, [1], 1)
    store, log = leading.store, leading.logs[1]
    assert (store.on_disk, store.durable) == (1, 0)
    written = []
    for number in range(3):
        leading.publish(1, b"%d" % number, b"x")
        written.append(leading.write())
    assert written == [2, 3, 4]
    assert (store.durable, log.durable_end, log.end) == (0, 0, 6)
    assert store.pending() > 3 * 40
    store.commit_to(3)
    assert (store.durable, log.durable_end) == (3, 4)
    store.commit_to(2)
    assert (store.durable, log.durable_end) == (3, 4)
    store.commit_to(4)
    assert (store.durable, log.durable_end) == (4, 6)
    assert store.frame is not None and store.pending() == store.frame.octets
    with pytest.raises(AssertionError, match="frame 5 of 4 cannot be committed"):
        store.commit_to(5)
    leading.close()


def test_a_leader_keeps_few_octets_of_what_was_sent(tmp_path: Path) -> None:
    """However few frames they are: ten publishers fill each with megabytes."""
    most = 1 << 20
    leading = Leading(tmp_path, [1], 1, replace(SMALL, recent_octets_max=most, wal_octets_max=1 << 30))
    lsns = []
    tracemalloc.start()
    try:
        for _ in range(40):
            leading.publish(1, bytes(most // 2))
            leading.sync()
            lsns.append(leading.store.on_disk)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 4 * most
    finally:
        tracemalloc.stop()
    for lsn in (lsns[0], lsns[20], lsns[-1]):  # from the file, and from memory
        (shipment,) = leading.store.frames_from(lsn, 1) or []
        assert shipment.first == lsn and len(shipment.octets) > most // 2
    leading.crash()


def test_frames_have_the_epoch_of_who_leads(tmp_path: Path) -> None:
    leading = Leading(tmp_path, [1], 4)
    leading.publish(1, b"a")
    leading.sync()
    leading.close()
    leading = Leading(tmp_path, [1], 6)
    leading.publish(1, b"b")
    leading.sync()
    leading.close()
    found = frames(tmp_path)
    assert [(frame.epoch, frame.lsn) for frame in found] == [(4, 1), (4, 2), (6, 3), (6, 4)]
    assert not any(frame.flags & CLEAN for frame in found)
    with pytest.raises(AssertionError, match="epoch 6 after 6"):
        Leading(tmp_path, [1], 6)


def test_a_single_node_stays_in_the_epoch_of_its_log(tmp_path: Path) -> None:
    Opened(tmp_path, [1]).close()
    Leading(tmp_path, [1], 5).close()
    Opened(tmp_path, [1]).close()
    assert [frame.epoch for frame in frames(tmp_path) if frame.flags & CHECKPOINT] == [0, 5, 5]


def test_nothing_is_rewritten_before_it_is_committed(tmp_path: Path) -> None:
    leading = Leading(tmp_path, [1], 1)
    leading.full_file(1, 5)
    wanted = Everything()
    spare = leading.store.plan(wanted, leading.clock.now_us())
    assert spare is not None and not spare.rewrites and not spare.remove
    spare.run()
    leading.store.done(spare)
    assert leading.store.plan(wanted, leading.clock.now_us()) is None
    leading.store.commit_to(leading.store.on_disk)
    job = leading.store.plan(wanted, leading.clock.now_us())
    assert job is not None and job.rewrites
    job.run()
    inventory = read_inventory(leading.disk)
    assert inventory is not None
    assert inventory.floor == leading.store.wals[-1].head.first_lsn - 1
    leading.store.done(job)
    leading.crash()


def test_no_file_goes_on_the_word_of_a_frame_that_is_not_committed(tmp_path: Path) -> None:
    leading = Leading(tmp_path, [1], 1)
    leading.full_file(1, 5)
    leading.store.commit_to(leading.store.on_disk)
    leading.logs[1].truncate(5)
    path = tmp_path / leading.store.wals[0].blocks.path
    wanted = Everything()
    for _ in range(5):
        leading.write()
        job = leading.store.plan(wanted, leading.clock.now_us())
        if job is not None:
            job.run()
            leading.store.done(job)
    assert path.exists()
    while leading.housekeep(wanted):
        pass
    assert not path.exists()
    leading.crash()


def test_the_log_says_nothing_of_files_and_the_inventory_all(tmp_path: Path) -> None:
    leading = Leading(tmp_path, [1, 2], 1)
    for _ in range(3):
        leading.full_file(1, 5)
        leading.full_file(2, 3)
    wanted = Everything()
    while leading.housekeep(wanted):
        pass
    expected = {queue: bodies(log) for queue, log in leading.logs.items()}
    inventory = read_inventory(leading.disk)
    assert inventory is not None
    segments = [each.segment for stored in leading.store.logs.stored.values() for each in stored.segments]
    assert inventory.segments == tuple((each.queue, each.first, each.end) for each in segments)
    assert inventory.wals == tuple(wal.head.number for wal in leading.store.wals)
    leading.close()
    assert not [entry for frame in frames(tmp_path) for entry in frame.entries if entry.kind in (SEGMENTS, WALS)]
    again = Leading(tmp_path, [1, 2], 2)
    assert {queue: bodies(log) for queue, log in again.logs.items()} == expected
    again.close()
    for path in [segments[0].path, f"wal/{inventory.wals[0]:016d}.wal"]:
        (tmp_path / path).rename(tmp_path / "away")
        disk = SmallDisk(str(tmp_path))
        with pytest.raises(MissingFile) as missing:
            Store(disk, TestClock(), SMALL, True).open()
        assert missing.value.path == str(tmp_path / path)
        disk.close_all()
        (tmp_path / "away").rename(tmp_path / path)


def test_segments_go_once_the_inventory_no_longer_names_them(tmp_path: Path) -> None:
    leading = Leading(tmp_path, [1], 1)
    leading.full_file(1, 5)
    wanted = Everything()
    while leading.housekeep(wanted):
        pass
    path = tmp_path / leading.store.logs.stored[1].segments[0].segment.path
    assert path.exists()
    leading.logs[1].truncate(5)
    while leading.housekeep(wanted):
        named = read_inventory(leading.disk)
        assert named is not None
        assert path.exists() or not named.segments
    assert not path.exists()
    leading.close()
    assert bodies(Leading(tmp_path, [1], 2).logs[1]) == {}


def test_a_dropped_log_s_segments_go_once_the_inventory_no_longer_names_them(tmp_path: Path) -> None:
    leading = Leading(tmp_path, [1, 2], 1)
    leading.full_file(1, 5)
    leading.full_file(2, 5)
    leading.sync()
    wanted = Everything()
    while leading.housekeep(wanted):
        pass
    folder = tmp_path / "queues" / "1"
    assert folder.exists()
    leading.store.drop_log(1)
    leading.publish(2, b"more")
    leading.sync()
    while leading.housekeep(wanted):
        named = read_inventory(leading.disk)
        assert named is not None
        assert folder.exists() or 1 not in {queue for queue, _, _ in named.segments}
    assert not folder.exists()
    leading.disk.close_all()
    assert len(bodies(Leading(tmp_path, [2], 2).logs[2])) == 6


def test_a_log_was_dropped_just_before_a_crash(tmp_path: Path) -> None:
    """The inventory still names its segments, and they are there, though the log knows no such queue any more."""
    leading = Leading(tmp_path / "a", [1, 2], 1)
    leading.full_file(1, 5)
    leading.full_file(2, 5)
    leading.sync()
    wanted = Everything()
    while leading.housekeep(wanted):
        pass
    leading.store.drop_log(1)
    leading.publish(2, b"more")
    leading.sync()
    named = read_inventory(leading.disk)
    assert named is not None and 1 in {queue for queue, _, _ in named.segments}
    leading.disk.close_all()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    following = Following(tmp_path / "b")
    following.store.commit_to(following.store.on_disk)
    again = Leading(tmp_path / "a", [2], 2)
    again.store.keep_from(1)
    again.sync()
    while again.housekeep(wanted):
        pass
    assert not (tmp_path / "a" / "queues" / "1").exists()
    assert len(bodies(again.logs[2])) == 6
    assert following.fetch(again.store) is None
    following.store.commit_to(following.store.on_disk)
    while (job := following.store.plan_following()) is not None:
        job.run()
        following.store.done(job)
    assert not (tmp_path / "b" / "queues" / "1").exists()
    following.crash()
    again.crash()
    Following(tmp_path / "b").crash()


def test_a_single_node_becomes_replicated_and_single_again(tmp_path: Path) -> None:
    wanted = Everything()
    single = Opened(tmp_path, [1], checkpoint=[FrameEntry(NOTE, 0, 0, b"one")])
    for number in range(300):
        single.publish(1, b"single %d" % number)
        if number % 100 == 99:
            assert single.store.rotate([])
            single.sync()
            single.housekeep(wanted)
    single.store.note(NOTE, 0, 0, b"two", True)
    single.sync()
    single.close()
    leading = Leading(tmp_path, [1], 1)
    assert len(bodies(leading.logs[1])) == 300
    leading.full_file(1, 50)
    while leading.housekeep(wanted):
        pass
    expected = bodies(leading.logs[1])
    assert len(expected) == 350
    leading.close()
    again = Opened(tmp_path, [1])
    assert bodies(again.logs[1]) == expected
    assert read_inventory(again.disk) is None
    path = again.store.logs.stored[1].segments[0].segment.path
    again.close()
    (tmp_path / path).unlink()
    with pytest.raises(CorruptFile, match="this file is missing"):
        Opened(tmp_path, [1])


def test_a_full_disk_takes_an_inventory_and_gives_room_back(tmp_path: Path) -> None:
    leading = Leading(tmp_path, [1], 1)
    leading.full_file(1, 5)
    wanted = Everything()
    while leading.housekeep(wanted):
        pass
    leading.full_file(1, 5)
    leading.store.commit_to(leading.store.on_disk)
    path = tmp_path / leading.store.logs.stored[1].segments[0].segment.path
    leading.disk.octets_max = leading.disk.used()
    leading.logs[1].truncate(10)
    for _ in range(4):
        leading.clock.us += 20_000_000
        leading.housekeep(wanted)
    assert not path.exists()
    leading.disk.octets_max = 1 << 60
    leading.close()
