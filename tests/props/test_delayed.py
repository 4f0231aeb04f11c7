"""Delayed messages against a model of a dict: each comes once and in order, whatever is cancelled or crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from forebay.broker.internal_log import DELAYED_LOG
from forebay.broker.publish.delayed import Delayed, DelayedMessage
from forebay.core.message import MQTT
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.log.housekeeping import Liveness
from forebay.log.store import Commit, Store
from tests.examples import examples
from tests.stores import SMALL, SmallDisk, TestClock

SECOND = 1_000_000
KEYS = st.sampled_from([b"", b"", b"a", b"b", b"0", b"3"])
# Long ones make housekeeping leave out what nobody waits for.
BODIES = st.sampled_from([b"", b"x", b"L" * 3000])

Model = dict[int, tuple[int, bytes, bytes]]  # offset -> (due, key, body)


class Wanted(Liveness):
    """What the delayed messages themselves say."""

    def __init__(self, delayed: Delayed) -> None:
        self.delayed = delayed

    def live(self, queue: int, first: int, end: int) -> list[tuple[int, int]]:
        assert queue == DELAYED_LOG
        return self.delayed.needed(first, end)


class DelayedMachine(RuleBasedStateMachine):
    """The model, and copies of it: one a frame on its way to the disk, and `durable`, which a crash goes back to."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.clock = TestClock()
        self.model: Model = {}
        self.durable: Model = {}
        self.next = 0
        self.durable_next = 0
        self.commit: Commit | None = None
        self.written: tuple[Model, int] = ({}, 0)
        self.open()

    def open(self) -> None:
        self.disk = SmallDisk(str(self.folder))
        self.store = Store(self.disk, self.clock, SMALL)
        entries = self.store.open().entries
        self.delayed = Delayed(self.store, 0)
        for entry in entries:
            assert entry.kind == INTERNAL
            self.delayed.restore(entry.group, entry.payload)
        self.delayed.recovered(self.clock.us)
        self.store.start(self.delayed.checkpoint())

    @rule(key=KEYS, seconds=st.integers(0, 3), body=BODIES)
    def put(self, key: bytes, seconds: int, body: bytes) -> None:
        due = self.clock.us + seconds * SECOND
        offset = self.delayed.put(key, due, MQTT, b"t", b"", body)
        assert offset == self.next
        self.next += 1
        if key:
            self.model = {at: each for at, each in self.model.items() if each[1] != key}
        self.model[offset] = (due, key, body)

    @rule(key=KEYS)
    def cancel(self, key: bytes) -> None:
        named = [at for at, each in self.model.items() if key and each[1] == key]
        if not named and key.isdigit() and int(key) in self.model:
            named = [int(key)]
        assert self.delayed.cancel(key) == bool(named)
        for offset in named:
            del self.model[offset]

    @rule(part=st.floats(0, 1))
    def cancel_by_offset(self, part: float) -> None:
        offset = int(self.next * part)
        if any(each[1] == b"%d" % offset for each in self.model.values()):
            return
        assert self.delayed.cancel(b"%d" % offset) == (offset in self.model)
        self.model.pop(offset, None)

    @rule(most=st.sampled_from([1, 2, 100]), back=st.booleans())
    def due(self, most: int, back: bool) -> None:
        found = self.delayed.due(self.clock.us, most)
        expected = [each for each in self.expected() if each[0] <= self.clock.us][:most]
        assert [facts(each) for each in found] == expected
        for _, offset, _, _ in expected:
            del self.model[offset]
        if back and found:
            due, offset, key, body = facts(found[0])
            self.delayed.put_back(found[0], due)
            self.model[offset] = (due, key, body)

    @rule(seconds=st.sampled_from([0, 1, 2]))
    def turn(self, seconds: int) -> None:
        """The end of a turn; a commit is begun if the last one is back."""
        self.delayed.end_turn(self.clock.us)
        self.clock.us += seconds * SECOND
        commit = self.store.commit()
        if commit is not None:
            self.commit = commit
            self.written = (dict(self.model), self.next)

    @precondition(lambda self: self.commit is not None)
    @rule()
    def sync(self) -> None:
        assert self.commit is not None
        self.commit.run()
        self.store.synced(self.commit)
        self.commit = None
        self.durable, self.durable_next = self.written

    @precondition(lambda self: self.store.finished is None and self.commit is None)
    @rule()
    def rotate_and_housekeep(self) -> None:
        """Old files are rewritten without what nobody waits for."""
        self.turn(0)
        if self.commit is not None:
            self.sync()
        self.store.rotate(self.delayed.checkpoint())
        self.turn(0)
        if self.commit is not None:
            self.sync()
        job = self.store.plan(Wanted(self.delayed), self.clock.us)
        if job is not None:
            job.run()
            self.store.done(job)

    @rule()
    def crash(self) -> None:
        """What was not on the disk is gone, and what was settled since is there again."""
        self.disk.close_all()
        self.commit = None
        self.model, self.next = dict(self.durable), self.durable_next
        self.open()
        self.written = (dict(self.model), self.next)

    def expected(self) -> list[tuple[int, int, bytes, bytes]]:
        return sorted((due, offset, key, body) for offset, (due, key, body) in self.model.items())

    @invariant()
    def what_waits_is_known(self) -> None:
        assert self.delayed.count() == len(self.model)
        expected = self.expected()
        assert self.delayed.next_due_us() == (expected[0][0] if expected else 0)

    @rule(most=st.sampled_from([1, 100]))
    def listed(self, most: int) -> None:
        """Not an invariant: looking at a body seals what was put in this turn."""
        assert [facts(each) for each in self.delayed.listed(most)] == self.expected()[:most]

    def teardown(self) -> None:
        self.disk.close_all()
        shutil.rmtree(self.folder)


def facts(message: DelayedMessage) -> tuple[int, int, bytes, bytes]:
    return (int(message.due_us), int(message.offset), message.key, message.body)


DelayedMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestDelayed = DelayedMachine.TestCase
