"""A follower whose disk is full asks for nothing and takes over from nobody, until it has room."""

from __future__ import annotations

from forebay.replica.member import Member
from forebay.replica.messages import Append, HeartbeatAnswer, RunsDiffer
from tests.replica_rig import MS, SECOND, HeldMember, follower


def full_follower() -> HeldMember:
    """It has acknowledged frame 2, and its disk had no room for 3 and 4."""
    held = follower(Member)
    held.hear_append("b", 2, (2, 1))
    held.sync()
    held.hear_append("b", 2, (2, 1), 2, 2)
    held.unwritten.clear()
    del held.log.frames[2:]
    held.member.no_room()
    held.look()
    assert held.acknowledged("b")[-1] == 2
    return held


def test_frames_are_neither_taken_nor_asked_for_without_room() -> None:
    held = full_follower()
    for _ in range(10):
        held.hear_append("b", 2, (2, 1), 2, 2)
        held.hear_append("b", 2, (4, 2), 2)
    assert held.heard_by("b", RunsDiffer) == [] and held.acknowledged("b") == []
    assert len(held.log.frames) == 2
    held.member.has_room()
    held.look()
    (answer,) = held.heard_by("b", RunsDiffer)
    assert isinstance(answer, RunsDiffer) and answer.runs[0][2] == 2
    held.hear_append("b", 2, (2, 1), 2, 2)
    held.sync()
    assert held.acknowledged("b")[-1] == 4
    assert not held.heard_by("b", HeartbeatAnswer) and not held.heard_by("b", Append)


def test_a_node_without_room_takes_over_from_nobody() -> None:
    held = follower(Member)
    held.member.standing.can_lead = False
    held.pass_time(5 * SECOND)
    held.refused("b")
    assert held.changes == []
    held.member.standing.can_lead = True
    held.pass_time(100 * MS)
    assert held.change().value.leader == "a"
