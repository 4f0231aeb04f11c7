"""The node `$cbs`, octet by octet: no session without a proof, and what a bad request is answered."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.amqp10.raw import (
    AMQP_HEADER,
    APPLICATION_PROPERTIES,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    INIT,
    MECHANISMS,
    OPEN,
    OUTCOME,
    PROPERTIES,
    RECEIVER,
    SASL_HEADER,
    SENDER,
    VALUE,
    Described,
    Raw,
    Symbol,
    Uint,
    attach,
    begin,
    consumer,
    encode,
    flow,
    opened,
    performative,
    publisher,
    source,
    target,
    transfer,
)

KEY = "secret-key"
OPTIONS: dict[str, Any] = {
    "users": {"azure": "pw", "other": "pw", "guest": "guest"},
    "amqp_shared_access_keys": {"azure": KEY, "other": KEY},
    "queues": [{"name": "jobs", "dlq": {"enabled": True}}, {"name": "plain"}],
    "handshake_timeout_ms": 3000,
}


@pytest.fixture
def broker(start_broker: Callable[..., BrokerProcess]) -> BrokerProcess:
    return start_broker(**OPTIONS)


def signature(path: str = "", user: str = "azure", key: str = KEY, expires_s: float = 600) -> str:
    resource, expiry = f"sb://127.0.0.1/{path}", int(time.time() + expires_s)
    signed = f"{quote_plus(resource)}\n{expiry}".encode()
    proof = base64.b64encode(hmac.new(key.encode(), signed, hashlib.sha256).digest()).decode()
    return f"SharedAccessSignature sr={quote_plus(resource)}&sig={quote_plus(proof)}&se={expiry}&skn={user}"


def request(operation: str | None, body: Any, id: Any = "r1", reply_to: str | None = None, **more: Any) -> bytes:
    fields = {**({} if operation is None else {"operation": operation}), **more}
    octets = encode(Described(PROPERTIES, [id, None, None, None, reply_to]))
    return octets + encode(Described(APPLICATION_PROPERTIES, fields)) + encode(Described(VALUE, body))


def node(name: str, handle: int) -> tuple[bytes, bytes]:
    """The links to and from a node, with handles from this one on."""
    return (
        attach(f"to-{name}-{handle}", handle, SENDER, source(name), target(name)),
        attach(f"from-{name}-{handle}", handle + 1, RECEIVER, source(name), target(f"answers-{handle}")),
    )


def unknown(broker: AnyBroker, mechanism: str = "ANONYMOUS") -> Raw:
    """A connection that is open, and has not said who it is."""
    raw = Raw(broker)
    raw.send(SASL_HEADER, performative(0, INIT, Symbol(mechanism), b"", kind=1))
    assert raw.read(8) == SASL_HEADER
    assert mechanism in raw.expect(MECHANISMS, kind=1)[0]
    assert raw.expect(OUTCOME, kind=1)[0] == 0
    raw.send(AMQP_HEADER, opened())
    assert raw.read(8) == AMQP_HEADER
    raw.expect(OPEN)
    return raw


def with_claims(broker: AnyBroker, mechanism: str = "ANONYMOUS") -> Raw:
    """Such a connection with the links of `$cbs`: handles 0 and 1."""
    raw = unknown(broker, mechanism)
    raw.send(begin(), *node("$cbs", 0), flow(1, 10))
    raw.expect(BEGIN)
    assert raw.expect(ATTACH)[0] == "to-$cbs-0"
    assert raw.flow(0)[6] > 0
    assert raw.expect(ATTACH)[0] == "from-$cbs-0"
    return raw


def answer(raw: Raw, statuses: tuple[str, str] = ("status-code", "status-description")) -> tuple[int, str, Any, Any]:
    """Status, description, correlation-id and body of the answer that must come next, behind the link's flow."""
    _, found = raw.delivery()
    parts = {each.code: each.value for each in found}
    fields = parts[APPLICATION_PROPERTIES]
    return fields[statuses[0]], fields[statuses[1]], parts[PROPERTIES][5], parts.get(VALUE)


