"""A disk that does not answer: said once, and once when it is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.options import make_options
from forebay.log.store import Store
from forebay.log.wal import Commit
from forebay.node.back_pressure.disk_answer import DiskAnswer
from forebay.node.telemetry.journal import Journal
from forebay.server.system.disk import DataDisk
from tests.stores import SMALL, TestClock

NOTE = 100  # a kind of the user's
TICK_US = 100_000
SECOND_US = 1_000_000


class Looking:
    """A store, and who looks whether its disk answers."""

    def __init__(self, folder: Path) -> None:
        self.clock = TestClock()
        self.store = Store(DataDisk(str(folder)), self.clock, SMALL)
        self.store.open()
        self.store.start([])
        self.journal = Journal()
        self.answer = DiskAnswer(make_options({"disk_answer_timeout_ms": 1000}), self.store, self.journal)

    def give(self) -> Commit:
        self.store.note(NOTE, 0, 0, b"x", True)
        commit = self.store.commit()
        assert commit is not None
        return commit

    def take(self, commit: Commit) -> None:
        commit.run()
        self.store.synced(commit)

    def later(self, us: int, asked_us: int = 0) -> list[bool]:
        """Look each tenth of a second; the changes of the state."""
        end = self.clock.us + us
        changes: list[bool] = []
        while self.clock.us < end:
            self.clock.us += TICK_US
            if self.answer.look(asked_us, self.clock.us):
                changes.append(self.store.no_answer)
        return changes


@pytest.fixture
def looking(tmp_path: Path) -> Looking:
    return Looking(tmp_path)


def test_it_is_said_once_and_once_when_it_is_over(looking: Looking) -> None:
    commit = looking.give()
    assert looking.later(9 * TICK_US) == []
    assert looking.later(5 * SECOND_US) == [True]
    assert looking.answer.waited_s(looking.clock.us) > 5
    looking.take(commit)
    assert looking.later(5 * TICK_US) == []
    looking.take(looking.give())  # the first that is answered in time
    assert looking.later(TICK_US) == [False]
    assert looking.answer.waited_s(looking.clock.us) == 0
    assert len(looking.journal.take()) == 2


def test_a_disk_that_is_slow_each_time_is_said_once(looking: Looking) -> None:
    changes: list[bool] = []
    for _ in range(4):
        commit = looking.give()
        changes += looking.later(2 * SECOND_US)
        looking.take(commit)
    assert changes == [True]
    assert looking.later(2 * SECOND_US) == [False]  # nobody asks it anything


def test_questions_that_are_answered_keep_nothing_going(looking: Looking) -> None:
    commit = looking.give()
    assert looking.later(2 * SECOND_US) == [True]
    looking.take(commit)
    assert looking.later(5 * TICK_US, looking.clock.us) == []
    assert looking.later(6 * TICK_US, looking.clock.us) == [False]


def test_whatever_else_it_was_asked_counts(looking: Looking) -> None:
    assert looking.later(3 * SECOND_US, looking.clock.us) == [True]


def test_a_process_that_stood_still_says_nothing_of_its_disk(looking: Looking) -> None:
    looking.later(TICK_US)
    commit = looking.give()
    looking.clock.us += 10 * SECOND_US
    assert not looking.answer.look(0, looking.clock.us)
    looking.take(commit)
    assert looking.later(SECOND_US) == []
