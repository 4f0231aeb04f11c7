"""Logins: which users there are, and how they prove it.

The peer is told only that login was refused, in the same words and after the same work whatever was wrong; what was
wrong is for the operator's log.
"""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from hashlib import sha256

import msgspec

from forebay.core.errors import CONNECTION, REFUSED, OptionError, RequestError
from forebay.core.units import US_PER_S
from forebay.directory.logins.authorizer import Principal, Proof
from forebay.directory.logins.passwords import NOBODY, check_hash, is_cheap, is_hash, is_right
from forebay.directory.logins.throttle import Throttle
from forebay.directory.users import Users

REFUSAL = "Login was refused. For details see the broker log."
USER_CHARACTERS_MAX = 255
SHOWN_CHARACTERS_MAX = 80
NOBODY_DIGEST = bytes(32)
KNOWN_MAX = 10_000  # logins whose answer by a backend is remembered


class LoginRefused(RequestError):
    """Login was refused; `detail` says why and must not reach the peer.

    user    as whom, where somebody was named
    wait_s  how long nobody is let try again; 0 if nobody has to wait
    """

    def __init__(self, detail: str, user: str = "", wait_s: int = 0) -> None:
        super().__init__(REFUSED, REFUSAL, CONNECTION)
        self.detail = detail
        self.user = user
        self.wait_s = wait_s


class LoginContext(msgspec.Struct, eq=False):
    """The origin of a login: the connection, and the names that its client has given so far.

    protocol     "mqtt", "amqp", "blocks" or "http"
    user         the user name of the last login that was tried
    peer         the client's address and port, for people
    certificate  the user that the client's TLS certificate names; "" without one
    loopback     the client is on this machine
    """

    address: str
    protocol: str
    client_id: str = ""
    user: str = ""
    peer: str = ""
    certificate: str = ""
    loopback: bool = False


class LoginRefusal:
    """One refused login, for the server to note."""

    def __init__(self, place: LoginContext, user: str, detail: str) -> None:
        self.place = place
        self.user = user
        self.detail = detail


NOWHERE = LoginContext("", "")


class SaslExchange(ABC):
    """One login in several messages, as a mechanism of SASL has it.

    done  nothing more is to come from the client; until then `user` is empty
    user  who it has proven to be
    name  who it says it is, once it has
    """

    def __init__(self) -> None:
        self.done = False
        self.user = ""
        self.name = ""

    @abstractmethod
    def step(self, data: bytes) -> bytes:
        """Take the client's message, and give the answer; empty for none. LoginRefused ends the login."""


class Mechanism(ABC):
    """A way to log in by messages to and fro, as those of SASL (RFC 4422) are."""

    @abstractmethod
    def start(self) -> SaslExchange:
        """Begin a login."""


class HashProof(Proof):
    """A password that is to be compared with its hash.

    known  whether there is such a user
    """

    def __init__(self, connection: int, user: str, password: str, hash: str, known: bool) -> None:
        super().__init__(connection)
        self.user = user
        self.password = password
        self.hash = hash
        self.known = known

    def run(self) -> None:
        self.right = is_right(self.password, self.hash)
        if not self.right and is_cheap(self.hash):
            is_right(self.password, NOBODY)  # or time would tell that there is such a user


class Backend(ABC):
    """Another system that knows users.

    is_for_tokens  takes tokens, which nobody else is asked about
    """

    is_for_tokens = False

    @abstractmethod
    def takes(self, password: str, place: LoginContext) -> bool:
        """True if that may be a password or token for this one."""

    @abstractmethod
    def prove(self, user: str, password: str, place: LoginContext) -> Principal:
        """Prove who that is; LoginRefused. Any thread may call it, and it may take as long as its own limit."""


