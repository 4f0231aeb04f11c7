"""TLS that begins within a connection, as AMQP 1.0 has it: protocol header 2, then the handshake (part 5.2)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from forebay.server.transport.tls import TlsContexts

HANDSHAKE_OCTETS: Final = 64 << 10  # memory of one TLS handshake, about
logger = logging.getLogger("forebay")


@dataclass(frozen=True, slots=True)
class InnerTlsSettings:
    """The settings of a listener without TLS for TLS that begins within its connections.

    identity     what of a client's certificate says who it is
    handshake_s  how long the handshake may take
    leave_s      how long a client may take to end TLS
    """

    tls: TlsContexts
    identity: str
    handshake_s: float
    leave_s: float


class InnerTls(asyncio.Protocol):
    """The protocol of a connection from the request for TLS to the end of its handshake.

    transport  the connection's own, below TLS
    on_secure  takes the transport above TLS, and the bytes that came over it already
    on_lost    takes the error that has ended the connection, or None
    peer       the client, for people
    early      bytes of the handshake that came before TLS could read them
    received   bytes that came over TLS
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        settings: InnerTlsSettings,
        on_secure: Callable[[asyncio.Transport, list[bytes]], None],
        on_lost: Callable[[Exception | None], None],
        peer: str,
    ) -> None:
        self.transport = transport
        self.settings = settings
        self.on_secure = on_secure
        self.on_lost = on_lost
        self.peer = peer
        self.early = b""
        self.received: list[bytes] = []
        self.has_begun = False
        self.task: asyncio.Task[None] | None = None
        self.is_lost = False

    def begin(self, behind: bytes) -> None:
        """Begin the handshake; `behind` are bytes of it that came with the request."""
        self.early = behind
        self.transport.set_protocol(self)
        self.task = asyncio.get_running_loop().create_task(self.shake_hands())

    async def shake_hands(self) -> None:
        """Go through the handshake; a connection that fails at it is cut off."""
        if self.is_lost or self.transport.is_closing():
            return
        settings = self.settings
        loop = asyncio.get_running_loop()
        handshake = loop.create_task(
            loop.start_tls(
                self.transport,
                self,
                settings.tls.context,
                server_side=True,
                ssl_handshake_timeout=settings.handshake_s,
                ssl_shutdown_timeout=settings.leave_s,
            )
        )
        for _ in range(2):  # in its first step TLS takes the transport, which it knows, and reads, from the next one on
            await asyncio.sleep(0)
        self.has_begun = True
        if not handshake.done():
            self.feed()
        try:
            secured = await handshake
        except (OSError, ValueError) as error:  # among them TLS's own and time that is up
            logger.info("connection from %s ended in the TLS handshake: %s", self.peer, error or "too slow")
            self.transport.abort()
            self.connection_lost(None)
            return
        if secured is not None and not self.is_lost:
            self.on_secure(secured, self.received)

    def feed(self) -> None:
        """Feed TLS the bytes that were read already, before those still to be read."""
        tls = cast("asyncio.BufferedProtocol", self.transport.get_protocol())
        while self.early:
            buffer = memoryview(tls.get_buffer(len(self.early)))
            count = min(len(buffer), len(self.early))
            buffer[:count] = self.early[:count]
            tls.buffer_updated(count)
            self.early = self.early[count:]

    # ---- from the transport below TLS, and then from the one above it

    def data_received(self, data: bytes) -> None:
        if self.has_begun:
            self.received.append(data)
        else:
            self.early += data

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.on_lost(error)
