"""A work group with priorities, message groups, expirations, a length and a delivery limit, against a naive model.

The model keeps each record as a row and decides anew, by looking at all rows, what must come next.
"""

from __future__ import annotations

import tempfile
from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay.core.message import AMQP091, EXPIRES, KEYED
from forebay.filter.subject import Subject
from forebay.log.block import Block
from forebay.queue.declaration.limits import NO_PRIORITY, STRICT, Limits
from forebay.queue.leases.lease import FAILED, NACKED, UNLIMITED, UNTRIED, Consumer, Delivery, Lease
from forebay.queue.properties import NoSubject, PropertyReader
from forebay.queue.work.work_group import WorkGroup
from tests.logs import memory_log

READY, HELD, DYING, SETTLED = "ready", "held", "dying", "settled"
KEYS = (b"", b"a", b"b")
HOW = {"nack": NACKED, "fail": FAILED, "untried": UNTRIED}


class RowFacts(PropertyReader):
    """A record's routing key is `<priority>:<message group>`, its properties the expiration in µs."""

    def priority(self, block: Block, index: int) -> int:
        return int(block.routing_key(index).partition(b":")[0])

    def expiration_us(self, block: Block, index: int) -> int:
        return int(block.properties(index))

    def key(self, block: Block, index: int) -> bytes:
        return block.routing_key(index).partition(b":")[2]

    def filter_value(self, block: Block, index: int) -> bytes | None:
        return None

    def has_topic(self, block: Block, index: int) -> bool:
        return False

    def subject(self, queue: bytes, block: Block, index: int, deliveries: int, failures: int) -> Subject:
        return NoSubject()


class Row:
    def __init__(self, offset: int, priority: int, key: bytes, expiry_us: int | None, stamp_us: int) -> None:
        self.offset = offset
        self.priority = priority
        self.key = key
        self.expiry_us = expiry_us
        self.stamp_us = stamp_us
        self.state = READY
        self.lease: Lease | None = None
        self.deliveries = 0
        self.failures = 0


