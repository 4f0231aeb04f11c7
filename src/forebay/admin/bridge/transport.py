"""The connection of a subscriber over HTTP: what its session writes waits here until the answer can take it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from forebay.admin.caller import Caller
from forebay.broker.vhost import Vhost
from forebay.core.errors import PeerError, RequestError
from forebay.directory.logins.login import LoginContext
from forebay.directory.permissions import Rights
from forebay.node.peer import Peer, split_name
from forebay.server.broker_view import BrokerView
from forebay.server.net import Connection
from forebay.session.login import Login
from forebay.session.session import Session

PIECE_OCTETS: Final = 64 << 10
LOW: Final = 4  # the part of the limit at which the connection is given more again
T = TypeVar("T", bound=asyncio.Transport)
S = TypeVar("S", bound=Session)


class EventTransport(asyncio.Transport):
    """Stands in for a connection's socket; the handler that answers takes the octets out of it.

    octets  that wait; no more than PIECE_OCTETS of them are taken at once, for these wait elsewhere then
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.octets = 0
        self._chunks: deque[bytes] = deque()
        self._at = 0  # of the first of them, up to where it was taken
        self._high = 0
        self._paused = False
        self._closing = False
        self._ready = asyncio.Event()

    # ---- what the connection does

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or 0
        self._look()

    def get_write_buffer_size(self) -> int:
        return self.octets

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing:
            return
        if data:
            self._chunks.append(bytes(data))
            self.octets += len(data)
            self._ready.set()
            self._look()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for data in list_of_data:  # which others may have as well
            self.write(data)

    def _look(self) -> None:
        """Have the connection be given nothing more where too much waits."""
        if self.octets > self._high and not self._paused:
            self._paused = True
            self.connection.pause_writing()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        """Write nothing more; what waits is still taken."""
        self._closing = True
        self._ready.set()

    def abort(self) -> None:
        """The end, whatever waits."""
        self._chunks.clear()
        self._at = 0
        self.octets = 0
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        """Do nothing: nothing is read here."""

    def resume_reading(self) -> None:
        """Do nothing: nothing is read here."""

    # ---- what whoever answers does

    async def take(self) -> bytes:
        """The octets that wait, as soon as there are some; empty at the end."""
        await self._ready.wait()
        taken: list[bytes] = []
        octets = 0
        while self._chunks and octets < PIECE_OCTETS:
            part = self._chunks[0][self._at : self._at + PIECE_OCTETS - octets]
            taken.append(part)
            octets += len(part)
            self._at += len(part)
            if self._at == len(self._chunks[0]):
                self._chunks.popleft()
                self._at = 0
        self.octets -= octets
        if not self._chunks and not self._closing:
            self._ready.clear()
        if self._paused and self.octets <= self._high // LOW:
            self._paused = False
            self.connection.resume_writing()
        return b"".join(taken)


def connect(app: BrokerView, peer: Peer, make: Callable[[int], Session], wrap: Callable[[Connection], T]) -> T:
    """Return what stands in for the socket of a subscriber that has logged in, with the session that is made for it.

    wrap    makes what stands in for the socket
    raises  RequestError: `make` has refused the subscriber
    """
    connection = app.new_connection(peer)
    transport = wrap(connection)
    connection.connection_made(transport)
    if not connection.closing:  # there are as many connections as there may be
        try:
            app.seat(connection, make)
        except RequestError:
            connection.connection_lost(None)
            raise
    return transport


async def begin_session(
    app: BrokerView,
    caller: Caller,
    vhost: Vhost,
    peer: Peer,
    make_session: Callable[[int, Login, Vhost, Rights], S],
    wrap: Callable[[Connection], T],
) -> tuple[T, S]:
    """Begin a caller's session in a vhost, and return what stands in for its socket, too.

    raises  RequestError: the caller may not enter. PeerError: there are as many connections as there may be
    """
    principal = caller.principal
    await app.decided(lambda: app.directory.rights(principal, vhost.name))
    address = split_name(peer.name)[0]
    context = LoginContext(address, caller.origin.protocol, peer=peer.name, loopback=peer.loopback)
    login = Login(principal=principal, vhost=vhost.name, context=context)
    made: list[S] = []

    def make(id: int) -> S:
        made.append(make_session(id, login, vhost, app.vhosts.enter(login.vhost, principal, id)))
        return made[0]

    transport = connect(app, peer, make, wrap)
    if not made:
        raise PeerError("connections", "there are as many connections as there may be: connections_max")
    return transport, made[0]


def end_all(app: BrokerView, kind: type[asyncio.Transport] = EventTransport) -> None:
    """The broker stops: have every subscriber with this kind of transport be told so, and its answer end."""
    app.shut_down_sessions(kind)
