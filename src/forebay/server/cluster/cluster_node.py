"""One node of a cluster as the parts of its process see it."""

from __future__ import annotations

from abc import abstractmethod

from forebay.core.ports import MonotonicClock
from forebay.core.units import MS_PER_S
from forebay.node.group.group_member import GroupMember
from forebay.replica.membership import PresentNode
from forebay.replica.register import RegisterValue
from forebay.server.cluster.clients.listeners import ClientListeners
from forebay.server.cluster.clients.refusing import Refusals
from forebay.server.cluster.clients.relay import Relay
from forebay.server.cluster.links.links import Links
from forebay.server.cluster.register.register import EtcdRegister
from forebay.server.cluster.settings import ClusterSettings
from forebay.server.cluster.watch import answering_of
from forebay.server.node_process import NodeProcess
from forebay.server.process import Peers


class ClusterNode(Peers, MonotonicClock):
    """The peers of a node of a cluster, as the parts of its process see them; `ClusterPeers` is one.

    process    the process of the node
    group      the node's part in the group
    listeners  for clients
    refusals   of clients, where others serve them
    nodes      who is there, as the register says
    """

    process: NodeProcess
    settings: ClusterSettings
    group: GroupMember
    register: EtcdRegister
    links: Links
    relay: Relay
    refusals: Refusals
    listeners: ClientListeners
    nodes: dict[str, PresentNode]

    @abstractmethod
    def step(self) -> None:
        """Carry out the node's requests on behalf of the group."""

    @abstractmethod
    def is_drained(self, node: str) -> bool:
        """Return whether a node is drained, as far as this one knows."""

    @abstractmethod
    def is_writing_aside(self) -> bool:
        """Return whether a thread may be writing to the folder beside the log, such as a promise."""

    @abstractmethod
    def tell_stats(self) -> None:
        """Send this node's stats to the leader."""

    @abstractmethod
    def cut_clients(self) -> None:
        """Close every client's connection at once."""

    @abstractmethod
    def begin_anew(self, why: str) -> None:
        """Start over as another process, which knows only what is on the disk."""

    def note_streams(self) -> None:
        """Write down how far the stream groups have read, for the next leader. Only a leader does so."""
        app = self.process.app
        if app is not None:
            app.vhosts.commit_streams()
            app.flush()

    def record(self) -> RegisterValue | None:
        """Return the register's record as this node saw it last; None before it has seen one."""
        view = self.group.replica.standing.view
        return None if view is None else view.value

    def answering(self) -> list[str]:
        """Return the in-sync members that the leader hears; on a follower, all in-sync members it knows of."""
        return answering_of(self.group.replica.status(self.now_us()), self.silent_ms_max())

    def silent_ms_max(self) -> int:
        """Return after how many milliseconds of silence a member counts as gone: it is put out of sync then."""
        return int(self.group.settings.put_out_us) // MS_PER_S
