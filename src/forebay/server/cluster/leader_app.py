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
from forebay.node.group_member import GroupReady
from forebay.node.led_group import LedGroup
from forebay.node.node import Node
from forebay.server.app import NANOSECONDS, App
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.cluster.reads.offers import Offers
from forebay.server.listen import Closable, Endpoint, MakeProtocol
from forebay.server.system.chance import SystemRandom
from forebay.server.system.disk import DataDisk
from forebay.server.transport.tls import TlsContexts


class LeaderApp(App):
    """A broker that leads in one epoch, from its take-over to the end of its process."""

    def __init__(
        self, member: ClusterNode, options: Options, loop: asyncio.AbstractEventLoop, tls: TlsContexts
    ) -> None:
        self.member = member
        self.group = LedGroup(member.group, member)
        super().__init__(options, loop, tls)
        self.faults = member.faults
        self.disk.synced = self.histograms.synced
        self.vhosts.read_offers = Offers(member)
        self.addresses = dict(member.listeners.addresses)

    def make_disk(self) -> DataDisk:
        return self.member.disk

    def make_node(self) -> Node:
        built_us = Path(forebay.__file__).stat().st_mtime_ns // NANOSECONDS
        store = self.member.group.store
        return Node(self.options, self.disk, self.clock, SystemRandom(), built_us, store, self.group)

    def load(self) -> None:
        """Finish what every follower does all the time; the loop waits for the disk once more."""
        self.disk.elsewhere = None
        group = self.member.group
        self.node.load_from(group.recovery(), group.epoch)

    async def listen(self, make: MakeProtocol, endpoint: Endpoint) -> tuple[Closable, str]:
        return self.member.listeners.serve(make, endpoint.name)

    # ---- the group

    def start_commit(self, commit: Commit) -> None:
        super().start_commit(commit)
        self.histograms.ship(commit.lsn)

    def pass_on(self, ready: GroupReady) -> None:
        if ready.committed:
            self.histograms.on_committed(ready.committed)
            self.histograms.on_durable(ready.committed)
            if self.unwritten:
                self.answer_written(ready.committed)
        self.member.obey(ready)

    def step_group(self) -> None:
        """Do what the group asks for between turns. What it has committed leaves at once.

        Whatever else that brings is of the next turn, with what has come from sockets by then.
        """
        self.do(self.node.take())
        self.look()

    def abandon(self) -> None:
        """Serve nobody any more, as another leads."""
        self.group.abandon(self.node)

    def check_lease(self) -> None:
        """Let deliveries leave while the lease is valid, and hold them back while it is not."""
        self.node.check_lease()
        self.look()