class WaitingMachine(RuleBasedStateMachine):
    """`rows` is the model: all records, by offset."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.log = memory_log(self.folder.name)
        self.rows: list[Row] = []
        self.now_us = 1
        self.limits = Limits()
        self.progress = b""
        self.returns = b""
        self.counted: Counter[str] = Counter()

    @initialize(
        priorities=st.booleans(),
        keyed=st.booleans(),
        most=st.sampled_from([-1, 0, 3, 8]),
        dead=st.booleans(),
        limit=st.sampled_from([-1, 0, 1]),
        ttl=st.sampled_from([-1, 50]),
        credit=st.sampled_from([1, 3, UNLIMITED]),
    )
    def begin(self, priorities: bool, keyed: bool, most: int, dead: bool, limit: int, ttl: int, credit: int) -> None:
        self.limits.priority_mode = STRICT if priorities else NO_PRIORITY
        self.limits.max_priority = 2 if priorities else 0
        self.limits.max_messages = most
        self.limits.dead_letter_exchange = b"dlx" if dead else None
        self.limits.delivery_limit = limit
        self.limits.message_ttl_us = ttl
        self.keyed = keyed
        self.group = self.fresh_group()
        self.credit = credit
        self.consumer = Consumer(1, 1, 1, 1, 0, b"", False, credit)
        self.group.add(self.consumer)

    def fresh_group(self) -> WorkGroup:
        group = WorkGroup(1, b"", b"", self.log, 0, self.limits, RowFacts())
        if self.keyed or self.limits.priority_mode:
            group.ready_queue.make_ordered(False)
        return group

    # ---- the model

    def ready(self) -> list[Row]:
        """What counts as ready, parked records too."""
        return [row for row in self.rows if row.state == READY]

    def next_rows(self) -> list[Row]:
        """What may be delivered, in order."""
        out = {row.key for row in self.rows if row.key and row.state in {HELD, DYING}}
        rows = []
        for row in self.ready():
            if not row.key or row.key not in out:
                rows.append(row)
                out.add(row.key) if row.key else None
        return sorted(rows, key=lambda row: (-row.priority if self.limits.priority_mode else 0, row.offset))

    def heads(self) -> list[Row]:
        """The next row, and that of each level where there are levels."""
        found: dict[int, Row] = {}
        for row in self.next_rows():
            found.setdefault(row.priority if self.limits.priority_mode else 0, row)
        return list(found.values())

    def die(self, row: Row, cause: str) -> None:
        self.counted[cause] += 1
        row.state = DYING if self.limits.dead_letter_exchange is not None else SETTLED

    def is_over(self, row: Row, late_us: int = 0) -> bool:
        ttl = self.limits.message_ttl_us
        ends = [row.stamp_us + ttl] if ttl >= 0 else []
        if row.expiry_us is not None:
            ends.append(row.stamp_us + row.expiry_us)
        return bool(ends) and min(ends) < self.now_us + late_us

    def let_expire(self, late_us: int = 0) -> None:
        while over := [row for row in self.heads() if self.is_over(row, late_us)]:
            for row in over:
                self.die(row, "expired")

    def teardown(self) -> None:
        self.folder.cleanup()

    # ---- what happens

    @rule(
        records=st.lists(
            st.tuples(st.integers(0, 3), st.sampled_from(KEYS), st.sampled_from([None, None, 20, 90])),
            min_size=1,
            max_size=12,
        )
    )
    def publish(self, records: list[tuple[int, bytes, int | None]]) -> None:
        for priority, group, expiration in records:
            key = group if self.keyed else b""
            marks = (KEYED if key else 0) | (0 if expiration is None else EXPIRES)
            properties = b"" if expiration is None else b"%d" % expiration
            self.log.append(AMQP091 | marks, b"", b"%d:%b" % (priority, key), properties, b"x")
            level = min(priority, self.limits.max_priority)
            self.rows.append(Row(len(self.rows), level, key, expiration, self.now_us))
        self.log.seal(self.now_us)

    @rule(passed=st.sampled_from([0, 5, 30, 100]))
    def turn(self, passed: int) -> None:
        self.now_us += passed
        out: list[Delivery] = []
        self.group.dispatch(self.now_us, out)
        self.let_expire()
        for delivery in out:
            lease = delivery.lease
            assert lease is not None
            for offset in range(lease.first, lease.first + lease.count):
                row = self.next_rows()[0]
                assert row.offset == offset
                assert (delivery.deliveries, delivery.failures) == (row.deliveries + 1, row.failures)
                self.counted["delivered"] += 1
                self.counted["redelivered"] += row.deliveries > 0
                row.state, row.lease, row.deliveries = HELD, lease, row.deliveries + 1
                self.let_expire()
        assert self.consumer.credit == 0 or not self.next_rows()
        self.group.look_after(self.now_us)
        self.let_expire(1)  # also what expires just now, and could be given to nobody at once
        while 0 <= self.limits.max_messages < len(self.ready()) and self.next_rows():
            self.die(self.next_rows()[0], "dropped")

    def held(self) -> list[Row]:
        return [row for row in self.rows if row.state == HELD]

    @precondition(lambda self: self.held())
    @rule(data=st.data(), how=st.sampled_from(["ack", "reject", "nack", "fail", "untried"]))
    def settle(self, data: st.DataObject, how: str) -> None:
        row = data.draw(st.sampled_from(self.held()))
        lease = row.lease
        assert lease is not None
        if how == "ack":
            assert self.group.ack(lease, row.offset, 1) == 1
            row.state = SETTLED
            self.counted["acked"] += 1
        elif how == "reject":
            assert self.group.reject(lease, row.offset, 1) == 1
            self.die(row, "rejected")
        else:
            failed = how == "fail" or (how == "nack" and self.limits.nack_counts)
            assert self.group.give_back(lease, row.offset, 1, 0, HOW[how]) == 1
            row.failures += failed
            row.state = READY
            if failed and 0 <= self.limits.delivery_limit < row.failures:
                self.die(row, "limited")
        row.lease = None

    @rule(settled=st.booleans())
    def get(self, settled: bool) -> None:
        delivery = self.group.take_one(Consumer(0, 1, 1, 2, 0, b"", settled, UNLIMITED), self.now_us)
        self.let_expire()
        if delivery is None:
            assert not self.next_rows()
            return
        row = self.next_rows()[0]
        assert delivery.block.base + delivery.index == row.offset
        self.counted["got_settled" if settled else "got"] += 1
        self.counted["redelivered"] += row.deliveries > 0
        row.deliveries += 1
        row.state, row.lease = (SETTLED, None) if settled else (HELD, delivery.lease)

    @rule()
    def bury(self) -> None:
        dying, self.group.dead_letters.runs = self.group.dead_letters.runs, []
        for run in dying:
            for offset in range(run.first, run.first + run.count):
                row = self.rows[offset]
                assert (row.state, row.deliveries, row.failures) == (DYING, run.deliveries, run.failures)
                row.state = SETTLED
            self.group.settle_dead_letters(run.first, run.count)

    @rule()
    def purge(self) -> None:
        self.counted["purged"] += len(self.ready())
        assert self.group.purge() == len(self.ready())
        for row in self.ready():
            row.state = SETTLED

    @rule()
    def restart(self) -> None:
        """What was held or dying is ready again; how often records came back is known."""
        self.progress += self.group.take_progress()
        self.returns += self.group.attempts.take_notes()
        counts = self.group.counts
        self.group = self.fresh_group()
        self.group.counts = counts
        self.group.attempts.restore(self.returns)
        self.group.restore(self.progress)
        self.group.finish_restore()
        self.consumer = Consumer(1, 1, 1, 1, 0, b"", False, self.credit)
        self.group.add(self.consumer)
        noted = dict(self.group.attempts.by_offset)
        for row in self.rows:
            if row.state != SETTLED:
                row.state, row.lease = READY, None
                packed = noted.get(row.offset, 0)
                row.deliveries, row.failures = packed & 0xFFFF_FFFF, packed >> 32

    @invariant()
    def counts_agree(self) -> None:
        if not hasattr(self, "group"):
            return
        assert self.group.ready() == len(self.ready())
        assert self.group.dead_letters.count == sum(row.state == DYING for row in self.rows)
        assert sum(run.count for run in self.group.dead_letters.runs) == self.group.dead_letters.count
        assert self.group.leases.count == len(self.held())
        leases = [row.lease for row in self.held()]
        assert self.consumer.held == sum(lease is not None and lease.consumer is self.consumer for lease in leases)
        assert {name: count for name, count in self.group.counts.fields().items() if count} == +self.counted
        open_rows = [row.offset for row in self.rows if row.state != SETTLED]
        found = [at for first, end in self.group.settlement.unsettled(0, len(self.rows)) for at in range(first, end)]
        assert found == open_rows


TestWaiting = WaitingMachine.TestCase
