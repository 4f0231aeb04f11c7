"""By which names HTTP is answered, and whose pages may change something."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.broker_process import BrokerProcess, running

GUEST = ("guest", "guest")
LOGIN = {"username": "guest", "password": "guest"}
QUEUE = "/api/queues/%2F/by-page"
SEND_S_MAX = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(
        tmp_path_factory.mktemp("hosts"),
        http="127.0.0.1:0",
        prometheus="127.0.0.1:0",
        http_hosts=["Broker.example"],
        http_cors_origins=["https://ops.example"],
    ) as made:
        yield made


@pytest.fixture
def page(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, auth=GUEST, timeout=60) as client:
        yield client


def hosts(broker: BrokerProcess) -> dict[str, bool]:
    """What requests may call the broker, and what only a name that somebody else gave it would be."""
    port = broker.port("http")
    return {
        f"127.0.0.1:{port}": True,
        f"[::1]:{port}": True,
        f"localhost:{port}": True,
        "localhost": True,
        "10.1.2.3:8080": True,  # no name can be made to lead here
        f"{socket.gethostname()}:{port}": True,
        "broker.example": True,
        "BROKER.example.:443": True,
        f"rebound.example:{port}": False,
        "localhost.example": False,
        "127.0.0.1.example": False,
        "example@localhost": False,
        "": False,
    }


def test_a_name_that_is_not_the_brokers_is_not_answered(broker: BrokerProcess, page: httpx.Client) -> None:
    for host, good in hosts(broker).items():
        told = {"Host": host}
        for answer in (
            page.get("/api/whoami", headers=told),
            page.post("/api/login", json=LOGIN, headers=told),
            page.post("/publish/a", headers=told),
            page.get("/", headers=told),
        ):
            assert (answer.status_code == 200) is good, (host, answer.text)
            if not good:
                assert answer.status_code == 403
                assert answer.json()["reason"].startswith("Host: ")
                assert "set-cookie" not in answer.headers
        scraped = httpx.get(f"http://127.0.0.1:{broker.port('prometheus')}/metrics", headers=told)
        assert (scraped.status_code == 200) is good, host


def test_a_client_that_names_no_host_is_no_browser(broker: BrokerProcess) -> None:
    with socket.create_connection(("127.0.0.1", broker.port("http")), SEND_S_MAX) as raw:
        raw.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("origin", "good"),
    [
        (None, True),
        ("http://{host}", True),
        ("https://ops.example", True),
        ("https://broker.example", True),
        ("http://evil.example", False),
        ("http://localhost:1", False),
        ("https://ops.example.evil.example", False),
        ("null", False),
        ("", False),
        ("http://[", False),
    ],
)
def test_pages_of_others_change_nothing(
    broker: BrokerProcess, page: httpx.Client, origin: str | None, good: bool
) -> None:
    host = f"127.0.0.1:{broker.port('http')}"
    told = {} if origin is None else {"Origin": origin.format(host=host)}
    for answer in (
        page.post("/api/login", json=LOGIN, headers=told),
        page.put(QUEUE, json={}, headers=told),
        page.delete(QUEUE, headers=told),
        page.post("/publish/a", content=b"x", headers=told),
    ):
        assert (answer.status_code < 300) is good, answer.text
        if not good:
            assert answer.status_code == 403
            assert answer.json()["reason"].startswith("Origin: ")
    assert page.get("/api/whoami", headers=told).status_code == 200  # what it answers, the page is not shown


@pytest.mark.parametrize(
    ("content_type", "good"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("text/plain", False),
        ("application/x-www-form-urlencoded", False),
        ("multipart/form-data; boundary=x", False),
        ("application/jsonp", False),
        ("", False),
        (None, False),
    ],
)
def test_a_login_is_json_and_nothing_that_a_form_could_send(
    page: httpx.Client, content_type: str | None, good: bool
) -> None:
    told = {} if content_type is None else {"Content-Type": content_type}
    body = b'{"username": "guest", "password": "guest"}'
    answer = page.post("/api/login", content=body, headers=told)
    assert answer.status_code == (200 if good else 415), answer.text
    assert ("set-cookie" in answer.headers) is good


def ask(broker: BrokerProcess, address: str, head: str) -> bytes:
    """The first line of the answer to somebody behind a proxy."""
    with socket.create_connection(("127.0.0.1", broker.port("http")), SEND_S_MAX) as raw:
        raw.sendall(f"PROXY TCP4 {address} 192.0.2.1 4000 80\r\n{head}\r\n\r\n".encode())
        return raw.recv(4096).split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("options", "address", "status"),
    [
        ({}, "127.0.0.1", b"403"),
        ({}, "198.51.100.7", b"200"),  # where `guest` cannot log in, and names are the operator's business
        ({"http_hosts": ["broker.example"]}, "198.51.100.7", b"403"),
        ({"http_hosts": ["*"]}, "127.0.0.1", b"200"),
    ],
)
def test_from_elsewhere_any_name_will_do_unless_some_are_given(
    start_broker: Callable[..., BrokerProcess], options: dict[str, object], address: str, status: bytes
) -> None:
    broker = start_broker(http="127.0.0.1:0", proxy_protocol=True, **options)
    line = ask(broker, address, "GET /health HTTP/1.1\r\nHost: other.example")
    assert line.split()[1] == status
