"""The group that a leading node is a member of: what its turns tell the member, and what the member makes of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from forebay.core.ports import MonotonicClock
from forebay.log.store import Store
from forebay.node.group_member import GroupMember, GroupReady
from forebay.node.ready import Ready


class LedNode(ABC):
    """A node as the group that it leads knows it.

    store  the member's
    out    what the next `Node.take` returns
    ended  the node does nothing any more
    """

    store: Store
    out: Ready
    ended: bool

    @abstractmethod
    def check_lease(self) -> None:
        """Open the gate for deliveries, or close it, as the leader's lease is at this moment."""

    @abstractmethod
    def committed(self, lsn: int) -> None:
        """Let what waits for the frames up to this one leave. They are durable wherever they have to be."""


@final
class LedGroup:
    """A group, as the node that leads it has it.

    member   the node's own
    clock    the clock of the group's time-outs and of the leader's lease
    is_over  the node leads no more, and the member is told nothing
    """

    def __init__(self, member: GroupMember, clock: MonotonicClock) -> None:
        self.member = member
        self.clock = clock
        self.is_over = False

    def can_deliver(self) -> bool:
        """Return whether the leader's lease is valid, so that what is committed may be delivered."""
        return not self.is_over and self.member.can_deliver(self.clock.now_us())

    def appended(self, lsn: int) -> None:
        """Ship the frames up to `lsn`, which have been given to this node's disk, to the followers."""
        if not self.is_over:
            self.member.appended(lsn, self.clock.now_us())

    def written(self, lsn: int) -> None:
        """Record that the frames up to this one are on this node's disk."""
        if not self.is_over:
            self.member.written_own(lsn, self.clock.now_us())

    def begin(self, lsn: int) -> None:
        """Record the frames with which the node begins to lead. They are on its disk."""
        self.appended(lsn)
        self.written(lsn)

    def abandon(self, node: LedNode) -> None:
        """End the node at once: another leads, and may not have what is in memory here. Nothing more leaves it.

        What the store has given out for the disk is still to be run, as the store waits for it.
        """
        self.is_over = True
        node.ended = True
        out, left = node.out, Ready()
        left.commit, left.job, left.growth, left.faults = out.commit, out.job, out.growth, out.faults
        node.out = left

    def take(self, node: LedNode) -> GroupReady | None:
        """Return what the member asks for, once what is committed has left the node. End a node that is deposed.

        Return None if the node leads no more.
        """
        if self.is_over:
            return None
        ready = self.member.take(self.clock.now_us())
        if ready.deposed:
            self.abandon(node)
        elif ready.committed:
            node.store.commit_to(ready.committed)
            node.check_lease()
            node.committed(ready.committed)
        return ready
