"""The records of a work group that wait to be handed out, their order, and those that die while they wait.

A plain queue hands out what was returned, lowest offset first, then what stands at the cursor. Where priorities or
message groups order the queue, every record is taken into its `Order` once it is sealed.
"""

from __future__ import annotations

import heapq
from typing import Final

from mypy_extensions import i64

from forebay.core.message import EXPIRES
from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.queue.counts import EXPIRED, MAXLEN
from forebay.queue.expiry import NEVER, expiry_us
from forebay.queue.facts import Facts, NoFacts
from forebay.queue.leases import DELAYED, DYING, RETURNED, Dying
from forebay.queue.limits import DROP_HEAD, Limits
from forebay.queue.order import Order
from forebay.queue.settlement import Settlement
from forebay.queue.trace import DIED

TAKE_IN_RECORDS: Final = 65_536  # most that an ordered group takes in before it lets others have the turn
FAILURE: Final = 1 << 32  # of `attempts`: failures are counted above the times handed out
FROM_NOW: Final = -(1 << 62)  # added to a length of time: it counts from the next look at the clock


class Waiting(Settlement):
    """The records that wait, and those that died.

    limits       of the queue; what they say may change at any time
    perishable   its records may expire
    returned     heap of (first, count) to hand out again now, unless `order` has them
    delayed      heap of (due, first, count)
    dying        those that died and are neither moved nor settled yet
    measuring    `ready_octets` is kept, for a limit on octets, of the records below `measured`
    """

    def __init__(
        self, id: i64, name: bytes, filter: bytes, log: QueueLog, start: i64, limits: Limits | None, facts: Facts | None
    ) -> None:
        super().__init__(id, name, filter, log, start)
        self.limits = Limits() if limits is None else limits
        self.facts: Facts = NoFacts() if facts is None else facts
        self.order: Order | None = None
        self.perishable = True
        self.returned: list[tuple[int, int]] = []
        self.returned_count: i64 = 0
        self.delayed: list[tuple[int, int, int]] = []
        self.delayed_count: i64 = 0
        self.dying: list[Dying] = []
        self.dying_count: i64 = 0
        self.measuring = False
        self.measured: i64 = 0
        self.ready_octets: i64 = 0
        self.now_us: i64 = 0  # at the last look at the clock
        self.head: i64 = -1  # the record whose expiry was looked up last, and what was found
        self.head_ttl_us: i64 = -1
        self.head_expiry_us: i64 = NEVER

    # ---- what is next

    def is_drained(self) -> bool:
        order = self.order
        if order is not None:
            return order.count == 0
        return not self.returned and self.cursor >= self.log.end

    def ready(self) -> i64:
        order = self.order
        waiting = self.returned_count if order is None else order.count + order.parked
        return self.log.end - self.cursor + waiting

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
            self.settle_noted(first, base)
        return block

    def cursor_block(self) -> Block | None:
        """The block that the cursor stands in, looked up only where it has left the one before."""
        block = self.block
        if block is None or self.cursor >= block.end:
            return self.next_block()
        return block

    def settle_noted(self, first: i64, end: i64) -> None:
        """Settle records that nobody holds."""
        self.settle_range(first, end)
        self.note(first, end)

    def pass_over(self, first: i64, total: i64, base: i64) -> None:
        """Of a returned run what is below `base` is in the log no more, though no note says that it was settled."""
        count = min(total, base - first)
        self.settle_noted(first, first + count)
        self.forget_attempts(first, count)
        self.returned_count -= count
        if count < total:
            heapq.heappush(self.returned, (first + count, total - count))

    def push_returned(self, first: i64, count: i64, due_us: i64) -> None:
        """Records wait again, from `due_us` on; their state is RETURNED already.

        due_us  below 0: FROM_NOW and how long, for who is given them back and does not know what time it is
        """
        if due_us != 0:
            self.mark_range(first, first + count, DELAYED)
            heapq.heappush(self.delayed, (int(due_us), int(first), int(count)))
            self.delayed_count += count
            return
        if self.measuring:
            self.ready_octets += self.body_octets(first, first + count)
        order = self.order
        if order is None:
            heapq.heappush(self.returned, (int(first), int(count)))
            self.returned_count += count
            return
        end = first + count
        while first < end:
            block = self.readable(first)
            if block is None and self.damage is not None:
                self.stuck = True  # what it is, and so where it would wait, is not known
                return
            assert block is not None and block.base <= first, "a record that was held is in the log"
            stop = min(block.end, end)
            order.give_back(block, first - block.base, stop - first)
            first = stop

    def push_due(self, now_us: i64) -> None:
        """Delayed records whose time has come wait like the others."""
        while self.delayed and self.delayed[0][0] < 0:
            rest_us, first, count = heapq.heappop(self.delayed)
            heapq.heappush(self.delayed, (int(rest_us - FROM_NOW + now_us), first, count))
        while self.delayed and self.delayed[0][0] <= now_us:
            _, first, count = heapq.heappop(self.delayed)
            self.delayed_count -= count
            self.mark_range(first, first + count, RETURNED)
            self.push_returned(first, count, 0)

    # ---- order

    def make_ordered(self, returned_first: bool) -> None:
        """Hand out by priority and message group from now on."""
        order = Order(self.limits, self.facts, returned_first, self.pages)
        self.order = order
        waiting, self.returned = self.returned, []
        self.returned_count = 0
        for first, count in sorted(waiting):
            self.take_in_run(order, first, first + count)

    def take_in(self, order: Order) -> bool:
        """Put in order what was sealed since the last call; False if there is more than one turn's share."""
        left: i64 = TAKE_IN_RECORDS
        while self.cursor < self.log.end:
            if left <= 0 or self.scan <= 0:
                return False
            block = self.cursor_block()
            if block is None:
                return True
            index = self.cursor - block.base
            count = self.run_length(block, index, block.count - index)
            first = self.cursor
            if count < 0:
                self.cursor -= count
                self.settle_noted(first, self.cursor)
                continue
            self.cursor += count
            left -= count
            self.mark_range(first, self.cursor, RETURNED)
            order.take_in(block, index, count)
        return True

    def take_in_run(self, order: Order, first: i64, end: i64) -> None:
        """As `take_in`, for records below the cursor."""
        while first < end:
            block = self.readable(first)
            if block is None and self.damage is not None:
                self.stuck = True
                return
            base = end if block is None else min(block.base, end)
            if block is None or base > first:
                self.settle_noted(first, base)
                first = base
                continue
            stop = min(block.end, end)
            order.take_in(block, first - block.base, stop - first)
            first = stop

    def follow(self, order: Order, first: i64, count: i64) -> None:
        """Records are settled: those that waited behind them in their message groups can be handed out."""
        if not order.keys:
            return
        for offset in range(first, first + count):
            following = order.follow(offset)
            while following >= 0:
                block = self.readable(following)
                if block is None and self.damage is not None:
                    self.stuck = True
                    return
                if block is not None and block.base <= following:
                    order.release(block, following - block.base)
                    break
                following = order.follow(following)

    # ---- dying

    def kill(self, first: i64, count: i64, cause: str, attempts: i64) -> None:
        """Records that wait nowhere any more, and that nobody holds, die."""
        self.counts.die(cause, count)
        if self.trace is not None:
            self.trace.note(DIED, self.name, None, first, count, self.now_us, cause)
        if self.attempts:
            self.forget_attempts(first, count)
        if self.limits.dead_letter_exchange is None:
            self.settle_noted(first, first + count)
            if self.order is not None:
                self.follow(self.order, first, count)
            return
        self.mark_range(first, first + count, DYING)
        self.dying_count += count
        deliveries = attempts & (FAILURE - 1)
        failures = attempts // FAILURE
        last = self.dying[len(self.dying) - 1] if self.dying else None
        follows = last is not None and last.first + last.count == first and last.cause == cause
        if last is not None and follows and last.deliveries == deliveries and last.failures == failures:
            last.count += count
            return
        self.dying.append(Dying(first, count, cause, deliveries, failures))

    def bury(self, first: i64, count: i64) -> None:
        """Dying records were moved, or nobody wants them: they are settled."""
        self.dying_count -= count
        self.settle_noted(first, first + count)
        if self.order is not None:
            self.follow(self.order, first, count)

    def kill_waiting(self, first: i64, count: i64, cause: str) -> None:
        """As `kill`, for records that were ready until now."""
        if self.measuring:
            self.ready_octets -= self.body_octets(first, first + count)
        if not self.attempts:
            self.kill(first, count, cause, 0)
            return
        for offset in range(first, first + count):
            self.kill(offset, 1, cause, self.attempts.get(offset, 0))

    def drop_head(self, most: i64, cause: str) -> i64:
        """Have the next records die, at most so many; how many did. 0 where none can be next."""
        order = self.order
        if order is not None:
            self.take_in(order)
            if not order.count:
                return 0
            first = order.choose()
            # What dies of a message group lets the next of it come, perhaps before the rest of the run.
            count = 1 if order.keys else order.length(most)
            order.take(count)
        elif self.returned:
            first, total = heapq.heappop(self.returned)
            count = min(total, most)
            if count < total:
                heapq.heappush(self.returned, (first + count, total - count))
            self.returned_count -= count
        else:
            block = self.cursor_block() if self.cursor < self.log.end else None
            if block is None:
                return 0
            first = self.cursor
            count = min(block.end - first, most)
            self.cursor += count
        self.kill_waiting(first, count, cause)
        return count

    def drop_excess(self) -> None:
        """Have die from the front what is more than the queue's limits allow."""
        limits = self.limits
        if limits.max_messages >= 0:
            excess = self.ready() - limits.max_messages
            while excess > 0:
                dropped = self.drop_head(excess, MAXLEN)
                if dropped == 0:
                    break
                excess -= dropped
        self.measure()
        while self.measuring and self.ready_octets > limits.max_octets:
            if self.drop_head(1, MAXLEN) == 0:
                break

    def look_after(self, now_us: i64) -> bool:
        """After everybody has got what there was: let expire what is left, and drop what is too much.

        Whether a limit of the turn left some of it for the next.
        """
        more = False
        if self.perishable:
            if self.order is not None:
                more = not self.take_in(self.order)
            # What expires just now was only for whom it could be given to at once: all with a time to live of 0.
            self.drop_expired(now_us + 1)
        if self.limits.overflow == DROP_HEAD and (self.limits.max_messages >= 0 or self.limits.max_octets >= 0):
            self.drop_excess()
        return more

    def purge(self) -> i64:
        count = self.ready()
        order = self.order
        waiting = self.returned if order is None else order.take_all()
        for first, total in waiting:
            self.settle_noted(first, first + total)
            self.forget_attempts(first, total)
        self.returned = []
        self.returned_count = 0
        if self.stuck:
            for first, total in self.passed_over():
                self.settle_noted(first, first + total)
                self.forget_attempts(first, total)
        self.stuck = False
        self.damage = None
        first = self.cursor
        self.cursor = self.log.end
        self.settle_noted(first, self.cursor)
        self.block = None
        self.ready_octets = 0
        self.measured = self.cursor
        self.counts.purged += count
        return count

    # ---- expiry

    def drop_expired(self, now_us: i64) -> None:
        """Have die what has expired at the head; at that of each level, where the queue has priorities."""
        order = self.order
        if order is not None:
            while self.drop_expired_heads(order, now_us):
                pass  # what died let others of its message group come, perhaps at another level
            return
        while self.returned and self.expiry_at(self.returned[0][0]) < now_us:
            first, total = heapq.heappop(self.returned)
            if total > 1:
                heapq.heappush(self.returned, (first + 1, total - 1))
            self.returned_count -= 1
            self.kill_waiting(first, 1, EXPIRED)
        if self.returned:
            return
        while self.cursor < self.log.end:
            block = self.cursor_block()
            if block is None:
                return
            index = self.cursor - block.base
            count = self.stale(block, index, now_us)
            if count == 0:
                return
            first = self.cursor
            self.cursor += count
            if self.filter and self.run_length(block, index, 1) < 0:
                self.settle_noted(first, self.cursor)
            else:
                self.kill_waiting(first, count, EXPIRED)

    def drop_expired_heads(self, order: Order, now_us: i64) -> bool:
        """Have die what has expired at the head of each level; whether anything did."""
        dropped = False
        for level in order.heads():
            while level.count and self.expiry_at(level.first()) < now_us:
                first = level.first()
                level.take(1)
                order.count -= 1
                self.kill_waiting(first, 1, EXPIRED)
                order.trim(level)
                dropped = True
        return dropped

    def stale(self, block: Block, index: i64, now_us: i64) -> i64:
        """How many records from `index` on have expired, one after the other; of a filtered group one at most."""
        at = index
        most = index + 1 if self.filter else block.count
        while at < most and self.expiry_us(block, at) < now_us:
            at += 1
        return at - index

    def fresh(self, block: Block, index: i64, count: i64, now_us: i64) -> i64:
        """How many of `count` records come before the next that has expired; the first has not."""
        formats = block.formats_at
        at = index + 1
        end = index + count
        if self.limits.earlier_ttls:
            end = min(end, self.limits.ttl_holds_to(block.base + index) - block.base)
        while at < end:
            # With one time to live the later do not expire before the earlier, but by what they say themselves.
            if i64(block.data[formats + at]) & EXPIRES and self.expiry_us(block, at) < now_us:
                break
            at += 1
        return at - index

    def expiry_us(self, block: Block, index: i64) -> i64:
        """When a record expires; NEVER if it does not."""
        return expiry_us(self.limits, self.facts, block, index)

    def expiry_at(self, offset: i64) -> i64:
        """As `expiry_us`, looked up once for the record asked of last."""
        if offset != self.head or self.limits.message_ttl_us != self.head_ttl_us:
            block = self.readable(offset)
            if block is None or block.base > offset:
                return NEVER
            self.head = offset
            self.head_ttl_us = self.limits.message_ttl_us
            self.head_expiry_us = self.expiry_us(block, offset - block.base)
        return self.head_expiry_us

    def next_expiry_us(self) -> i64:
        """When the first of the records at the heads expires; NEVER if none does."""
        order = self.order
        if order is None:
            if self.returned:
                return self.expiry_at(self.returned[0][0])
            return self.expiry_at(self.cursor) if self.cursor < self.log.end else NEVER
        due: i64 = NEVER
        for level in order.heads():
            due = min(due, self.expiry_at(level.first()))
        return due

    # ---- octets

    def measure(self) -> None:
        """Count the octets of what is ready, as long as a limit asks for them."""
        if self.limits.max_octets < 0:
            self.measuring = False
            return
        if not self.measuring:
            self.measuring = True
            self.ready_octets = 0
            self.measured = self.cursor
            for first, count in self.waiting_runs():
                self.ready_octets += self.body_octets(first, first + count)
        if self.measured < self.log.end:
            self.ready_octets += self.body_octets(self.measured, self.log.end)
            self.measured = self.log.end

    def waiting_runs(self) -> list[tuple[int, int]]:
        """The runs of records below the cursor that can be handed out now."""
        order = self.order
        if order is None:
            return self.returned
        return order.runs()

    def body_octets(self, first: i64, end: i64) -> i64:
        """Octets of the bodies of the records [first, end) that are in the log."""
        octets: i64 = 0
        while first < end:
            block = self.readable(first)
            if block is None or block.base >= end:
                break
            first = max(first, block.base)
            stop = min(block.end, end)
            octets += block.body_span(first - block.base, stop - first)
            first = stop
        return octets

    # ---- beginning anew

    def wait_anew(self) -> None:
        """After `start_over`: what is not settled waits, and nothing else is known of it."""
        order = self.order
        if order is not None:
            self.order = Order(self.limits, self.facts, order.returned is not None, self.pages)
        self.delayed = []
        self.delayed_count = 0
        self.measuring = False
        self.head = -1
        self.damage = None
        self.stuck = False
        self.finish_restore()

    # ---- recovery

    def finish_restore(self) -> None:
        """After the last `restore`: what was passed over is ready again, lowest first."""
        self.prune_attempts()
        if self.attempts:
            # What came back and was handed out again before the broker stopped may stand above all that is settled.
            end = max(self.attempts) + 1
            if end > self.cursor:
                self.return_range(self.cursor, end)
                self.cursor = end
        self.returned = []
        self.returned_count = 0
        for first, count in self.passed_over():
            if self.order is None:
                self.push_returned(first, count, 0)
            else:
                self.take_in_run(self.order, first, first + count)
