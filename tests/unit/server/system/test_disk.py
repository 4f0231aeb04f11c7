"""Real files and the threads that wait for them."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest

from forebay.core.errors import DiskFull, StorageError, UnreadableFile
from forebay.log.store import Commit, Job
from forebay.server.system.disk import PARTS_MAX, DataDisk, storage_errors
from forebay.server.system.disk_work import DiskWork


@pytest.fixture
def disk(tmp_path: Path) -> DataDisk:
    return DataDisk(str(tmp_path / "data"))


def test_what_is_written_is_read(disk: DataDisk) -> None:
    handle = disk.open("f", True)
    parts = [b"%d," % number for number in range(3 * PARTS_MAX + 5)]
    disk.pwrite(handle, parts, 10)
    disk.sync(handle)
    whole = b"".join(parts)
    assert disk.size(handle) == 10 + len(whole)
    assert disk.pread(handle, len(whole), 10) == whole
    assert disk.pread(handle, 100, 10 + len(whole) - 3) == whole[-3:]
    assert disk.pread(handle, 100, 1 << 20) == b""
    disk.close_all()


def test_reserved_room_is_zeros_and_keeps_what_is_there(disk: DataDisk) -> None:
    handle = disk.open("f", True)
    disk.pwrite(handle, [b"abc"], 0)
    disk.reserve(handle, 100_000)
    assert disk.size(handle) == 100_000
    assert disk.pread(handle, 100_000, 0) == b"abc" + bytes(99_997)
    disk.reserve(handle, 10)
    assert disk.size(handle) == 100_000
    disk.truncate(handle, 2)
    assert disk.pread(handle, 10, 0) == b"ab"
    disk.close_all()


def test_folders_and_names(disk: DataDisk) -> None:
    assert disk.list("a/b") == []
    disk.make_folder("a/b")
    disk.make_folder("a/b")
    for name in ("2", "1"):
        disk.close(disk.open(f"a/b/{name}", True))
    assert disk.list("a/b") == ["1", "2"]
    disk.rename("a/b/1", "a/b/3")
    disk.remove("a/b/2")
    assert disk.list("a/b") == ["3"]
    disk.remove_folders(["a", "b"])
    disk.remove_folders(["a"])
    assert disk.list("a") == []
    disk.close_all()


def test_small_files_are_put_where_they_do_not_say_so(disk: DataDisk) -> None:
    disk.put_files([("a/1/name", b"x"), ("a/2/name", b"y")])
    disk.put_files([("a/1/name", b"x"), ("a/2/name", b"longer"), ("a/3/name", b"")])
    for path, octets in (("a/1/name", b"x"), ("a/2/name", b"longer"), ("a/3/name", b"")):
        assert Path(disk.path(path)).read_bytes() == octets
    assert disk.list("a/2") == ["name"]
    disk.remove_folders(["a/1", "a/3", "a/4"])
    assert disk.list("a") == ["2"]
    disk.close_all()


def test_many_folders_wait_for_few_syncs(disk: DataDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would hold up the write-ahead log, which is on the same disk."""
    synced: list[int] = []

    def counted(sync: Callable[[int], None], handle: int) -> None:
        synced.append(handle)
        sync(handle)

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, partial(counted, getattr(os, name)))
    disk.put_files([(f"queues/{number}/name", b"x") for number in range(100)])
    assert len(synced) <= 2
    synced.clear()
    disk.put_files([(f"queues/{number}/name", b"x") for number in range(100)])
    assert synced == []
    disk.remove_folders([f"queues/{number}" for number in range(200)])
    assert len(synced) == 1 and disk.list("queues") == []
    disk.close_all()


def test_errors_name_the_file(disk: DataDisk) -> None:
    with pytest.raises(StorageError, match="nowhere: cannot open: No such file"):
        disk.open("nowhere", False)
    disk.close_all()


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, DiskFull), (errno.EDQUOT, DiskFull), (errno.EIO, StorageError)]
)
def test_only_no_room_is_a_full_disk(number: int, kind: type[StorageError]) -> None:
    with pytest.raises(StorageError) as error, storage_errors("write", "/x"):
        raise OSError(number, os.strerror(number))
    assert type(error.value) is kind


@pytest.mark.parametrize(("doing", "kind"), [("read", UnreadableFile), ("sync", StorageError)])
def test_a_disk_that_fails_harms_the_file_that_is_read_and_the_log_that_is_written(
    doing: str, kind: type[StorageError]
) -> None:
    with pytest.raises(StorageError) as error, storage_errors(doing, "/x"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert type(error.value) is kind


def test_a_second_process_is_refused(disk: DataDisk) -> None:
    with pytest.raises(StorageError, match=f"in use by the process {os.getpid()}"):
        DataDisk(disk.root)
    disk.close_all()
    DataDisk(disk.root).close_all()


def write_beyond(root: str, answers: multiprocessing.SimpleQueue[str]) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    disk = DataDisk(root)
    handle = disk.open("f", True)
    disk.pwrite(handle, [b"x" * 600], 0)
    try:
        disk.pwrite(handle, [b"y" * 300, b"z" * 300], 600)
    except StorageError as error:
        answers.put(f"{type(error).__name__} {error} {disk.size(handle)}")


def test_a_short_write_goes_on_and_its_error_is_seen(tmp_path: Path) -> None:
    """The kernel takes 400 of 600 octets, and refuses the rest: File too large."""
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    process = context.Process(target=write_beyond, args=(str(tmp_path), answers))
    process.start()
    process.join()
    assert process.exitcode == 0
    answer = answers.get()
    assert answer.startswith("StorageError ")
    assert "f: cannot write: File too large 1000" in answer


class Written(Commit):
    """A commit that says when it ran."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.run = run  # type: ignore[method-assign]


def test_commits_run_in_order_and_come_back_with_their_errors(disk: DataDisk) -> None:
    ran: list[int] = []
    back: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()

    def fail() -> None:
        raise StorageError("broken")

    def hand_back(done: Callable[..., None], *arguments: object) -> None:
        done(*arguments)

    def done(work: object, error: BaseException | None) -> None:
        back.put((work, error))

    thread = DiskWork(done, done, done, hand_back)
    commits = [Written(lambda number=number: ran.append(number)) for number in range(100)]  # type: ignore[misc]
    for commit in commits:
        thread.submit(commit)
    broken = Written(fail)
    thread.submit(broken)
    thread.stop()
    assert ran == list(range(100))
    assert [back.get() for _ in range(100)] == [(commit, None) for commit in commits]
    work, error = back.get()
    assert work is broken
    assert str(error) == "broken"
    disk.close_all()


def test_jobs_do_not_wait_for_commits(disk: DataDisk) -> None:
    order: SimpleQueue[object] = SimpleQueue()
    released: SimpleQueue[None] = SimpleQueue()

    def done(work: object, error: BaseException | None) -> None:
        order.put(work)

    thread = DiskWork(done, done, done, lambda done, *rest: done(*rest))
    commit = Written(lambda: released.get())
    thread.submit(commit)
    disk.close(disk.open("dead", True))
    job = Job(disk, 1 << 20, remove=["dead"])
    thread.submit_job(job)
    assert order.get() is job
    assert disk.list("") == ["LOCK"]
    released.put(None)
    assert order.get() is commit
    thread.stop()
    disk.close_all()
