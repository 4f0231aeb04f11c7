"""A work group: leases records to competing consumers until every record is settled.

Ready records are the offsets from `cursor` to the end of the log and cost nothing; `Waiting` knows what else there is
to hand out, and what dies instead. What was handed out is in the `LeaseTable` until it is settled, returns, or its time
is over.
"""

from __future__ import annotations

import heapq
from typing import final

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.queue.counts import DELIVERY_LIMIT, EXPIRED, REJECTED
from forebay.queue.expiry import NEVER
from forebay.queue.facts import Facts
from forebay.queue.group import BURST, SCAN_RECORDS
from forebay.queue.lease_index import held_runs
from forebay.queue.lease_table import LeaseTable
from forebay.queue.leases import (
    FAILED,
    LEASED,
    PAGE_RECORDS,
    RETURNED,
    SETTLED,
    UNLIMITED,
    Consumer,
    Delivery,
    Lease,
    Page,
)
from forebay.queue.limits import Limits
from forebay.queue.order import Order
from forebay.queue.picker import HASH_TOPIC, Picker
from forebay.queue.retries import is_failure, retry_us
from forebay.queue.selecting import Selecting
from forebay.queue.selector import Selector
from forebay.queue.trace import ACKED, DELIVERED, QueueTrace
from forebay.queue.trace import REJECTED as TRACE_REJECTED
from forebay.queue.trace import RETURNED as RETURNED_EVENT
from forebay.queue.waiting import FAILURE, FROM_NOW