class BackendProof(Proof):
    """A login that several may know, one after the other.

    inner      of our own users, where that takes work
    backends   None stands for our own users
    principal  what came of it; None: refused, and `detail` says why
    """

    waits = True

    def __init__(
        self, connection: int, user: str, password: str, place: LoginContext, backends: Collection[Backend | None]
    ) -> None:
        super().__init__(connection)
        self.user = user
        self.password = password
        self.place = place
        self.backends = backends
        self.inner: HashProof | None = None
        self.principal: Principal | None = None
        self.detail = ""

    def run(self) -> None:
        details: list[str] = []
        for backend in self.backends:
            if backend is None:
                if self.inner is not None:
                    self.inner.run()
                    if self.inner.right:
                        break
                continue
            try:
                self.principal = backend.prove(self.user, self.password, self.place)
                break
            except LoginRefused as error:
                details.append(error.detail)
        self.detail = "; ".join(details)
        self.right = self.principal is not None or (self.inner is not None and self.inner.right)


class LoginNews:
    """The logins of a turn.

    proofs    to be run by whoever has threads
    refusals  logins that were refused
    accepted  those that were not, with the user; `connections` has the numbers of theirs
    """

    def __init__(self) -> None:
        self.proofs: list[Proof] = []
        self.refusals: list[LoginRefusal] = []
        self.accepted: list[tuple[LoginContext, str]] = []
        self.connections: list[int] = []


