"""One log: its index, its limits, and what it finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.stores import SMALL, Opened, bodies


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
    assert log.retain(opened.clock.us, age_us, octets, messages) == (start > 0)
    assert log.start == start
    opened.close()


def test_retention_by_octets_and_only_of_what_is_on_the_disk(opened: Opened) -> None:
    log = opened.logs[1]
    block = log.octets // 10
    assert log.retain(0, 0, 4 * block, 0)
    assert log.start == 18
    opened.publish(1, b"not synced")
    assert log.retain(0, 0, 1, 0)
    assert log.start == 30
    assert list(bodies(log)) == [30]
    opened.sync()
    opened.close()


def test_everything_expires_in_the_end(opened: Opened) -> None:
    log = opened.logs[1]
    assert log.retain(opened.clock.us + 10**9, 1_000_000, 0, 0)
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