@final
class WorkGroup(Selecting):
    """Leases, returns and settlements of one work group.

    overdue  consumers that held a record too long and are to be cancelled
    active   the one that gets everything, of a queue with a single active consumer
    """

    def __init__(
        self,
        id: i64,
        name: bytes,
        filter: bytes,
        log: QueueLog,
        start: i64,
        limits: Limits | None = None,
        facts: Facts | None = None,
    ) -> None:
        super().__init__(id, name, filter, log, start, limits, facts)
        self.picker: Picker | None = None  # of a shared subscription
        self.table = LeaseTable()
        self.leased_count: i64 = 0
        self.delivered: i64 = 0
        self.settled: i64 = 0
        self.overdue: list[Consumer] = []
        self.active: Consumer | None = None

    # ---- handing out

    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        self.budget = self.turn_octets
        self.scan = SCAN_RECORDS
        self.expire(now_us)
        order = self.order
        if order is not None:
            if not self.take_in(order):
                return True
            if self.selectors:
                self.wake(order)
                if self.facts.looks.left <= 0:
                    self.scan = 0
        served: Consumer | None = None
        while self.budget > 0 and self.scan > 0:
            if self.perishable:
                self.drop_expired(now_us)
            if self.is_drained():
                return False
            picker = self.picker
            # A share whose members have filters gives to whoever is next and wants it.
            consumer = self.next_consumer() if picker is None or self.selectors else self.picked(picker)
            if consumer is None:
                if served is not None:
                    self.facts.looks.pace.note(served.held)
                return False
            most = consumer.credit
            if len(self.consumers) > 1 and not self.limits.single_active:
                most = min(most, BURST if picker is None else 1)
                self.turn += 1
            delivery = self.take(consumer, most, now_us)
            if delivery is not None:
                out.append(delivery)
                served = consumer
                self.counts.hand_out(delivery.count, delivery.lease is None, delivery.deliveries > 1)
        return True

    def take_one(self, consumer: Consumer, now_us: i64) -> Delivery | None:
        """The next record at once, whoever's turn it is; None if none is ready."""
        self.scan = SCAN_RECORDS
        self.expire(now_us)
        order = self.order
        if order is not None:
            self.take_in(order)
        if self.perishable:
            self.drop_expired(now_us)
        delivery: Delivery | None = None
        while delivery is None and not self.is_drained() and self.scan > 0:
            delivery = self.take(consumer, 1, now_us)
        if delivery is not None:
            self.counts.get(delivery.lease is None, delivery.deliveries > 1)
        return delivery

    def next_consumer(self) -> Consumer | None:
        if not self.limits.single_active:
            return self.next_ranked() if self.ranked else self.next_in_turn()
        active = self.active
        if self.ranked and active is not None and active.held == 0 and self.consumers[0].priority > active.priority:
            active = None
        if active is None and self.consumers:
            active = self.consumers[0]
        self.active = active
        if active is None or not active.can_take():
            return None
        # Whoever is to take over waits until everything that the active one holds is settled.
        return None if active is not self.consumers[0] and self.consumers[0].priority > active.priority else active

    def detach(self, consumer: Consumer) -> None:
        super().detach(consumer)
        if consumer is self.active:
            self.active = None

    def picked(self, picker: Picker) -> Consumer | None:
        """The member of a shared subscription that gets the next record."""
        if not picker.by_key:
            return picker.pick(self.consumers, b"")
        offset = self.returned[0][0] if self.returned else self.cursor
        block = self.log.block(offset)
        if block is None:
            return picker.pick(self.consumers, b"")  # `take` finds that nothing is left
        index = max(offset, block.base) - block.base
        key = block.routing_key(index) if picker.strategy == HASH_TOPIC else block.exchange(index)
        return picker.pick(self.consumers, key)

    def take(self, consumer: Consumer, most: i64, now_us: i64) -> Delivery | None:
        """Lease the next run of at most `most` records; None where only unwanted ones were passed, or none is left."""
        order = self.order
        if order is not None:
            return self.take_ordered(order, consumer, most, now_us) if order.count else None
        if self.returned:
            return self.take_returned(consumer, most, now_us)
        block = self.cursor_block() if self.cursor < self.log.end else None
        if block is None:
            return None
        index = self.cursor - block.base
        room = PAGE_RECORDS - (self.cursor & (PAGE_RECORDS - 1))
        most = min(most, room)
        most = min(most, block.count - index)
        count = self.run_length(block, index, most)
        first = self.cursor
        if count < 0:
            self.cursor -= count
            self.settle_noted(first, self.cursor)
            return None
        if self.perishable:
            count = self.fresh(block, index, count, now_us)
        self.cursor += count
        return self.lease(consumer, block, first, count, 0, now_us)

    def lease(self, consumer: Consumer, block: Block, first: i64, count: i64, attempts: i64, now_us: i64) -> Delivery:
        consumer.credit -= count
        self.delivered += count
        if self.trace is not None:
            self.trace.note(DELIVERED, self.name, consumer, first, count, now_us, "")
        index = first - block.base
        octets = block.body_span(index, count)
        self.budget -= octets + 64 * count
        if self.measuring:
            self.ready_octets -= octets
        if consumer.no_ack:
            self.settle_noted(first, first + count)
            self.settled += count
            if consumer.credit < UNLIMITED >> 1:
                consumer.credit += count
            delivery = Delivery(consumer, block, index, count, None)
            if self.order is not None:
                self.follow(self.order, first, count)
        else:
            page = self.page(first)
            states = page.states
            for at in range(first - page.base, first - page.base + count):
                states[at] = LEASED
            lease = Lease(consumer, page, first, count, now_us + consumer.timeout_us)
            lease.deliveries = (attempts & (FAILURE - 1)) + 1
            lease.failures = attempts // FAILURE
            consumer.held += count
            self.table.add(lease)
            self.leased_count += count
            delivery = Delivery(consumer, block, index, count, lease)
        if attempts:
            delivery.deliveries = (attempts & (FAILURE - 1)) + 1
            delivery.failures = attempts // FAILURE
        return delivery

    def take_returned(self, consumer: Consumer, most: i64, now_us: i64) -> Delivery | None:
        """Lease from the lowest returned run."""
        block = self.log.block(self.returned[0][0])
        first, total = heapq.heappop(self.returned)
        if block is None or block.base > first:
            self.pass_over(first, total, self.log.end if block is None else block.base)
            return None
        count = self.alike(block, first, min(total, most))
        if count < total:
            heapq.heappush(self.returned, (first + count, total - count))
        self.returned_count -= count
        return self.lease(consumer, block, first, count, self.attempts.get(first, 0), now_us)

    def take_ordered(self, order: Order, consumer: Consumer, most: i64, now_us: i64) -> Delivery | None:
        if consumer.selector is not None:
            return self.take_wanted(order, consumer.selector, consumer, most, now_us)
        first = order.choose()
        block = self.log.block(first)
        if block is None or block.base > first:
            # In the log no more, though no note says that it was settled.
            order.take(1)
            self.settle_noted(first, first + 1)
            self.follow(order, first, 1)
            return None
        count = self.alike(block, first, order.length(most))
        order.take(count)
        return self.lease(consumer, block, first, count, self.attempts.get(first, 0), now_us)

    def take_wanted(
        self, order: Order, selector: Selector, consumer: Consumer, most: i64, now_us: i64
    ) -> Delivery | None:
        """Lease the next run that the consumer's filter wants."""
        first = self.find_wanted(order, selector)
        if first < 0:
            return None
        block = self.log.block(first)
        if block is None or block.base > first:
            self.take_found(order, selector, 1)
            self.settle_noted(first, first + 1)
            self.follow(order, first, 1)
            return None
        if self.perishable and self.expiry_us(block, first - block.base) < now_us:
            self.take_found(order, selector, 1)
            self.kill_waiting(first, 1, EXPIRED)
            return None
        count = self.alike(block, first, self.found_length(order, selector, most))
        self.take_found(order, selector, count)
        return self.lease(consumer, block, first, count, self.attempts.get(first, 0), now_us)

    def alike(self, block: Block, first: i64, most: i64) -> i64:
        """How many of `most` records from `first` on are in one block and page, and were handed out equally often."""
        room = PAGE_RECORDS - (first & (PAGE_RECORDS - 1))
        limit = min(most, room)
        limit = min(limit, block.end - first)
        attempts = self.attempts.get(first, 0)
        count: i64 = 1
        while count < limit and self.attempts.get(first + count, 0) == attempts:
            count += 1
        return self.fresh(block, first - block.base, count, self.now_us) if self.perishable else count

    # ---- settling

    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        if self.trace is not None:
            self.trace_held(self.trace, ACKED, lease, first, count)
        settled = self.settle(lease, first, count)
        self.counts.acked += settled
        return settled

    def trace_held(self, trace: QueueTrace, type: str, lease: Lease, first: i64, count: i64) -> None:
        """Write down what happens to those of these records that the lease holds."""
        if lease.left:
            for start, length in held_runs(lease, first, count):
                trace.note(type, self.name, lease.consumer, start, length, self.now_us, "")

    def settle(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records of a lease, whatever became of them; how many were held by it until now."""
        if lease.left == 0:
            return 0  # expired: the records belong to others, or are ready again
        assert lease.first <= first and first + count <= lease.first + lease.count
        if lease.holes is not None:
            return self.settle_each(lease, first, count)
        page = lease.page
        assert page is not None
        states = page.states
        settled: i64 = 0
        for at in range(first - page.base, first - page.base + count):
            if states[at] == LEASED:
                states[at] = SETTLED
                settled += 1
        self.settled_lease(lease, page, settled)
        self.note(first, first + count)
        if self.attempts:
            self.forget_attempts(first, count)
        if self.table.extended:
            self.table.forget_extensions(first, count)
        if self.order is not None:
            self.follow(self.order, first, count)
        return settled

    def settle_each(self, lease: Lease, first: i64, count: i64) -> i64:
        """As `settle`, for a lease that lost records one by one: those may be leased to somebody else by now."""
        page = lease.page
        assert page is not None
        settled: i64 = 0
        for start, length in held_runs(lease, first, count):
            for offset in range(start, start + length):
                page.states[offset - page.base] = SETTLED
            settled += length
            self.note(start, start + length)
            self.forget_attempts(start, length)
            self.table.forget_extensions(start, length)
            if self.order is not None:
                self.follow(self.order, start, length)
        self.settled_lease(lease, page, settled)
        return settled

    def settled_lease(self, lease: Lease, page: Page, settled: i64) -> None:
        self.settled += settled
        self.shrink(lease, settled)
        page.left -= settled
        if page.left == 0:
            self.drop_page(page)

    def shrink(self, lease: Lease, count: i64) -> None:
        """`count` records left the lease: the consumer may have as many others."""
        lease.left -= count
        self.leased_count -= count
        if lease.left == 0 and count > 0:
            self.table.live -= 1
        consumer = lease.consumer
        consumer.held -= count
        if consumer.credit < UNLIMITED >> 1:
            consumer.credit += count

    def give_back(self, lease: Lease, first: i64, count: i64, due_us: i64, how: i64) -> i64:
        given: i64 = 0
        failed = is_failure(self.limits, how)
        failures = lease.failures + (1 if failed else 0)
        limit = self.limits.delivery_limit
        if due_us == 0:
            rest_us = retry_us(self.limits, how, lease.deliveries, failures)
            due_us = FROM_NOW + rest_us if rest_us else 0
        for start, length in self.withdraw(lease, first, count):
            given += length
            if self.trace is not None:
                why = "failed" if failed else "given back"
                self.trace.note(RETURNED_EVENT, self.name, lease.consumer, start, length, self.now_us, why)
            attempts = lease.deliveries + failures * FAILURE
            if failed and 0 <= limit < failures:
                self.kill(start, length, DELIVERY_LIMIT, attempts)
            elif failed and self.limits.retry_timeout_us:
                self.retry_each(start, length, attempts, due_us)
            else:
                self.note_return(start, length, attempts)
                self.push_returned(start, length, due_us)
        return given

    def retry_each(self, first: i64, count: i64, attempts: i64, due_us: i64) -> None:
        """Records that failed return, or die where their first failure is too long ago."""
        now_us = max(self.now_us, self.facts.looks.now_us)  # nobody may have had to do with this group for long
        for offset in range(first, first + count):
            since_us = self.note_failing(offset, now_us)
            if now_us - since_us >= self.limits.retry_timeout_us:
                self.kill(offset, 1, DELIVERY_LIMIT, attempts)
            else:
                self.note_return(offset, 1, attempts)
                self.push_returned(offset, 1, due_us)

    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        """Have records of a lease die; how many of them were held by it."""
        if self.limits.dead_letter_exchange is None:
            return self.discard(lease, first, count)
        given: i64 = 0
        for start, length in self.withdraw(lease, first, count):
            given += length
            self.kill(start, length, REJECTED, lease.deliveries + lease.failures * FAILURE)
        return given

    def discard(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records that a consumer rejects, and that go nowhere from here; how many were held by the lease."""
        if self.trace is not None:
            self.trace_held(self.trace, TRACE_REJECTED, lease, first, count)
        settled = self.settle(lease, first, count)
        self.counts.rejected += settled
        return settled

    def withdraw(self, lease: Lease, first: i64, count: i64) -> list[tuple[int, int]]:
        """Take records out of a lease; the runs of those that it held, which are RETURNED now and wait nowhere yet."""
        if lease.left == 0:
            return []
        page = lease.page
        assert page is not None
        runs = held_runs(lease, first, count)
        whole = first == lease.first and count == lease.count
        held: i64 = 0
        for start, length in runs:
            held += length
            self.mark_range(start, start + length, RETURNED)
            if self.table.extended:
                self.table.forget_extensions(start, length)
            if whole:
                continue
            holes = lease.holes
            if holes is None:
                holes = set()
                lease.holes = holes
            for offset in range(start, start + length):
                holes.add(offset)
        self.shrink(lease, held)
        return runs

    def extend(self, lease: Lease, first: i64, count: i64, deadline_us: i64) -> i64:
        """Let records of a lease be held until `deadline_us` (see `LeaseTable.extend`)."""
        return self.table.extend(lease, first, count, deadline_us)

    def remove(self, consumer: Consumer) -> None:
        self.detach(consumer)
        for lease in self.table.of_consumer(consumer):
            self.give_back(lease, lease.first, lease.count, 0, FAILED)

    def move(self, offset: i64, gone: list[tuple[int, int]]) -> None:
        """Begin anew at `offset`: what is below is settled, what follows waits as if it had never been handed out.

        What consumers hold leaves their leases. Nothing of the group may be dying. Intervals that are `gone` as soon as
        a file is rewritten do not come back.
        """
        assert self.dying_count == 0
        for lease in self.table.all_live():
            for first, count in self.withdraw(lease, lease.first, lease.count):
                if self.trace is not None:
                    why = "the group was moved"
                    self.trace.note(RETURNED_EVENT, self.name, lease.consumer, first, count, self.now_us, why)
        self.table = LeaseTable()
        self.start_over(offset, gone)
        self.wait_anew()

    def find(self, offset: i64) -> Lease | None:
        """The lease that holds this record now."""
        return self.table.find(offset)

    # ---- time

    def expire(self, now_us: i64) -> None:
        """Return what is past its deadline, and delayed records whose time has come."""
        self.now_us = now_us
        lease = self.table.take_over(now_us)
        while lease is not None:
            for first, count in self.table.ended_runs(lease, now_us):
                self.give_back(lease, first, count, 0, FAILED)
            consumer = lease.consumer
            if consumer.cancels and not consumer.timed_out:
                consumer.timed_out = True
                self.overdue.append(consumer)
                self.detach(consumer)
            lease = self.table.take_over(now_us)
        self.table.forget_settled()
        self.push_due(now_us)

    def next_due_us(self) -> i64:
        """When the group next has something to do though nobody asks; 0 for never."""
        due = self.table.next_due_us()
        if self.delayed and (due == 0 or self.delayed[0][0] < due):
            due = self.delayed[0][0]
        if self.perishable and self.damage is None:
            head_due = self.next_expiry_us()
            if head_due < NEVER and (due == 0 or head_due < due):
                due = head_due
        return due
