"""Message sessions: locks, states and their bounds, and what a restart finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.consuming import message_sessions
from forebay.broker.consuming.message_sessions import STATE_OCTETS_MAX, MessageSessions
from forebay.core.errors import TOO_LARGE, TOO_MANY, RequestError
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.log.store import Store
from tests.stores import SMALL, SmallDisk, TestClock


class Kept:
    """Message sessions on a store on real files; turns end by hand."""

    def __init__(self, folder: Path) -> None:
        self.clock = TestClock()
        self.disk = SmallDisk(str(folder))
        self.store = Store(self.disk, self.clock, SMALL)
        entries = self.store.open().entries
        self.sessions = MessageSessions(self.store, 0)
        for entry in entries:
            assert entry.kind == INTERNAL
            self.sessions.restore(entry.group, entry.payload)
        self.sessions.recovered(self.clock.us)
        self.store.start(self.sessions.checkpoint())

    def turn(self) -> None:
        self.sessions.end_turn(self.clock.us)
        commit = self.store.commit()
        if commit is not None:
            commit.run()
            self.store.synced(commit)


def test_a_lock_is_one_connections(tmp_path: Path) -> None:
    sessions = Kept(tmp_path).sessions
    lock = sessions.lock(1, b"s", 7, 100)
    assert lock is not None
    assert sessions.lock(1, b"s", 8, 100) is None
    assert sessions.lock(2, b"s", 8, 100) is not None, "of another queue"
    assert sessions.find_lock(1, b"s") is lock
    lock.release()
    lock.release()
    again = sessions.lock(1, b"s", 8, 100)
    lock.release()
    assert sessions.find_lock(1, b"s") is again, "an old lock ends no new one"


def test_states(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    sessions = kept.sessions
    assert sessions.state(1, b"s") is None
    sessions.set_state(1, b"s", b"one")
    assert sessions.state(1, b"s") == b"one", "in the same turn, too"
    sessions.set_state(1, b"s", b"")
    sessions.set_state(2, b"s", b"other")
    kept.turn()
    assert (sessions.state(1, b"s"), sessions.state(2, b"s")) == (b"", b"other")
    assert sessions.octets == 5
    sessions.set_state(2, b"s", None)
    sessions.set_state(2, b"none", None)
    kept.turn()
    assert sessions.state(2, b"s") is None
    assert (sessions.octets, sessions.counts) == (0, {1: 1})


def test_a_restart_finds_the_last_state_of_each(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(50):
        kept.sessions.set_state(1, b"s%d" % (number % 5), b"state %d" % number)
        kept.turn()
    kept.sessions.set_state(1, b"s0", None)
    kept.turn()
    kept.sessions.set_state(1, b"s1", b"lost")  # in a turn that never ends
    kept.disk.close_all()
    found = Kept(tmp_path).sessions
    states = {group: found.state(1, group) for group in found.groups_with_state(1)}
    assert states == {b"s%d" % number: b"state %d" % (45 + number) for number in range(1, 5)}
    assert found.octets == 4 * len("state 45")


def test_the_log_forgets_what_was_replaced(tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    for number in range(20):
        kept.sessions.set_state(1, b"s", b"%d" % number)
        kept.turn()
    assert kept.sessions.log.start >= 18


def test_states_of_queues_that_are_gone_go(tmp_path: Path) -> None:
    sessions = Kept(tmp_path).sessions
    sessions.set_state(1, b"s", b"one")
    sessions.set_state(2, b"s", b"two")
    sessions.forget_queues({2})
    assert list(sessions.states) == [(2, b"s")]
    assert sessions.octets == 3


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = Kept(tmp_path).sessions
    sessions.set_state(1, b"s", bytes(STATE_OCTETS_MAX))
    with pytest.raises(RequestError) as refused:
        sessions.set_state(1, b"s", bytes(STATE_OCTETS_MAX + 1))
    assert refused.value.reason == TOO_LARGE
    sessions.states.update({(9, b"%d" % number): number for number in range(message_sessions.STATES_MAX)})
    with pytest.raises(RequestError) as refused:
        sessions.set_state(1, b"t", b"one too many")
    assert refused.value.reason == TOO_MANY
    sessions.set_state(1, b"s", b"another")
    assert sessions.state(1, b"s") == b"another"
