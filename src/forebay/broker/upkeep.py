"""The upkeep of queues: what time brings them, and what is taken away by order."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.catalog.retention_pins import end_expired
from forebay.broker.consuming.dispatcher import Dispatcher
from forebay.broker.turn import Turn
from forebay.core.errors import (
    INVALID,
    RequestError,
    note_half_change,
)
from forebay.core.stored.entry_kinds import CURSOR
from forebay.queue.queue import EPHEMERAL, STREAM, Queue
from forebay.queue.ready.ready_queue import TAKE_IN_RECORDS
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text


@final
class Upkeep:
    """Lets the queues of a vhost forget what is too old, too much, or not wanted.

    ephemeral_expiry_us  for which a queue in memory that nobody declared may stand idle
    """

    def __init__(self, catalog: Catalog, turn: Turn, dispatcher: Dispatcher, ephemeral_expiry_ms: i64) -> None:
        self.catalog = catalog
        self.turn = turn
        self.dispatcher = dispatcher
        self.store = catalog.store
        self.ephemeral_expiry_us: i64 = ephemeral_expiry_ms * 1000

    def tick(self, now_us: i64) -> None:
        """Do what time alone brings: leases that end, delays that are over, queues that nobody uses."""
        turn = self.turn
        timed = turn.timed
        turn.timed = []
        left: i64 = TAKE_IN_RECORDS
        for queue in timed:
            if self.catalog.queues_by_id.get(queue.id) is not queue:
                continue  # it is gone
            if self.has_expired(queue, now_us):
                self.catalog.remove_queue(queue)
                continue
            due = next_due_us(queue)
            if due and due <= now_us:
                cost = take_in_cost(queue)
                if not cost or left > 0:  # else the next tick: the turn reads what the start has not
                    turn.mark(queue)
                    left -= cost
            if due or queue.kind == EPHEMERAL or queue.limits.expires_us:
                turn.timed.append(queue)
            else:
                queue.timed = False  # until something happens in it

    def has_expired(self, queue: Queue, now_us: i64) -> bool:
        """True if nobody has used the queue for as long as it may stand idle."""
        expires_us = self.ephemeral_expiry_us if queue.kind == EPHEMERAL else queue.limits.expires_us
        if expires_us == 0:
            return False
        if queue.consumer_count() or queue.pins.by_name:
            queue.unused_since_us = 0  # not since somebody else got something once
            return False
        if not queue.unused_since_us:
            queue.unused_since_us = now_us
        return now_us - queue.unused_since_us > expires_us

    def apply_retention(self, now_us: i64) -> None:
        """Let streams, and queues that retain, forget what is over their limits, and all queues what nobody holds."""
        for queue in self.catalog.queues.values():
            if queue.pins.by_name:
                end_expired(self.catalog, queue, now_us)
            if queue.kind == STREAM:
                limits = queue.limits  # 0 is no limit of a stream, whoever sets it
                octets_max, messages_max = max(limits.max_octets, 0), max(limits.max_messages, 0)
                floor = queue.log.retention_floor(now_us, limits.max_age_us, octets_max, messages_max, queue.start())
                if queue.release(floor):
                    self.catalog.note_released(queue, False)
            elif queue.retained is not None and queue.retained.apply_limits(queue.limits, now_us):
                queue.source.truncate()

    def commit_streams(self) -> None:
        """Log how far the stream groups have read: those that commit by themselves, at the interval of the option."""
        try:
            for queue in self.catalog.queues.values():
                for group in queue.groups.values():
                    if isinstance(group, StreamGroup) and not group.name.startswith(b"\0"):
                        if group.auto:
                            group.commit_read()
                        progress = group.take_progress()
                        if progress:
                            group.active_us = self.turn.now_us
                            if queue.log.durable:
                                self.store.note(CURSOR, queue.id, group.id, progress, False)
        except Exception as error:
            note_half_change(error)
            raise

    def purge(self, name: bytes) -> int:
        """Take away all ready messages of every work group, or of the stream; how many these were.

        It is on the disk with this turn's commit.
        """
        try:
            queue = self.catalog.queue(name)
            self.store.hurry()
            self.dispatcher.catch_up(queue)
            count = queue.ready()
            if queue.kind == STREAM or queue.work_groups == 0:
                queue.release(queue.log.end)
                queue.counts.purged += count
            for group in queue.groups.values():
                group.purge()
            self.store.note_start(queue.log)  # a queue that nobody ever consumed from has no settlements to be noted
            self.catalog.note_released(queue, True)
            self.turn.mark(queue)
            return count
        except Exception as error:
            note_half_change(error)
            raise

    def delete_queue(self, name: bytes, if_unused: bool, if_empty: bool) -> int:
        """Delete a queue as `Catalog.delete_queue`, as it is after all that has happened so far."""
        try:
            queue = self.catalog.queues.get(name)
            if queue is not None:
                self.dispatcher.catch_up(queue)
            return self.catalog.delete_queue(name, if_unused, if_empty)
        except Exception as error:
            note_half_change(error)
            raise

    def truncate(self, name: bytes, below: i64) -> i64:
        """Have a stream forget its records below an offset; where it starts by then. RequestError for other queues.

        It is on the disk with this turn's commit.
        """
        try:
            queue = self.catalog.queue(name)
            if queue.kind != STREAM:
                raise RequestError(INVALID, f"queue: '{text(name)}' is no stream: it keeps what is not settled")
            self.store.hurry()
            queue.release(below)
            self.store.note_start(queue.log)
            self.catalog.note_released(queue, True)
            self.turn.mark(queue)
            return queue.start()
        except Exception as error:
            note_half_change(error)
            raise


def take_in_cost(queue: Queue) -> i64:
    """Return what the groups of a queue have still to put in order, as `ReadyQueue.take_in_cost`."""
    cost: i64 = 0
    for group in queue.groups.values():
        if isinstance(group, WorkGroup):
            cost += group.ready_queue.take_in_cost()
    return cost


def next_due_us(queue: Queue) -> i64:
    """The time at which the first of its groups has something to do though nobody asks; 0 for never."""
    due: i64 = 0
    for group in queue.groups.values():
        if isinstance(group, WorkGroup):
            own = group.next_due_us()
            if own and (due == 0 or own < due):
                due = own
    return due
