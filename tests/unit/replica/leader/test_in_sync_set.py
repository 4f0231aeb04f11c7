"""The in-sync set grows by joining, shrinks with those that are silent, and never goes below its minimum."""

from __future__ import annotations

import pytest

from forebay.core.errors import RequestError
from forebay.replica.member import Member
from forebay.replica.register import IN_SYNC, OPERATOR
from tests.replica_rig import MS, HeldMember, frames, leader, store, value


def a_member_joins_under_load(made: type[Member]) -> None:
    """The leader is always ahead by the way to the learner and back: it is never seen at the end."""
    held = leader(made, in_sync="ab")
    for _ in range(40):
        lsn = held.append()
        held.sync()
        held.acknowledge(lsn, "b")
        held.answer("b", "c")
        held.acknowledge(lsn - 1, "c")
        held.pass_time(10 * MS)
        if held.changes:
            break
    assert set(held.change().value.in_sync) == {"a", "b", "c"}


def nobody_is_taken_in_during_a_promise(made: type[Member]) -> None:
    held = HeldMember(made, frames(1, 1))
    held.see(value(2, "a", in_sync="ab"))
    held.sync()
    held.acknowledge(3, "b")
    for _ in range(5):
        held.answer("b", "c")
        held.acknowledge(3, "c")
        held.pass_time(50 * MS)
    assert held.changes == []


def nobody_is_taken_in_before_it_has_the_barrier(made: type[Member]) -> None:
    held = HeldMember(made, frames(1, 1, 1))
    held.see(value(2, "a", in_sync="ab"))
    for _ in range(22):  # the own disk is slow: the barrier is not committed while the promise goes by
        held.pass_time(50 * MS)
        held.member.promised(2, held.now)
        held.look()
        held.answer("b", "c")
        held.acknowledge(4, "b")
    held.acknowledge(3, "c")
    held.pass_time(50 * MS)
    held.answer("b", "c")
    held.pass_time(50 * MS)
    assert held.changes == []
    held.acknowledge(4, "c")
    assert set(held.change().value.in_sync) == {"a", "b", "c"}


GROWING = [
    (a_member_joins_under_load, "no_join"),
    (nobody_is_taken_in_during_a_promise, "add_during_promise"),
    (nobody_is_taken_in_before_it_has_the_barrier, "add_before_barrier"),
]


def test_a_member_that_joins_counts_and_is_let_go_after_a_while() -> None:
    held = leader(in_sync="ab")
    held.answer("c")
    held.acknowledge(2, "c")
    held.pass_time(50 * MS)  # it joins
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    assert held.commit() == lsn - 1
    for _ in range(7):
        held.pass_time(50 * MS)
        held.answer("b", "c")
    assert held.commit() == lsn
    assert held.changes == []
    held.acknowledge(lsn - 1, "c")
    held.pass_time(50 * MS)
    assert held.append() == lsn + 1
    held.sync()
    held.acknowledge(lsn + 1, "b")
    assert held.commit() == lsn + 1  # it waits before it tries again


def test_who_founds_a_group_takes_others_in_at_once() -> None:
    held = HeldMember(Member, [])  # a new store: it has promised nobody anything
    held.see(value(1, "a", in_sync="a", members="ab", min_in_sync=1))
    held.sync()
    assert held.can_deliver()
    for _ in range(3):
        held.answer("b")
        held.acknowledge(1, "b")
        held.pass_time(50 * MS)
    assert set(held.change().value.in_sync) == {"a", "b"}


def test_who_joins_and_is_no_member_any_more_is_let_go() -> None:
    held = leader(in_sync="ab")
    held.answer("c")
    held.acknowledge(2, "c")
    held.pass_time(50 * MS)
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    held.see(value(2, "a", in_sync="ab", members="ab", why=OPERATOR))
    held.pass_time(50 * MS)
    assert held.commit() == lsn


def test_who_is_far_behind_does_not_join() -> None:
    held = leader(in_sync="ab")
    held.settings.join_frames_max = 4
    for _ in range(10):
        lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    held.answer("b", "c")
    held.acknowledge(3, "c")
    held.pass_time(50 * MS)
    assert held.commit() == lsn
    held.append()
    held.sync()
    held.acknowledge(lsn + 1, "b")
    assert held.commit() == lsn + 1


def test_another_store_of_a_member_replaces_the_one_in_the_register() -> None:
    held = leader(min_in_sync=1)
    held.answer("b")
    held.answer("c", number=2)
    held.acknowledge(2, "c", number=2)
    held.pass_time(50 * MS)
    held.acknowledge(3, "c", number=2)
    assert held.change().value.in_sync == {"a": store("a"), "b": store("b"), "c": store("c", 2)}


def test_who_is_silent_is_put_out_but_never_below_the_minimum() -> None:
    held = leader()
    for _ in range(13):
        held.pass_time(50 * MS)
        held.answer("b")
    assert set(held.change().value.in_sync) == {"a", "b"}
    held.see(value(2, "a", in_sync="ab", why=IN_SYNC))
    held.pass_time(900 * MS)
    assert held.changes == []


def test_who_makes_no_progress_is_put_out() -> None:
    held = leader()
    lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    for _ in range(23):
        held.pass_time(50 * MS)
        held.answer("b", "c")
    (change, *again) = held.changes
    assert set(change.value.in_sync) == {"a", "b"}
    assert all(each is change for each in again)


def test_who_is_slow_and_makes_progress_stays() -> None:
    held = leader()
    for _ in range(20):
        lsn = held.append()
    held.sync()
    held.acknowledge(lsn, "b")
    for number in range(18):
        for _ in range(6):
            held.pass_time(50 * MS)
            held.answer("b", "c")
        held.acknowledge(4 + number, "c")
    assert held.changes == []


def test_who_is_refused_is_put_out_at_once() -> None:
    held = leader()
    answered = held.now
    held.refused("c", answered - 1)  # tried before it has answered
    assert held.changes == []
    held.now += MS
    held.refused("c")
    assert set(held.change().value.in_sync) == {"a", "b"}


def test_nobody_is_put_out_for_the_leaders_own_pause() -> None:
    held = leader()
    held.now += 2_000 * MS
    held.member.tick(held.now)
    held.look()
    assert held.changes == []
    held.answer("b", "c")
    held.pass_time(100 * MS)
    assert held.changes == []


def test_a_member_is_removed_by_the_leader() -> None:
    held = leader()
    held.member.remove("c", held.now)
    held.look()
    said = held.change().value
    assert (set(said.members), set(said.in_sync), said.why) == ({"a", "b"}, {"a", "b"}, OPERATOR)


@pytest.mark.parametrize(
    ("node", "in_sync", "told"),
    [("x", "abc", "no member"), ("a", "abc", "leads"), ("b", "ab", "in sync would be 1, min_in_sync is 2")],
)
def test_a_removal_that_would_do_harm_is_refused(node: str, in_sync: str, told: str) -> None:
    held = leader(in_sync=in_sync)
    with pytest.raises(RequestError, match=told):
        held.member.remove(node, held.now)


def test_one_change_at_a_time() -> None:
    held = leader()
    held.member.remove("c", held.now)
    with pytest.raises(RequestError, match="under way"):
        held.member.remove("b", held.now)
