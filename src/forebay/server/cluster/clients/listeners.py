"""The listeners for clients of a node of a cluster: open from its start, whoever leads.

A client that comes to the leader is served as on a single node. One that comes to another node is sent on by
`elsewhere`, as the options say. Which of the two it is, is decided for each connection as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from forebay.node.peer import Peer
from forebay.server.cluster.clients.arrivals import Arrivals
from forebay.server.listen import Closable, Endpoint, MakeProtocol, listen


class Listening:
    """A listener's part in a broker that leads: closing it is closing the part, and not the listener."""

    def __init__(self, listeners: ClientListeners, name: str) -> None:
        self.listeners = listeners
        self.name = name

    def close(self) -> None:
        """Send clients of this listener elsewhere from here on."""
        self.listeners.makers.pop(self.name, None)
        self.listeners.arrivals.is_open = False


class ClientListeners:
    """All client listeners of one node, by option name.

    elsewhere  makes the protocol of a connection that this node does not serve
    arrivals   the same listeners for clients that come by way of other nodes
    makers     of those that it serves, while it leads
    addresses  of the listeners
    endpoints  as they were opened
    """

    def __init__(self, elsewhere: MakeProtocol, arrivals: Arrivals) -> None:
        self.elsewhere = elsewhere
        self.arrivals = arrivals
        self.makers: dict[str, MakeProtocol] = {}
        self.addresses: dict[str, str] = {}
        self.endpoints: dict[str, Endpoint] = {}
        self.opened: list[Closable] = []

    async def open(self, endpoints: Sequence[Endpoint]) -> None:
        """Open all listeners. Raises OptionError if one cannot be opened."""
        for endpoint in endpoints:
            listener, self.addresses[endpoint.name] = await listen(self.make, endpoint)
            self.endpoints[endpoint.name] = endpoint
            self.opened.append(listener)

    def close(self) -> None:
        """Close all listeners."""
        for listener in self.opened:
            listener.close()
        self.opened = []

    def serve(self, make: MakeProtocol, name: str) -> tuple[Listening, str]:
        """Serve a listener's clients by this process's broker; return the broker's part in it, and the address."""
        self.makers[name] = make
        self.arrivals.offer(self.endpoints[name], make)
        self.arrivals.is_open = True
        return Listening(self, name), self.addresses[name]

    def make(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        """Make the protocol of a new connection."""
        return self.makers.get(endpoint.name, self.elsewhere)(endpoint, peer)
