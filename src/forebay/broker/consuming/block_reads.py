"""Readers of blocks: they hold records, wait for more, and take their turn after other connections."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.catalog.retention_pins import hold, release
from forebay.broker.consuming.block_reads_contract import BlockReadsContract
from forebay.broker.shared.next_turn import NextTurn
from forebay.broker.turn import Turn
from forebay.log.store import Job
from forebay.queue.queue import Queue
from forebay.queue.watch import Watch


@final
class BlockReads(BlockReadsContract):
    """The readers of blocks of one vhost.

    abandoned  the vhost is deleted
    """

    def __init__(self, catalog: Catalog, turn: Turn, next_turn: NextTurn) -> None:
        self.catalog = catalog
        self.store = catalog.store
        self.turn = turn
        self.next_turn = next_turn
        self.abandoned = False

    def queue_names(self) -> list[bytes]:
        """Return the names of all queues."""
        return list(self.catalog.queues)

    def hold(self, queue: Queue, name: bytes, offset: i64, ttl_us: i64) -> i64:
        """Keep records from `offset` on for a reader, and return the first that is still there."""
        return hold(self.catalog, queue, name, offset, ttl_us, self.turn.now_us)

    def release(self, queue: Queue, name: bytes) -> None:
        """End a reader's hold, if there is one."""
        release(self.catalog, queue, name)

    def rewriting(self, log: int) -> Job | None:
        """Return the job that rewrites a file with records of a log, None if there is none."""
        return self.store.rewriting(log)

    def is_rewriting(self, job: Job) -> bool:
        """Return whether a job is not done yet."""
        return job is self.store.job_running

    def watch(self, watch: Watch) -> None:
        """Register a connection that waits until one of its queues has more, or its time is over."""
        self.next_turn.watches.append(watch)

    def unwatch(self, watch: Watch) -> None:
        """Remove a connection from those that wait for their queues."""
        self.next_turn.watches.remove(watch)

    def come_again(self, session_id: i64) -> None:
        """Add a connection to the next turn, as this turn has no time left for its request."""
        self.next_turn.sessions.append(int(session_id))

    def is_deleted(self) -> bool:
        """Return whether the vhost is deleted: its sessions are about to end."""
        return self.abandoned

    def recovered_lsn(self) -> int:
        """Return the lsn up to which a leader must be committed before it tells of what it found at its take-over."""
        return self.store.recovered
