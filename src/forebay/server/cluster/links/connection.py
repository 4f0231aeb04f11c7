"""One connection between two nodes, on either side: the handshake, then frames."""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final, cast

from forebay.core.errors import PeerError
from forebay.server.cluster.keep_alive import KEEP_ALIVE
from forebay.server.cluster.links.frames import MESSAGE, FrameReader, head
from forebay.server.cluster.links.handshake import (
    BULK,
    HANDSHAKE_OCTETS_MAX,
    MESSAGES,
    NONCE_OCTETS,
    RELAY,
    STRANGER,
    VERSION_MAX,
    VERSION_MIN,
    Hello,
    NodeHandshake,
    Refused,
    Rejection,
    refusal_frame,
)
from forebay.server.cluster.settings import ClusterSettings

FRAME_OCTETS_MAX: Final = 512 << 20  # a turn's frame may be longer than what may wait
HANDSHAKE_S: Final = 5.0
BULK_HIGH_OCTETS: Final = 8 << 20
MakeNonce = Callable[[int], bytes]


class ConnectionOwner(ABC):
    """The owner of connections, which is called back about them."""

    settings: ClusterSettings
    store: str
    make_nonce: MakeNonce

    @abstractmethod
    def began(self, connection: NodeConnection) -> None:
        """Note that the handshake of a connection has begun."""

    @abstractmethod
    def admit(self, connection: NodeConnection, other: Hello) -> Rejection | None:
        """Return the reason to turn away a node that has proved its identity; None to admit it."""

    @abstractmethod
    def opened(self, connection: NodeConnection) -> None:
        """React to the end of the handshake: both sides know each other."""

    @abstractmethod
    def message(self, connection: NodeConnection, octets: bytes) -> None:
        """Handle a message that has come over a connection."""

    @abstractmethod
    def room(self, connection: NodeConnection) -> None:
        """React to the send queue of a connection, which has filled up or drained: see `is_full`."""

    @abstractmethod
    def relayed(self, connection: NodeConnection, rest: bytes) -> None:
        """Serve a client of the other node that comes over this connection; `rest` holds its first octets."""

    @abstractmethod
    def ended(self, connection: NodeConnection, why: str) -> None:
        """Note that a connection is gone, or that its handshake has failed."""


