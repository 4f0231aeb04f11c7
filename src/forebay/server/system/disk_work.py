"""The work that waits for the disk: commits and housekeeping, off the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol

from forebay.core.errors import StorageError
from forebay.log.store import Job
from forebay.log.wal import Commit
from forebay.server.system.kernel_sync import KernelSync


class DiskWork:
    """The work that takes long: commits, in their order, and housekeeping, on a thread for each.

    Short commits are synced by the kernel where it can. Each piece of work comes back on the thread of the loop, with
    the error that it ended with, or None: through `hand_back(done, work, error)`, safe to call from another thread
    (`loop.call_soon_threadsafe`), or through `kernel.came_back`, to be called when `kernel.fileno` can be read.
    """

    def __init__(
        self,
        commit_done: Callable[[Commit, BaseException | None], None],
        job_done: Callable[[Job, BaseException | None], None],
        hand_back: Callable[..., object],
        kernel: KernelSync | None = None,
    ) -> None:
        self.commits = Worker("commit", commit_done, hand_back)
        self.jobs = Worker("housekeeping", job_done, hand_back)
        self.kernel = kernel
        self.job: Job | None = None  # the last that was submitted

    def submit(self, commit: Commit) -> None:
        """Have a commit written and synced."""
        kernel = self.kernel
        if kernel is None or not kernel.takes(commit):
            self.commits.put(commit)
            return
        try:
            taken = kernel.submit(commit)
        except StorageError as error:
            self.commits.give_back(commit, error)
        else:
            if not taken:
                self.commits.put(commit)

    def submit_job(self, job: Job | None) -> None:
        """Have files rewritten."""
        if job is not None:
            self.job = job
            self.jobs.put(job)

    def stop(self) -> None:
        """Wait until all commits have run, and what can be of housekeeping soon; and end."""
        if self.kernel is not None and self.kernel.commit is not None:
            self.kernel.collect(1)
        if self.job is not None:
            self.job.stop()
        self.commits.stop()
        self.jobs.stop()


class Work(Protocol):
    """The work that a thread can do."""

    def run(self) -> None: ...


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
        """Have it run after all that was put before."""
        self.work.put(work)

    def give_back(self, work: Work, error: BaseException) -> None:
        """Hand back what has failed without having run here."""
        self.hand_back(self.done, work, error)

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
