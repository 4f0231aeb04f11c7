"""Links to the other nodes: one connection a pair for messages, and one each way for bulk, made when it is needed.

Both sides of a pair try to connect while they have no link: only one's own attempt can be refused by the system, and
that is what proves a process dead. Where both attempts meet, that of the node with the smaller name stays: the
accepting side, which decides, refuses the other one as `busy` as long as its own is in its handshake. A connection that
comes while there is a link takes its place, for the other node would not connect if it had one.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from forebay.core.errors import OptionError
from forebay.core.option_names import NONE
from forebay.core.option_table import split_address
from forebay.node.peer import Peer
from forebay.server.cluster.clients.arrivals import Arrivals
from forebay.server.cluster.links.connection import ConnectionOwner, MakeNonce, NodeConnection
from forebay.server.cluster.links.handshake import BULK, BUSY, MESSAGES, RELAY, Hello, Rejection
from forebay.server.cluster.settings import ClusterSettings
from forebay.server.listen import Acceptor, Endpoint, open_sockets

CONNECT_S: Final = 1.0
PLACE_FIELDS: Final = 3  # of an address of IPv4 are fewer; the next of IPv6 is its scope
HANDSHAKE_S: Final = 5.0
RETRY_MIN_S: Final = 0.05
RETRY_MAX_S: Final = 0.5
STEADY_US: Final = 200_000
STRANGER_SAID_US: Final = 1_000_000
STARTING_MAX: Final = 64  # connections that have not shown who they are
SAID_MAX: Final = 256
logger = logging.getLogger("forebay")


class LinkListener(ABC):
    """The listener for events of links: up, down, refused, messages."""

    @abstractmethod
    def connected(self, node: str, store: str) -> None:
        """Note that there is a link to a node, whose folder has this store id."""

    @abstractmethod
    def reset(self, node: str, why: str) -> None:
        """Note that the link to a node is gone. That proves nothing about the node."""

    @abstractmethod
    def refused(self, node: str, tried_us: int) -> None:
        """Note that a node's system refused a connection, tried at `tried_us`: nobody listens there."""

    @abstractmethod
    def message(self, node: str, octets: bytes) -> None:
        """Handle a message of a node: in order over the link, or over bulk in an order of its own."""

    @abstractmethod
    def bulk_ready(self, node: str) -> None:
        """Resume bulk to a node: little waits to be sent, or all that waited is lost."""


