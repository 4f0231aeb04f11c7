"""The broker in the process of a node that leads its group.

It is the broker of a single node but for three things: the store was open before, and is written from here on in the
leader's epoch; what is on the own disk is durable only once it is committed; and clients come by listeners that were
open before, or over other nodes.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import forebay
from forebay.core.options import Options
from forebay.log.wal import Commit
from forebay.node.commit_gate import CommitGate
from forebay.node.node import Node
from forebay.node.ready import Ready
from forebay.server.app import NANOSECONDS, App
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.reads.offers import Offers
from forebay.server.listen import Closable, Endpoint, MakeProtocol
from forebay.server.system.chance import SystemRandom
from forebay.server.system.disk import DataDisk
from forebay.server.transport.tls import TlsContexts


class LeaderApp(App):
    """A broker that leads in one epoch, from its take-over to the end of its process.

    is_doing  what a turn is ready with is being done
    late      all frames up to here were committed meanwhile; 0 where none were
    """

    def __init__(
        self, member: ClusterNode, options: Options, loop: asyncio.AbstractEventLoop, tls: TlsContexts
    ) -> None:
        self.member = member
        self.is_doing = False
        self.late = 0
        super().__init__(options, loop, tls)
        self.faults = member.faults
        self.disk.synced = self.histograms.synced
        self.node.gate = CommitGate()
        self.vhosts.common.read_offers = Offers(member)
        self.addresses = dict(member.listeners.addresses)

    def make_disk(self) -> DataDisk:
        return self.member.disk

    def make_node(self) -> Node:
        built_us = Path(forebay.__file__).stat().st_mtime_ns // NANOSECONDS
        group = self.member.group
        return Node(self.options, self.disk, self.clock, SystemRandom(), built_us, group.store)

    def load(self) -> None:
        """Finish what every follower does all the time; the loop waits for the disk once more."""
        self.disk.elsewhere = None
        group = self.member.group
        self.node.load_from(group.recovery(), group.epoch)

    async def listen(self, make: MakeProtocol, endpoint: Endpoint) -> tuple[Closable, str]:
        return self.member.listeners.serve(make, endpoint.name)

    # ---- what is on the disk, and what is committed

    def turn(self) -> None:
        self.set_gate()
        super().turn()

    def do(self, ready: Ready) -> None:
        """Do the work; what is committed meanwhile is told of when all of this has been sent."""
        if self.is_doing:
            super().do(ready)
            return
        self.is_doing = True
        try:
            super().do(ready)
        finally:
            self.is_doing = False
        if self.late:
            late, self.late = self.late, 0
            self.committed(late)

    def set_gate(self) -> None:
        """Let deliveries leave, or not, as the lease is at this moment."""
        self.node.open_gate(self.member.group.can_deliver(self.member.now_us()))

    def look_at_gate(self) -> None:
        """Set the gate between turns: see `set_gate`."""
        self.set_gate()
        self.look()

    def start_commit(self, commit: Commit | None) -> None:
        super().start_commit(commit)
        if commit is not None:
            self.histograms.ship(commit.lsn)
            self.member.appended(commit.lsn)

    def synced(self, commit: Commit, error: BaseException | None) -> None:
        """The own disk has it: the next commit may go, and others may have had this one before."""
        if error is not None:
            super().synced(commit, error)
            return
        self.store.written(commit)
        self.node.is_due = True
        self.member.written(commit.lsn)
        self.let_durable()

    def committed(self, lsn: int) -> None:
        """All in sync have the frames up to here: what waited for that leaves at once.

        Whatever else that brings is of the next turn, with what has come from sockets by then.
        """
        if self.is_doing:
            self.late = lsn
            return
        self.store.commit_to(lsn)
        self.histograms.on_committed(lsn)
        self.set_gate()
        self.node.committed(lsn)
        ready = self.node.take()
        if ready.stop is None:
            self.histograms.on_durable(ready.durable)
        self.do(ready)
        if self.unwritten:
            self.answer_written(ready.durable)
        self.look()
