"""Short commits on a thread that needs no interpreter: it writes and syncs, and an eventfd says when it has.

The thread is one of a library in C (`caio`). The file is written by a handle that was opened with O_DSYNC, so that one
call does what pwrite and fdatasync do, and neither holds anybody up: a disk that does not answer stops this thread and
nothing else. A thread of Python's would fight the loop for the interpreter three times a commit:
docs/adr/0040-no-loop-waits-for-a-disk.md has the figures. Where there is no such library, commits go to that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns
from typing import Any, Final

from forebay.core.errors import StorageError
from forebay.log.wal import Commit
from forebay.server.system.disk import DataDisk, storage_errors

OCTETS_MAX: Final = 64 << 10  # a longer one is in many parts, which would be copied into one
CommitDone = Callable[[Commit, BaseException | None], None]


class CommitThread:
    """A thread without the interpreter for short commits, one at a time.

    fileno  can be read once it has ended: then `came_back` is to be called
    commit  that is under way; None if none is
    octets  of it
    rest    takes a commit of which the file has not taken all
    """

    def __init__(
        self,
        disk: DataDisk,
        context: Any,
        operation: Any,
        done: CommitDone,
        rest: Callable[[Commit], None] = lambda commit: commit.run(),
    ) -> None:
        self.disk = disk
        self.context = context
        self.make_write = operation.write
        self.done = done
        self.rest = rest
        self.fileno = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.commit: Commit | None = None
        self.write: Any = None
        self.octets = 0
        self.handle = -1
        self.began_ns = 0

    def takes(self, commit: Commit) -> bool:
        """Return whether a commit is better done on this thread than on a Python thread."""
        return (
            commit.octets <= OCTETS_MAX
            and commit.is_plain()
            and self.commit is None
            and commit.handle() in self.disk.durable_handles
        )

    def submit(self, commit: Commit) -> None:
        """Hand a commit to the thread that writes and syncs it."""
        self.handle = commit.handle()
        octets = commit.plain_octets()
        self.octets = len(octets)
        write = self.make_write(octets, self.disk.durable_handles[self.handle], commit.position())
        write.set_callback(self.ended)
        self.commit = commit
        self.write = write
        self.began_ns = monotonic_ns()
        self.context.submit(write)

    def ended(self, _: int) -> None:
        """Wake the loop through the eventfd. The commit thread calls this."""
        os.eventfd_write(self.fileno, 1)

    def came_back(self) -> None:
        """Hand back a commit that has ended."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.fileno)
            self.end()

    def end(self) -> None:
        commit, write = self.commit, self.write
        assert commit is not None
        self.commit = self.write = None
        if 0 <= write.result < self.octets:
            self.rest(commit)
            return
        try:
            with storage_errors("write and sync", self.disk.paths[self.handle]):
                if write.error:
                    raise OSError(write.error, os.strerror(write.error))
        except StorageError as error:
            self.done(commit, error)
        else:
            commit.end()
            self.disk.note_sync(self.began_ns)
            self.done(commit, None)

    def wait(self) -> None:
        """Wait until no commit is under way."""
        if self.commit is not None:
            os.set_blocking(self.fileno, True)
            self.came_back()
            os.set_blocking(self.fileno, False)

    def close(self) -> None:
        """Give the eventfd back."""
        if self.fileno >= 0:
            os.close(self.fileno)
            self.fileno = -1


def make_commit_thread(disk: DataDisk, done: CommitDone) -> CommitThread | None:
    """Make the thread for short commits. Returns None if this system lacks the library for it."""
    try:
        from caio.thread_aio import Context, Operation  # noqa: PLC0415  there is none on other systems

        return CommitThread(disk, Context(2, 1), Operation, done)
    except (ImportError, RuntimeError):
        return None
