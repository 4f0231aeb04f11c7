"""SCRAM, the server's side: the examples of the RFCs, and that a refusal tells nothing."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Callable

import pytest

from forebay.core.option_names import SCRAM_SHA_256, SCRAM_SHA_512
from forebay.directory.logins.login import REFUSAL, LoginRefused
from forebay.directory.logins.saslprep import prepared
from forebay.directory.logins.scram import HASHES, ITERATIONS, Scram, ScramLogin, derive, make_scram
from forebay.server.system.chance import SystemRandom
from tests.scram_client import ScramClient

USERS = {"user": "pencil", "ana": "päss wörd", "a,b=c": "x", "x" * 255: "y", "\u00aa": "feminine"}
RANDOM = SystemRandom()


def login(method: str = SCRAM_SHA_256) -> ScramLogin:
    started = make_scram(USERS, [method], RANDOM)[method].start()
    assert isinstance(started, ScramLogin)
    return started


def refused(started: ScramLogin, *messages: bytes) -> str:
    """What the log says when the last of these messages ends the login."""
    for message in messages[:-1]:
        started.step(message)
    with pytest.raises(LoginRefused) as caught:
        started.step(messages[-1])
    assert str(caught.value) == REFUSAL
    assert not started.done
    assert started.user == ""
    return caught.value.detail


# Hash, salt, and then the four messages of RFC 5802, section 5, and of RFC 7677, section 3.
SHA1 = (
    "sha1",
    "QSXCR+Q6sek8bf92",
    b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
    "3rfcNHYJY1ZVvWVs7j",
    b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
    b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
    b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
)
SHA256 = (
    "sha256",
    "W22ZaJ0SNY7soEsUEjb6gQ==",
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


@pytest.mark.parametrize("example", [SHA1, SHA256], ids=["rfc5802", "rfc7677"])
def test_the_examples_of_the_rfcs(example: tuple[str, str, bytes, str, bytes, bytes, bytes]) -> None:
    hash_name, salt, first, nonce, first_answer, final, final_answer = example
    credential = derive("user", "pencil", hash_name, b64decode(salt), 4096)
    started = ScramLogin(Scram(hash_name, {"user": credential}, 4096, bytes(32), RANDOM), nonce)
    assert started.step(first) == first_answer
    assert not started.done
    assert started.step(final) == final_answer
    assert (started.done, started.user) == (True, "user")


@pytest.mark.parametrize("method", [SCRAM_SHA_256, SCRAM_SHA_512])
@pytest.mark.parametrize("user", USERS)
def test_who_knows_the_password_gets_in_and_both_sides_know(method: str, user: str) -> None:
    started = login(method)
    client = ScramClient(user, USERS[user], HASHES[method])
    final = client.final(started.step(client.first()))
    client.check(started.step(final))
    assert (started.done, started.user) == (True, user)


def test_a_name_is_found_by_its_prepared_form() -> None:
    started = login()
    client = ScramClient("a", "feminine", "sha256")  # "a" is what SASLprep makes of U+00AA
    client.check(started.step(client.final(started.step(client.first()))))
    assert started.user == "\u00aa"


def test_the_user_who_has_a_name_goes_before_one_whose_name_becomes_it() -> None:
    for users in ({"\u00aa": "one", "a": "two"}, {"a": "two", "\u00aa": "one"}):
        started = make_scram(users, [SCRAM_SHA_256], RANDOM)[SCRAM_SHA_256].start()
        client = ScramClient("a", "two", "sha256")
        client.check(started.step(client.final(started.step(client.first()))))
        assert started.user == "a"


def test_an_empty_message_asks_for_the_first_once() -> None:
    started = login()
    assert started.step(b"") == b""
    client = ScramClient("user", "pencil", "sha256")
    client.check(started.step(client.final(started.step(client.first()))))
    assert "client-first-message" in refused(login(), b"", b"")


def test_every_login_has_its_own_nonce_and_a_proof_serves_once() -> None:
    mechanism = make_scram(USERS, [SCRAM_SHA_256], RANDOM)[SCRAM_SHA_256]
    client = ScramClient("user", "pencil", "sha256")
    one, other = mechanism.start(), mechanism.start()
    final = client.final(one.step(client.first()))
    one.step(final)
    assert one.done
    assert isinstance(other, ScramLogin)
    assert refused(other, client.first(), final) == "SCRAM: the nonce is not the one of this login"


@pytest.mark.parametrize(("user", "password"), [("user", "Pencil"), ("user", ""), ("eve", "pencil"), ("eve", "")])
def test_a_refusal_is_the_same_for_a_wrong_password_and_for_nobody(user: str, password: str) -> None:
    started = login()
    client = ScramClient(user, password, "sha256")
    answer = started.step(client.first())
    assert answer.endswith(b",i=%d" % ITERATIONS)
    assert len(b64decode(answer.split(b",s=")[1].split(b",")[0])) == 16
    said = refused(started, client.final(answer))
    assert said == ("user 'eve' does not exist" if user == "eve" else "wrong password for user 'user'")


def test_a_user_has_one_salt_whether_it_exists_or_not() -> None:
    mechanism = make_scram(USERS, [SCRAM_SHA_256], RANDOM)[SCRAM_SHA_256]
    salts: dict[str, set[bytes]] = {}
    for user in ("user", "eve", "user", "eve", "eve\u00ad", "user\u00ad"):
        answer = mechanism.start().step(ScramClient(user, "x", "sha256").first())
        salts.setdefault(user.rstrip("\u00ad"), set()).add(answer.split(b",s=")[1])
    assert [len(each) for each in salts.values()] == [1, 1]
    assert salts["user"] != salts["eve"]
    again = make_scram(USERS, [SCRAM_SHA_256], RANDOM)[SCRAM_SHA_256]
    assert again.start().step(b"n,,n=eve,r=x").split(b",s=")[1] not in salts["eve"]


@pytest.mark.parametrize(
    "message",
    [
        b"n,,n=user", b"n,,r=x,n=user", b"n,,n=,r=x", b"n,,n=user,r=", b"n,,n=user,r=a\x7f", b"n,n=user,r=x",
        b"n,,n=us=er,r=x", b"n,,n=user=2c,r=x", b"n,,n=user,r=x,", b"n,,n=user,r=x,1=y", b"n,,n=us\0er,r=x",
        b"p=tls-unique,,n=user,r=x", b"n,,m=ext,n=user,r=x", b"x,,n=user,r=x", b"\xff", b"n,,n=user,r=\xc3\xa4",
        b"n,,n=user,r=x\n", b"x" * 5000,
    ],
)  # fmt: skip
def test_a_first_message_that_is_none(message: bytes) -> None:
    assert "SCRAM" in refused(login(), message)


def test_acting_for_somebody_else_is_refused() -> None:
    assert refused(login(), b"n,a=ana,n=user,r=x") == "user 'user' may not act for somebody else"
    client = ScramClient("a,b=c", "x", "sha256", header="n,a=a=2Cb=3Dc,")
    started = login()
    client.check(started.step(client.final(started.step(client.first()))))
    assert started.user == "a,b=c"


def test_extensions_that_are_no_duty_are_passed_over() -> None:
    client = ScramClient("user", "pencil", "sha256", header="y,,", extension=",t=later")
    started = login()
    client.check(started.step(client.final(started.step(client.first()))))
    assert started.user == "user"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda final: final.replace(b"c=biws", b"c=eSws"), "GS2 header"),
        (lambda final: final.replace(b"c=biws", b"c=!!!!"), "not base64"),
        (lambda final: final.replace(b",r=", b",r=x"), "nonce"),
        (lambda final: final[: final.index(b",p=")], "client-final-message is malformed"),
        (lambda final: final + b",x=y", "client-final-message is malformed"),
        (lambda final: final[: final.index(b",p=")] + b",p=eHg=", "proof of 2 octets, must be 32"),
        (lambda final: final[: final.index(b",p=")] + b",p=" + b"A" * 43 + b"=", "wrong password"),
        (lambda final: final[: final.index(b",p=")] + ",p=ä".encode(), "not base64"),
        (lambda final: b"", "client-final-message is malformed"),
    ],
)  # fmt: skip
def test_a_final_message_that_was_changed(change: Callable[[bytes], bytes], said: str) -> None:
    started = login()
    client = ScramClient("user", "pencil", "sha256")
    assert said in refused(started, change(client.final(started.step(client.first()))))


def test_passwords_are_not_kept() -> None:
    mechanism = make_scram(USERS, [SCRAM_SHA_256], RANDOM)[SCRAM_SHA_256]
    assert "pencil" not in repr(vars(mechanism))
    credential = derive("user", "pencil", "sha256", b"salt" * 4, 4096)
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt" * 4, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    assert client_key not in {credential.stored_key, credential.server_key}  # it alone would make a proof
    assert b64encode(client_key).decode() not in repr(credential)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        # RFC 4013, section 3
        ("I\u00adX", "IX"), ("user", "user"), ("USER", "USER"), ("\u00aa", "a"), ("\u2168", "IX"),
        ("a\u00a0b", "a b"), ("e\u0301", "é"), ("päss wörd", "päss wörd"), ("\u0627a\u0628", "\u0627a\u0628"),
        ("\u0627\u0628", "\u0627\u0628"), ("", ""),
        # forbidden, or nothing would be left: as it is
        ("\u0007", "\u0007"), ("\u0627\u0031", "\u0627\u0031"), ("\u00ad", "\u00ad"), ("\ud800", "\ud800"),
        ("\ue000\u00aa", "\ue000\u00aa"), ("\u2168\u200e", "\u2168\u200e"),
    ],
)  # fmt: skip
def test_saslprep(text: str, form: str) -> None:
    assert prepared(text) == form


def test_a_password_is_prepared_however_it_was_typed() -> None:
    typed, meant = (derive("u", password, "sha256", b"salt", 4096) for password in ("e\u0301I\u00adX", "\u00e9IX"))
    assert typed == meant
    assert typed != derive("u", "eIX", "sha256", b"salt", 4096)


def test_any_password_that_can_be_configured_can_be_derived() -> None:
    for password in ("\ud800", "\0", "\u0627\u0031", "🔑"):
        assert derive("u", password, "sha256", b"salt", 4096).user == "u"
