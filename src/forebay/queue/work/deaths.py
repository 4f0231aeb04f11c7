"""Deaths of records that no consumer holds: expired, over a limit, or for a cause that their group names.

A record that dies waits among the dead letters of its group. It is settled at once if the queue has no dead-letter
exchange.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.queue.counts import EXPIRED, MAXLEN
from forebay.queue.group import Group
from forebay.queue.leases.page import DEAD_LETTER
from forebay.queue.ready.order import Order
from forebay.queue.ready.ready_queue import ReadyQueue
from forebay.queue.trace import DIED
from forebay.queue.work.dead_letters import DeadLetterBacklog
from forebay.queue.work.refused_offers import RefusedOffers


@final
class RecordDeaths:
    """The deaths in one group.

    group         the group whose counters and trace record them
    dead_letters  records that died and are not moved yet
    """

    def __init__(
        self, group: Group, ready_queue: ReadyQueue, refused_offers: RefusedOffers, dead_letters: DeadLetterBacklog
    ) -> None:
        self.group = group
        self.limits = group.limits
        self.ready_queue = ready_queue
        self.refused_offers = refused_offers
        self.dead_letters = dead_letters

    def dead_letter(self, first: i64, count: i64, cause: str, attempts: i64) -> None:
        """Let records die that wait nowhere and that no consumer holds."""
        self.group.counts.die(cause, count)
        if self.group.trace is not None:
            self.group.trace.note(DIED, self.group.name, None, first, count, self.group.turn.now_us, cause)
        self.ready_queue.forget_refused(first, count)
        if self.limits.dead_letter_exchange is None:
            self.ready_queue.settle_modified(first, count)
            return
        if self.ready_queue.attempts.by_offset and not self.limits.notes_deliveries:
            # If no crash may lose a count, it stays for the checkpoints until the record is settled.
            self.ready_queue.attempts.forget_counts(first, count)
        self.ready_queue.settlement.mark(first, first + count, DEAD_LETTER)
        self.dead_letters.add(first, count, cause, attempts)

    def dead_letter_ready(self, first: i64, count: i64, cause: str) -> None:
        """Let ready records die, as `dead_letter` does."""
        ready = self.ready_queue
        if ready.octets.measuring:
            ready.octets.count -= self.ready_queue.reader.body_octets(first, first + count)
        if not self.ready_queue.attempts.by_offset:
            self.dead_letter(first, count, cause, 0)
            return
        for offset in range(first, first + count):
            self.dead_letter(offset, 1, cause, self.ready_queue.attempts.of(offset))

    def drop_head(self, most: i64, cause: str) -> i64:
        """Let at most `most` next records die. Return how many did, or 0 if none can be next."""
        first, count = self.ready_queue.take_head(most)
        if count:
            self.dead_letter_ready(first, count, cause)
        return count

    def drop_excess(self) -> None:
        """Let the records beyond the queue's limits die, from the front."""
        limits = self.limits
        if limits.max_messages >= 0:
            excess = self.ready_queue.count() - limits.max_messages
            while excess > 0:
                dropped = self.drop_head(excess, MAXLEN)
                if dropped == 0:
                    break
                excess -= dropped
        ready = self.ready_queue
        ready.measure()
        while ready.octets.measuring and ready.octets.count > limits.max_octets:
            if self.drop_head(1, MAXLEN) == 0:
                break

    def drop_expired(self, now_us: i64) -> None:
        """Let expired records at the head die. With priorities, that is the head of each level."""
        ready = self.ready_queue
        order = ready.order
        if ready.refused.waiting:
            for offset in self.refused_offers.take_expired(now_us):
                self.dead_letter_ready(offset, 1, EXPIRED)
        if order is not None:
            while self.drop_expired_heads(order, now_us):
                pass  # a death releases the next record of its message group, perhaps at another level
            return
        first, count = ready.take_expired(now_us)
        while count:
            self.dead_letter_ready(first, count, EXPIRED)
            first, count = ready.take_expired(now_us)

    def drop_expired_heads(self, order: Order, now_us: i64) -> bool:
        """Let expired records at the head of each level die. Return whether any did."""
        expiry = self.ready_queue.expiry
        dropped = False
        for level in order.heads():
            while level.count and expiry.at(level.first()) < now_us:
                first = level.first()
                level.take(1)
                order.count -= 1
                self.dead_letter_ready(first, 1, EXPIRED)
                order.trim(level)
                dropped = True
        return dropped
