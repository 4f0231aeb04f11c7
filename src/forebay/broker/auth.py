"""Who may log in.

The peer is told only that login was refused, in the same words and after the same work whatever was wrong; what was
wrong is for the operator's log.
"""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from hashlib import sha256

from forebay.core.errors import CONNECTION, REFUSED, OptionError, RequestError

REFUSAL = "Login was refused. For details see the broker log."
USER_CHARACTERS_MAX = 255
SHOWN_CHARACTERS_MAX = 80
NOBODY = bytes(32)  # as long as a digest


class LoginRefused(RequestError):
    """Login was refused; `detail` says why and must not reach the peer."""

    def __init__(self, detail: str) -> None:
        super().__init__(REFUSED, REFUSAL, CONNECTION)
        self.detail = detail


class Login(ABC):
    """One login in several messages.

    done  nothing more is to come from the client; until then `user` is empty
    user  who it has proven to be
    """

    def __init__(self) -> None:
        self.done = False
        self.user = ""

    @abstractmethod
    def step(self, data: bytes) -> bytes:
        """Take the client's message, and give the answer; empty for none. LoginRefused ends the login."""


class Mechanism(ABC):
    """A way to log in by messages to and fro, as those of SASL (RFC 4422) are."""

    @abstractmethod
    def start(self) -> Login:
        """A login that begins."""


class Auth:
    """The users and their passwords.

    users          name -> password
    loopback_only  users that may log in only from the machine itself: those whose password everybody knows
    mechanisms     the offered ways to log in without sending the password, by name
    """

    def __init__(
        self,
        users: Mapping[str, str],
        loopback_only: Collection[str] = ("guest",),
        mechanisms: Mapping[str, Mechanism] | None = None,
    ) -> None:
        self.mechanisms: dict[str, Mechanism] = dict(mechanisms or {})
        self._digests: dict[str, bytes] = {}
        for user, password in users.items():
            if not user or len(user) > USER_CHARACTERS_MAX:
                raise OptionError(f"users: a name has 1 to {USER_CHARACTERS_MAX} characters, '{shown(user)}' has not")
            if not password:
                raise OptionError(f"users: the password of '{user}' is empty")
            self._digests[user] = digest(password)
        self._loopback_only = frozenset(loopback_only)

    def knows(self, user: str) -> bool:
        """Whether there is a user of that name."""
        return user in self._digests

    def check(self, user: str, password: str, loopback: bool) -> str:
        """The identity that this peer has proven; LoginRefused if it has not.

        loopback  the peer connected from this machine
        """
        known = self._digests.get(user)
        # Digests have one length, and an unknown user costs the same comparison: time tells nothing.
        right = hmac.compare_digest(digest(password), known if known is not None else NOBODY)
        if known is None:
            raise LoginRefused(f"user '{shown(user)}' does not exist")
        if not right:
            raise LoginRefused(f"wrong password for user '{user}'")
        return self.admit(user, loopback)

    def is_administrator(self, user: str) -> bool:
        """Whether this user may ask for what belongs to no one user: those of the configuration all may."""
        return user in self._digests

    def admit(self, user: str, loopback: bool) -> str:
        """The same user, who has proven who it is, unless it may not connect from there: LoginRefused."""
        if user in self._loopback_only and not loopback:
            raise LoginRefused(f"user '{user}' can only log in from this machine")
        return user


def digest(password: str) -> bytes:
    """A lone surrogate, as an undecodable octet may have become, is a character like any other."""
    return sha256(password.encode("utf-8", "surrogatepass")).digest()


def shown(user: str) -> str:
    """A name that a peer made up, fit for one line of a log."""
    return ascii(user[:SHOWN_CHARACTERS_MAX])[1:-1]
