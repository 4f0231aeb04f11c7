"""The user that somebody has proven to be, and who decides what they may do where that is not stored here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import msgspec

from forebay.core.errors import ForebayError

QUEUE: Final = "queue"
EXCHANGE: Final = "exchange"


class Proof(ABC):
    """A proof that a connection waits for, and that takes too long for the event loop.

    connection  that waits
    waits       for somebody else rather than for a processor
    right       what came of it
    """

    waits = False

    def __init__(self, connection: int) -> None:
        self.connection = connection
        self.right = False

    @abstractmethod
    def run(self) -> None:
        """Find out; any thread may do it."""


class Undecided(ForebayError):
    """Somebody else has to be asked first: when the proof has run, the same may be tried again."""

    def __init__(self, proof: Proof) -> None:
        super().__init__("not decided yet")
        self.proof = proof


class Authorizer(ABC):
    """Decides for one principal, in place of stored permissions: a token's scopes, or another server.

    Each method may raise Undecided.
    """

    @abstractmethod
    def may_enter(self, vhost: str) -> bool:
        """True if connections may be in this vhost."""

    @abstractmethod
    def may(self, vhost: str, right: str, kind: str, name: str) -> bool:
        """True if a right (configure, write, read) covers the QUEUE or EXCHANGE of this name."""

    @abstractmethod
    def may_topic(self, vhost: str, right: str, exchange: str, routing_key: str) -> bool:
        """True if a right (write, read) covers the routing key of a topic exchange."""


class Principal(msgspec.Struct, eq=False):
    """The user that somebody has proven to be.

    authorizer  decides what they may do; None: the permissions stored for the user
    tags      for the administration; None: those stored for the user
    until_us  when that ends, in microseconds; 0 for never
    vouched   a certificate says so
    known_until_us  until when the same login may be answered from memory; 0 for never
    """

    user: str
    authorizer: Authorizer | None = None
    tags: Sequence[str] | None = None
    until_us: int = 0
    vouched: bool = False
    known_until_us: int = 0
