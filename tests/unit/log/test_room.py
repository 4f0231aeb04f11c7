"""Room that another thread reserves ahead: what is taken meanwhile, what waits, and what a full disk says."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.errors import StorageError
from forebay.log.room import Growth
from forebay.log.store import Store
from tests.stores import NO_LIMIT, SMALL, SmallDisk, TestClock

NOTE = 100  # a kind of the user's
SECOND_US = 1_000_000


class Ahead:
    """A store whose room is reserved ahead, by hand."""

    def __init__(self, folder: Path) -> None:
        self.disk = SmallDisk(str(folder))
        self.clock = TestClock()
        self.store = Store(self.disk, self.clock, SMALL)
        self.store.open()
        self.store.start([])
        self.room = self.store.log_room
        self.room.is_ahead = True
        self.grow()

    def due(self) -> Growth | None:
        return self.room.take_due(self.store.frame)

    def grow(self) -> None:
        """Have all that is due be reserved."""
        while (growth := self.due()) is not None:
            growth.run()
            self.store.grown(growth)

    def note(self, octets: int) -> None:
        self.store.note(NOTE, 0, 0, bytes(octets), True)

    def commit(self) -> bool:
        """Write what has room; whether there was anything."""
        commit = self.store.commit()
        if commit is None:
            return False
        commit.run()
        self.store.synced(commit)
        return True


@pytest.fixture
def ahead(tmp_path: Path) -> Ahead:
    return Ahead(tmp_path)


def test_room_is_asked_for_before_it_is_needed(ahead: Ahead) -> None:
    assert ahead.due() is None
    ahead.note(SMALL.wal_chunk_octets)
    growth = ahead.due()
    assert growth is not None and ahead.due() is None  # one at a time
    before = ahead.store.room()
    growth.run()
    ahead.store.grown(growth)
    assert ahead.store.room() >= before + SMALL.wal_chunk_octets // 2


def test_what_has_no_room_yet_is_taken_and_waits(ahead: Ahead) -> None:
    octets = 3 * SMALL.wal_chunk_octets
    assert ahead.store.reserve(octets)
    ahead.note(octets)
    assert not ahead.commit() and ahead.store.durable < ahead.store.lsn
    growth = ahead.due()
    assert growth is not None
    assert not ahead.commit()
    growth.run()
    ahead.store.grown(growth)
    ahead.grow()
    assert ahead.commit()


def test_a_disk_that_is_full_says_so_and_is_asked_again(ahead: Ahead) -> None:
    ahead.disk.octets_max = ahead.disk.used()
    ahead.note(SMALL.wal_chunk_octets)
    ahead.grow()
    assert ahead.store.full and not ahead.store.reserve(2 * SMALL.wal_chunk_octets)
    assert ahead.due() is None  # it was asked just now
    ahead.disk.octets_max = NO_LIMIT
    ahead.clock.us += SECOND_US
    ahead.store.look_for_room()
    ahead.grow()
    assert ahead.store.reserve(1)


def test_a_file_is_changed_once_the_next_is_there(ahead: Ahead) -> None:
    while not ahead.store.checkpoint_due():
        ahead.note(SMALL.wal_chunk_octets)
        ahead.commit()
        ahead.grow()
    first = ahead.store.wals[-1]
    assert not ahead.store.rotate([])
    assert ahead.store.wals[-1] is first and not ahead.store.checkpoint_due()
    ahead.grow()
    assert ahead.store.checkpoint_due() and ahead.store.rotate([])
    assert ahead.commit() and ahead.store.wals[-1] is not first


def test_a_disk_that_fails_is_an_error(ahead: Ahead) -> None:
    ahead.note(SMALL.wal_chunk_octets)
    growth = ahead.due()
    assert growth is not None
    with pytest.raises(StorageError, match="gone"):
        ahead.store.grown(growth, StorageError("gone"))
