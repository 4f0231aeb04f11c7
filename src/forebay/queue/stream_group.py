"""A stream group: a cursor over a log that forgets nothing when it is read.

Consumers of one group share its cursor: each record goes to one of them. `committed` is where the group resumes; it
never holds back retention. Records reach a stream only once they are on disk: an offset that a reader has seen must
still mean the same record after a crash.

What has expired stays in the stream, and is passed over by its readers.
"""

from __future__ import annotations

from collections import deque
from typing import final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.queue.expiry import expiry_us, has_expirations
from forebay.queue.facts import Facts, NoFacts
from forebay.queue.group import BURST, SCAN_RECORDS, Group
from forebay.queue.leases import UNLIMITED, Consumer, Delivery, Lease
from forebay.queue.limits import Limits
from forebay.queue.stream_values import Selection
from forebay.queue.trace import DELIVERED


@final
class StreamGroup(Group):
    """Cursor, and the deliveries whose acknowledgement gives credit back.

    committed  every lower offset has been read; the group resumes here
    auto       commit what was acknowledged by itself, at the broker's interval
    selection  None: all records are wanted
    limits     of the queue; what they say may change at any time
    """

    def __init__(
        self,
        id: i64,
        name: bytes,
        filter: bytes,
        log: QueueLog,
        start: i64,
        auto: bool,
        limits: Limits | None = None,
        facts: Facts | None = None,
    ) -> None:
        super().__init__(id, name, filter, log, start)
        self.limits = Limits() if limits is None else limits
        self.facts: Facts = NoFacts() if facts is None else facts
        self.now_us: i64 = 0  # of this turn
        self.has_expirations = False  # in the block that the cursor stands in
        self.expired: i64 = -1  # the record that was passed over last for its age
        self.committed: i64 = start
        self.logged: i64 = start  # value of `committed` that the write-ahead log has
        self.auto = auto
        self.selection: Selection | None = None
        self.looked_at: i64 = -1  # the record that was looked at last, and whether it is wanted
        self.looked_wanted = False
        self.open: deque[Lease] = deque()  # deliveries not wholly acknowledged, in order

    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        self.now_us = now_us
        self.budget = self.turn_octets
        self.scan = SCAN_RECORDS
        if self.selection is not None and self.selection.is_put_off():
            self.scan = 0
        log = self.log
        while self.budget > 0 and self.scan > 0:
            end = log.readable_end()
            if self.cursor < log.start:
                self.cursor = log.start  # retention went past the cursor
                self.block = None
            if self.cursor >= end:
                return False
            consumer = self.next_consumer()
            if consumer is None:
                return False
            most = consumer.credit
            if len(self.consumers) > 1:
                most = min(most, BURST)
                self.turn += 1
            most = min(most, end - self.cursor)
            delivery = self.take(consumer, most)
            if delivery is not None:
                out.append(delivery)
                self.counts.hand_out(delivery.count, delivery.lease is None, False)
        return True

    def take(self, consumer: Consumer, most: i64) -> Delivery | None:
        block = self.block
        if block is None or self.cursor >= block.end:
            block = self.next_block()
            if block is None:
                return None
        index = self.cursor - block.base
        most = min(most, block.count - index)
        count = self.wanted_run(block, index, most) if self.picky or self.may_expire() else most
        first = self.cursor
        if count < 0:
            self.cursor -= count
            return None
        self.cursor += count
        self.budget -= block.body_span(index, count) + 64 * count
        if self.trace is not None:
            self.trace.note(DELIVERED, self.name, consumer, first, count, self.log.stamp_us, "")
        if consumer.no_ack:
            return Delivery(consumer, block, index, count, None)
        consumer.credit -= count
        consumer.held += count
        lease = Lease(consumer, None, first, count, 0)
        self.open.append(lease)
        return Delivery(consumer, block, index, count, lease)

    def select(self, selection: Selection | None) -> None:
        """From here on deliver what is selected only."""
        self.selection = selection
        self.picky = selection is not None or len(self.filter) > 0
        self.looked_at = -1

    def next_block(self) -> Block | None:
        """The block that the cursor stands in; None where the cursor was moved over one without wanted records."""
        selection = self.selection
        if selection is not None and selection.values is None:
            selection = None  # of what a filter asks for nothing is known beforehand
        if selection is not None:
            span = selection.streams.known(self.log.queue, self.cursor)
            if span is not None and not selection.wants_any(span):
                self.cursor = span.end
                self.scan -= 1
                return None
        block = self.log.block(self.cursor)
        self.block = block
        assert block is not None
        self.has_expirations = has_expirations(block)
        self.cursor = max(self.cursor, block.base)
        if selection is not None and self.cursor == block.base:
            span = selection.streams.known(self.log.queue, block.base)
            if span is None:
                span = selection.streams.gather(self.log.queue, block)
                self.scan -= block.count
            if not selection.wants_any(span):
                self.cursor = block.end
                return None
        return block

    def wanted(self, block: Block, index: i64) -> bool:
        if not self.matches_key(block, index):
            return False
        selection = self.selection
        if selection is not None:
            offset = block.base + index
            if offset != self.looked_at:  # what ends one run begins the next
                self.looked_at = offset
                self.looked_wanted = selection.wants(block, index)
                self.scan -= selection.cost
            if not self.looked_wanted:
                return False
        return not self.may_expire() or not self.pass_expired(block, index)

    def may_expire(self) -> bool:
        """True if records of the block that the cursor stands in may expire."""
        limits = self.limits
        return self.has_expirations or limits.message_ttl_us >= 0 or len(limits.earlier_ttls) > 0

    def pass_expired(self, block: Block, index: i64) -> bool:
        """True if a wanted record has expired; each that has is counted, once."""
        if expiry_us(self.limits, self.facts, block, index) >= self.now_us:
            return False
        offset = block.base + index
        if offset != self.expired:
            self.expired = offset
            self.counts.expired += 1
        return True

    def matches_key(self, block: Block, index: i64) -> bool:
        """Whether the group's filter on routing keys wants a record."""
        return not self.filter or super().wanted(block, index)

    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        count = self.return_credit(lease, count)
        self.counts.acked += count
        return count

    def return_credit(self, lease: Lease, count: i64) -> i64:
        """Records of a lease count no longer towards what its consumer may hold; how many did until now."""
        count = min(count, lease.left)
        lease.left -= count
        consumer = lease.consumer
        consumer.held -= count
        if consumer.credit < UNLIMITED >> 1:
            consumer.credit += count
        return count

    def give_back(self, lease: Lease, first: i64, count: i64, due_us: i64, how: i64) -> i64:
        """A stream redelivers nothing: the credit returns, the cursor stays."""
        return self.return_credit(lease, count)

    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        return self.return_credit(lease, count)

    def remove(self, consumer: Consumer) -> None:
        self.detach(consumer)
        if self.auto:
            self.commit_read()
        if not self.consumers:
            # Whoever comes next resumes at what was committed.
            self.open.clear()
            self.seek(self.committed)
            return
        for lease in self.open:
            if lease.consumer is consumer:
                lease.left = 0

    def commit(self, offset: i64) -> None:
        """Resume at `offset`: an explicit commit, which may also go back."""
        self.committed = offset
        if not self.consumers:
            self.seek(offset)

    def move(self, offset: i64) -> None:
        """Go on at `offset` at once, and resume there; what is unacknowledged just now counts no more."""
        self.committed = offset
        self.open.clear()
        self.seek(offset)

    def seek(self, offset: i64) -> None:
        """Go on reading at `offset`."""
        self.damage = None
        self.cursor = offset
        self.block = None

    def commit_read(self) -> None:
        """Commit up to the first record that is still unacknowledged."""
        leases = self.open
        while leases and leases[0].left == 0:
            leases.popleft()
        committed = leases[0].first if leases else self.cursor
        self.committed = max(self.committed, committed)

    def ready(self) -> i64:
        cursor = max(self.log.start, self.cursor)
        return self.log.end - cursor

    def purge(self) -> i64:
        count = self.ready()
        self.cursor = self.log.end
        self.block = None
        return count

    def take_progress(self) -> bytes:
        if self.committed == self.logged:
            return b""
        self.logged = self.committed
        return self.snapshot()

    def restore(self, progress: bytes) -> None:
        self.committed = read_i64_le(progress, i64(len(progress)) - 8)
        self.logged = self.committed
        self.cursor = self.committed

    def snapshot(self) -> bytes:
        out = BytesWriter()
        write_i64_le(out, self.committed)
        return out.getvalue()
