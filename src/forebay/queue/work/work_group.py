"""A work group: leases records to competing consumers until every record is settled.

The group is composed of parts. It moves records from the ready queue to the leases, and from there back, to the dead
letters, or to the settled ones. Each part knows its own state, and no part knows the group.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.filter.parser import Filter
from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.queue.counts import DELIVERY_LIMIT, EXPIRED, MAX_CANCELS, MAX_DELIVERIES, REJECTED
from forebay.queue.declaration.limits import DROP_HEAD, FAST, IN_TURN, PROPORTIONAL, Limits
from forebay.queue.fairness import (
    BURST,
    NO_KEY,
    ByFilter,
    ByPriority,
    Fairness,
    RoundRobin,
    SingleActive,
    fairness_named,
    fairness_of,
)
from forebay.queue.group import Group
from forebay.queue.leases.lease import FAILED, NACKED, UNLIMITED, Consumer, Delivery, Lease
from forebay.queue.leases.lease_index import held_runs
from forebay.queue.leases.lease_table import LeaseTable
from forebay.queue.leases.page import RETURNED
from forebay.queue.leases.retries import is_failure, retry_us
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.delayed import FROM_NOW
from forebay.queue.ready.expiry import NEVER
from forebay.queue.ready.order import Order
from forebay.queue.ready.ready_queue import ReadyQueue
from forebay.queue.ready.selector import Selector
from forebay.queue.trace import ACKED, DELIVERED, QueueTrace
from forebay.queue.trace import REJECTED as TRACE_REJECTED
from forebay.queue.trace import RETURNED as RETURNED_EVENT
from forebay.queue.turn import SCAN_RECORDS
from forebay.queue.work.attempts import FAILURE, Attempts, deliveries_in, failures_in
from forebay.queue.work.dead_letters import DeadLetterBacklog
from forebay.queue.work.deaths import RecordDeaths
from forebay.queue.work.filters import ConsumerFilters
from forebay.queue.work.modified import annotated_block
from forebay.queue.work.refused_offers import RefusedOffers
from forebay.queue.work.returning import ReturningRecords
from forebay.queue.work.settlement import Settlement


@final
class WorkGroup(Group):
    """A work group: its records and its competing consumers.

    settlement    which records are settled, and the cursor
    attempts      attempts at the records that came back
    ready_queue   records that can be delivered now
    filters       filters of consumers that want only some of the records
    refused_offers  offers to others the records that some consumers refused
    returning     records that come back, at once or later
    delayed       records that can be delivered later
    leases        records that consumers hold
    dead_letters  records that died and are not moved yet
    deaths        deaths of records that no consumer holds
    sharing       strategy of a shared subscription; None if there is none
    delivered, settled  numbers of records so far
    overdue       consumers that held a record too long and are to be cancelled
    """

    def __init__(
        self,
        id: i64,
        name: bytes,
        filter: bytes,
        log: QueueLog,
        start: i64,
        limits: Limits | None = None,
        properties: PropertyReader | None = None,
    ) -> None:
        super().__init__(id, name, filter, log, limits, properties)
        self.settlement = Settlement(log, start)
        self.attempts = Attempts(self.settlement)
        self.ready_queue = ReadyQueue(
            self.limits, self.properties, self.reader, self.settlement, self.attempts, self.key_filter, self.turn
        )
        self.filters = ConsumerFilters(self.limits, self.properties, self.ready_queue)
        self.refused_offers = RefusedOffers(self.ready_queue, self.properties)
        self.returning = ReturningRecords(self.settlement, self.attempts, self.ready_queue, self.properties, self.turn)
        self.delayed = self.returning.delayed
        self.leases = LeaseTable(self.settlement)
        self.dead_letters = DeadLetterBacklog()
        self.deaths = RecordDeaths(self, self.ready_queue, self.refused_offers, self.dead_letters)
        self.sharing: Fairness | None = None
        self.delivered: i64 = 0
        self.settled: i64 = 0
        self.overdue: list[Consumer] = []

    # ---- consumers

    def select(self, consumer: Consumer, filter: Filter) -> None:
        """Give a consumer that is not added yet only records that the filter matches."""
        self.filters.add(consumer, filter)

    def share_by(self, strategy: str) -> None:
        """Set the strategy of a shared subscription. Only the first call sets it."""
        if self.sharing is None:
            self.sharing = fairness_named(strategy)
            self.choose_fairness()

    def choose_fairness(self) -> None:
        fairness = self.fairness
        sharing = self.sharing
        strategy = self.limits.fairness
        if self.limits.single_active:
            if not isinstance(fairness, SingleActive):
                self.fairness = SingleActive()
        elif strategy in (FAST, PROPORTIONAL):
            self.fairness = fairness_of(strategy, fairness)
        elif sharing is not None and not self.filters.selectors:
            self.fairness = sharing
        else:
            # If members of a share have filters, the one that has waited longest and matches is next.
            burst: i64 = BURST if sharing is None and strategy != IN_TURN else 1
            if self.filters.selectors:
                if not isinstance(fairness, ByFilter):
                    self.fairness = ByFilter(burst)
            elif self.consumers and self.consumers[0].priority != self.consumers[-1].priority:
                if not isinstance(fairness, ByPriority):
                    self.fairness = ByPriority(burst, fairness.turn)
            elif not isinstance(fairness, RoundRobin) or fairness is sharing:
                self.fairness = RoundRobin(burst, fairness.turn)
            self.fairness.burst = burst

    def detach(self, consumer: Consumer) -> None:
        super().detach(consumer)
        self.filters.leave(consumer)
        self.ready_queue.release_refused(consumer.id)
        self.choose_fairness()

    def remove(self, consumer: Consumer, how: i64 = FAILED) -> None:
        self.detach(consumer)
        for lease in self.leases.of_consumer(consumer):
            self.give_back(lease, lease.first, lease.count, 0, how)

    def active(self) -> Consumer | None:
        """Return the single active consumer, or None if there is none."""
        fairness = self.fairness
        return fairness.active if isinstance(fairness, SingleActive) else None

    # ---- delivering

    def backlog_room(self) -> i64:
        """Return how many more records the consumers may hold together."""
        most = self.limits.max_backlog
        if most == 0:
            return UNLIMITED
        if self.limits.settles_at_send:
            for consumer in self.consumers:
                most -= consumer.held
            return most
        return most - self.leases.count

    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        turn = self.turn
        turn.octets = turn.most_octets
        turn.looks = SCAN_RECORDS
        self.expire(now_us)
        ready = self.ready_queue
        order = ready.order
        is_behind = order is not None and not ready.take_in(order)
        if order is not None:
            if is_behind and not ready.goes_on_behind(order):
                return True
            if self.filters.selectors:
                self.filters.wake(order)
        fairness = self.fairness
        is_shared = len(self.consumers) > 1
        if is_shared:
            fairness.begin()
        served: Consumer | None = None
        room = self.backlog_room()
        if ready.refused.waiting:
            for offer in self.refused_offers.assign(self.consumers, fairness, room):
                offered = self.deliver(offer.consumer, offer.block, offer.offset, 1, now_us)
                room -= 0 if offered.lease is None else 1
                self.counts.deliver(1, offered.lease is None, offered.redelivered)
                out.append(offered)
        while turn.octets > 0 and turn.looks > 0:
            if ready.expiry.perishable:
                self.deaths.drop_expired(now_us)
            if ready.is_empty():
                return is_behind
            if room <= 0:
                return is_behind
            key = ready.head_key(fairness.key_of) if fairness.key_of != NO_KEY else b""
            consumer = fairness.next(self.consumers, key)
            if consumer is None:
                if served is not None:
                    self.properties.looks.pace.note(served.held)
                return is_behind
            most = min(consumer.credit, room)
            if is_shared:
                most = min(most, fairness.share(self.consumers, consumer, self.shareable()))
            delivery = self.take(consumer, most, now_us)
            if delivery is not None:
                out.append(delivery)
                if delivery.lease is not None:
                    room -= delivery.count
                served = consumer
                if is_shared:
                    fairness.took(consumer, delivery.count)
                self.counts.deliver(delivery.count, delivery.lease is None, delivery.redelivered)
            elif is_shared and consumer.selector is not None and not consumer.selector.is_dry:
                fairness.took(consumer, 0)  # its filter was evaluated for long, and others have filters, too
        return True

    def shareable(self) -> i64:
        """Return the number of ready records that every consumer can have; 1 if the key filter may exclude some."""
        return 1 if self.key_filter.text else self.ready_queue.available()

    def take_one(self, consumer: Consumer, now_us: i64) -> Delivery | None:
        """Deliver the next record to a consumer at once, out of turn. Return None if none is ready."""
        self.turn.looks = SCAN_RECORDS
        self.expire(now_us)
        ready = self.ready_queue
        if ready.order is not None and not ready.take_in(ready.order):
            self.turn.looks = SCAN_RECORDS  # deliver what is in order already
        if ready.expiry.perishable:
            self.deaths.drop_expired(now_us)
        delivery: Delivery | None = None
        if self.backlog_room() <= 0:
            return None
        refused = self.refused_offers.take_first(consumer)
        if refused is not None:
            delivery = self.deliver(consumer, refused.block, refused.offset, 1, now_us)
        while delivery is None and not ready.is_empty() and self.turn.looks > 0:
            delivery = self.take(consumer, 1, now_us)
        if delivery is not None:
            self.counts.get(delivery.lease is None, delivery.redelivered)
        return delivery

    def take(self, consumer: Consumer, most: i64, now_us: i64) -> Delivery | None:
        """Deliver the next run of at most `most` records.

        Return None if only unwanted ones were passed, or none is left.
        """
        selector = consumer.selector
        order = self.ready_queue.order
        if selector is not None and order is not None:
            return self.take_wanted(order, selector, consumer, most, now_us) if order.count else None
        block, first, count = self.ready_queue.take(most)
        return None if block is None else self.deliver(consumer, block, first, count, now_us)

    def take_wanted(
        self, order: Order, selector: Selector, consumer: Consumer, most: i64, now_us: i64
    ) -> Delivery | None:
        """Deliver the next run of records that match the consumer's filter."""
        filters = self.filters
        first = filters.find_wanted(order, selector)
        if first < 0:
            return None
        block = self.reader.log.block(first)
        if block is None or block.base > first:
            filters.take_found(order, selector, 1)
            self.ready_queue.settle(first, 1)
            return None
        expiry = self.ready_queue.expiry
        if expiry.perishable and expiry.of(block, first - block.base) < now_us:
            filters.take_found(order, selector, 1)
            self.deaths.dead_letter_ready(first, 1, EXPIRED)
            return None
        count = self.ready_queue.alike(block, first, filters.found_length(order, selector, most))
        filters.take_found(order, selector, count)
        return self.deliver(consumer, block, first, count, now_us)

    def deliver(self, consumer: Consumer, block: Block, first: i64, count: i64, now_us: i64) -> Delivery:
        """Lease records taken out of the ready queue. For a consumer that settles at send, they are settled."""
        self.delivered += count
        if self.trace is not None:
            self.trace.note(DELIVERED, self.name, consumer, first, count, now_us, "")
        ready = self.ready_queue
        index = first - block.base
        octets = block.body_span(index, count)
        self.turn.octets -= octets + 64 * count
        if ready.octets.measuring:
            ready.octets.count -= octets
        attempts: i64 = self.attempts.of(first) if self.attempts.by_offset else 0
        modified = self.attempts.modified.of(first) if attempts else b""  # of one record alone, see `alike`
        lease: Lease | None = None
        if consumer.settles_at_send:
            self.settled += count
            ready.settle(first, count)
            if consumer.no_ack:
                consumer.send(count)
            else:
                lease = self.leases.grant_sent(consumer, first, count, attempts)
        else:
            lease = self.leases.grant(consumer, first, count, attempts, now_us)
        delivery = Delivery(consumer, block, index, count, lease)
        if attempts:
            delivery.deliveries = deliveries_in(attempts) + 1
            delivery.failures = failures_in(attempts)
            delivery.redelivered = True
            if modified:
                delivery.block = annotated_block(block, index, modified)
                delivery.index = 0
        elif block.base < self.reader.crash_end:
            delivery.redelivered = True  # a crash always ends a block
        if self.attempts.redelivered.runs:
            self.attempts.redelivered.mark(delivery, first, self.properties)
        return delivery

    # ---- settling

    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        if self.trace is not None:
            self.trace_held(self.trace, ACKED, lease, first, count)
        settled = self.settle(lease, first, count)
        self.counts.acked += settled
        return settled

    def trace_held(self, trace: QueueTrace, type: str, lease: Lease, first: i64, count: i64) -> None:
        """Record an event of those of these records that the lease holds."""
        if lease.left:
            for start, length in held_runs(lease, first, count):
                trace.note(type, self.name, lease.consumer, start, length, self.turn.now_us, "")

    def settle(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle records of a lease, whatever became of them. Return how many of them the lease held until now."""
        if lease.left == 0:
            return 0  # expired: other leases hold the records, or they are ready again
        assert lease.first <= first and first + count <= lease.first + lease.count
        settled: i64 = 0
        if lease.holes is None:
            settled = self.leases.settle(lease, first, count)
            self.ready_queue.forget(first, count)
        elif lease.page is None:
            return self.leases.release_sent(lease, count)
        else:  # the lease lost records one by one, which other leases may hold by now
            for start, length in held_runs(lease, first, count):
                settled += self.leases.settle(lease, start, length)
                self.ready_queue.forget(start, length)
        self.settled += settled
        return settled

    def give_back(self, lease: Lease, first: i64, count: i64, due_us: i64, how: i64) -> i64:
        given: i64 = 0
        failed = is_failure(self.limits, how)
        failures = lease.failures + (1 if failed else 0)
        limit = self.limits.delivery_limit
        if due_us == 0:
            rest_us = retry_us(self.limits, how, lease.deliveries, failures)
            due_us = FROM_NOW + rest_us if rest_us else 0
        for start, length in self.leases.withdraw(lease, first, count):
            given += length
            if self.trace is not None:
                why = "failed" if failed else "given back"
                self.trace.note(RETURNED_EVENT, self.name, lease.consumer, start, length, self.turn.now_us, why)
            attempts = lease.deliveries + failures * FAILURE
            if failed and 0 <= limit < failures:
                self.deaths.dead_letter(start, length, DELIVERY_LIMIT, attempts)
            elif 0 < self.limits.max_deliveries <= lease.deliveries:
                self.deaths.dead_letter(start, length, MAX_DELIVERIES, attempts)
            elif (failed and self.limits.retry_timeout_us) or (how == NACKED and self.limits.max_cancels):
                self.return_each(start, length, attempts, due_us, failed, how == NACKED)
            else:
                self.attempts.note(start, length, attempts)
                self.returning.wait(start, length, due_us)
        return given

    def return_each(
        self, first: i64, count: i64, attempts: i64, due_us: i64, has_failed: bool, is_cancel: bool
    ) -> None:
        """Return records to the ready queue one by one. Those given back too often, or failing for too long, die."""
        now_us = self.returning.now_us()
        limits = self.limits
        for offset in range(first, first + count):
            cause = ""
            if is_cancel and limits.max_cancels and self.attempts.note_cancel(offset) >= limits.max_cancels:
                cause = MAX_CANCELS
                self.attempts.note(offset, 1, attempts)  # for a restart before the dead letter is moved
            elif has_failed and limits.retry_timeout_us:
                since_us = self.attempts.note_failing(offset, now_us)
                if now_us - since_us >= limits.retry_timeout_us:
                    cause = DELIVERY_LIMIT
            if cause:
                self.deaths.dead_letter(offset, 1, cause, attempts)
            else:
                self.attempts.note(offset, 1, attempts)
                self.returning.wait(offset, 1, due_us)

    def note_delivery(self, delivery: Delivery) -> None:
        """Record a delivery before the records come back, because a crash must not lose the count."""
        lease = delivery.lease
        if self.limits.max_deliveries and lease is not None and lease.page is not None:
            attempts = lease.deliveries + lease.failures * FAILURE
            self.attempts.note(lease.first, lease.count, attempts)

    def drop_spent(self) -> None:
        """Let records die, in recovery, that reached their last delivery or cancel before the broker stopped."""
        limits = self.limits
        attempts = self.attempts
        if limits.max_deliveries == 0 and limits.max_cancels == 0:
            return
        for offset in sorted(attempts.by_offset):
            is_spent = 0 < limits.max_deliveries <= deliveries_in(attempts.of(offset))
            is_cancelled = 0 < limits.max_cancels <= attempts.cancels.get(offset, 0)
            if (is_spent or is_cancelled) and self.settlement.state(offset) == RETURNED:
                attempts.due.pop(offset, None)
                self.deaths.dead_letter(offset, 1, MAX_DELIVERIES if is_spent else MAX_CANCELS, attempts.of(offset))

    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        """Reject records of a lease, which die. Return how many of them the lease held."""
        if self.limits.dead_letter_exchange is None:
            return self.discard(lease, first, count)
        return self.dead_letter_held(lease, first, count, REJECTED)

    def expire_held(self, lease: Lease, first: i64, count: i64) -> i64:
        """Let records of a lease die as expired. Return how many of them the lease held."""
        return self.dead_letter_held(lease, first, count, EXPIRED)

    def dead_letter_held(self, lease: Lease, first: i64, count: i64, cause: str) -> i64:
        """Withdraw records from a lease and let them die of `cause`. Return how many of them the lease held."""
        given: i64 = 0
        for start, length in self.leases.withdraw(lease, first, count):
            given += length
            self.deaths.dead_letter(start, length, cause, lease.deliveries + lease.failures * FAILURE)
        return given

    def discard(self, lease: Lease, first: i64, count: i64) -> i64:
        """Settle rejected records without dead-lettering them. Return how many of them the lease held."""
        if self.trace is not None:
            self.trace_held(self.trace, TRACE_REJECTED, lease, first, count)
        settled = self.settle(lease, first, count)
        self.counts.rejected += settled
        return settled

    # ---- dead letters

    def settle_dead_letters(self, first: i64, count: i64) -> None:
        """Settle dead letters that were moved, or that no queue takes."""
        self.dead_letters.count -= count
        self.ready_queue.settle_modified(first, count)

    # ---- time

    def expire(self, now_us: i64) -> None:
        """Return the records of expired leases, and make delayed records ready that are due."""
        self.turn.now_us = now_us
        leases = self.leases
        lease = leases.take_over(now_us)
        while lease is not None:
            ended: i64 = 0
            for first, count in leases.ended_runs(lease, now_us):
                ended += self.give_back(lease, first, count, 0, FAILED)
            consumer = lease.consumer
            if ended and consumer.cancels and not consumer.timed_out:  # not if all records were extended
                consumer.timed_out = True
                self.overdue.append(consumer)
                self.detach(consumer)
            lease = leases.take_over(now_us)
        leases.forget_settled()
        if self.delayed.heap:
            self.returning.release_due(now_us)

    def look_after(self, now_us: i64) -> bool:
        """Expire records and enforce the limits, after everybody has got what there was.

        Return whether a limit of the turn left some of it for the next.
        """
        more = False
        ready = self.ready_queue
        if ready.expiry.perishable:
            if ready.order is not None:
                more = not ready.take_in(ready.order)
            # Records with a time to live of 0 expire just now: they were for immediate delivery only.
            self.deaths.drop_expired(now_us + 1)
        limits = self.limits
        if limits.overflow == DROP_HEAD and (limits.max_messages >= 0 or limits.max_octets >= 0):
            self.deaths.drop_excess()
        return more

    def next_due_us(self) -> i64:
        """Return the time at which the group next has to act without being asked, or 0 for never."""
        due = self.leases.next_due_us()
        delayed_us = self.delayed.next_due_us()
        if delayed_us and (due == 0 or delayed_us < due):
            due = delayed_us
        if self.ready_queue.expiry.perishable and self.reader.damage is None:
            head_due = self.ready_queue.next_expiry_us()
            if head_due < NEVER and (due == 0 or head_due < due):
                due = head_due
        return due

    # ---- the whole of it

    def ready(self) -> i64:
        return self.ready_queue.count()

    def purge(self) -> i64:
        count = self.ready_queue.clear()
        self.counts.purged += count
        return count

    def move(self, offset: i64, gone: list[tuple[int, int]]) -> None:
        """Begin anew at `offset`: lower records are settled, and later ones wait as if they had never been delivered.

        Consumers lose the records that they hold. There must be no dead letters. Intervals that are `gone` as soon as a
        file is rewritten do not come back.
        """
        assert self.dead_letters.count == 0
        for lease in self.leases.all_live():
            for first, count in self.leases.withdraw(lease, lease.first, lease.count):
                if self.trace is not None:
                    why = "the group was moved"
                    self.trace.note(RETURNED_EVENT, self.name, lease.consumer, first, count, self.turn.now_us, why)
        self.leases = LeaseTable(self.settlement)
        self.delayed.replace([])
        self.start_over(offset, gone)
        self.ready_queue.start_over()
        self.restore_waiting()
        self.filters.start_over()

    def start_over(self, offset: i64, gone: list[tuple[int, int]]) -> None:
        """Forget all state except that records below `offset` are settled and intervals are `gone`."""
        self.attempts.start_over()
        self.settlement.start_over(offset, gone)

    def next_offset(self) -> i64:
        return self.settlement.cursor

    def take_progress(self) -> bytes:
        return self.settlement.take_progress()

    def restore(self, progress: bytes) -> None:
        self.settlement.restore(progress)

    def finish_restore(self, now_us: i64 = 0) -> None:
        """Make the records that settlements passed over ready, lowest first. Call after the last `restore`.

        Records that compaction has left out count as settled, though a crash took the note of it. Records whose delay
        ends after `now_us` wait on.
        """
        self.pass_over([])
        self.returning.release_due(now_us)

    def pass_over(self, gone: list[tuple[int, int]]) -> None:
        """Settle records that compaction has left out, and intervals that are `gone` with it soon."""
        self.settlement.settle_missing(gone)
        self.restore_waiting()

    def restore_waiting(self) -> None:
        """Make the records that settlements passed over ready again, now or later."""
        self.ready_queue.restore_cursor()
        self.drop_spent()
        self.returning.restore()

    def snapshot(self) -> bytes:
        last_values = self.ready_queue.last_values
        replaced = b"" if last_values is None else last_values.replaced_in(self.settlement)
        return self.settlement.snapshot() + replaced

    def snapshot_returns(self) -> bytes:
        """Return what is known of the returned records; empty if there are none."""
        self.attempts.take_notes()
        attempts = self.attempts
        if not attempts.by_offset and not attempts.redelivered.runs and not attempts.early.runs:
            return b""
        return self.attempts.snapshot(self.delayed.due_runs(self.returning.now_us()))
