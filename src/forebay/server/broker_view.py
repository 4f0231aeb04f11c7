"""The view that the administration has of a broker: what it may read there, and the calls that it may make.

Nothing of the administration knows the process behind it (`app.py`). So whatever a page, a metric or a tool needs of a
broker is named in one place, and a broker in another process can be shown by whatever has these names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Protocol, TypeVar

from forebay.broker.vhosts import Vhosts
from forebay.core.options import Options
from forebay.directory.logins.authorizer import Principal, Proof
from forebay.directory.logins.login import NOWHERE, LoginContext, LoginRefused
from forebay.management.control import Control
from forebay.management.directory_reader import DirectoryReader
from forebay.node.peer import Peer
from forebay.node.telemetry.events import Announcer
from forebay.node.telemetry.tracing import Tracer
from forebay.server.connection_reader import ConnectionReader
from forebay.server.faults import Faults
from forebay.server.listen import Closable, Endpoint, MakeProtocol
from forebay.server.net import Connection
from forebay.server.readings import Readings
from forebay.server.system.clock import SystemClock
from forebay.server.system.small_file import DataFolder
from forebay.server.telemetry.histograms import Histograms
from forebay.server.transport.coap_traffic import CoapTraffic
from forebay.server.transport.door import Door
from forebay.server.transport.tls import TlsContexts
from forebay.session.session import Session

T = TypeVar("T")


class BrokerView(Protocol):
    """A broker as administrators see it.

    control      operations, configuration, webhooks, and the cluster
    vhosts       vhosts with their queues
    directory    users, what they may do, and parameters: values
    clients      connections whose client has logged in: values
    histograms   times since the start
    readings     the log, what the broker lacks, its counters, and what clients ask of it: values at one moment
    folder       small files of the data folder, and the room on its disk
    announcer    tells of events
    faults       errors of our own
    door         limits of all connections over HTTP
    coap         counts of CoAP, and the memory that its clients use
    addresses    where the broker listens, by the names of the options
    leaving      the broker is about to stop: health checks say so
    """

    options: Options
    tls: TlsContexts
    clock: SystemClock
    control: Control
    vhosts: Vhosts
    directory: DirectoryReader
    clients: ConnectionReader
    readings: Readings
    folder: DataFolder
    histograms: Histograms
    announcer: Announcer
    faults: Faults
    door: Door
    coap: CoapTraffic
    addresses: dict[str, str]
    leaving: bool

    def now_us(self) -> int:
        """Return the time, in microseconds."""

    async def listen(self, make: MakeProtocol, endpoint: Endpoint) -> tuple[Closable, str]:
        """Open a listener; return it and its actual address. Raises OptionError if it cannot be opened."""

    async def login(self, user: str, password: str, loopback: bool, place: LoginContext = NOWHERE) -> Principal:
        """Return the user that a caller without a session has proven to be; LoginRefused."""

    def refuse_login(self, place: LoginContext, error: LoginRefused) -> None:
        """Note that a caller without a session was refused: who guesses has to wait for the next login."""

    async def decided(self, check: Callable[[], T]) -> T:
        """Return the result of a check, once everybody has been asked whom it needs."""

    async def ask(self, proof: Proof) -> None:
        """Put a proof to the backend that decides about it, and wait for the answer."""

    async def on_disk(self) -> None:
        """Wait until everything done so far is on the disk."""

    def hurry(self) -> None:
        """Write settlements with the next commit, instead of with the next one that must be on the disk."""

    def schedule(self) -> None:
        """Schedule a turn."""

    def debt_of_user(self, user: str, messages: int, octets: int) -> float:
        """Charge a user for published messages; return the seconds after which the debt is paid."""

    def certificate_expiry(self) -> datetime | None:
        """Return when the certificate of the TLS listeners expires; None where there is none."""

    def new_connection(self, peer: Peer) -> Connection:
        """Make the connection of a client that comes by no listener."""

    def seat(self, connection: Connection, make: Callable[[int], Session]) -> None:
        """Add a connection that came by no listener, with the session that `make` returns for its number."""

    def shut_down_sessions(self, kind: type[asyncio.Transport]) -> None:
        """Shut down every session over this kind of transport, with its protocol's goodbye."""

    def touch(self, connection: Connection) -> None:
        """Mark a connection as one that the coming turn serves."""

    def trace(self, tracer: Tracer) -> None:
        """Report messages on their way to a tracer from now on."""
