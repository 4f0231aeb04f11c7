"""Holds against a model: nothing from a hold on is ever lost, and nobody but readers of blocks sees a difference.

Over settlement, purge, retention, compaction, changes of files and crashes between any two of them.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from forebay.broker.catalog.retention_pins import hold, release
from forebay.core.message import ACCEPTED, AMQP091
from forebay.log.queue_log import NOT_HELD, QueueLog
from forebay.queue.queue import Queue
from tests.examples import examples
from tests.node_rig import NodeRig

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
    """`models` is what there is, `durable` what is on disk.

    settled  offsets of the classic queue settled since the last turn, in order: the work on files may have synced them
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="holds-")
        self.rig = NodeRig(Path(self.folder.name), None, mqtt_sys_interval_s=0)
        self.models = {STREAM: Model(), CLASSIC: Model()}
        self.settled: list[int] = []
        self.durable = {name: model.copy() for name, model in self.models.items()}
        default = self.rig.vhost
        default.catalog.declare_queue(STREAM, True, False, False, {"x-queue-type": "stream"}, 1)
        default.catalog.declare_queue(CLASSIC, True, False, False, {}, 1)
        self.turn()

    def queue(self, name: bytes) -> Queue:
        return self.rig.vhost.catalog.queue(name)

    def turn(self) -> None:
        self.rig.flush()
        self.settled.clear()
        self.durable = {name: model.copy() for name, model in self.models.items()}

    @rule(name=QUEUES, count=st.integers(1, 5), octets=st.integers(0, 900))
    def publish(self, name: bytes, count: int, octets: int) -> None:
        vhost = self.rig.vhost
        model = self.models[name]
        for _ in range(count):
            body = b"%d " % len(model.bodies) + b"x" * octets
            assert vhost.publishing.publish(vhost.router.route(b"", name), AMQP091, b"", body).status == ACCEPTED
            model.ready.append(len(model.bodies))
            model.bodies.append(body)
        self.turn()

    @rule(count=st.integers(1, 6), last=st.booleans())
    def settle(self, count: int, last: bool) -> None:
        """Take messages; keep the first of them for a moment, so that settlements leave gaps."""
        vhost = self.rig.vhost
        model = self.models[CLASSIC]
        kept = vhost.consumers.get(CLASSIC, 1, 1, False) if last else None
        for _ in range(count):
            delivery = vhost.consumers.get(CLASSIC, 2, 1, True)
            expected = model.ready[last : last + 1] if kept is not None or not last else []
            assert (delivery is None) == (not expected)
            if delivery is not None:
                assert delivery.block.base + delivery.index == expected[0]
                model.ready.remove(expected[0])
                self.settled.append(expected[0])
        if kept is not None:
            vhost.session_closed(1)

    @rule(name=QUEUES)
    def purge(self, name: bytes) -> None:
        self.rig.vhost.upkeep.purge(name)
        self.settled += self.models[CLASSIC].ready if name == CLASSIC else []
        self.models[name].ready.clear()

    @rule(messages=st.integers(1, 10))
    def retain(self, messages: int) -> None:
        queue = self.queue(STREAM)
        log = queue.log
        queue.release(log.retention_floor(self.rig.clock.us, 0, 0, messages))
        self.models[STREAM].ready = [offset for offset in self.models[STREAM].ready if offset >= log.start]

    @rule(name=QUEUES, group=GROUPS, back=st.integers(0, 12), ttl_s=st.integers(1, 30))
    def hold(self, name: bytes, group: bytes, back: int, ttl_s: int) -> None:
        model = self.models[name]
        queue = self.queue(name)
        asked = max(len(model.bodies) - back, 0)
        kept = int(queue.log.kept)
        granted = int(hold(self.rig.vhost.catalog, queue, group, asked, ttl_s * SECOND_US, self.rig.clock.us))
        assert granted == max(asked, kept)
        unheld = range(granted, max(granted, model.floor()))
        model.gone |= set(unheld) - set(read(queue.log, granted)) - set(model.ready)
        model.holds[group] = (granted, self.rig.clock.us + ttl_s * SECOND_US)

    @rule(name=QUEUES, group=GROUPS)
    def release(self, name: bytes, group: bytes) -> None:
        release(self.rig.vhost.catalog, self.queue(name), group)
        self.models[name].holds.pop(group, None)

    @rule(seconds=st.integers(1, 8))
    def time_goes_by(self, seconds: int) -> None:
        self.rig.jump(1000 * seconds)
        while self.rig.jobs:  # readers wait for files that are being rewritten, and here nobody asks
            self.rig.work()
        for model in self.models.values():
            now_us = self.rig.clock.us
            model.holds = {group: (at, until) for group, (at, until) in model.holds.items() if until > now_us}

    @rule()
    def sync(self) -> None:
        self.turn()

    @rule(synced=st.booleans())
    def housekeep(self, synced: bool) -> None:
        if synced:
            self.turn()
        self.rig.housekeep()

    @rule()
    def rotate(self) -> None:
        self.turn()
        self.rig.rotate()
        self.turn()

    @rule()
    def crash(self) -> None:
        """As after `kill -9`. Of a hold that was being changed either state may have come to the disk."""
        before = self.models
        self.models = {name: model.copy() for name, model in self.durable.items()}
        self.rig.crash()
        for name, model in self.models.items():
            there = read(self.queue(name).log, 0)
            model.gone |= before[name].gone
            # Settled without a note on the disk, and left out of a file since: it does not come back.
            model.ready = [offset for offset in model.ready if offset in there or offset in before[name].ready]
            holds = self.queue(name).pins.by_name
            assert set(model.holds) <= set(holds), "a hold that was on the disk is there"
            for group in list(model.holds):
                if group in before[name].holds:
                    offset = max(model.holds[group][0], before[name].holds[group][0])
                    model.holds[group] = (offset, int(holds[group].until_us))
                    assert holds[group].until_us == self.rig.clock.us + holds[group].ttl_us
                else:
                    del model.holds[group]  # released, and what it held may have gone before the note of that came
                    release(self.rig.vhost.catalog, self.queue(name), group)
            for group in set(holds) - set(model.holds):
                release(self.rig.vhost.catalog, self.queue(name), group)
        self.forget_settled(self.models[CLASSIC])
        model = self.models[STREAM]
        start = self.queue(STREAM).log.start
        model.ready = [offset for offset in range(len(model.bodies)) if offset >= start]
        self.durable = {name: model.copy() for name, model in self.models.items()}

    def forget_settled(self, model: Model) -> None:
        """Those of which the settlement had come to the disk all the same are the first of them."""
        candidates = [offset for offset in self.settled if offset in model.ready]
        gone = len(model.ready) - int(self.queue(CLASSIC).ready())
        assert 0 <= gone <= len(candidates)
        model.ready = [offset for offset in model.ready if offset not in candidates[:gone]]
        self.settled.clear()

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
        self.rig.close()
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
TestHolds.settings = settings(max_examples=examples(60), stateful_step_count=40)
