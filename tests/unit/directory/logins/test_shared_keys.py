"""Shared access signatures: what they prove, and what they do not."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import quote_plus

import pytest

from forebay.core.errors import OptionError
from forebay.directory.logins.login import Auth, LoginContext, LoginRefused
from forebay.directory.logins.shared_keys import SharedAccess, admit_signature, is_signature

NOW_S = 1_700_000_000
HERE = LoginContext("127.0.0.1", "amqp10", loopback=True)
AWAY = LoginContext("192.0.2.1", "amqp10")


def auth(**keys: str) -> Auth:
    made = Auth({"orders": "pw", "guest": "guest"})
    made.set_shared_keys(keys or {"orders": "secret", "guest": "secret", "nobody": "secret"})
    made.throttle.now_us = NOW_S * 1_000_000
    return made


def token(
    resource: str = "sb://host/jobs", user: str = "orders", key: str = "secret", expiry: object = NOW_S + 60
) -> str:
    encoded = quote_plus(resource)
    proof = hmac.new(key.encode(), f"{encoded}\n{expiry}".encode(), hashlib.sha256).digest()
    signature = quote_plus(base64.b64encode(proof).decode())
    return f"SharedAccessSignature sr={encoded}&sig={signature}&se={expiry}&skn={quote_plus(user)}"


def admit(text: str, context: LoginContext = HERE, made: Auth | None = None) -> SharedAccess:
    return admit_signature(made or auth(), context, text)


def test_a_signature_proves_its_user_until_it_expires() -> None:
    found = admit(token())
    assert (found.principal.user, found.path) == ("orders", "jobs")
    assert found.principal.until_us == (NOW_S + 60) * 1_000_000
    assert found.principal.authorizer is None


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        ("sb://host/jobs", "jobs"),
        ("amqps://host:5671/jobs/$DeadLetterQueue", "jobs/$DeadLetterQueue"),
        ("http://host/", ""),
        ("sb://host", ""),
        ("sb://host/a b/ä/", "a b/ä"),
    ],
)
def test_the_path_of_a_resource(resource: str, path: str) -> None:
    assert admit(token(resource)).path == path


def test_fields_come_in_any_order() -> None:
    scheme, fields = token().split(" ", 1)
    assert admit(f"{scheme} {'&'.join(reversed(fields.split('&')))}").path == "jobs"


def test_the_signature_is_over_the_resource_as_it_is_written() -> None:
    """`%2f` and `%2F` mean the same, but only one of them was signed."""
    with pytest.raises(LoginRefused, match="refused") as refused:
        admit(token().replace("%2F", "%2f"))
    assert "wrong shared access signature" in refused.value.detail


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (token(key="other"), "wrong shared access signature"),
        (token(key=""), "wrong shared access signature"),
        (token(user="stranger"), "wrong shared access signature"),
        (token(user="stranger", key="no key"), "wrong shared access signature"),
        (token(user="nobody"), "does not exist"),
        (token(expiry=NOW_S), "has expired"),
        (token(expiry=0), "has expired"),
        (token(expiry="soon"), "no number"),
        (token(expiry="-1"), "no number"),
        (token(expiry="٣"), "no number"),
        (token(expiry="9" * 30), "no number"),
        (token("jobs"), "no URI"),
        (token("sb://[::1/jobs"), "no URI"),
        (token("sb://host/jobs?x=1"), "no URI"),
        (token() + "&skn=guest", "not expected"),
        (token() + "&more=1", "not expected"),
        (token().replace("&se=", "&"), "not expected"),
        (token().replace("skn=orders", "skn="), "missing"),
        (token().rpartition("&")[0], "missing"),
        ("SharedAccessSignature sr=sb%3A%2F%2Fh&sig=!&se=1800000000&skn=orders", "no base64"),
        ("SharedAccessSignature sr=sb%3A%2F%2Fh&sig=%C3%A4&se=1800000000&skn=orders", "no base64"),
        ("SharedAccessSignature " + "x" * 5000, "is no shared access signature"),
        ("sharedaccesssignature sr=x", "is no shared access signature"),
    ],
)
def test_what_proves_nothing(text: str, detail: str) -> None:
    with pytest.raises(LoginRefused) as refused:
        admit(text)
    assert detail in refused.value.detail
    assert "secret" not in refused.value.detail


def test_who_may_log_in_from_here_only() -> None:
    assert admit(token(user="guest")).principal.user == "guest"
    with pytest.raises(LoginRefused) as refused:
        admit(token(user="guest"), AWAY)
    assert "only log in from this machine" in refused.value.detail


def test_who_guesses_too_often_has_to_wait() -> None:
    made = auth()
    made.throttle.free = 2
    made.throttle.wait_max_us = 60_000_000
    for _ in range(5):
        with pytest.raises(LoginRefused) as refused:
            admit(token(key="guess"), AWAY, made)
        if not refused.value.wait_s:
            made.throttle.failed(AWAY.address, "orders")
    assert refused.value.wait_s > 0


def test_keys_are_not_empty() -> None:
    with pytest.raises(OptionError, match="'orders' is empty"):
        auth(orders="")


def test_what_is_taken_for_a_signature() -> None:
    assert is_signature(token())
    assert not is_signature("ey.some.token")


def test_claims_are_taken_where_somebody_can_prove_something_by_them() -> None:
    assert auth().takes_claims()
    assert not Auth({"orders": "pw"}).takes_claims()
