"""A node of a group, which leads or follows: one `Ready` has what is to be done for disk, clients and members."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from forebay.core.errors import DiskFull
from forebay.core.options import make_options
from forebay.core.ports import MonotonicClock
from forebay.log.store import Store
from forebay.node.group.group_member import NO_ROOM_TO_LEAD, GroupMember
from forebay.node.node import Node
from forebay.replica.outcome import FOLLOWER, LEADER, Outcome, Taking
from forebay.replica.settings import ReplicaSettings
from tests.node_rig import Counted, NodeRig
from tests.replicated import Leading
from tests.stores import SMALL, SmallDisk

PEER = "b"
EPOCH = 1


class StandingClock(MonotonicClock):
    def now_us(self) -> int:
        return 0


class FakeReplica:
    """The rules of a group, whose only other member does what the test says.

    role, epoch              of this member
    appended_to, written_to  the last frames that the member has told of
    acknowledged             the last frame of another leader that is told to be on the disk
    committed                all frames up to here are
    may_deliver              the lease is valid
    takings                  frames of another leader
    """

    def __init__(self) -> None:
        self.role = FOLLOWER
        self.epoch = EPOCH
        self.appended_to = 0
        self.written_to = 0
        self.acknowledged = 0
        self.shipped_to = 0
        self.committed = 0
        self.may_deliver = True
        self.lacks_room = False
        self.takings: list[Taking] = []

    def appended(self, lsn: int, now: int) -> None:
        self.appended_to = int(lsn)

    def written(self, epoch: int, lsn: int, now: int) -> None:
        if self.role == LEADER:
            self.written_to = int(lsn)
        else:
            self.acknowledged = int(lsn)

    def can_deliver(self, now: int) -> bool:
        return self.may_deliver

    def no_room(self) -> None:
        self.lacks_room = True

    def take(self) -> Outcome:
        outcome = Outcome()
        outcome.role, outcome.epoch, outcome.confirmed = self.role, self.epoch, self.committed
        outcome.takings, self.takings = self.takings, []
        if self.appended_to > self.shipped_to:
            self.shipped_to = self.appended_to
            outcome.messages.append((PEER, b"frames to %d" % self.shipped_to))
        return outcome


class SmallMember(GroupMember):
    """A member whose files are small, with such a replica."""

    fake: FakeReplica

    def open(self) -> list[str]:
        report = super().open()
        self.fake = FakeReplica()
        self.replica = cast(Any, self.fake)
        return report


class GroupRig(NodeRig):
    """A node in the hand, which leads a group.

    shipped  messages for the other member
    """

    def start(self) -> None:
        self.shipped: list[bytes] = []
        super().start()
        self.commit_all()

    def make_member(self) -> SmallMember:
        self.part = SmallMember("a", self.disk, self.clock, Counted(), self.options, ReplicaSettings(), StandingClock())
        self.part.store = Store(self.disk, self.clock, SMALL, True)
        return self.part

    def opened_node(self, node: Node) -> None:
        self.member = self.part.fake
        self.member.role = LEADER

    def commit_all(self) -> None:
        """Have the other member confirm all that is on this node's disk."""
        self.member.committed = self.member.written_to
        ready = self.node.take()
        self.shipped += [octets for _, octets in ready.messages]
        self.do(ready)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[GroupRig]:
    made = GroupRig(tmp_path)
    yield made
    made.close()


def test_the_barrier_is_the_first_that_the_member_hears_of(rig: GroupRig) -> None:
    assert rig.member.appended_to == rig.member.written_to == rig.store.lsn - 1 == rig.store.durable


def test_a_turn_says_at_once_what_the_disk_and_the_other_members_get(rig: GroupRig) -> None:
    rig.vhost.catalog.declare_queue(b"work", True, False, False, {}, 1)
    rig.broker.is_due = True
    ready = rig.node.turn()
    assert ready.commit is not None
    assert rig.member.appended_to == ready.commit.lsn
    assert list(ready.messages) == [(PEER, b"frames to %d" % ready.commit.lsn)]


def test_nothing_is_durable_by_this_node_s_disk_alone(rig: GroupRig) -> None:
    rig.vhost.catalog.declare_queue(b"work", True, False, False, {}, 1)
    before = rig.store.durable
    ready = rig.node.turn()
    assert ready.commit is not None
    ready.commit.run()
    rig.node.synced(ready.commit)
    assert rig.node.take().durable == before
    assert rig.member.written_to == ready.commit.lsn
    rig.member.committed = ready.commit.lsn
    assert rig.node.take().durable == ready.commit.lsn


