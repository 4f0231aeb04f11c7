"""A connection whose first octets say which protocol it gets."""

from __future__ import annotations

import asyncio
from typing import cast

from forebay.node.peer import Peer
from forebay.server.listen import Endpoint


class NewConnection(asyncio.Protocol):
    """One connection until its protocol is known. It ends if its client takes longer than a handshake may.

    data  octets received so far
    """

    def __init__(self, endpoint: Endpoint, peer: Peer | None) -> None:
        self.endpoint = endpoint
        self.peer = peer
        self.data = b""
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.timer = asyncio.get_running_loop().call_later(self.endpoint.handshake_s, self.transport.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self.leave()

    def leave(self) -> None:
        """Stop the timer: the connection is known, or gone."""
        if self.timer is not None:
            self.timer.cancel()

    def become(self, protocol: asyncio.Protocol) -> None:
        """Hand the connection to its protocol, from its first octet."""
        self.leave()
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if not self.transport.is_closing():
            protocol.data_received(self.data)
