"""Who may log in.

The peer is told only that login was refused, in the same words and after the same work whatever was wrong; what was
wrong is for the operator's log.
"""

from __future__ import annotations

import hmac
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


class Auth:
    """The users and their passwords.

    users          name -> password
    loopback_only  users that may log in only from the machine itself: those whose password everybody knows
    """

    def __init__(self, users: Mapping[str, str], loopback_only: Collection[str] = ("guest",)) -> None:
        self._digests: dict[str, bytes] = {}
        for user, password in users.items():
            if not user or len(user) > USER_CHARACTERS_MAX:
                raise OptionError(f"users: a name has 1 to {USER_CHARACTERS_MAX} characters, '{shown(user)}' has not")
            if not password:
                raise OptionError(f"users: the password of '{user}' is empty")
            self._digests[user] = digest(password)
        self._loopback_only = frozenset(loopback_only)

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
        if user in self._loopback_only and not loopback:
            raise LoginRefused(f"user '{user}' can only log in from this machine")
        return user


def digest(password: str) -> bytes:
    """A lone surrogate, as an undecodable octet may have become, is a character like any other."""
    return sha256(password.encode("utf-8", "surrogatepass")).digest()


def shown(user: str) -> str:
    """A name that a peer made up, fit for one line of a log."""
    return ascii(user[:SHOWN_CHARACTERS_MAX])[1:-1]