class Auth:
    """The users and their passwords.

    users          those of the configuration: name -> password, or its hash
    loopback_only  users that may log in only from the machine itself: those whose password everybody knows
    mechanisms     the offered ways to log in without sending the password, by name
    shared_keys    keys of users for shared access signatures
    stored         users that administrators have made
    has_news       `take` has something to tell
    places         where connections come from, by their numbers; the server's to fill
    backends       who is asked, in this order; None stands for the users above
    """

    def __init__(
        self,
        users: Mapping[str, str],
        loopback_only: Collection[str] = ("guest",),
        mechanisms: Mapping[str, Mechanism] | None = None,
        stored: Users | None = None,
        throttle: Throttle | None = None,
    ) -> None:
        self.mechanisms: dict[str, Mechanism] = dict(mechanisms or {})
        self.shared_keys: dict[str, str] = {}
        self.has_news = False
        self.news = LoginNews()
        self.places: dict[int, LoginContext] = {}
        self.throttle = throttle or Throttle(0, 0)
        self.backends: list[Backend | None] = [None]
        self._known: dict[tuple[str, bytes], Principal] = {}  # what backends said, by user and digest of the password
        self._digests: dict[str, bytes] = {}
        self._hashes: dict[str, str] = {}
        self._stored = stored
        self._verified: dict[str, tuple[str, bytes]] = {}  # hash, and digest of the password that it is of
        self.set_users(users, loopback_only)

    def ask(self, proof: Proof) -> None:
        """Have a proof run."""
        self.has_news = True
        self.news.proofs.append(proof)

    def take(self) -> LoginNews:
        """The news since the last call."""
        news, self.news = self.news, LoginNews()
        self.has_news = False
        return news

    def take_proofs(self) -> list[Proof]:
        """Take the proofs alone."""
        proofs, self.news.proofs = self.news.proofs, []
        return proofs

    def set_users(self, users: Mapping[str, str], loopback_only: Collection[str]) -> None:
        """Take the users of a configuration, in place of those of the one before; OptionError, and nothing changed."""
        digests: dict[str, bytes] = {}
        hashes: dict[str, str] = {}
        for user, password in users.items():
            if not user or len(user) > USER_CHARACTERS_MAX:
                raise OptionError(f"users: a name has 1 to {USER_CHARACTERS_MAX} characters, '{shown(user)}' has not")
            if not password:
                raise OptionError(f"users: the password of '{user}' is empty")
            if is_hash(password):
                check_configured(user, password)
                hashes[user] = password
            else:
                digests[user] = digest(password)
        self._digests = digests
        self._hashes = hashes
        self._loopback_only = frozenset(loopback_only)

    def set_shared_keys(self, keys: Mapping[str, str]) -> None:
        """Take the keys for shared access signatures of a configuration; OptionError, and nothing changed."""
        for user, key in keys.items():
            if not key:
                raise OptionError(f"amqp_shared_access_keys: the key of '{shown(user)}' is empty")
        self.shared_keys = dict(keys)

    def takes_claims(self) -> bool:
        """Return whether a client may log in by a token once its connection is open: `$cbs` over AMQP 1.0."""
        return bool(self.shared_keys) or any(each is not None and each.is_for_tokens for each in self.backends)

    def knows(self, user: str) -> bool:
        """True if there is a user of that name."""
        return user in self._digests or self._hash_of(user) is not None

    def _hash_of(self, user: str) -> str | None:
        """The hash of a user's password; None where there is no such user, or its password is not kept as a hash."""
        found = self._hashes.get(user)
        if found is None and user not in self._digests and self._stored is not None:
            stored = self._stored.by_name.get(user)
            found = None if stored is None else stored.hash
        return found

    def begin(self, connection: int, user: str, password: str, place: LoginContext | None = None) -> Proof | None:
        """The proof that has to run before `conclude`; None where `check` knows the answer already.

        place   of a caller that is no connection
        raises  LoginRefused: somebody there, or as this user, has guessed too often
        """
        place = place or self.places.get(connection) or LoginContext("", "")
        place.user = user
        self.check_wait(place, user, password)
        backends = self._backends_for(password, place)
        if len(backends) == 1 and backends[0] is None:
            proof: Proof | None = self._begin_own(connection, user, password)
        else:
            proof = self._begin_backends(connection, user, password, place, backends)
        if proof is not None:
            self.ask(proof)
        return proof

    def _backends_for(self, password: str, place: LoginContext) -> list[Backend | None]:
        if len(self.backends) == 1:
            return self.backends
        found = [each for each in self.backends if each is None or each.takes(password, place)]
        tokens: list[Backend | None] = [each for each in found if each is not None and each.is_for_tokens]
        return tokens or found

    def check_wait(self, place: LoginContext, user: str, password: str = "") -> None:
        """LoginRefused while nobody may try there, or as this user, unless it is known to be right.

        password  empty where the user proves that it knows it without saying it
        """
        throttle, address = self.throttle, place.address
        wait_us = throttle.wait_us(address, user)
        if not wait_us:
            return
        if throttle.may_look(address, user):
            if password and self._is_known_right(user, password):
                return
            throttle.looked(address, user)
            if not password:
                return  # what it says next is looked at
        throttle.put_off += 1
        wait_s = -(-wait_us // US_PER_S)
        raise LoginRefused(f"too many failed logins: {wait_s} s to wait", user, wait_s)

    def _is_known_right(self, user: str, password: str) -> bool:
        """True if the password was found right before, or can be without work."""
        return self._is_own(user, password) or self._known_principal(user, password) is not None

    def _begin_own(self, connection: int, user: str, password: str) -> HashProof | None:
        """The proof that it takes; whoever it is and however the password is kept, a wrong one takes as long."""
        has_hashes = bool(self._hashes) or (self._stored is not None and self._stored.has_hashes())
        known = self._hash_of(user)
        if not has_hashes or self._is_own(user, password):
            return None
        return HashProof(connection, user, password, known or NOBODY, self.knows(user))

    def _begin_backends(
        self, connection: int, user: str, password: str, place: LoginContext, backends: list[Backend | None]
    ) -> Proof | None:
        if self._known_principal(user, password) is not None:
            return None
        proof = BackendProof(connection, user, password, place, backends)
        if None in backends:
            proof.inner = self._begin_own(connection, user, password)
            if proof.inner is None and self._is_own(user, password):
                return None
        return proof

    def _is_own(self, user: str, password: str) -> bool:
        """True if the password is one of our own users', as far as that is known without work."""
        known = self._digests.get(user)
        # Digests have one length, and an unknown user costs the same comparison: time tells nothing.
        right = hmac.compare_digest(digest(password), known if known is not None else NOBODY_DIGEST)
        hash = self._hash_of(user)
        return (known is not None and right) or (hash is not None and self._is_verified(user, hash, password))

    def _known_principal(self, user: str, password: str) -> Principal | None:
        """A backend's answer to this login, while that is good."""
        key = (user, digest(password))
        found = self._known.get(key)
        if found is not None and found.known_until_us <= self.throttle.now_us:
            del self._known[key]
            return None
        return found

    def _is_verified(self, user: str, hash: str, password: str) -> bool:
        """True if this password was found right before, and the user still has it."""
        verified = self._verified.get(user)
        return verified is not None and verified[0] == hash and hmac.compare_digest(verified[1], digest(password))

    def is_at_hand(self, proof: Proof) -> bool:
        """True if another login has brought the answer meanwhile."""
        if isinstance(proof, HashProof) and proof.known and self._is_verified(proof.user, proof.hash, proof.password):
            proof.right = True
        return proof.right

    def conclude(self, proof: Proof, loopback: bool) -> Principal:
        """Check the login as `check`, after the proof has run."""
        if isinstance(proof, BackendProof):
            if proof.principal is not None:
                if proof.principal.known_until_us:
                    self._remember(proof.user, proof.password, proof.principal)
                return self._admitted(proof.principal, loopback)
            if proof.inner is None or not proof.inner.right:
                raise LoginRefused(proof.detail or f"user '{shown(proof.user)}' is unknown", proof.user)
            proof = proof.inner
        assert isinstance(proof, HashProof)
        if not proof.known:
            raise LoginRefused(f"user '{shown(proof.user)}' does not exist", proof.user)
        if not proof.right or self._hash_of(proof.user) != proof.hash:
            raise LoginRefused(f"wrong password for user '{proof.user}'", proof.user)
        self._verified[proof.user] = (proof.hash, digest(proof.password))
        return self.admit(proof.user, loopback)

    def _remember(self, user: str, password: str, principal: Principal) -> None:
        while len(self._known) >= KNOWN_MAX:
            del self._known[next(iter(self._known))]
        self._known[user, digest(password)] = principal

    def check(self, user: str, password: str, loopback: bool) -> Principal:
        """The user that this peer has proven to be; LoginRefused if it has not, as far as that is known without work.

        loopback  the peer connected from this machine
        """
        if len(self.backends) > 1 or self.backends[0] is not None:
            found = self._known_principal(user, password)
            if found is not None:
                return self._admitted(found, loopback)
        right = self._is_own(user, password)
        if not self.knows(user):
            raise LoginRefused(f"user '{shown(user)}' does not exist", user)
        if not right:
            raise LoginRefused(f"wrong password for user '{user}'", user)
        return self.admit(user, loopback)

    def admit(self, user: str, loopback: bool, vouched: bool = False) -> Principal:
        """The same user, who has proven who it is, unless it may not connect from there: LoginRefused.

        vouched  by a certificate
        """
        return self._admitted(Principal(user, vouched=vouched), loopback)

    def _admitted(self, principal: Principal, loopback: bool) -> Principal:
        if principal.user in self._loopback_only and not loopback:
            raise LoginRefused(f"user '{principal.user}' can only log in from this machine", principal.user)
        return principal

    def note_refusal(self, connection: int, error: RequestError) -> None:
        """A session has refused a login; nothing is noted of other errors."""
        if isinstance(error, LoginRefused):
            self.refuse_at(self.places.get(connection, NOWHERE), error)

    def refuse_at(self, place: LoginContext, error: LoginRefused) -> None:
        """Note a refusal as `note_refusal`, of a caller that is no connection."""
        if not error.wait_s:  # whoever has to wait anyway does not wait longer
            self.has_news = True
            self.news.refusals.append(LoginRefusal(place, error.user, error.detail))

    def note_login(self, connection: int, user: str) -> None:
        """A session's login was right."""
        place = self.places.get(connection)
        if place is not None:
            self.throttle.succeeded(place.address, user)
            self.has_news = True
            self.news.accepted.append((place, user))
            self.news.connections.append(connection)


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
