"""Messages over HTTP: published one by one and in batches, and read as Server-Sent Events, against real clients."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Queue

import httpx
import pika
import pytest

from tests.admin.clients import mqtt, publish_mqtt
from tests.broker_process import BrokerProcess, running
from tests.conformance.mqtt.raw import connected
from tests.waiting import until

WAIT_S_MAX = 60
Event = dict[str, object]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    options = {"message_octets_max": 200_000, "send_buffer_octets_max": 65_536}
    with running(tmp_path_factory.mktemp("bridge"), http="127.0.0.1:0", **options) as broker:
        yield broker


@pytest.fixture(scope="module")
def http(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as client:
        yield client


def run(http: httpx.Client, operation: str, **arguments: object) -> dict[str, object]:
    answer = http.post(f"/api/forebay/operations/{operation}", json=arguments)
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def messages(http: httpx.Client, queue: str) -> list[Event]:
    answer = http.get(f"/api/forebay/queues/%2F/{queue}/messages", params={"limit": 1000})
    items: list[Event] = answer.json()["items"]
    return items


def readers(http: httpx.Client) -> list[Event]:
    """The connections of subscribers over HTTP."""
    items = run(http, "connection.list")["items"]
    assert isinstance(items, list)
    return [each for each in items if each["protocol"] == "HTTP events"]


class Subscriber:
    """Reads events in a thread; `comments` are the lines that only say that the connection lives."""

    def __init__(self, http: httpx.Client, path: str, **request: object) -> None:
        self.events: Queue[Event] = Queue()
        self.comments = 0
        self.status = 0
        self.reason = ""
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._read, args=(http, path, request), daemon=True)
        self._thread.start()
        assert self._begun.wait(WAIT_S_MAX)

    def _read(self, http: httpx.Client, path: str, request: dict[str, object]) -> None:
        # When the test is through, the socket is closed under it.
        with suppress(httpx.TransportError), http.stream("GET", path, **request) as answer:  # type: ignore[arg-type]
            self.status = answer.status_code
            self._socket = answer.extensions["network_stream"].get_extra_info("socket")
            if self.status != 200:
                self.reason = json.loads(answer.read())["reason"]
                self._begun.set()
                return
            event: Event = {}
            for line in answer.iter_lines():
                self._begun.set()  # it has subscribed when its first octets come
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    name, _, value = line.partition(": ")
                    event[name] = json.loads(value) if name == "data" else value
                elif "data" in event:
                    self.events.put(event)
                    event = {}

    def take(self, count: int) -> list[Event]:
        return [self.events.get(timeout=WAIT_S_MAX) for _ in range(count)]

    def payloads(self, count: int) -> list[object]:
        return [each["data"]["payload"] for each in self.take(count)]  # type: ignore[index]

    def stop(self) -> None:
        with suppress(OSError):  # it is closed already where the broker has ended it
            self._socket.shutdown(socket.SHUT_RDWR)
        self.wait()

    def wait(self) -> None:
        self._thread.join(WAIT_S_MAX)
        assert not self._thread.is_alive()


@contextmanager
def subscribed(http: httpx.Client, path: str, **request: object) -> Iterator[Subscriber]:
    with httpx.Client(base_url=http.base_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as own:
        subscriber = Subscriber(own, path, **request)
        yield subscriber
        subscriber.stop()


def test_a_message_goes_to_a_queue_with_all_it_says(http: httpx.Client, broker: BrokerProcess) -> None:
    run(http, "queue.declare", queue="orders")
    headers = {"Content-Type": "application/json", "X-Region": "eu", "X-Forwarded-For": "1.2.3.4"}
    parameters = {"priority": "3", "expiration_s": "1000", "key": "k1"}
    answer = http.post("/publish/$queue/orders", content=b'{"total": 7}', headers=headers, params=parameters)
    assert (answer.status_code, answer.json()) == (200, {"routed": True, "offsets": {"orders": 0}})
    (message,) = messages(http, "orders")
    assert message["body"] == '{"total": 7}'
    assert message["properties"]["content_type"] == "application/json"  # type: ignore[index]
    assert message["headers"]["x-region"] == "eu"  # type: ignore[index]
    assert "x-forwarded-for" not in message["headers"]  # type: ignore[operator]
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        _, properties, body = connection.channel().basic_get("orders", auto_ack=True)
        assert (body, properties.priority, properties.content_type) == (b'{"total": 7}', 3, "application/json")
        assert 0 < int(properties.expiration) <= 1_000_000
    broker.kill9()
    broker.start()
    assert run(http, "queue.show", queue="orders")["end"] == 1


def test_a_topic_reaches_mqtt_clients_and_is_retained(http: httpx.Client, broker: BrokerProcess) -> None:
    got: Queue[tuple[str, bytes, bool]] = Queue()
    with mqtt(broker, "listener") as client:
        client.on_message = lambda _, __, message: got.put((message.topic, bytes(message.payload), message.retain))
        client.subscribe("home/#", 1)
        until(lambda: http.get("/api/forebay/sessions/%2F/listener").json()["subscriptions"] == 1)
        assert http.post("/publish/home/hall%2Flight", content=b"on").json()["routed"] is True
        assert got.get(timeout=WAIT_S_MAX) == ("home/hall/light", b"on", False)
        answer = http.post("/publish/home/kept", content=b"\xff\x00", params={"retain": True})
        assert answer.status_code == 200
        assert got.get(timeout=WAIT_S_MAX)[1] == b"\xff\x00"
    shown = http.get("/api/forebay/retained/%2F/message", params={"topic": "home/kept"}).json()
    assert (shown["body_base64"], shown["content_type"]) == ("/wA=", None)
    assert http.post("/publish/nobody/listens", content=b"x").json() == {"routed": False, "offsets": {}}


def test_a_repeated_request_publishes_once_also_after_kill_9(http: httpx.Client, broker: BrokerProcess) -> None:
    run(http, "queue.declare", queue="once")

    def pay(key: str) -> Event:
        answer = http.post("/publish/$queue/once", content=b"pay", headers={"Idempotency-Key": key})
        found: Event = answer.json()
        return found

    assert pay("payment-1") == {"routed": True, "offsets": {"once": 0}}
    assert pay("payment-1") == {"routed": True, "offsets": {}, "duplicate": True}
    broker.kill9()
    broker.start()
    assert pay("payment-1")["duplicate"] is True
    assert pay("payment-2")["offsets"] == {"once": 1}
    assert len(messages(http, "once")) == 2


def test_a_message_may_wait_for_its_time(http: httpx.Client) -> None:
    run(http, "queue.declare", queue="later")
    answer = http.post("/publish/$queue/later", content=b"x", params={"delay_ms": 200})
    assert answer.status_code == 202
    assert answer.json()["due_ms"] > time.time() * 1000 - 60_000
    until(lambda: len(messages(http, "later")) == 1)


def test_what_cannot_be_is_refused_with_its_status(http: httpx.Client) -> None:
    run(http, "queue.declare", queue="small", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    assert http.post("/publish/$queue/small", content=b"1").status_code == 200
    full = http.post("/publish/$queue/small", content=b"2")
    assert (full.status_code, full.headers["Retry-After"]) == (429, "1")
    assert "queue 'small' is full" in full.json()["reason"]
    long = http.post("/publish/a", content=b"x" * 200_001)
    assert (long.status_code, "limit is 200000" in long.json()["reason"]) == (413, True)
    for path in ("/publish/a%2F%23", "/publish/$SYS/x", "/publish/$queue/q/$ack", "/publish/$delayed/1/x"):
        assert http.post(path, content=b"x").status_code == 400, path
    assert http.post("/publish/a", params={"qos": 3}).status_code == 400
    assert http.post("/publish/a", params={"delay_ms": -1}).status_code == 400
    assert http.post("/publish/a", params={"vhost": "none"}).status_code == 404
    assert http.post("/publish/a", auth=("guest", "wrong")).status_code == 401
    run(http, "user.add", user="eve", password="eve")
    run(http, "permission.set", user="eve", configure="", write="^amq.topic$", read="^$")
    run(http, "permission.set", user="eve", configure="", write="^x$", read="^x$")
    denied = http.post("/publish/a", auth=("eve", "eve"), content=b"x")
    assert (denied.status_code, "write access to exchange" in denied.json()["reason"]) == (403, True)
    assert http.get("/subscribe/a", auth=("eve", "eve")).status_code == 403


def test_a_batch_arrives_whole_and_in_order_however_it_is_split(http: httpx.Client) -> None:
    run(http, "queue.declare", queue="many")
    numbers = list(range(700))
    at = 0
    for size in (1, 0, 49, 50, 51, 249, 300):
        items = [{"topic": "$queue/many", "payload": {"n": n}} for n in numbers[at : at + size]]
        if size % 2:
            body = "\n".join(json.dumps(each) for each in items)
            answer = http.post("/publish", content=body, headers={"Content-Type": "application/x-ndjson"})
        else:
            answer = http.post("/publish", json=items)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert (found["published"], found["failed"]) == (size, 0)
        assert [each["offsets"] for each in found["results"]] == [{"many": n} for n in numbers[at : at + size]]
        at += size
    assert [json.loads(str(each["body"]))["n"] for each in messages(http, "many")] == numbers[:700]


def test_a_batch_is_checked_before_anything_is_published(http: httpx.Client) -> None:
    run(http, "queue.declare", queue="checked", arguments={"x-max-length": 2, "x-overflow": "reject-publish"})
    good = {"topic": "$queue/checked", "payload": "x"}
    bad: list[tuple[object, str]] = [
        ({"topic": "a/#"}, "wildcard"),
        ({"payload": "x"}, "topic is missing"),
        ({**good, "payload_base64": "eA=="}, "one of them"),
        ({"topic": "a", "payload_base64": "!"}, "no base64"),
        ({**good, "priority": 300}, "priority: 300"),
        ({**good, "headers": {"a": []}}, "headers.a"),
        ({**good, "colour": 1}, "colour: no such field"),
        ({**good, "qos": "1"}, "qos: is no whole number"),
        (7, "is no object"),
    ]
    for item, reason in bad:
        answer = http.post("/publish", json=[good, item])
        assert answer.status_code == 400
        assert "item 1" in answer.json()["reason"] and reason in answer.json()["reason"]
    assert http.post("/publish", json={"topic": "a"}).status_code == 400
    assert http.post("/publish", content=b"[").status_code == 400
    assert messages(http, "checked") == []
    answer = http.post("/publish", json=[good, good, good, {"topic": "t", "payload": "y"}]).json()
    assert [each["status"] for each in answer["results"]] == [200, 200, 429, 200]
    assert (answer["published"], answer["failed"]) == (3, 1)


def test_topics_are_read_as_events(http: httpx.Client, broker: BrokerProcess) -> None:
    publish_mqtt(broker, "sse/kept", "old", retain=True)
    with subscribed(http, "/subscribe/sse/%2B") as reader, subscribed(http, "/subscribe/sse/%23") as other:
        (first,) = reader.take(1)
        assert first["data"] == {"topic": "sse/kept", "payload": "old", "qos": 1, "retained": True}
        other.take(1)
        answer = http.post("/publish/sse/a", content=b"{}", headers={"Content-Type": "application/json", "X-N": "1"})
        assert answer.json()["routed"] is True
        (event,) = reader.take(1)
        expected = {"topic": "sse/a", "payload": "{}", "content_type": "application/json", "headers": {"x-n": "1"}}
        assert event == {"data": {**expected, "qos": 1}}
        assert other.take(1) == [event]
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
            connection.channel().basic_publish("amq.topic", "sse.b", b"\xff")
        (event,) = reader.take(1)
        assert event["data"] == {"topic": "sse/b", "payload_base64": "/w=="}
        assert len(readers(http)) == 2
    until(lambda: not readers(http))


def test_a_queue_is_replayed_and_read_on_by_the_last_id(http: httpx.Client) -> None:
    run(http, "queue.declare", queue="log", type="stream")
    items = [{"topic": "$queue/log", "payload": {"n": n}} for n in range(5)]
    assert http.post("/publish", json=items).json()["published"] == 5
    with subscribed(http, "/subscribe/$queue/log", params={"from": "first"}) as reader:
        events = reader.take(5)
        assert [each["id"] for each in events] == ["0", "1", "2", "3", "4"]
        assert [json.loads(each["data"]["payload"])["n"] for each in events] == [0, 1, 2, 3, 4]  # type: ignore[index]
        http.post("/publish/$queue/log", content=b'{"n": 5}')
        assert reader.take(1)[0]["id"] == "5"
    with subscribed(http, "/subscribe/$queue/log", headers={"Last-Event-ID": "3"}) as reader:
        assert [each["id"] for each in reader.take(2)] == ["4", "5"]
    with subscribed(http, "/subscribe/$queue/log", params={"from": "first", "where": "/n = 2"}) as reader:
        assert reader.take(1)[0]["id"] == "2"
    with subscribed(http, "/subscribe/$queue/none/%23", params={"where": "AND"}) as reader:
        assert (reader.status, "filter" in reader.reason) == (400, True)


@pytest.mark.parametrize("prefetch", [{}, {"prefetch": 2}])
def test_a_group_that_is_new_begins_with_the_first_message(http: httpx.Client, prefetch: dict[str, int]) -> None:
    run(http, "queue.declare", queue="all", type="stream")
    http.post("/publish", json=[{"topic": "$queue/all", "payload": str(n)} for n in range(2)])
    group = f"readers-{len(prefetch)}"
    with subscribed(http, "/subscribe/$queue/all", params={"group": group, **prefetch}) as reader:
        assert reader.payloads(2) == ["0", "1"]
    run(http, "queue.delete", queue="all")


def test_work_is_taken_and_settled(http: httpx.Client) -> None:
    run(http, "queue.declare", queue="jobs")
    http.post("/publish", json=[{"topic": "$queue/jobs", "payload": str(n)} for n in range(3)])
    with subscribed(http, "/subscribe/$queue/jobs", params={"prefetch": 2}) as worker:
        assert worker.payloads(2) == ["0", "1"]
        assert http.post("/ack", json={"queue": "jobs", "offsets": [0, 77]}).json() == {"settled": 1}
        (last,) = worker.take(1)
        assert (last["id"], last["data"]["deliveries"]) == ("2", 1)  # type: ignore[index]
        assert http.post("/ack", json={"queue": "jobs", "offsets": [1], "action": "nack"}).json() == {"settled": 1}
        (again,) = worker.take(1)
        assert (again["id"], again["data"]["deliveries"]) == ("1", 2)  # type: ignore[index]
        done = http.post("/ack", json={"queue": "jobs", "offsets": [1, 2]}).json()
        assert done == {"settled": 2}
        assert http.post("/ack", json={"queue": "none", "offsets": [1]}).status_code == 404
        assert http.post("/ack", json={"queue": "jobs", "offsets": [1], "action": "x"}).status_code == 400
    assert messages(http, "jobs") == []


@pytest.mark.parametrize(("leasing", "settled"), [("strict", 0), ("sublet", 1)])
def test_what_somebody_else_holds_is_settled_only_where_the_queue_is_sublet(
    http: httpx.Client, broker: BrokerProcess, leasing: str, settled: int
) -> None:
    run(http, "queue.declare", queue=leasing, arguments={"x-leasing": leasing})
    http.post("/publish", json=[{"topic": f"$queue/{leasing}", "payload": "1"}]).raise_for_status()
    worker = connected(broker, f"worker {leasing}")
    worker.subscribe(f"$queue/{leasing}/#")
    assert worker.delivery().body == b"1"
    assert http.post("/ack", json={"queue": leasing, "offsets": [0]}).json() == {"settled": settled}
    worker.close()


def test_readers_end_with_their_queue_and_user(http: httpx.Client) -> None:
    run(http, "queue.declare", queue="short", type="stream")
    with subscribed(http, "/subscribe/$queue/short") as reader:
        run(http, "queue.delete", queue="short")
        (end,) = reader.take(1)
        assert (end["event"], end["data"]) == ("end", {"reason": "queue 'short' was deleted"})
        reader.wait()
    with subscribed(http, "/subscribe/x") as reader:
        (own,) = readers(http)
        run(http, "connection.close", id=own["id"], reason="enough")
        assert reader.take(1)[0]["data"] == {"reason": "enough"}
        reader.wait()


def test_a_slow_reader_is_told_what_it_has_lost_and_holds_nobody_up(http: httpx.Client) -> None:
    with (
        httpx.Client(base_url=http.base_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as own,
        own.stream("GET", "/subscribe/flood") as answer,
        subscribed(http, "/subscribe/flood") as quick,
    ):
        body = b"x" * 50_000
        sent = 0

        def flood() -> None:  # what is sent to it is kept as long as its publishers are to wait for it
            nonlocal sent
            for _ in range(100):
                assert http.post("/publish/flood", content=body).status_code == 200
            assert len(quick.take(100)) == 100
            sent += 100

        until(lambda: len([each for each in readers(http) if each["dropped"]]) == 1, meanwhile=flood)
        got, dropped = 0, 0
        event = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                event = line.removeprefix("event: ")
            elif line.startswith("data: ") and event == "dropped":
                dropped += json.loads(line.removeprefix("data: "))["messages"]
                event = ""
            elif line.startswith("data: "):
                got += 1
            if got + dropped == sent:
                break
        assert dropped > 0 and got > 0
