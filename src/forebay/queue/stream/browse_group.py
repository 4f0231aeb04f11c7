"""Readers that browse a queue. They get copies of what waits in a work group, and take nothing.

None of their state is logged: a browser ends with its link. Records that return to the queue behind a browser's cursor
are not shown to it again.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.filter.parser import Filter
from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.queue.declaration.limits import Limits
from forebay.queue.group import Group
from forebay.queue.leases.lease import FAILED, Consumer, Delivery, Lease
from forebay.queue.leases.page import PAGE_BITS, REFUSED, RETURNED
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.expiry import Expiry
from forebay.queue.ready.selector import look_cost
from forebay.queue.turn import SCAN_RECORDS
from forebay.queue.work.attempts import deliveries_in, failures_in
from forebay.queue.work.modified import annotated_block
from forebay.queue.work.work_group import WorkGroup


@final
class BrowseGroup(Group):
    """A browser and its position.

    cursor     next offset to be evaluated
    condition  only records that it matches are shown; None for all
    shown      the work group whose records are shown; None while the queue has none of that name
    """

    def __init__(
        self,
        id: i64,
        name: bytes,
        filter: bytes,
        log: QueueLog,
        start: i64,
        limits: Limits,
        properties: PropertyReader,
        condition: Filter | None,
    ) -> None:
        super().__init__(id, name, filter, log, limits, properties)
        self.cursor: i64 = start
        self.condition = condition
        self.shown: WorkGroup | None = None
        self.expiry = Expiry(limits, self.properties, self.reader)

    # ---- delivering

    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        turn = self.turn
        turn.now_us = now_us
        turn.octets = turn.most_octets
        turn.looks = SCAN_RECORDS
        log = self.reader.log
        while turn.octets > 0 and turn.looks > 0:
            self.cursor = max(self.cursor, log.start)
            if self.cursor >= log.end:
                return False
            consumer = self.fairness.next(self.consumers, b"")
            if consumer is None:
                return False
            block = log.block(self.cursor)
            if block is None:
                self.cursor = log.end
                return False
            self.cursor = max(self.cursor, block.base)
            delivery = self.take(consumer, block)
            if delivery is not None:
                out.append(delivery)
        return True

    def take(self, consumer: Consumer, block: Block) -> Delivery | None:
        """Return a copy of the next run that waits. Return None if the cursor was moved over other records."""
        first = self.cursor
        index = first - block.base
        count: i64 = 0
        most = min(consumer.credit, block.count - index)
        attempts = self.attempts_of(first)
        while count < most and self.turn.looks > 0 and self.is_shown(block, index + count, attempts, count):
            count += 1
        if count == 0:
            if self.turn.looks > 0:
                self.cursor = self.next_waiting(first + 1)
            return None
        self.cursor = first + count
        self.turn.octets -= block.body_span(index, count) + 64 * count
        lease: Lease | None = None
        if consumer.no_ack:
            consumer.send(count)
        else:
            consumer.lend(count)
            lease = Lease(consumer, None, first, count, 0)
        delivery = Delivery(consumer, block, index, count, lease)
        if attempts:
            delivery.deliveries = deliveries_in(attempts) + 1
            delivery.failures = failures_in(attempts)
            delivery.redelivered = True
        modified = self.modified_of(first)
        if modified:
            delivery.block = annotated_block(block, index, modified)
            delivery.index = 0
        return delivery

    def is_shown(self, block: Block, index: i64, attempts: i64, ahead: i64) -> bool:
        """Return whether a record is shown in one delivery behind `ahead` others with the same attempts."""
        turn = self.turn
        turn.looks -= 1
        offset = block.base + index
        if not self.waits(offset):
            return False
        if ahead and (self.attempts_of(offset) != attempts or self.modified_of(offset) or self.modified_of(offset - 1)):
            return False
        if self.key_filter.is_set and not self.key_filter.wants(block, index):
            return False
        if self.expiry.of(block, index) < turn.now_us:
            return False
        condition = self.condition
        if condition is None:
            return True
        looks = self.properties.looks
        deliveries, failures = deliveries_in(attempts), failures_in(attempts)
        subject = self.properties.subject(self.name, block, index, deliveries, failures)
        is_wanted = condition.matches(subject)
        turn.looks -= looks.charge(look_cost(condition, block.body_span(index, 1)), subject)
        return is_wanted

    # ---- the records of the work group

    def waits(self, offset: i64) -> bool:
        """Return whether the work group could deliver a record now."""
        shown = self.shown
        if shown is None:
            return True
        settlement = shown.settlement
        if offset >= settlement.cursor:
            return True
        page = settlement.pages.get(offset >> PAGE_BITS)
        return page is not None and page.states[offset - page.base] in (RETURNED, REFUSED)

    def next_waiting(self, offset: i64) -> i64:
        """Return the offset to continue from: settled pages hold no waiting record."""
        shown = self.shown
        if shown is None:
            return offset
        settlement = shown.settlement
        while offset < settlement.cursor and settlement.pages.get(offset >> PAGE_BITS) is None:
            offset = min(((offset >> PAGE_BITS) + 1) << PAGE_BITS, settlement.cursor)
            self.turn.looks -= 1
        return offset

    def attempts_of(self, offset: i64) -> i64:
        """Return how often a record was delivered and failed, as in `Attempts`."""
        return 0 if self.shown is None else self.shown.attempts.of(offset)

    def modified_of(self, offset: i64) -> bytes:
        """Return the annotations that consumers gave a record."""
        return b"" if self.shown is None else self.shown.attempts.modified.of(offset)

    # ---- outcomes change nothing

    def release(self, lease: Lease, count: i64) -> i64:
        """Record that the browser no longer holds `count` records. Return how many it held."""
        count = min(count, lease.left)
        lease.left -= count
        lease.consumer.release(count)
        return count

    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        return self.release(lease, count)

    def give_back(self, lease: Lease, first: i64, count: i64, due_us: i64, how: i64) -> i64:
        return self.release(lease, count)

    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        return self.release(lease, count)

    def remove(self, consumer: Consumer, how: i64 = FAILED) -> None:
        self.detach(consumer)

    def ready(self) -> i64:
        return max(0, self.reader.log.end - self.cursor)

    def purge(self) -> i64:
        return 0

    def next_offset(self) -> i64:
        return self.cursor

    def take_progress(self) -> bytes:
        return b""

    def restore(self, progress: bytes) -> None:
        raise AssertionError("nothing of a browser is written down")

    def snapshot(self) -> bytes:
        return b""
