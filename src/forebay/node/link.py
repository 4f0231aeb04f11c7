"""One connection as the broker sees it: octets of an unfinished frame, its session, and why it is not read.

A broker writes to no socket: what a session has written stands in its `out`, `parts` and `file` until `Ready` says that
it may leave. Few things cannot wait for the end of the turn; these are methods that whoever has the socket overrides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import mypyc_attr

from forebay.broker.joining import Joining
from forebay.broker.limits.hold_reasons import FOR_SUBSCRIBER
from forebay.broker.shared.next_turn import Deletions
from forebay.core.metrics import Totals
from forebay.core.pieces import Part
from forebay.directory.logins.authorizer import Proof
from forebay.node.peer import Peer
from forebay.session.handshake import Handshake
from forebay.session.session import Session
from forebay.wire.amqp10.frames import PROTOCOL_HEADER_OCTETS, TLS_HEADER

SNIFF_OCTETS: Final = 8  # AMQP's versions differ behind its name
PASSED_OVER_MAX: Final = (
    16 << 20
)  # octets of a client that is told of the end and goes on: more than is ever on its way


def is_undecided(data: bytes) -> bool:
    """Return whether it takes more octets than these to tell which protocol a client speaks."""
    return b"AMQP".startswith(data[:4]) or (len(data) < 4 and b"FBLK".startswith(data))


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkOwner:
    """The broker as its connections call it, and the parts that have only a connection in hand.

    totals     octets of all connections are counted there
    deletions  of vhosts and users, whose connections are to end before anything else
    """

    def __init__(self, totals: Totals, deletions: Deletions) -> None:
        self.totals = totals
        self.deletions = deletions

    def begin_handshake(self, link: Link, data: bytes) -> Handshake:
        """Return the handshake that the first bytes of a connection ask for."""
        raise NotImplementedError

    def begin_session(self, link: Link) -> None:
        """Begin the session of a client that has logged in."""
        raise NotImplementedError

    def touch(self, link: Link) -> None:
        """Record that this connection takes part in the turn."""
        raise NotImplementedError

    def has_read(self, link: Link, session: Session) -> None:
        """Stop reading a connection for this turn if its session has taken in enough."""
        raise NotImplementedError

    def note_unfinished(self, link: Link, octets: int) -> None:
        """Note the octets of an unfinished packet of a client that has not logged in."""
        raise NotImplementedError

    def pause(self, link: Link, paused: bool) -> None:
        """Record that the connection accepts no more bytes for now, or accepts them again."""
        raise NotImplementedError

    def cut(self, link: Link) -> None:
        """End the connection at once."""
        raise NotImplementedError

    def finish(self, link: Link) -> None:
        """End the connection when the client has what is written."""
        raise NotImplementedError

    def leave(self, link: Link) -> None:
        """Remove a connection from the broker's turn and from its session."""
        raise NotImplementedError

    def lost(self, link: Link) -> None:
        """Remove a connection that is gone."""
        raise NotImplementedError

    def end_deleted(self) -> None:
        """End connections whose vhost or user is gone."""
        raise NotImplementedError

    def failed(self, link: Link, error: Exception) -> None:
        """Handle an internal error that occurred while this connection was served."""
        raise NotImplementedError

    def note_fault(self, what: str, error: Exception) -> None:
        """Record an internal error and what it has ended."""
        raise NotImplementedError

    def stop(self, why: str, error: BaseException) -> None:
        """Stop the broker: from here on nothing becomes durable and no bytes are sent."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Link:
    """A client's connection.

    broker     that it belongs to
    handshake  from its first bytes to the login; None before and after
    session    from the login on
    peer       the client, for people; `loopback`: it is on this very machine
    identity   who the client is by its certificate
    is_new     its client has not logged in
    holds      reasons for which the connection is not read: bits of `hold_reasons`, 0 for none
    closing    it takes part in nothing any more: its client may still have to take its last octets
    closing_us  time at which `closing` was set
    most       bytes that may wait for the client before deliveries pause
    kept_octets  octets that wait at the node's gate
    passed     output that the gate has released and that was not sent yet; sent before all other output
    waits      for the gate: what the session has written since it was asked for last
    left       bytes that the client had not taken at the last write
    full       whether more waits to be sent than should
    paused     whether more than `most` waits, so that deliveries pause
    """

    __slots__ = (
        "broker",
        "closing",
        "closing_us",
        "default_protocol",
        "full",
        "handshake",
        "holds",
        "identity",
        "is_new",
        "kept_octets",
        "left",
        "loopback",
        "most",
        "octets_received",
        "octets_sent",
        "opened_us",
        "parts",
        "parts_octets",
        "passed",
        "passed_over",
        "paused",
        "peer",
        "reads",
        "rest",
        "session",
        "waits",
        "wanted",
        "writes",
    )

    def __init__(self, broker: LinkOwner, protocol: str, peer: Peer | None = None) -> None:
        self.broker = broker
        self.default_protocol = protocol
        self.handshake: Handshake | None = None
        self.session: Session | None = None
        self.peer = "" if peer is None else peer.name
        self.loopback = peer is not None and peer.loopback
        self.identity = ""
        self.is_new = False
        self.holds = 0
        self.most = 0
        self.left = 0
        self.kept_octets = 0
        self.passed: list[Part] = []
        self.waits = 0
        self.rest = b""
        self.parts: list[bytes] | None = None  # of a frame so long that joining at each read would cost its square
        self.parts_octets = 0
        self.wanted = 0
        self.closing = False
        self.opened_us = 0
        self.closing_us = 0
        self.passed_over = 0  # bytes received since the session ended
        self.full = False
        self.paused = False
        self.octets_received = 0
        self.octets_sent = 0
        self.reads = 0
        self.writes = 0

    # ---- in

    def received(self, data: bytes) -> None:
        """Handle bytes from the client. Empty `data` resumes with bytes received before."""
        broker = self.broker
        try:
            octets = len(data)
            self.reads += 1
            self.octets_received += octets
            broker.totals.octets_received += octets
            if self.closing:
                self.pass_over(octets)
                return
            parts = self.parts
            if parts is not None:
                parts.append(data)
                self.parts_octets += octets
                if self.parts_octets < self.wanted:
                    if self.is_new:
                        broker.note_unfinished(self, self.parts_octets)
                    return
                data = b"".join(parts)
                self.parts = None
            elif self.rest:
                data = self.rest + data
            session = self.session
            if session is None:
                data = self.shake_hands(data)
                session = self.session
                if session is None:
                    return
            if broker.deletions.pending:  # in this turn: nobody does anything in what is gone; who comes now stays
                broker.end_deleted()
            used = session.receive(data)
            self.rest = data[used:] if used < len(data) else b""
            if self.rest:
                self.gather(session.wanted(self.rest))
            if self.is_new:
                broker.note_unfinished(self, len(self.rest))
            broker.has_read(self, session)
            broker.touch(self)
        except Exception as error:  # noqa: BLE001  the connection's boundary
            broker.failed(self, error)

    def shake_hands(self, data: bytes) -> bytes:
        """Continue the handshake. Return the bytes received after it, for the session."""
        broker = self.broker
        handshake = self.handshake
        if handshake is None:
            if len(data) < SNIFF_OCTETS and is_undecided(data):
                self.rest = data
                return b""
            if data.startswith(TLS_HEADER) and self.begin_tls(data[PROTOCOL_HEADER_OCTETS:]):
                self.rest = b""
                return b""
            handshake = self.handshake = broker.begin_handshake(self, data)
        broker.end_deleted()
        if handshake.login is None and handshake.proof is None:
            data = data[handshake.receive(data) :]
            if handshake.is_complete():
                broker.begin_session(self)
        if self.session is None:
            self.rest = b"" if handshake.closing else data
            if self.rest:
                self.gather(handshake.wanted(self.rest))
            if self.is_new:
                broker.note_unfinished(self, len(self.rest))
            broker.touch(self)
        return data

    def gather(self, wanted: int) -> None:
        """Keep the start of an unfinished frame until `wanted` bytes of it have been received."""
        if wanted > len(self.rest):
            self.wanted = wanted
            self.parts = [self.rest]
            self.parts_octets = len(self.rest)

    def on_answer(self, answer: Proof | Joining) -> None:
        """Resume the session or handshake with a proof that has run or a body that is joined."""
        if self.session is not None:
            self.session.answered(answer)
            return
        handshake = self.handshake
        assert handshake is not None
        handshake.proven()
        if handshake.is_complete():
            self.broker.begin_session(self)

    def is_proving(self) -> bool:
        """Return whether the connection waits for a proof, before which nothing is read."""
        if self.session is not None:
            return self.session.is_proving()
        return self.handshake is not None and self.handshake.is_proving()

    def go_on(self) -> None:
        """Resume with bytes received before, unless the connection is held for a subscriber."""
        if not self.holds & FOR_SUBSCRIBER:
            self.received(b"")

    def pass_over(self, octets: int) -> None:
        """Discard bytes of a client whose session is over, and cut the client off if it sends too many."""
        self.passed_over += octets
        if self.passed_over > PASSED_OVER_MAX:
            self.broker.cut(self)

    def attempt(self, step: Callable[[], None]) -> None:
        """Run a step for this connection. An internal error in it ends the connection and not the broker.

        What is done for each message has its own `try`, for a call more would cost.
        """
        try:
            step()
        except Exception as error:  # noqa: BLE001  the connection's boundary
            self.broker.failed(self, error)

    def attempt_with(self, step: Callable[[Any], None], given: object) -> None:
        """Run a step with one argument, as `attempt` does."""
        try:
            step(given)
        except Exception as error:  # noqa: BLE001  the connection's boundary
            self.broker.failed(self, error)

    def named(self) -> str:
        """Return the client id and user of the connection, to end a log line with. Returns "" if neither is known."""
        session = self.session
        current = session or self.handshake
        if current is None:
            return ""
        context = current.context
        user = "" if session is None else session.rights.user
        told = (("client", context.client_id), ("user", user or context.user))
        said = ", ".join([f"{what} {name!r}" for what, name in told if name])
        return f" ({said})" if said else ""

    # ---- out

    def take(self) -> list[Part]:
        """Return the bytes to send, of the gate and of the session. For transports that send no files."""
        return self.take_passed() + self.take_written()

    def take_passed(self) -> list[Part]:
        """Return and clear the bytes that the gate has released."""
        passed, self.passed = self.passed, []
        return passed

    def take_written(self) -> list[Part]:
        """Return and clear the bytes that the session has written since the last call."""
        session = self.session
        if session is None:
            return []
        out = session.out
        parts = list(session.parts)
        session.parts.clear()
        if len(out):
            parts.append(out.getvalue())
            out.truncate(0)
        return parts

    def fill(self, is_full: bool) -> None:
        """Record whether too many bytes wait for the client, and stop or resume deliveries to it."""
        self.full = is_full
        session = self.session
        if session is not None:
            session.vhost.fill(session.id, is_full)
        if is_full:
            self.look_at_buffer()
        elif self.paused:
            self.paused = False
            self.broker.pause(self, False)
        else:
            self.broker.touch(self)  # publishers held for this client resume at the turn's end

    def look_at_buffer(self) -> None:
        """Pause deliveries if more bytes wait for the client than may."""
        if not self.paused and self.waiting_octets() > self.most:
            self.paused = True
            self.broker.pause(self, True)

    # ---- what only the socket's side knows, or has to do at once

    def begin_tls(self, behind: bytes) -> bool:
        """Begin TLS within the connection, at the client's request. Return False if TLS is not available.

        behind  bytes that came with the request
        """
        return False

    def sends_files(self) -> bool:
        """Return whether the transport can send parts of files directly."""
        return False

    def waiting_octets(self) -> int:
        """Return the number of bytes that the client has not taken yet."""
        return self.left + self.kept_octets

    def limit(self, most: int) -> None:
        """Set how many bytes may wait for the client from now on."""
        self.most = most
        if self.full:
            self.look_at_buffer()

    def flush(self) -> None:
        """Send within the turn what is written: what waits for clients is known before the next is given as much."""

    def is_sending(self) -> bool:
        """Return whether part of a file is still being sent. No other bytes may be sent before that."""
        return False

    def drop(self) -> None:
        """Discard output that was written and not sent."""
        self.passed = []
        if self.handshake is not None:
            self.handshake.out.truncate(0)
        session = self.session
        if session is not None:
            session.file = None
            session.parts.clear()
            session.out.truncate(0)
