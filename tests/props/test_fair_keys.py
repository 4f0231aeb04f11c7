"""A queue with a fair key against a model: whose turn it is, and what is out, through stops and crashes."""

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

from forebay.queue.leases.lease import Lease
from tests.examples import examples
from tests.vhosts import OneVhost

NAME = b"tenants"
KEYS = "abc"
WEIGHTS = {"a": 2, "b": 1, "c": 1}


class Fair(RuleBasedStateMachine):
    """A queue whose messages are got one by one.

    ready   key -> offsets that wait
    out     offset -> its lease
    key_of  offset -> its key
    waited  key that waits -> what others have got since its last turn; unknown after a restart
    """

    @initialize(limit=st.integers(1, 3))
    def begin(self, limit: int) -> None:
        self.limit = limit
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.broker = OneVhost(self.folder)
        self.broker.declare(NAME, x_fair_key="/t", x_fair_weight="a=2", x_key_concurrency=limit)
        self.ready: dict[str, set[int]] = {key: set() for key in KEYS}
        self.out: dict[int, Lease] = {}
        self.key_of: list[str] = []
        self.waited: dict[str, dict[str, int]] = {}
        self.settle()

    def teardown(self) -> None:
        self.broker.close()
        shutil.rmtree(self.folder)

    def settle(self) -> None:
        self.broker.settle()

    def held(self, key: str) -> int:
        return sum(1 for offset in self.out if self.key_of[offset] == key)

    def can_come(self, key: str) -> bool:
        return bool(self.ready[key]) and self.held(key) < self.limit

    def note_waiting(self) -> None:
        """Keys that can come wait from now on; those that cannot do not."""
        for key in KEYS:
            if self.can_come(key):
                self.waited.setdefault(key, {})
            else:
                self.waited.pop(key, None)

    @rule(keys=st.text(KEYS, min_size=1, max_size=12))
    def publish(self, keys: str) -> None:
        for key in keys:
            self.broker.publish(b"", NAME, b'{"t": "%s"}' % key.encode())
            self.ready[key].add(len(self.key_of))
            self.key_of.append(key)
        self.settle()
        self.note_waiting()

    @rule(count=st.integers(1, 8))
    def take(self, count: int) -> None:
        for _ in range(count):
            delivery = self.broker.vhost.consuming.get(NAME, 1, 1, False)
            able = [key for key in KEYS if self.can_come(key)]
            if not able:
                assert delivery is None
                return
            assert delivery is not None and delivery.lease is not None
            offset = int(delivery.lease.first)
            key = self.key_of[offset]
            assert key in able
            assert offset == min(self.ready[key])
            self.ready[key].remove(offset)
            self.out[offset] = delivery.lease
            self.waited.pop(key, None)
            for other, got in self.waited.items():
                got[key] = got.get(key, 0) + 1
                assert got[key] <= 2 * WEIGHTS[key], (other, got)
            self.note_waiting()

    @precondition(lambda self: self.out)
    @rule(data=st.data(), acks=st.booleans())
    def give_up(self, data: st.DataObject, acks: bool) -> None:
        offset = data.draw(st.sampled_from(sorted(self.out)))
        lease = self.out.pop(offset)
        if acks:
            self.broker.vhost.settling.ack(lease, lease.first, 1)
        else:
            self.broker.vhost.settling.nack(lease, lease.first, 1, 0)
            self.ready[self.key_of[offset]].add(offset)
        self.settle()
        self.note_waiting()

    @rule()
    def checkpoint(self) -> None:
        self.broker.checkpoint()

    @rule(is_crash=st.booleans())
    def end(self, is_crash: bool) -> None:
        self.settle()
        if is_crash:
            self.broker.flush()
            self.broker.crash()
        else:
            self.broker.restart()
        for offset in self.out:
            self.ready[self.key_of[offset]].add(offset)
        self.out.clear()
        self.waited.clear()
        self.settle()
        self.note_waiting()

    @invariant()
    def all_that_waits_is_counted(self) -> None:
        if hasattr(self, "ready"):
            waiting = sum(len(each) for each in self.ready.values())
            assert self.broker.vhost.catalog.queue(NAME).ready() == waiting or not self.key_of


def test_a_queue_goes_round_its_keys() -> None:
    wanted = settings(max_examples=examples(25), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(Fair, settings=wanted)