def put_token(raw: Raw, token: Any, delivery: int = 0, operation: str | None = "put-token", **more: Any) -> int:
    fields = {"type": "servicebus.windows.net:sastoken", "name": "sb://127.0.0.1/", **more}
    raw.send(transfer(delivery, request(operation, token, **fields), settled=True))
    status, _, id, _ = answer(raw)
    assert id == "r1"
    return status


def azure(broker: AnyBroker, path: str = "") -> Raw:
    """A connection that has proven by a token that it is the user azure."""
    raw = with_claims(broker)
    assert put_token(raw, signature(path)) == 202
    raw.flow(0)
    return raw


# ---- before the token


@pytest.mark.parametrize("mechanism", ["ANONYMOUS", "MSSBCBS"])
def test_a_token_makes_a_user(broker: AnyBroker, mechanism: str) -> None:
    raw = with_claims(broker, mechanism)
    assert put_token(raw, signature()) == 202
    raw.flow(0)
    raw.send(publisher("jobs", 5))
    assert raw.expect(ATTACH)[6] is not None


@pytest.mark.parametrize(
    "token",
    [
        signature(key="wrong"),
        signature(user="nobody"),
        signature(expires_s=-(10**9)),
        "SharedAccessSignature sr=x",
        "SharedAccessSignature sr=sb%3a%2f%2fh&sig=AAAA&se=99999999999999&skn=azure",
        "SharedAccessSignature sr=sb%3a%2f%2fh&sig=%ff&se=9999999999&skn=azure",
        signature() + "&skn=other",
        "ey.no.token",
        "",
        b"octets",
        None,
        7,
    ],
)
def test_a_wrong_token_proves_nothing(broker: AnyBroker, token: Any) -> None:
    raw = with_claims(broker)
    assert put_token(raw, token) == 401
    raw.send(transfer(1, request("put-token", signature()), settled=True), publisher("jobs", 5))
    raw.send(performative(0, CLOSE))
    raw.expect(CLOSE)
    assert raw.ended(), "nothing more was read but the close"


def test_another_request_is_no_login(broker: AnyBroker) -> None:
    assert put_token(with_claims(broker), signature(), operation="get-token") == 401
    assert put_token(with_claims(broker), signature(), operation=None) == 401


def test_nothing_else_is_attached_before_the_token(broker: AnyBroker) -> None:
    raw = unknown(broker, "MSSBCBS")
    raw.send(begin(), publisher("jobs"))
    raw.expect(BEGIN)
    assert raw.error(CLOSE)[0] == "amqp:unauthorized-access"
    assert raw.ended()


def test_who_is_anonymous_and_wants_no_token_is_the_guest(broker: AnyBroker) -> None:
    raw = unknown(broker)
    raw.send(begin(), publisher("$queue/guests"))
    raw.expect(BEGIN)
    assert raw.expect(ATTACH)[6] is not None


