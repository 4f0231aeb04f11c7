"""Retained messages against a dictionary: any order of puts, removals, turns, housekeeping, power cuts and restarts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from forebay.broker.mqtt.retained import Retained
from forebay.wire.mqtt.properties import MESSAGE_EXPIRY, Property, encode_properties
from tests.examples import examples
from tests.retained import STORED, Keeper
from tests.stores import TestClock

TOPIC = st.sampled_from([b"a", b"a/b", b"a/c", b"b", b"$x/a", b"c/d/e"])
SECOND_US = 1_000_000

Model = dict[bytes, tuple[bytes, int]]  # topic -> body and when it expires (0: never)


class RetainedMachine(RuleBasedStateMachine):
    """The model of now, and one for each ended turn that may be the state after a crash."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="forebay-retained-"))
        self.clock = TestClock()
        self.model: Model = {}
        self.durable: Model = {}
        self.number = 0
        self.keeper = Keeper(self.folder, self.clock)

    def teardown(self) -> None:
        self.keeper.disk.close_all()
        shutil.rmtree(self.folder)

    @property
    def retained(self) -> Retained:
        return self.keeper.retained

    @rule(topic=TOPIC, size=st.integers(1, 600), seconds=st.sampled_from([None, None, 0, 1, 5]))
    def put(self, topic: bytes, size: int, seconds: int | None) -> None:
        self.number += 1
        body = b"%d" % self.number + b"." * size
        block = b"" if seconds is None else encode_properties([Property(MESSAGE_EXPIRY, seconds, b"", b"")])
        assert self.retained.put(topic, STORED, block, body, self.clock.us) == ""
        self.model[topic] = (body, 0 if seconds is None else self.clock.us + seconds * SECOND_US)

    @rule(topic=TOPIC)
    def remove(self, topic: bytes) -> None:
        assert self.retained.put(topic, STORED, b"", b"", self.clock.us) == ""
        self.model.pop(topic, None)

    @rule(seconds=st.integers(0, 3))
    def wait(self, seconds: int) -> None:
        """A turn is of one moment: its records' stamps are that of its end."""
        self.end_turn()
        self.clock.us += seconds * SECOND_US

    @rule()
    def sweep(self) -> None:
        self.retained.sweep(self.clock.us)
        assert self.retained.count() == len(self.expected(self.model))

    @rule(filter=st.sampled_from([b"#", b"a/#", b"+", b"a/b", b"$x/+", b"+/+/e"]))
    def match(self, filter: bytes) -> None:
        held = self.expected(self.model)
        found = self.retained.matching(filter, self.clock.us)
        names = {b"#": {b"a", b"a/b", b"a/c", b"b", b"c/d/e"}, b"a/#": {b"a", b"a/b", b"a/c"}, b"+": {b"a", b"b"}}
        names |= {b"a/b": {b"a/b"}, b"$x/+": {b"$x/a"}, b"+/+/e": {b"c/d/e"}}
        assert {each.topic: each.body for each in found} == {t: b for t, b in held.items() if t in names[filter]}
        numbers = [int(each.body.split(b".")[0]) for each in found]
        assert numbers == sorted(numbers)

    @rule()
    def end_turn(self) -> None:
        self.keeper.end_turn()

    @rule()
    def sync(self) -> None:
        """Also what is not urgent, so the model of now is that of the disk."""
        self.keeper.turn()
        self.durable = dict(self.model)

    @rule()
    def rotate(self) -> None:
        self.sync()
        self.keeper.rotate()
        self.keeper.sync()

    @rule()
    def rotate_unsynced(self) -> None:
        """Between two turns, as the broker does it."""
        self.keeper.end_turn()
        self.keeper.rotate()

    @rule()
    def housekeep(self) -> None:
        """It must not take what only a frame that may be lost says is not wanted."""
        self.keeper.housekeep()

    @rule()
    def crash(self) -> None:
        self.keeper.crash()
        self.keeper = Keeper(self.folder, self.clock)
        self.model = dict(self.durable)

    @rule()
    def crash_before_the_commit_is_back(self) -> None:
        """All is on the disk, and nobody was told."""
        self.keeper.end_turn()
        while (commit := self.keeper.store.flush()) is not None:
            commit.run()
            if commit.frames[-1].lsn == self.keeper.store.lsn - 1 and not self.keeper.store.ready:
                break
            self.keeper.store.synced(commit)
        self.durable = dict(self.model)
        self.crash()

    def expected(self, model: Model) -> dict[bytes, bytes]:
        return {topic: body for topic, (body, due) in model.items() if not due or due > self.clock.us}

    @invariant()
    def agrees(self) -> None:
        """Read without sealing early: the tree and the places alone."""
        held = {topic for topic, _ in self.expected(self.model).items()}
        places = self.retained.places
        assert held <= {place.topic for place in places.values()} <= set(self.model)
        assert self.retained.octets() == sum(int(place.octets) for place in places.values())
        assert self.retained.tree.size() == len(places)


RetainedMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
TestRetainedMachine = RetainedMachine.TestCase
