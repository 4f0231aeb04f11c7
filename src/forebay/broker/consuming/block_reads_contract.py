"""The calls of readers of blocks beside records: a part of a vhost's contract."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import i64

from forebay.log.store import Job
from forebay.queue.queue import Queue
from forebay.queue.watch import Watch


class BlockReadsContract(ABC):
    """A vhost, as the connections of readers of blocks see it."""

    @abstractmethod
    def queue_names(self) -> list[bytes]:
        """Return the names of all queues."""

    @abstractmethod
    def hold(self, queue: Queue, name: bytes, offset: i64, ttl_us: i64) -> i64:
        """Keep records from `offset` on for a reader, and return the first that is still there."""

    @abstractmethod
    def release(self, queue: Queue, name: bytes) -> None:
        """End a reader's hold, if there is one."""

    @abstractmethod
    def rewriting(self, log: int) -> Job | None:
        """Return the job that rewrites a file with records of a log, None if there is none."""

    @abstractmethod
    def is_rewriting(self, job: Job) -> bool:
        """Return whether a job is not done yet."""

    @abstractmethod
    def watch(self, watch: Watch) -> None:
        """Register a connection that waits until one of its queues has more, or its time is over."""

    @abstractmethod
    def unwatch(self, watch: Watch) -> None:
        """Remove a connection from those that wait for their queues."""

    @abstractmethod
    def come_again(self, session_id: i64) -> None:
        """Add a connection to the next turn, as this turn has no time left for its request."""

    @abstractmethod
    def is_deleted(self) -> bool:
        """Return whether the vhost is deleted: its sessions are about to end."""

    @abstractmethod
    def recovered_lsn(self) -> int:
        """Return the lsn up to which a leader must be committed before it tells of what it found at its take-over."""
