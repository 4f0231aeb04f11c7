"""A last-value queue against a model: the latest of each key, in two groups, through every end of a broker."""

from __future__ import annotations

import json
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

from forebay.core.message import ACCEPTED, REJECTED
from forebay.core.reading.merge_patch import merge_patch
from forebay.management.groups import delete_group
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.queue.leases.lease import UNLIMITED, Consumer, Lease
from forebay.queue.queue import Queue
from forebay.queue.work.work_group import WorkGroup
from tests.examples import examples
from tests.vhosts import OneVhost

QUEUE = b"prices"
KEYS = ["a", "b", "c"]
KEYS_MAX = 2
GROUPS = [b"", b"other"]
PATCH = EXCHANGE_FORMAT.edit(b"\0\0", [], [("x-merge-patch", True)])
Value = dict[str, object]


class HeldRecord:
    """A record that a group holds: its lease, key and value."""

    def __init__(self, lease: Lease, key: str, value: Value) -> None:
        self.lease = lease
        self.key = key
        self.value = value


class LatestOfEachKey(RuleBasedStateMachine):
    """A queue with two groups.

    latest   key -> value that not every group has settled, the oldest first
    waiting  by group: key -> value that it can deliver or has to deliver later, the oldest first
    held     by group
    """

    @initialize(priorities=st.booleans())
    def begin(self, priorities: bool) -> None:
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm"))
        self.broker = OneVhost(self.folder)
        more: dict[str, object] = {"x_max_priority": 3} if priorities else {}
        self.broker.declare(QUEUE, x_last_value_key="/k", x_max_length=KEYS_MAX, **more)
        self.number = 0
        self.latest: dict[str, Value] = {}
        self.waiting: dict[bytes, dict[str, Value]] = {b"": {}}
        self.held: dict[bytes, list[HeldRecord]] = {b"": []}
        queue = self.queue()
        self.broker.vhost.catalog.add_group(queue, b"", b"", True, queue.start(), True)
        self.broker.settle()

    def teardown(self) -> None:
        self.broker.close()
        shutil.rmtree(self.folder)

    def queue(self) -> Queue:
        return self.broker.vhost.catalog.queue(QUEUE)

    def group(self, name: bytes) -> WorkGroup:
        found = self.queue().find_group(name)
        assert isinstance(found, WorkGroup)
        return found

    # ---- what comes

    def put(self, key: str, value: Value) -> None:
        self.latest.pop(key, None)
        self.latest[key] = value
        for waiting in self.waiting.values():
            waiting.pop(key, None)
            waiting[key] = value

    @rule(changes=st.lists(st.tuples(st.sampled_from(KEYS), st.booleans()), min_size=1, max_size=8))
    def publish(self, changes: list[tuple[str, bool]]) -> None:
        """Publish whole values and patches within one turn."""
        for key, is_patch in changes:
            self.number += 1
            body: Value = {"k": key, f"f{self.number % 3}": self.number}
            properties = PATCH if is_patch else b"\0\0"
            wanted = key in self.latest or len(self.latest) < KEYS_MAX
            status = self.broker.publish(b"", QUEUE, json.dumps(body).encode(), properties)
            assert status == (ACCEPTED if wanted else REJECTED)
            if wanted:
                whole = merge_patch(self.latest.get(key, {}), body) if is_patch else body
                assert isinstance(whole, dict)
                self.put(key, whole)
        self.broker.settle()

    @precondition(lambda self: len(self.waiting) == 1)
    @rule()
    def add_group(self) -> None:
        queue = self.queue()
        self.broker.vhost.touch()
        self.broker.vhost.catalog.add_group(queue, b"other", b"", True, queue.start(), True)
        self.broker.vhost.turn.mark(queue)
        self.waiting[b"other"] = dict(self.latest)
        self.held[b"other"] = []
        self.broker.settle()

    # ---- what goes

    @rule(name=st.sampled_from(GROUPS), count=st.integers(1, 3))
    def take(self, name: bytes, count: int) -> None:
        if name not in self.waiting:
            return
        group = self.group(name)
        for _ in range(count):
            taker = Consumer(0, self.queue().id, group.id, 1, 9, b"", False, UNLIMITED)
            delivery = group.take_one(taker, self.broker.vhost.turn.now_us)
            if delivery is None:
                assert not self.waiting[name]
                return
            assert delivery.lease is not None
            value = json.loads(delivery.block.body(delivery.index))
            key = next(iter(self.waiting[name]))
            assert self.waiting[name].pop(key) == value
            self.held[name].append(HeldRecord(delivery.lease, key, value))
        self.broker.settle()

    @rule(name=st.sampled_from(GROUPS), place=st.integers(0, 9), how=st.sampled_from(["ack", "nack", "later"]))
    def settle(self, name: bytes, place: int, how: str) -> None:
        held = self.held.get(name)
        if not held:
            return
        record = held.pop(place % len(held))
        settling, lease = self.broker.vhost.settling, record.lease
        self.broker.vhost.touch()
        if how == "ack":
            settling.ack(lease, lease.first, 1)
            self.forget_settled(record.key, record.value)
        else:
            settling.nack(lease, lease.first, 1, 0 if how == "nack" else 3_600_000)
            self.come_back(name, record)
            if how == "later":
                self.broker.jump(3_600_001)
        self.broker.settle()

    def come_back(self, name: bytes, record: HeldRecord) -> None:
        """A record waits again, in the order in which records were published, unless a newer one has replaced it."""
        if self.latest.get(record.key) == record.value:
            waiting = self.waiting[name]
            waiting[record.key] = record.value
            self.waiting[name] = {key: waiting[key] for key in self.latest if key in waiting}

    def forget_settled(self, key: str, value: Value) -> None:
        if self.latest.get(key) != value:
            return
        has_one = any(waiting.get(key) == value for waiting in self.waiting.values())
        if not has_one and not any(each.value == value for held in self.held.values() for each in held):
            del self.latest[key]

    @rule()
    def purge(self) -> None:
        self.broker.vhost.touch()
        self.broker.vhost.upkeep.purge(QUEUE)
        for waiting in self.waiting.values():
            waiting.clear()
        kept = [record.value for held in self.held.values() for record in held]
        self.latest = {key: value for key, value in self.latest.items() if value in kept}
        self.broker.settle()

    @precondition(lambda self: len(self.waiting) == 2)
    @rule()
    def drop_group(self) -> None:
        self.broker.vhost.touch()
        delete_group(self.broker.vhost, self.queue(), self.group(b"other"), False)
        del self.waiting[b"other"], self.held[b"other"]
        kept = list(self.waiting[b""].values()) + [record.value for record in self.held[b""]]
        self.latest = {key: value for key, value in self.latest.items() if value in kept}
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

    @rule(in_order=st.booleans())
    def end(self, in_order: bool) -> None:
        self.broker.flush()
        if in_order:
            self.broker.restart()
        else:
            self.broker.crash()
        self.broker.settle()
        for name, held in self.held.items():
            for record in held:
                self.come_back(name, record)
            held.clear()

    @invariant()
    def each_group_has_the_latest(self) -> None:
        queue = self.queue()
        assert queue.last_values is not None
        assert {each.key.decode() for each in queue.last_values.by_offset.values()} == set(self.latest)
        for name, waiting in self.waiting.items():
            if queue.find_group(name) is not None:
                assert self.group(name).ready() == len(waiting), name


def test_the_latest_of_each_key() -> None:
    wanted = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
    run_state_machine_as_test(LatestOfEachKey, settings=wanted)
