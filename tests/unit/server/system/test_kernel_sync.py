"""Commits that the kernel syncs, and those that a thread takes."""

from __future__ import annotations

import select
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from forebay.core.errors import StorageError
from forebay.log.store import Store
from forebay.log.wal import Commit
from forebay.server.system.disk import DataDisk
from forebay.server.system.disk_work import DiskWork
from forebay.server.system.kernel_sync import OCTETS_MAX, make_kernel_sync
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
        kernel = make_kernel_sync(self.disk, self.done)
        assert kernel is not None, "this system has no asynchronous syncs"
        self.kernel = kernel
        self.work = DiskWork(self.done, lambda *_: None, lambda done, *given: done(*given), kernel)

    def done(self, commit: Commit, error: BaseException | None) -> None:
        self.back.put((commit, error))

    def commit(self, octets: int) -> Commit:
        """A commit of so many octets, not given to anybody."""
        self.store.note(NOTE, 0, 0, b"x" * octets, True)
        commit = self.store.commit()
        assert commit is not None
        return commit

    def wait_for_kernel(self) -> None:
        waiting = select.poll()  # `select` takes no handle above 1,023
        waiting.register(self.kernel.fileno, select.POLLIN)
        assert waiting.poll(WAIT_S * 1000)

    def close(self) -> None:
        self.work.stop()
        self.disk.close_all()


@pytest.fixture
def site(tmp_path: Path) -> Any:
    made = Site(tmp_path)
    yield made
    made.close()


def test_a_short_commit_is_synced_by_the_kernel(site: Site) -> None:
    synced: list[int] = []
    site.disk.synced = synced.append
    for _ in range(3):
        commit = site.commit(100)
        site.work.submit(commit)
        assert site.kernel.commit is commit and site.back.empty()
        site.wait_for_kernel()
        site.kernel.came_back()
        assert site.back.get(timeout=WAIT_S) == (commit, None)
        assert commit.ran
        site.store.synced(commit)
    site.kernel.came_back()  # for nothing
    assert site.back.empty()
    assert len(synced) == 3


def test_what_it_wrote_is_found_again(site: Site, tmp_path: Path) -> None:
    commit = site.commit(100)
    site.work.submit(commit)
    site.wait_for_kernel()
    site.kernel.came_back()
    site.store.synced(commit)
    site.close()
    disk = DataDisk(str(tmp_path))
    recovery = Store(disk, TestClock(), SMALL).open()
    assert [(entry.kind, entry.payload) for entry in recovery.entries] == [(NOTE, b"x" * 100)]
    disk.close_all()


def test_a_long_commit_goes_to_the_thread(site: Site) -> None:
    commit = site.commit(OCTETS_MAX)
    site.work.submit(commit)
    assert site.kernel.commit is None
    assert site.back.get(timeout=WAIT_S) == (commit, None)
    assert commit.ran


def test_a_disk_that_was_slow_gets_its_commits_by_the_thread(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = [0]

    def later() -> int:
        now_ns[0] += 6_000_000
        return now_ns[0]

    monkeypatch.setattr("forebay.server.system.kernel_sync.monotonic_ns", later)
    first = site.commit(100)
    site.work.submit(first)
    site.wait_for_kernel()
    site.kernel.came_back()
    assert site.back.get(timeout=WAIT_S) == (first, None)
    site.store.synced(first)
    second = site.commit(100)
    assert not site.kernel.takes(second)
    now_ns[0] += 10_000_000_000
    assert site.kernel.takes(second)
    second.run()


def test_a_write_that_fails_is_an_error_of_its_commit(site: Site) -> None:
    commit = site.commit(100)
    handle = commit.frames[0].file.blocks.handle
    site.disk.close(handle)
    site.disk.paths[handle] = "gone"
    site.work.submit(commit)
    failed, error = site.back.get(timeout=WAIT_S)
    assert failed is commit and isinstance(error, StorageError)
    assert "gone: cannot write: Bad file descriptor" in str(error)
    assert site.kernel.commit is None and not commit.ran
    del site.disk.paths[handle]


class Refusing:
    """A context of the kernel's that takes nothing."""

    def __init__(self, real: Any) -> None:
        self.fileno = real.fileno

    def submit(self, _: object) -> int:
        raise OverflowError("Insufficient resources are available to queue any iocbs [EAGAIN]")


def test_what_the_kernel_does_not_take_goes_to_the_thread(site: Site) -> None:
    site.kernel.context = Refusing(site.kernel.context)
    commit = site.commit(100)
    site.work.submit(commit)
    assert site.back.get(timeout=WAIT_S) == (commit, None)
    assert commit.ran and site.kernel.commit is None


def test_a_stop_waits_for_the_kernel(site: Site) -> None:
    commit = site.commit(100)
    site.work.submit(commit)
    site.work.stop()
    assert site.back.get(timeout=WAIT_S) == (commit, None)
    site.work = DiskWork(site.done, lambda *_: None, lambda done, *given: done(*given))


def test_a_system_without_it_has_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "caio.linux_aio", None)
    disk = DataDisk(str(tmp_path))
    assert make_kernel_sync(disk, lambda *_: None) is None
    disk.close_all()
