"""Clients that come by way of another node: on the leader they are clients of its own listeners.

After the handshake the other node sends, before the client's own octets:

    1    length n of the listener's name
    n    the name: `mqtt`, `amqps`, ...
    -    a PROXY header of version 2: the client's address, and who it is by its certificate

From then on both ends only copy octets. TLS with the client has ended at the other node.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Final

from forebay.core.errors import PeerError
from forebay.core.option_names import NONE
from forebay.node.peer import UNKNOWN
from forebay.server.listen import Endpoint, MakeProtocol
from forebay.server.net import Connection
from forebay.server.transport.proxy import announced_identity, announced_peer, malformed, missing_octets
from forebay.server.transport.websocket import WebSocket

PREFACE_S: Final = 5.0
DEFAULT_HIGH_OCTETS: Final = 65_536
logger = logging.getLogger("forebay")


class Arrivals:
    """The listeners of a node that leads, for clients of other nodes.

    is_open  this node leads
    """

    def __init__(self) -> None:
        self.is_open = False
        self.listeners: dict[str, tuple[MakeProtocol, Endpoint]] = {}
        self.taken = 0

    def offer(self, endpoint: Endpoint, make: MakeProtocol) -> None:
        """Accept clients of this listener from other nodes, whether or not this node listens there itself."""
        self.listeners[endpoint.name] = (make, replace(endpoint, tls=None, identity=NONE, proxied=False))

    def take(self, transport: asyncio.Transport, node: str, first: bytes) -> None:
        """Take over a connection that belongs to another node's client; `first` holds its first octets."""
        arriving = ArrivingClient(self, transport, node)
        transport.set_protocol(arriving)
        if first:
            arriving.data_received(first)

    def seat(self, transport: asyncio.Transport, node: str, name: str, header: bytes, first: bytes) -> None:
        """Serve another node's client as one of a listener of this node. Raises PeerError if nobody takes it."""
        found = self.listeners.get(name)
        if found is None or not self.is_open:
            raise malformed(f"nobody takes clients of {name!r}")
        make, endpoint = found
        peer = announced_peer(header) or UNKNOWN
        identity = announced_identity(header)
        protocol = make(endpoint, peer)
        connection = protocol.connection if isinstance(protocol, WebSocket) else protocol
        if isinstance(connection, Connection):
            connection.identity = identity
            connection.via = node
        self.taken += 1
        transport.set_write_buffer_limits(high=DEFAULT_HIGH_OCTETS)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if first:
            protocol.data_received(first)


class ArrivingClient(asyncio.Protocol):
    """A connection of another node until it has said which client it is for."""

    def __init__(self, arrivals: Arrivals, transport: asyncio.Transport, node: str) -> None:
        self.arrivals = arrivals
        self.transport = transport
        self.node = node
        self.data = b""
        self.timer = asyncio.get_running_loop().call_later(PREFACE_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        self.data += data
        try:
            self.read()
        except PeerError as error:
            self.timer.cancel()
            logger.warning("cluster: a client of node %s was refused: %s", self.node, error)
            self.transport.abort()

    def read(self) -> None:
        """Take in the preface once it is whole."""
        data = self.data
        begin = 1 + data[0]
        if len(data) < begin:
            return
        header = data[begin:]
        end = begin
        while missing := missing_octets(data[begin:end]):
            end += missing
            if end > len(data):
                return
        self.timer.cancel()
        name = data[1:begin].decode("ascii", "replace")
        self.arrivals.seat(self.transport, self.node, name, header[: end - begin], data[end:])

    def connection_lost(self, error: Exception | None) -> None:
        self.timer.cancel()
