"""The ready queue of a work group: the records that can be delivered now, and their order.

By age: what came back, lowest offset first, then the offsets from the cursor to the end of the log, which need no
object at all. Where priorities, message groups or consumers' filters order the group, every record is taken into its
`Order` once it is sealed.
"""

from __future__ import annotations

import heapq
from typing import Final, final

from mypy_extensions import i64

from forebay.log.block import Block
from forebay.message.annotations import PUBLISHER, annotation
from forebay.queue.declaration.limits import Limits
from forebay.queue.fairness import BY_TOPIC
from forebay.queue.key_filter import KeyFilter
from forebay.queue.last_value.last_values import LastValues
from forebay.queue.leases.page import PAGE_RECORDS, REFUSED, RETURNED
from forebay.queue.log_reader import LogReader
from forebay.queue.properties import PropertyReader
from forebay.queue.ready.expiry import NEVER, Expiry
from forebay.queue.ready.fair_order import FairOrder
from forebay.queue.ready.octets import ReadyOctets
from forebay.queue.ready.order import Order
from forebay.queue.ready.refused import RefusedRecords
from forebay.queue.ready.unranked import rank_returned, wanted_length
from forebay.queue.turn import SCAN_RECORDS, TurnShare
from forebay.queue.work.attempts import Attempts
from forebay.queue.work.settlement import Settlement

UNKNOWN_US: Final = 1  # stands for an unknown time, and is long past
TAKE_IN_RECORDS: Final = 65_536  # records that an ordered group takes in per turn, at most
HEADS_AGAIN_US: Final = 1_000_000  # until the next check for expiry at keys that the last one left out
BLOCK_RECORDS: Final = 64  # taking in a block costs as much as this many records


