"""Listeners: each is an address, and what stands between its sockets and the protocols.

A plain listener is the loop's own server. Where a connection has something to do before it speaks, a PROXY header to
read or a TLS handshake to make, an `Acceptor` takes it: header first, octet by octet as long as it is, then TLS.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol

from forebay.core.errors import OptionError, PeerError
from forebay.core.option_names import NONE
from forebay.core.option_table import split_address
from forebay.core.options import Options
from forebay.core.units import MS_PER_S, S_PER_US
from forebay.node.entry.protocols import MQTT_ONLY
from forebay.node.peer import UNKNOWN, Peer, peer_at
from forebay.server.net import Connection, Host
from forebay.server.transport.inner_tls import HANDSHAKE_OCTETS, InnerTlsSettings
from forebay.server.transport.proxy import announced_peer, malformed, missing_octets
from forebay.server.transport.tls import TlsContexts
from forebay.server.transport.websocket import WebSocket, WebSocketSettings

BACKLOG: Final = 16_384  # clients that come back all at once would wait for seconds; the system has a limit of its own
HTTP: Final = "http"
ACCEPTS_A_TURN: Final = 100
# For which a connection may be at its header or TLS while others wait for its place. A handshake takes two round trips
# of up to 0.4 s over mobile networks: with less, a crowd that comes back at once would never get in.
START_GRACE_S: Final = 1.0
ACCEPT_PAUSE_S: Final = 1.0  # where the system has no descriptor left
# A client's alerts for a server certificate that it does not accept, by OpenSSL's names.
DISTRUST: Final = (
    "bad certificate",
    "unsupported certificate",
    "certificate revoked",
    "certificate expired",
    "certificate unknown",
    "unknown ca",
    "unrecognized name",
)
logger = logging.getLogger("forebay")


class HasContext(Protocol):
    """The holder of the TLS context for the next handshake."""

    @property
    def context(self) -> ssl.SSLContext: ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener as the options want it.

    name          of its option, and in the ready line
    protocol      what octets of no protocol are taken for
    identity      what of a client's certificate says who it is; NONE: nothing
    proxied       whether a PROXY header comes first
    handshake_s   how long the header may take, and then TLS
    leave_s       how long a client may take to end TLS
    starting_max  connections that may be at their header or TLS at one time; beyond it the oldest goes
    inner_tls     how clients that ask for it within their connection get TLS
    """

    name: str
    address: str
    protocol: str
    tls: HasContext | None
    websocket: WebSocketSettings | None
    identity: str
    proxied: bool
    handshake_s: float
    leave_s: float
    starting_max: int
    inner_tls: InnerTlsSettings | None = None


# Name, address, protocol, TLS and WebSocket of an endpoint.
Wanted = tuple[str, str, str, TlsContexts | None, WebSocketSettings | None]
MakeProtocol = Callable[[Endpoint, Peer | None], asyncio.Protocol]


class Closable(Protocol):
    """A listener that can be told to take no more connections."""

    def close(self) -> None: ...


def endpoints(options: Options, tls: TlsContexts | None = None) -> list[Endpoint]:
    """Return every listener that has an address.

    tls  shared by all that need it

    raises  OptionError: what TLS or WebSocket needs is missing or cannot be used
    """
    websocket = WebSocketSettings(
        path=options.mqtt_websocket_path,
        origins=tuple(options.mqtt_websocket_origins),
        octets_max=options.mqtt_packet_octets_max,
        leave_s=leave_seconds(options),
    )
    if not websocket.path.startswith("/"):
        raise OptionError(f"mqtt_websocket_path: {websocket.path!r} must begin with /")
    # With a certificate, clients of AMQP 1.0 may begin TLS within a connection to any listener over TCP.
    secure = options.amqps or options.mqtts or options.mqtt_websocket_tls or options.tls_certificate
    context = ready(tls or TlsContexts(options)) if secure else None
    wanted: tuple[Wanted, ...] = (
        ("amqp", options.amqp, "amqp", None, None),
        ("mqtt", options.mqtt, "mqtt", None, None),
        ("mqtt_websocket", options.mqtt_websocket, MQTT_ONLY, None, websocket),
        ("amqps", options.amqps, "amqp", context, None),
        ("mqtts", options.mqtts, "mqtt", context, None),
        ("mqtt_websocket_tls", options.mqtt_websocket_tls, MQTT_ONLY, context, websocket),
    )
    found = wanted_endpoints(options, wanted)
    if context is None:
        return found
    inner = InnerTlsSettings(
        context, options.tls_identity, options.handshake_timeout_ms / MS_PER_S, leave_seconds(options)
    )
    return [replace(each, inner_tls=inner) if each.name in ("amqp", "mqtt") else each for each in found]


