"""A follower takes over from a leader that is dead or silent, in its turn, and keeps its word to it."""

from __future__ import annotations

from forebay.replica.member import Member
from forebay.replica.messages import Heartbeat
from forebay.replica.outcome import FOLLOWER, LEADER
from forebay.replica.register import TAKE_OVER
from tests.replica_rig import MS, SECOND, HeldMember, follower, frames, value


def a_reset_proves_nothing(made: type[Member]) -> None:
    held = follower(made)
    held.now += 10 * MS
    held.member.reset("b", held.now)
    held.look()
    assert held.changes == []
    assert held.probes == ["b"]


def a_restarted_member_waits(made: type[Member]) -> None:
    held = HeldMember(made, frames(1, 1), promised=2)
    held.see(value(2, "b"))
    held.sync()
    held.pass_time(900 * MS)
    assert held.changes == []
    held.pass_time(150 * MS)
    assert held.change().value.leader == "a"


def refused_voids_the_promise_to_that_process_alone(made: type[Member]) -> None:
    held = HeldMember(made, frames(1, 1))
    held.see(value(2, "b"))
    held.sync()
    held.hear("b", Heartbeat(2, 1, 0))
    held.now += 10 * MS
    held.refused("b")  # and to whom it gave its word before it started, nobody knows
    said = held.change().value
    assert set(said.in_sync) == {"a", "c"}
    held.see(said)
    held.sync()
    held.acknowledge(3, "c")
    held.answer("c")
    assert held.commit() == 3
    assert not held.can_deliver()


TAKING_OVER = [
    (a_reset_proves_nothing, "reset_is_death"),
    (a_restarted_member_waits, "restart_no_wait"),
    (refused_voids_the_promise_to_that_process_alone, "refused_voids_all"),
]


def test_silence_means_after_a_while() -> None:
    held = follower()
    held.pass_time(500 * MS)
    assert held.probes == []
    held.pass_time(450 * MS)
    assert held.probes
    assert set(held.probes) == {"b"}
    assert held.changes == []
    held.pass_time(100 * MS)
    said = held.change().value
    assert (said.epoch, said.leader, set(said.in_sync), said.why) == (3, "a", {"a", "c"}, TAKE_OVER)


def test_those_behind_in_rank_wait_longer() -> None:
    held = HeldMember(Member, frames(1, 1), name="c")
    held.see(value(2, "b"))
    held.sync()
    held.hear("b", Heartbeat(2, 1, 0))
    held.now += 10 * MS
    held.refused("b")
    assert held.changes == []  # a is first
    held.pass_time(100 * MS)
    assert held.change().value.leader == "c"


def test_refused_means_dead_at_once() -> None:
    held = follower()
    held.now += 10 * MS
    held.refused("b")
    assert held.change().value.leader == "a"


def test_refused_before_the_last_word_proves_nothing() -> None:
    held = follower()
    tried = held.now
    held.now += 10 * MS
    held.hear("b", Heartbeat(2, 2, 0))
    held.refused("b", tried)
    held.refused("c")
    assert held.changes == []


def test_the_old_leader_stays_where_the_minimum_needs_it() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b", in_sync="ab"))
    held.sync()
    held.pass_time(1100 * MS)
    assert set(held.change().value.in_sync) == {"a", "b"}


def test_who_is_not_in_sync_never_takes_over() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b", in_sync="bc"))
    held.sync()
    held.pass_time(5 * SECOND)
    held.refused("b")
    assert held.changes == []


def test_who_has_promised_more_than_the_register_says_waits_for_it() -> None:
    held = follower(promised=4)
    held.pass_time(3 * SECOND)
    assert held.changes == []


def test_a_pause_of_its_own_is_no_silence_of_the_leader() -> None:
    held = follower()
    held.now += 5 * SECOND
    held.member.tick(held.now)
    held.look()
    assert held.changes == []
    held.hear("b", Heartbeat(2, 2, 0))
    held.pass_time(900 * MS)
    assert held.changes == []


def test_a_candidate_forgets_what_is_unknown_and_looks() -> None:
    held = follower()
    held.now += 10 * MS
    held.refused("b")
    first = held.change()
    reads = held.reads
    held.pass_time(290 * MS)
    assert held.changes == []
    held.pass_time(60 * MS)
    assert held.reads > reads
    held.pass_time(100 * MS)
    assert held.change() is not first
    held.see(first.value, 9)  # it was made after all
    held.sync()
    assert (held.role(), held.begun) == (LEADER, 3)


def test_who_lost_the_race_follows() -> None:
    held = follower()
    held.now += 10 * MS
    held.refused("b")
    held.change()
    held.see(value(3, "c", in_sync="ac"))
    assert (held.role(), held.promise) == (FOLLOWER, 3)
    held.hear("c", Heartbeat(3, 1, 0))
    held.pass_time(900 * MS)
    assert held.changes == []
