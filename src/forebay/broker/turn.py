"""The turn of a vhost under way: it knows the queues that its end has to look at, and seals what they took."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.internal_log import InternalLog
from forebay.broker.shared.next_turn import NextTurn
from forebay.broker.shared.queue_shares import QueueShares
from forebay.broker.shared.store_room import PendingBytes
from forebay.broker.shared.turn_trace import SealedBlock, TurnTrace
from forebay.core.errors import note_half_change
from forebay.log.block import Block
from forebay.log.store import Store
from forebay.queue.leases.lease import Consumer
from forebay.queue.queue import Queue
from forebay.queue.ready.expiry import marks_of
from forebay.queue.trace import PUBLISHED as TRACE_PUBLISHED


@final
class Turn(PendingBytes):
    """The queues and records that have gathered since the end of the turn before.

    now_us     when the turn before ended, or this one does; good enough for leases by `get`
    dirty      queues in which something has happened
    timed      queues to which time alone may bring something
    awaiting   queues with readers of what is not on disk yet
    synced_first  sessions whose deliveries of this turn leave once the disk has what the turn notes
    cancelled  consumers that lost their queue: see `EndedTurn`
    internals  the logs of the broker's own
    """

    def __init__(self, vhost: bytes, store: Store, next_turn: NextTurn, shares: QueueShares, trace: TurnTrace) -> None:
        self.vhost = vhost
        self.store = store
        self.next_turn = next_turn
        self.shares = shares
        self.trace = trace
        self.now_us: i64 = 0
        self.dirty: list[Queue] = []
        self.timed: list[Queue] = []
        self.awaiting: list[Queue] = []
        self.synced_first: list[int] = []
        self.cancelled: list[Consumer] = []
        self.internals: list[InternalLog] = []

    def mark(self, queue: Queue) -> None:
        """Have this turn look at the queue."""
        if not queue.dirty:
            queue.dirty = True
            self.dirty.append(queue)

    def sync_first(self, queue: Queue, session_id: i64) -> None:
        """Have a session send its delivery of a queue once the disk has what the turn notes about it."""
        if queue.log.durable:
            self.store.hurry()
            self.synced_first.append(int(session_id))

    def take_synced_first(self) -> list[int]:
        """Sessions that wait for the disk with what this turn delivers, since the last call."""
        found, self.synced_first = self.synced_first, []
        return found

    def take_cancelled(self) -> list[Consumer]:
        """Consumers that lost their queue since the last call."""
        cancelled, self.cancelled = self.cancelled, []
        return cancelled

    def watch(self, queue: Queue) -> None:
        """Have ticks look at the queue for as long as time alone may bring something to it."""
        if not queue.timed:
            queue.timed = True
            self.timed.append(queue)

    def seal(self, queue: Queue) -> None:
        """Make a block of what the queue has taken, and give it to the store."""
        try:
            log = queue.log
            block = log.seal(self.now_us)
            share = self.shares.share_of(queue)
            if share and log.octets > share:
                self.shares.crowd(queue)
            if block is not None:
                if queue.intake is None:  # else the filter counts what it takes
                    queue.counts.published += block.count
                if self.trace.is_on:
                    self.trace.sealed.append(SealedBlock(self.vhost, queue, block))
            if block is not None and log.durable:
                self.store.append(log, block)
                if queue not in self.awaiting:
                    self.awaiting.append(queue)
            elif queue.watches:
                self.wake_watches(queue)
            if block is not None and queue.trace is not None and queue.intake is None:
                queue.trace.note(TRACE_PUBLISHED, b"", None, block.base, block.count, log.stamp_us, "")
            if block is not None and queue.source.is_shared:
                self.spread(queue, block)
        except Exception as error:
            note_half_change(error)
            raise

    def spread(self, queue: Queue, block: Block) -> None:
        """Have the other queues over a queue's source look at a block that was sealed for it."""
        marks = marks_of(block)
        for other in queue.source.readers:
            if other is queue or not isinstance(other, Queue):
                continue
            if other.intake is None:
                other.counts.published += block.count
            other.met_marks |= marks
            if block.end > other.log.durable_end and other not in self.awaiting:
                self.awaiting.append(other)
            elif other.watches:
                self.wake_watches(other)
            if other.trace is not None and other.intake is None:
                other.trace.note(TRACE_PUBLISHED, b"", None, block.base, block.count, other.log.stamp_us, "")
            if other.work_groups or other.met_marks or other.needs_group():
                self.mark(other)

    def wake_watches(self, queue: Queue) -> None:
        """Tell who waits for the queue that there is more to read, if there is."""
        end = queue.log.readable_end()
        for watch in queue.watches:
            if watch.is_over(queue.id, end):
                self.next_turn.wake(watch)

    def gathered(self) -> i64:
        octets: i64 = 0
        for internal in self.internals:
            octets += internal.gathered()
        for queue in self.dirty:
            if queue.log.durable:
                octets += queue.log.writer.octets()
        return octets
