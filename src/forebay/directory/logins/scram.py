"""The server's side of SCRAM (RFC 5802, RFC 7677): a client proves its password and never sends it.

    client  n,,n=USER,r=NONCE                   client-first-message; `n,,` is the GS2 header
    server  r=NONCE+OURS,s=SALT,i=ITERATIONS    server-first-message
    client  c=GS2-HEADER,r=NONCE+OURS,p=PROOF   client-final-message
    server  v=SIGNATURE                         server-final-message: the server knows the user, too

Salts and proofs are base64. Channel binding is not offered. Whoever asks for a user that does not exist gets the salt
that this user would have, the same every time, and the same refusal as after a wrong password; what was wrong is for
the operator's log.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import new as new_hash
from hashlib import pbkdf2_hmac

from forebay.core.option_names import SCRAM_SHA_256, SCRAM_SHA_512
from forebay.core.ports import Random
from forebay.directory.logins.login import LoginRefused, Mechanism, SaslExchange, shown
from forebay.directory.logins.passwords import is_hash
from forebay.directory.logins.saslprep import prepared

HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
ITERATIONS = 4096  # the least that RFC 7677 allows: small devices have to do them at each connection
SECRET_OCTETS = 32
SALT_OCTETS = 16
NONCE_OCTETS = 18
MESSAGE_OCTETS_MAX = 4096

_FIRST = re.compile(r"([ny]),(?:a=([^,]+))?,(n=([^,]+),r=([!-+\--~]+)(?:,[A-Za-z]=[^,]+)*)")
_FINAL = re.compile(r"(c=([^,]+),r=([!-+\--~]+)(?:,[A-Za-z]=[^,]+)*),p=([^,]+)")
_NAME = re.compile(r"(?:[^=]|=2C|=3D)+")


@dataclass(frozen=True, slots=True)
class Credential:
    """The secret that proves one user; from it nobody can learn the password or log in.

    user  None where there is no such user, and nothing fits
    """

    user: str | None
    salt: bytes
    stored_key: bytes
    server_key: bytes


def derive(user: str, password: str, hash_name: str, salt: bytes, iterations: int) -> Credential:
    """The credential of a password (RFC 5802, section 3)."""
    octets = prepared(password).encode("utf-8", "surrogatepass")
    salted = pbkdf2_hmac(hash_name, octets, salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    return Credential(
        user, salt, new_hash(hash_name, client_key).digest(), hmac.digest(salted, b"Server Key", hash_name)
    )


class Scram(Mechanism):
    """SCRAM with one hash function.

    credentials  by user name
    secret       makes up what users that do not exist would have
    """

    def __init__(
        self, hash_name: str, credentials: Mapping[str, Credential], iterations: int, secret: bytes, random: Random
    ) -> None:
        self.hash_name = hash_name
        self.iterations = iterations
        self._credentials = dict(credentials)
        self._secret = secret
        self._random = random
        for name, credential in credentials.items():
            # Clients send the prepared name; a user who really has that name goes before.
            self._credentials.setdefault(prepared(name), credential)

    def start(self) -> ScramLogin:
        return ScramLogin(self, b64encode(self._random.octets(NONCE_OCTETS)).decode())

    def find(self, name: str) -> Credential:
        """The user's credential, or one that nothing fits."""
        found = self._credentials.get(name)
        alike = prepared(name)
        if found is None:
            found = self._credentials.get(alike)
        # Made up for everybody: it takes the same time.
        salt = made_up_salt(self._secret, alike)
        key = hmac.digest(self._secret, b"key " + octets_of(alike), self.hash_name)
        return Credential(None, salt, key, key) if found is None else found


