"""One log: its index, its limits, and what it finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forebay.log.queue_log import NOT_HELD
from tests.logs import retain
from tests.stores import SMALL, Everything, Opened, bodies


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Ten synced blocks of three records, a second apart."""
    opened = Opened(tmp_path, [1], replace(SMALL, wal_octets_max=1 << 20))
    for number in range(10):
        opened.publish(1, b"%d" % number, b"x", b"y")
        opened.clock.us += 1_000_000
    opened.sync()
    return opened


def test_every_offset_is_found_in_its_block(opened: Opened) -> None:
    log = opened.logs[1]
    for offset in range(30):
        block = log.block(offset)
        assert block is not None
        assert block.base <= offset < block.end
    assert log.block(30) is None
    assert log.block(-5) is log.block(0)
    opened.close()


def test_truncation_drops_whole_blocks(opened: Opened) -> None:
    log = opened.logs[1]
    whole = log.octets
    log.truncate(4)
    assert log.start == 4
    first = log.block(0)
    assert first is not None
    assert first.base == 3
    assert log.octets == whole // 10 * 9
    assert list(bodies(log)) == list(range(4, 30))
    log.truncate(2)
    assert log.start == 4
    log.truncate(99)
    assert (log.start, log.octets) == (30, 0)
    assert opened.publish(1, b"more").base == 30
    opened.sync()
    opened.close()


def test_many_truncated_entries_leave_the_index(tmp_path: Path) -> None:
    opened = Opened(tmp_path, [1], replace(SMALL, wal_octets_max=1 << 30, wal_chunk_octets=1 << 20))
    log = opened.logs[1]
    for _ in range(5000):
        opened.publish(1, b"")
    log.truncate(4000)
    assert log.index.size() == 1000
    assert log.first == 0
    for offset in (4000, 4500, 4999):
        block = log.block(offset)
        assert block is not None
        assert block.base == offset
    opened.sync()
    opened.close()


@pytest.mark.parametrize(
    ("age_us", "octets", "messages", "start"),
    [
        (0, 0, 0, 0),
        (0, 0, 30, 0),
        (0, 0, 29, 0),
        (0, 0, 27, 3),
        (0, 0, 1, 27),
        (0, 10**6, 0, 0),
        (3_500_000, 0, 0, 18),
        (10**9, 0, 0, 0),
        (3_500_000, 0, 10, 18),
        (3_500_000, 0, 3, 27),
    ],
)
def test_retention(opened: Opened, age_us: int, octets: int, messages: int, start: int) -> None:
    log = opened.logs[1]
    assert retain(log, opened.clock.us, age_us, octets, messages) == (start > 0)
    assert log.start == start
    opened.close()


def test_retention_by_octets_and_only_of_what_is_on_the_disk(opened: Opened) -> None:
    log = opened.logs[1]
    block = log.octets // 10
    assert retain(log, 0, 0, 4 * block, 0)
    assert log.start == 18
    opened.publish(1, b"not synced")
    assert retain(log, 0, 0, 1, 0)
    assert log.start == 30
    assert list(bodies(log)) == [30]
    opened.sync()
    opened.close()


def test_everything_expires_in_the_end(opened: Opened) -> None:
    log = opened.logs[1]
    assert retain(log, opened.clock.us + 10**9, 1_000_000, 0, 0)
    assert (log.start, log.end) == (30, 30)
    opened.close()


def test_offsets_by_time(opened: Opened) -> None:
    log = opened.logs[1]
    begin = opened.clock.us - 10_000_000
    assert log.offset_at(0) == 0
    assert log.offset_at(begin) == 0
    assert log.offset_at(begin + 1) == 3
    assert log.offset_at(begin + 9_000_000) == 27
    assert log.offset_at(begin + 9_000_001) == 30
    log.truncate(5)
    assert log.offset_at(0) == 5
    assert log.offset_at(begin + 1) == 5
    opened.close()


def test_timestamps_never_go_back(opened: Opened) -> None:
    opened.clock.us = 5
    block = opened.publish(1, b"a")
    assert block.timestamp_us(0) > 1_000_000_000_000_000
    opened.sync()
    opened.close()


def test_what_is_held_stays_for_readers_of_blocks_alone(opened: Opened) -> None:
    log = opened.logs[1]
    whole = log.octets
    log.hold_from(4)
    log.truncate(20)
    assert (log.start, log.kept) == (20, 4)
    assert list(bodies(log)) == list(range(20, 30))
    first, kept = log.block(0), log.kept_block(0)
    assert first is not None and kept is not None
    assert (first.base, kept.base) == (18, 3)
    assert log.octets == log.octets_from(0) == whole // 10 * 9
    assert log.octets_from(20) == whole // 10 * 4
    assert log.offset_at(0) == 20
    assert log.kept_offset_at(0) == 4
    log.hold_from(11)
    assert (log.start, log.kept) == (20, 11)
    log.hold_from(NOT_HELD)
    assert (log.start, log.kept, log.octets) == (20, 20, whole // 10 * 4)
    opened.close()


def test_limits_count_nothing_that_is_only_held(opened: Opened) -> None:
    log = opened.logs[1]
    log.hold_from(0)
    log.truncate(15)
    per_block = log.octets // 10
    assert not retain(log, opened.clock.us, 0, 5 * per_block, 15)
    assert retain(log, opened.clock.us, 0, 4 * per_block, 0)
    assert (log.start, log.kept) == (18, 0)
    assert retain(log, opened.clock.us, 2_500_000, 0, 0)
    assert log.start > 18
    opened.close()


def test_a_restart_finds_what_was_held(opened: Opened, tmp_path: Path) -> None:
    log = opened.logs[1]
    log.hold_from(5)
    log.truncate(22)
    opened.store.note_starts()
    opened.sync()
    opened.crash()
    again = Opened(tmp_path, [1])
    log = again.logs[1]
    assert (log.start, log.kept, log.end) == (22, 5, 30)
    log.truncate(25)
    assert log.kept == 5, "until it is known who holds"
    log.hold_from(9)
    assert (log.start, log.kept) == (25, 9)
    log.hold_from(NOT_HELD)
    assert (log.start, log.kept) == (25, 25)
    again.close()


def test_what_stands_back_to_back_in_a_segment_is_one_stretch(opened: Opened) -> None:
    log = opened.logs[1]
    assert log.stretch(0, 30, 1 << 30) is None, "blocks of the WAL have heads between them"
    opened.store.rotate([])
    opened.sync()
    while log.index.files[log.first] > 0:
        opened.housekeep(Everything())
        opened.sync()
    opened.publish(1, b"in the WAL")
    opened.sync()
    stretch = log.stretch(4, 30, 1 << 30)
    assert stretch is not None
    base = log.index.bases[log.find(4)]
    assert base <= 4 and stretch.end == 30
    octets = opened.disk.pread(log.files.handle(stretch.file), int(stretch.octets), int(stretch.position))
    assert octets[:4] == b"FBK3" and int.from_bytes(octets[16:24], "little") == base
    least = log.stretch(4, 30, 1)
    assert least is not None and least.octets == log.index.octets[log.find(4)]
    assert log.stretch(30, 31, 1 << 30) is None
    assert log.stretch(31, 40, 1 << 30) is None
    opened.close()
