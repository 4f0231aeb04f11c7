"""Short commits, which a thread without an interpreter takes, and all others."""

from __future__ import annotations

import fcntl
import os
import select
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from forebay.core.errors import StorageError
from forebay.log.store import Store
from forebay.log.wal import Commit
from forebay.server.system.commit_thread import OCTETS_MAX, make_commit_thread
from forebay.server.system.disk import DataDisk
from forebay.server.system.disk_work import DiskWork
from tests.stores import SMALL, TestClock

WAIT_S = 20  # guards against a hang
NOTE = 100  # a kind of the user's


class Site:
    """A store on real files, and what its commits come back to.

    back  commits that have ended, each with its error
    """

    def __init__(self, folder: Path) -> None:
        self.disk = DataDisk(str(folder))
        self.store = Store(self.disk, TestClock(), SMALL)
        self.store.open()
        self.store.start([])
        self.back: SimpleQueue[tuple[Commit, BaseException | None]] = SimpleQueue()
        short = make_commit_thread(self.disk, self.done)
        assert short is not None, "this system has no library for it"
        self.short = short
        self.work = DiskWork(self.done, lambda *_: None, lambda *_: None, lambda done, *given: done(*given), short)

    def first(self) -> None:
        """Have a commit by which the thread for short ones comes to know the file."""
        commit = self.commit(100)
        self.work.submit(commit)
        assert self.short.commit is None
        assert self.back.get(timeout=WAIT_S) == (commit, None)
        self.store.synced(commit)

    def done(self, commit: Commit, error: BaseException | None) -> None:
        self.back.put((commit, error))

    def commit(self, octets: int) -> Commit:
        """A commit of so many octets, not given to anybody."""
        self.store.note(NOTE, 0, 0, b"x" * octets, True)
        commit = self.store.commit()
        assert commit is not None
        return commit

    def wait_for_thread(self) -> None:
        waiting = select.poll()  # `select` takes no handle above 1,023
        waiting.register(self.short.fileno, select.POLLIN)
        assert waiting.poll(WAIT_S * 1000)

    def close(self) -> None:
        self.work.stop()
        self.disk.close_all()


@pytest.fixture
def site(tmp_path: Path) -> Any:
    made = Site(tmp_path)
    yield made
    made.close()


def test_a_short_commit_needs_no_interpreter(site: Site) -> None:
    synced: list[int] = []
    site.first()
    site.disk.synced = synced.append
    for _ in range(3):
        commit = site.commit(100)
        site.work.submit(commit)
        assert site.short.commit is commit and site.back.empty()
        site.wait_for_thread()
        site.short.came_back()
        assert site.back.get(timeout=WAIT_S) == (commit, None)
        assert commit.ran
        site.store.synced(commit)
    site.short.came_back()  # for nothing
    assert site.back.empty()
    assert len(synced) == 3


def test_what_it_wrote_is_found_again(site: Site, tmp_path: Path) -> None:
    site.first()
    commit = site.commit(100)
    site.work.submit(commit)
    site.wait_for_thread()
    site.short.came_back()
    site.store.synced(commit)
    site.close()
    disk = DataDisk(str(tmp_path))
    recovery = Store(disk, TestClock(), SMALL).open()
    assert [(entry.kind, entry.payload) for entry in recovery.entries] == [(NOTE, b"x" * 100)] * 2
    disk.close_all()


def test_a_write_is_synced_before_it_returns(site: Site) -> None:
    site.first()
    for handle in site.disk.durable_handles.values():
        assert fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DSYNC


def test_a_file_that_is_closed_has_no_other_handle(site: Site) -> None:
    site.first()
    ((handle, another),) = site.disk.durable_handles.items()
    site.disk.close(handle)
    assert not site.disk.durable_handles
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(another)


def test_a_long_commit_goes_to_the_other_thread(site: Site) -> None:
    site.first()
    commit = site.commit(OCTETS_MAX)
    site.work.submit(commit)
    assert site.short.commit is None
    assert site.back.get(timeout=WAIT_S) == (commit, None)
    assert commit.ran


def test_a_write_that_fails_is_an_error_of_its_commit(site: Site) -> None:
    site.first()
    commit = site.commit(100)
    ((handle, another),) = site.disk.durable_handles.items()
    os.close(another)
    site.disk.paths[handle] = "gone"
    site.work.submit(commit)
    site.wait_for_thread()
    site.short.came_back()
    failed, error = site.back.get(timeout=WAIT_S)
    assert failed is commit and isinstance(error, StorageError)
    assert str(error) == "gone: cannot write and sync: Bad file descriptor"
    assert site.short.commit is None and not commit.ran
    site.disk.durable_handles.clear()


class Short:
    """A write of which the file has taken too little."""

    error = 0
    result = 10


def test_what_the_file_has_not_taken_is_written_by_the_other_thread(site: Site) -> None:
    site.first()
    commit = site.commit(100)
    site.work.submit(commit)
    site.wait_for_thread()
    site.short.write = Short()
    site.short.came_back()
    assert site.back.get(timeout=WAIT_S) == (commit, None)
    assert commit.ran and site.short.commit is None


def test_a_stop_waits_for_it(site: Site) -> None:
    site.first()
    commit = site.commit(100)
    site.work.submit(commit)
    site.work.stop()
    assert site.back.get(timeout=WAIT_S) == (commit, None)
    site.work = DiskWork(site.done, lambda *_: None, lambda *_: None, lambda done, *given: done(*given))


def test_a_system_without_it_has_threads_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "caio.thread_aio", None)
    disk = DataDisk(str(tmp_path))
    assert make_commit_thread(disk, lambda *_: None) is None
    disk.close_all()