class ScramLogin(SaslExchange):
    """One login: two messages of the client, before which it may send an empty one to be asked for the first."""

    def __init__(self, scram: Scram, nonce: str) -> None:
        super().__init__()
        self._scram = scram
        self._asked = False
        self._nonce = nonce
        self._binding = b""  # the GS2 header, which the client repeats
        self._signed = ""  # both first messages, as they were
        self._credential: Credential | None = None

    def step(self, data: bytes) -> bytes:
        assert not self.done
        if not data and not self._asked and self._credential is None:
            self._asked = True
            return b""
        if len(data) > MESSAGE_OCTETS_MAX:
            raise LoginRefused(f"SCRAM message of {len(data)} octets, the limit is {MESSAGE_OCTETS_MAX}")
        try:
            message = data.decode("utf-8")
        except UnicodeDecodeError:
            raise LoginRefused("SCRAM message is not UTF-8") from None
        if self._credential is None:
            return self._first(message).encode()
        return self._final(message, self._credential).encode()

    def _first(self, message: str) -> str:
        match = _FIRST.fullmatch(message)
        if match is None or not _NAME.fullmatch(match[4]) or "\0" in message:
            raise LoginRefused("SCRAM client-first-message is malformed, or asks for channel binding or an extension")
        self.name = plain_name(match[4])
        if match[2] is not None and plain_name(match[2]) != self.name:
            raise LoginRefused(f"user '{shown(self.name)}' may not act for somebody else")
        self._nonce = match[5] + self._nonce
        self._binding = message[: match.start(3)].encode()
        self._credential = self._scram.find(self.name)
        salt = b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._scram.iterations}"
        self._signed = f"{match[3]},{answer}"
        return answer

    def _final(self, message: str, credential: Credential) -> str:
        match = _FINAL.fullmatch(message)
        if match is None:
            raise LoginRefused("SCRAM client-final-message is malformed")
        if octets_of_base64(match[2]) != self._binding:
            raise LoginRefused("SCRAM: the GS2 header of the first message was changed on its way")
        if not hmac.compare_digest(match[3], self._nonce):
            raise LoginRefused("SCRAM: the nonce is not the one of this login")
        signed = f"{self._signed},{match[1]}".encode()
        hash_name = self._scram.hash_name
        signature = hmac.digest(credential.stored_key, signed, hash_name)
        proof = octets_of_base64(match[4])
        if len(proof) != len(signature):
            raise LoginRefused(f"SCRAM: a proof of {len(proof)} octets, must be {len(signature)}")
        client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
        right = hmac.compare_digest(new_hash(hash_name, client_key).digest(), credential.stored_key)
        if credential.user is None:
            raise LoginRefused(f"user '{shown(self.name)}' does not exist", self.name)
        if not right:
            raise LoginRefused(f"wrong password for user '{credential.user}'", credential.user)
        self.done = True
        self.user = credential.user
        return f"v={b64encode(hmac.digest(credential.server_key, signed, hash_name)).decode()}"


def make_scram(
    users: Mapping[str, str], methods: Iterable[str], random: Random, iterations: int = ITERATIONS
) -> dict[str, Mechanism]:
    """The mechanisms of these names; what is kept of the passwords is derived here, once.

    cost  1 to 2 ms a user and mechanism
    """
    made: dict[str, Mechanism] = {}
    for method in methods:
        hash_name = HASHES[method]
        secret = random.octets(SECRET_OCTETS)
        credentials = {
            user: derive(user, password, hash_name, made_up_salt(secret, prepared(user)), iterations)
            for user, password in users.items()
            if not is_hash(password)  # from which nothing can be derived
        }
        made[method] = Scram(hash_name, credentials, iterations, secret, random)
    return made


def made_up_salt(secret: bytes, name: str) -> bytes:
    """The salt of this prepared name. It has to come from the name: a second question must get the same one."""
    return hmac.digest(secret, b"salt " + octets_of(name), "sha256")[:SALT_OCTETS]


def plain_name(name: str) -> str:
    """A name without the escapes of its comma and equals sign."""
    return name.replace("=2C", ",").replace("=3D", "=")


def octets_of(text: str) -> bytes:
    """A configured name may hold a lone surrogate, which is a character like any other."""
    return text.encode("utf-8", "surrogatepass")


def octets_of_base64(text: str) -> bytes:
    """LoginRefused where it is none."""
    try:
        return b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise LoginRefused("SCRAM: a value is not base64") from None
