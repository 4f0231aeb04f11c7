"""What must be there when a store is opened: a file that somebody took away, or cut, is noticed and named."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.errors import CorruptFile, StorageError
from forebay.log.folder.required import MissingFile
from forebay.log.store import Store
from tests.stores import SMALL, Everything, Opened, SmallDisk, TestClock, bodies, copied


def worked(folder: Path) -> Opened:
    """A store with segments of two queues and several files of the write-ahead log."""
    opened = Opened(folder, [1, 2], replace(SMALL, rewrite_age_us=1))
    wanted = Everything()
    for number in range(80):
        opened.clock.us += number < 40  # later files stay as they are
        opened.publish(1 + number % 2, *(b"%d %d" % (number, each) * 20 for each in range(5)))
        opened.sync()
        if opened.store.checkpoint_due():
            opened.store.rotate([])
            opened.sync()
        opened.housekeep(wanted)
    while opened.housekeep(wanted):
        pass
    assert len(opened.store.wals) > 1
    assert len(opened.store.logs.stored[1].segments) > 1
    return opened


@pytest.fixture(params=["stopped", "killed"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A data folder that was left in good order, or not."""
    opened = worked(tmp_path / "data")
    if request.param == "stopped":
        opened.close()
    else:
        opened.crash()
    return tmp_path / "data"


def octets_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "LOCK"}


def refusal(folder: Path) -> CorruptFile:
    """Why a store cannot be opened on the folder, which stays as it is."""
    before = octets_of(folder)
    disk = SmallDisk(str(folder))
    try:
        with pytest.raises(CorruptFile) as damage:
            Store(disk, TestClock(), SMALL).open()
    finally:
        disk.close_all()
    assert octets_of(folder) == before
    return damage.value


def test_every_file_is_missed(folder: Path, tmp_path: Path) -> None:
    files = [*folder.glob("queues/*/*.seg"), *folder.glob("wal/*.wal"), folder / "MANIFEST"]
    for file in files:
        copy = copied(folder, tmp_path / "copy")
        path = copy / file.relative_to(folder)
        path.unlink()
        damage = refusal(copy)
        assert damage.path == str(path)
        assert str(damage).startswith(f"{path}: this file is missing: ")
        shutil.rmtree(copy)


@pytest.mark.parametrize("name", ["queues", "queues/1", "wal"])
def test_folders_are_missed(folder: Path, tmp_path: Path, name: str) -> None:
    shutil.rmtree(folder / name)
    damage = refusal(folder)
    assert Path(damage.path).is_relative_to(folder / name)
    assert "this file is missing" in str(damage)


def test_a_missing_segment_is_told_with_its_queue_and_offsets(folder: Path) -> None:
    path = min(folder.glob("queues/1/*.seg"))
    path.unlink()
    assert "queue 1, offsets 0 to " in str(refusal(folder))


def test_several_missing_segments_are_told_of_at_once(folder: Path) -> None:
    paths = sorted(folder.glob("queues/*/*.seg"))
    paths[0].unlink()
    alone = str(refusal(folder))
    for path in paths[1:3]:
        path.unlink()
    damage = refusal(folder)
    assert damage.path == str(paths[0])
    assert str(damage) == f"{alone}; and 2 more", "the offsets are those of the file that is named"
    assert isinstance(damage, MissingFile) and damage.paths == list(map(str, paths[:3]))


