"""Webhooks: events as an HTTP server gets them, and what becomes of them where it does not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import paho.mqtt.client as paho
import pika
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.broker_process import BrokerProcess, free_port
from tests.waiting import until

WAIT_S = 60
GUEST = ("guest", "guest")
Start = Callable[..., BrokerProcess]
Hook = Callable[..., BrokerProcess]


class Receiver:
    """An HTTP server that keeps what it gets.

    status  what it answers: the first of these that is left, and then 204
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[tuple[dict[str, str], bytes, str]] = []
        self.status: list[int] = []
        self.holds = threading.Event()  # while it is set nothing is answered
        self.let_go = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.requests.append(({k.lower(): v for k, v in self.headers.items()}, body, self.path))
                status = receiver.status.pop(0) if receiver.status else 204
                if receiver.holds.is_set():
                    receiver.let_go.wait(WAIT_S)
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                except OSError:
                    self.close_connection = True  # the broker has given up

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: pytest's output is for the broker's."""

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def events(self) -> list[dict[str, Any]]:
        """The bodies of what it got."""
        return [json.loads(body) for _, body, _ in list(self.requests)]

    def types(self) -> list[str]:
        """Their types."""
        return [str(each["type"]) for each in self.events()]

    def stop(self) -> None:
        """End it."""
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server that is there."""
    made = Receiver()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that it survives."""
    broker = BrokerProcess(tmp_path_factory.mktemp("webhooks"), http="127.0.0.1:0", vhosts=[{"name": "shop"}])
    broker.start()
    yield broker
    broker.finish()


@pytest.fixture
def hook(running: BrokerProcess) -> Iterator[Hook]:
    """Function that gives the broker these webhooks instead of those it had; there are no queues at the beginning."""
    first = dict(running.options)

    def reload(*hooks: dict[str, object]) -> BrokerProcess:
        running.options = {**first, "webhooks": list(hooks)}
        running.write_options()
        answer = httpx.post(f"{running.http_url}/api/forebay/reload", auth=GUEST, timeout=WAIT_S)
        assert answer.status_code == 200, answer.text
        return running

    yield reload
    reload()
    connection = connect(running)
    for name in ("q", "orders", "invoices", "orders.eu", *[f"q{number}" for number in range(9)]):
        connection.channel().queue_delete(name)
    connection.close()


def connect(broker: BrokerProcess) -> Any:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))


def listed(broker: BrokerProcess) -> list[dict[str, Any]]:
    answer = httpx.get(f"{broker.http_url}/api/forebay/webhooks", auth=GUEST, timeout=WAIT_S)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert isinstance(found, list)
    return found


def test_events_are_sent_signed_and_with_the_headers_of_the_options(hook: Hook, receiver: Receiver) -> None:
    wanted = {
        "url": receiver.url,
        "events": ["queue.*", "client.connected"],
        "secret": "a key of ours",
        "headers": {"Authorization": "Bearer xyz"},
        "workers": 1,
    }
    broker = hook(wanted)
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.queue_delete("orders")
    until(lambda: "queue.deleted" in receiver.types())
    assert receiver.types() == ["client.connected", "queue.created", "queue.deleted"], "in their order, and no others"
    for headers, body, path in receiver.requests:
        digest = hmac.new(b"a key of ours", body, hashlib.sha256).hexdigest()
        assert headers["x-forebay-signature"] == f"sha256={digest}"
        assert headers["authorization"] == "Bearer xyz"
        assert headers["content-type"] == "application/json"
        assert headers["x-forebay-event"] == json.loads(body)["type"]
        assert path == "/hook"
    assert receiver.events()[1]["data"]["queue"] == "orders"
    until(lambda: listed(broker)[0]["sent"] == 3)
    (facts,) = listed(broker)
    assert (facts["failed"], facts["dropped"], facts["waiting"], facts["breaker"]) == (0, 0, 0, "closed")
    shown = httpx.get(f"{broker.http_url}/api/forebay/config", auth=GUEST).text
    assert "a key of ours" not in shown + broker.log_text() and "xyz" not in shown
    connection.close()


def test_messages_come_with_their_payload_if_asked_for_and_filters_choose(hook: Hook, receiver: Receiver) -> None:
    broker = hook(
        {"url": f"{receiver.url}/full", "events": ["message.published"], "include_payload": True, "workers": 1},
        {"url": f"{receiver.url}/topics", "events": ["message.*"], "topics": ["home/+/door"], "workers": 1},
        {"url": f"{receiver.url}/queues", "events": ["queue.created"], "queues": ["orders.*"], "workers": 1},
        {"url": f"{receiver.url}/vhosts", "events": ["*"], "vhosts": ["shop"], "workers": 1},
    )
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", broker.mqtt_port)
    client.loop_start()
    client.subscribe("home/#", 1)
    client.publish("home/1/door", b"\xff open", 1).wait_for_publish(WAIT_S)
    client.publish("home/1/window", b"shut", 1).wait_for_publish(WAIT_S)
    connection = connect(broker)
    channel = connection.channel()
    for name in ("invoices", "orders.eu"):
        channel.queue_declare(name, durable=True)
    channel.basic_publish("amq.topic", "home.2.door", b"amqp")
    shop = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "shop"))

    def at(path: str) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body, where in list(receiver.requests) if where == f"/hook/{path}"]

    until(lambda: len(at("full")) == 3 and len(at("topics")) >= 3 and at("queues") and at("vhosts"))
    assert [base64.b64decode(each["payload"]) for each in at("full")] == [b"\xff open", b"shut", b"amqp"]
    found = [each["data"].get("topic", each["data"].get("routing_key")) for each in at("topics")]
    assert set(found) == {"home/1/door", "home.2.door"}
    assert all("payload" not in each for each in at("topics"))
    assert [each["data"]["queue"] for each in at("queues")] == ["orders.eu"]
    assert {each["vhost"] for each in at("vhosts")} == {"shop"}
    for each in (connection, shop):
        each.close()
    client.disconnect()
    client.loop_stop()


def test_an_event_is_sent_again_until_it_is_taken_and_each_attempt_says_that_it_is_the_same(
    hook: Hook, receiver: Receiver
) -> None:
    receiver.status = [500, 503]
    wanted = {"url": receiver.url, "events": ["queue.created"], "retry_min_ms": 1, "retry_max_ms": 2}
    broker = hook(wanted)
    connection = connect(broker)
    connection.channel().queue_declare("q", durable=True)
    until(lambda: listed(broker)[0]["sent"] == 1)
    assert len(receiver.requests) == 3
    assert len({headers["x-forebay-delivery"] for headers, _, _ in receiver.requests}) == 1
    assert listed(broker)[0]["retried"] == 2
    receiver.status = [500, 500, 500]
    connection.channel().queue_declare("q2", durable=True)
    until(lambda: listed(broker)[0]["failed"] == 1)
    assert listed(broker)[0]["last_error"] == "status 500"
    connection.close()


def test_a_server_that_is_not_there_is_left_alone_for_a_time_and_gets_what_waited(hook: Hook) -> None:
    port = free_port()
    wanted = {
        "url": f"http://127.0.0.1:{port}/hook",
        "events": ["queue.created"],
        "attempts_max": 1,
        "breaker_failures": 2,
        "breaker_reset_ms": 500,
        "workers": 1,
    }
    broker = hook(wanted)
    connection = connect(broker)
    channel = connection.channel()
    for number in range(6):
        channel.queue_declare(f"q{number}", durable=True)
    until(lambda: listed(broker)[0]["breaker"] == "open")
    assert "nothing is sent for 500 ms" in broker.log_text()
    receiver = Receiver(port)
    until(lambda: listed(broker)[0]["waiting"] == 0)
    (facts,) = listed(broker)
    assert facts["sent"] + facts["failed"] == 6 and facts["sent"] == len(receiver.requests) > 0
    assert [each["data"]["queue"] for each in receiver.events()] == [f"q{n}" for n in range(facts["failed"], 6)]
    receiver.stop()
    connection.close()


@pytest.mark.parametrize(
    ("policy", "kept"), [("oldest", ["q0", "q5", "q6", "q7"]), ("newest", ["q0", "q1", "q2", "q3"])]
)
def test_what_waits_is_limited_and_the_broker_goes_on(
    hook: Hook, receiver: Receiver, policy: str, kept: list[str]
) -> None:
    wanted = {"url": receiver.url, "events": ["queue.created"], "events_max": 3, "drop_policy": policy, "workers": 1}
    broker = hook({**wanted, "timeout_ms": 1_000_000})
    receiver.holds.set()
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("q0", durable=True)
    until(lambda: receiver.requests)
    for number in range(1, 8):
        channel.queue_declare(f"q{number}", durable=True)
    until(lambda: listed(broker)[0]["dropped"] == 4)
    assert listed(broker)[0]["waiting"] == 4
    receiver.holds.clear()
    receiver.let_go.set()
    until(lambda: len(receiver.requests) == 4)
    assert [each["data"]["queue"] for each in receiver.events()] == kept
    connection.close()


def test_a_server_that_does_not_answer_costs_an_attempt_and_holds_up_no_message(hook: Hook, receiver: Receiver) -> None:
    receiver.holds.set()
    wanted = {"url": receiver.url, "events": ["message.published"], "timeout_ms": 50, "attempts_max": 1, "workers": 2}
    broker = hook(wanted)
    connection = connect(broker)
    channel = connection.channel()
    channel.queue_declare("q", durable=True)
    channel.confirm_delivery()
    for number in range(50):
        channel.basic_publish("", "q", b"%d" % number)
    assert channel.queue_declare("q", passive=True).method.message_count == 50
    until(lambda: listed(broker)[0]["failed"] >= 2)
    assert listed(broker)[0]["last_error"] == "no answer within 50 ms"
    connection.close()


def test_webhooks_come_and_go_by_a_reload(hook: Hook, receiver: Receiver) -> None:
    broker = hook()
    assert listed(broker) == []
    connection = connect(broker)
    channel = connection.channel()
    first: dict[str, object] = {"url": f"{receiver.url}/1", "events": ["queue.created"]}
    hook(first)
    channel.queue_declare("q1", durable=True)
    until(lambda: listed(broker)[0]["sent"] == 1)
    hook({"url": f"{receiver.url}/2", "events": ["queue.created"]}, first)
    assert [each["sent"] for each in listed(broker)] == [0, 1], "the one that is as before goes on"
    channel.queue_declare("q2", durable=True)
    until(lambda: [each["sent"] for each in listed(broker)] == [1, 2])
    hook()
    channel.queue_declare("q3", durable=True)
    assert listed(broker) == []
    assert len(receiver.requests) == 3
    connection.close()


def test_what_waits_when_the_broker_stops_is_sent_while_it_has_time(start_broker: Start, receiver: Receiver) -> None:
    broker = start_broker(webhooks=[{"url": receiver.url, "events": ["queue.created"], "workers": 1}])
    connection = connect(broker)
    channel = connection.channel()
    for number in range(20):
        channel.queue_declare(f"q{number}", durable=True)
    broker.stop()
    assert len(receiver.requests) == 20
