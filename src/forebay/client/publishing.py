"""The base class of clients that publish: it buffers outgoing bytes and waits for confirms."""

from __future__ import annotations

import socket
import time
from abc import abstractmethod
from functools import partial
from typing import Final, Self

from librt.strings import BytesWriter

from forebay.client.closing import Closing
from forebay.client.connecting import ClientTls, connect_any
from forebay.core.errors import ForebayError, OutcomeUnknown, PeerError

TIMEOUT_S: Final = 30.0
RECEIVE_S: Final = 0.2
RECEIVE_OCTETS: Final = 1 << 18
SEND_OCTETS: Final = 1 << 16  # size from which buffered messages are sent


class PublishingClient(Closing):
    """One connection. Use it from one thread at a time.

    published           number of messages passed to `publish`
    confirmed, refused  number of messages that the broker has accepted, and that it has refused
    blocked             reason for the broker's back-pressure on this connection; empty if there is none
    """

    def __init__(self, connection: socket.socket, server: str) -> None:
        self.server = server
        self.published = 0
        self.confirmed = 0
        self.refused = 0
        self.blocked = ""
        self._connection = connection
        self._out = BytesWriter()
        self._rest = b""
        self._broken: ForebayError | None = None

    @classmethod
    def connect(
        cls,
        servers: str,
        user: str,
        password: str,
        place: str = "/",
        timeout_s: float = TIMEOUT_S,
        tls: ClientTls | None = None,
    ) -> Self:
        """Connect to the first server of a list `host:port,host:port` that answers, and log in.

        place      the vhost; for MQTT the client identifier
        timeout_s  limit for each answer, in seconds
        raises     Unreachable, naming every server and its error; RequestError if login is refused
        """
        return connect_any(servers, timeout_s, tls, partial(cls._begin, user, password, place, timeout_s))

    @classmethod
    def _begin(
        cls, user: str, password: str, place: str, timeout_s: float, connection: socket.socket, server: str
    ) -> Self:
        client = cls(connection, server)
        connection.settimeout(timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        client._greet(user, password, place)
        return client

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @property
    def unconfirmed(self) -> int:
        """Return the number of published messages that the broker has neither confirmed nor refused."""
        return self.published - self.confirmed - self.refused

    def settle(self, unconfirmed_max: int) -> None:
        """Wait until at most `unconfirmed_max` messages are unconfirmed.

        Raises OutcomeUnknown if none is settled in time.
        """
        self.flush()
        until = time.monotonic() + self._timeout_s()
        while self.unconfirmed > unconfirmed_max:
            before = self.unconfirmed
            self._receive(RECEIVE_S)
            if self.unconfirmed < before:
                until = time.monotonic() + self._timeout_s()
            elif time.monotonic() > until:
                why = f"the broker takes in nothing, {self.blocked}" if self.blocked else "no answer in time"
                raise self._broke(
                    OutcomeUnknown(f"{self.server}: {why}: {self.unconfirmed} messages without a confirm")
                )

    def flush(self) -> None:
        """Send buffered bytes."""
        self._check()
        octets = self._out.getvalue()
        if not octets:
            return
        self._out.truncate(0)
        try:
            self._connection.sendall(octets)
        except OSError as error:
            self._said_last()
            raise self._broke(OutcomeUnknown(f"{self.server}: sending failed: {error}")) from error

    # ---- internal

    @abstractmethod
    def _greet(self, user: str, password: str, place: str) -> None:
        """Log in."""

    @abstractmethod
    def _take(self, data: bytes) -> int:
        """Process complete frames, and return their length in bytes. Raises PeerError if one is malformed."""

    def _published(self) -> None:
        """Count a message that has been buffered, and send the buffer if it is full."""
        self.published += 1
        if len(self._out) >= SEND_OCTETS:
            self.flush()

    def _timeout_s(self) -> float:
        return self._connection.gettimeout() or TIMEOUT_S

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _said_last(self) -> None:
        """Read the broker's last frames after sending failed, as they may contain the reason, and raise it."""
        try:
            while self._receive(RECEIVE_S):
                pass
        except OutcomeUnknown:
            self._broken = None

    def _receive(self, timeout_s: float) -> bool:
        """Receive bytes and process the frames in them. Returns False if no bytes arrive within `timeout_s`.

        Raises OutcomeUnknown if the connection has ended, PeerError if a frame is malformed.
        """
        self._check()
        usual = self._connection.gettimeout()
        self._connection.settimeout(timeout_s)
        try:
            octets = self._connection.recv(RECEIVE_OCTETS)
        except TimeoutError:
            return False
        except OSError as error:
            raise self._broke(OutcomeUnknown(f"{self.server}: receiving failed: {error}")) from error
        finally:
            self._connection.settimeout(usual)
        if not octets:
            raise self._broke(OutcomeUnknown(f"{self.server}: the broker closed the connection"))
        data = self._rest + octets
        try:
            self._rest = data[self._take(data) :]
        except PeerError as error:
            raise self._broke(PeerError(error.reason, f"{self.server}: {error.text}")) from None
        return True

    def _broke(self, error: ForebayError) -> ForebayError:
        """Mark the connection as not usable after this error, and return the error."""
        self._broken = self._broken or error
        return error
