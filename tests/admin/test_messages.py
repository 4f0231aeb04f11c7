"""Messages over HTTP: published, got and taken away as RabbitMQ's API does it."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import pika
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.broker_process import BrokerProcess, running

WAIT_S_MAX = 60
CREATED, DONE, BAD, MISSING = 201, 204, 400, 404
Facts = dict[str, Any]


@pytest.fixture(scope="module")
def api(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{broker.http_url}/api", auth=("guest", "guest"), timeout=WAIT_S_MAX) as client:
        yield client


@pytest.fixture
def queue(api: httpx.Client) -> Iterator[str]:
    """Path of an empty queue with a dead-letter queue."""
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    api.put("/queues/%2F/dead", json={"durable": True})
    api.put("/queues/%2F/mail", json={"durable": True, "arguments": dead})
    yield "/queues/%2F/mail"
    api.delete("/queues/%2F/mail")
    api.delete("/queues/%2F/dead")


def publish(api: httpx.Client, payload: str, exchange: str = "amq.default", **fields: object) -> httpx.Response:
    body = {"properties": {}, "routing_key": "mail", "payload": payload, "payload_encoding": "string", **fields}
    return api.post(f"/exchanges/%2F/{exchange}/publish", json=body)


def get(
    api: httpx.Client, queue: str, count: int = 1, ackmode: str = "ack_requeue_false", **fields: object
) -> list[Facts]:
    body = {"count": count, "ackmode": ackmode, "encoding": "auto", **fields}
    answer = api.post(f"{queue}/get", json=body)
    assert answer.status_code == 200, answer.text
    found: list[Facts] = answer.json()
    return found


HEADERS: Facts = {"text": "ü", "number": 5, "float": 1.5, "list": [1, "x", None], "table": {"deep": True}}
PROPERTIES: Facts = {
    "content_type": "text/plain",
    "content_encoding": "utf-8",
    "delivery_mode": 2,
    "priority": 3,
    "correlation_id": "c",
    "reply_to": "r",
    "expiration": "60000",
    "message_id": "m",
    "timestamp": 1_700_000_000,
    "type": "t",
    "user_id": "guest",
    "app_id": "a",
    "cluster_id": "west",
    "headers": HEADERS,
}


def test_a_message_comes_out_as_it_went_in(api: httpx.Client, queue: str, broker: BrokerProcess) -> None:
    assert publish(api, "päyload", properties=PROPERTIES).json() == {"routed": True}
    (shown,) = get(api, queue, ackmode="ack_requeue_true")
    assert shown == {
        "payload_bytes": 8,
        "redelivered": False,
        "exchange": "",
        "routing_key": "mail",
        "message_count": 0,
        "properties": {**PROPERTIES, "headers": {**HEADERS, "list": [1, "x", "undefined"]}},
        "payload": "päyload",
        "payload_encoding": "string",
    }
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        method, properties, body = connection.channel().basic_get("mail", auto_ack=True)
    assert (method.redelivered, body.decode()) == (True, "päyload")
    # pika takes floating-point numbers for whole ones.
    whole = {**HEADERS, "float": 1}
    assert {name: properties.headers[name] for name in whole} == whole
    assert (properties.expiration, properties.priority, properties.timestamp) == ("60000", 3, 1_700_000_000)


def test_messages_are_shown_as_rabbitmq_shows_them(api: httpx.Client, queue: str, broker: BrokerProcess) -> None:
    octets = bytes(range(128, 188))
    said = {"void": None, "list": [None, octets], "octets": octets, "text": "ü".encode()}
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.basic_publish("", "mail", b"plain")
        channel.basic_publish("", "mail", b"said", pika.BasicProperties(headers=said))
    plain, other = get(api, queue, -1)
    assert plain["properties"] == []
    encoded = base64.b64encode(octets).decode()
    shown = f"Not UTF-8, base64 is: {encoded[:76]}\n{encoded[76:]}"
    headers = {"void": "undefined", "list": ["undefined", shown], "octets": shown, "text": "ü"}
    assert other["properties"] == {"headers": headers}


def test_octets_go_in_base64(api: httpx.Client, queue: str) -> None:
    octets = base64.b64encode(b"\xff\x00\xfe").decode()
    assert publish(api, octets, payload_encoding="base64").json() == {"routed": True}
    (shown,) = get(api, queue, ackmode="ack_requeue_true")
    assert (shown["payload"], shown["payload_encoding"], shown["payload_bytes"]) == (octets, "base64", 3)
    (cut,) = get(api, queue, encoding="base64", truncate=1)
    assert (base64.b64decode(cut["payload"]), cut["payload_bytes"]) == (b"\xff", 3)
    assert "no base64" in publish(api, "%%%", payload_encoding="base64").json()["reason"]


def test_what_becomes_of_got_messages(api: httpx.Client, queue: str) -> None:
    for number in range(4):
        publish(api, str(number))
    assert [each["payload"] for each in get(api, queue, 10, "ack_requeue_true")] == ["0", "1", "2", "3"]
    again = get(api, queue, 2, "reject_requeue_true")
    assert [(each["payload"], each["redelivered"], each["message_count"]) for each in again] == [
        ("0", True, 3),
        ("1", True, 2),
    ]
    assert [each["payload"] for each in get(api, queue, 1, "reject_requeue_false")] == ["0"]
    (dead,) = get(api, "/queues/%2F/dead")
    assert dead["properties"]["headers"]["x-death"][0]["reason"] == "rejected"
    assert [each["payload"] for each in get(api, queue, 1)] == ["1"]
    assert [each["payload"] for each in get(api, queue, 10)] == ["2", "3"]
    assert get(api, queue, 10) == []
    assert get(api, queue, 0) == []
    for number in range(3):
        publish(api, str(number))
    assert [each["payload"] for each in get(api, queue, -1)] == ["0", "1", "2"], "below 0: all that there are"


def test_a_queue_is_emptied(api: httpx.Client, queue: str) -> None:
    publish(api, "x")
    assert api.delete(f"{queue}/contents").status_code == DONE
    assert get(api, queue) == []
    assert api.delete("/queues/%2F/nowhere/contents").status_code == MISSING


def test_messages_go_where_exchanges_lead(api: httpx.Client, queue: str) -> None:
    api.post("/bindings/%2F/e/amq.topic/q/mail", json={"routing_key": "a.#"})
    api.post("/bindings/%2F/e/amq.headers/q/mail", json={"arguments": {"colour": "red"}})
    assert publish(api, "topic", "amq.topic", routing_key="a.b").json() == {"routed": True}
    assert publish(api, "nobody", "amq.topic", routing_key="b").json() == {"routed": False}
    red = {"headers": {"colour": "red"}}
    assert publish(api, "headers", "amq.headers", properties=red).json() == {"routed": True}
    copied = {"headers": {"CC": ["mail"]}}
    assert publish(api, "copied", routing_key="nobody", properties=copied).json() == {"routed": True}
    assert [each["payload"] for each in get(api, queue, 5)] == ["topic", "headers", "copied"]
    delayed = {"headers": {"x-delay": 3_600_000, "x-delay-id": "later"}}
    assert publish(api, "later", properties=delayed).json() == {"routed": True}
    assert api.delete("/forebay/delayed/%2F/later").status_code in {200, DONE}


def test_a_full_queue_refuses(api: httpx.Client) -> None:
    full = {"durable": True, "arguments": {"x-max-length": 1, "x-overflow": "reject-publish"}}
    assert api.put("/queues/%2F/full", json=full).status_code == CREATED
    assert publish(api, "1", routing_key="full").json() == {"routed": True}
    refused = publish(api, "2", routing_key="full")
    assert refused.status_code == BAD
    assert "rejected: queue 'full'" in refused.json()["reason"]
    api.delete("/queues/%2F/full")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"properties": {"delivery_mode": "x"}}, "delivery_mode: 'x' is no whole number"),
        ({"properties": {"priority": 256}}, "priority: 256 is no whole number from 0 to 255"),
        ({"properties": {"expiration": 1000}}, "expiration: 1000 is no text"),
        ({"properties": {"expiration": "soon"}}, "invalid expiration 'soon'"),
        ({"properties": {"headers": []}}, ""),
        ({"properties": {"headers": [1]}}, "headers: [1] is no object"),
        ({"properties": {"message_id": "x" * 256}}, "message_id"),
        ({"properties": {"user_id": "other"}}, "user_id property set to 'other'"),
        ({"properties": []}, ""),
        ({"properties": [1]}, "body.properties"),
        ({"payload_encoding": "odd"}, "body.payload_encoding: 'odd'"),
        ({"payload": None}, "body.payload"),
        ({"properties": {"headers": {"x": 1 << 70}}}, "more than 64 bits"),
    ],
)
def test_what_no_message_can_be_is_refused(api: httpx.Client, queue: str, fields: Facts, text: str) -> None:
    answer = publish(api, "x", **fields) if "payload" not in fields else publish(api, **fields)
    if not text:
        assert answer.json() == {"routed": True}
        return
    assert (answer.status_code, text in answer.json()["reason"]) == (BAD, True), answer.text
    assert get(api, queue) == []


def test_what_cannot_be_got(api: httpx.Client) -> None:
    api.put("/queues/%2F/stream", json={"durable": True, "arguments": {"x-queue-type": "stream"}})
    body = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert "not supported by stream" in api.post("/queues/%2F/stream/get", json=body).json()["reason"]
    assert api.post("/queues/%2F/nowhere/get", json=body).status_code == MISSING
    assert api.post("/queues/%2F/stream/get", json={**body, "ackmode": "odd"}).status_code == BAD
    odd = api.post("/queues/%2F/stream/get", json={**body, "encoding": "odd"})
    assert odd.json() == {"error": "bad_request", "reason": "Unsupported encoding. Please use auto or base64."}
    assert api.post("/exchanges/%2F/nowhere/publish", json={}).status_code == BAD
    assert publish(api, "x", "nowhere").status_code == MISSING
    api.delete("/queues/%2F/stream")


def test_published_is_on_the_disk(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("killed"), http="127.0.0.1:0") as process:
        address = f"{process.http_url}/api"
        with httpx.Client(base_url=address, auth=("guest", "guest"), timeout=WAIT_S_MAX) as client:
            client.put("/queues/%2F/mail", json={"durable": True})
            for number in range(20):
                publish(client, str(number), properties={"delivery_mode": 2})
            assert [each["payload"] for each in get(client, "/queues/%2F/mail", 5)] == list("01234")
        process.kill9()
        process.start()
        with httpx.Client(base_url=address, auth=("guest", "guest"), timeout=WAIT_S_MAX) as client:
            found = [each["payload"] for each in get(client, "/queues/%2F/mail", 100)]
            assert found == [str(number) for number in range(5, 20)]


texts = st.text(st.characters(codec="utf-8"), max_size=30)
values = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
headers = st.dictionaries(
    st.text("abü", min_size=1, max_size=4),
    st.recursive(values, lambda inner: st.lists(inner, max_size=3), max_leaves=5),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=texts, said=headers, kind=st.none() | st.text("ab/", min_size=1))
def test_whatever_json_says_comes_back(
    api: httpx.Client, queue: str, payload: str, said: Facts, kind: str | None
) -> None:
    properties = {"headers": said} if said else {}
    if kind is not None:
        properties["content_type"] = kind  # type: ignore[assignment]
    assert publish(api, payload, properties=properties).json() == {"routed": True}
    (shown,) = get(api, queue)
    if said:
        properties["headers"] = without_void(said)
    assert (shown["payload"], shown["properties"]) == (payload, properties or [])


def without_void(value: Any) -> Any:
    """As RabbitMQ shows it: a value of no type has a name."""
    if isinstance(value, dict):
        return {name: without_void(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_void(each) for each in value]
    return "undefined" if value is None else value
