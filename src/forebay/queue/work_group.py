"""A work group: leases records to competing consumers until every record is settled.

Ready records are the offsets from `cursor` to the end of the log and cost nothing. Between `committed` and `cursor`
each page of 1024 offsets has one state octet a record; a page whose records are all settled goes, so a missing page
below the cursor means: settled. Settlements are logged as intervals, lazily.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.queue.group import BURST, SCAN_RECORDS, TURN_OCTETS, Group
from forebay.queue.lease_index import LeaseIndex, holds
from forebay.queue.leases import (
    LEASED,
    PAGE_BITS,
    PAGE_RECORDS,
    RETURNED,
    SETTLED,
    UNLIMITED,
    Consumer,
    Delivery,
    Lease,
    Page,
)
from forebay.queue.picker import HASH_TOPIC, Picker

LEASES_SLACK: Final = 1024  # settled leases kept in a list before it is compacted


@final
class WorkGroup(Group):
    """Leases, returns and settlements of one work group.

    committed   every lower offset is settled: the log may forget it
    """

    def __init__(self, id: i64, name: bytes, filter: bytes, log: QueueLog, start: i64, visibility_us: i64) -> None:
        super().__init__(id, name, filter, log, start)
        self.start: i64 = start
        self.committed: i64 = start
        self.visibility_us: i64 = visibility_us
        self.picker: Picker | None = None  # of a shared subscription
        self.pages: dict[int, Page] = {}
        self.returned: list[tuple[int, int]] = []  # heap of (first, count), to lease again now
        self.returned_count: i64 = 0
        self.delayed: list[tuple[int, int, int]] = []  # heap of (due, first, count)
        self.delayed_count: i64 = 0
        self.attempts: dict[int, int] = {}  # offset -> deliveries so far, of returned records only
        self.leases: deque[Lease] = deque()  # by deadline
        self.extended: dict[int, int] = {}  # offset -> its own deadline, later than its lease's
        self.late: list[
            tuple[int, int, Lease]
        ] = []  # heap of (deadline, serial, lease): left of it is what was extended
        self.late_serial: i64 = 0
        self.index = LeaseIndex()
        self.live: i64 = 0  # leases with something left
        self.leased_count: i64 = 0
        self.delivered: i64 = 0
        self.settled: i64 = 0
        self.progress = BytesWriter()  # (first, end) pairs
        self.interval_first: i64 = 0
        self.interval_end: i64 = 0
        if start & (PAGE_RECORDS - 1):
            self.settle_range((start >> PAGE_BITS) << PAGE_BITS, start)

    # ---- handing out

    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        self.budget = TURN_OCTETS
        self.scan = SCAN_RECORDS
        self.expire(now_us)
        while self.budget > 0 and self.scan > 0:
            if not self.returned and self.cursor >= self.log.end:
                return False
            picker = self.picker
            consumer = self.next_consumer() if picker is None else self.picked(picker)
            if consumer is None:
                return False
            most = consumer.credit
            if len(self.consumers) > 1:
                most = min(most, BURST if picker is None else 1)
                self.turn += 1
            delivery = self.take(consumer, most, now_us)
            if delivery is not None:
                out.append(delivery)
        return True

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
        if self.returned:
            return self.take_returned(consumer, most, now_us)
        if self.cursor >= self.log.end:
            return None
        block = self.block
        if block is None or self.cursor >= block.end:
            block = self.next_block()
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
            self.settle_range(first, self.cursor)
            self.note(first, self.cursor)
            return None
        self.cursor += count
        return self.lease(consumer, block, first, count, 1, now_us)

    def next_block(self) -> Block | None:
        """The block that the cursor stands in, moving the cursor over a gap that compaction left.

        The gap may reach to the end of the log: housekeeping leaves out what is settled, and a crash may lose the note
        that said so.
        """
        block = self.log.block(self.cursor)
        self.block = block
        base = self.log.end if block is None else block.base
        if base > self.cursor:
            first = self.cursor
            self.cursor = base
            self.settle_range(first, base)
            self.note(first, base)
        return block

    def lease(self, consumer: Consumer, block: Block, first: i64, count: i64, deliveries: i64, now_us: i64) -> Delivery:
        consumer.credit -= count
        self.delivered += count
        index = first - block.base
        self.budget -= block.body_span(index, count) + 64 * count
        if consumer.no_ack:
            self.settle_range(first, first + count)
            self.note(first, first + count)
            self.settled += count
            if consumer.credit < UNLIMITED >> 1:
                consumer.credit += count
            delivery = Delivery(consumer, block, index, count, None)
        else:
            page = self.page(first)
            states = page.states
            for at in range(first - page.base, first - page.base + count):
                states[at] = LEASED
            lease = Lease(consumer, page, first, count, now_us + self.visibility_us)
            lease.deliveries = deliveries
            self.leases.append(lease)
            self.index.add(lease)
            self.live += 1
            self.leased_count += count
            delivery = Delivery(consumer, block, index, count, lease)
        delivery.deliveries = deliveries
        return delivery

    def take_returned(self, consumer: Consumer, most: i64, now_us: i64) -> Delivery | None:
        """Lease from the lowest returned run: records of one block and page, delivered equally often."""
        first, total = heapq.heappop(self.returned)
        block = self.log.block(first)
        if block is None or block.base > first:
            self.pass_over(first, total, self.log.end if block is None else block.base)
            return None
        limit = total
        room = PAGE_RECORDS - (first & (PAGE_RECORDS - 1))
        for bound in (room, block.end - first, most):
            limit = min(limit, bound)
        deliveries = self.attempts.get(first, 0)
        count: i64 = 1
        while count < limit and self.attempts.get(first + count, 0) == deliveries:
            count += 1
        if count < total:
            heapq.heappush(self.returned, (first + count, total - count))
        self.returned_count -= count
        return self.lease(consumer, block, first, count, deliveries + 1, now_us)

    def pass_over(self, first: i64, total: i64, base: i64) -> None:
        """Of a returned run what is below `base` is in the log no more, though no note says that it was settled."""
        count = min(total, base - first)
        self.settle_range(first, first + count)
        self.note(first, first + count)
        for offset in range(first, first + count):
            self.attempts.pop(offset, None)
        self.returned_count -= count
        if count < total:
            heapq.heappush(self.returned, (first + count, total - count))

    # ---- settling

    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        if lease.left == 0:
            return 0  # expired: the records belong to others, or are ready again
        assert lease.first <= first and first + count <= lease.first + lease.count
        if lease.holes is not None:
            return self.ack_each(lease, first, count)
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
            for offset in range(first, first + count):
                self.attempts.pop(offset, None)
        if self.extended:
            for offset in range(first, first + count):
                self.extended.pop(offset, None)
        return settled

    def ack_each(self, lease: Lease, first: i64, count: i64) -> i64:
        """As `ack`, for a lease that lost records one by one: those may be leased to somebody else by now."""
        page = lease.page
        holes = lease.holes
        assert page is not None and holes is not None
        settled: i64 = 0
        for offset in range(first, first + count):
            if offset not in holes and page.states[offset - page.base] == LEASED:
                page.states[offset - page.base] = SETTLED
                settled += 1
                self.note(offset, offset + 1)
                self.attempts.pop(offset, None)
                if self.extended:
                    self.extended.pop(offset, None)
        self.settled_lease(lease, page, settled)
        return settled

    def settled_lease(self, lease: Lease, page: Page, settled: i64) -> None:
        self.settled += settled
        self.shrink(lease, settled)
        page.left -= settled
        if page.left == 0:
            self.pages.pop(page.base >> PAGE_BITS, None)

    def shrink(self, lease: Lease, count: i64) -> None:
        """`count` records left the lease: the consumer may have as many others."""
        lease.left -= count
        self.leased_count -= count
        if lease.left == 0 and count > 0:
            self.live -= 1
        consumer = lease.consumer
        if consumer.credit < UNLIMITED >> 1:
            consumer.credit += count

    def give_back(self, lease: Lease, first: i64, count: i64, due_us: i64) -> i64:
        if lease.left == 0:
            return 0
        page = lease.page
        assert page is not None
        whole = first == lease.first and count == lease.count
        holes = lease.holes
        given: i64 = 0
        start: i64 = -1
        for offset in range(first, first + count):
            held = page.states[offset - page.base] == LEASED and (holes is None or offset not in holes)
            if held:
                page.states[offset - page.base] = RETURNED
                self.attempts[offset] = lease.deliveries
                if self.extended:
                    self.extended.pop(offset, None)
                given += 1
                if not whole:
                    if holes is None:
                        holes = set()
                        lease.holes = holes
                    holes.add(offset)
                if start < 0:
                    start = offset
            elif start >= 0:
                self.push_returned(start, offset - start, due_us)
                start = -1
        if start >= 0:
            self.push_returned(start, first + count - start, due_us)
        self.shrink(lease, given)
        return given

    def extend(self, lease: Lease, first: i64, count: i64, deadline_us: i64) -> i64:
        """Let records of a lease be held until `deadline_us`, if that is later; how many of them were held by it.

        The lease's other records keep their deadline.
        """
        held: i64 = 0
        for offset in range(first, first + count):
            if holds(lease, offset):
                held += 1
                if deadline_us > lease.deadline_us and deadline_us > self.extended.get(offset, 0):
                    self.extended[offset] = deadline_us
        return held

    def push_returned(self, first: i64, count: i64, due_us: i64) -> None:
        if due_us > 0:
            heapq.heappush(self.delayed, (due_us, first, count))
            self.delayed_count += count
        else:
            heapq.heappush(self.returned, (first, count))
            self.returned_count += count

    def expire(self, now_us: i64) -> None:
        """Return what is past its deadline, and delayed records whose time has come."""
        leases = self.leases
        while leases:
            lease = leases[0]
            if lease.left and lease.deadline_us > now_us:
                break
            leases.popleft()
            if lease.left:
                self.expire_lease(lease, now_us)
        late = self.late
        while late and late[0][0] <= now_us:
            lease = heapq.heappop(late)[2]
            if lease.left:
                self.expire_lease(lease, now_us)
        self.forget_settled()
        while self.delayed and self.delayed[0][0] <= now_us:
            _, first, count = heapq.heappop(self.delayed)
            self.delayed_count -= count
            heapq.heappush(self.returned, (first, count))
            self.returned_count += count

    def expire_lease(self, lease: Lease, now_us: i64) -> None:
        """Return the records of a lease whose deadline has passed; those that were extended stay until theirs."""
        end = lease.first + lease.count
        if not self.extended:
            self.give_back(lease, lease.first, lease.count, 0)
            return
        next_us: i64 = 0
        start: i64 = lease.first
        for offset in range(lease.first, end):
            deadline_us: i64 = self.extended.get(offset, 0)
            if deadline_us > now_us and holds(lease, offset):
                if next_us == 0 or deadline_us < next_us:
                    next_us = deadline_us
                if start < offset:
                    self.give_back(lease, start, offset - start, 0)
                start = offset + 1
        if start < end:
            self.give_back(lease, start, end - start, 0)
        if next_us:
            lease.deadline_us = next_us
            self.late_serial += 1
            heapq.heappush(self.late, (int(next_us), int(self.late_serial), lease))

    def forget_settled(self) -> None:
        """Behind one long lease the settled ones would pile up."""
        most = max(LEASES_SLACK, 2 * self.live)
        if len(self.leases) > most:
            self.leases = deque([lease for lease in self.leases if lease.left])
        if len(self.late) > most:
            self.late = [each for each in self.late if each[2].left]
            heapq.heapify(self.late)
        if self.index.count > most:
            self.index.sweep()

    def next_due_us(self) -> i64:
        """When `expire` next has something to do; 0 for never."""
        due: i64 = 0
        if self.leases:
            due = self.leases[0].deadline_us
        if self.late and (due == 0 or self.late[0][0] < due):
            due = self.late[0][0]
        if self.delayed and (due == 0 or self.delayed[0][0] < due):
            due = self.delayed[0][0]
        return due

    def remove(self, consumer: Consumer) -> None:
        self.detach(consumer)
        for lease in self.leases:
            if lease.consumer is consumer and lease.left:
                self.give_back(lease, lease.first, lease.count, 0)
        for _, _, lease in self.late:
            if lease.consumer is consumer and lease.left:
                self.give_back(lease, lease.first, lease.count, 0)

    def find(self, offset: i64) -> Lease | None:
        """The lease that holds this record now."""
        return self.index.find(offset)

    def ready(self) -> i64:
        return self.log.end - self.cursor + self.returned_count

    def purge(self) -> i64:
        count = self.ready()
        for first, total in self.returned:
            self.settle_range(first, first + total)
            self.note(first, first + total)
            for offset in range(first, first + total):
                self.attempts.pop(offset, None)
        self.returned = []
        self.returned_count = 0
        first = self.cursor
        self.cursor = self.log.end
        self.settle_range(first, self.cursor)
        self.note(first, self.cursor)
        self.block = None
        return count

    # ---- progress

    def page(self, offset: i64) -> Page:
        number = offset >> PAGE_BITS
        page = self.pages.get(number)
        if page is None:
            page = Page(number << PAGE_BITS)
            self.pages[number] = page
        return page

    def settle_range(self, first: i64, end: i64) -> None:
        """Mark records settled that were not leased; the cursor stands behind them already.

        A page wholly below the cursor that is missing is settled: it stays missing.
        """
        while first < end:
            number = first >> PAGE_BITS
            base = number << PAGE_BITS
            stop = base + PAGE_RECORDS
            if number in self.pages or stop > self.cursor:
                page = self.page(first)
                states = page.states
                for at in range(first - base, (min(end, stop)) - base):
                    if states[at] != SETTLED:
                        states[at] = SETTLED
                        page.left -= 1
                if page.left == 0:
                    del self.pages[number]
            first = stop

    def note(self, first: i64, end: i64) -> None:
        """Remember a settled interval for the write-ahead log, merged with the one before where they touch."""
        if first == self.interval_end:
            self.interval_end = end
            return
        self.cut_interval()
        self.interval_first = first
        self.interval_end = end

    def cut_interval(self) -> None:
        if self.interval_end > self.interval_first:
            write_i64_le(self.progress, self.interval_first)
            write_i64_le(self.progress, self.interval_end)
        self.interval_first = self.interval_end

    def advance(self) -> i64:
        """Move `committed` over all that is settled from there on; the new value."""
        committed = self.committed
        while committed < self.cursor:
            page = self.pages.get(committed >> PAGE_BITS)
            if page is None:
                committed = ((committed >> PAGE_BITS) + 1) << PAGE_BITS
                continue
            states = page.states
            at = committed - page.base
            while at < PAGE_RECORDS and states[at] == SETTLED:
                at += 1
            committed = page.base + at
            if at < PAGE_RECORDS:
                break
        committed = min(committed, self.cursor)
        self.committed = committed
        return committed

    def take_progress(self) -> bytes:
        self.cut_interval()
        if not len(self.progress):
            return b""
        progress = self.progress.getvalue()
        self.progress.truncate(0)
        return progress

    def restore(self, progress: bytes) -> None:
        """Intervals beyond the end of the log (their records were lost with the tail) are cut off there."""
        for at in range(0, i64(len(progress)), 16):
            first = read_i64_le(progress, at)
            end = read_i64_le(progress, at + 8)
            end = min(end, self.log.end)
            first = max(first, self.committed)
            if first >= end:
                continue
            if first > self.cursor:
                # What a settlement passed over was leased when the broker stopped: see `finish_restore`.
                self.return_range(self.cursor, first)
            self.cursor = max(self.cursor, end)
            self.settle_range(first, end)
        self.advance()

    def return_range(self, first: i64, end: i64) -> None:
        """Offsets that an out-of-order settlement passed over wait to be leased again, in pages of states."""
        while first < end:
            page = self.page(first)
            stop = page.base + PAGE_RECORDS
            stop = min(stop, end)
            for at in range(first - page.base, stop - page.base):
                page.states[at] = RETURNED
            first = stop

    def finish_restore(self) -> None:
        """After the last `restore`: what was passed over is ready again, lowest first."""
        self.returned = []
        self.returned_count = 0
        first: i64 = -1
        for number in sorted(self.pages):
            page = self.pages[number]
            for at in range(PAGE_RECORDS):
                offset = page.base + at
                waits = page.states[at] == RETURNED and offset < self.cursor
                if waits and first < 0:
                    first = offset
                elif not waits and first >= 0:
                    self.push_returned(first, offset - first, 0)
                    first = -1
            if first >= 0:
                self.push_returned(first, page.base + PAGE_RECORDS - first, 0)
                first = -1

    def snapshot(self) -> bytes:
        """Settled intervals: all below `committed`, then those above it."""
        out = BytesWriter()
        write_i64_le(out, 0)
        write_i64_le(out, self.advance())
        for first, end in self.settled_above():
            write_i64_le(out, first)
            write_i64_le(out, end)
        return out.getvalue()

    def settled_above(self) -> list[tuple[int, int]]:
        """Settled intervals between `committed` and `cursor`."""
        found: list[tuple[int, int]] = []
        first = self.committed
        for start, end in self.unsettled(first, self.cursor):
            if start > first:
                found.append((first, start))
            first = end
        if first < self.cursor:
            found.append((first, self.cursor))
        return found

    def unsettled(self, first: i64, end: i64) -> list[tuple[int, int]]:
        """The intervals of [first, end) that are not settled."""
        found: list[tuple[int, int]] = []
        start: i64 = -1
        offset = max(self.committed, first)
        while offset < end:
            if offset >= self.cursor:
                if start < 0:
                    start = offset
                break
            page = self.pages.get(offset >> PAGE_BITS)
            stop = ((offset >> PAGE_BITS) + 1) << PAGE_BITS
            stop = min(stop, end)
            stop = min(stop, self.cursor)
            if page is None:
                if start >= 0:
                    found.append((start, offset))
                    start = -1
                offset = stop
                continue
            while offset < stop:
                if page.states[offset - page.base] != SETTLED:
                    if start < 0:
                        start = offset
                elif start >= 0:
                    found.append((start, offset))
                    start = -1
                offset += 1
        if start >= 0:
            found.append((start, end))
        return found