class OneContext:
    """TLS of the nodes' port, as a listener asks for it."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context


class LinkState:
    """A pair's connections, and what became of attempts.

    address  where the node is; empty: unknown, and it has to come
    tried    the attempt to connect that is in its handshake
    why      reason of the last failure, for people
    octets_in, octets_out  of connections that are gone; `traffic` has all
    """

    def __init__(self, node: str) -> None:
        self.node = node
        self.address = ""
        self.main: NodeConnection | None = None
        self.bulk_out: NodeConnection | None = None
        self.bulk_in: NodeConnection | None = None
        self.bulk_begun: asyncio.Task[None] | None = None
        self.tried: NodeConnection | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.wake = asyncio.Event()
        self.since_us = 0
        self.why = ""
        self.resets = 0
        self.octets_in = self.octets_out = 0

    def traffic(self) -> tuple[int, int]:
        """Return the octets received and sent since this node began, without those of relayed clients."""
        open_ones = self.connections()
        return (
            self.octets_in + sum(each.octets_in for each in open_ones),
            self.octets_out + sum(each.octets_out for each in open_ones),
        )

    def keep_traffic(self, connection: NodeConnection) -> None:
        """Add the traffic of a connection that is gone to the totals."""
        self.octets_in += connection.octets_in
        self.octets_out += connection.octets_out

    def is_up(self) -> bool:
        """Return whether there is a link to the node."""
        return self.main is not None

    def connections(self) -> list[NodeConnection]:
        found = (self.main, self.bulk_out, self.bulk_in, self.tried)
        return [each for each in found if each is not None]


class Links(ConnectionOwner):
    """The links of one node.

    now_us   of a clock that never goes back
    arrivals where clients come in that reach this node by way of another
    """

    def __init__(
        self,
        settings: ClusterSettings,
        store: str,
        listener: LinkListener,
        now_us: Callable[[], int],
        make_nonce: MakeNonce,
        arrivals: Arrivals,
    ) -> None:
        self.settings = settings
        self.store = store
        self.listener = listener
        self.now_us = now_us
        self.make_nonce = make_nonce
        self.arrivals = arrivals
        self.loop = asyncio.get_running_loop()
        self.links: dict[str, LinkState] = {}
        self.starting: set[NodeConnection] = set()
        self.acceptor: Acceptor | None = None
        self.address = ""
        self.refused_count = 0
        self.said: dict[str, str] = {}
        self.stranger_said_us = -STRANGER_SAID_US
        self.stopped = False

    # ---- from the outside

    async def start(self) -> str:
        """Open the port for other nodes; return its actual address. Raises OptionError if it cannot be opened."""
        listen = self.settings.options.listen
        name, port = split_address(listen)
        try:
            sockets = await open_sockets(name, port)
        except OSError as error:
            raise OptionError(f"cluster.listen: cannot listen on {listen}: {error.strerror or error}") from error
        context = self.settings.accepting
        endpoint = Endpoint(
            name="cluster",
            address=listen,
            protocol="",
            tls=None if context is None else OneContext(context),
            websocket=None,
            identity=NONE,
            proxied=False,
            handshake_s=HANDSHAKE_S,
            leave_s=CONNECT_S,
            starting_max=STARTING_MAX,
        )
        self.acceptor = Acceptor(self.accepted, endpoint, sockets)
        host, port = sockets[0].getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return self.address

    def want(self, nodes: Mapping[str, str]) -> None:
        """Keep links to these nodes at these addresses, and to no others."""
        for node in [each for each in self.links if each not in nodes]:
            self.forget(node)
        for node, address in nodes.items():
            if node == self.settings.node:
                continue
            link = self.link(node)
            if link.address != address:
                link.address = address
                link.wake.set()
            if link.dialling is None:
                link.dialling = self.loop.create_task(self.dial(link))
                link.dialling.add_done_callback(self.task_ended)

    def send(self, node: str, octets: bytes) -> bool:
        """Send a message to a node. Returns False if there is no link, or if it ended as too much waited."""
        link = self.links.get(node)
        return link is not None and link.main is not None and link.main.send(octets)

    def version(self, node: str) -> int:
        """Return the protocol version that is spoken with a node; 0 if there is no link."""
        link = self.links.get(node)
        return 0 if link is None or link.main is None else link.main.version

    def send_bulk(self, node: str, octets: bytes) -> bool:
        """Send a message over the bulk connection. Returns False if it is not ready: `bulk_ready` tells when it is."""
        link = self.links.get(node)
        if link is None:
            return False
        if link.bulk_out is not None and link.bulk_out.is_open:
            return not link.bulk_out.is_full and link.bulk_out.send(octets)
        if link.bulk_begun is None and link.address:
            link.bulk_begun = self.loop.create_task(self.begin_bulk(link))
            link.bulk_begun.add_done_callback(self.task_ended)
        return False

    async def connect(self, address: str, node: str, purpose: str) -> NodeConnection:
        """Open a separate connection to a node, and complete the handshake. Raises OSError if that fails."""
        connection = NodeConnection(self, purpose, node)
        await self.reach(address, connection)
        return connection

    async def stop(self) -> None:
        """Stop listening, and end all links and connections."""
        self.stopped = True
        if self.acceptor is not None:
            self.acceptor.close()
        tasks = [each for link in self.links.values() for each in (link.dialling, link.bulk_begun) if each is not None]
        for node in list(self.links):
            self.forget(node)
        for connection in list(self.starting):
            connection.end("this node stops")
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- connecting

    def link(self, node: str) -> LinkState:
        return self.links.setdefault(node, LinkState(node))

    def forget(self, node: str) -> None:
        link = self.links.pop(node)
        for task in (link.dialling, link.bulk_begun):
            if task is not None:
                task.cancel()
        had = link.main is not None
        for connection in link.connections():
            connection.end("no link is wanted")
        if had and not self.stopped:
            self.listener.reset(node, "no link is wanted")

    async def dial(self, link: LinkState) -> None:
        """Connect whenever there is no link."""
        wait_s = RETRY_MIN_S
        while True:
            link.wake.clear()
            if link.main is None:
                try:
                    await self.attempt(link)
                except OSError as error:
                    link.why = words_of(error)
                    self.say(link.node, f"no link to node {link.node} at {link.address}: {link.why}")
            while link.is_up():
                link.wake.clear()
                await link.wake.wait()
                if not link.is_up() and self.now_us() - link.since_us > STEADY_US:
                    wait_s = 0  # at once: if nobody listens there any more, that is to be known
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await link.wake.wait()
            wait_s = min(max(2 * wait_s, RETRY_MIN_S), RETRY_MAX_S)

    async def attempt(self, link: LinkState) -> None:
        """Try once to make a link. Raises OSError if that fails."""
        tried_us = self.now_us()
        connection = NodeConnection(self, MESSAGES, link.node)
        try:
            await self.reach(link.address, connection)
        except ConnectionRefusedError:
            if link.main is None:
                self.listener.refused(link.node, tried_us)
            raise
        except OSError:
            if link.main is not None or (connection.refusal is not None and connection.refusal.reason == BUSY):
                return
            raise
        finally:
            if link.tried is connection:
                link.tried = None

    async def reach(self, address: str, connection: NodeConnection) -> None:
        """Connect to a node, and complete the handshake.

        raises  ConnectionRefusedError where every address of the host has refused; OSError where it fails otherwise
        """
        host, port = split_address(address)
        failed: OSError | None = None
        try:
            async with asyncio.timeout(CONNECT_S):
                found = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            for place in dict.fromkeys(each[4] for each in found):
                try:
                    await self.open_connection(place, connection)
                except OSError as error:
                    if failed is None or not isinstance(error, ConnectionRefusedError):
                        failed = error
                else:
                    break
            else:
                raise failed if failed is not None else OSError(f"{address} has no address")
            await connection.settled
        except BaseException:
            connection.end("the attempt was given up")
            raise
        if not connection.is_open:
            raise ConnectionError(connection.why)

    async def open_connection(self, place: tuple[Any, ...], connection: NodeConnection) -> None:
        """Connect to one address. Raises OSError if that fails.

        The loop makes the socket and closes it. One of ours would be closed twice where the connection is ended in the
        moment between its beginning and the return of this: by then its number may be that of a file.
        """
        context = self.settings.connecting
        name = f"{place[0]}%{place[3]}" if len(place) > PLACE_FIELDS and place[3] else place[0]
        async with asyncio.timeout(CONNECT_S if context is None else CONNECT_S + HANDSHAKE_S):
            await self.loop.create_connection(
                lambda: connection,
                name,
                place[1],
                ssl=context,
                server_hostname="" if context is not None else None,
                ssl_handshake_timeout=HANDSHAKE_S if context is not None else None,
            )

    async def begin_bulk(self, link: LinkState) -> None:
        """Make the connection for bulk to a node."""
        try:
            link.bulk_out = await self.connect(link.address, link.node, BULK)
        except OSError as error:
            link.why = words_of(error)
            await asyncio.sleep(RETRY_MAX_S)
        finally:
            link.bulk_begun = None
        if self.links.get(link.node) is link:
            self.listener.bulk_ready(link.node)

    def task_ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.call_exception_handler({"message": "a link between nodes", "exception": error, "task": task})

    # ---- from connections

    def accepted(self, endpoint: Endpoint, peer: Peer | None) -> asyncio.Protocol:
        return NodeConnection(self, "")

    def began(self, connection: NodeConnection) -> None:
        self.starting.add(connection)
        if connection.connecting and connection.purpose == MESSAGES:
            link = self.links.get(connection.node)
            if link is None or link.main is not None:
                connection.end("no link is wanted")
                return
            link.tried = connection
        if len(self.starting) > STARTING_MAX and not connection.connecting:
            connection.end("too many connections that have not shown who they are")

    def admit(self, connection: NodeConnection, other: Hello) -> Rejection | None:
        if self.stopped:
            return Rejection(BUSY, "this node stops")
        link = self.links.get(other.node)
        is_trying = other.purpose == MESSAGES and link is not None and link.tried is not None
        if is_trying and self.settings.node < other.node:
            return Rejection(BUSY, f"node {self.settings.node} connects to {other.node} itself")
        if other.purpose == RELAY and not self.arrivals.is_open:
            return Rejection(BUSY, f"node {self.settings.node} does not lead")
        return None

    def opened(self, connection: NodeConnection) -> None:
        self.starting.discard(connection)
        self.said.pop(connection.node, None)
        if connection.purpose == RELAY:
            return
        link = self.link(connection.node)
        if connection.purpose == BULK:
            if not connection.connecting:
                before, link.bulk_in = link.bulk_in, connection
                if before is not None:
                    before.end("another connection takes its place")
            return
        before, link.main = link.main, connection
        if link.tried is not None and link.tried is not connection:
            link.tried.end("the other node's attempt goes first")
        link.tried = None
        if before is not None:
            before.end("another connection takes its place")
            link.resets += 1
            self.listener.reset(link.node, "the node has connected again")
        link.since_us = self.now_us()
        link.why = ""
        link.wake.set()
        self.listener.connected(link.node, connection.store)

    def message(self, connection: NodeConnection, octets: bytes) -> None:
        link = self.links.get(connection.node)
        if link is not None and (connection is link.main or connection is link.bulk_in):
            self.listener.message(connection.node, octets)

    def room(self, connection: NodeConnection) -> None:
        if connection.purpose == BULK and not connection.is_full and connection.connecting:
            self.listener.bulk_ready(connection.node)

    def relayed(self, connection: NodeConnection, rest: bytes) -> None:
        if not connection.connecting:
            self.arrivals.take(connection.transport, connection.node, rest)

    def ended(self, connection: NodeConnection, why: str) -> None:
        self.starting.discard(connection)
        link = self.links.get(connection.node)
        if not connection.connecting and connection.refusal is not None and connection.refusal.reason != BUSY:
            self.refused_count += 1
            self.say("", f"a connection to the port for nodes was refused: {why}")
        if link is None:
            return
        if connection.purpose != RELAY:
            link.keep_traffic(connection)
        if link.main is connection:
            link.main = None
            link.why = why
            link.resets += 1
            link.wake.set()
            for bulk in (link.bulk_out, link.bulk_in):
                if bulk is not None:  # nobody says for how long the other node is away
                    bulk.end("the link is gone")
            self.listener.reset(link.node, why)
        elif link.bulk_out is connection:
            link.bulk_out = None
            self.listener.bulk_ready(link.node)
        elif link.bulk_in is connection:
            link.bulk_in = None
        if link.dialling is None and not link.connections():
            self.links.pop(link.node, None)

    def say(self, key: str, text: str) -> None:
        """Log a node's problem, once until it is another one; of strangers, log one a second."""
        if not key:
            if self.now_us() - self.stranger_said_us < STRANGER_SAID_US:
                return
            self.stranger_said_us = self.now_us()
        if not key or self.said.get(key) != text:
            if len(self.said) > SAID_MAX:
                self.said.clear()
            self.said[key] = text
            logger.warning("cluster: %s", text)


def words_of(error: OSError) -> str:
    """Describe an error for people."""
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