def http_endpoints(options: Options, tls: TlsContexts) -> list[Endpoint]:
    """Return every HTTP listener that has an address. Raises OptionError as `endpoints` does."""
    context = ready(tls) if options.https else None
    return wanted_endpoints(
        options, (("http", options.http, HTTP, None, None), ("https", options.https, HTTP, context, None))
    )


def metrics_endpoints(options: Options) -> list[Endpoint]:
    """Return the listener for Prometheus, or nothing if it has no address."""
    return wanted_endpoints(options, (("prometheus", options.prometheus, HTTP, None, None),))


def ready(tls: TlsContexts) -> TlsContexts:
    """Read the files of the TLS contexts, and return the contexts. Raises OptionError if that fails."""
    assert tls.context is not None
    return tls


def wanted_endpoints(options: Options, wanted: Sequence[Wanted]) -> list[Endpoint]:
    return [
        Endpoint(
            name=name,
            address=address,
            protocol=protocol,
            tls=tls,
            websocket=settings,
            identity=NONE if tls is None else options.tls_identity,
            proxied=options.proxy_protocol,
            handshake_s=options.handshake_timeout_ms / MS_PER_S,
            leave_s=leave_seconds(options),
            starting_max=starting_max(options, tls is not None),
        )
        for name, address, protocol, tls, settings in wanted
        if address
    ]


