"""Views against a model: what each queue over one log has left, through every end, and with files written anew."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable
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

from tests.examples import examples
from tests.vhosts import OneVhost

VIEWS = [b"a", b"b", b"c", b"even", b"few"]
EVERY = {b"even": 2, b"few": 7}  # views with a filter take every nth number
STREAM = b"orders"
views = st.sampled_from(VIEWS)


def taken(name: bytes, numbers: Iterable[int]) -> set[int]:
    """Return those of the numbers that a queue has."""
    return {number for number in numbers if number % EVERY.get(name, 1) == 0}


class OverOneLog(RuleBasedStateMachine):
    """A stream with views of it.

    live  offsets that are left, by queue; of the stream all that it has
    """

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.broker = OneVhost(self.folder)
        self.broker.declare(STREAM, x_queue_type="stream")
        self.live: dict[bytes, set[int]] = {STREAM: set()}
        self.end = 0

    def teardown(self) -> None:
        self.broker.close()
        shutil.rmtree(self.folder)

    # ---- what comes

    @precondition(lambda self: STREAM in self.live)
    @rule(count=st.one_of(st.integers(1, 40), st.just(1500)))
    def publish(self, count: int) -> None:
        for number in range(self.end, self.end + count):
            self.broker.publish(b"", STREAM, b'{"n": %d}' % number)
        for name, left in self.live.items():
            left.update(taken(name, range(self.end, self.end + count)))
        self.end += count
        self.broker.settle()

    @precondition(lambda self: STREAM in self.live)
    @rule(name=views, point=st.one_of(st.sampled_from(["epoch", "now"]), st.integers(0, 100)))
    def declare(self, name: bytes, point: str | int) -> None:
        if name in self.live:
            return
        if isinstance(point, int):
            point = min(point, self.end)
        first = 0 if point == "epoch" else self.end if point == "now" else int(point)
        arguments = {"x_filter": f"/n % {EVERY[name]} = 0"} if name in EVERY else {}
        self.broker.declare(name, x_source=STREAM.decode(), x_recovery_point=point, **arguments)
        self.live[name] = taken(name, [offset for offset in self.live[STREAM] if offset >= first])
        self.broker.settle()

    # ---- what goes

    @rule(name=views, count=st.integers(1, 20), acks=st.booleans())
    def take(self, name: bytes, count: int, acks: bool) -> None:
        """Get the next records one by one, then settle them or give them back."""
        left = sorted(self.live.get(name, ()))[:count]
        leases = [self.broker.taken(name) for _ in left]
        assert [int(lease.first) for lease in leases] == left
        settling = self.broker.vhost.settling
        for lease in leases:
            if acks:
                settling.ack(lease, lease.first, 1)
                self.live[name].discard(int(lease.first))
            else:
                settling.nack(lease, lease.first, 1, 0)
        self.broker.settle()

    @rule(name=st.sampled_from([STREAM, *VIEWS]))
    def purge(self, name: bytes) -> None:
        if name in self.live:
            assert self.broker.vhost.upkeep.purge(name) == len(self.live[name])
            self.live[name] = set()
            self.broker.settle()

    @precondition(lambda self: STREAM in self.live)
    @rule(below=st.integers(0, 200))
    def truncate(self, below: int) -> None:
        self.broker.vhost.upkeep.truncate(STREAM, below)
        self.live[STREAM] = {offset for offset in self.live[STREAM] if offset >= below}
        self.broker.settle()

    @rule(name=st.sampled_from([STREAM, *VIEWS, *VIEWS]))
    def delete(self, name: bytes) -> None:
        if self.live.pop(name, None) is not None:
            self.broker.vhost.upkeep.delete_queue(name, False, False)
            self.broker.settle()

    # ---- what the disk goes through

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

    def look_through(self) -> None:
        """Let the filters of views look at all that there is: a turn does a part of that."""
        for name in EVERY:
            queue = self.broker.vhost.catalog.queues.get(name)
            for _ in range(500):
                if queue is None or all(group.next_offset() == queue.log.end for group in queue.groups.values()):
                    break
                self.broker.wait(1)

    @invariant()
    def each_has_what_it_should(self) -> None:
        self.look_through()
        for name, left in self.live.items():
            assert [json.loads(body)["n"] for body in self.broker.kept(name)] == sorted(left), name
            assert self.broker.vhost.catalog.queue(name).ready() == len(left)

    @invariant()
    def the_log_goes_with_the_last(self) -> None:
        if not self.live:
            internal = {each.number for each in self.broker.vhost.turn.internals}
            assert set(self.broker.vhost.catalog.sources) == internal
            assert set(self.broker.store.logs.stored) <= internal


def test_views_over_one_log() -> None:
    wanted = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(OverOneLog, settings=wanted)