@final
class ReadyQueue:
    """The records that one group can deliver now. The caller that takes a run out decides what becomes of it.

    order           the order of the records; None for age
    returned        heap of (first, count) of returned records, unless `order` has them
    returned_count  number of records in `returned`
    refused         records that some consumers must not get; those of them that wait are in neither of the two
    last_values     the latest records of a last-value queue, which is always ordered: only these wait
    block           the block at the cursor, as last looked up
    """

    def __init__(
        self,
        limits: Limits,
        properties: PropertyReader,
        reader: LogReader,
        settlement: Settlement,
        attempts: Attempts,
        key_filter: KeyFilter,
        turn: TurnShare,
    ) -> None:
        self.limits = limits
        self.properties = properties
        self.reader = reader
        self.log = reader.log
        self.settlement = settlement
        self.attempts = attempts
        self.key_filter = key_filter
        self.turn = turn
        self.expiry = Expiry(limits, properties, reader)
        self.octets = ReadyOctets()
        self.order: Order | None = None
        self.returned: list[tuple[int, int]] = []
        self.returned_count: i64 = 0
        self.refused = RefusedRecords()
        self.last_values: LastValues | None = None
        self.block: Block | None = None

    # ---- what there is

    def is_empty(self) -> bool:
        """Return whether nothing can be delivered. Records that an order has still to take in do not count."""
        order = self.order
        if order is not None:
            return order.count == 0
        return not self.returned and self.settlement.cursor >= self.log.end

    def count(self) -> i64:
        """Return the number of ready records, and of records parked behind others of their message group."""
        order = self.order
        waiting = self.returned_count if order is None else order.count + order.parked + order.unranked_count
        return self.log.end - self.settlement.cursor + waiting + len(self.refused.waiting)

    def take_in_cost(self) -> i64:
        """Return the cost of what an order has still to take in: its records, and BLOCK_RECORDS more for each block."""
        log = self.log
        cursor = self.settlement.cursor
        if self.order is None:
            return 0
        if cursor >= log.end:
            return self.order.unranked_count
        return self.order.unranked_count + log.end - cursor + BLOCK_RECORDS * (log.index.size() - log.find(cursor))

    def available(self) -> i64:
        """Return the number of records that can be delivered now, without those that an order has still to take in."""
        order = self.order
        if order is not None:
            return order.count
        return self.log.end - self.settlement.cursor + self.returned_count

    def runs(self) -> list[tuple[int, int]]:
        """Return the runs of records below the cursor that can be delivered now."""
        order = self.order
        return self.returned if order is None else order.runs()

    def head(self) -> i64:
        """Return the next offset of a group that delivers by age."""
        return self.returned[0][0] if self.returned else self.settlement.cursor

    def head_key(self, key_of: i64) -> bytes:
        """Return the key of the next record for a strategy: its topic for BY_TOPIC, else its publisher."""
        offset = self.head()
        block = self.log.block(offset)
        if block is None:
            return b""  # `take` finds that nothing is left
        index = max(offset, block.base) - block.base
        if key_of == BY_TOPIC:
            return block.routing_key(index)
        return annotation(block.annotations(index), PUBLISHER)

    def cursor_block(self) -> Block | None:
        """Return the block at the cursor. Look it up only if the cursor has left the last one."""
        block = self.block
        if block is None or self.settlement.cursor >= block.end:
            return self.next_block()
        return block

    def next_block(self) -> Block | None:
        """Return the block at the cursor. Move the cursor over a gap that compaction left.

        The gap may reach to the end of the log: compaction leaves out settled records, and a crash may lose the note of
        their settlement.
        """
        settlement = self.settlement
        first = settlement.cursor
        block = self.log.block(first)
        self.block = block
        base = self.log.end if block is None else block.base
        if base > first:
            settlement.cursor = base
            settlement.settle(first, base)
        return block

    # ---- taking

    def take(self, most: i64) -> tuple[Block | None, i64, i64]:
        """Take the next run, of one block and page and equal attempts. Return its block, first offset and length.

        The length is 0 if only unwanted records were passed over, or none is left.
        """
        if self.order is not None:
            return self.take_ordered(self.order, most)
        if self.returned:
            return self.take_returned(most)
        settlement = self.settlement
        block = self.cursor_block() if settlement.cursor < self.log.end else None
        first = settlement.cursor
        if block is None:
            return None, first, 0
        index = first - block.base
        count = min(most, PAGE_RECORDS - (first & (PAGE_RECORDS - 1)))
        count = min(count, block.count - index)
        if self.key_filter.is_set:
            count = self.key_filter.run_length(block, index, count, self.turn)
            if count < 0:
                settlement.cursor = first - count
                settlement.settle(first, first - count)
                return None, first, 0
        if self.expiry.perishable:
            count = self.expiry.fresh(block, index, count, self.turn.now_us)
        settlement.cursor = first + count
        return block, first, count

    def take_returned(self, most: i64) -> tuple[Block | None, i64, i64]:
        """Take records of the lowest returned run."""
        block = self.log.block(self.returned[0][0])
        first, total = heapq.heappop(self.returned)
        if block is None or block.base > first:
            self.pass_over(first, total, self.log.end if block is None else block.base)
            return None, first, 0
        count = self.alike(block, first, min(total, most))
        if count < total:
            heapq.heappush(self.returned, (first + count, total - count))
        self.returned_count -= count
        return block, first, count

    def take_ordered(self, order: Order, most: i64) -> tuple[Block | None, i64, i64]:
        if not order.count:
            return None, 0, 0
        first = order.choose()
        block = self.log.block(first)
        if block is None or block.base > first:
            # Compacted away, though no note records its settlement.
            order.take(1)
            self.settle(first, 1)
            return None, first, 0
        count = self.alike(block, first, order.length(most))
        order.take(count)
        return block, first, count

    def take_head(self, most: i64) -> tuple[i64, i64]:
        """Take up to `most` next records, expired or not. Return first offset and count, 0 if none can be next."""
        if self.refused.waiting:
            return self.refused.take_first(), 1
        order = self.order
        if order is not None:
            self.take_in(order)
            if not order.count:
                return 0, 0
            first = order.choose()
            # A dead letter releases the next record of its message group, perhaps before the rest of the run.
            count = 1 if order.keys else order.length(most)
            order.take(count)
            return first, count
        if self.returned:
            return self.pop_returned(most)
        settlement = self.settlement
        block = self.cursor_block() if settlement.cursor < self.log.end else None
        if block is None:
            return 0, 0
        first = settlement.cursor
        count = min(block.end - first, most)
        settlement.cursor = first + count
        return first, count

    def take_expired(self, now_us: i64) -> tuple[i64, i64]:
        """Take expired records at the head of a group that delivers by age. Return first offset and count, or 0, 0.

        Expired records that the group does not want are passed over.
        """
        if self.returned:
            return self.pop_returned(1) if self.expiry.at(self.returned[0][0]) < now_us else (i64(0), i64(0))
        settlement = self.settlement
        while settlement.cursor < self.log.end:
            block = self.cursor_block()
            if block is None:
                break
            first = settlement.cursor
            index = first - block.base
            is_filtered = self.key_filter.is_set
            count = self.expiry.stale(block, index, 1 if is_filtered else block.count - index, now_us)
            settlement.cursor = first + count
            if count == 0 or not is_filtered or self.key_filter.run_length(block, index, 1, self.turn) > 0:
                return first, count
            settlement.settle(first, first + count)
        return 0, 0

    def pop_returned(self, most: i64) -> tuple[i64, i64]:
        first, total = heapq.heappop(self.returned)
        count = min(i64(total), most)
        if count < total:
            heapq.heappush(self.returned, (int(first + count), int(total - count)))
        self.returned_count -= count
        return first, count

    def alike(self, block: Block, first: i64, most: i64) -> i64:
        """Return how many of `most` records from `first` on share a block, a page and their number of deliveries."""
        limit = min(most, PAGE_RECORDS - (first & (PAGE_RECORDS - 1)))
        limit = min(limit, block.end - first)
        modified = self.attempts.modified.by_offset
        redelivered = self.attempts.redelivered
        if (modified and first in modified) or (redelivered.runs and redelivered.has_any(first, limit)):
            limit = 1
        by_offset = self.attempts.by_offset
        attempts = by_offset.get(first, 0)
        count: i64 = 1
        while count < limit and by_offset.get(first + count, 0) == attempts and first + count not in modified:
            count += 1
        if not self.expiry.perishable:
            return count
        return self.expiry.fresh(block, first - block.base, count, self.turn.now_us)

    def pass_over(self, first: i64, total: i64, base: i64) -> None:
        """Settle the part of a returned run below `base`, which left the log without a note of its settlement."""
        count = min(total, base - first)
        self.settle(first, count)
        self.returned_count -= count
        if count < total:
            heapq.heappush(self.returned, (first + count, total - count))

    # ---- coming back, and going for good

    def add(self, first: i64, count: i64) -> None:
        """Make records ready whose state is RETURNED already."""
        if not self.refused.by_offset:
            self.add_returned(first, count)
            return
        for offset in range(first, first + count):
            if offset in self.refused.by_offset:
                self.settlement.mark(offset, offset + 1, REFUSED)
                self.refused.waiting.add(offset)
                if self.octets.measuring:
                    self.octets.count += self.reader.body_octets(offset, offset + 1)
            else:
                self.add_returned(offset, 1)

    def release_refused(self, consumer: i64) -> None:
        """Make the records that a departed consumer has refused ready for others."""
        for offset in self.refused.leave(consumer):
            self.settlement.mark(offset, offset + 1, RETURNED)
            if self.octets.measuring:
                self.octets.count -= self.reader.body_octets(offset, offset + 1)
            self.add_returned(offset, 1)

    def add_returned(self, first: i64, count: i64) -> None:
        """Make records ready for every consumer."""
        if self.octets.measuring:
            self.octets.count += self.reader.body_octets(first, first + count)
        order = self.order
        if order is None:
            heapq.heappush(self.returned, (int(first), int(count)))
            self.returned_count += count
            return
        if self.last_values is None:
            self.give_back(order, first, first + count)
            return
        for start, length in self.keep_latest(self.last_values, first, count):
            self.give_back(order, start, start + length)

    def give_back(self, order: Order, first: i64, end: i64) -> None:
        """Add returned records to the order."""
        if order.expression is not None:
            order.add_unranked(first, end - first)
            return
        while first < end:
            block = self.reader.needed(first)
            if block is None and self.reader.damage is not None:
                return  # without its block the record's place is not known
            assert block is not None and block.base <= first, "a record that was held is in the log"
            stop = min(block.end, end)
            order.give_back(block, first - block.base, stop - first)
            first = stop

    def settle(self, first: i64, count: i64) -> None:
        """Settle records that no consumer holds and that were taken out of this queue."""
        self.settlement.settle(first, first + count)
        self.forget(first, count)

    def settle_modified(self, first: i64, count: i64) -> None:
        """Settle records as `settle` does, and forget the annotations that consumers gave them."""
        self.settle(first, count)
        self.attempts.forget_modified(first, count)

    def forget(self, first: i64, count: i64) -> None:
        """Forget the attempts of settled records, and release the next records of their message groups."""
        if self.attempts.by_offset:
            self.attempts.forget(first, count)
            self.forget_refused(first, count)
        order = self.order
        if order is not None:
            if order.keys:
                order.release_following(self.reader, first, count)
            if self.last_values is not None:
                self.last_values.note_settled(first, count)

    def forget_refused(self, first: i64, count: i64) -> None:
        """Forget which consumers have refused records. The records must not be waiting."""
        if self.refused.by_offset:
            for offset in range(first, first + count):
                self.refused.forget(offset)

    def keep_latest(self, last_values: LastValues, first: i64, count: i64) -> list[tuple[int, int]]:
        """Settle those of some taken-out records that newer ones replaced. Return the runs of the others."""
        found: list[tuple[int, int]] = []
        latest = last_values.by_offset
        end = first + count
        while first < end:
            at = first
            is_latest = int(at) in latest
            while at < end and (int(at) in latest) == is_latest:
                at += 1
            if is_latest:
                found.append((int(first), int(at - first)))
            else:
                self.settle(first, at - first)
                self.attempts.forget_modified(first, at - first)
            first = at
        return found

    def clear(self) -> i64:
        """Settle all ready records. Return how many there were."""
        count = self.count()
        order = self.order
        waiting = self.returned if order is None else order.take_all()
        for first, total in waiting:
            self.settlement.settle(first, first + total)
            self.attempts.forget(first, total)
        self.returned = []
        self.returned_count = 0
        for offset in sorted(self.refused.waiting):
            self.settle(offset, 1)
        if self.reader.stuck:
            for first, total in self.settlement.passed_over():
                self.settlement.settle(first, first + total)
                self.attempts.forget(first, total)
        self.reader.start_over()
        cursor = self.settlement.cursor
        self.settlement.cursor = self.log.end
        self.settlement.settle(cursor, self.log.end)
        self.block = None
        self.octets.count = 0
        self.octets.measured = self.log.end
        if self.last_values is not None:
            self.last_values.forget_settled(0)
        return count

    # ---- order

    def make_ordered(self, returned_first: bool) -> None:
        """Deliver by priority and message group from now on."""
        self.order = order = self.new_order(returned_first)
        waiting, self.returned = self.returned, []
        self.returned_count = 0
        for first, count in sorted(waiting):
            self.take_in_run(order, first, first + count)

    def new_order(self, returned_first: bool) -> Order:
        """Return an empty order, as the limits ask for it."""
        fair_key = self.limits.fair_key
        if fair_key is not None:
            return FairOrder(self.limits, self.properties, self.settlement.pages, self.turn, fair_key)
        is_sparse = self.last_values is not None
        return Order(self.limits, self.properties, returned_first, self.settlement.pages, is_sparse)

    def make_plain(self, order: Order) -> None:
        """Deliver by age again, without an order."""
        self.order = None
        self.returned = order.take_all()
        heapq.heapify(self.returned)
        for _, count in self.returned:
            self.returned_count += count

    def take_in(self, order: Order) -> bool:
        """Put in order the records sealed since the last call. Return False if the turn's share left some."""
        left: i64 = TAKE_IN_RECORDS
        settlement = self.settlement
        if order.pending and not self.take_in_pending(order):
            return False
        if order.unranked and not rank_returned(order, self.reader, self.settlement, self.key_filter, self.turn):
            return False
        while settlement.cursor < self.log.end:
            if left <= 0 or self.turn.looks <= 0:
                return False
            block = self.cursor_block()
            if block is None:
                return True
            first = settlement.cursor
            index = first - block.base
            count = order.affordable(block.count - index)
            if self.key_filter.is_set:
                count = self.key_filter.run_length(block, index, count, self.turn)
            if count < 0:
                settlement.cursor = first - count
                settlement.settle(first, first - count)
                left += count
                if self.last_values is not None:
                    self.last_values.note_settled(first, -count)
                continue
            if self.last_values is not None:
                settlement.cursor = first + count
                left -= count + BLOCK_RECORDS
                self.take_in_latest(order, self.last_values, block, index, count)
                continue
            if order.expression is not None:
                count = order.take_in_ranked(order.expression, block, index, count, self.turn)
            else:
                order.take_in(block, index, count)
            settlement.cursor = first + count
            left -= count + BLOCK_RECORDS
            settlement.mark(first, first + count, RETURNED)
        return True

    def take_in_pending(self, order: Order) -> bool:
        """Take in the pending records below the cursor. Return False if there is more than one turn's share."""
        while order.pending:
            if self.turn.looks <= 0:
                return False
            first: i64
            first, count = order.pop_pending()
            self.take_in_run(order, first, first + count)
        return True

    def goes_on_behind(self, order: Order) -> bool:
        """Return whether to deliver what is in order while a view's filter or a fair key has more to evaluate."""
        if (self.settlement.intake is None and not order.is_fair) or order.mode or not order.count:
            return False
        self.turn.looks = SCAN_RECORDS
        return True

    def take_in_latest(self, order: Order, last_values: LastValues, block: Block, index: i64, count: i64) -> None:
        """Put in order those records of a block that are the latest of their keys."""
        for first, length in self.keep_latest(last_values, block.base + index, count):
            self.settlement.mark(first, first + length, RETURNED)
            order.take_in(block, first - block.base, length)

    def take_in_run(self, order: Order, first: i64, end: i64) -> None:
        """Put records below the cursor in order, as `take_in` does."""
        if order.expression is not None:
            order.add_unranked(first, end - first)
            return
        while first < end:
            block = self.reader.needed(first)
            if block is None and self.reader.damage is not None:
                return
            base = end if block is None else min(block.base, end)
            if block is None or base > first:
                self.settlement.settle(first, base)
                first = base
                continue
            count = wanted_length(self.key_filter, block, first, end, self.turn)
            if count < 0:
                self.settlement.settle(first, first - count)
                first -= count
                continue
            if self.last_values is None:
                order.take_in(block, first - block.base, count)
            else:
                self.take_in_latest(order, self.last_values, block, first - block.base, count)
            first += count

    # ---- beginning anew

    def start_over(self) -> None:
        """Forget what waits, until `restore` makes it known."""
        order = self.order
        if order is not None:
            self.order = self.new_order(order.returned is not None)
        self.block = None
        self.octets.measuring = False
        self.refused.clear()
        self.expiry.start_over()
        self.reader.start_over()

    def restore_cursor(self) -> None:
        """Move the cursor past all delivered records, as far as notes record them."""
        settlement = self.settlement
        self.attempts.prune()
        if self.attempts.by_offset:
            # A record leased again before the broker stopped may be above all settled ones.
            end: i64 = max(self.attempts.by_offset) + 1
            if end > settlement.cursor:
                settlement.mark(settlement.cursor, end, RETURNED)
                settlement.cursor = end

    def restore(self) -> None:
        """Make the records that settlements passed over ready, lowest first. Call once these are known."""
        self.returned = []
        self.returned_count = 0
        order = self.order
        for first, count in self.settlement.passed_over():
            if order is None:
                self.add(first, count)
            elif order.is_fair:
                order.add_pending(first, count)
            else:
                self.take_in_run(order, first, first + count)
        if order is not None:
            order.pending.sort(reverse=True)

    # ---- time and octets

    def next_expiry_us(self) -> i64:
        """Return the time at which the first of the records at the heads expires, or NEVER if none does.

        While an order has records to take in, return a past time: `take_in` has to be called to know it.
        """
        order = self.order
        due: i64 = NEVER
        for offset in self.refused.waiting:
            due = min(due, self.expiry.at(offset))
        if order is None:
            head = self.head()
            return min(due, self.expiry.at(head)) if head < self.log.end else due
        if self.settlement.cursor < self.log.end or order.unranked or order.pending:
            return UNKNOWN_US
        if order.has_more_heads():
            due = min(due, self.turn.now_us + HEADS_AGAIN_US)
        for level in order.heads():
            due = min(due, self.expiry.at(level.first()))
        return due

    def measure(self) -> None:
        """Count the bytes of the ready records, as long as a limit needs them."""
        octets = self.octets
        if self.limits.max_octets < 0 or self.last_values is not None:  # last values count the bytes themselves
            octets.measuring = False
            return
        if not octets.measuring:
            octets.begin(self.reader, self.settlement.cursor, self.runs())
        octets.measure_to(self.reader, self.log.end)
