"""Draining a node: leadership goes first, then its clients are told where to go, and then it may be stopped.

The node that leads decides, and tells the other with a message of two octets: DRAIN, and 1 to begin or 0 to end it. A
drained node keeps the data as before, sends clients that come to other nodes, and says of itself that it is drained
(node_stats.py); when the leader hears that, it lets the clients go that had come by it. All this lasts as long as the
node's process.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from forebay.core.errors import PRECONDITION, RequestError
from forebay.core.option_cluster import EVERYWHERE
from forebay.core.option_table import split_address
from forebay.core.units import MS_PER_S
from forebay.replica.outcome import LEADER
from forebay.server.cluster.clients.refusing import Refusals
from forebay.server.cluster.cluster_node import ClusterNode
from forebay.server.net import Connection

DRAIN: Final = 0xC2  # the first octet of the message
SINCE_VERSION: Final = 3
AGAIN_US: Final = 1_000_000
LOOK_S: Final = 0.02
PART_S: Final = 0.5  # for which clients may go before this process begins anew
LEAVE_S: Final = 3.0
MARK: Final = "_FOREBAY_DRAINED"  # in the environment of a process that begins anew
logger = logging.getLogger("forebay")


class Draining:
    """The draining of one node.

    is_drained  whether this node is drained
    drained     other nodes that have reported that they are drained
    refusals    for clients that come here then
    """

    def __init__(self, member: ClusterNode) -> None:
        self.member = member
        self.is_drained = os.environ.pop(MARK, "") != ""
        self.drained: set[str] = set()
        self.refusals = Refusals(member.settings.node, True, member.process.options.connections_max, "is drained")
        self.again_us = 0

    # ---- for administrators

    def begin(self, node: str) -> None:
        """Drain a node. Raises RequestError if the node cannot be drained."""
        member = self.member
        record = member.record()
        if record is None or node not in record.members:
            raise RequestError(PRECONDITION, f"{node!r} is no member")
        left = [each for each in member.answering() if each != node and each not in self.drained]
        if len(left) < record.min_in_sync:
            text = f"without {node!r} and those that are drained, {len(left)} would be in sync"
            raise RequestError(PRECONDITION, f"{text}, and min_in_sync is {record.min_in_sync}")
        if node != member.settings.node:
            self.tell(node, True)
            return
        member.note_streams()
        member.group.replica.drain(member.now_us())
        self.set(True)
        member.step()

    def end(self, node: str) -> None:
        """End a node's drain, so that it takes clients again. Raises RequestError if it cannot be told."""
        record = self.member.record()
        if record is None or node not in record.members:
            raise RequestError(PRECONDITION, f"{node!r} is no member")
        if node == self.member.settings.node:
            self.set(False)
        else:
            self.tell(node, False)

    def tell(self, node: str, is_drained: bool) -> None:
        """Send another node the order to begin or end its drain."""
        links = self.member.links
        version = links.version(node)
        if version == 0:
            raise RequestError(PRECONDITION, f"there is no link to {node!r}: does it run?")
        if version < SINCE_VERSION:
            text = f"{node!r} speaks version {version} of the protocol between nodes, which has no drain: stop it"
            raise RequestError(PRECONDITION, text)
        links.send(node, bytes((DRAIN, is_drained)))

    def says(self, node: str) -> bool:
        """Return whether a node is drained, as far as this one knows."""
        return self.is_drained if node == self.member.settings.node else node in self.drained

    # ---- from other nodes

    def told(self, node: str, octets: bytes) -> None:
        """Drain this node or end that, as a message of the leader says; ignore messages of other nodes."""
        if node == self.member.group.leader:
            self.set(octets[1:2] == b"\x01")

    def heard(self, node: str, is_drained: bool) -> None:
        """Note what a node has said of itself: whether it is drained."""
        if not is_drained:
            self.drained.discard(node)
        elif node not in self.drained:
            self.drained.add(node)
            self.send_away(node)

    # ---- on this node

    def set(self, is_drained: bool) -> None:
        """Begin or end this node's drain, and report that to the leader."""
        if is_drained != self.is_drained:
            logger.info("cluster: this node is %s", "drained" if is_drained else "drained no more")
        self.is_drained = is_drained
        self.look(self.member.now_us())
        self.member.tell_stats()

    def look(self, now_us: int) -> None:
        """Tell the group which nodes should not lead, and hand over leadership that came to this node all the same."""
        member = self.member
        replica = member.group.replica
        replica.avoided = set(self.drained)
        if not self.is_drained:
            return
        replica.avoided.add(member.settings.node)
        self.refusals.addresses = {each: self.reference(each, "") for each in member.listeners.addresses}
        if member.group.role == LEADER and now_us >= self.again_us:
            self.again_us = now_us + AGAIN_US
            with suppress(RequestError):  # nobody can lead in its place, or a change is under way
                member.note_streams()
                replica.drain(now_us)

    def keep_for_next(self) -> None:
        """Pass the drain on to the process that replaces this one."""
        if self.is_drained:
            os.environ[MARK] = "1"

    async def leave(self, hurry: asyncio.Event) -> None:
        """Ask the leader to send away the clients that came by way of this node, which follows and stops."""
        member = self.member
        if not member.relay.clients or member.links.version(member.group.leader) < SINCE_VERSION:
            return
        self.set(True)
        await self.until(lambda: not member.relay.clients, hurry)

    # ---- clients

    def reference(self, listener: str, without: str) -> str:
        """Return the address of another node's listener of that kind; "" if there is none that clients can use.

        without  a node that is not meant besides this one
        """
        record = self.member.record()
        if record is None:
            return ""
        own = self.member.settings.node
        for name in [record.leader, *sorted(record.in_sync)]:
            is_meant = name not in (own, without) or (name == own and without)
            if not is_meant or self.says(name):
                continue
            address = record.members[name].clients.get(listener, "")
            if address and split_address(address)[0] not in EVERYWHERE:
                return address
        return ""

    def send_away(self, node: str) -> None:
        """Send away the clients that came by way of a node. Only the leader does so."""
        app = self.member.process.app
        if app is None or self.member.process.ended:
            return
        for connection in [each for each in app.open if each.via == node]:
            current = connection.session or connection.handshake
            if current is None or connection.closing:
                continue
            connection.attempt_with(current.send_elsewhere, self.reference(connection.listener, node))
            app.touch(connection)

    def part(self) -> None:
        """Tell clients where to go, as this node no longer leads. Nothing else that was written for them may leave."""
        app = self.member.process.app
        for connection in [] if app is None else list(app.open):
            has_begun = connection.session is not None or connection.handshake is not None
            if connection.via or not has_begun or connection.closing or connection.is_sending():
                connection.transport.abort()
            else:
                connection.attempt_with(self.part_with, connection)

    def part_with(self, connection: Connection) -> None:
        session = connection.session
        current = session or connection.handshake
        assert current is not None
        connection.drop()
        if session is not None:
            session.hold_lsn = 0
        current.send_elsewhere(self.reference(connection.listener, ""))
        if connection.handshake is not None:
            connection.passed = [connection.handshake.out.getvalue()]
        connection.closing = True
        connection.end()

    async def parted(self, hurry: asyncio.Event) -> None:
        """Tell the clients of this node where to go, as it stops and no longer leads; wait until they are gone."""
        app = self.member.process.app
        assert app is not None
        self.part()
        await self.until(lambda: not app.open, hurry)
        self.member.cut_clients()

    async def until(self, is_done: Callable[[], bool], hurry: asyncio.Event) -> None:
        """Wait for a condition, but not for long."""
        loop = self.member.process.loop
        deadline = loop.time() + min(LEAVE_S, self.member.process.options.drain_timeout_ms / MS_PER_S)
        while not is_done() and not hurry.is_set():
            if loop.time() >= deadline:
                return
            await asyncio.sleep(LOOK_S)
