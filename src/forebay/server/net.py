"""Connections: octets in, octets out, and nothing else.

A connection learns its protocol from its first octets, so that every listener speaks every protocol. What it decides is
decided in its base (node/link.py); here is what it does to its transport.
"""

from __future__ import annotations

import asyncio
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, cast

from forebay.core.option_names import NONE
from forebay.core.pieces import Part
from forebay.node.broker import NodeBroker
from forebay.node.entry.protocols import AMQP_ONLY
from forebay.node.link import Link
from forebay.node.peer import Peer, peer_at
from forebay.server.auth.certificate_names import name_in
from forebay.server.transport.backlog import WRITE_OCTETS, Backlog, octets_of
from forebay.server.transport.inner_tls import HANDSHAKE_OCTETS, InnerTls, InnerTlsSettings
from forebay.server.transport.sending import FileSender, Sending
from forebay.session.session import FilePart, Session
from forebay.wire.amqp10.frames import TLS_HEADER

FULL_SHIFT: Final = 3  # a connection is full when an eighth of what it may have to send waits


class Host(ABC):
    """The face of the process for its connections.

    broker     decides about them
    scheduled  a turn of it is about to come
    """

    broker: NodeBroker
    sender: FileSender
    scheduled: bool

    @abstractmethod
    def schedule(self) -> None:
        """Schedule a turn."""

    def look(self) -> None:
        """Schedule a turn if one is due and none is scheduled."""
        if self.broker.is_due and not self.scheduled:
            self.schedule()


