"""The work that waits for the disk: commits and housekeeping, off the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Protocol, cast

from forebay.core.errors import StorageError
from forebay.log.store import Job
from forebay.log.wal import Commit
from forebay.server.system.commit_thread import OCTETS_MAX, CommitThread


class DiskWork:
    """The work that takes long: commits, in their order, housekeeping, and calls for a file, on a thread for each.

    Short commits have a thread of their own where there is one. Each piece of work comes back on the thread of the
    loop, with the error that it ended with, or None: through `hand_back(done, work, error)`, safe to call from another
    thread (`loop.call_soon_threadsafe`), or through `short.came_back`, to be called when `short.fileno` can be read.
    """

    def __init__(
        self,
        commit_done: Callable[[Commit, BaseException | None], None],
        job_done: Callable[[Job, BaseException | None], None],
        file_done: Callable[[Work, BaseException | None], None],
        hand_back: Callable[..., object],
        short: CommitThread | None = None,
    ) -> None:
        self.done = commit_done
        self.commits = Worker("commit", self.ran, hand_back)
        self.jobs = Worker("housekeeping", job_done, hand_back)
        self.files = Worker("files", file_done, hand_back)
        self.short = short
        if short is not None:
            short.rest = self.commits.put
        self.job: Job | None = None  # the last that was submitted

    def submit(self, commit: Commit) -> None:
        """Hand a commit to the thread that writes and syncs it."""
        short = self.short
        if short is None or commit.octets > OCTETS_MAX or not commit.is_plain():
            self.commits.put(commit)
        elif short.takes(commit):
            short.submit(commit)
        else:
            self.commits.put(FirstCommit(commit, short))

    def ran(self, work: Work, error: BaseException | None) -> None:
        """Hand back a commit that the Python thread has run."""
        self.done(work.commit if isinstance(work, FirstCommit) else cast("Commit", work), error)

    def submit_job(self, job: Job | None) -> None:
        """Hand a rewrite of files to its thread."""
        if job is not None:
            self.job = job
            self.jobs.put(job)

    def stop(self) -> None:
        """Wait until all commits have run, stop housekeeping early, and end the threads."""
        if self.short is not None:
            self.short.wait()
        if self.job is not None:
            self.job.stop()
        self.commits.stop()
        self.jobs.stop()
        self.files.stop()


class Work(Protocol):
    """The work that a thread can do."""

    def run(self) -> None: ...


class FirstCommit:
    """A short commit to a file of which the thread for them has no handle yet: those that follow can go there."""

    def __init__(self, commit: Commit, short: CommitThread) -> None:
        self.commit = commit
        self.short = short

    def run(self) -> None:
        self.commit.run()
        with suppress(StorageError):  # without another handle of the file everything goes on as it is
            self.short.disk.open_durable(self.commit.handle())


class Worker:
    """One thread and the work it has before it."""

    def __init__(
        self, name: str, done: Callable[[Any, BaseException | None], None], hand_back: Callable[..., object]
    ) -> None:
        self.done = done
        self.hand_back = hand_back
        self.work: SimpleQueue[Work | None] = SimpleQueue()
        self.thread = threading.Thread(target=self.run, name=f"forebay-{name}", daemon=True)
        self.thread.start()

    def put(self, work: Work) -> None:
        """Queue a piece of work, to run after all that was put before."""
        self.work.put(work)

    def run(self) -> None:
        while (work := self.work.get()) is not None:
            error: BaseException | None = None
            try:
                work.run()
            except Exception as raised:  # noqa: BLE001 - the task's boundary: who submitted it decides
                error = raised
            self.hand_back(self.done, work, error)

    def stop(self) -> None:
        self.work.put(None)
        self.thread.join()
