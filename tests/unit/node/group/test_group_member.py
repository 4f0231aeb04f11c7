"""A member of a group that follows: the frames of its leaders, and what it tells them."""

from __future__ import annotations

from pathlib import Path

from forebay.core.options import make_options
from forebay.core.ports import MonotonicClock
from forebay.node.group.group_member import GroupMember
from forebay.node.ready import Ready
from forebay.replica.outcome import Taking
from forebay.replica.settings import ReplicaSettings
from forebay.server.system.chance import SystemRandom
from tests.replicated import Following, Leading
from tests.stores import SmallDisk, TestClock


class StandingClock(MonotonicClock):
    def now_us(self) -> int:
        return 0


def take(member: GroupMember, leading: Leading, epoch: int, prev: tuple[int, int]) -> None:
    """Give a member all that a leader has behind a frame, which is named by epoch and LSN."""
    shipments = leading.store.frames_from(prev[1] + 1, 1 << 20)
    assert shipments
    ready = Ready()
    member.take_frames(Taking(epoch, prev[1], prev[0], shipments, shipments[-1].last), ready, 0)
    assert ready.lines == ()


def publish(leading: Leading, count: int) -> None:
    for number in range(count):
        leading.publish(1, b"record %d" % number)
        leading.write()


def test_frames_that_are_cut_away_keep_no_later_leader_waiting(tmp_path: Path) -> None:
    first = Leading(tmp_path / "a", [1], 1)
    second = Following(tmp_path / "b")
    member = GroupMember(
        "c",
        SmallDisk(str(tmp_path / "c")),
        TestClock(),
        SystemRandom(),
        make_options({}),
        ReplicaSettings(),
        StandingClock(),
    )
    member.open()
    publish(first, 4)
    assert second.fetch(first.store) is None
    take(member, first, 1, (0, 0))
    publish(first, 5)
    end = second.store.end()
    take(member, first, 1, end)  # which the second leader does not have
    leader = second.lead([1], 2)
    take(member, leader, 2, end)
    ready = Ready()
    member.follow(ready)
    assert ready.commit is not None
    ready.commit.run()
    member.followed(ready.commit, None)
    assert member.store.on_disk == leader.store.end()[1] < first.store.end()[1]
    assert not member.taken, "the leader is told of all that is on the disk"