class Connection(Link, asyncio.Protocol):
    """One client's connection, and its transport.

    protocol  what octets of no protocol are taken for
    peer      the client as a PROXY header or another node announces it; otherwise the transport's other end
    how_named  what of a client's certificate says who it is; NONE: nothing
    listener   that it came by, by the name of its option; empty for none
    via        the node of the cluster that it came by; empty where it came here itself
    inner_tls  how TLS may begin within the connection; None if it may not, or has begun
    """

    __slots__ = (
        "backlog",
        "blocked",
        "ending",
        "host",
        "how_named",
        "inner_tls",
        "listener",
        "sending",
        "transport",
        "via",
    )

    def __init__(self, host: Host, protocol: str, peer: Peer | None = None, how_named: str = NONE) -> None:
        super().__init__(host.broker, protocol, peer)
        self.host = host
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.how_named = how_named
        self.sending: Sending | None = None  # a file being sent, during which nothing may be written to the transport
        self.backlog: Backlog | None = None
        self.blocked = False  # the transport takes no more for now
        self.listener = self.via = ""
        self.inner_tls: InnerTlsSettings | None = None
        self.ending = False  # the connection's last octets are being written

    # ---- from the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.guard(self.begin)

    def begin(self) -> None:
        """Find out the addresses and identity of the client."""
        transport = self.transport
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
        self.host.broker.opened(self)

    def begin_tls(self, behind: bytes) -> bool:
        settings = self.inner_tls
        if settings is None:
            return False
        self.inner_tls = None
        self.default_protocol = AMQP_ONLY
        self.how_named = settings.identity
        self.broker.note_unfinished(self, HANDSHAKE_OCTETS)
        if not self.closing:
            self.transport.write(TLS_HEADER)
            InnerTls(self.transport, settings, self.secure, self.connection_lost, self.peer).begin(behind)
        return True

    def secure(self, transport: asyncio.Transport, received: list[bytes]) -> None:
        """Continue over TLS, which the client has begun. `received` holds the data that came over it already."""
        if self.closing:
            transport.abort()
            return
        self.transport = transport
        transport.set_protocol(self)
        self.guard(self.go_on_over_tls)
        for data in received:
            self.data_received(data)

    def go_on_over_tls(self) -> None:
        """Take the client's identity from its certificate, and wait for its next header."""
        self.broker.note_unfinished(self, 0)
        self.limit(self.most)
        if self.how_named != NONE:
            self.identity = name_in(self.transport.get_extra_info("peercert"), self.how_named)

    def data_received(self, data: bytes) -> None:
        self.received(data)
        host = self.host
        if not host.scheduled and host.broker.is_due:
            host.schedule()
        if self.holds:
            self.transport.pause_reading()

    def pause_writing(self) -> None:
        self.blocked = True
        if not self.closing:
            self.guard(self.tell_full)

    def resume_writing(self) -> None:
        self.blocked = False
        if not self.closing:
            self.guard(self.write_on)
            self.guard(self.tell_full)

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = True
        self.backlog = None
        if self.sending is not None:
            self.host.sender.give_up(self.sending)
        if self.session is not None:
            self.drop_file(self.session)
        self.broker.lost(self)
        self.handshake = None
        self.session = None  # a transport of ours knows this connection: both wait for the collector of cycles
        self.host.look()

    def guard(self, step: Callable[[], None]) -> None:
        """Run a step as `attempt` does, from outside of the turn, and schedule a turn if one is due."""
        self.attempt(step)
        self.host.look()

    # ---- to the transport

    def obey(self) -> None:
        """Pause or resume reading, as the node decides."""
        if self.closing:
            return
        if self.holds:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def flush(self) -> None:
        """Send what the session has written."""
        if self.closing and not self.ending:
            return
        if self.passed and self.sending is None:
            self.write(self.take_passed())
        session = self.session
        if session is None or session.hold_lsn > self.host.broker.store.durable:
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
        if (left or self.left) and not self.closing:
            self.host.broker.pressure.buffers.note(self, left)
        if self.full:
            self.look_at_buffer()

    def write(self, parts: list[Part]) -> None:
        """Send octets after all others. Long output goes through the backlog, a little at a time."""
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
        """Give the transport more of the backlog, as it has written what it was given before."""
        backlog = self.backlog
        if backlog is None or self.closing or self.transport.is_closing():
            return
        self.transport.writelines(backlog.take())
        if not backlog.parts:
            self.backlog = None
            self.transport.set_write_buffer_limits(high=self.most >> FULL_SHIFT)
            self.broker.touch(self)
        elif self.transport.get_write_buffer_size() == 0:
            asyncio.get_running_loop().call_soon(self.guard, self.write_on)
        self.tell_full()

    def tell_full(self) -> None:
        """Report to the node when the client's unsent output rises above the limit or falls below it again."""
        backlog = self.backlog
        is_full = self.blocked if backlog is None else backlog.octets > self.most >> FULL_SHIFT
        if is_full != self.full and not self.closing:
            self.fill(is_full)
        elif is_full:
            self.look_at_buffer()

    def end(self) -> None:
        """Send the remaining output and the end, write nothing more, and read until the client goes."""
        transport = self.transport
        if self.session is None and self.handshake is None:
            transport.close()
            return
        self.ending = True
        try:
            self.flush()
            if self.backlog is not None:
                transport.writelines(self.backlog.take_all())
                self.backlog = None
        finally:
            self.ending = False
            if transport.is_closing() or not transport.can_write_eof():
                transport.close()  # over TLS and WebSocket the leave is mutual anyway
            else:
                transport.write_eof()
                transport.resume_reading()

    def is_served(self) -> bool:
        """Return whether the client has been sent everything, so that only its own end is still to come."""
        return self.closing and self.transport.get_write_buffer_size() == 0

    def count_sent(self, octets: int) -> None:
        self.writes += 1
        self.octets_sent += octets
        self.broker.totals.octets_sent += octets

    # ---- files

    def sends_files(self) -> bool:
        return self.transport.get_extra_info("sslcontext") is None

    def is_sending(self) -> bool:
        if self.sending is not None:
            return True
        return self.backlog is not None and self.session is not None and self.session.file is not None

    def drop(self) -> None:
        if self.session is not None:
            self.drop_file(self.session)
        self.backlog = None
        super().drop()

    def drop_file(self, session: Session) -> None:
        """Close the file that was to be sent after all written output."""
        if session.file is not None:
            os.close(session.file.handle)
            session.file = None

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
        # Octets that the transport has already go first, and it does not report when they are gone.
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
        self.broker.touch(self)

    def file_ended(self, whole: bool) -> None:
        """Resume output after a file. Abort unless all of it was sent: the client cannot tell what comes next."""
        self.sending = None
        if not whole:
            self.transport.abort()
        elif self.session is not None and not self.closing:
            self.attempt(self.session.file_sent)
            self.broker.touch(self)
            self.host.look()

    # ---- what is known of it

    @property
    def name(self) -> str:
        """Return the connection's name in RabbitMQ's form: the client's address and the broker's."""
        local = self.transport.get_extra_info("sockname")
        if not local:
            return self.peer
        host = f"[{local[0]}]" if ":" in local[0] else local[0]
        return f"{self.peer} -> {host}:{local[1]}"

    def waiting_octets(self) -> int:
        waiting = self.transport.get_write_buffer_size() + self.kept_octets
        return waiting if self.backlog is None else waiting + self.backlog.octets

    def limit(self, most: int) -> None:
        if self.backlog is None:
            self.transport.set_write_buffer_limits(high=most >> FULL_SHIFT)
        super().limit(most)
