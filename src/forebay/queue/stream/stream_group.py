"""A stream group: a cursor over a log that reading does not consume.

Consumers of one group share its cursor: each record goes to one of them. `committed` is where the group resumes. It
never holds back retention. A stream delivers only records that are on disk: an offset that a reader has seen must still
mean the same record after a crash.

Expired records stay in the stream, and readers pass over them.
"""

from __future__ import annotations

from collections import deque
from typing import final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from forebay.log.block import Block
from forebay.log.queue_log import QueueLog
from forebay.queue.declaration.limits import Limits
from forebay.queue.group import Group
from forebay.queue.leases.lease import FAILED, Consumer, Delivery, Lease
from forebay.queue.properties import PropertyReader
from forebay.queue.stream.stream_filter import StreamFilter
from forebay.queue.stream.stream_values import Selection
from forebay.queue.trace import DELIVERED
from forebay.queue.turn import SCAN_RECORDS


@final
class StreamGroup(Group):
    """A stream group.

    cursor     next offset to be read
    floor      lowest position of the cursor: the queue starts there, though the log may have lower records for others
    block      the block at the cursor
    committed  every lower offset has been read; the group resumes here
    logged     value of `committed` in the write-ahead log
    auto       commit acknowledged records automatically, at the broker's interval
    wanted     the filter of the readers
    open       deliveries not wholly acknowledged, in order
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
        properties: PropertyReader | None = None,
    ) -> None:
        super().__init__(id, name, filter, log, limits, properties)
        self.cursor: i64 = start
        self.floor: i64 = 0
        self.block: Block | None = None
        self.committed: i64 = start
        self.logged: i64 = start
        self.auto = auto
        self.wanted = StreamFilter(self.limits, self.properties, self.key_filter, self.turn)
        self.open: deque[Lease] = deque()

    # ---- delivering

    def dispatch(self, now_us: i64, out: list[Delivery]) -> bool:
        turn = self.turn
        turn.now_us = now_us
        turn.octets = turn.most_octets
        turn.looks = SCAN_RECORDS
        selection = self.wanted.selection
        if selection is not None and selection.is_put_off():
            turn.looks = 0
        log = self.reader.log
        fairness = self.fairness
        is_shared = len(self.consumers) > 1
        if is_shared:
            fairness.begin()
        while turn.octets > 0 and turn.looks > 0:
            end = log.readable_end()
            if self.cursor < log.start:
                self.cursor = log.start  # retention went past the cursor
                self.block = None
            if self.cursor >= end:
                return False
            consumer = fairness.next(self.consumers, b"")
            if consumer is None:
                return False
            waiting = end - self.cursor
            most = min(consumer.credit, waiting)
            if is_shared:
                is_filtered = selection is not None or self.key_filter.is_set
                most = min(most, fairness.share(self.consumers, consumer, 1 if is_filtered else waiting))
            delivery = self.take(consumer, most)
            if delivery is not None:
                out.append(delivery)
                if is_shared:
                    fairness.took(consumer, delivery.count)
                self.counts.deliver(delivery.count, delivery.lease is None, False)
        return True

    def take(self, consumer: Consumer, most: i64) -> Delivery | None:
        """Deliver the next run of at most `most` records. Return None if only unwanted ones were passed over."""
        block = self.block
        if block is None or self.cursor >= block.end:
            block = self.next_block()
            if block is None:
                return None
        first = self.cursor
        index = first - block.base
        count = min(most, block.count - index)
        if not self.wanted.wants_all():
            count = self.wanted.run_length(block, index, count, self.counts)
        if count < 0:
            self.cursor = first - count
            return None
        self.cursor = first + count
        self.turn.octets -= block.body_span(index, count) + 64 * count
        if self.trace is not None:
            self.trace.note(DELIVERED, self.name, consumer, first, count, self.reader.log.stamp_us, "")
        if consumer.no_ack:
            consumer.send(count)
            return Delivery(consumer, block, index, count, None)
        consumer.lend(count)
        lease = Lease(consumer, None, first, count, 0)
        self.open.append(lease)
        return Delivery(consumer, block, index, count, lease)

    def select(self, selection: Selection | None) -> None:
        """Deliver only selected records from here on."""
        self.wanted.select(selection)

    def next_block(self) -> Block | None:
        """Return the block at the cursor, or None if the cursor moved over one without wanted records."""
        log = self.reader.log
        selection = self.wanted.selection
        if selection is not None and selection.values is None:
            selection = None  # spans hold values only, so they cannot rule out a filter's matches
        if selection is not None:
            span = selection.streams.known(log.queue, self.cursor)
            if span is not None and not selection.wants_any(span):
                self.cursor = span.end
                self.turn.looks -= 1
                return None
        block = log.block(self.cursor)
        self.block = block
        assert block is not None
        self.wanted.enter(block)
        self.cursor = max(self.cursor, block.base)
        if selection is not None and self.cursor == block.base:
            span = selection.streams.known(log.queue, block.base)
            if span is None:
                span = selection.streams.gather(log.queue, block)
                self.turn.looks -= block.count
            if not selection.wants_any(span):
                self.cursor = block.end
                return None
        return block

    # ---- what comes back is credit

    def ack(self, lease: Lease, first: i64, count: i64) -> i64:
        count = self.release(lease, count)
        self.counts.acked += count
        return count

    def release(self, lease: Lease, count: i64) -> i64:
        """Record that the consumer of a lease no longer holds `count` records. Return how many it held."""
        count = min(count, lease.left)
        lease.left -= count
        lease.consumer.release(count)
        return count

    def give_back(self, lease: Lease, first: i64, count: i64, due_us: i64, how: i64) -> i64:
        """Return only the credit. A stream redelivers nothing, and the cursor stays."""
        return self.release(lease, count)

    def reject(self, lease: Lease, first: i64, count: i64) -> i64:
        return self.release(lease, count)

    def remove(self, consumer: Consumer, how: i64 = FAILED) -> None:
        self.detach(consumer)
        if self.auto:
            self.commit_read()
        if not self.consumers:
            # The next consumer resumes at the committed offset.
            self.open.clear()
            self.seek(self.committed)
            return
        for lease in self.open:
            if lease.consumer is consumer:
                lease.left = 0

    # ---- where it stands

    def commit(self, offset: i64) -> None:
        """Commit `offset` as the place to resume. An explicit commit may also go back."""
        self.committed = offset
        if not self.consumers:
            self.seek(offset)

    def move(self, offset: i64) -> None:
        """Move the cursor and the committed offset to `offset`. Unacknowledged deliveries no longer count."""
        self.committed = offset
        self.open.clear()
        self.seek(offset)

    def seek(self, offset: i64) -> None:
        """Continue reading at `offset`."""
        self.reader.damage = None
        self.cursor = max(offset, self.floor)
        self.block = None

    def pass_over(self, below: i64) -> None:
        """Move the cursor up to `below`, and never below it again."""
        self.floor = max(self.floor, below)
        if self.cursor < below:
            self.cursor = below
            self.block = None

    def commit_read(self) -> None:
        """Commit up to the first record that is still unacknowledged."""
        leases = self.open
        while leases and leases[0].left == 0:
            leases.popleft()
        committed = leases[0].first if leases else self.cursor
        self.committed = max(self.committed, committed)

    def ready(self) -> i64:
        log = self.reader.log
        return log.end - max(log.start, self.cursor)

    def purge(self) -> i64:
        count = self.ready()
        self.cursor = self.reader.log.end
        self.block = None
        return count

    def next_offset(self) -> i64:
        return self.cursor

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
