"""Tokens: who is let in by one, what it lets them do, and when that ends."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pika
import pika.exceptions
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from tests.broker_process import BrokerProcess, running
from tests.interop.mqtt_client import Client
from tests.security.jwks import AUDIENCE, Issuer
from tests.waiting import until

ALL = ("read:*/*", "write:*/*", "configure:*/*")
WAIT_S = 60
REFUSED = (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AMQPConnectionError)


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    made = Issuer()
    made.make("one")
    made.make("ec", "ES256")
    made.make("ed", "EdDSA")
    yield made
    made.stop()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[BrokerProcess]:
    with running(
        tmp_path_factory.mktemp("broker"),
        http="127.0.0.1:0",
        auth_backends=["oauth", "internal"],
        oauth_issuer=issuer.url,
        oauth_audience=AUDIENCE,
        oauth_leeway_s=0,
        oauth_additional_scopes_key="more",
        login_failures_free=0,
        vhosts=[{"name": "sales"}],
    ) as made:
        yield made


def connect(broker: BrokerProcess, token: str, user: str = "", vhost: str = "/") -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, token)
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", broker.amqp_port, virtual_host=vhost, credentials=credentials)
    )


def refused(broker: BrokerProcess, token: str) -> bool:
    try:
        connect(broker, token).close()
    except REFUSED:
        return True
    return False


@pytest.mark.parametrize(("id", "algorithm"), [("one", "RS256"), ("one", "PS256"), ("ec", "ES256"), ("ed", "EdDSA")])
def test_a_token_is_a_password(broker: BrokerProcess, issuer: Issuer, id: str, algorithm: str) -> None:
    with closing(connect(broker, issuer.token(*ALL, id=id, algorithm=algorithm))) as connection:
        channel = connection.channel()
        channel.queue_declare("a")
        channel.basic_publish("", "a", b"x")


def test_users_of_our_own_log_in_as_before(broker: BrokerProcess) -> None:
    connect(broker, "guest", "guest").close()
    assert refused(broker, "not the password")


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "other"},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"exp": None},
        {"exp": "soon"},
        {"exp": 10},
        {"nbf": 1 << 39},
        {"sub": None},
        {"sub": "half \ud83d"},
        {"other": ["\udcff"]},
    ],
)
def test_a_token_that_is_not_good_is_refused(broker: BrokerProcess, issuer: Issuer, claims: dict[str, Any]) -> None:
    assert refused(broker, issuer.token(*ALL, **claims))


def test_a_token_that_nobody_has_signed_is_refused(broker: BrokerProcess, issuer: Issuer) -> None:
    head, body, signature = issuer.token(*ALL).split(".")
    none = base64.urlsafe_b64encode(json.dumps({"alg": "none"}).encode()).decode().rstrip("=")
    assert refused(broker, f"{none}.{body}.")
    assert refused(broker, f"{head}.{body}.")
    assert refused(broker, f"{head}.{body}.{signature[:-4]}AAAA")
    # The public key as a secret: what a server falls for that does not look at the kind of its key.
    confused = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "one"}).encode()).decode().rstrip("=")
    key = issuer.keys["one"]
    assert isinstance(key, RSAKey)
    public = key.as_pem(private=False)
    code = hmac.digest(public, f"{confused}.{body}".encode(), "sha256")
    assert refused(broker, f"{confused}.{body}.{base64.urlsafe_b64encode(code).decode().rstrip('=')}")
    stranger = Issuer()
    stranger.make("one")
    assert refused(broker, stranger.token(*ALL, iss=issuer.url))
    stranger.stop()


def test_scopes_say_what_a_client_may_do(broker: BrokerProcess, issuer: Issuer) -> None:
    scopes = ("configure:%2F/mine-*", "write:%2F/mine-*", "write:%2F/amq.default", "read:sales/*")
    with closing(connect(broker, issuer.token(*scopes))) as connection:
        channel = connection.channel()
        channel.queue_declare("mine-1")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.queue_declare("other")
        assert caught.value.reply_code == 403
        channel = connection.channel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.basic_get("mine-1")
    with closing(connect(broker, issuer.token(*scopes), vhost="sales")):
        pass
    with pytest.raises(REFUSED):
        connect(broker, issuer.token("read:%2F/*"), vhost="sales")


def test_more_scopes_stand_in_another_claim(broker: BrokerProcess, issuer: Issuer) -> None:
    token = issuer.token(more={AUDIENCE: [f"{AUDIENCE}.configure:*/x"]})
    with closing(connect(broker, token)) as connection:
        connection.channel().queue_declare("x")


def test_a_token_is_a_password_over_mqtt_with_scopes_for_topics(broker: BrokerProcess, issuer: Issuer) -> None:
    scopes = ("write:*/amq.topic/room.1.*", "read:*/amq.topic/room.#", "read:*/amq.topic/room.1.*")
    client = Client(broker, "c", password="")
    client.client.username_pw_set("whoever", issuer.token(*scopes))
    assert not client.connect()[0].is_failure
    assert not client.subscribe("room/1/heat").is_failure
    assert client.subscribe("door").is_failure
    client.publish("room/1/heat", b"21")
    assert client.next().payload == b"21"
    client.end()


def test_a_tag_of_a_token_lets_into_the_administration(broker: BrokerProcess, issuer: Issuer) -> None:
    url = f"{broker.http_url}/api/whoami"
    token = issuer.token("tag:administrator", "read:*/*")
    answer = httpx.get(url, headers={"Authorization": f"Bearer {token}"})
    assert answer.json()["name"] == "app"
    assert answer.json()["tags"] == ["administrator"]
    assert httpx.get(url, auth=("app", token)).status_code == 200
    none = httpx.get(url, headers={"Authorization": f"Bearer {issuer.token('read:*/*')}"})
    assert none.status_code == 401
    bad = httpx.get(url, headers={"Authorization": f"Bearer {token[:-8]}"})
    assert bad.status_code == 401
    with httpx.Client(base_url=broker.http_url) as page:
        answer = page.post("/api/login", json={"username": "", "password": token})
        assert answer.status_code == 200
        assert page.get("/api/whoami").json()["name"] == "app"


def test_a_connection_ends_with_its_token_unless_it_gets_another(broker: BrokerProcess, issuer: Issuer) -> None:
    ends = connect(broker, issuer.token(*ALL, seconds=3))
    with closing(connect(broker, issuer.token(*ALL, seconds=3))) as lives:
        lives.update_secret(issuer.token("configure:*/new", seconds=600), "renewed")
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
            ends.process_data_events(WAIT_S)
        assert "token has expired" in str(caught.value)
        lives.channel().queue_declare("new")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            lives.channel().queue_declare("old")


def test_a_connection_cannot_become_another_users(broker: BrokerProcess, issuer: Issuer) -> None:
    connection = connect(broker, issuer.token(*ALL))
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as caught:
        connection.update_secret(issuer.token(*ALL, sub="somebody"), "renewed")
    assert caught.value.reply_code == 530


def test_a_new_key_is_fetched_when_a_token_names_it(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    issuer = Issuer()
    issuer.make("one")
    issuer.is_down = True
    broker = start_broker(auth_backends=["oauth"], oauth_jwks_url=f"{issuer.url}/keys", oauth_audience=AUDIENCE)
    assert refused(broker, issuer.token(*ALL)), "the broker starts while the issuer is down, and refuses"
    issuer.is_down = False
    until(lambda: not refused(broker, issuer.token(*ALL)))
    issuer.make("two")
    until(lambda: not refused(broker, issuer.token(*ALL, id="two")))
    before = issuer.asked
    for _ in range(5):
        assert not refused(broker, issuer.token(*ALL))
    assert issuer.asked == before
    issuer.is_down = True
    assert not refused(broker, issuer.token(*ALL))
    issuer.stop()


def test_one_secret_may_be_the_key(start_broker: Callable[..., BrokerProcess]) -> None:
    secret = "a secret of thirty-two octets, or more"
    broker = start_broker(
        auth_backends=["internal", "oauth"], oauth_key=secret, oauth_audience=AUDIENCE, oauth_algorithms=["HS256"]
    )
    claims = {"aud": AUDIENCE, "sub": "app", "exp": int(time.time() + 60), "scope": f"{AUDIENCE}.configure:*/*"}
    for key, good in ((secret, True), (secret + "!", False)):
        token = jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(key), algorithms=["HS256"])
        assert refused(broker, token) is not good
    assert secret not in broker.log_text()
