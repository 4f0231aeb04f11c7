"""A copy of a store's files: whole, or known not to be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.ports import Random
from forebay.log.folder.identity import UnfinishedCopy, own_identity, promise, read_identity
from forebay.log.folder.inventory import Inventory
from forebay.log.replication.copying import BadCopy, FolderCopy, Snapshot, SnapshotEnded, begin_copy, begin_empty
from forebay.log.store import Store
from tests.replicated import Following, Leading, wal_files
from tests.stores import SMALL, Everything, Opened, PowerCut, SmallDisk, TestClock, bodies


class Chance(Random):
    """Other octets each time."""

    def __init__(self) -> None:
        self.count = 0

    def octets(self, count: int) -> bytes:
        self.count += 1
        return bytes([self.count]) * count


@pytest.fixture
def leading(tmp_path: Path) -> Leading:
    """Its log is in segments and in WAL files; the newest frame is not on the disk yet."""
    leading = Leading(tmp_path / "a", [1, 2], 1)
    wanted = Everything()
    for _ in range(2):
        leading.full_file(1, 20)
        leading.full_file(2, 20)
        leading.sync()
        while leading.housekeep(wanted):
            pass
    leading.full_file(1, 20)
    leading.publish(1, b"last")
    leading.sync()
    return leading


def copied(snapshot: Snapshot, copy: FolderCopy, octets: int = 1000) -> None:
    """All files, a piece at a time."""
    for file in snapshot.files:
        position = 0
        while piece := snapshot.read(file.path, position, octets):
            copy.copy(file.path, position, piece)
            position += len(piece)


def test_a_copy_is_followed_by_frames(tmp_path: Path, leading: Leading) -> None:
    expected = bodies(leading.logs[1])
    leading.publish(1, b"on its way")
    commit = leading.store.flush()
    snapshot = leading.store.snapshot()
    assert snapshot is not None and commit is not None
    assert snapshot.end == commit.lsn - 1
    commit.run()
    leading.store.written(commit)
    some = Opened(tmp_path / "b", [7])  # what was there before is another log
    some.publish(7, b"other")
    some.sync()
    some.close()
    disk = SmallDisk(str(tmp_path / "b"))
    chance = Chance()
    before = promise(disk, own_identity(disk, chance), 5)
    copy = begin_copy(disk, chance)
    copied(snapshot, copy)
    copy.finish(snapshot.inventory, snapshot.files)
    assert read_identity(disk) == replace(copy.identity, promised=5, copying=False)
    assert copy.identity.store != before.store
    disk.close_all()
    leading.store.release(snapshot)
    following = Following(tmp_path / "b")
    assert following.store.end() == (1, snapshot.end)
    assert following.fetch(leading.store) is None
    following.store.commit_to(following.store.on_disk)
    assert following.store.planner.floor == leading.store.planner.floor
    second = following.lead([1, 2], 2)
    assert bodies(second.logs[1]) == {**expected, len(expected): b"on its way"}
    assert bodies(second.logs[2]) == bodies(leading.logs[2])
    ours, theirs = wal_files(tmp_path / "a"), wal_files(tmp_path / "b")
    assert {name: theirs[name] for name in ours} == ours


def test_files_in_which_nothing_is_wanted_are_not_copied(tmp_path: Path) -> None:
    leading = Leading(tmp_path / "a", [1, 2], 1)
    wanted = Everything()
    leading.publish(2, b"wanted")
    leading.store.keep_from(1)  # for whoever lacks little: a member that makes a copy lacks more
    for number in range(4):
        leading.full_file(1, 20)
        leading.logs[1].truncate(20 * (number + 1))
        leading.sync()
        while leading.housekeep(wanted):
            pass
    leading.publish(1, b"last")
    leading.sync()
    assert len(leading.store.wals) == 5
    snapshot = leading.store.snapshot()
    assert snapshot is not None
    newest = leading.store.wals[-1]
    segments = [path.relative_to(tmp_path / "a") for path in (tmp_path / "a" / "queues").rglob("*.seg")]
    assert [file.path for file in snapshot.files] == [*map(str, segments), newest.blocks.path]
    (tmp_path / "b").mkdir()
    disk = SmallDisk(str(tmp_path / "b"))
    copy = begin_copy(disk, Chance())
    copied(snapshot, copy)
    copy.finish(snapshot.inventory, snapshot.files)
    disk.close_all()
    leading.store.release(snapshot)
    following = Following(tmp_path / "b")
    assert following.store.end() == leading.store.end()
    leading.publish(1, b"more")
    leading.sync()
    assert following.fetch(leading.store) is None
    following.store.commit_to(following.store.on_disk)
    logs = {queue: each.log for queue, each in following.store.logs.stored.items()}
    assert bodies(logs[1]) == {80: b"last", 81: b"more"} and bodies(logs[2]) == {0: b"wanted"}
    following.crash()
    leading.crash()


def test_no_file_goes_or_changes_under_a_copy(leading: Leading) -> None:
    snapshot = leading.store.snapshot()
    assert snapshot is not None
    before = {file.path: snapshot.read(file.path, 0, file.octets) for file in snapshot.files}
    wanted = Everything()
    leading.logs[1].truncate(50)
    for _ in range(3):
        leading.full_file(2, 20)
        leading.sync()
        for _ in range(5):
            leading.housekeep(wanted)
    assert {file.path: snapshot.read(file.path, 0, file.octets) for file in snapshot.files} == before
    leading.store.release(snapshot)
    with pytest.raises(SnapshotEnded):
        snapshot.read(snapshot.files[0].path, 0, 1)
    while leading.housekeep(wanted):
        pass
    assert len(leading.store.wals) == 1


def test_a_full_disk_gives_up_a_copy(leading: Leading) -> None:
    snapshot = leading.store.snapshot()
    assert snapshot is not None
    leading.store.log_room.full = True
    leading.store.plan(Everything(), leading.clock.now_us())
    with pytest.raises(SnapshotEnded):
        snapshot.read(snapshot.files[-1].path, 0, 1)


def test_a_snapshot_waits_for_a_job(leading: Leading) -> None:
    job = leading.store.plan(Everything(), leading.clock.now_us())
    assert job is not None
    assert leading.store.snapshot() is None
    job.run()
    leading.store.done(job)
    assert leading.store.snapshot() is not None


def test_a_copy_that_does_not_end_leaves_nothing(tmp_path: Path, leading: Leading) -> None:
    snapshot = leading.store.snapshot()
    assert snapshot is not None
    outcomes = set()
    for changes in range(0, 200, 3):
        folder = tmp_path / str(changes)
        Following(folder).crash()
        disk = SmallDisk(str(folder))
        own_identity(disk, Chance())
        disk.changes_max = changes
        try:
            copy = begin_copy(disk, Chance())
            copied(snapshot, copy, 4000)
            copy.finish(snapshot.inventory, snapshot.files)
        except PowerCut:
            pass
        disk.close_all()
        disk = SmallDisk(str(folder))
        store = Store(disk, TestClock(), SMALL, True)
        try:
            store.open()
            outcomes.add(store.on_disk)
        except UnfinishedCopy:
            outcomes.add(-1)
            identity = begin_empty(disk, Chance())
            assert read_identity(disk) == identity and not identity.copying
            store = Store(disk, TestClock(), SMALL, True)
            assert store.open().logs == {}
            store.follow()
            assert store.end() == (0, 0)
        disk.close_all()
        if snapshot.end in outcomes:
            break
    assert outcomes == {0, -1, snapshot.end}


def test_a_copy_is_checked(tmp_path: Path, leading: Leading) -> None:
    snapshot = leading.store.snapshot()
    assert snapshot is not None
    segment = next(file.path for file in snapshot.files if file.path.endswith(".seg"))
    for at in (0, 50, 200, snapshot.lengths[segment] - 60, snapshot.lengths[segment] - 1):
        copy = begin_copy(SmallDisk(str(tmp_path / f"at {at}")), Chance())
        for file in snapshot.files:
            octets = bytearray(snapshot.read(file.path, 0, file.octets))
            if file.path == segment:
                octets[at] ^= 1
            copy.copy(file.path, 0, bytes(octets))
        with pytest.raises(BadCopy, match="it has not come as it was sent"):
            copy.finish(snapshot.inventory, snapshot.files)
        identity = read_identity(copy.disk)
        assert identity is not None and identity.copying


def test_what_is_no_file_of_a_store_is_refused(tmp_path: Path, leading: Leading) -> None:
    snapshot = leading.store.snapshot()
    assert snapshot is not None
    copy = begin_copy(SmallDisk(str(tmp_path / "b")), Chance())
    for path in ("../a", "store.json", "wal/../../etc.wal", "queues/1/queue.json", "wal/0000000000000001.wal/x", ""):
        with pytest.raises(BadCopy, match="is no file of a store"):
            copy.copy(path, 0, b"x")
        with pytest.raises(BadCopy, match="are no part of the copy"):
            snapshot.read(path, 0, 1)
    name = snapshot.files[-1].path
    copy.copy(name, 0, b"x")
    with pytest.raises(BadCopy, match="octets from 5 follow 1"):
        copy.copy(name, 5, b"x")
    with pytest.raises(BadCopy, match="octets of"):
        copy.finish(snapshot.inventory, snapshot.files)
    with pytest.raises(BadCopy, match="is no file of the copy"):
        copy.finish(Inventory(0, (), ()), [])
