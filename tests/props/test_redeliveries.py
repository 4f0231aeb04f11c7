"""A queue that retains, against a model: what its group has left, whatever is delivered once more, through all ends."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from forebay.broker.redrive.redeliver import redeliver
from forebay.message.annotations import MODIFIED, annotation
from forebay.message.modified import REDELIVERED_AT, modified_headers
from forebay.queue.leases.lease import Lease
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup
from tests.examples import examples
from tests.vhosts import OneVhost

NAME = b"orders"
EVERYTHING = 1 << 40


def own_group(broker: OneVhost) -> tuple[Queue, WorkGroup]:
    """Return the queue and its nameless group."""
    queue = broker.vhost.catalog.queue(NAME)
    group = queue.find_group(b"")
    assert isinstance(group, WorkGroup)
    return queue, group


def is_marked(broker: OneVhost) -> tuple[Lease, bool]:
    """Take the next record; return its lease, and whether its delivery says that it is one more."""
    delivery = broker.vhost.consumers.get(NAME, 1, 1, False)
    assert delivery is not None and delivery.lease is not None
    known = annotation(delivery.block.annotations(delivery.index), MODIFIED)
    marks = [name for name, _ in modified_headers(known)]
    assert not marks or delivery.redelivered
    return delivery.lease, REDELIVERED_AT in marks


class Retaining(RuleBasedStateMachine):
    """A queue that retains all that was ever settled.

    live   offsets that are not settled
    again  those of them that are delivered once more
    """

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.broker = OneVhost(self.folder)
        self.broker.declare(NAME, x_retain="7d")
        self.live: set[int] = set()
        self.again: set[int] = set()
        self.end = 0
        self.publish(1)
        self.take(1, True)

    def teardown(self) -> None:
        self.broker.close()
        shutil.rmtree(self.folder)

    @rule(count=st.integers(1, 40))
    def publish(self, count: int) -> None:
        for number in range(self.end, self.end + count):
            self.broker.publish(b"", NAME, b"%d" % number)
        self.live.update(range(self.end, self.end + count))
        self.end += count
        self.broker.settle()

    @rule(count=st.integers(1, 20), acks=st.booleans())
    def take(self, count: int, acks: bool) -> None:
        """Get the next records one by one, then settle them or give them back."""
        left = sorted(self.live)[:count]
        taken = [is_marked(self.broker) for _ in left]
        assert [int(lease.first) for lease, _ in taken] == left
        assert [marked for _, marked in taken] == [offset in self.again for offset in left]
        for lease, _ in taken:
            if acks:
                self.broker.vhost.settling.ack(lease, lease.first, 1)
                self.live.discard(int(lease.first))
                self.again.discard(int(lease.first))
            else:
                self.broker.vhost.settling.nack(lease, lease.first, 1, 0)
        self.broker.settle()

    @rule(first=st.integers(0, 200), count=st.integers(1, 60), limit=st.integers(1, 30))
    def deliver_once_more(self, first: int, count: int, limit: int) -> None:
        end = min(first + count, self.end)
        settled = [offset for offset in range(first, end) if offset not in self.live]
        portion = redeliver(self.broker.vhost, *own_group(self.broker), None, first, end, limit)
        assert portion.done == len(settled[:limit])
        self.live.update(settled[:limit])
        self.again.update(settled[:limit])
        self.broker.settle()

    @rule()
    def purge(self) -> None:
        assert self.broker.vhost.upkeep.purge(NAME) == len(self.live)
        self.live.clear()
        self.again.clear()
        self.broker.settle()

    @rule()
    def checkpoint(self) -> None:
        self.broker.checkpoint()

    @rule()
    def rewrite(self) -> None:
        self.broker.flush()
        self.broker.rotate()
        while self.broker.housekeep():
            pass

    @rule()
    def crash(self) -> None:
        self.broker.flush()
        self.broker.crash()
        self.broker.settle()

    @rule()
    def stop(self) -> None:
        self.broker.restart()
        self.broker.settle()

    @precondition(lambda self: self.end)
    @invariant()
    def it_has_what_it_should(self) -> None:
        queue, _ = own_group(self.broker)
        assert [int(body) for body in self.broker.kept(NAME)] == sorted(self.live)
        assert queue.ready() == len(self.live)
        assert queue.log.start == 0 and queue.kept() == 0


def test_what_is_settled_can_be_delivered_once_more() -> None:
    wanted = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(Retaining, settings=wanted)
