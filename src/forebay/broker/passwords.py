"""Passwords as they are kept: Argon2id (RFC 9106) in the usual `$argon2id$...` form, with the salt in it."""

from __future__ import annotations

from argon2.exceptions import VerificationError
from argon2.low_level import Type, hash_secret, verify_secret

from forebay.core.errors import INVALID, RequestError

PREFIX = "$argon2id$"
SALT_OCTETS = 16
HASH_OCTETS = 32
# The least that OWASP recommends: about 30 ms of one core, and a memory that many logins at once can have.
MEMORY_KIB = 19_456
PASSES = 2
LANES = 1
# What the password of a user that does not exist is compared with, so that it takes as long: no password has this hash.
NOBODY = f"{PREFIX}v=19$m={MEMORY_KIB},t={PASSES},p={LANES}${'A' * 22}${'A' * 43}"


def hash_password(password: str, salt: bytes) -> str:
    """What is kept of a password; RequestError(INVALID) for an empty one.

    cost  about 30 ms
    """
    if not password:
        raise RequestError(INVALID, "password: must not be empty")
    return hash_secret(octets_of(password), salt, PASSES, MEMORY_KIB, LANES, HASH_OCTETS, Type.ID).decode()


def is_hash(text: str) -> bool:
    """Whether a text is what `hash_password` gives rather than a password."""
    return text.startswith(PREFIX)


def check_hash(text: str) -> None:
    """RequestError(INVALID) unless a password can be compared with the hash."""
    try:
        verify_secret(text.encode("ascii"), b"", Type.ID)
    except (VerificationError, UnicodeEncodeError) as error:
        if "does not match" not in str(error):
            raise RequestError(INVALID, f"password hash: '{text[:20]}...' is no Argon2id hash") from None


def is_right(password: str, hash: str) -> bool:
    """Whether the hash is of this password.

    cost  as of `hash_password`; any thread may call it, and the others go on meanwhile
    """
    try:
        return verify_secret(hash.encode("ascii"), octets_of(password), Type.ID)
    except VerificationError:
        return False


def octets_of(password: str) -> bytes:
    """A lone surrogate, as an undecodable octet may have become, is a character like any other."""
    return password.encode("utf-8", "surrogatepass")
