"""One node of a cluster as the parts of its process see it."""

from __future__ import annotations

import asyncio
from abc import abstractmethod

from forebay.core.options import Options
from forebay.core.ports import MonotonicClock
from forebay.core.units import MS_PER_S
from forebay.node.group_member import GroupMember, GroupReady
from forebay.replica.membership import PresentNode
from forebay.replica.register import RegisterValue
from forebay.server.app import App
from forebay.server.cluster.clients.listeners import ClientListeners
from forebay.server.cluster.clients.refusing import Refusals
from forebay.server.cluster.clients.relay import Relay
from forebay.server.cluster.links.links import Links
from forebay.server.cluster.register.register import EtcdRegister
from forebay.server.cluster.settings import ClusterSettings
from forebay.server.cluster.watch import answering_of
from forebay.server.faults import Faults
from forebay.server.system.chance import SystemRandom
from forebay.server.system.disk import DataDisk


class ClusterNode(MonotonicClock):
    """The things that parts of a process look at, and what they have it do; `MemberProcess` is one.

    group      what it is a process for
    faults     errors of its own, before it leads and while it does
    listeners  for clients
    refusals   of clients, where others serve them
    nodes      who is there, as the register says
    app        the broker, while it leads
    ended      the process is at its end
    """

    options: Options
    settings: ClusterSettings
    loop: asyncio.AbstractEventLoop
    disk: DataDisk
    faults: Faults
    chance: SystemRandom
    group: GroupMember
    register: EtcdRegister
    links: Links
    relay: Relay
    refusals: Refusals
    listeners: ClientListeners
    nodes: dict[str, PresentNode]
    app: App | None
    ended: bool

    @abstractmethod
    def step(self) -> None:
        """Do all that the member asks for."""

    @abstractmethod
    def obey(self, ready: GroupReady) -> bool:
        """Do what the member of the group asks for. Return whether the process goes on with the files that it has."""

    @abstractmethod
    def is_drained(self, node: str) -> bool:
        """True of a node that is drained, as far as this one knows."""

    @abstractmethod
    def is_writing_aside(self) -> bool:
        """Return whether a thread may be writing to the folder beside the log, such as a promise."""

    @abstractmethod
    def tell_stats(self) -> None:
        """Have the node that leads know how this one is."""

    @abstractmethod
    def cut_clients(self) -> None:
        """End every client's connection at once."""

    @abstractmethod
    def begin_anew(self, why: str) -> None:
        """Forget everything that is not on the disk: the process is another from here on."""

    def note_streams(self) -> None:
        """Write down how far the stream groups have read, for the next leader; if this node leads."""
        if self.app is not None:
            self.app.vhosts.commit_streams()
            self.app.flush()

    def record(self) -> RegisterValue | None:
        """The register as it was seen last."""
        view = self.group.replica.standing.view
        return None if view is None else view.value

    def answering(self) -> list[str]:
        """The members in sync that this node hears, if it leads; all of them as far as others know."""
        return answering_of(self.group.replica.status(self.now_us()), self.silent_ms_max())

    def silent_ms_max(self) -> int:
        """The silence after which a member counts as gone: it would be put out then."""
        return int(self.group.settings.put_out_us) // MS_PER_S
