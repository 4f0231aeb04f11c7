"""Passwords as they are kept: Argon2id (RFC 9106) in the usual `$argon2id$...` form, with the salt in it.

Users that come from RabbitMQ bring its hashes, salted SHA-256 and the like: they stay as they are, marked with the
algorithm (`$rabbitmq-sha256$...`), until somebody sets a new password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import Type, hash_secret, verify_secret

from forebay.core.errors import INVALID, RequestError

PREFIX = "$argon2id$"
SALT_OCTETS = 16
HASH_OCTETS = 32
# The least that OWASP recommends: about 30 ms of one core, and a memory that many logins at once can have.
MEMORY_KIB = 19_456
PASSES = 2
LANES = 1
# The hash for a user that does not exist, so that the comparison takes as long: no password has this hash.
NOBODY = f"{PREFIX}v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${'A' * 22}${'A' * 43}"
# Bounds of a hash that others have made: comparing a password with it must not take the broker's memory.
MEMORY_KIB_MAX: Final = 1 << 20
PASSES_MAX: Final = 64
LANES_MAX: Final = 16
ARGON2: Final = re.compile(
    r"\$argon2id\$v=19\$m=(\d{1,9}),t=(\d{1,9}),p=(\d{1,9})\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{16,171}"
)
ARGON2_NAME: Final = "forebay_argon2id"  # as definitions call the algorithm

# RabbitMQ's: its name in definitions, how a hash of it begins here, and its octets behind the salt of four.
RABBITMQ_SALT_OCTETS: Final = 4
RABBITMQ: Final = (
    ("rabbit_password_hashing_sha256", "$rabbitmq-sha256$", "sha256", 32),
    ("rabbit_password_hashing_sha512", "$rabbitmq-sha512$", "sha512", 64),
    ("rabbit_password_hashing_md5", "$rabbitmq-md5$", "md5", 16),
)


def hash_password(password: str, salt: bytes) -> str:
    """The hash that is kept of a password; RequestError(INVALID) for an empty one.

    cost  about 30 ms
    """
    if not password:
        raise RequestError(INVALID, "password: must not be empty")
    return hash_secret(octets_of(password), salt, PASSES, MEMORY_KIB, LANES, HASH_OCTETS, Type.ID).decode()


def is_hash(text: str) -> bool:
    """True if a text is what `hash_password` gives, or one of RabbitMQ's hashes, rather than a password."""
    return text.startswith(PREFIX) or rabbitmq_of(text) is not None


def check_hash(text: str) -> None:
    """RequestError(INVALID) unless a password can be compared with the hash."""
    foreign = rabbitmq_of(text)
    if foreign is not None:
        check_rabbitmq(text.removeprefix(foreign[1]), foreign[0], foreign[3])
        return
    found = ARGON2.fullmatch(text)
    bounds = (MEMORY_KIB_MAX, PASSES_MAX, LANES_MAX)
    if found is None or any(not 0 < int(found[index + 1]) <= bounds[index] for index in range(len(bounds))):
        raise RequestError(INVALID, f"password hash: '{text[:20]}...' is no Argon2id hash")


def is_right(password: str, hash: str) -> bool:
    """True if the hash is of this password.

    cost  as of `hash_password`; any thread may call it, and the others go on meanwhile
    """
    foreign = rabbitmq_of(hash)
    if foreign is not None:
        octets = base64.b64decode(hash.removeprefix(foreign[1]))
        salt, digest = octets[:RABBITMQ_SALT_OCTETS], octets[RABBITMQ_SALT_OCTETS:]
        return hmac.compare_digest(hashlib.new(foreign[2], salt + octets_of(password)).digest(), digest)
    try:
        return verify_secret(hash.encode("ascii"), octets_of(password), Type.ID)
    except (VerificationError, InvalidHashError):
        return False


def is_cheap(hash: str) -> bool:
    """True if comparing with it takes less time than with one that `hash_password` gives."""
    found = ARGON2.fullmatch(hash)
    return found is None or int(found[1]) * int(found[2]) < MEMORY_KIB * PASSES


def octets_of(password: str) -> bytes:
    """A lone surrogate, as an undecodable octet may have become, is a character like any other."""
    return password.encode("utf-8", "surrogatepass")


# ---- RabbitMQ's definitions


def hash_for_export(name: str, password: str) -> str:
    """RabbitMQ's hash of a password that the configuration has in plain words.

    The salt comes of both, so that each export of the same configuration is the same.
    """
    octets = octets_of(password)
    prefix = RABBITMQ[0][1]
    salt = hashlib.sha256(b"export\0" + name.encode("utf-8", "surrogatepass") + b"\0" + octets).digest()
    salt = salt[:RABBITMQ_SALT_OCTETS]
    return prefix + base64.b64encode(salt + hashlib.sha256(salt + octets).digest()).decode("ascii")


def exported_hash(kept: str) -> tuple[str, str]:
    """A kept hash as definitions have it: the hash, and the name of its algorithm; an empty one where there is none."""
    foreign = rabbitmq_of(kept)
    if foreign is not None:
        return kept.removeprefix(foreign[1]), foreign[0]
    return kept, ARGON2_NAME if kept else RABBITMQ[0][0]


def imported_hash(hash: str, algorithm: str) -> str:
    """The hash that is kept of one out of definitions; RequestError(INVALID) where no password can be compared with it.

    hash       empty: nobody can log in by a password
    algorithm  its name; empty for the one that RabbitMQ takes then
    """
    if not hash:
        return ""
    if algorithm == ARGON2_NAME or hash.startswith(PREFIX):
        check_hash(hash)
        return hash
    for name, prefix, _, octets in RABBITMQ:
        if name == (algorithm or RABBITMQ[0][0]):
            check_rabbitmq(hash, name, octets)
            return prefix + hash
    known = ", ".join([each[0] for each in RABBITMQ] + [ARGON2_NAME])
    raise RequestError(INVALID, f"hashing_algorithm: '{algorithm[:80]}' is not known; known are {known}")


def rabbitmq_of(text: str) -> tuple[str, str, str, int] | None:
    """The entry of RABBITMQ whose hash this is."""
    for entry in RABBITMQ:
        if text.startswith(entry[1]):
            return entry
    return None


def check_rabbitmq(hash: str, algorithm: str, octets: int) -> None:
    try:
        found = len(base64.b64decode(hash, validate=True))
    except (binascii.Error, ValueError):
        found = -1
    if found != octets + RABBITMQ_SALT_OCTETS:
        raise RequestError(INVALID, f"password_hash: '{hash[:20]}...' is no base64 of a salt and a hash by {algorithm}")
