"""A node that leads a group: one turn decides for clients and for the group, and one `Ready` has what is to be done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from forebay.core.options import Options
from forebay.core.ports import Clock, Disk, MonotonicClock
from forebay.log.store import Store
from forebay.node.group_member import GroupMember, GroupReady
from forebay.node.led_group import LedGroup
from forebay.node.node import Node
from tests.node_rig import Counted, NodeRig, SmallNode
from tests.stores import SMALL

PEER = "b"
EPOCH = 1


class FakeMember:
    """A member whose only other member answers when the test says so.

    appended_to, written_to  the last frames that the node has told it of
    committed                that the next `take` says; 0 for none
    may_deliver              the lease is valid
    """

    def __init__(self) -> None:
        self.appended_to = 0
        self.written_to = 0
        self.shipped_to = 0
        self.committed = 0
        self.deposed = False
        self.may_deliver = True

    def appended(self, lsn: int, now: int) -> None:
        self.appended_to = int(lsn)

    def written_own(self, lsn: int, now: int) -> None:
        self.written_to = int(lsn)

    def can_deliver(self, now: int) -> bool:
        return self.may_deliver

    def take(self, now: int) -> GroupReady:
        ready = GroupReady()
        if self.appended_to > self.shipped_to:
            self.shipped_to = self.appended_to
            ready.messages.append((PEER, b"frames to %d" % self.shipped_to))
        ready.committed, self.committed = self.committed, 0
        ready.deposed = self.deposed
        return ready


class StandingClock(MonotonicClock):
    def now_us(self) -> int:
        return 0


class LeadingNode(SmallNode):
    """A node that leads from its start."""

    def __init__(self, options: Options, disk: Disk, clock: Clock, group: LedGroup) -> None:
        store = Store(disk, clock, SMALL, True)
        super().__init__(options, disk, clock, Counted(), 0, store, group)

    def load(self) -> None:
        self.load_from(self.store.open(), EPOCH)


class LeadingRig(NodeRig):
    """A node in the hand, with a member of a group.

    shipped  messages for the other member
    """

    def start(self) -> None:
        self.member = FakeMember()
        self.shipped: list[bytes] = []
        super().start()
        self.commit_all()

    def make_node(self) -> Node:
        group = LedGroup(cast(GroupMember, self.member), StandingClock())
        return LeadingNode(self.options, self.disk, self.clock, group)

    def commit_all(self) -> None:
        """Have the other member confirm all that is on this node's disk."""
        self.member.committed = self.member.written_to
        ready = self.node.take()
        if ready.group is not None:
            self.shipped += [octets for _, octets in ready.group.messages]
        self.do(ready)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[LeadingRig]:
    made = LeadingRig(tmp_path)
    yield made
    made.close()


def test_the_barrier_is_the_first_that_the_member_hears_of(rig: LeadingRig) -> None:
    assert rig.member.appended_to == rig.member.written_to == rig.store.lsn - 1 == rig.store.durable


def test_a_turn_says_at_once_what_the_disk_and_the_other_members_get(rig: LeadingRig) -> None:
    rig.vhost.catalog.declare_queue(b"work", True, False, False, {}, 1)
    rig.node.is_due = True
    ready = rig.node.turn()
    assert ready.commit is not None and ready.group is not None
    assert rig.member.appended_to == ready.commit.lsn
    assert ready.group.messages == [(PEER, b"frames to %d" % ready.commit.lsn)]


def test_nothing_is_durable_by_this_node_s_disk_alone(rig: LeadingRig) -> None:
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


def test_what_is_committed_as_a_turn_ends_leaves_with_that_turn(rig: LeadingRig) -> None:
    rig.vhost.catalog.declare_queue(b"work", True, False, False, {}, 1)
    ready = rig.node.turn()
    assert ready.commit is not None
    ready.commit.run()
    rig.node.synced(ready.commit)
    rig.member.committed = ready.commit.lsn
    turned = rig.node.turn()
    assert turned.durable == ready.commit.lsn and rig.node.is_due


def test_the_gate_is_open_while_the_lease_is_valid(rig: LeadingRig) -> None:
    assert rig.node.gate is not None
    for is_open in (True, False, True):
        rig.member.may_deliver = is_open
        rig.node.is_due = False
        rig.node.check_lease()
        assert rig.node.gate.is_open == is_open


def test_a_deposed_leader_lets_nothing_leave_but_what_its_store_has_begun(rig: LeadingRig) -> None:
    line = rig.connect("amqp")
    rig.vhost.catalog.declare_queue(b"work", True, False, False, {}, 1)
    rig.node.out.send.append(line)
    rig.member.deposed = True
    ready = rig.node.turn()
    assert ready.group is not None and ready.group.deposed
    assert ready.commit is not None and ready.send == []
    assert rig.node.ended and rig.node.take().group is None
    ready.commit.run()
    rig.node.synced(ready.commit)
    assert rig.member.written_to < ready.commit.lsn, "the member is told nothing more"