class NodeConnection(asyncio.Protocol):
    """A connection to or from another node.

    purpose     of one that is made; of one that comes the other side says it
    connecting  this side has made it
    node        at the other end; of one that is made, the one that should be there
    store       of that node
    is_open     both sides know each other
    is_full     so much waits to be sent that bulk should pause
    """

    def __init__(self, owner: ConnectionOwner, purpose: str, node: str = "") -> None:
        self.owner = owner
        self.connecting = bool(node)
        self.purpose = purpose
        self.node = node
        self.store = ""
        self.version = 0
        self.is_open = False
        self.is_full = False
        self.refusal: Rejection | None = None
        self.why = ""
        self.octets_in = self.octets_out = 0
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.reader = FrameReader(HANDSHAKE_OCTETS_MAX)
        self.handshake: NodeHandshake = cast("NodeHandshake", None)
        self.timer: asyncio.TimerHandle | None = None
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()

    # ---- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timer = asyncio.get_running_loop().call_later(HANDSHAKE_S, self.end, "no end of the handshake in time")
        self.owner.began(self)
        if self.why:
            return  # the connection is no longer needed
        settings = self.owner.settings
        hello = Hello(
            versions=(VERSION_MIN, VERSION_MAX),
            purpose=self.purpose,
            cluster=settings.options.name,
            node=settings.node,
            store=self.owner.store,
            nonce=self.owner.make_nonce(NONCE_OCTETS).hex(),
        )
        tls = transport.get_extra_info("ssl_object")
        self.handshake = NodeHandshake(
            hello,
            settings.secret,
            connecting=self.connecting,
            expected=self.node,
            certificates=b"" if tls is None else self.both_certificates(tls.getpeercert(True)),
            names=None if tls is None else names_in(tls.getpeercert()),
            admit=self.admit,
        )
        if self.connecting:
            self.transport.write(self.handshake.first())

    def both_certificates(self, other: bytes) -> bytes:
        """Return the hashes of both sides' certificates, that of the connecting side first."""
        pair = [self.owner.settings.certificate, other]
        if not self.connecting:
            pair.reverse()
        return b"".join(sha256(each).digest() for each in pair)

    def data_received(self, data: bytes) -> None:
        self.octets_in += len(data)
        self.reader.add(data)
        try:
            while (found := self.reader.next()) is not None:
                kind, octets = found
                if not self.is_open:
                    if self.shake(kind, octets) and self.purpose == RELAY:
                        self.owner.relayed(self, self.reader.rest())
                        return
                elif kind == MESSAGE:
                    self.owner.message(self, octets)
                else:
                    raise Refused(Rejection(STRANGER, f"a frame of kind {kind} after the handshake"), theirs=False)
        except Refused as error:
            self.refused(error)
        except PeerError as error:
            self.refused(Refused(Rejection(STRANGER, str(error)), theirs=False))

    def pause_writing(self) -> None:
        self.is_full = True
        self.owner.room(self)

    def resume_writing(self) -> None:
        self.is_full = False
        self.owner.room(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.stop_timer()
        if not self.why:
            self.why = "the other side has ended it" if error is None else str(error) or type(error).__name__
        self.is_open = False
        self.gone.set()
        if not self.settled.done():
            self.settled.set_result(None)
        self.owner.ended(self, self.why)

    # ---- the handshake

    def shake(self, kind: int, octets: bytes) -> bool:
        """Process a frame of the handshake; return whether it was the last."""
        handshake = self.handshake
        answer = handshake.received(kind, octets)
        if answer:
            self.transport.write(answer)
        if not handshake.done:
            return False
        assert handshake.other is not None
        self.stop_timer()
        self.purpose = handshake.own.purpose if self.connecting else handshake.other.purpose
        self.node, self.store, self.version = handshake.other.node, handshake.other.store, handshake.version
        self.reader.octets_max = FRAME_OCTETS_MAX
        self.limit_silence()
        if self.settled.cancelled():  # whoever asked for it has left, and its task has not come to say so
            self.end("the attempt was given up")
            return False
        self.is_open = True
        self.settled.set_result(None)
        self.owner.opened(self)
        return True

    def admit(self, other: Hello) -> Rejection | None:
        return self.owner.admit(self, other)

    def limit_silence(self) -> None:
        """Let the system end the connection when the other side's system no longer answers."""
        own = self.transport.get_extra_info("socket")
        if self.purpose == MESSAGES:
            limit = self.owner.settings.options.replica_timeout_ms
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limit)
            return
        # The same limit would end it where the other side only reads nothing for so long, which it may.
        for level, option, value in KEEP_ALIVE:
            own.setsockopt(level, option, value)
        if self.purpose == BULK:
            self.transport.set_write_buffer_limits(high=BULK_HIGH_OCTETS)

    def refused(self, error: Refused) -> None:
        """Close a connection whose handshake was refused. Send the reason if the refusal is this side's."""
        self.refusal = error.refusal
        if not error.theirs:
            self.transport.write(refusal_frame(error.refusal))
        self.why = str(error)
        self.transport.close()

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # ---- to the transport

    def send(self, octets: bytes) -> bool:
        """Send a message; return whether it was sent. End the connection if more waits than is allowed."""
        if not self.is_open or self.transport.is_closing():
            return False
        self.octets_out += len(octets)
        self.transport.writelines([head(MESSAGE, len(octets)), octets])
        if self.transport.get_write_buffer_size() > self.owner.settings.options.link_octets_max:
            most = self.owner.settings.options.link_octets_max
            self.end(f"more than {most} octets wait to be sent, cluster.link_octets_max")
            return False
        return True

    def waiting_octets(self) -> int:
        """Return the number of octets that the system has not taken yet."""
        return self.transport.get_write_buffer_size() if self.is_open else 0

    def end(self, why: str) -> None:
        """Abort the connection, for the reason `why` unless there is one already."""
        if not self.why:
            self.why = why
        if self.transport is not None:
            self.transport.abort()


def names_in(certificate: dict[str, Any] | None) -> list[str]:
    """Return the common name and DNS names of a certificate, as `getpeercert` gives it."""
    if not certificate:
        return []
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    names += [value for key, value in certificate.get("subjectAltName", ()) if key == "DNS"]
    return [str(each) for each in names]
