"""Passwords as they are kept."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest

from forebay.core.errors import INVALID, RequestError
from forebay.directory.logins.passwords import (
    NOBODY,
    check_hash,
    exported_hash,
    hash_password,
    imported_hash,
    is_hash,
    is_right,
)

SALT = bytes(range(16))


@pytest.mark.parametrize("password", ["x", "päss wörd", "\udcff", "p" * 1000])
def test_only_the_password_itself_is_right(password: str) -> None:
    hash = hash_password(password, SALT)
    assert is_hash(hash)
    assert password not in hash
    assert is_right(password, hash)
    assert not is_right(password + "x", hash)
    assert not is_right("", hash)
    check_hash(hash)


def test_the_same_password_with_another_salt_is_another_hash() -> None:
    assert hash_password("x", SALT) != hash_password("x", SALT[::-1])


def test_nobody_has_a_hash_that_no_password_fits() -> None:
    check_hash(NOBODY)
    assert not is_right("", NOBODY)
    assert not is_right("guest", NOBODY)


def test_an_empty_password_is_none() -> None:
    with pytest.raises(RequestError, match="password: must not be empty") as caught:
        hash_password("", SALT)
    assert caught.value.reason == INVALID


@pytest.mark.parametrize("text", ["$argon2id$", "$argon2id$v=19$m=9,t=1,p=1$aa$bb", "$argon2id$é", "plain"])
def test_what_is_no_hash(text: str) -> None:
    with pytest.raises(RequestError, match="is no Argon2id hash"):
        check_hash(text)
    assert not is_right("x", "$argon2id$")


# Made by RabbitMQ 4.0.5 and 3.10.8 of the passwords beside them.
SHA256 = "QMVkUXqbtwFCnVOz0n2a7TlNVttiAYlCgrfWn6lUDwRPPCz3"
ALGORITHM = "rabbit_password_hashing_sha256"


def test_who_comes_from_rabbitmq_keeps_the_password() -> None:
    kept = imported_hash(SHA256, ALGORITHM)
    assert is_hash(kept)
    assert is_right("wörker", kept)
    assert not is_right("worker", kept)
    assert imported_hash(SHA256, "") == kept
    assert exported_hash(kept) == (SHA256, ALGORITHM)


@pytest.mark.parametrize("name", ["sha256", "sha512", "md5"])
def test_every_algorithm_of_rabbitmq_is_known(name: str) -> None:
    salt = b"salt"
    hash = base64.b64encode(salt + hashlib.new(name, salt + "päss".encode()).digest()).decode()
    kept = imported_hash(hash, f"rabbit_password_hashing_{name}")
    check_hash(kept)
    assert is_right("päss", kept)
    assert not is_right("pass", kept)
    assert exported_hash(kept) == (hash, f"rabbit_password_hashing_{name}")


def test_own_hashes_come_back_by_definitions() -> None:
    kept = hash_password("secret", SALT)
    assert exported_hash(kept) == (kept, "forebay_argon2id")
    assert imported_hash(*exported_hash(kept)) == kept
    assert imported_hash(*exported_hash("")) == ""


@pytest.mark.parametrize(
    ("hash", "algorithm", "text"),
    [
        ("xyz", ALGORITHM, "password_hash: 'xyz...' is no base64"),
        (SHA256, "rabbit_password_hashing_sha512", "is no base64 of a salt and a hash by"),
        (SHA256, "rot13", "hashing_algorithm: 'rot13' is not known; known are"),
        ("$argon2id$x", "", "is no Argon2id hash"),
        ("é", ALGORITHM, "is no base64"),
    ],
)
def test_what_no_password_can_be_compared_with_is_refused(hash: str, algorithm: str, text: str) -> None:
    with pytest.raises(RequestError, match=re.escape(text)) as caught:
        imported_hash(hash, algorithm)
    assert caught.value.reason == INVALID


def test_a_hash_of_others_may_not_take_the_memory() -> None:
    with pytest.raises(RequestError, match="is no Argon2id hash"):
        check_hash(NOBODY.replace("m=19456", "m=99999999"))
