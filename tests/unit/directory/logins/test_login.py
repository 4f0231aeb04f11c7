"""Login: who gets in, and what those who do not are told."""

from time import process_time

import pytest

from forebay.core.errors import CONNECTION, REFUSED, OptionError
from forebay.directory.logins.login import Auth, LoginRefused
from forebay.directory.logins.passwords import hash_password

USERS = {"guest": "guest", "ana": "päss wörd", "bob": "b"}


@pytest.mark.parametrize(
    ("user", "password", "loopback"),
    [("guest", "guest", True), ("ana", "päss wörd", True), ("ana", "päss wörd", False), ("bob", "b", False)],
)
def test_right_password(user: str, password: str, loopback: bool) -> None:
    assert Auth(USERS).check(user, password, loopback).user == user


@pytest.mark.parametrize(
    ("user", "password", "loopback", "detail"),
    [
        ("guest", "guest", False, "user 'guest' can only log in from this machine"),
        ("guest", "Guest", True, "wrong password for user 'guest'"),
        ("guest", "guest ", True, "wrong password for user 'guest'"),
        ("guest", "", True, "wrong password for user 'guest'"),
        ("guest", "\udcff", True, "wrong password for user 'guest'"),
        ("ana", "guest", True, "wrong password for user 'ana'"),
        ("eve", "guest", True, "user 'eve' does not exist"),
        ("", "", True, "user '' does not exist"),
        ("e\nve", "x", True, r"user 'e\nve' does not exist"),
        ("\udcff", "x", True, r"user '\udcff' does not exist"),
    ],
)
def test_refused_in_the_same_words(user: str, password: str, loopback: bool, detail: str) -> None:
    with pytest.raises(LoginRefused) as caught:
        Auth(USERS).check(user, password, loopback)
    assert caught.value.text == "Login was refused. For details see the broker log."
    assert str(caught.value) == caught.value.text
    assert (caught.value.reason, caught.value.scope) == (REFUSED, CONNECTION)
    assert caught.value.detail == detail


def test_detail_is_short_whatever_the_peer_sends() -> None:
    with pytest.raises(LoginRefused) as caught:
        Auth(USERS).check("x" * 100_000, "y" * 100_000, True)
    assert len(caught.value.detail) < 200


def test_which_users_are_bound_to_loopback_is_an_option() -> None:
    assert Auth(USERS, loopback_only=()).check("guest", "guest", False).user == "guest"
    with pytest.raises(LoginRefused, match="Login was refused"):
        Auth(USERS, loopback_only=("bob",)).check("bob", "b", False)


@pytest.mark.parametrize(
    ("users", "why"),
    [
        ({"": "x"}, "users: a name has 1 to 255 characters, '' has not"),
        ({"n" * 256: "x"}, "users: a name has 1 to 255 characters"),
        ({"ana": ""}, "users: the password of 'ana' is empty"),
    ],
)
def test_users_that_cannot_be(users: dict[str, str], why: str) -> None:
    with pytest.raises(OptionError, match=why):
        Auth(users)


def test_passwords_are_not_kept() -> None:
    assert "päss wörd" not in repr(vars(Auth(USERS)))


RABBITMQ = "$rabbitmq-sha256$QMVkUXqbtwFCnVOz0n2a7TlNVttiAYlCgrfWn6lUDwRPPCz3"
WEAK = "$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def test_a_wrong_password_costs_the_same_whoever_it_is_of() -> None:
    """A name that is known, and how its password is kept, can be told from time otherwise."""
    users = {"plain": "p", "kept": hash_password("k", bytes(16)), "rabbit": RABBITMQ, "weak": WEAK}
    auth = Auth(users)
    spent: dict[str, float] = {}
    for user in (*users, "nobody"):
        for _ in range(4):
            began = process_time()
            proof = auth.begin(1, user, "wrong")
            assert proof is not None, user
            proof.run()
            with pytest.raises(LoginRefused):
                auth.conclude(proof, True)
            spent[user] = min(spent.get(user, 1e9), process_time() - began)
    assert max(spent.values()) < 2 * min(spent.values()), spent


def test_a_right_one_that_is_known_costs_nothing() -> None:
    auth = Auth({"plain": "p", "kept": hash_password("k", bytes(16))})
    assert auth.begin(1, "plain", "p") is None
    assert auth.check("plain", "p", True).user == "plain"
    proof = auth.begin(1, "kept", "k")
    assert proof is not None
    proof.run()
    assert auth.conclude(proof, True).user == "kept"
    assert auth.begin(1, "kept", "k") is None