def test_a_log_that_was_cut_after_a_stop_is_no_torn_write(tmp_path: Path) -> None:
    opened = worked(tmp_path / "data")
    opened.close()
    folder = tmp_path / "data"
    last = max(folder.glob("wal/*.wal"))
    whole = last.read_bytes()
    for cut in (*range(len(whole) - 700, len(whole)), len(whole) // 2):
        last.write_bytes(whole[:cut])
        damage = refusal(folder)
        assert damage.path == str(last)
        assert "when the broker was stopped" in str(damage)
    for at in range(len(whole) - 300, len(whole)):
        last.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert refusal(folder).path == str(last)
    last.write_bytes(whole)
    Opened(folder, [1, 2]).close()


def test_a_torn_write_after_a_kill_is_cut_as_ever(tmp_path: Path) -> None:
    opened = worked(tmp_path / "data")
    opened.publish(1, b"torn")
    opened.sync()
    tail = opened.store.wals[-1].tail
    last = tmp_path / "data" / opened.store.wals[-1].blocks.path
    before = bodies(opened.logs[1])
    opened.crash()
    last.write_bytes(last.read_bytes()[: tail - 3])
    again = Opened(tmp_path / "data", [1, 2])
    assert len(again.recovery.report) == 1
    found = bodies(again.logs[1])
    assert before == {**found, max(before): b"torn"}
    again.close()


def test_the_stop_is_no_rule_for_the_next_run(tmp_path: Path) -> None:
    """What the next run writes is checked by its own stop, or not at all."""
    worked(tmp_path / "data").close()
    again = Opened(tmp_path / "data", [1, 2])
    again.publish(1, b"more")
    again.sync()
    again.crash()
    last = max((tmp_path / "data").glob("wal/*.wal"))
    last.write_bytes(last.read_bytes().rstrip(b"\0")[:-3])
    third = Opened(tmp_path / "data", [1, 2])
    assert len(third.recovery.report) == 1
    third.close()


def test_what_went_rightly_is_not_missed(tmp_path: Path) -> None:
    """Whenever the power fails while files come and go."""
    opened = worked(tmp_path / "data")
    wanted = Everything()
    for number in range(200):
        for log in opened.logs.values():
            log.truncate(log.start + 2)
        opened.publish(1, b"%d" % number * 300)
        opened.sync()
        if opened.store.checkpoint_due():
            opened.store.rotate([])
            opened.sync()
        opened.disk.changes_max = number % 7
        try:
            opened.housekeep(wanted)
        except StorageError:
            expected = {queue: bodies(log) for queue, log in opened.logs.items()}
            opened.crash()
            opened = Opened(tmp_path / "data", [1, 2])
            found = {queue: bodies(log) for queue, log in opened.logs.items()}
            assert all(expected[queue].items() <= found[queue].items() for queue in expected)
        opened.disk.changes_max = 1 << 60
    opened.close()
    Opened(tmp_path / "data", [1, 2]).close()


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_folder_of_an_older_format_is_refused(folder: Path, version: int) -> None:
    from crc32c import crc32c

    (folder / "MANIFEST").unlink()
    for path in folder.glob("wal/*.wal"):
        octets = bytearray(path.read_bytes())
        octets[8] = version
        octets[4:8] = crc32c(bytes(octets[8:32])).to_bytes(4, "little")
        path.write_bytes(octets)
    assert f"version {version} of the WAL format is of an older forebay" in str(refusal(folder))


def test_a_segment_of_an_older_format_is_refused(folder: Path) -> None:
    from crc32c import crc32c

    for path in folder.glob("queues/*/*.seg"):
        octets = bytearray(path.read_bytes())
        octets[8] = 1
        octets[4:8] = crc32c(bytes(octets[8:40])).to_bytes(4, "little")
        path.write_bytes(octets)
    assert "version 1 of the segment format is of an older forebay" in str(refusal(folder))


def test_a_damaged_manifest_is_refused(folder: Path) -> None:
    path = folder / "MANIFEST"
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert refusal(folder).path == str(path)
        path.write_bytes(whole[:at])
        assert refusal(folder).path == str(path)


def test_a_start_that_came_to_nothing_leaves_a_new_folder(tmp_path: Path) -> None:
    """The first start may end at any moment; the next finds nothing wrong."""
    for changes in range(8):
        folder = tmp_path / str(changes)
        disk = SmallDisk(str(folder))
        disk.changes_max = changes
        store = Store(disk, TestClock(), SMALL)
        try:
            store.open()
            store.start([])
        except StorageError:
            pass
        disk.close_all()
        Opened(folder, [1]).close()
