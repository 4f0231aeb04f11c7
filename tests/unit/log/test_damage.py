"""A block that cannot be read: who asks for it is told, the rest is read, and housekeeping takes it along."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.errors import DAMAGED, CorruptFile, DamagedBlock
from forebay.log.queue_log import QueueLog
from tests.stores import SMALL, Everything, Opened, bodies

COLD = replace(SMALL, cache_octets_max=0)  # every block is read from its file


def with_segment(folder: Path, blocks: int = 3) -> tuple[Opened, Path]:
    """A store with one segment of queue 1, in blocks of a record that are long enough to stay as they are."""
    opened = Opened(folder, [1, 2], replace(COLD, segment_octets_max=64 << 20, wal_octets_max=64 << 20))
    for number in range(blocks):
        opened.publish(1, b"%d" % number * (2 << 20))
        opened.publish(2, b"other %d" % number)
    assert opened.store.rotate([])
    opened.sync()
    while opened.housekeep(Everything()):
        pass
    (segment,) = opened.store.logs.stored[1].segments
    assert len(segment.segment.entries) == blocks
    return opened, folder / segment.segment.path


def damage(path: Path, position: int) -> None:
    """Change an octet."""
    with path.open("r+b") as file:
        octet = os.pread(file.fileno(), 1, position)
        os.pwrite(file.fileno(), bytes([octet[0] ^ 0x40]), position)


def readable(log: QueueLog) -> dict[int, bytes]:
    """The first octet of each record that can be read."""
    found = {}
    for offset in range(int(log.start), int(log.end)):
        try:
            block = log.block(offset)
        except DamagedBlock:
            continue
        assert block is not None
        found[offset] = block.body(offset - block.base)[:1]
    return found


def test_the_other_blocks_of_a_damaged_segment_are_read(tmp_path: Path) -> None:
    opened, path = with_segment(tmp_path)
    log = opened.logs[1]
    position = int(log.index.positions[1])
    damage(path, position + 1000)
    with pytest.raises(DamagedBlock) as error:
        log.block(1)
    assert error.value.reason == DAMAGED
    assert (error.value.base, error.value.end) == (1, 2)
    assert error.value.text.startswith(f"queue 'q1' is damaged: {path}: at octet {position}: queue 1, offsets 1 to 1: ")
    assert readable(log) == {0: b"0", 2: b"2"}
    assert [each.base for each in opened.store.logs.damages()] == [1]
    damage(path, position + 1000)  # as before: the disk has given something else, and gives it again
    assert readable(log) == {0: b"0", 1: b"1", 2: b"2"}
    assert opened.store.logs.damages() == []
    opened.close()


def test_what_is_wanted_no_more_is_no_damage(tmp_path: Path) -> None:
    opened, path = with_segment(tmp_path)
    log = opened.logs[1]
    damage(path, int(log.index.positions[1]) + 1000)
    with pytest.raises(DamagedBlock):
        log.block(1)
    log.truncate(2)
    assert opened.store.logs.damages() == []
    damage(path, int(log.index.positions[log.first]) + 1000)
    with pytest.raises(DamagedBlock):
        log.block(2)
    assert len(opened.store.logs.damages()) == 1
    opened.store.drop_log(1)
    assert opened.store.logs.damages() == []
    opened.close()


def test_a_segment_that_somebody_removes_is_damage(tmp_path: Path) -> None:
    opened, path = with_segment(tmp_path)
    opened.close()
    again = Opened(tmp_path, [1, 2], COLD)
    path.unlink()
    with pytest.raises(DamagedBlock, match="cannot open: No such file or directory") as error:
        again.logs[1].block(0)
    assert str(error.value).count(str(path)) == 1
    assert readable(again.logs[2]) == {0: b"o", 1: b"o", 2: b"o"}
    again.crash()


@pytest.mark.parametrize("at", [45, -20])  # in the index, and in the end; a damaged head leaves nothing to go by
def test_a_segment_whose_index_is_damaged_is_one_stretch_that_cannot_be_read(tmp_path: Path, at: int) -> None:
    opened, path = with_segment(tmp_path)
    opened.publish(1, b"new")
    opened.close()
    damage(path, path.stat().st_size + at if at < 0 else path.stat().st_size - 48 - at)
    again = Opened(tmp_path, [1, 2], COLD)
    (found,) = again.store.logs.damages()
    assert (found.name, found.base, found.end) == ("q1", 0, 3)
    assert "the segment's" in found.why
    log = again.logs[1]
    assert (log.start, log.end) == (0, 4)
    with pytest.raises(DamagedBlock, match="offsets 0 to 2: the segment's"):
        log.block(1)
    assert readable(log) == {3: b"n"}
    while again.housekeep(Everything()):
        pass
    assert path.exists()
    log.truncate(3)
    assert again.store.logs.damages() == []
    while again.housekeep(Everything()):
        pass
    assert not path.exists()
    again.close()


def test_a_segment_of_another_version_is_not_taken_for_damage(tmp_path: Path) -> None:
    from crc32c import crc32c

    opened, path = with_segment(tmp_path)
    opened.close()
    octets = bytearray(path.read_bytes())
    octets[8] = 9
    octets[4:8] = crc32c(bytes(octets[8:40])).to_bytes(4, "little")
    path.write_bytes(octets)
    with pytest.raises(CorruptFile, match="version 9"):
        Opened(tmp_path, [1, 2])


def test_a_damaged_block_of_a_full_file_goes_with_the_others(tmp_path: Path) -> None:
    """The file of the write-ahead log is not kept for it: its octets go to the segment as they are."""
    opened = Opened(tmp_path, [1, 2], replace(COLD, wal_octets_max=1 << 20))
    for body in (b"a", b"b", b"c"):
        opened.publish(1, body * 3000)
        opened.publish(2, body)
    assert opened.store.rotate([])
    opened.sync()
    log = opened.logs[1]
    wal = tmp_path / opened.store.wals[0].blocks.path
    damage(wal, int(log.index.positions[1]) + 100)
    while opened.housekeep(Everything()):
        pass
    assert not wal.exists()
    (found,) = opened.store.logs.damages()
    assert found.path.endswith(".seg")
    assert (found.queue, found.name, found.base, found.end) == (1, "q1", 1, 2)
    assert readable(log) == {0: b"a", 2: b"c"}
    assert bodies(opened.logs[2]) == {0: b"a", 1: b"b", 2: b"c"}
    opened.close()
    again = Opened(tmp_path, [1, 2], COLD)
    assert readable(again.logs[1]) == {0: b"a", 2: b"c"}
    again.close()


def test_small_segments_become_one_with_what_is_damaged_in_them(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1], replace(COLD, wal_octets_max=1 << 20))
    wanted = Everything()
    for number in range(8):
        opened.publish(1, *(b"%d" % number * 10 for _ in range(5)))
        assert opened.store.rotate([])
        opened.sync()
        if number == 3:
            paths = sorted(tmp_path.glob("queues/1/*.seg"))
            damage(paths[1], 100)
        while len(opened.store.wals) > 1:
            assert opened.housekeep(wanted)
    while opened.housekeep(wanted):
        pass
    assert len(list(tmp_path.glob("queues/1/*.seg"))) == 1
    log = opened.logs[1]
    assert readable(log) == {at: b"%d" % (at // 5) for at in range(40) if not 5 <= at < 10}
    (found,) = opened.store.logs.damages()
    assert (found.base, found.end) == (5, 10)
    opened.close()


def test_a_source_that_somebody_removed_is_read_through_its_open_handle(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1], replace(COLD, wal_octets_max=1 << 20))
    opened.publish(1, b"a")
    assert opened.store.rotate([])
    opened.sync()
    (tmp_path / opened.store.wals[0].blocks.path).unlink()
    job = opened.store.plan(Everything(), opened.clock.us)
    assert job is not None and job.rewrites
    job.run()
    opened.store.done(job)
    assert readable(opened.logs[1]) == {0: b"a"}
    opened.crash()


def test_small_segments_of_which_somebody_removed_one_are_left_alone(tmp_path: Path) -> None:
    small = replace(COLD, wal_octets_max=1 << 20)
    opened = Opened(tmp_path, [1], small)
    for number in range(9):
        opened.publish(1, *(b"%d" % number * 10 for _ in range(5)))
        assert opened.store.rotate([])
        opened.sync()
    opened.close()
    opened = Opened(tmp_path, [1], small)
    wanted = Everything()
    while len(sorted(tmp_path.glob("queues/1/*.seg"))) < 8:
        assert opened.housekeep(wanted)
    opened.crash()
    opened = Opened(tmp_path, [1], small)
    sorted(tmp_path.glob("queues/1/*.seg"))[1].unlink()
    while opened.housekeep(wanted):
        pass
    found = opened.store.logs.damages()
    assert [(each.name, each.base, each.end) for each in found] == [("q1", 5, 10)]
    assert readable(opened.logs[1]) == {at: b"%d" % (at // 5) for at in range(45) if not 5 <= at < 10}
    opened.crash()
