"""Holds against a model: nothing from a hold on is ever lost, and nobody but readers of blocks sees a difference.

Over settlement, purge, retention, compaction, changes of files and crashes between any two of them.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from forebay.broker.holding import hold, release
from forebay.broker.vhosts import Vhosts
from forebay.core.message import ACCEPTED, AMQP091
from forebay.core.options import make_options
from forebay.log.queue_log import NOT_HELD, QueueLog
from forebay.log.store import Store
from forebay.queue.queue import Queue
from tests.stores import SMALL, SmallDisk, TestClock
from tests.vhosts import Wanted

SECOND_US = 1_000_000
STREAM = b"s"
CLASSIC = b"q"
QUEUES = st.sampled_from([STREAM, CLASSIC])
GROUPS = st.sampled_from([b"a", b"b"])


@dataclass
class Model:
    """One queue: all bodies ever, which of them are ready, and the holds with their ends.

    gone  settled before anybody held them, and left out when a file was rewritten
    """

    bodies: list[bytes] = field(default_factory=list)
    ready: list[int] = field(default_factory=list)
    holds: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)

    def copy(self) -> Model:
        return Model(list(self.bodies), list(self.ready), dict(self.holds), set(self.gone))

    def floor(self) -> int:
        return min((offset for offset, _ in self.holds.values()), default=len(self.bodies))


class HoldMachine(RuleBasedStateMachine):
    """`models` is what there is, `durable` what is on disk."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="holds-")
        self.clock = TestClock()
        self.models = {STREAM: Model(), CLASSIC: Model()}
        self.durable = {name: model.copy() for name, model in self.models.items()}
        self.open()
        default = self.vhosts.default
        default.declare_queue(STREAM, True, False, False, {"x-queue-type": "stream"}, 1)
        default.declare_queue(CLASSIC, True, False, False, {}, 1)
        self.turn()

    def open(self) -> None:
        self.disk = SmallDisk(self.folder.name)
        self.store = Store(self.disk, self.clock, SMALL)
        entries = self.store.open().entries
        self.vhosts = Vhosts(self.store, make_options({}))
        self.vhosts.recover(entries, self.clock.us)
        self.store.start(self.vhosts.checkpoint())

    def queue(self, name: bytes) -> Queue:
        return self.vhosts.default.queue(name)

    def turn(self) -> None:
        self.vhosts.end_turn(self.clock.us)
        self.vhosts.note_sessions()
        if self.store.checkpoint_due():
            self.store.rotate(self.vhosts.checkpoint())
        while (commit := self.store.flush()) is not None:
            commit.run()
            self.store.synced(commit)
            self.vhosts.synced()
        self.durable = {name: model.copy() for name, model in self.models.items()}

    @rule(name=QUEUES, count=st.integers(1, 5), octets=st.integers(0, 900))
    def publish(self, name: bytes, count: int, octets: int) -> None:
        vhost = self.vhosts.default
        model = self.models[name]
        for _ in range(count):
            body = b"%d " % len(model.bodies) + b"x" * octets
            assert vhost.publish(vhost.route(b"", name), AMQP091, b"", body) == ACCEPTED
            model.ready.append(len(model.bodies))
            model.bodies.append(body)
        self.turn()

    @rule(count=st.integers(1, 6), last=st.booleans())
    def settle(self, count: int, last: bool) -> None:
        """Take messages; keep the first of them for a moment, so that settlements leave gaps."""
        vhost = self.vhosts.default
        model = self.models[CLASSIC]
        kept = vhost.get(CLASSIC, 1, 1, False) if last else None
        for _ in range(count):
            delivery = vhost.get(CLASSIC, 2, 1, True)
            expected = model.ready[last : last + 1] if kept is not None or not last else []
            assert (delivery is None) == (not expected)
            if delivery is not None:
                assert delivery.block.base + delivery.index == expected[0]
                model.ready.remove(expected[0])
        if kept is not None:
            vhost.session_closed(1)

    @rule(name=QUEUES)
    def purge(self, name: bytes) -> None:
        self.vhosts.default.purge(name)
        self.models[name].ready.clear()

    @rule(messages=st.integers(1, 10))
    def retain(self, messages: int) -> None:
        log = self.queue(STREAM).log
        log.retain(self.clock.us, 0, 0, messages)
        self.models[STREAM].ready = [offset for offset in self.models[STREAM].ready if offset >= log.start]

    @rule(name=QUEUES, group=GROUPS, back=st.integers(0, 12), ttl_s=st.integers(1, 30))
    def hold(self, name: bytes, group: bytes, back: int, ttl_s: int) -> None:
        model = self.models[name]
        queue = self.queue(name)
        asked = max(len(model.bodies) - back, 0)
        kept = int(queue.log.kept)
        granted = int(hold(self.vhosts.default, queue, group, asked, ttl_s * SECOND_US, self.clock.us))
        assert granted == max(asked, kept)
        unheld = range(granted, max(granted, model.floor()))
        model.gone |= set(unheld) - set(read(queue.log, granted)) - set(model.ready)
        model.holds[group] = (granted, self.clock.us + ttl_s * SECOND_US)

    @rule(name=QUEUES, group=GROUPS)
    def release(self, name: bytes, group: bytes) -> None:
        release(self.vhosts.default, self.queue(name), group)
        self.models[name].holds.pop(group, None)

    @rule(seconds=st.integers(1, 8))
    def time_goes_by(self, seconds: int) -> None:
        self.clock.us += seconds * SECOND_US
        self.vhosts.sweep(self.clock.us)
        for model in self.models.values():
            model.holds = {group: (at, until) for group, (at, until) in model.holds.items() if until > self.clock.us}

    @rule()
    def sync(self) -> None:
        self.turn()

    @rule(synced=st.booleans())
    def housekeep(self, synced: bool) -> None:
        if synced:
            self.turn()
        job = self.store.plan(Wanted(self.vhosts), self.clock.us)
        if job is not None:
            job.run()
            self.store.done(job)

    @rule()
    def rotate(self) -> None:
        self.turn()
        if self.store.finished is None:
            self.store.rotate(self.vhosts.checkpoint())
            self.turn()

    @rule()
    def crash(self) -> None:
        """As after `kill -9`. Of a hold that was being changed either state may have come to the disk."""
        self.disk.close_all()
        before = self.models
        self.models = {name: model.copy() for name, model in self.durable.items()}
        self.open()
        for name, model in self.models.items():
            there = read(self.queue(name).log, 0)
            model.gone |= before[name].gone
            # Settled without a note on the disk, and left out of a file since: it does not come back.
            model.ready = [offset for offset in model.ready if offset in there or offset in before[name].ready]
            holds = self.queue(name).holds.by_name
            assert set(model.holds) <= set(holds), "a hold that was on the disk is there"
            for group in list(model.holds):
                if group in before[name].holds:
                    offset = max(model.holds[group][0], before[name].holds[group][0])
                    model.holds[group] = (offset, int(holds[group].until_us))
                    assert holds[group].until_us == self.clock.us + holds[group].ttl_us
                else:
                    del model.holds[group]  # released, and what it held may have gone before the note of that came
                    release(self.vhosts.default, self.queue(name), group)
            for group in set(holds) - set(model.holds):
                release(self.vhosts.default, self.queue(name), group)
        model = self.models[STREAM]
        start = self.queue(STREAM).log.start
        model.ready = [offset for offset in range(len(model.bodies)) if offset >= start]
        self.durable = {name: model.copy() for name, model in self.models.items()}

    @invariant()
    def what_is_held_is_there(self) -> None:
        for name, model in self.models.items():
            log = self.queue(name).log
            assert int(log.end) == len(model.bodies)
            if model.holds:
                floor = model.floor()
                assert int(log.held) <= floor
                held = set(range(floor, len(model.bodies))) - model.gone
                found = read(log, floor)
                assert {at: found.get(at) for at in held} == {at: model.bodies[at] for at in held}
            else:
                assert log.held == NOT_HELD
                assert log.kept == log.start

    @invariant()
    def nobody_else_sees_a_difference(self) -> None:
        for name, model in self.models.items():
            queue = self.queue(name)
            assert queue.ready() == len(model.ready)
            if model.ready and name == CLASSIC:
                block = queue.log.block(model.ready[0])
                assert block is not None and block.base <= model.ready[0]

    def teardown(self) -> None:
        self.disk.close_all()
        self.folder.cleanup()


def read(log: QueueLog, first: int) -> dict[int, bytes]:
    """What a reader of blocks gets from an offset on."""
    found: dict[int, bytes] = {}
    offset = max(first, int(log.kept))
    while (block := log.kept_block(offset)) is not None:
        for at in range(max(offset, int(block.base)), int(block.end)):
            found[at] = block.body(at - int(block.base))
        offset = int(block.end)
    return found


TestHolds = HoldMachine.TestCase
TestHolds.settings = settings(max_examples=60, stateful_step_count=40)
