"""Clients that come to a node which does not lead: their octets go to the leader and back, and nobody reads them.

    client ── listener ── RelayEnd ◀──▶ RelayEnd ── connection to the leader's port for nodes ── its listener's protocol

Each end writes what comes to the other. Where an end takes no more, the other is not read; the end of one direction and
a reset are passed on.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from contextlib import suppress
from typing import Final, cast

from forebay.core.option_names import NONE
from forebay.node.peer import UNKNOWN, Peer, peer_at
from forebay.server.auth.certificate_names import name_in
from forebay.server.cluster.links.handshake import RELAY
from forebay.server.cluster.links.links import Links
from forebay.server.listen import Endpoint, MakeProtocol
from forebay.server.transport.proxy import header_for

WAIT_S: Final = 5.0  # for a leader, and for its answer
RETRY_S: Final = 0.05
HIGH_OCTETS: Final = 256 << 10
RESET: Final = struct.pack("ii", 1, 0)
logger = logging.getLogger("forebay")


class RelayEnd(asyncio.Protocol):
    """One end of a relayed connection: what comes here leaves at the other.

    done  no more data comes from this end's peer
    """

    def __init__(self) -> None:
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.other: RelayEnd | None = None
        self.done = False
        self.octets = 0

    def join(self, other: RelayEnd) -> None:
        """Pair two ends, so that what comes to one leaves at the other."""
        self.other, other.other = other, self
        for each in (self, other):
            each.transport.set_write_buffer_limits(high=HIGH_OCTETS)

    def is_gone(self) -> bool:
        """Return whether nothing can be written to this end any more."""
        return self.transport is None or self.transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.octets += len(data)
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and not self.other.is_gone():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.is_gone():
            self.other.transport.resume_reading()

    def eof_received(self) -> bool:
        other = self.other
        self.done = True
        if other is None:
            return self.transport.can_write_eof()
        if other.is_gone() or other.done or not other.transport.can_write_eof():
            return False  # this end closes, and then the other
        other.transport.write_eof()
        return self.transport.can_write_eof()

    def connection_lost(self, error: Exception | None) -> None:
        self.done = True
        other, self.other = self.other, None
        if other is None or other.is_gone():
            return
        if error is None:
            other.transport.close()
        else:
            other.reset()

    def reset(self) -> None:
        """Reset the connection, so that the peer does not take this for the end of the data."""
        with suppress(OSError):
            own = self.transport.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()


class RelayedClient(RelayEnd):
    """A client's end of a relayed connection, on the node to which it connected."""

    def __init__(self, relay: Relay, endpoint: Endpoint, peer: Peer | None) -> None:
        super().__init__()
        self.relay = relay
        self.endpoint = endpoint
        self.peer = peer
        self.first = b""  # octets of a client that sends before the relay is ready
        self.joining: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self.relay.begin(self):
            return
        if self.endpoint.name in self.relay.here:
            asyncio.get_running_loop().call_soon(self.come_late)
        else:
            self.go_on()

    def go_on(self) -> None:
        """Connect the client to the leader, in a task."""
        self.joining = asyncio.get_running_loop().create_task(self.relay.connect(self))
        self.joining.add_done_callback(self.relay.joined)

    def come_late(self) -> None:
        """Serve a client that came before this node led, and is seen only now; pass it on if nothing serves it here."""
        make = self.relay.here.get(self.endpoint.name)
        if self.is_gone():
            return
        if make is None:
            self.go_on()
        else:
            self.seat(make(self.endpoint, self.peer))

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            # In `connection_made` it would be too early: the loop begins to read after that.
            self.first += data
            self.transport.pause_reading()
            return
        super().data_received(data)

    def seat(self, protocol: asyncio.Protocol) -> None:
        """Serve a client on this node that was still waiting for a leader."""
        if self.joining is not None:
            self.joining.cancel()
        self.relay.clients.discard(self)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        self.transport.resume_reading()
        if self.first:
            protocol.data_received(self.first)

    def preface(self) -> bytes:
        """Return the octets that the leader is sent before the client's own: listener, address and identity."""
        peer = self.peer
        if peer is None:
            address = self.transport.get_extra_info("peername")
            peer = peer_at(address[0], address[1]) if address else UNKNOWN
        how = self.endpoint.identity
        identity = "" if how == NONE else name_in(self.transport.get_extra_info("peercert"), how)
        name = self.endpoint.name.encode()
        return bytes((len(name),)) + name + header_for(peer, identity)

    def connection_lost(self, error: Exception | None) -> None:
        if self.joining is not None:
            self.joining.cancel()
        self.relay.clients.discard(self)
        super().connection_lost(error)


class Relay:
    """The clients of a node that does not lead.

    clients_max  at one time
    here         the listeners that this very node serves, as it leads, by their names
    """

    def __init__(self, links: Links, clients_max: int) -> None:
        self.links = links
        self.clients_max = clients_max
        self.clients: set[RelayedClient] = set()
        self.here: dict[str, MakeProtocol] = {}
        self.leader = ("", "")
        self.known = asyncio.Event()
        self.failed = 0

    def lead(self, node: str, address: str) -> None:
        """Relay to the leader at this address from now on, or to none. Close relayed clients of the previous leader."""
        if (node, address) == self.leader:
            return
        self.leader = (node, address)
        for client in [each for each in self.clients if each.other is not None]:
            client.transport.close()
        if node:
            self.known.set()
        else:
            self.known.clear()

    def make(self, endpoint: Endpoint, peer: Peer | None) -> RelayedClient:
        """Make the protocol that relays a client of a listener."""
        return RelayedClient(self, endpoint, peer)

    def waiting(self) -> list[RelayedClient]:
        """Return the clients that wait for a leader."""
        return [each for each in self.clients if each.other is None and not each.is_gone()]

    def begin(self, client: RelayedClient) -> bool:
        """Add a new client. Refuse it and return False if there are too many."""
        if len(self.clients) >= self.clients_max:
            logger.warning("cluster: a client was refused: there are %d, connections_max", self.clients_max)
            client.transport.abort()
            return False
        self.clients.add(client)
        return True

    async def connect(self, client: RelayedClient) -> None:
        """Connect a client to the leader. Reset the client if there is no leader for long."""
        try:
            async with asyncio.timeout(WAIT_S):
                upstream = await self.connect_leader()
        except TimeoutError:
            self.failed += 1
            client.reset()
            return
        if client.is_gone():
            upstream.transport.abort()
            return
        upstream.join(client)
        upstream.transport.write(client.preface() + client.first)
        client.first = b""
        client.transport.resume_reading()
        if client.done and not upstream.is_gone():
            upstream.transport.write_eof()

    async def connect_leader(self) -> RelayEnd:
        """Connect to the leader, whichever node that is by then, and return the end of the relay there."""
        while True:
            await self.known.wait()
            leader = node, address = self.leader
            try:
                connection = await self.links.connect(address, node, RELAY)
            except OSError:
                await asyncio.sleep(RETRY_S)
                continue
            if leader != self.leader or not connection.is_open:
                connection.end("another node leads")
                continue
            upstream = RelayEnd()
            connection.transport.set_protocol(upstream)
            upstream.connection_made(connection.transport)
            return upstream

    def joined(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            loop = asyncio.get_running_loop()
            loop.call_exception_handler({"message": "a client on its way to the leader", "exception": error})

    async def stop(self) -> None:
        """Close all clients' connections, and cancel their attempts to reach the leader."""
        tasks = [each.joining for each in self.clients if each.joining is not None]
        for client in list(self.clients):
            client.transport.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
