"""Every operation answers a real broker's caller in the shape that it declares."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import httpx
import paho.mqtt.client as paho
import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from forebay.management.requests.table import REQUESTS
from forebay.management.table import OPERATIONS
from tests.admin.clients import mqtt, open_channel
from tests.answer_shapes import check_shape
from tests.broker_process import BrokerProcess, running
from tests.waiting import until

Asked = list[tuple[str, dict[str, Any]]]

# Operations in an order in which each finds what it is about. Those before `READ` make things.
MADE: Asked = [
    ("vhost.add", {"vhost": "shop", "tags": ["new"], "queues_max": 10}),
    ("vhost.set", {"vhost": "shop", "description": "of the shop"}),
    ("user.add", {"user": "ann", "tags": ["management"]}),
    ("user.put", {"user": "bob", "tags": []}),
    ("user.password", {"user": "bob"}),
    ("user.tags", {"user": "bob", "tags": ["monitoring"]}),
    ("user.limits", {"user": "bob", "limits": {"connections_max": 5}}),
    ("permission.set", {"user": "ann", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}),
    ("topic_permission.set", {"user": "ann", "vhost": "shop", "exchange": "amq.topic", "write": ".*", "read": ".*"}),
    ("policy.set", {"policy": "all", "pattern": "^nothing", "definition": {"max-length": 5}}),
    ("operator_policy.set", {"policy": "most", "pattern": "^nothing", "definition": {"max-length": 5}}),
    ("parameter.set", {"component": "tool", "name": "at", "value": {"a": [1]}}),
    ("global_parameter.set", {"name": "at", "value": 1}),
    ("exchange.declare", {"exchange": "e", "type": "topic", "arguments": {"alternate-exchange": "amq.fanout"}}),
    ("queue.declare", {"queue": "made", "type": "quorum", "arguments": {"x-max-length": 100, "x-retain": "1h"}}),
    ("queue.declare", {"queue": "log", "type": "stream"}),
    ("binding.add", {"exchange": "e", "destination": "made", "routing_key": "a.#"}),
    ("binding.add", {"exchange": "e", "destination": "amq.fanout", "destination_type": "exchange"}),
    ("trace.start", {"name": "t", "pattern": "^work$", "events_max": 100}),
]
READ: Asked = [
    ("broker.status", {}),
    ("cluster.status", {}),
    ("queue.stats", {}),
    ("queue.stats", {"vhost": "/", "limit": 1}),
    ("config.show", {"limit": 1000}),
    ("config.reload", {}),
    ("webhook.list", {}),
    ("connection.list", {}),
    ("channel.list", {}),
    ("exchange.list", {}),
    ("binding.list", {}),
    ("binding.list", {"queue": "made"}),
    ("queue.list", {}),
    ("queue.show", {"queue": "work"}),
    ("queue.show", {"queue": "log"}),
    ("queue.explain", {"queue": "work"}),
    ("queue.messages", {"queue": "work"}),
    ("queue.messages", {"queue": "work", "limit": 1}),
    ("queue.tail", {"queue": "log", "from": 0}),
    ("queue.unsettled", {"queue": "work"}),
    ("stream.show", {"queue": "log"}),
    ("stream.show", {"queue": "work"}),
    ("stream.offset", {"queue": "log", "time_ms": 0}),
    ("message.show", {"queue": "work", "offset": 3}),
    ("message.explain", {"queue": "work", "offset": 3}),
    ("message.explain", {"message_id": "m4"}),
    ("message.explain", {"message_id": "later"}),
    ("message.explain", {"queue": "work", "offset": 1000}),
    ("message.explain", {"client_id": "sleeper"}),
    ("message.history", {"queue": "work", "offset": 3}),
    ("consumer.list", {}),
    ("group.list", {}),
    ("lease.list", {}),
    ("trace.list", {}),
    ("trace.show", {"name": "t"}),
    ("dlq.list", {}),
    ("dlq.show", {"queue": "dead"}),
    ("delayed.list", {}),
    ("transaction.list", {}),
    ("session.list", {}),
    ("session.show", {"client_id": "sleeper"}),
    ("session.show", {"client_id": "awake"}),
    ("session.messages", {"client_id": "sleeper"}),
    ("subscription.list", {}),
    ("retained.list", {}),
    ("retained.show", {"topic": "kept"}),
    ("retained.show", {"topic": "octets"}),
    ("policy.list", {}),
    ("operator_policy.list", {}),
    ("parameter.list", {}),
    ("global_parameter.list", {}),
    ("user.list", {}),
    ("permission.list", {}),
    ("topic_permission.list", {}),
    ("vhost.list", {}),
]
CHANGED: Asked = [
    ("lease.extend", {"queue": "work", "offset": 3, "extend_ms": 60_000}),
    ("lease.release", {"queue": "work", "offset": 3}),
    (
        "dlq.edit",
        {"queue": "dead", "offset": 0, "body_base64": "/w==", "headers": {"a": 1}},
    ),
    ("dlq.redrive", {"queue": "dead", "limit": 1}),
    ("dlq.redrive", {"queue": "dead", "offsets": [0, [1, 3]]}),
    ("dlq.purge", {"queue": "dead"}),
    ("queue.pause", {"queue": "made"}),
    ("queue.resume", {"queue": "made"}),
    ("group.pause", {"queue": "log", "group": "readers"}),
    ("group.resume", {"queue": "log", "group": "readers"}),
    ("queue.query", {"queue": "work", "select": "/n"}),
    ("queue.move", {"queue": "made", "to": "target"}),
    ("queue.move", {"queue": "target", "exchange": "e", "routing_key": "a.b"}),
    ("queue.settle", {"queue": "made", "action": "expire", "where": "/n = 2"}),
    ("queue.settle", {"queue": "made", "offsets": [1000, [1001, 1005]]}),
    ("queue.discard", {"queue": "made", "where": "/n = 1"}),
    ("queue.purge", {"queue": "made"}),
    ("queue.redeliver", {"queue": "made", "limit": 1}),
    ("queue.truncate", {"queue": "log", "below": 1}),
    ("group.commit", {"queue": "log", "group": "readers", "offset": 1}),
    ("group.seek", {"queue": "log", "group": "readers", "to": "first"}),
    ("group.delete", {"queue": "log", "group": "readers", "if_unused": False}),
    ("delayed.publish", {"name": "soon"}),
    ("delayed.cancel", {"name": "late"}),
    ("trace.stop", {"name": "t"}),
    ("session.close", {"client_id": "awake"}),
    ("session.delete", {"client_id": "sleeper"}),
    ("retained.delete", {"topic": "kept"}),
    ("policy.clear", {"policy": "all"}),
    ("operator_policy.clear", {"policy": "most"}),
    ("parameter.clear", {"component": "tool", "name": "at"}),
    ("global_parameter.clear", {"name": "at"}),
    ("binding.delete", {"exchange": "e", "destination": "made", "routing_key": "a.#"}),
    ("exchange.delete", {"exchange": "e"}),
    ("queue.delete", {"queue": "made"}),
    ("topic_permission.clear", {"user": "ann", "vhost": "shop"}),
    ("permission.clear", {"user": "ann", "vhost": "shop"}),
    ("user.delete", {"user": "bob"}),
    ("vhost.delete", {"vhost": "shop"}),
]
# Asked apart: those about a connection's number, and those that a broker which stands alone refuses.
APART = {"connection.explain", "connection.close", "group.release"}
REFUSED = {"cluster.transfer", "cluster.remove", "cluster.drain", "cluster.undrain"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("broker"), http="127.0.0.1:0") as broker:
        yield broker


def ask(http: httpx.Client, name: str, given: dict[str, Any]) -> Any:
    """Return the answer of an operation, once it has the shape that is declared."""
    answer = http.post(f"/operations/{name}", json=given)
    assert answer.status_code == 200, f"{name} {given}: {answer.text}"
    found = answer.json()
    check_shape(name, found)
    return found


def fill(channel: BlockingChannel) -> None:
    """Publish messages, of which some are held, some have died and some wait for their time."""
    channel.queue_declare("dead", durable=True)
    channel.queue_declare("target", durable=True)
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    channel.queue_declare("work", durable=True, arguments=arguments)
    for number in range(6):
        properties = pika.BasicProperties(headers={"n": number}, message_id=f"m{number}", delivery_mode=2)
        channel.basic_publish("", "work", json.dumps({"n": number}).encode(), properties)
        channel.basic_publish("", "log", b"\xff\xfe", properties)
        channel.basic_publish("", "made", b"made", properties)
    for _ in range(3):
        method, _, _ = channel.basic_get("work")
        assert method is not None
        channel.basic_reject(method.delivery_tag, requeue=False)


def offline(broker: BrokerProcess) -> None:
    """Leave a durable session with messages that wait for it, and retained messages."""
    with mqtt(broker, "sleeper", expiry_s=1000) as client:
        subscribe(client, "room/#")
    with mqtt(broker, "") as client:
        for topic, body, retain in (("room/1", "warm", False), ("kept", "text", True), ("octets", b"\xff", True)):
            client.publish(topic, body, 1, retain).wait_for_publish(30)


def subscribe(client: paho.Client, filter: str) -> None:
    heard: list[int] = []
    client.on_subscribe = lambda *each: heard.append(1)
    client.subscribe(filter, 1)
    until(lambda: heard)


def test_every_operation_declares_its_request_and_answer() -> None:
    for name, operation in OPERATIONS.items():
        hints = get_type_hints(operation.performed)
        assert operation.request is REQUESTS[name]
        assert REQUESTS[name] in (hints["given"], *get_args(hints["given"])), name
        assert operation.answer() is operation.answer(), "found once"


def test_every_operation_answers_in_its_shape(broker: BrokerProcess) -> None:
    asked = {name for name, _ in (*MADE, *READ, *CHANGED)}
    assert asked | APART | REFUSED == set(OPERATIONS)
    base = broker.http_url + "/api/forebay"
    with httpx.Client(base_url=base, auth=("guest", "guest"), timeout=60) as http, open_channel(broker) as channel:
        for name, given in MADE:
            ask(http, name, given)
        fill(channel)
        offline(broker)
        for key, wait_ms in (("soon", 10**7), ("late", 10**7)):
            answer = http.post(
                f"{broker.http_url}/publish/$queue/work",
                params={"delay_ms": wait_ms},
                content=b"later",
                headers={"X-Message-Id": "later", "Idempotency-Key": key},
            )
            assert answer.status_code == 202, answer.text
        waiting = [each["number"] for each in ask(http, "delayed.list", {})["items"]]
        numbers = dict(zip(("soon", "late"), map(str, waiting), strict=True))
        channel.basic_qos(prefetch_count=2)
        channel.basic_consume("work", lambda *each: None)
        reader = channel.basic_consume(
            "log", lambda *each: None, arguments={"x-stream-offset": "first", "x-consumer-group": "readers"}
        )
        until(lambda: ask(http, "lease.list", {})["total"] > 0)
        with mqtt(broker, "awake", manual=True) as client:
            subscribe(client, "room/#")
            client.publish("room/2", "x", 1).wait_for_publish(30)
            for name, given in READ:
                ask(http, name, given)
            for each in ask(http, "connection.list", {})["items"]:
                ask(http, "connection.explain", {"id": each["id"]})
            channel.basic_cancel(reader)
            for name, given in CHANGED:
                named = {"name": numbers.get(given["name"], given["name"])} if "name" in given else {}
                ask(http, name, {**given, **named})
        for name in REFUSED:
            assert http.post(f"/operations/{name}", json={"node": "n"}).status_code == 400, name
        assert http.post("/operations/group.release", json={"queue": "log", "group": "nobody"}).status_code == 404
        with mqtt(broker, "closed"):
            known = ask(http, "connection.list", {})["items"]
            ask(
                http,
                "connection.close",
                {"id": next(each["id"] for each in known if each.get("client_id") == "closed")},
            )