def test_the_guest_has_no_more_rights_by_attaching_to_claims_first(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(**{**OPTIONS, "users": {"azure": "pw"}, "loopback_users": []})
    raw = with_claims(broker)
    raw.send(consumer("jobs", 5))
    assert raw.error(CLOSE)[0] == "amqp:unauthorized-access"
    raw = unknown(broker)
    raw.send(begin(), consumer("jobs", 5))
    raw.expect(BEGIN)
    assert raw.error(CLOSE)[0] == "amqp:unauthorized-access", "there is no guest"


@pytest.mark.parametrize(
    "octets",
    [
        transfer(0, b"", handle=0, more=True),
        transfer(0, b"\x00", handle=0),
        transfer(0, request("put-token", signature()), handle=7),
        performative(0, DISPOSITION, RECEIVER, Uint(0)),
        performative(0, DETACH, Uint(0), True),
        begin(9) * 5,
        flow(1, 1) * 40,
        b"\x00" * 8,
    ],
)
def test_rude_octets_before_the_token_end_the_connection(broker: AnyBroker, octets: bytes) -> None:
    raw = with_claims(broker)
    raw.send(octets)
    while raw.frame()[2] != CLOSE:
        pass
    assert raw.ended()


def test_a_client_that_never_sends_its_token_is_not_waited_for(broker: AnyBroker) -> None:
    raw = with_claims(broker)
    raw.send(transfer(0, request("put-token", signature()), settled=True)[:-20])
    assert raw.ended()


def test_everything_in_one_write(broker: AnyBroker) -> None:
    raw = Raw(broker)
    token = transfer(0, request("put-token", signature(), type="jwt"), settled=True)
    raw.send(SASL_HEADER, performative(0, INIT, Symbol("ANONYMOUS"), b"", kind=1), AMQP_HEADER, opened())
    raw.send(begin(), *node("$cbs", 0), flow(1, 10), token, publisher("jobs", 5))
    raw.read(8)
    raw.expect(MECHANISMS, kind=1)
    raw.expect(OUTCOME, kind=1)
    raw.read(8)
    raw.expect(OPEN)
    raw.expect(BEGIN)
    raw.expect(ATTACH)
    raw.flow(0)
    raw.expect(ATTACH)
    assert answer(raw)[0] == 202
    raw.flow(0)
    assert raw.expect(ATTACH)[0] == "publisher"


def test_no_signatures_without_keys(start_broker: Callable[..., BrokerProcess]) -> None:
    raw = Raw(start_broker())
    raw.send(SASL_HEADER)
    raw.read(8)
    assert "MSSBCBS" not in raw.expect(MECHANISMS, kind=1)[0]


# ---- behind it


def test_more_tokens_are_for_more_entities(broker: AnyBroker) -> None:
    raw = azure(broker, "jobs")
    raw.send(publisher("plain", 5))
    assert raw.refused(SENDER)[0] == "amqp:unauthorized-access"
    assert put_token(raw, signature("plain"), 1) == 202
    raw.flow(0)
    raw.send(performative(0, DETACH, Uint(5), True), publisher("plain", 6, name="again"))
    assert raw.expect(ATTACH)[6] is not None


@pytest.mark.parametrize(
    ("token", "status"),
    [
        (signature(user="other"), 401),
        (signature(key="wrong"), 401),
        (signature(expires_s=-(10**9)), 401),
        ("SharedAccessSignature ", 401),
        ("ey.no.token", 400),
        ("", 400),
        (b"octets", 400),
    ],
)
def test_a_wrong_token_changes_nothing(broker: AnyBroker, token: Any, status: int) -> None:
    raw = azure(broker, "jobs")
    assert put_token(raw, token, 1) == status
    raw.flow(0)
    raw.send(publisher("jobs", 5))
    assert raw.expect(ATTACH)[6] is not None


def test_another_operation(broker: AnyBroker) -> None:
    raw = azure(broker)
    assert put_token(raw, signature(), 1, operation="delete-token") == 501


def test_a_signature_does_not_renew_a_login_of_another_kind(broker: AnyBroker) -> None:
    raw = Raw(broker)
    raw.log_in()
    raw.send(opened(), begin(), *node("$cbs", 0), flow(1, 10))
    raw.expect(OPEN)
    raw.expect(BEGIN)
    raw.expect(ATTACH)
    raw.flow(0)
    raw.expect(ATTACH)
    assert put_token(raw, signature()) == 400
    raw.flow(0)
    assert put_token(raw, "a token for one whose rights follow from none", 1) == 202


def test_requests_that_cannot_be_answered_end_their_link(broker: AnyBroker) -> None:
    raw = azure(broker)
    raw.send(transfer(1, request("put-token", signature(), id=None), settled=True))
    assert raw.error(DETACH)[0] == "amqp:invalid-field"


@pytest.mark.parametrize(
    ("address", "condition"),
    [
        ("none", "amqp:not-found"),
        ("$queue/jobs", "amqp:invalid-field"),
        ("jobs/$deadletterqueue", "amqp:not-allowed"),
        ("topic/Subscriptions/all", "amqp:not-implemented"),
        ("", "amqp:invalid-field"),
        (None, "amqp:not-implemented"),
    ],
)
def test_addresses_are_entities(broker: AnyBroker, address: str | None, condition: str) -> None:
    raw = azure(broker)
    raw.send(publisher(address, 5))
    assert raw.refused(SENDER)[0] == condition