def starting_max(options: Options, secured: bool) -> int:
    """Return how many connections of one listener may be on the way to their protocol at one time."""
    if not secured:
        return options.connections_login_max
    return max(1, min(options.connections_login_max, options.login_buffers_octets_max // HANDSHAKE_OCTETS))


def leave_seconds(options: Options) -> float:
    return max(options.drain_timeout_ms / MS_PER_S, S_PER_US)  # TLS takes no 0


def make_protocol(host: Host, endpoint: Endpoint, peer: Peer | None) -> Connection | WebSocket:
    """Make the protocol that the transport of a new connection calls."""
    connection = Connection(host, endpoint.protocol, peer, endpoint.identity)
    connection.listener = endpoint.name
    connection.inner_tls = endpoint.inner_tls
    return connection if endpoint.websocket is None else WebSocket(connection, endpoint.websocket)


def why_not_begun(error: OSError | PeerError, secured: bool) -> str:
    """Return for people why a connection never came to its protocol."""
    if isinstance(error, ssl.SSLError):
        alert = (error.reason or "").partition("_ALERT_")[2].lower().replace("_", " ")
        if alert in DISTRUST:
            return f"it does not trust the broker's certificate (alert {alert})"
    if isinstance(error, TimeoutError) and not error.args:
        return "too slow"
    if isinstance(error, ConnectionResetError | BrokenPipeError) or (
        isinstance(error, ConnectionError) and not error.args
    ):
        left = "the client went away"
        return f"{left} in the TLS handshake: it may not trust the broker's certificate" if secured else left
    return str(error) or "too slow"


class Acceptor:
    """A listener whose connections begin with a PROXY header, a TLS handshake, or both."""

    def __init__(self, make: MakeProtocol, endpoint: Endpoint, sockets: list[socket.socket]) -> None:
        self.make = make
        self.endpoint = endpoint
        self.sockets = sockets
        self.loop = asyncio.get_running_loop()
        self.starting: dict[asyncio.Task[None], float] = {}  # since when, the oldest first
        self.closed = False
        for listening in sockets:
            self.watch(listening)

    def watch(self, listening: socket.socket) -> None:
        if not self.closed:
            self.loop.add_reader(listening, self.accept, listening)

    def accept(self, listening: socket.socket) -> None:
        """Accept the waiting connections."""
        for _ in range(ACCEPTS_A_TURN):
            wait_s = self.wait_for_room()
            if wait_s > 0:
                self.loop.remove_reader(listening)
                self.loop.call_later(wait_s, self.watch, listening)
                return
            try:
                taken, address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                # The connection goes on waiting, so that the loop would call here without end.
                logger.error("%s: cannot accept a connection: %s", self.endpoint.name, error.strerror)
                self.loop.remove_reader(listening)
                self.loop.call_later(ACCEPT_PAUSE_S, self.watch, listening)
                return
            task = self.loop.create_task(self.start(taken, address))
            self.starting[task] = self.loop.time()
            task.add_done_callback(self.has_started)

    def has_started(self, task: asyncio.Task[None]) -> None:
        """Stop counting a connection as starting: it has come to its protocol, or failed."""
        self.starting.pop(task, None)

    def wait_for_room(self) -> float:
        """Return for how many seconds the next connection has to wait; ends the oldest one that is too slow for it."""
        if len(self.starting) < self.endpoint.starting_max:
            return 0.0
        task, since = next(iter(self.starting.items()))
        wait_s = since + START_GRACE_S - self.loop.time()
        if wait_s <= 0:
            del self.starting[task]
            task.cancel()
        return wait_s

    async def start(self, taken: socket.socket, address: tuple[Any, ...]) -> None:
        """Read a connection's PROXY header and make TLS, as needed, then start its protocol. Close it if that fails."""
        peer = peer_at(address[0], address[1]) if address else UNKNOWN
        endpoint = self.endpoint
        started = False
        try:
            taken.setblocking(False)
            if endpoint.proxied:
                async with asyncio.timeout(endpoint.handshake_s):
                    peer = await self.read_header(taken) or peer
            await self.loop.connect_accepted_socket(
                partial(self.make, endpoint, peer),
                taken,
                ssl=endpoint.tls.context if endpoint.tls else None,
                ssl_handshake_timeout=endpoint.handshake_s if endpoint.tls else None,
                ssl_shutdown_timeout=endpoint.leave_s if endpoint.tls else None,
            )
            started = True
        except (OSError, PeerError) as error:  # among them TLS's own and time that is up
            why = why_not_begun(error, endpoint.tls is not None)
            logger.info("connection from %s ended before its first packet: %s", peer.name, why)
        finally:
            if not started:
                taken.close()

    async def read_header(self, taken: socket.socket) -> Peer | None:
        """Read a PROXY header, and return the client it announces; None if the proxy speaks for itself."""
        header = b""
        while count := missing_octets(header):
            more = await self.loop.sock_recv(taken, count)
            if not more:
                raise malformed(f"it ends after {len(header)} octets")
            header += more
        return announced_peer(header)

    def close(self) -> None:
        """Accept no more connections, and drop those that have not come to their protocol."""
        self.closed = True
        for listening in self.sockets:
            self.loop.remove_reader(listening)
            listening.close()
        for task in list(self.starting):
            task.cancel()


async def listen(make: MakeProtocol, endpoint: Endpoint) -> tuple[asyncio.Server | Acceptor, str]:
    """Open a listener; return it and its actual address. Raises OptionError if it cannot be opened.

    make  what the transport of a new connection calls; it is given the client where a PROXY header tells
    """
    loop = asyncio.get_running_loop()
    server: asyncio.Server | Acceptor
    name, port = split_address(endpoint.address)
    try:
        if endpoint.proxied or endpoint.tls is not None:
            server = Acceptor(make, endpoint, await open_sockets(name, port))
        else:
            server = await loop.create_server(partial(make, endpoint, None), name, port, backlog=BACKLOG)
    except OSError as error:
        raise OptionError(f"{endpoint.name}: cannot listen on {endpoint.address}: {error.strerror or error}") from error
    actual = server.sockets[0].getsockname()
    shown = f"[{actual[0]}]" if ":" in actual[0] else actual[0]
    return server, f"{shown}:{actual[1]}"


async def open_sockets(name: str, port: int) -> list[socket.socket]:
    """Open sockets that listen on every address of a host. Raises OSError if one of them cannot."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    opened: list[socket.socket] = []
    try:
        for family, address in dict.fromkeys((each[0], each[4]) for each in found):
            made = socket.create_server(address, family=family, backlog=BACKLOG)
            opened.append(made)
            made.setblocking(False)
    except OSError:
        for made in opened:
            made.close()
        raise
    return opened
