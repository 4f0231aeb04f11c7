"""A work group with limits on deliveries and cancels, settling by choice and in advance, and restarts, against a model.

The model keeps each record as a row: whether it waits, is held, dies or is settled, and its counts, which no restart
may lose.
"""

from __future__ import annotations

import tempfile

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay.core.message import AMQP091
from forebay.queue.declaration.limits import NO_PRIORITY, STRICT, Limits
from forebay.queue.leases.lease import FAILED, NACKED, UNLIMITED, UNTRIED, Consumer, Delivery, Lease
from forebay.queue.work.sifting import acknowledge_waiting, apply_early_acks, expire_waiting, is_waiting
from forebay.queue.work.work_group import WorkGroup
from tests.logs import memory_log

READY, HELD, DYING, SETTLED = "ready", "held", "dying", "settled"
SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


class Row:
    """A record of the model."""

    def __init__(self) -> None:
        self.state = READY
        self.deliveries = 0
        self.cancels = 0
        self.lease: Lease | None = None


class SettlingMachine(RuleBasedStateMachine):
    """`rows` is the model: all records, by offset; `early` the offsets that are acknowledged in advance."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.log = memory_log(self.folder.name)
        self.rows: list[Row] = []
        self.early: set[int] = set()
        self.now_us = 1
        self.progress = b""
        self.returns = b""

    @initialize(priorities=st.booleans(), deliveries=st.sampled_from([0, 1, 2, 3]), cancels=st.sampled_from([0, 1, 2]))
    def begin(self, priorities: bool, deliveries: int, cancels: int) -> None:
        self.limits = Limits()
        self.limits.priority_mode = STRICT if priorities else NO_PRIORITY
        self.limits.max_deliveries, self.limits.max_cancels = deliveries, cancels
        self.limits.notes_deliveries = True
        self.limits.dead_letter_exchange = b"dlx"
        self.group = self.fresh_group()

    def fresh_group(self) -> WorkGroup:
        group = WorkGroup(1, b"", b"", self.log, 0, self.limits)
        if self.limits.priority_mode:
            group.ready_queue.make_ordered(False)
        self.consumer = Consumer(1, 1, 1, 1, 0, b"", False, UNLIMITED)
        return group

    def offsets(self, *states: str) -> list[int]:
        return [offset for offset, row in enumerate(self.rows) if row.state in states]

    def come_back(self, row: Row, cancelled: bool = False) -> None:
        """A row returns, or dies of its counts."""
        row.lease = None
        row.cancels += cancelled and self.limits.max_cancels > 0
        spent = 0 < self.limits.max_deliveries <= row.deliveries
        row.state = DYING if spent or 0 < self.limits.max_cancels <= row.cancels else READY

    # ---- what happens

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        for _ in range(count):
            row = Row()
            if len(self.rows) in self.early:
                self.early.discard(len(self.rows))
                row.state = SETTLED
            self.rows.append(row)
            self.log.append(AMQP091, b"", b"k", b"", b"body")
        self.log.seal(self.now_us)
        apply_early_acks(self.group, self.now_us)

    @rule(most=st.integers(1, 4))
    def deliver(self, most: int) -> None:
        self.consumer.credit = most
        self.group.add(self.consumer)
        out: list[Delivery] = []
        self.group.dispatch(self.now_us, out)
        self.group.detach(self.consumer)
        came = 0
        for delivery in out:
            self.group.note_delivery(delivery)
            assert delivery.lease is not None
            for offset in range(delivery.lease.first, delivery.lease.first + delivery.lease.count):
                row = self.rows[offset]
                assert row.state == READY
                row.state, row.lease = HELD, delivery.lease
                row.deliveries += 1
                came += 1
                if self.limits.max_deliveries:
                    assert delivery.deliveries == row.deliveries, "no count is lost"
        assert came == min(most, came + len(self.offsets(READY)))

    @precondition(lambda self: self.offsets(HELD))
    @rule(data=st.data(), how=st.sampled_from(["ack", "nack", "fail", "untried"]))
    def settle_held(self, data: st.DataObject, how: str) -> None:
        offset = data.draw(st.sampled_from(self.offsets(HELD)))
        row = self.rows[offset]
        assert row.lease is not None
        if how == "ack":
            assert self.group.ack(row.lease, offset, 1) == 1
            row.state = SETTLED
            return
        returned = {"nack": NACKED, "fail": FAILED, "untried": UNTRIED}[how]
        assert self.group.give_back(row.lease, offset, 1, 0, returned) == 1
        self.come_back(row, how == "nack")

    @precondition(lambda self: self.offsets(READY))
    @rule(data=st.data(), expires=st.booleans())
    def settle_waiting(self, data: st.DataObject, expires: bool) -> None:
        chosen = data.draw(st.sets(st.sampled_from(self.offsets(READY)), min_size=1))
        (expire_waiting if expires else acknowledge_waiting)(self.group, chosen)
        for offset in chosen:
            self.rows[offset].state = DYING if expires else SETTLED

    @rule(ahead=st.integers(0, 6), count=st.integers(1, 3))
    def acknowledge_in_advance(self, ahead: int, count: int) -> None:
        first = len(self.rows) + ahead
        early = self.group.attempts.early
        assert early.keep(first, first + count, self.now_us + DAY_US, self.group.attempts.notes)
        self.early |= set(range(first, first + count))

    @rule()
    def move_dead_letters(self) -> None:
        runs, self.group.dead_letters.runs = self.group.dead_letters.runs, []
        for run in runs:
            self.group.settle_dead_letters(run.first, run.count)
        for offset in self.offsets(DYING):
            self.rows[offset].state = SETTLED

    # ---- the end of the broker

    @rule(checkpoint=st.booleans())
    def restart(self, checkpoint: bool) -> None:
        group = self.group
        if checkpoint:
            group.take_progress()
            self.progress, self.returns = group.snapshot(), group.snapshot_returns()
        else:
            self.returns += group.attempts.take_notes()
            self.progress += group.take_progress()
        self.group = self.fresh_group()
        self.group.attempts.restore(self.returns)
        self.group.restore(self.progress)
        self.group.finish_restore(self.now_us)
        for row in self.rows:
            if row.state in {HELD, DYING}:
                self.come_back(row)

    def teardown(self) -> None:
        self.folder.cleanup()

    # ---- what must hold

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "group"):
            return
        for offset, row in enumerate(self.rows):
            assert self.group.settlement.is_settled(offset) == (row.state == SETTLED), (offset, row.state)
            assert is_waiting(self.group, offset) == (row.state == READY), (offset, row.state)
        assert self.group.ready() == len(self.offsets(READY))
        assert self.group.dead_letters.count == len(self.offsets(DYING))


TestSettling = SettlingMachine.TestCase
