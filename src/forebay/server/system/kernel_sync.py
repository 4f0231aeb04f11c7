"""Short commits without a thread: the loop writes, the kernel syncs, and an eventfd says when it has.

The write goes to the page cache. The sync is Linux's own asynchronous one (io_submit with IOCB_CMD_FDSYNC), which does
what fdatasync does, on a thread of the kernel's. A thread of ours would be woken for each commit and fight the loop for
the interpreter: docs/adr/0023-the-kernel-syncs.md has the figures. Where the system has no such calls, or its disk is
slow to take a write, commits go to the thread.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic_ns
from typing import Any, Final

from forebay.core.errors import StorageError
from forebay.log.wal import Commit
from forebay.server.system.disk import DataDisk

OCTETS_MAX: Final = 64 << 10  # a longer write would keep the loop from its clients
SLOW_WRITE_NS: Final = 5_000_000  # a write that takes so long has waited for something
PAUSE_NS: Final = 10_000_000_000  # for which a disk that was slow gets its commits by the thread
CommitDone = Callable[[Commit, BaseException | None], None]


class KernelSync:
    """The commit that the kernel syncs; one at a time.

    fileno  can be read once the sync has ended: then `came_back` is to be called
    """

    def __init__(self, disk: DataDisk, context: Any, operation: Any, done: CommitDone) -> None:
        self.disk = disk
        self.context = context
        self.make_sync = operation.fdsync
        self.done = done
        self.fileno: int = context.fileno
        self.commit: Commit | None = None
        self.sync: Any = None
        self.path = ""
        self.began_ns = 0
        self.paused_until_ns = 0

    def takes(self, commit: Commit) -> bool:
        """True where this commit is better off here than with the thread."""
        return (
            commit.octets <= OCTETS_MAX
            and commit.is_plain()
            and self.commit is None
            and (not self.paused_until_ns or monotonic_ns() >= self.paused_until_ns)
        )

    def submit(self, commit: Commit) -> bool:
        """Write a commit and have it synced; False if the kernel does not take it, and nothing has happened.

        StorageError if the write failed.
        """
        began_ns = monotonic_ns()
        handle = commit.begin()
        self.began_ns = monotonic_ns()
        if self.began_ns - began_ns > SLOW_WRITE_NS:
            self.paused_until_ns = self.began_ns + PAUSE_NS
        sync = self.make_sync(handle)
        try:
            taken = self.context.submit(sync)
        except (ValueError, OverflowError, SystemError):  # it has no such call, or too much to do
            taken = 0
        if taken != 1:
            self.paused_until_ns = self.began_ns + PAUSE_NS
            return False
        self.commit = commit
        self.sync = sync
        self.path = self.disk.paths[handle]
        return True

    def came_back(self) -> None:
        """Hand a commit back whose sync has ended."""
        try:
            self.context.poll()
        except BlockingIOError:
            return
        self.collect(0)

    def collect(self, least: int) -> None:
        """Take the kernel's answer; `least`: 1 to wait for it."""
        if self.context.process_events(1, least, -1 if least else 0):
            self.end()

    def end(self) -> None:
        commit, sync = self.commit, self.sync
        assert commit is not None
        self.commit = self.sync = None
        error: StorageError | None = None
        try:
            sync.get_value()
        except SystemError as failure:
            error = StorageError(f"{self.path}: cannot sync: {failure}")
        else:
            commit.end()
            self.disk.note_sync(self.began_ns)
        self.done(commit, error)


def make_kernel_sync(disk: DataDisk, done: CommitDone) -> KernelSync | None:
    """The kernel's way to sync; None where this system has none."""
    try:
        from caio.linux_aio import Context, Operation  # noqa: PLC0415  there is none on other systems

        return KernelSync(disk, Context(1), Operation, done)
    except (ImportError, SystemError):
        return None
