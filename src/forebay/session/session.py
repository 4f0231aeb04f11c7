"""A session, as the server sees it: octets in; out come frames, and when they may leave.

A session that exists is logged in: it begins with a `Login`, in the vhost that the login names. A session speaks one
protocol over one connection. It calls the vhost and never the server: what the server has to do for it stands in its
fields. Nothing here or below knows a socket, a clock or a thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from forebay.broker.audit import Origin
from forebay.broker.contract import VhostContract
from forebay.broker.joining import Joining
from forebay.core.errors import Later
from forebay.core.pieces import Part
from forebay.directory.logins.authorizer import Proof, Undecided
from forebay.directory.logins.login import Auth
from forebay.directory.permissions import Rights
from forebay.message.events import PUBLISH_DENIED, SUBSCRIBE_DENIED
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.session.login import Login
from forebay.session.meter import Meter
from forebay.session.traffic import Traffic


@final
class FilePart:
    """Octets of a file to be sent as they are.

    handle  of the file, to be closed by whoever sends them
    """

    def __init__(self, handle: int, position: int, octets: int) -> None:
        self.handle = handle
        self.position = position
        self.octets = octets


@mypyc_attr(allow_interpreted_subclasses=True)
class Session(ABC):
    """One connection's protocol state.

    id         never given twice while the broker runs
    parts      long octets and what was written before them: to be sent before `out`
    out        frames gathered until the end of the turn; the server takes them and truncates it
    file       to be sent after `out`; nothing more is written until `file_sent`
    has_delivered  it is one that messages are delivered to: what it is sent may tell of them
    sends_files  the server can send files on this connection
    closing    close the connection once `out` is written
    reason     why the connection ends, for the operator; empty when the peer took its leave
    hold_lsn   while it is above what is durable, the server keeps what was written since it was set, in order
    rights     what its user may do in its vhost
    principal  who has logged in, and `context` from where
    proof      what this session waits for, such as a right that another server knows: nothing is read until `proven`
    joining    a long body that this session waits for
    meter      what this read has cost; where that is too much, the server gives what is left again in the next turn
    swell      how much longer than the bodies may be what is written of them
    unread     the server does not read the connection for now: that nothing is heard from it says nothing
    """

    def __init__(self, session_id: i64, login: Login, vhost: VhostContract, rights: Rights) -> None:
        self.id: i64 = session_id
        self.vhost = vhost
        self.rights = rights
        self.principal = login.principal
        self.context = login.context
        self.out = BytesWriter()
        self.parts: list[Part] = []  # one list for good: whoever writes long octets knows it
        self.file: FilePart | None = None
        self.has_delivered = False
        self.sends_files = False
        self.closing = False
        self.reason = ""
        self.hold_lsn: i64 = 0
        self.unread = False
        self.meter = Meter(vhost.budgets.filters.pace)
        self.swell: i64 = 1
        self.proof: Proof | None = None
        self.joining: Joining | None = None

    @abstractmethod
    def receive(self, data: bytes) -> int:
        """Take in whole frames; how many octets were used.

        The rest is to be given again with more behind it. Errors of the peer are answered in `out`, never raised.
        """

    @abstractmethod
    def wanted(self, rest: bytes) -> int:
        """The length of the unfinished frame that `rest` begins; 0 while that is not known."""

    @abstractmethod
    def deliver(self, delivery: Delivery) -> None:
        """Write records to `out`."""

    @abstractmethod
    def cancelled(self, consumer: Consumer) -> None:
        """A consumer of this session lost its queue."""

    @abstractmethod
    def end_turn(self, lsn: int, durable: int) -> None:
        """The turn in which this session published or was delivered to is over.

        Confirms of its publishes are due once `durable` >= lsn: at once if it is already.
        """

    @abstractmethod
    def on_durable(self, durable: int) -> None:
        """Write the confirms that are due up to here."""

    @abstractmethod
    def waiting(self) -> bool:
        """True if confirms are outstanding, so that `on_durable` has something to do."""

    def file_sent(self) -> None:
        """The file's part has been taken; a turn of this connection follows."""
        raise AssertionError("this protocol sends no files")

    @abstractmethod
    def tick(self, now_us: int) -> None:
        """Check keepalive; call about once a second."""

    @abstractmethod
    def taken_over(self) -> None:
        """Say that another connection has come with the same client identifier, and close."""

    @abstractmethod
    def shut_down(self) -> None:
        """The broker stops: take leave of the peer."""

    def send_elsewhere(self, server: str) -> None:
        """Say that another node serves clients from here on, and where it is, HOST:PORT; "" where nobody knows."""
        where = f"; connect to {server}" if server else ""
        self.dismiss(f"another node serves clients from here on{where}")

    @abstractmethod
    def closed(self) -> None:
        """The connection is gone: give back everything."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Protocol, user and names, for people."""

    @abstractmethod
    def dismiss(self, text: str, is_ours: bool = False) -> None:
        """The broker ends this connection, and says why; `is_ours`: it was wrong itself."""

    @abstractmethod
    def is_publisher(self) -> bool:
        """True if it has published: when there is no room for more, the server reads only the others."""

    def is_reader(self) -> bool:
        """True if it may have acknowledgements to send, so that it must never be left unread for long."""
        return self.vhost.consuming.has_consumers(self.id)

    @abstractmethod
    def blocked(self, reason: str) -> None:
        """Publishers are not read for now, or nothing of theirs is taken; an empty reason: that is over."""

    def is_proving(self) -> bool:
        """True if nothing more may be taken in for now."""
        return self.proof is not None or self.joining is not None

    @abstractmethod
    def proven(self) -> None:
        """The proof has come out, right or wrong."""

    def origin(self) -> Origin:
        """The user that asks, for the audit log."""
        return Origin(self.principal, self.context.address, self.context.protocol)

    def note_change(self, what: str, fields: dict[str, object]) -> None:
        """Note that an operation of the protocol itself has changed something here."""
        self.vhost.note_change(self.origin(), what, fields)

    def note_denied(self, is_publish: bool, reason: str) -> None:
        """Note that the user may not publish, or not subscribe or consume, what it wanted to."""
        what = PUBLISH_DENIED if is_publish else SUBSCRIBE_DENIED
        note_denied(self.vhost, what, self.principal.user, reason)

    def ask(self, auth: Auth, undecided: Undecided) -> None:
        """Have somebody asked; what needs the answer is tried again when the proof has run."""
        self.wait_for(auth, undecided.proof)

    def wait_for(self, auth: Auth, proof: Proof) -> None:
        """Take nothing in until this has run."""
        proof.connection = int(self.id)
        self.proof = proof
        auth.ask(proof)

    def join_body(self, joining: Joining) -> None:
        """Take nothing in until a long body is put together."""
        joining.connection = int(self.id)
        self.joining = joining
        self.vhost.join_body(joining)

    def answered(self, answer: Proof | Joining) -> None:
        """Go on, as what this session waits for has run."""
        if isinstance(answer, Proof):
            self.proven()
        else:
            self.joining = None

    def put_off(self, auth: Auth, why: Undecided | Later) -> None:
        """Put off what was not done: it comes again in the next turn, or when somebody else has been asked."""
        if isinstance(why, Undecided):
            self.ask(auth, why)
        else:
            self.meter.is_over = True

    def describe_channels(self) -> list[dict[str, object]]:
        """The channels, for people; protocols without any have none."""
        return []

    def describe_sessions(self) -> list[dict[str, object]] | None:
        """Return the sessions of AMQP 1.0 with their links, for people; None over any other protocol."""
        return None

    def channel_count(self) -> int:
        """Return the number of open channels; 0 for protocols without any."""
        return 0

    def published(self) -> int:
        """Return the number of messages that the client has published."""
        return 0

    def add_traffic(self, found: Traffic) -> None:
        """Add the counts of all channels, the closed ones too; protocols without any have nothing to add."""
        return

    def write_long(self, octets: bytes) -> None:
        """Send these octets after all that was written so far, without copying them."""
        if len(self.out):
            self.parts.append(self.out.getvalue())
            self.out.truncate(0)
        self.parts.append(octets)

    def hold(self) -> None:
        """Let what is written from here on leave only when every change of the topology so far is on disk."""
        self.hold_lsn = self.vhost.lsn()


def note_denied(vhost: VhostContract, what: str, user: str, reason: str) -> None:
    """Note that somebody may not do what it has asked for."""
    vhost.note_event(what, {"user": user, "reason": reason})
