"""Reading connections of clients: values at one moment, which a process that answers for others could be sent.

A connection is known by the number of its session. It may be gone whenever somebody asks for it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, cast

from msgspec import Struct

from forebay.broker.limits.hold_reasons import CHOKED
from forebay.core.metrics import Totals
from forebay.message.shown import plain
from forebay.node.broker import NodeBroker
from forebay.node.telemetry.stats import add_session
from forebay.server.net import Connection
from forebay.session.session import Session

GONE: Final = ""  # the name, and the user, of a connection that is gone


class TlsReading(Struct, frozen=True):
    """The encryption of a connection, and the names in its client's certificate; None if it has shown none."""

    version: str
    cipher: str
    subject: str | None
    issuer: str | None
    validity: str | None


class ConnectionCounts(Struct, frozen=True):
    """The counters of a connection.

    vhost            by number
    reads, writes    of the socket
    waiting_octets   that the client has not read yet
    channels         as the session describes them
    """

    id: int
    user: str
    vhost: int
    octets_received: int
    octets_sent: int
    reads: int
    writes: int
    waiting_octets: int
    channels: list[dict[str, object]]


class ConnectionReading(Struct, frozen=True):
    """A connection whose client has logged in.

    peer, local      addresses of the client, and of the broker on this connection
    opened_us        time at which it began
    is_closing       it takes part in nothing any more
    is_blocked       its publishes are not read
    held             the lasting reason for which it is not read, for people; "" if there is none
    described        its client, as the session describes it
    """

    counts: ConnectionCounts
    name: str
    vhost: str
    peer: str
    local: tuple[str, int]
    opened_us: int
    is_closing: bool
    is_blocked: bool
    held: str
    tls: TlsReading | None
    described: dict[str, object]


class ConnectionReader:
    """The reader of the connections of one broker."""

    def __init__(self, broker: NodeBroker) -> None:
        self._broker = broker
        self._links = cast("dict[int, Connection]", broker.connections)

    def ids(self, user: str = "", vhost: int | None = None) -> list[int]:
        """Return the connections whose client has logged in, in the order in which they came.

        user, vhost  those of a user, or in the vhost of that number, alone
        """
        return [
            id
            for id, link in self._links.items()
            if link.session is not None
            and (link.session.rights.user == user if user else link.session.rights.user)
            and (vhost is None or link.session.vhost.number == vhost)
        ]

    def find(self, name: str) -> int | None:
        """Return the connection of that name; None if there is none."""
        for id, link in self._links.items():
            # The client's address first: the whole name costs more, and there may be thousands.
            if name.startswith(link.peer) and link.name == name and self.user(id):
                return id
        return None

    def name(self, id: int) -> str:
        """Return the name of a connection; GONE if there is none."""
        link = self._links.get(id)
        return GONE if link is None else link.name

    def peer(self, id: int) -> str:
        """Return the address of a connection's client; GONE if there is none."""
        link = self._links.get(id)
        return GONE if link is None else link.peer

    def user(self, id: int) -> str:
        """Return the user that has logged in; GONE if there is none."""
        session = self._session(id)
        return GONE if session is None else session.rights.user

    def protocol(self, id: int) -> str:
        """Return the protocol that a session speaks; GONE if there is none."""
        session = self._session(id)
        return GONE if session is None else str(session.describe()["protocol"])

    def _session(self, id: int) -> Session | None:
        link = self._links.get(id)
        return None if link is None else link.session

    # ---- counters

    def all_ids(self) -> list[int]:
        """Return all connections that have a number, those that are closing too."""
        return list(self._links)

    def counts(self, id: int) -> ConnectionCounts | None:
        """Return the counters of a connection; None if it is gone."""
        link = self._links.get(id)
        if link is None:
            return None
        session = link.session
        return ConnectionCounts(
            id=id,
            user=GONE if session is None else session.rights.user,
            vhost=-1 if session is None else int(session.vhost.number),
            octets_received=link.octets_received,
            octets_sent=link.octets_sent,
            reads=link.reads,
            writes=link.writes,
            waiting_octets=link.waiting_octets(),
            channels=[] if session is None else session.describe_channels(),
        )

    def channel_count(self, ids: Iterable[int] | None = None) -> int:
        """Return the number of channels that these connections have open, or all."""
        sessions = [self._session(id) for id in (self._links if ids is None else ids)]
        return sum(session.channel_count() for session in sessions if session is not None)

    def channels(self, id: int) -> list[dict[str, object]]:
        """Return the channels of a connection, as its session describes them."""
        session = self._session(id)
        return [] if session is None else session.describe_channels()

    def sessions(self, id: int) -> list[dict[str, object]] | None:
        """Return the sessions of AMQP 1.0 of a connection with their links; None over any other protocol."""
        session = self._session(id)
        return None if session is None else session.describe_sessions()

    def add_to(self, totals: Totals, id: int) -> None:
        """Add a connection's own counters to the totals of the broker."""
        session = self._session(id)
        if session is not None:
            add_session(totals, session)

    # ---- all of one

    def read(self, id: int) -> ConnectionReading | None:
        """Return what is known of a connection; None if it is gone."""
        link = self._links.get(id)
        counts = self.counts(id)
        if link is None or counts is None or link.session is None:
            return None
        described = plain(link.session.describe())
        assert isinstance(described, dict), "a session describes itself by names"
        return ConnectionReading(
            counts=counts,
            name=link.name,
            vhost=link.session.rights.vhost,
            peer=link.peer,
            local=address_of(link),
            opened_us=link.opened_us,
            is_closing=link.closing,
            is_blocked=bool(link.holds & CHOKED),
            held=self._broker.listed.view.lasting(link),
            tls=read_tls(link),
            described=described,
        )


def address_of(link: Connection) -> tuple[str, int]:
    """Return the address of the broker on a connection."""
    local = link.transport.get_extra_info("sockname") or ("", 0)
    return local[0], local[1]


def read_tls(link: Connection) -> TlsReading | None:
    """Return the encryption of a connection; None if it has none."""
    tls = link.transport.get_extra_info("ssl_object")
    if tls is None:
        return None
    cipher, protocol, _ = tls.cipher() or ("", "", 0)
    version = tls.version() or protocol
    certificate = link.transport.get_extra_info("peercert")
    if not certificate:
        return TlsReading(version, cipher, None, None, None)
    return TlsReading(
        version,
        cipher,
        name_text(certificate.get("subject", ())),
        name_text(certificate.get("issuer", ())),
        f"{certificate.get('notBefore', '')} - {certificate.get('notAfter', '')}",
    )


def name_text(name: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    """Return a certificate's name as one text."""
    return ",".join(f"{key}={value}" for part in name for key, value in part)
