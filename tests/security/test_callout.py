"""A server of others says who may do what: a real one, that remembers what it was asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import httpx
import pika
import pika.exceptions
import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import V5, V311, Client
from tests.waiting import pause

WAIT_S = 60
REFUSED = (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AMQPConnectionError)


class Server:
    """Lets `app` in with the password `secret`, and to whatever begins with `mine`.

    asked    paths and fields of all questions
    slow_s   how long it takes to answer
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.slow_s = 0.0
        self.is_down = False
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def do_GET(self) -> None:
                self.answer(urlsplit(self.path).query)

            def answer(self, query: str) -> None:
                fields = {name: values[0] for name, values in parse_qs(query, keep_blank_values=True).items()}
                path = urlsplit(self.path).path
                server.asked.append((path, fields))
                pause(server.slow_s)
                words = b"error" if server.is_down else server.decide(path, fields).encode()
                self.send_response(500 if server.is_down else 200)
                self.send_header("Content-Length", str(len(words)))
                self.end_headers()
                self.wfile.write(words)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing of it."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def decide(self, path: str, fields: dict[str, str]) -> str:
        if path == "/user":
            known = {("app", "secret"): "allow", ("boss", "secret"): "allow administrator"}
            return known.get((fields["username"], fields["password"]), "deny")
        if path == "/vhost":
            return "allow" if fields["vhost"] == "/" else "deny"
        if path == "/topic":
            return "allow" if fields["routing_key"].startswith("mine") else "deny"
        return "allow" if fields["name"].startswith(("mine", "amq.")) else "deny"

    def options(self, **options: object) -> dict[str, object]:
        paths = {f"auth_http_{name}_url": f"{self.url}/{name}" for name in ("user", "vhost", "resource", "topic")}
        return {"auth_backends": ["http", "internal"], "login_failures_free": 0, **paths, **options}

    def questions(self, path: str) -> list[dict[str, str]]:
        return [fields for asked, fields in self.asked if asked == path]


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def connect(broker: BrokerProcess, password: str = "secret", user: str = "app") -> pika.BlockingConnection:
    credentials = pika.PlainCredentials(user, password)
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, credentials=credentials))


@pytest.mark.parametrize("method", ["post", "get"])
def test_an_amqp_client_may_do_what_the_server_allows(
    start_broker: Callable[..., BrokerProcess], server: Server, method: str
) -> None:
    broker = start_broker(**server.options(auth_http_method=method))
    with closing(connect(broker)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("mine-1")
        for number in range(3):
            channel.basic_publish("", "mine-1", b"%d" % number)
        assert [channel.basic_get("mine-1", auto_ack=True)[2] for _ in range(3)] == [b"0", b"1", b"2"]
        channel.exchange_declare("mine-x", "topic")
        channel.queue_bind("mine-1", "mine-x", "mine.#")
        channel.basic_publish("mine-x", "mine.a", b"routed")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker) as caught:
            channel.basic_publish("mine-x", "other.a", b"")
        assert caught.value.reply_code == 403
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare("other")
    with pytest.raises(REFUSED):
        connect(broker, "wrong")
    connect(broker, "guest", "guest").close()  # of our own users, whom the server does not know
    asked = server.questions("/resource")
    assert {
        "username": "app",
        "vhost": "/",
        "resource": "queue",
        "name": "mine-1",
        "permission": "configure",
    }.items() <= (asked[0].items())
    assert len([each for each in asked if each["permission"] == "write" and each["name"] == "amq.default"]) == 1
    assert "secret" not in broker.log_text()


@pytest.mark.parametrize("version", [V311, V5])
def test_an_mqtt_client_may_do_what_the_server_allows(
    start_broker: Callable[..., BrokerProcess], server: Server, version: MQTTProtocolVersion
) -> None:
    broker = start_broker(**server.options())
    client = Client(broker, "sensor", version=version, password="secret", expiry_s=600)
    client.client.username_pw_set("app", "secret")
    assert not client.connect()[0].is_failure
    assert not client.subscribe("mine/a").is_failure
    assert client.subscribe("other/a").is_failure
    for number in range(3):
        client.publish("mine/a", b"%d" % number)
    assert [client.next().payload for _ in range(3)] == [b"0", b"1", b"2"]
    client.end()
    again = Client(broker, "sensor", version=version, password="secret", expiry_s=600)
    again.client.username_pw_set("app", "secret")
    again.connect()
    again.publish("mine/a", b"again")
    assert again.next().payload == b"again"
    again.end()
    assert server.questions("/user")[0]["protocol"] == "mqtt"
    assert server.questions("/user")[0]["client_id"] == "sensor"


def test_tags_of_the_answer_let_into_the_administration(
    start_broker: Callable[..., BrokerProcess], server: Server
) -> None:
    broker = start_broker(**server.options(http="127.0.0.1:0"))
    url = f"{broker.http_url}/api/whoami"
    assert httpx.get(url, auth=("boss", "secret")).json()["tags"] == ["administrator"]
    assert httpx.get(url, auth=("app", "secret")).status_code == 401
    assert httpx.get(url, auth=("boss", "wrong")).status_code == 401


def test_a_protocol_may_be_left_out(start_broker: Callable[..., BrokerProcess], server: Server) -> None:
    broker = start_broker(**server.options(auth_http_protocols=["mqtt"]))
    with pytest.raises(REFUSED):
        connect(broker)
    assert server.asked == []


def test_others_go_on_while_a_slow_server_is_asked(start_broker: Callable[..., BrokerProcess], server: Server) -> None:
    broker = start_broker(**server.options(auth_backends=["internal", "http"], auth_http_timeout_ms=30_000))
    server.slow_s = 3
    ended: list[float] = []

    def slow() -> None:
        connect(broker).close()
        ended.append(time.monotonic())

    thread = threading.Thread(target=slow)
    thread.start()
    with closing(connect(broker, "guest", "guest")) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        for _ in range(20):
            channel.basic_publish("", "q", b"x")
        done = time.monotonic()
    thread.join(WAIT_S)
    assert ended and done < ended[0]


@pytest.mark.parametrize("is_down", [True, False])
def test_no_answer_is_a_no(start_broker: Callable[..., BrokerProcess], server: Server, is_down: bool) -> None:
    broker = start_broker(**server.options(auth_http_timeout_ms=200, auth_http_cache_s=0))
    server.is_down = is_down
    server.slow_s = 0 if is_down else 1
    with pytest.raises(REFUSED):
        connect(broker)
    server.is_down = False
    server.slow_s = 0
    connect(broker).close()
    assert "auth_http_user_url" in broker.log_text()


def test_an_answer_is_remembered(start_broker: Callable[..., BrokerProcess], server: Server) -> None:
    broker = start_broker(**server.options(auth_http_cache_s=600))
    for _ in range(4):
        connect(broker).close()
    assert len(server.questions("/user")) == 1
    assert len(server.questions("/vhost")) == 1
