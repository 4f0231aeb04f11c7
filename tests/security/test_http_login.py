"""The way in over HTTP: passwords, cookies, what guards browsers, and what waits for those who guess."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest

from forebay.directory.logins.passwords import hash_password
from tests.broker_process import BrokerProcess, running
from tests.waiting import until

OURS = {"X-Requested-With": "forebay"}
GUEST = ("guest", "guest")
WAIT_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(
        tmp_path_factory.mktemp("broker"),
        http="127.0.0.1:0",
        users={"guest": "guest", "ada": hash_password("lovelace", bytes(16)), "app": "app"},
        administrators=["guest", "ada"],
        http_body_octets_max=2048,
        http_cors_origins=["https://ops.example"],
        handshake_timeout_ms=500,
    ) as made:
        yield made


@pytest.fixture
def page(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url) as client:
        yield client


def log_in(page: httpx.Client, user: str = "ada", password: str = "lovelace") -> httpx.Response:
    return page.post("/api/login", json={"username": user, "password": password}, headers=OURS)


def test_a_login_sets_a_cookie_that_says_who_asks(page: httpx.Client) -> None:
    answer = log_in(page)
    assert answer.status_code == 200
    assert answer.json() == {"name": "ada", "tags": ["administrator"]}
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "secure" not in cookie
    assert page.get("/api/whoami").json()["name"] == "ada"


def test_after_a_logout_the_cookie_is_nobodys(page: httpx.Client) -> None:
    log_in(page)
    kept = dict(page.cookies)
    assert page.post("/api/logout", headers=OURS).status_code == 204
    page.cookies.update(kept)
    assert page.get("/api/whoami").status_code == 401


def test_a_cookie_alone_changes_nothing(page: httpx.Client) -> None:
    log_in(page)
    change = "/api/queues/%2F/by-cookie"
    refused = page.put(change, json={"durable": True})
    assert refused.status_code == 401
    assert "X-Requested-With" in refused.json()["reason"]
    assert page.put(change, json={"durable": True}, headers=OURS).status_code != 401


@pytest.mark.parametrize("header", ["Basic !!!", "Basic bm9jb2xvbg==", "Digest x", "Bearer", "Bearer x.y.z"])
def test_credentials_that_are_none_are_refused(page: httpx.Client, header: str) -> None:
    answer = page.get("/api/whoami", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Basic ")


def test_our_own_page_is_not_answered_with_the_browsers_question(page: httpx.Client) -> None:
    answer = page.get("/api/whoami", headers=OURS)
    assert answer.status_code == 401
    assert "www-authenticate" not in answer.headers


def test_a_user_without_any_tag_is_not_let_in(page: httpx.Client) -> None:
    for answer in (page.get("/api/whoami", auth=("app", "app")), log_in(page, "app", "app")):
        assert answer.status_code == 401
        assert answer.json() == {"error": "not_authorized", "reason": "Not management user"}


def test_answers_tell_browsers_to_be_careful(page: httpx.Client) -> None:
    headers = page.get("/api/whoami", auth=GUEST).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cache-control"] == "no-store"


def test_only_named_origins_may_call(page: httpx.Client) -> None:
    asked = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization"}
    known = page.options("/api/whoami", headers={"Origin": "https://ops.example", **asked})
    assert known.headers["access-control-allow-origin"] == "https://ops.example"
    other = page.options("/api/whoami", headers={"Origin": "https://evil.example", **asked})
    assert "access-control-allow-origin" not in other.headers


def test_without_the_option_no_origin_may_call(start_broker: Callable[..., BrokerProcess]) -> None:
    url = start_broker(http="127.0.0.1:0").http_url
    answer = httpx.get(f"{url}/api/whoami", auth=GUEST, headers={"Origin": "https://ops.example"})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


def test_a_body_that_is_too_long_is_not_taken(page: httpx.Client) -> None:
    announced = page.post("/api/login", content=b"x" * 3000, headers={"Content-Type": "application/json"})
    assert announced.status_code == 413
    chunked = page.post("/api/login", content=iter([b"x" * 1000] * 3), headers={"Content-Type": "application/json"})
    assert chunked.status_code == 413
    assert "http_body_octets_max" in chunked.json()["reason"]


@pytest.mark.parametrize("begun", [b"", b"GET /api/who", b"GET /api/whoami HTTP/1.1\r\nX-A: b\r\n"])
def test_a_client_that_does_not_finish_its_request_is_let_go(broker: BrokerProcess, begun: bytes) -> None:
    with socket.create_connection(("127.0.0.1", broker.port("http")), timeout=WAIT_S) as slow:
        slow.sendall(begun)
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(1) == b""


def test_a_deleted_users_cookie_ends(start_broker: Callable[..., BrokerProcess], tmp_path: Path) -> None:
    broker = start_broker(http="127.0.0.1:0")
    with httpx.Client(base_url=broker.http_url) as root, httpx.Client(base_url=broker.http_url) as page:
        root.auth = GUEST
        assert root.put("/api/users/bob", json={"password": "bob", "tags": "management"}).status_code == 201
        assert log_in(page, "bob", "bob").status_code == 200
        assert page.get("/api/whoami").status_code == 200
        assert root.put("/api/users/bob", json={"password": "other", "tags": "management"}).status_code == 204
        assert page.get("/api/whoami").status_code == 401


def test_who_guesses_has_to_wait_by_every_protocol(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0", login_failures_free=3, login_wait_max_s=3600)
    url = f"{broker.http_url}/api/whoami"
    for _ in range(12):
        answer = httpx.get(url, auth=("guest", "wrong"))
        if answer.status_code == 429:
            break
    assert answer.status_code == 429
    assert 1 <= int(answer.headers["retry-after"]) <= 3600
    assert httpx.get(url, auth=GUEST).status_code == 429
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(parameters)
    until(lambda: "too many failed logins" in broker.log_text())  # it is written behind the answer
