"""Tokens of another server that clients of AMQP 1.0 send to the node `$cbs`: as a login, and to renew one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusAuthenticationError, ServiceBusAuthorizationError

from tests.broker_process import BrokerProcess, running
from tests.conformance.amqp10.raw import (
    APPLICATION_PROPERTIES,
    ATTACH,
    BEGIN,
    CLOSE,
    FLOW,
    OPEN,
    TRANSFER,
    Raw,
    begin,
    flow,
    opened,
    publisher,
    sections,
    transfer,
)
from tests.conformance.amqp10.test_12_claims import node, request, signature, with_claims
from tests.security.jwks import AUDIENCE, Issuer
from tests.waiting import pause

ALL = ("read:*/*", "write:*/*", "configure:*/*")
OPTIONS: dict[str, Any] = {
    "auth_backends": ["oauth", "internal"],
    "oauth_audience": AUDIENCE,
    "oauth_leeway_s": 0,
    "login_failures_free": 0,
    "amqp_shared_access_keys": {"guest": "secret-key"},
    "queues": [{"name": "jobs"}],
}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    made.make("one")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("broker"), oauth_issuer=issuer.url, **OPTIONS) as made:
        yield made


class Bearer:
    """A credential as azure-identity makes them."""

    def __init__(self, token: str) -> None:
        self.token = token

    def get_token(self, *scopes: str, **more: Any) -> AccessToken:
        return AccessToken(self.token, int(time.time()) + 3600)


def client_of(broker: BrokerProcess, token: str) -> ServiceBusClient:
    return ServiceBusClient(f"127.0.0.1:{broker.amqp_port}", Bearer(token), use_tls=False, retry_total=0)


def test_a_bearer_token_is_a_login(broker: BrokerProcess, issuer: Issuer) -> None:
    with client_of(broker, issuer.token(*ALL)) as client:
        with client.get_queue_sender("jobs") as sender:
            sender.send_messages(ServiceBusMessage("x"))
        with client.get_queue_receiver("jobs", max_wait_time=10) as receiver:
            (found,) = receiver.receive_messages(1)
            receiver.complete_message(found)


def test_its_rights_are_those_of_the_token(broker: BrokerProcess, issuer: Issuer) -> None:
    with client_of(broker, issuer.token("read:*/*")) as client:
        client.get_queue_receiver("jobs").__enter__()
        with pytest.raises(ServiceBusAuthorizationError):
            client.get_queue_sender("jobs").__enter__()


@pytest.mark.parametrize("claims", [{"aud": "other"}, {"exp": 10}, {"iss": "https://evil.example"}])
def test_a_token_that_is_not_good_is_refused(broker: BrokerProcess, issuer: Issuer, claims: dict[str, Any]) -> None:
    with client_of(broker, issuer.token(*ALL, **claims)) as client, pytest.raises(ServiceBusAuthenticationError):
        client.get_queue_sender("jobs").__enter__()


def by_password(broker: BrokerProcess, token: str) -> Raw:
    """A connection that has logged in by a token as the password, with the links of `$cbs`."""
    raw = Raw(broker)
    raw.log_in("", token)
    raw.send(opened(), begin(), *node("$cbs", 0), flow(1, 10))
    raw.expect(OPEN)
    raw.expect(BEGIN)
    raw.expect(ATTACH)
    raw.flow(0)
    raw.expect(ATTACH)
    return raw


def put(raw: Raw, token: str, delivery: int) -> None:
    raw.send(transfer(delivery, request("put-token", token, type="jwt", name="x"), settled=True))


def status(raw: Raw) -> int:
    """The status of the next answer: the link's credit may come before it, as somebody else is asked."""
    while (found := raw.frame())[2] == FLOW:
        pass
    assert found[2] == TRANSFER, found
    fields = {each.code: each.value for each in sections(found[4])}[APPLICATION_PROPERTIES]
    return int(fields["status-code"])


def test_a_login_of_another_kind_is_renewed(broker: BrokerProcess, issuer: Issuer) -> None:
    raw = by_password(broker, issuer.token(*ALL, exp=int(time.time()) + 4))
    put(raw, issuer.token(*ALL), 0)
    assert status(raw) == 202
    pause(6)
    raw.send(publisher("$queue/jobs", 5))
    while (found := raw.frame())[2] == FLOW:
        pass
    assert found[2] == ATTACH
    assert found[3][6] is not None


def test_a_login_that_is_not_renewed_ends(broker: BrokerProcess, issuer: Issuer) -> None:
    raw = by_password(broker, issuer.token(*ALL, exp=int(time.time()) + 3))
    assert raw.error(CLOSE)[1] == "the token has expired"


def test_a_connection_does_not_become_another_users(broker: BrokerProcess, issuer: Issuer) -> None:
    raw = by_password(broker, issuer.token(*ALL))
    put(raw, issuer.token(*ALL, sub="somebody else"), 0)
    raw.flow(0)
    assert raw.error(CLOSE)[0] == "amqp:unauthorized-access"


def test_a_login_by_one_kind_of_token_is_not_renewed_by_the_other(broker: BrokerProcess, issuer: Issuer) -> None:
    raw = with_claims(broker)
    put(raw, issuer.token(*ALL), 0)
    assert status(raw) == 202
    put(raw, signature(user="guest"), 1)
    assert status(raw) == 400
    raw = with_claims(broker)
    put(raw, signature(user="guest"), 0)
    assert status(raw) == 202
    put(raw, issuer.token(*ALL, sub="guest"), 1)
    assert status(raw) == 400
