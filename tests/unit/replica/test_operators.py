"""Operators: newcomers, drain, the minimum, force; and the status that people see."""

from __future__ import annotations

import pytest

from forebay.core.errors import RequestError
from forebay.replica.member import Member
from forebay.replica.membership import PresentNode
from forebay.replica.outcome import FOLLOWER, LEADER, LEARNER
from forebay.replica.register import IN_SYNC, OPERATOR, TAKE_OVER, TRANSFER, RegisterValue, View
from forebay.replica.settings import ReplicaSettings
from tests.replica_rig import ADDRESSES, MS, HeldMember, frames, leader, store, value
from tests.simulation.replica.logs import SimLog


def test_a_leader_takes_in_who_is_there() -> None:
    held = leader(in_sync="ab", members="ab")
    there = {node: PresentNode(store(node), ADDRESSES) for node in "abc"}
    held.member.admit(there, held.now)
    held.look()
    said = held.change().value
    assert (set(said.members), set(said.in_sync), said.why) == ({"a", "b", "c"}, {"a", "b"}, OPERATOR)
    held.member.admit(there, held.now)  # one change at a time
    held.look()
    assert held.changes == []
    held.see(said)
    held.member.admit(there, held.now)
    held.look()
    assert held.changes == []


def test_a_follower_takes_nobody_in() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b"))
    held.member.admit({"d": PresentNode(store("d"), ADDRESSES)}, held.now)
    held.look()
    assert held.changes == []


def test_a_drain_goes_to_the_follower_that_lacks_least() -> None:
    held = leader()
    held.append()
    held.acknowledge(4, "c")
    held.member.drain(held.now)
    held.look()
    said = held.change().value
    assert (said.leader, said.why) == ("c", TRANSFER)


def test_a_drain_is_refused_where_nobody_can_lead() -> None:
    held = leader(in_sync="a", min_in_sync=1)
    with pytest.raises(RequestError, match="no other member is in sync"):
        held.member.drain(held.now)


def test_a_leader_does_not_remove_itself() -> None:
    member = Member("node-a", "s", 0, SimLog("node-a", frames(1, 1)), ReplicaSettings())
    member.start(1)
    members = dict.fromkeys(("node-a", "node-b"), ADDRESSES)
    member.seen(View(1, RegisterValue("test", 2, "node-a", {"node-a": "s"}, members, 1, TAKE_OVER, "")), 1)
    member.promised(2, 1)
    with pytest.raises(RequestError, match="'node-a' leads: transfer that first"):
        member.remove(b"node-a".decode(), 1)  # a text of its own, as it comes from an operator
    member.remove("node-b", 1)
    change = member.take().change
    assert change is not None and set(change.value.members) == {"node-a"}


def test_the_minimum_is_changed_within_what_is_in_sync() -> None:
    held = leader(in_sync="ab")
    for least in (0, 3):
        with pytest.raises(RequestError, match=f"min_in_sync is {least}, and 2 are in sync"):
            held.member.change_minimum(least, held.now)
    held.member.change_minimum(1, held.now)
    held.look()
    assert held.change().value.min_in_sync == 1


def test_the_minimum_comes_back_after_somebody_was_forced() -> None:
    held = leader(min_in_sync=1)
    held.settings.min_in_sync = 2
    held.answer("b", "c")
    held.pass_time(50 * MS)
    change = held.change()
    assert (change.value.min_in_sync, change.value.why) == (2, IN_SYNC)
    assert set(change.value.in_sync) == {"a", "b", "c"}


def test_a_stale_store_is_forced_only_by_who_says_that_messages_may_be_lost() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b", in_sync="bc"))
    with pytest.raises(RequestError, match="not in sync"):
        held.member.force(held.now)
    held.member.force(held.now, may_lose=True)
    held.look()
    assert held.change().value.in_sync == {"a": store("a")}
    assert any("what it lacks is lost" in event for event in held.events)


def test_who_is_no_member_is_never_forced() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b", in_sync="bc", members="bc"))
    with pytest.raises(RequestError, match="no member"):
        held.member.force(held.now, may_lose=True)


def test_the_status_of_a_leader_tells_of_all() -> None:
    held = leader(in_sync="ab")
    held.append()
    held.sync()
    held.now += 40 * MS
    held.append()
    held.sync()
    held.acknowledge(4, "b")
    held.now += 10 * MS
    found = held.member.status(held.now)
    assert (found.role, found.epoch, found.leader, found.end, found.commit) == (LEADER, 2, "a", 5, 4)
    assert (found.in_sync, found.min_in_sync) == (["a", "b"], 2)
    assert found.waits == "waits for node 'b', 1 frames behind"
    b, c = found.others
    assert (b.name, b.role, b.synced, b.frames_behind, b.ms_behind, b.why) == ("b", FOLLOWER, 4, 1, 10, "")
    assert (c.name, c.role, c.frames_behind, c.silent_ms) == ("c", LEARNER, -1, 50)
    assert c.why == "makes no progress"
    held.pass_time(700 * MS)
    assert [each.why for each in held.member.status(held.now).others] == ["", "does not answer"]


def why(held: HeldMember, node: str) -> str:
    """The reason why a member is not in sync, as the leader's status says."""
    return next(each.why for each in held.member.status(held.now).others if each.name == node)


def test_the_status_says_why_a_member_is_not_in_sync() -> None:
    held = HeldMember(Member, frames(1, 1), promised=1)  # it may have promised something before it started
    held.see(value(2, "a", in_sync="ab"))
    held.sync()
    assert why(held, "c") == "has not been heard since this leader began"
    held.answer("b", "c")
    assert why(held, "c") == "waits for the lease of the leader before"
    joining = leader(in_sync="ab")
    joining.append()
    joining.sync()
    joining.acknowledge(4, "b")
    joining.answer("c")
    joining.acknowledge(3, "c")
    joining.pass_time(1 * MS)
    assert why(joining, "c") == "joins"
    joining.pass_time(400 * MS)
    assert why(joining, "c") != "joins"
    joining.pass_time(400 * MS)
    assert why(joining, "c") == "does not answer"


def test_the_status_says_why_nothing_is_committed() -> None:
    held = HeldMember(Member, frames(1, 1))
    assert held.member.status(held.now).waits == "the register has not been seen yet"
    held.see(value(2, "a", in_sync="a", min_in_sync=2))
    held.sync()
    assert held.member.status(held.now).waits == "in sync are 1, min_in_sync is 2"
    held = leader()
    held.append()
    held.acknowledge(4, "b", "c")
    assert held.member.status(held.now).waits == "waits for its own disk, 1 frames behind"
    held.sync()
    found = held.member.status(held.now)
    assert found.waits == ""
    assert [(each.frames_behind, each.ms_behind) for each in found.others] == [(0, 0), (0, 0)]


def test_the_status_of_a_follower_names_its_leader() -> None:
    held = HeldMember(Member, frames(1, 1))
    held.see(value(2, "b"))
    held.hear_append("b", 2, (2, 1))
    found = held.member.status(held.now)
    assert (found.role, found.leader, found.epoch, found.others) == (FOLLOWER, "b", 2, [])


def test_a_drain_goes_past_members_that_are_drained_themselves() -> None:
    held = leader()
    held.append()
    held.acknowledge(4, "c")
    held.member.avoided = {"c"}
    held.member.drain(held.now)
    held.look()
    assert held.change().value.leader == "b"
