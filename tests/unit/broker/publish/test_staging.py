"""What is staged and what is remembered of commits: for how long, how many, and what a restart finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.publish.staging import Staging
from forebay.core.errors import REFUSED, RequestError
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.log.store import Store
from tests.blocks import to_queue
from tests.stores import SMALL, SmallDisk, TestClock

SECOND = 1_000_000
MEMORY_MS = 10_000
EXPIRY_MS = 5_000


class Kept:
    """A staging log on a store on real files; turns end by hand, and rows are published by hand."""

    def __init__(self, folder: Path, clock: TestClock, queries_max: int = 100) -> None:
        self.clock = clock
        self.disk = SmallDisk(str(folder))
        self.store = Store(self.disk, self.clock, SMALL)
        entries = self.store.open().entries
        self.staging = Staging(self.store, MEMORY_MS, EXPIRY_MS, queries_max)
        for entry in entries:
            assert entry.kind == INTERNAL
            self.staging.restore(entry.group, entry.payload)
        self.staging.recovered(self.clock.us)
        self.store.start(self.staging.checkpoint())

    def stage(self, query: str, batch: int, part: str = "p", rows: int = 1) -> None:
        block = to_queue(b"q", *(b"%d" % row for row in range(rows)))
        assert self.store.reserve(self.staging.octets(block))
        self.staging.stage(query, batch, part, rows, block, self.clock.us)

    def publish(self) -> None:
        """All rows of all commits."""
        for commit in list(self.staging.open.values()):
            while commit.next() >= 0:
                self.staging.advance(commit, self.staging.block(commit.next()).count - commit.row, 0, -1)
            self.staging.finish(commit)

    def turn(self) -> None:
        self.staging.end_turn(self.clock.us)
        while (commit := self.store.flush()) is not None:
            commit.run()
            self.store.synced(commit)

    def later(self, seconds: int) -> None:
        self.clock.us += seconds * SECOND
        self.staging.sweep(self.clock.us)
        self.turn()

    def reopened(self, folder: Path) -> Kept:
        self.disk.close_all()
        return Kept(folder, self.clock)


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "data", TestClock())


def test_what_nobody_commits_in_time_goes(kept: Kept) -> None:
    kept.stage("q", 0)
    kept.turn()
    kept.later(4)
    kept.stage("q", 0, "another")
    kept.later(4)
    assert kept.staging.staged["q", 0].rows() == 2, "the last part counts"
    kept.later(1)
    assert not kept.staging.staged
    assert kept.staging.ledger.wanted(0, kept.staging.log.end) == []
    with pytest.raises(RequestError, match="only 0 of 1 rows of part 'p' of batch 0 of query 'q' are staged"):
        kept.staging.commit("q", 0, {"p": 1}, kept.clock.us)


def test_a_query_is_forgotten_some_time_after_its_last_commit(kept: Kept, tmp_path: Path) -> None:
    for query in ("a", "b"):
        kept.staging.commit(query, 7, {}, kept.clock.us)
    kept.publish()
    kept.later(8)
    kept.staging.commit("a", 7, {}, kept.clock.us)  # asked again: it is used
    kept.later(2)
    assert (kept.staging.last_batch("a"), kept.staging.last_batch("b")) == (7, -1)
    kept = kept.reopened(tmp_path / "data")
    assert (kept.staging.last_batch("a"), kept.staging.last_batch("b")) == (7, -1)


def test_the_query_that_was_idle_for_longest_makes_place(tmp_path: Path) -> None:
    kept = Kept(tmp_path, TestClock(), 2)
    for query, batch in (("a", 0), ("b", 0), ("a", 1), ("c", 0)):
        kept.staging.commit(query, batch, {}, kept.clock.us)
        kept.publish()
    assert [kept.staging.last_batch(query) for query in "abc"] == [1, -1, 0]
    kept.stage("d", 0)
    kept.stage("a", 2)
    kept.stage("c", 1)
    for query, batch in (("a", 2), ("c", 1)):
        kept.staging.commit(query, batch, {"p": 1}, kept.clock.us)
    with pytest.raises(RequestError, match="transactions_max: 2 transactions are on their way") as caught:
        kept.staging.commit("d", 0, {"p": 1}, kept.clock.us)
    assert caught.value.reason == REFUSED
    kept.later(100)
    assert sorted(kept.staging.last) == ["a", "c"], "what is on its way is not forgotten"


def test_a_restart_finds_where_a_commit_was(kept: Kept, tmp_path: Path) -> None:
    for part, rows in (("x", 3), ("y", 2), ("lost", 1)):
        kept.stage("q", 4, part, rows)
    kept.turn()
    commit = kept.staging.commit("q", 4, {"y": 2, "x": 3}, kept.clock.us)
    kept.staging.advance(commit, 2, 1, -1)
    kept.staging.advance(commit, 1, 0, 1)
    kept.turn()
    kept = kept.reopened(tmp_path / "data")
    (found,) = kept.staging.open.values()
    assert (found.rows, found.unroutable, found.row, found.offsets) == (3, 1, 1, [0])
    assert kept.staging.block(found.next()).count == 3
    assert kept.staging.commit("q", 4, {"x": 3, "y": 2}, kept.clock.us) is found
    kept.publish()
    kept.turn()
    kept = kept.reopened(tmp_path / "data")
    done = kept.staging.commit("q", 4, {}, kept.clock.us)
    assert (done.finished, done.rows, done.unroutable, done.lsn) == (True, 5, 1, 0)
    assert not kept.staging.open
    assert not kept.staging.staged
    assert kept.staging.ledger.wanted(0, kept.staging.log.end) == []


def test_files_change_under_transactions(kept: Kept, tmp_path: Path) -> None:
    kept.stage("q", 1, "p", 2)
    kept.staging.commit("r", 5, {}, kept.clock.us)
    kept.publish()
    kept.stage("s", 0, "p", 3)
    commit = kept.staging.commit("s", 0, {"p": 3}, kept.clock.us)
    kept.staging.advance(commit, 2, 0, 2)
    kept.turn()
    kept.store.rotate(kept.staging.checkpoint())
    kept.turn()
    kept = kept.reopened(tmp_path / "data")
    assert kept.staging.staged["q", 1].parts["p"].rows == 2
    assert kept.staging.staged["q", 1].octets() == len(to_queue(b"q", b"0", b"1"))
    assert [kept.staging.last_batch(query) for query in "qrs"] == [-1, 5, 0]
    (found,) = kept.staging.open.values()
    assert (found.query, found.rows, found.row) == ("s", 2, 2)
