"""Transactions of sinks against a model: in the queues is just what was committed, each row once, whatever crashes.

The model is a list of what was done and the frame in which it is on disk; a crash drops the end of it.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from forebay.broker.publish.staging import Staged as Waiting
from forebay.core.errors import PRECONDITION, RequestError
from tests.blocks import EMPTY, staged_block
from tests.examples import examples
from tests.stores import bodies
from tests.vhosts import OneVhost

QUERIES = st.sampled_from(["a", "b"])
BATCHES = st.integers(0, 2)
PARTS = st.sampled_from(["x", "y"])
QUEUES = (b"wide", b"small")
ROOM = 3  # in the queue `small`, which refuses more
PADDING = st.sampled_from([0, 0, 700])  # long ones make housekeeping leave out what nobody waits for

Staged = dict[tuple[str, int], dict[str, list[tuple[bytes, bytes]]]]  # query and batch -> part -> queue and body


class Model:
    """What events come to."""

    def __init__(self) -> None:
        self.staged: Staged = {}
        self.last: dict[str, int] = {}
        self.published: list[tuple[bytes, bytes]] = []

    def is_committed(self, query: str, batch: int) -> bool:
        return batch <= self.last.get(query, -1)

    def stage(self, query: str, batch: int, part: str, rows: list[tuple[bytes, bytes]]) -> None:
        self.staged.setdefault((query, batch), {}).setdefault(part, []).extend(rows)

    def commit(self, query: str, batch: int, parts: list[str]) -> None:
        for part in parts:
            self.published += self.staged[query, batch][part]
        self.last[query] = batch
        self.staged = {name: rows for name, rows in self.staged.items() if name[0] != query or name[1] > batch}

    def abort(self, query: str, batch: int) -> None:
        self.staged.pop((query, batch), None)


class StagingMachine(RuleBasedStateMachine):
    """A vhost with two queues, of which one has little room.

    events  what was done, and the number of its frame
    seen    by queue, what was ever at each of its offsets
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.events: list[tuple[int, str, tuple[object, ...]]] = []
        self.model = Model()
        self.rows = 0
        self.seen: dict[bytes, dict[int, bytes]] = {queue: {} for queue in QUEUES}
        self.one = OneVhost(self.folder)
        self.one.declare(QUEUES[0])
        self.one.declare(QUEUES[1], x_max_length=ROOM, x_overflow="reject-publish")
        self.one.settle()

    def done(self, what: str, *arguments: object) -> None:
        self.events.append((self.one.store.lsn, what, arguments))
        getattr(self.model, what)(*arguments)

    @rule(query=QUERIES, batch=BATCHES, part=PARTS, queues=st.lists(st.sampled_from(QUEUES), min_size=1), pad=PADDING)
    def stage(self, query: str, batch: int, part: str, queues: list[bytes], pad: int) -> None:
        staging = self.one.vhost.staging
        assert staging.is_committed(query, batch) == self.model.is_committed(query, batch)
        if self.model.is_committed(query, batch):
            return
        rows = []
        for queue in queues:
            self.rows += 1
            rows.append((queue, b"%d" % self.rows + b"." * pad))
        block = staged_block(*((b"", queue, EMPTY, body) for queue, body in rows))
        assert self.one.vhost.admission.take_room(staging.octets(block))
        staging.stage(query, batch, part, len(rows), block, self.one.clock.us)
        self.done("stage", query, batch, part, rows)

    @rule(query=QUERIES, batch=BATCHES, parts=st.lists(PARTS, unique=True), lost=st.sampled_from([0, 0, 0, 1]))
    def commit(self, query: str, batch: int, parts: list[str], lost: int) -> None:
        staging = self.one.vhost.staging
        there = self.model.staged.get((query, batch), {})
        counts = {part: len(there.get(part, [])) + lost for part in parts}
        if self.model.is_committed(query, batch):
            staging.commit(query, batch, counts, self.one.clock.us)
        elif all(part in there for part in parts) and not (lost and parts):
            staging.commit(query, batch, counts, self.one.clock.us)
            self.done("commit", query, batch, parts)
        else:
            with pytest.raises(RequestError) as caught:
                staging.commit(query, batch, counts, self.one.clock.us)
            assert caught.value.reason == PRECONDITION
        assert staging.last_batch(query) == self.model.last.get(query, -1)

    @rule(query=QUERIES, batch=BATCHES)
    def abort(self, query: str, batch: int) -> None:
        try:
            self.one.vhost.staging.abort(query, batch)
        except RequestError:
            assert self.model.is_committed(query, batch)
            return
        assert not self.model.is_committed(query, batch)
        self.done("abort", query, batch)

    @rule()
    def turn(self) -> None:
        """The end of a turn; a write is begun if the last one is back."""
        self.one.turn(sync=False)
        self.look()

    @precondition(lambda self: self.one.commit is not None)
    @rule()
    def sync(self) -> None:
        self.one.write()

    @rule()
    def take(self) -> None:
        """Somebody makes room in the small queue."""
        self.one.vhost.consumers.get(QUEUES[1], 1, 1, True)

    @precondition(lambda self: self.one.store.finished is None and self.one.commit is None)
    @rule()
    def rotate_and_housekeep(self) -> None:
        """Old files are rewritten without what nobody waits for."""
        self.one.checkpoint()
        self.look()
        self.one.housekeep()

    @rule()
    def crash(self) -> None:
        durable = self.one.store.durable
        self.one.crash()
        self.events = [event for event in self.events if event[0] <= durable]
        self.model = Model()
        for _, what, arguments in self.events:
            getattr(self.model, what)(*arguments)
        for queue, seen in self.seen.items():
            end = self.one.vhost.catalog.queue(queue).log.end
            self.seen[queue] = {offset: body for offset, body in seen.items() if offset < end}
        self.look()
        staged = {name: {part: each.rows for part, each in of.parts.items()} for name, of in self.staged().items()}
        expected = {name: {part: len(rows) for part, rows in of.items()} for name, of in self.model.staged.items()}
        assert staged == expected

    def staged(self) -> dict[tuple[str, int], Waiting]:
        return self.one.vhost.staging.staged

    def look(self) -> None:
        """Remember what is in the queues."""
        for queue, seen in self.seen.items():
            for offset, body in bodies(self.one.vhost.catalog.queue(queue).log).items():
                assert seen.setdefault(offset, body) == body

    def teardown(self) -> None:
        """All that is committed is there in the end: of each queue in the order of the commits, once."""
        try:
            self.crash()
            while self.one.vhost.staging.open:
                self.one.vhost.consumers.get(QUEUES[1], 1, 1, True)
                self.one.tick(0)
                self.one.turn()
                self.look()
            for queue, seen in self.seen.items():
                expected = [body for where, body in self.model.published if where == queue]
                assert sorted(seen.values()) == sorted(expected)
            wide = [seen for _, seen in sorted(self.seen[QUEUES[0]].items())]
            assert len(set(wide)) == len(wide)
            self.one.settle()
            wanted = self.one.vhost.staging.ledger.wanted(0, self.one.vhost.staging.log.end)
            blocks = sum(len(part.offsets) for of in self.staged().values() for part in of.parts.values())
            assert sum(end - first for first, end in wanted) == blocks, "what is published or thrown away is settled"
        finally:
            self.one.close()
            shutil.rmtree(self.folder)


StagingMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestStaging = StagingMachine.TestCase
