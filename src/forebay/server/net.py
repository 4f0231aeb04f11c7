"""Connections: octets in, octets out, and nothing else.

A connection learns its protocol from its first octets, so that every listener speaks every protocol.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, cast

from forebay.core.metrics import Totals
from forebay.core.option_names import NONE
from forebay.core.pieces import Part
from forebay.server.backlog import WRITE_OCTETS, Backlog, octets_of
from forebay.server.certificate_names import name_in
from forebay.server.peer import Peer, peer_at
from forebay.server.sending import FileSender, Sending
from forebay.session.effects import FilePart, Session

SNIFF_OCTETS: Final = 4
FULL_SHIFT: Final = 3  # a connection is full when an eighth of what it may have to send waits
PASSED_OVER_MAX: Final = (
    16 << 20
)  # octets of a client that is told of the end and goes on: more than is ever on its way


class Host(ABC):
    """What connections need of the process that they belong to."""

    send_buffer_octets_max: int
    totals: Totals  # octets and sockets are counted here
    sender: FileSender

    @abstractmethod
    def opened(self, connection: Connection) -> None:
        """A client has connected."""

    @abstractmethod
    def start_session(self, connection: Connection, data: bytes) -> Session:
        """The session that the first octets of a connection ask for."""

    @abstractmethod
    def touch(self, connection: Connection) -> None:
        """The connection takes part in this turn."""

    @abstractmethod
    def put_off(self, connection: Connection) -> None:
        """What is left of what the connection has received is for the next turn."""

    @abstractmethod
    def pause(self, connection: Connection, paused: bool) -> None:
        """The connection takes no more octets for now, or takes them again."""

    @abstractmethod
    def buffered(self, connection: Connection, octets: int) -> None:
        """So much of what the connection was sent waits for its client to take it."""

    @abstractmethod
    def is_tight(self, session: Session) -> bool:
        """Whether the turn is to bring little more: much waits for clients already, or is to be handed out to many."""

    @abstractmethod
    def read_less(self, connection: Connection) -> None:
        """Read nothing more of this connection before the turn has come."""

    @abstractmethod
    def durable_lsn(self) -> int:
        """What is on the disk."""

    @abstractmethod
    def now_us(self) -> int:
        """The time, in microseconds."""

    @abstractmethod
    def leave(self, connection: Connection) -> None:
        """The connection takes part in nothing any more; its client may still have to take its last octets."""

    @abstractmethod
    def lost(self, connection: Connection) -> None:
        """The connection is gone."""

    @abstractmethod
    def failed(self, connection: Connection, error: Exception) -> None:
        """An error of our own while this connection was served: it ends, and if need be the broker."""


class Connection(asyncio.Protocol):
    """One client's connection: holds the octets of an unfinished frame, and what may not be sent yet.

    protocol  what octets of no protocol are taken for
    peer      the client where somebody else has said who it is; otherwise it is at the other end of the transport
    how_named  what of a client's certificate says who it is; NONE: nothing
    """

    __slots__ = (
        "backlog",
        "blocked",
        "closing",
        "closing_us",
        "default_protocol",
        "full",
        "host",
        "how_named",
        "identity",
        "left",
        "loopback",
        "most",
        "octets_received",
        "octets_sent",
        "opened_us",
        "parts",
        "parts_octets",
        "passed_over",
        "paused",
        "peer",
        "reads",
        "rest",
        "sending",
        "session",
        "transport",
        "wanted",
        "writes",
    )

    def __init__(self, host: Host, protocol: str, peer: Peer | None = None, how_named: str = NONE) -> None:
        self.host = host
        self.default_protocol = protocol
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.session: Session | None = None
        self.peer = "" if peer is None else peer.name
        self.loopback = peer is not None and peer.loopback
        self.how_named = how_named
        self.identity = ""  # who the client is by its certificate
        self.most = 0  # octets that may wait for it before it is given nothing more
        self.left = 0  # octets that the client had not taken when it was written to last
        self.rest = b""
        self.parts: list[bytes] | None = None  # of a frame so long that joining at each read would cost its square
        self.parts_octets = 0
        self.wanted = 0
        self.sending: Sending | None = None  # a file: the transport is left alone until that is done
        self.backlog: Backlog | None = None
        self.blocked = False  # the transport takes no more for now
        self.closing = False
        self.opened_us = 0
        self.closing_us = 0  # since when it waits for its last octets to be taken, and for the client to go
        self.passed_over = 0  # octets that came since then
        self.full = False  # more waits to be sent than should
        self.paused = False  # more waits than may: who sends here is told
        self.octets_received = 0
        self.octets_sent = 0
        self.reads = 0
        self.writes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.attempt(self.begin)

    def begin(self) -> None:
        """Learn who is at the other end."""
        transport = self.transport
        self.limit(self.host.send_buffer_octets_max)
        if not self.peer:
            address = transport.get_extra_info("peername")
            if not address:  # it has been reset before it was accepted: no login of nobody's may fail
                self.closing = True
                transport.abort()
                return
            peer = peer_at(address[0], address[1])
            self.peer = peer.name
            self.loopback = peer.loopback
        if self.how_named != NONE:
            self.identity = name_in(transport.get_extra_info("peercert"), self.how_named)
        self.opened_us = self.host.now_us()
        self.host.totals.sockets += 1
        self.host.opened(self)

    def named(self) -> str:
        """The client id and the user that it has told, for the end of a line of the log."""
        session = self.session
        if session is None:
            return ""
        place = session.place
        told = {"client": place.client_id, "user": session.rights.user or place.user}
        said = ", ".join(f"{what} {name!r}" for what, name in told.items() if name)
        return f" ({said})" if said else ""

    def attempt(self, step: Callable[..., None], *given: object) -> None:
        """Do something for this connection; an error of our own in it is the connection's end, and not the broker's.

        What is done for each message has its own `try`, for a call more would cost.
        """
        try:
            step(*given)
        except Exception as error:  # noqa: BLE001  the connection's boundary
            self.host.failed(self, error)

    def data_received(self, data: bytes) -> None:
        try:
            self.reads += 1
            self.octets_received += len(data)
            self.host.totals.octets_received += len(data)
            if self.closing:
                self.pass_over(len(data))
                return
            parts = self.parts
            if parts is not None:
                parts.append(data)
                self.parts_octets += len(data)
                if self.parts_octets < self.wanted:
                    return
                data = b"".join(parts)
                self.parts = None
            elif self.rest:
                data = self.rest + data
            session = self.session
            if session is None:
                if len(data) < SNIFF_OCTETS:
                    self.rest = data
                    return
                session = self.session = self.host.start_session(self, data)
                session.sends_files = self.transport.get_extra_info("sslcontext") is None
            used = session.receive(data)
            self.rest = data[used:] if used < len(data) else b""
            if self.rest:
                wanted = session.wanted(self.rest)
                if wanted > len(self.rest):
                    self.wanted = wanted
                    self.parts = [self.rest]
                    self.parts_octets = len(self.rest)
            self.host.touch(self)
            if session.meter.is_over and not self.closing:
                self.host.put_off(self)  # behind the turn, which it takes part in
            elif not self.closing and self.host.is_tight(session):
                self.host.read_less(self)
        except Exception as error:  # noqa: BLE001  the connection's boundary
            self.host.failed(self, error)

    def flush(self) -> None:
        """Send what the session has written; close afterwards if the session says so."""
        session = self.session
        if session is None or self.closing:
            return
        if session.hold_lsn > self.host.durable_lsn():
            return
        if self.sending is not None:
            if session.closing:  # it may be that the client does not read
                self.host.sender.give_up(self.sending)
            return
        out = session.out
        if session.file is not None:
            if self.backlog is not None:
                return
            part, session.file = session.file, None
            self.send_file(session, part)
        elif session.parts or self.backlog is not None:
            parts = list(session.parts)
            session.parts.clear()
            if len(out):
                parts.append(out.getvalue())
                out.truncate(0)
            self.write(parts)
        elif len(out):
            self.count_sent(len(out))
            self.transport.write(out.getvalue())
            out.truncate(0)
        left = self.waiting_octets()
        if left or self.left:
            self.host.buffered(self, left)
        if self.full:
            self.look_at_buffer()
        if session.closing:
            self.close()

    def write(self, parts: list[Part]) -> None:
        """Send these octets after all others: a little at a time where they are many."""
        octets = octets_of(parts)
        if octets:
            self.count_sent(octets)
        if self.backlog is not None:
            self.backlog.add(parts)
        elif octets <= WRITE_OCTETS:
            self.transport.writelines(parts)  # at once: over WebSocket a flush is a frame
        else:
            self.backlog = Backlog(parts)
            self.transport.set_write_buffer_limits(high=0)  # so that it tells when it has written everything
            self.write_on()
        self.tell_full()

    def write_on(self) -> None:
        """Give the transport more of the backlog: it has written what it was given before."""
        backlog = self.backlog
        if backlog is None or self.closing or self.transport.is_closing():
            return
        self.transport.writelines(backlog.take())
        if not backlog.parts:
            self.backlog = None
            self.transport.set_write_buffer_limits(high=self.most >> FULL_SHIFT)
            self.host.touch(self)
        elif self.transport.get_write_buffer_size() == 0:
            asyncio.get_running_loop().call_soon(self.attempt, self.write_on)
        self.tell_full()

    def tell_full(self) -> None:
        """Have the host know whether the client has more before it than should wait for it, or may."""
        backlog = self.backlog
        is_full = self.blocked if backlog is None else backlog.octets > self.most >> FULL_SHIFT
        if is_full != self.full and not self.closing:
            self.full = is_full
            self.fill()
        elif is_full:
            self.look_at_buffer()

    def close(self) -> None:
        """Send the end, write nothing more, and read until the client goes.

        Were the socket closed with octets unread or on their way, a reset would answer them, which may take from the
        client what it was sent last. Whoever does not go is cut off by the host.
        """
        if self.closing:
            return
        transport = self.transport
        if self.backlog is not None:
            transport.writelines(self.backlog.take_all())
            self.backlog = None
        self.closing = True
        self.closing_us = self.host.now_us()
        self.rest = b""
        self.parts = None
        if transport.is_closing() or not transport.can_write_eof():  # over TLS and WebSocket the leave is mutual anyway
            transport.close()
        else:
            transport.write_eof()
            transport.resume_reading()
        self.host.leave(self)

    def pass_over(self, octets: int) -> None:
        """The client does not know yet that it talks to nobody; but it does not go on for ever."""
        self.passed_over += octets
        if self.passed_over > PASSED_OVER_MAX:
            self.transport.abort()

    def is_served(self) -> bool:
        """Whether the client has been sent everything, and only its own end is still to come."""
        return self.closing and self.transport.get_write_buffer_size() == 0

    def break_off(self) -> None:
        """Tell the client that the broker is wrong, and close.

        What was not sent is not sent any more: it may end in the middle of a frame.
        """
        session = self.session
        transport = self.transport
        if self.closing or session is None or self.sending is not None:
            self.closing = True
            transport.abort()
            return
        self.drop_file(session)
        self.backlog = None
        session.parts.clear()
        session.out.truncate(0)
        session.hold_lsn = 0
        session.dismiss("an error of the broker's own: its log has it", True)
        if len(session.out):
            transport.write(session.out.getvalue())
        self.close()

    def drop_file(self, session: Session) -> None:
        """Close what was to be sent after all that is written."""
        if session.file is not None:
            os.close(session.file.handle)
            session.file = None

    def count_sent(self, octets: int) -> None:
        self.writes += 1
        self.octets_sent += octets
        self.host.totals.octets_sent += octets

    def send_file(self, session: Session, part: FilePart) -> None:
        """Send what the session has written, then a part of a file."""
        prefix = b"".join([*session.parts, session.out.getvalue()])
        session.parts.clear()
        session.out.truncate(0)
        self.count_sent(len(prefix) + part.octets)
        try:
            if self.transport.get_write_buffer_size() == 0:
                own = self.transport.get_extra_info("socket")
                self.sending = self.host.sender.begin(own, prefix, part, self.file_ended)
                return
        except OSError:  # no handle is left for it
            pass
        # What the transport has before it goes first, and it does not say when that is gone.
        try:
            octets = os.pread(part.handle, part.octets, part.position)
        except OSError:
            octets = b""
        finally:
            os.close(part.handle)
        if len(octets) < part.octets:
            self.transport.abort()
            return
        self.transport.writelines([prefix, octets])
        session.file_sent()
        self.host.touch(self)

    def file_ended(self, whole: bool) -> None:
        """The sender is done; where it could not send everything, the client cannot tell what comes next."""
        self.sending = None
        if not whole:
            self.transport.abort()
        elif self.session is not None and not self.closing:
            self.attempt(self.session.file_sent)
            self.host.touch(self)

    @property
    def name(self) -> str:
        """As RabbitMQ names connections: the client's address and ours."""
        local = self.transport.get_extra_info("sockname")
        if not local:
            return self.peer
        host = f"[{local[0]}]" if ":" in local[0] else local[0]
        return f"{self.peer} -> {host}:{local[1]}"

    def waiting_octets(self) -> int:
        """Octets that the client has not taken yet."""
        waiting = self.transport.get_write_buffer_size()
        return waiting if self.backlog is None else waiting + self.backlog.octets

    def pause_writing(self) -> None:
        self.blocked = True
        if not self.closing:
            self.attempt(self.tell_full)

    def resume_writing(self) -> None:
        self.blocked = False
        if not self.closing:
            self.attempt(self.write_on)
            self.attempt(self.tell_full)

    def fill(self) -> None:
        """The connection has more to send than it should, or less again."""
        session = self.session
        if session is not None:
            session.vhost.fill(session.id, self.full)
        if self.full:
            self.look_at_buffer()
        elif self.paused:
            self.paused = False
            self.host.pause(self, False)
        else:
            self.host.touch(self)  # whoever was held back for it goes on with a turn's end

    def limit(self, most: int) -> None:
        """So much may wait for the client from now on."""
        self.most = most
        if self.backlog is None:
            self.transport.set_write_buffer_limits(high=most >> FULL_SHIFT)
        if self.full:
            self.look_at_buffer()

    def look_at_buffer(self) -> None:
        """Have no more sent to a client that reads too slowly."""
        if not self.paused and self.waiting_octets() > self.most:
            self.paused = True
            self.host.pause(self, True)

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = True
        self.backlog = None
        if self.sending is not None:
            self.host.sender.give_up(self.sending)
        if self.session is not None:
            self.drop_file(self.session)
        self.host.lost(self)
        self.session = None  # a transport of ours knows this connection: both wait for the collector of cycles
