"""A stored message as queries see it: the record, and where it stands in a work group."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.units import US_PER_MS
from forebay.log.block import Block
from forebay.message.shown import record_shown
from forebay.message.subject import RecordSubject
from forebay.query.subject import STATE_WORDS, QuerySubject
from forebay.queue.leases.lease import Lease
from forebay.queue.leases.page import DEAD_LETTER, DELAYED, LEASED, PAGE_BITS
from forebay.queue.work.work_group import WorkGroup

FOREVER_US: Final = 1 << 60  # a lease that ends later has no end
READY: Final = "ready"


@final
class GroupStates:
    """The states of a work group's records, as a query sees them.

    group  None: nobody has consumed from the queue, or it is a stream: all records are ready
    due    of delayed records: when each run is ready, by its first offset; made once a step, where some are delayed
    """

    def __init__(self, group: WorkGroup | None) -> None:
        self.group = group
        self.due: list[tuple[int, int, int]] = []

    def begin(self, now_us: i64) -> None:
        """Begin a step: what is known of the delayed records may have changed."""
        group = self.group
        if group is not None and group.delayed.count:
            self.due = group.delayed.due_runs(now_us)
        elif self.due:
            self.due = []

    def state(self, offset: i64) -> i64:
        """Return the state of a record that is not settled; 0 if it is ready."""
        group = self.group
        if group is None or offset >= group.settlement.cursor:
            return 0
        page = group.settlement.pages.get(offset >> PAGE_BITS)
        return 0 if page is None else i64(page.states[offset - page.base])

    def lease(self, offset: i64) -> Lease | None:
        """Return the lease that holds a record."""
        return None if self.group is None else self.group.leases.find(offset)

    def due_us(self, offset: i64) -> i64:
        """Return when a delayed record is ready; 0 if nobody knows."""
        for due_us, first, count in self.due:
            if first <= offset < first + count:
                return due_us
        return 0


@final
class QueuedSubject(QuerySubject):
    """One record of a queue, and its state in a group."""

    def __init__(self, queue: bytes, block: Block, index: i64, now_us: i64, states: GroupStates) -> None:
        super().__init__()
        self.states = states
        self.offset: i64 = block.base + index
        self.record = RecordSubject(queue, block, index, now_us)

    def count_attempts(self) -> None:
        """Find out how often the record was delivered, and failed."""
        group = self.states.group
        if group is None:
            return
        lease = group.leases.find(self.offset)
        if lease is not None:
            self.record.deliveries = lease.deliveries
            self.record.failures = lease.failures
        elif group.attempts.by_offset:
            attempts = group.attempts.of(self.offset)
            self.record.deliveries = attempts & 0xFFFF_FFFF
            self.record.failures = attempts >> 32

    def property(self, name: str) -> object:
        if name in STATE_WORDS:
            return self.standing(name)
        if name in ("deliveries", "failures"):
            self.count_attempts()
        return self.record.property(name)

    def standing(self, name: str) -> object:
        """Return one of STATE_WORDS."""
        state = self.states.state(self.offset)
        if name == "state":
            if state == LEASED:
                return "leased"
            return "delayed" if state == DELAYED else "dead" if state == DEAD_LETTER else READY
        if state == DELAYED and name == "until_ms":
            due_us = self.states.due_us(self.offset)
            return int(due_us // US_PER_MS) if due_us else None
        lease = self.states.lease(self.offset) if state == LEASED else None
        if lease is None:
            return None
        if name == "holder":
            return lease.consumer.tag
        if name == "connection":
            return int(lease.consumer.session_id)
        return self.lease_end(lease)

    def lease_end(self, lease: Lease) -> object:
        """Return when a lease of the record ends, in milliseconds; None for never."""
        group = self.states.group
        assert group is not None
        until_us = max(int(lease.deadline_us), group.leases.extended.get(int(self.offset), 0))
        return until_us // US_PER_MS if until_us < FOREVER_US else None

    def header(self, name: str) -> object:
        return self.record.header(name)

    def parse_body(self) -> object:
        return self.record.parse_body()

    def shown(self, body_octets_max: int) -> dict[str, object]:
        self.count_attempts()
        found = record_shown(self.record, body_octets_max)
        for name in STATE_WORDS:
            value = self.standing(name)
            found[name] = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
        return found
