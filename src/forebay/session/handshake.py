"""The handshake of one connection: bytes in, bytes out, until its client has logged in.

A handshake ends in a `Login`, from which the session begins. It enters no vhost: what it reads is no more than its
protocol needs to know who the client is and where it wants to go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from forebay.core.errors import RequestError
from forebay.core.options import Options
from forebay.core.units import US_PER_MS
from forebay.directory.logins.authorizer import Proof
from forebay.directory.logins.login import Auth, LoginContext
from forebay.session.login import Login


@mypyc_attr(allow_interpreted_subclasses=True)
class Handshake(ABC):
    """The handshake of one connection.

    id       number of the connection; its session will have the same
    context  the connection, and the names that the client has given
    out      bytes to be sent at the end of the turn
    closing  close the connection once `out` is sent
    reason   why the connection ends, for the operator; "" if the client took its leave
    proof    a password to be checked, or a right to be asked for: nothing is read until `proven`
    login    the result; None until the client has logged in
    """

    def __init__(self, connection: i64, context: LoginContext, auth: Auth, options: Options) -> None:
        self.id: i64 = connection
        self.context = context
        self.auth = auth
        self.options = options
        self.out = BytesWriter()
        self.closing = False
        self.reason = ""
        self.proof: Proof | None = None
        self.login: Login | None = None
        self.timeout_us: i64 = options.handshake_timeout_ms * US_PER_MS
        self.deadline_us: i64 = 0  # from the first tick on

    @abstractmethod
    def receive(self, data: bytes) -> int:
        """Read whole frames until the client has logged in; return how many bytes were used.

        The rest is to be given again with more behind it, or belongs to the session. Errors of the peer are answered
        in `out`, never raised.
        """

    @abstractmethod
    def wanted(self, rest: bytes) -> int:
        """Return the length of the unfinished frame that `rest` begins; 0 while that is not known."""

    @abstractmethod
    def conclude(self, proof: Proof) -> None:
        """Go on with the login whose proof has run."""

    @abstractmethod
    def refuse(self, error: RequestError) -> None:
        """Answer that the vhost does not let the client in, and close."""

    @abstractmethod
    def time_out(self) -> None:
        """Close, as the client has not logged in within `handshake_timeout_ms`."""

    @abstractmethod
    def dismiss(self, text: str, is_ours: bool = False) -> None:
        """End the connection for the broker, and say why; `is_ours`: an internal error."""

    @abstractmethod
    def shut_down(self) -> None:
        """End the connection, as the broker stops."""

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return protocol and user, for people."""

    def send_elsewhere(self, server: str) -> None:
        """Say that another node serves clients from here on, and where it is, HOST:PORT; "" where nobody knows."""
        where = f"; connect to {server}" if server else ""
        self.dismiss(f"another node serves clients from here on{where}")

    def is_proving(self) -> bool:
        """Return whether nothing more may be read for now."""
        return self.proof is not None

    def is_complete(self) -> bool:
        """Return whether the session can begin."""
        return self.login is not None and self.proof is None and not self.closing

    def wait_for(self, proof: Proof) -> None:
        """Read nothing until this proof has run."""
        proof.connection = int(self.id)
        self.proof = proof
        self.auth.ask(proof)

    def proven(self) -> None:
        """Go on, as the proof has run."""
        proof = self.proof
        assert proof is not None
        self.proof = None
        if not self.closing and self.login is None:  # else the vhost has asked, and is asked again
            self.conclude(proof)

    def tick(self, now_us: i64) -> None:
        """Close if the login takes too long; call about once a second."""
        if self.deadline_us == 0:
            self.deadline_us = now_us + self.timeout_us
        elif now_us > self.deadline_us and not self.closing:
            self.time_out()
