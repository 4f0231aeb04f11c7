"""A work group against a model of a few dicts: whatever happens, every record is settled once or still to be had."""

from __future__ import annotations

import tempfile

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from forebay.core.message import MQTT
from forebay.queue.leases.lease import UNLIMITED, UNTRIED, Consumer, Delivery, Lease
from forebay.queue.work.sifting import is_waiting, take_out
from forebay.queue.work.work_group import WorkGroup
from tests.examples import examples
from tests.logs import memory_log

VISIBILITY_US = 1_000_000


class WorkGroupMachine(RuleBasedStateMachine):
    """The model: offset -> "ready", (consumer, lease) or "settled", and how often each was delivered."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.log = memory_log(self.folder.name)
        self.group = WorkGroup(1, b"", b"", self.log, 0)
        self.now_us = 1
        self.settled: set[int] = set()
        self.holder: dict[int, Lease] = {}
        self.deadline: dict[int, int] = {}  # of what is held
        self.delayed: dict[int, int] = {}
        self.count = 0
        self.next_id = 1
        self.consumers: list[Consumer] = []
        self.leases: list[Lease] = []  # all ever delivered since the start: late settlements come too

    @initialize(credit=st.sampled_from([3, 50, 2000, UNLIMITED]))
    def begin(self, credit: int) -> None:
        self.join(credit)
        self.publish(5, 1)
        self.dispatch()

    @rule(count=st.sampled_from([1, 2, 5, 700, 1500]), blocks=st.integers(1, 3))
    def publish(self, count: int, blocks: int) -> None:
        for _ in range(blocks):
            for _ in range(count):
                self.log.append(MQTT, b"", b"k", b"", b"x")
            self.log.seal(self.now_us)
            self.count += count

    @rule(credit=st.sampled_from([1, 3, 50, 2000, UNLIMITED]))
    def join(self, credit: int) -> None:
        consumer = Consumer(self.next_id, 1, 1, self.next_id, 0, b"", False, credit)
        consumer.timeout_us = VISIBILITY_US
        self.next_id += 1
        self.group.add(consumer)
        self.consumers.append(consumer)

    @rule()
    def dispatch(self) -> None:
        self.drop_expired()
        deliveries: list[Delivery] = []
        self.group.dispatch(self.now_us, deliveries)
        for delivery in deliveries:
            lease = delivery.lease
            assert lease is not None and lease.count == delivery.count
            assert delivery.block.base + delivery.index == lease.first
            for offset in range(lease.first, lease.first + lease.count):
                assert offset < self.count and offset not in self.settled and offset not in self.holder
                assert self.delayed.pop(offset, 0) <= self.now_us
                self.holder[offset] = lease
                self.deadline[offset] = self.now_us + VISIBILITY_US
            self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def ack(self, data: st.DataObject) -> None:
        lease, first, count = self.part(data)
        held = [offset for offset in range(first, first + count) if self.holder.get(offset) is lease]
        assert self.group.ack(lease, first, count) == len(held)
        for offset in held:
            del self.holder[offset]
            self.settled.add(offset)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), delay=st.sampled_from([0, 0, 500_000]))
    def give_back(self, data: st.DataObject, delay: int) -> None:
        lease, first, count = self.part(data)
        held = [offset for offset in range(first, first + count) if self.holder.get(offset) is lease]
        due = self.now_us + delay if delay else 0
        assert self.group.give_back(lease, first, count, due, UNTRIED) == len(held)
        for offset in held:
            del self.holder[offset]
            self.delayed[offset] = due

    @precondition(lambda self: self.holder)
    @rule(data=st.data(), us=st.sampled_from([0, 500_000, 2 * VISIBILITY_US, 5 * VISIBILITY_US]), late=st.booleans())
    def extend(self, data: st.DataObject, us: int, late: bool) -> None:
        """Some records are held longer; then perhaps their lease's own deadline passes."""
        lease, first, count = self.part(data, list(self.holder.values()))
        held = [offset for offset in range(first, first + count) if self.holder.get(offset) is lease]
        assert self.group.leases.extend(lease, first, count, self.now_us + us) == len(held)
        for offset in held:
            self.deadline[offset] = max(self.deadline[offset], self.now_us + us)
        if late:
            self.now_us += VISIBILITY_US + 1
            self.dispatch()

    @rule(part=st.floats(0, 1))
    def find(self, part: float) -> None:
        """The holder of some record, and those of the edges of what is held."""
        for offset in {int(self.count * part), *sorted(self.holder)[:2], *sorted(self.holder)[-2:]}:
            assert self.group.leases.find(offset) is self.holder.get(offset)

    @rule()
    def compact(self) -> None:
        """Memory of what is used up goes; what is held stays."""
        self.group.leases.index.sweep()
        assert self.group.leases.index.count == self.group.leases.live

    @rule()
    def next_due(self) -> None:
        """Nothing ends before the group says so."""
        times = [self.deadline[offset] for offset in self.holder]
        times += [due for offset, due in self.delayed.items() if due > self.now_us]
        due = self.group.next_due_us()
        assert not times or 0 < due <= max(self.now_us, min(times))

    @rule(us=st.sampled_from([1, 400_000, VISIBILITY_US + 1]))
    def wait(self, us: int) -> None:
        self.now_us += us

    @precondition(lambda self: len(self.consumers) > 1)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        self.consumers.remove(consumer)
        self.group.remove(consumer)
        for offset, lease in list(self.holder.items()):
            if lease.consumer is consumer:
                del self.holder[offset]

    @precondition(lambda self: len(self.leases) > 3)
    @rule()
    def restart(self) -> None:
        """What was logged comes back; leases do not."""
        progress = self.group.snapshot()
        for lease in self.holder.values():
            lease.left = 0
        group = WorkGroup(1, b"", b"", self.log, 0)
        group.restore(progress)
        group.finish_restore()
        self.group = group
        self.holder.clear()
        self.delayed.clear()
        self.leases.clear()
        self.consumers.clear()
        self.join(50)

    @rule()
    def take_progress_twice(self) -> None:
        """Progress in pieces restores to the same state as progress at once."""
        copy = WorkGroup(1, b"", b"", self.log, 0)
        copy.restore(self.group.snapshot())
        copy.restore(self.group.take_progress())
        copy.finish_restore()
        assert copy.settlement.settled_above() == self.group.settlement.settled_above()
        assert copy.settlement.advance() == self.group.settlement.advance()

    @precondition(lambda self: len(self.leases) > 5)
    @rule()
    def purge(self) -> None:
        self.drop_expired()
        ready = self.ready()
        self.group.expire(self.now_us)
        assert self.group.purge() == len(ready)
        self.settled |= ready

    @precondition(lambda self: len(self.leases) > 3)
    @rule(part=st.floats(0, 1))
    def move(self, part: float) -> None:
        """What is held is nobody's any more, and what follows waits as if it were new."""
        offset = int(self.count * part)
        self.group.move(offset, [])
        self.settled = set(range(offset))
        self.holder.clear()
        self.delayed.clear()
        assert self.group.ready() == self.count - offset
        assert self.group.leases.count == self.group.leases.live == 0
        assert not self.group.attempts.by_offset and all(consumer.held == 0 for consumer in self.consumers)

    @rule(data=st.data())
    def take_out(self, data: st.DataObject) -> None:
        """Some of what waits is settled, wherever it stands; nothing else is."""
        self.drop_expired()
        self.group.expire(self.now_us)
        waiting = sorted(set(range(self.count)) - self.settled - set(self.holder))
        assert all(is_waiting(self.group, offset) for offset in waiting)
        assert not any(is_waiting(self.group, offset) for offset in [*self.settled, *self.holder])
        chosen = set(waiting[data.draw(st.integers(0, 5)) :: data.draw(st.integers(1, 9))])
        take_out(self.group, chosen)
        self.settled |= chosen
        for offset in chosen:
            self.delayed.pop(offset, None)
        assert self.group.ready() == len(self.ready())

    def part(self, data: st.DataObject, leases: list[Lease] | None = None) -> tuple[Lease, int, int]:
        """Some records of some lease, mostly of a late one."""
        lease = data.draw(st.sampled_from(leases or self.leases[-3:] + self.leases))
        first = data.draw(st.integers(0, lease.count - 1))
        count = data.draw(st.integers(1, lease.count - first))
        return lease, lease.first + first, count

    def teardown(self) -> None:
        self.folder.cleanup()

    def drop_expired(self) -> None:
        for offset in list(self.holder):
            if self.deadline[offset] <= self.now_us:
                del self.holder[offset]

    def ready(self) -> set[int]:
        waiting = {offset for offset, due in self.delayed.items() if due > self.now_us}
        return set(range(self.count)) - self.settled - set(self.holder) - waiting

    @invariant()
    def committed_is_what_it_says(self) -> None:
        committed = self.group.settlement.advance()
        assert set(range(committed)) <= self.settled
        assert committed == self.count or committed not in self.settled

    @invariant()
    def only_what_is_held_is_extended(self) -> None:
        assert set(self.group.leases.extended) <= set(self.holder)

    @invariant()
    def the_unsettled_are_known(self) -> None:
        unsettled = set()
        for first, end in self.group.settlement.unsettled(0, self.count):
            unsettled |= set(range(first, end))
        assert unsettled == set(range(self.count)) - self.settled


WorkGroupMachine.TestCase.settings = settings(max_examples=examples(200), stateful_step_count=50, deadline=None)
TestWorkGroup = WorkGroupMachine.TestCase
