"""Settling: a session says what became of the records that its consumers hold."""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.broker.catalog.catalog import Catalog
from forebay.broker.consuming.settling_contract import SettlingContract
from forebay.broker.turn import Turn
from forebay.core.errors import (
    INVALID,
    NOT_FOUND,
    PRECONDITION,
    RequestError,
    note_half_change,
)
from forebay.core.stored.entry_kinds import CURSOR
from forebay.message.annotations import MODIFIED, annotation
from forebay.message.modified import merge_annotations
from forebay.queue.group import Group
from forebay.queue.leases.lease import NACKED, Consumer, Delivery, Lease
from forebay.queue.leases.lease_index import held_runs
from forebay.queue.ready.refused import CONSUMER_MAX, GROUP_MAX
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.deferral import check_deferrals, defer, take_deferred
from forebay.queue.work.sifting import acknowledge_waiting, is_waiting
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text


@final
class Settling(SettlingContract):
    """Settles records of leases, in whichever queue they are."""

    def __init__(self, catalog: Catalog, turn: Turn) -> None:
        self.catalog = catalog
        self.turn = turn

    def group_of(self, lease: Lease) -> Group | None:
        queue = self.catalog.queues_by_id.get(lease.consumer.queue)
        if queue is None:
            return None
        if not queue.dirty:
            queue.dirty = True
            self.turn.dirty.append(queue)
        return queue.group_of(lease.consumer)

    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records of a lease; how many were held by it until now."""
        try:
            group = self.group_of(lease)
            return 0 if group is None else group.ack(lease, first, count)
        except Exception as error:
            note_half_change(error)
            raise

    def nack(self, lease: Lease, first: i64, count: i64, delay_ms: i64, how: i64 = NACKED) -> i64:
        """Give records of a lease back: to the front of the queue, or to be leased again after a delay.

        how  NACKED by who held them, FAILED, or UNTRIED
        """
        try:
            group = self.group_of(lease)
            if group is None:
                return 0
            # The turn knows the time of the one before, which may be long ago.
            due_us = self.catalog.store.clock.now_us() + delay_ms * 1000 if delay_ms > 0 else 0
            return group.give_back(lease, first, count, due_us, how)
        except Exception as error:
            note_half_change(error)
            raise

    def modify(self, lease: Lease, first: i64, count: i64, annotations: bytes) -> None:
        """Give records of a lease message annotations, which they have from their next delivery on.

        annotations  an encoded map of AMQP 1.0. What is too long for one record or one queue is left out
        """
        try:
            group = self.group_of(lease)
            if not isinstance(group, WorkGroup):
                return
            for start, length in held_runs(lease, first, count):
                for offset in range(start, start + length):
                    known = group.attempts.modified.of(offset)
                    if not known:
                        block = group.reader.log.block(offset)
                        if block is not None and block.base <= offset:
                            known = annotation(block.annotations(offset - block.base), MODIFIED)
                    group.attempts.modify(offset, merge_annotations(known, annotations))
        except Exception as error:
            note_half_change(error)
            raise

    def refuse(self, lease: Lease, first: i64, count: i64, delay_ms: i64, how: i64) -> i64:
        """Give records of a lease back that its consumer must not get again; see `nack`."""
        try:
            group = self.group_of(lease)
            if isinstance(group, WorkGroup):
                for start, length in held_runs(lease, first, count):
                    for offset in range(start, start + length):
                        self.note_refused(group, lease.consumer, offset)
        except Exception as error:
            note_half_change(error)
            raise
        return self.nack(lease, first, count, delay_ms, how)

    def note_refused(self, group: WorkGroup, consumer: Consumer, offset: i64) -> None:
        """Note that a consumer must not get a record again. One that has refused too many gets nothing any more."""
        if consumer.lost or consumer.timed_out or group.ready_queue.refused.refuse(offset, consumer.id):
            return
        consumer.lost = f"more than {CONSUMER_MAX} messages are undeliverable to it, or to all consumers {GROUP_MAX}"
        group.detach(consumer)
        self.turn.cancelled.append(consumer)

    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        """Have records of a lease die: to the queue's dead-letter exchange if it has one, else for good."""
        try:
            group = self.group_of(lease)
            return 0 if group is None else group.reject(lease, first, count)
        except Exception as error:
            note_half_change(error)
            raise

    def expire(self, lease: Lease, first: i64, count: i64) -> i64:
        """Let records of a lease die of their expiry, and return how many of them the lease held."""
        try:
            group = self.group_of(lease)
            if isinstance(group, WorkGroup):
                return group.expire_held(lease, first, count)
            return 0 if group is None else group.reject(lease, first, count)
        except Exception as error:
            note_half_change(error)
            raise

    def defer(self, lease: Lease, offset: i64, how: i64) -> i64:
        """Defer a record: it waits until a client asks for its offset. Return 1 if the lease held it.

        how     as records come back: FAILED, or UNTRIED
        raises  RequestError: TOO_MANY if too many wait, PRECONDITION if the queue is none that settles
        """
        try:
            group = self.group_of(lease)
            if group is None:
                return 0
            if not isinstance(group, WorkGroup):
                raise RequestError(PRECONDITION, "a message of a stream cannot be deferred")
            check_deferrals(group)
            return defer(group, lease, offset, self.turn.now_us, how)
        except Exception as error:
            note_half_change(error)
            raise

    def take_deferred(self, consumer: Consumer, offsets: list[int]) -> list[Delivery]:
        """Lease records that wait to be asked for to a consumer of their group; none if one of them does not."""
        try:
            queue = self.catalog.queues_by_id.get(consumer.queue)
            group = None if queue is None else queue.groups.get(consumer.group)
            if queue is None or not isinstance(group, WorkGroup):
                return []
            found = take_deferred(group, consumer, offsets, self.turn.now_us)
            if queue.limits.notes_deliveries:
                for delivery in found:
                    group.note_delivery(delivery)
                    self.turn.sync_first(queue, consumer.session_id)
            self.turn.mark(queue)
            return found
        except Exception as error:
            note_half_change(error)
            raise

    def extend(self, lease: Lease, first: i64, count: i64, extend_ms: i64) -> i64:
        """Let records of a lease be held for so long from now on, or for 0 as long as if they were delivered now.

        Never shorter than before; how many of them were held by the lease.
        """
        try:
            group = self.group_of(lease)
            if not isinstance(group, WorkGroup):
                return 0
            length_us = extend_ms * 1000 if extend_ms > 0 else lease.consumer.timeout_us
            now_us = self.catalog.store.clock.now_us()  # the turn knows that of the one before
            return group.leases.extend(lease, first, count, now_us + length_us)
        except Exception as error:
            note_half_change(error)
            raise

    def deadline_us(self, lease: Lease, offset: i64) -> i64:
        """Return the time until which a record may be held by a lease that holds it."""
        group = self.group_of(lease)
        if not isinstance(group, WorkGroup):
            return lease.deadline_us
        return max(lease.deadline_us, group.leases.extended.get(offset, 0))

    def find_lease(self, queue: bytes, group: bytes, offset: i64) -> Lease | None:
        """Return the lease of a record, if a consumer holds it. Raises RequestError if queue or group is unknown."""
        where = self.catalog.queue(queue)
        found = where.find_group(group)
        if found is None:
            raise RequestError(NOT_FOUND, f"no group '{text(group)}' on queue '{text(queue)}'")
        return found.leases.find(offset) if isinstance(found, WorkGroup) else None

    def acknowledge_waiting(self, queue: bytes, group: bytes, offset: i64, session_id: i64) -> bool:
        """Settle a record of a sublet queue that nobody holds, or once it is published; return whether it will be.

        session_id  of a connection that consumes in the group; others settle nothing
        raises      RequestError if there is no such queue or group
        """
        try:
            where = self.catalog.queue(queue)
            found = where.find_group(group)
            if not where.limits.sublet or not isinstance(found, WorkGroup) or not consumes(found, session_id):
                return False
            if offset < where.log.end:
                if not is_waiting(found, offset):
                    return False
                acknowledge_waiting(found, {int(offset)})
            else:
                kept_us = where.limits.deferred_ack_us
                until_us = self.catalog.store.clock.now_us() + kept_us
                early = found.attempts.early
                if kept_us == 0 or not early.keep(offset, offset + 1, until_us, found.attempts.notes):
                    return False
                where.has_early_acks = True
            self.turn.mark(where)
            return True
        except Exception as error:
            note_half_change(error)
            raise

    def may_settle(self, lease: Lease, session_id: i64) -> bool:
        """Return whether a connection may settle a lease: its holder, or any consumer of its group if sublet."""
        if lease.consumer.session_id == session_id:
            return True
        queue = self.catalog.queues_by_id.get(lease.consumer.queue)
        group = None if queue is None else queue.groups.get(lease.consumer.group)
        if queue is None or group is None or not queue.limits.sublet:
            return False
        return consumes(group, session_id)

    def commit_offset(self, queue: bytes, group: bytes, offset: i64) -> None:
        """Make a stream group resume at `offset`, which is on the disk with this turn's commit.

        raises  RequestError: no such group or offset
        """
        try:
            where = self.catalog.queue(queue)
            found = where.find_group(group)
            if not isinstance(found, StreamGroup):
                raise RequestError(NOT_FOUND, f"no stream group '{text(group)}' on queue '{text(queue)}'")
            if offset < 0 or offset > where.log.end:
                raise RequestError(
                    INVALID, f"offset {offset} is not within 0 .. {where.log.end} of queue '{text(queue)}'"
                )
            found.commit(offset)
            found.take_progress()
            if where.log.durable:  # also an offset that it had: that, and the group itself, may not be on the disk
                self.catalog.store.note(CURSOR, where.id, found.id, found.snapshot(), True)
            self.turn.mark(where)
        except Exception as error:
            note_half_change(error)
            raise


def consumes(group: Group, session_id: i64) -> bool:
    """Return whether a connection has a consumer in a group."""
    for other in group.consumers:  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
        if other.session_id == session_id:
            return True
    return False
