"""Passwords as they are kept."""

from __future__ import annotations

import pytest

from forebay.broker.passwords import NOBODY, check_hash, hash_password, is_hash, is_right
from forebay.core.errors import INVALID, RequestError

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
