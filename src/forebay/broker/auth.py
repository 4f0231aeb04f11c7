"""Who may log in.

The peer is told only that login was refused, in the same words and after the same work whatever was wrong; what was
wrong is for the operator's log.
"""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from hashlib import sha256

from forebay.broker.passwords import NOBODY, check_hash, is_hash, is_right
from forebay.broker.users import Users
from forebay.core.errors import CONNECTION, REFUSED, OptionError, RequestError

REFUSAL = "Login was refused. For details see the broker log."
USER_CHARACTERS_MAX = 255
SHOWN_CHARACTERS_MAX = 80
NOBODY_DIGEST = bytes(32)


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


class Proof:
    """A password that is to be compared with its hash, which takes long.

    connection  whose login waits for it
    known       whether there is such a user
    right       what came of it
    """

    def __init__(self, connection: int, user: str, password: str, hash: str, known: bool) -> None:
        self.connection = connection
        self.user = user
        self.password = password
        self.hash = hash
        self.known = known
        self.right = False

    def run(self) -> None:
        """Compare; any thread may do it."""
        self.right = is_right(self.password, self.hash)


class Auth:
    """The users and their passwords.

    users          those of the configuration: name -> password, or its hash
    loopback_only  users that may log in only from the machine itself: those whose password everybody knows
    mechanisms     the offered ways to log in without sending the password, by name
    stored         users that administrators have made
    proofs         begun and not handed out yet; the server has them run
    """

    def __init__(
        self,
        users: Mapping[str, str],
        loopback_only: Collection[str] = ("guest",),
        mechanisms: Mapping[str, Mechanism] | None = None,
        stored: Users | None = None,
    ) -> None:
        self.mechanisms: dict[str, Mechanism] = dict(mechanisms or {})
        self.proofs: list[Proof] = []
        self._digests: dict[str, bytes] = {}
        self._hashes: dict[str, str] = {}
        self._stored = stored
        self._verified: dict[str, tuple[str, bytes]] = {}  # hash, and digest of the password that it is of
        for user, password in users.items():
            if not user or len(user) > USER_CHARACTERS_MAX:
                raise OptionError(f"users: a name has 1 to {USER_CHARACTERS_MAX} characters, '{shown(user)}' has not")
            if not password:
                raise OptionError(f"users: the password of '{user}' is empty")
            if is_hash(password):
                check_configured(user, password)
                self._hashes[user] = password
            else:
                self._digests[user] = digest(password)
        self._loopback_only = frozenset(loopback_only)

    def knows(self, user: str) -> bool:
        """Whether there is a user of that name."""
        return user in self._digests or self._hash_of(user) is not None

    def _hash_of(self, user: str) -> str | None:
        """The hash of a user's password; None where there is no such user, or its password is not kept as a hash."""
        found = self._hashes.get(user)
        if found is None and user not in self._digests and self._stored is not None:
            stored = self._stored.by_name.get(user)
            found = None if stored is None else stored.hash
        return found

    def begin(self, connection: int, user: str, password: str) -> Proof | None:
        """The proof that has to run before `conclude`; None where `check` knows the answer already."""
        if user in self._digests:
            return None
        known = self._hash_of(user)
        has_hashes = bool(self._hashes) or (self._stored is not None and self._stored.has_hashes())
        if not has_hashes or (known is not None and self._is_verified(user, known, password)):
            return None
        proof = Proof(connection, user, password, known or NOBODY, known is not None)
        self.proofs.append(proof)
        return proof

    def _is_verified(self, user: str, hash: str, password: str) -> bool:
        """Whether this password was found right before, and the user still has it."""
        verified = self._verified.get(user)
        return verified is not None and verified[0] == hash and hmac.compare_digest(verified[1], digest(password))

    def is_at_hand(self, proof: Proof) -> bool:
        """Whether another login has brought the answer meanwhile."""
        if proof.known and self._is_verified(proof.user, proof.hash, proof.password):
            proof.right = True
        return proof.right

    def conclude(self, proof: Proof, loopback: bool) -> str:
        """As `check`, after the proof has run."""
        if not proof.known:
            raise LoginRefused(f"user '{shown(proof.user)}' does not exist")
        if not proof.right or self._hash_of(proof.user) != proof.hash:
            raise LoginRefused(f"wrong password for user '{proof.user}'")
        self._verified[proof.user] = (proof.hash, digest(proof.password))
        return self.admit(proof.user, loopback)

    def check(self, user: str, password: str, loopback: bool) -> str:
        """The identity that this peer has proven; LoginRefused if it has not, as far as that is known without work.

        loopback  the peer connected from this machine
        """
        known = self._digests.get(user)
        # Digests have one length, and an unknown user costs the same comparison: time tells nothing.
        right = hmac.compare_digest(digest(password), known if known is not None else NOBODY_DIGEST)
        hash = self._hash_of(user)
        if known is None and hash is None:
            raise LoginRefused(f"user '{shown(user)}' does not exist")
        if not right and (hash is None or not self._is_verified(user, hash, password)):
            raise LoginRefused(f"wrong password for user '{user}'")
        return self.admit(user, loopback)

    def admit(self, user: str, loopback: bool) -> str:
        """The same user, who has proven who it is, unless it may not connect from there: LoginRefused."""
        if user in self._loopback_only and not loopback:
            raise LoginRefused(f"user '{user}' can only log in from this machine")
        return user


def check_configured(user: str, hash: str) -> None:
    """OptionError unless a password can be compared with the hash."""
    try:
        check_hash(hash)
    except RequestError as error:
        raise OptionError(f"users: of '{user}': {error.text}") from None


def digest(password: str) -> bytes:
    """A lone surrogate, as an undecodable octet may have become, is a character like any other."""
    return sha256(password.encode("utf-8", "surrogatepass")).digest()


def shown(user: str) -> str:
    """A name that a peer made up, fit for one line of a log."""
    return ascii(user[:SHOWN_CHARACTERS_MAX])[1:-1]