def test_what_is_committed_as_a_turn_ends_leaves_with_that_turn(rig: GroupRig) -> None:
    rig.vhost.catalog.declare_queue(b"work", True, False, False, {}, 1)
    ready = rig.node.turn()
    assert ready.commit is not None
    ready.commit.run()
    rig.node.synced(ready.commit)
    rig.member.committed = ready.commit.lsn
    turned = rig.node.turn()
    assert turned.durable == ready.commit.lsn and rig.broker.is_due


def test_the_gate_is_open_while_the_lease_is_valid(rig: GroupRig) -> None:
    assert rig.broker.gate is not None
    for is_open in (True, False, True):
        rig.member.may_deliver = is_open
        rig.broker.is_due = False
        rig.node.check_lease()
        assert rig.broker.gate.is_open == is_open


def test_a_deposed_leader_lets_nothing_leave_but_what_its_store_has_begun(rig: GroupRig) -> None:
    line = rig.connect("amqp")
    rig.vhost.catalog.declare_queue(b"work", True, False, False, {}, 1)
    rig.broker.out.send.append(line)
    rig.member.role = FOLLOWER
    ready = rig.node.turn()
    assert ready.anew == "another node leads in epoch 1"
    assert ready.commit is not None and ready.send == []
    assert rig.broker.ended and not rig.node.take().anew
    ready.commit.run()
    rig.node.synced(ready.commit)
    assert rig.member.written_to < ready.commit.lsn, "the member is told nothing more"


class Follower:
    """A node that follows, and a store that leads."""

    def __init__(self, folder: Path) -> None:
        self.leading = Leading(folder / "leader", [1], EPOCH)
        options = make_options({})
        disk, clock = SmallDisk(str(folder / "follower")), self.leading.clock
        self.member = SmallMember("a", disk, clock, Counted(), options, ReplicaSettings(), StandingClock())
        self.member.store = Store(disk, clock, SMALL, True)
        self.node = Node(options, self.member, clock, Counted())
        assert self.node.open() == []
        self.replica = self.member.fake

    def send(self, behind: tuple[int, int]) -> int:
        """Have all frames of the leader come that stand behind one, named by epoch and LSN; return the last."""
        shipments = self.leading.store.frames_from(behind[1] + 1, 1 << 20)
        assert shipments
        self.replica.takings.append(Taking(EPOCH, behind[1], behind[0], shipments, shipments[-1].last))
        return int(shipments[-1].last)


@pytest.fixture
def follower(tmp_path: Path) -> Follower:
    return Follower(tmp_path)


def test_a_node_that_follows_makes_the_same_turn_without_a_broker(follower: Follower) -> None:
    node = follower.node
    assert node.broker is None and node.turn().commit is None
    last = follower.send((0, 0))
    ready = node.turn()
    assert ready.commit is not None and not ready.leads and ready.send == []
    assert node.turn().commit is None, "one commit at a time"
    ready.commit.run()
    assert follower.replica.acknowledged == 0
    node.synced(ready.commit)
    assert follower.replica.acknowledged == last
    follower.replica.committed = last
    node.turn()
    assert follower.member.store.durable == last


def test_a_follower_whose_disk_is_full_goes_on_without_the_frames(follower: Follower) -> None:
    follower.send((0, 0))
    ready = follower.node.take()
    assert ready.commit is not None
    follower.node.synced(ready.commit, DiskFull("no room"))
    assert follower.replica.lacks_room and follower.replica.acknowledged == 0
    assert not follower.node.take().anew


def test_a_node_leads_once_what_was_under_way_is_written(follower: Follower) -> None:
    node = follower.node
    follower.send((0, 0))
    commit = node.take().commit
    assert commit is not None
    follower.replica.role = LEADER
    follower.replica.epoch = EPOCH + 1
    assert not node.take().leads
    commit.run()
    node.synced(commit)
    assert node.take().leads and not node.take().leads, "it is said once"
    broker = node.lead()
    node.load()
    assert broker.gate is not None
    assert follower.replica.appended_to == follower.replica.written_to == broker.store.lsn - 1


def test_a_node_whose_disk_is_full_as_it_would_lead_begins_anew(follower: Follower) -> None:
    node = follower.node
    follower.send((0, 0))
    commit = node.take().commit
    assert commit is not None
    follower.replica.role = LEADER
    node.take()
    node.synced(commit, DiskFull("no room"))
    ready = node.take()
    assert ready.anew == NO_ROOM_TO_LEAD and not ready.leads
    assert [words % given for _, words, given in ready.lines] == [
        "cluster: the disk is full, so this node cannot lead: no room"
    ]
