"""The process of one node, and the other members of the group, as the parts of the process see them."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from forebay.core.errors import DiskFull
from forebay.core.options import Options
from forebay.node.group.lone_member import NodeMember
from forebay.node.node import Node
from forebay.node.ready import Ready
from forebay.node.telemetry.journal import Line
from forebay.server.faults import Faults
from forebay.server.listen import Closable, Endpoint, MakeProtocol
from forebay.server.system.chance import SystemRandom
from forebay.server.system.clock import SystemClock
from forebay.server.system.disk import DataDisk
from forebay.server.system.disk_work import DiskWork, Work
from forebay.server.transport.tls import TlsContexts


class Process(ABC):
    """The things around a node, whether it follows or leads.

    faults  errors of its own
    work    the disk's threads
    node    takes all decisions
    peers   the other members of the node's group
    ended   nothing more is done for the group: the process stops, or begins anew
    """

    options: Options
    tls: TlsContexts
    loop: asyncio.AbstractEventLoop
    clock: SystemClock
    chance: SystemRandom
    faults: Faults
    disk: DataDisk
    work: DiskWork
    node: Node
    peers: Peers
    ended: bool

    @abstractmethod
    def do(self, ready: Ready) -> None:
        """Carry out the node's requests that have nothing to do with clients."""

    @abstractmethod
    def write_lines(self, lines: Sequence[Line]) -> None:
        """Write the node's lines to the log."""

    @abstractmethod
    def end_commits(self) -> None:
        """Take no more reports of commits, as none is under way. A second call has no effect."""

    @abstractmethod
    def end_work(self) -> None:
        """Wait for the disk's work, and end its threads; on any thread. A second call has no effect."""

    @abstractmethod
    def guard(self, step: Callable[[], None]) -> None:
        """Run a callback of the event loop. An error in it is the broker's own, and ends the process."""


class Peers:
    """The other members of a node's group: how the process reaches them, and what it does for them.

    A method does nothing here if a node that is alone has nothing to do.

    group  the node's part in the group
    """

    group: NodeMember

    def prepare(self) -> None:
        """Prepare the data folder, before anything is read."""

    def opened(self) -> None:
        """React to the opened data folder."""

    async def start(self, endpoints: Sequence[Endpoint], is_told_to_stop: Callable[[], bool]) -> None:
        """Join the group. Raises OptionError if a listener cannot be opened.

        is_told_to_stop  says whether a signal has come that ends the process
        """

    def fields(self) -> dict[str, object]:
        """Return what the ready line says of the node beside its folder."""
        raise NotImplementedError

    def obey(self, ready: Ready) -> None:
        """Carry out the node's requests on behalf of the group."""

    def has_followed(self, error: BaseException | None) -> None:
        """Note that the disk has written frames of the leader, or why it could not."""

    def has_file(self, work: Work, error: BaseException | None) -> bool:
        """Handle finished work on a file; return whether nobody else has to."""
        return False

    def cannot_lead(self, error: DiskFull) -> None:
        """Keep the node from leading, as its disk has no room for what a leader begins with."""
        raise error

    async def listen(self, make: MakeProtocol, endpoint: Endpoint) -> tuple[Closable, str]:
        """Serve clients of a listener by the broker; return the listener and its actual address."""
        raise NotImplementedError

    def begin_to_lead(self) -> None:
        """React to the node's new broker, which nobody serves yet."""

    def begin_to_serve(self) -> None:
        """Hand over the clients that have waited for a leader to the broker."""

    def serves(self) -> None:
        """Announce that the broker and its services serve."""

    async def hand_over(self) -> bool:
        """Hand leadership to another member, and return whether one leads. Nothing more is written then."""
        return False

    async def leave(self, hurry: asyncio.Event) -> None:
        """Send away the clients that came by way of this node, which does not lead."""

    async def part(self, hurry: asyncio.Event) -> None:
        """Send away this node's clients, as another node leads by now."""

    def close_listeners(self) -> None:
        """Close the listeners."""

    async def stop(self) -> None:
        """Leave the group."""
