"""Queues and exchanges whose names are no UTF-8, taken over AMQP, are shown, used and deleted over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import amqp  # type: ignore[import-untyped]
import httpx
import pytest

from tests.broker_process import BrokerProcess

QUEUE = b"q \xff/\x80\\xff"
EXCHANGE = b"x\xc3\xe9"
IN_PATH = "q%20%FF%2F%80%5Cxff"
X_IN_PATH = "x%C3%E9"
Q, X = f"/queues/%2F/{IN_PATH}", f"/exchanges/%2F/{X_IN_PATH}"


@pytest.fixture
def api(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{broker.http_url}/api", auth=("guest", "guest"), timeout=60) as client:
        yield client
        client.delete(Q)
        client.delete(X)


@pytest.fixture
def declared(broker: BrokerProcess, api: httpx.Client) -> Iterator[amqp.Channel]:
    """Both of them, bound to each other."""
    with amqp.Connection(f"127.0.0.1:{broker.amqp_port}") as connection:
        channel = connection.channel()
        channel.exchange_declare(EXCHANGE, "direct", durable=True, auto_delete=False)
        channel.queue_declare(QUEUE, durable=True, auto_delete=False, nowait=True)  # it cannot read the answer
        channel.queue_bind(QUEUE, EXCHANGE, "key")
        yield channel


def listed(api: httpx.Client, path: str) -> list[Any]:
    """What a list has that is no UTF-8."""
    return [each for each in api.get(path).json() if "name_in_path" in each]


@pytest.mark.usefixtures("declared")
def test_a_list_leads_to_them_and_they_are_deleted(api: httpx.Client) -> None:
    for path in ("/queues", "/queues/%2F?disable_stats=true", "/exchanges", "/exchanges/%2F"):
        (found,) = listed(api, path)
        kind = path.split("/")[1]
        own = f"/{kind}/%2F/{found['name_in_path']}"
        assert own == (Q if kind == "queues" else X)
        shown = api.get(own)
        assert (shown.status_code, shown.json()["name"]) == (200, found["name"])
    assert api.delete(Q).status_code == 204
    assert api.delete(X).status_code == 204
    assert listed(api, "/queues") == listed(api, "/exchanges") == []
    assert api.delete(Q).status_code == 404
    assert r"q \xff/\x80\xff" in api.get(Q).json()["reason"]


@pytest.mark.usefixtures("declared")
def test_they_are_used_as_others(api: httpx.Client) -> None:
    message = {"properties": {}, "routing_key": "key", "payload": "m", "payload_encoding": "string"}
    assert api.post(f"{X}/publish", json=message).json() == {"routed": True}
    own = f"/forebay{Q}"
    assert len(api.get(f"{own}/messages").json()["items"]) == 1
    (got,) = api.post(f"{Q}/get", json={"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}).json()
    assert got["payload"] == "m"
    assert api.delete(f"{Q}/contents").status_code == 204
    between = f"/bindings/%2F/e/{X_IN_PATH}/q/{IN_PATH}"
    (binding,) = api.get(between).json()
    assert api.get(f"{X}/bindings/source").json() == [binding]
    assert api.delete(f"{between}/{binding['properties_key']}").status_code == 204
    answer = api.post(between, json={"routing_key": "other"})
    assert answer.status_code == 201
    assert answer.headers["location"].startswith(f"{IN_PATH}/")
    assert [each["routing_key"] for each in api.get(between).json()] == ["other"]
    assert api.delete(f"{own}/messages").json()["done"] == 0


def test_they_are_declared_as_others(api: httpx.Client) -> None:
    assert [api.put(Q, json={"durable": True}).status_code for _ in range(2)] == [201, 204]
    assert [api.put(X, json={"type": "direct"}).status_code for _ in range(2)] == [201, 204]
    assert [each["name_in_path"] for each in listed(api, "/queues")] == [IN_PATH]
    assert api.put("/queues/%2F/%C3%A9", json={"durable": True}).status_code == 201
    assert "name_in_path" not in api.get("/queues/%2F/%C3%A9").json()


def test_what_only_text_can_name_is_refused_by_other_names(api: httpx.Client) -> None:
    """They became U+FFFD: whoever made a user of one name had one of another."""
    for method, path in (
        ("GET", "/queues/%FF/x"),
        ("PUT", "/users/%FF"),
        ("PUT", "/vhosts/a%C3"),
        ("GET", "/nodes/%80"),
    ):
        answer = api.request(method, path, json={"password": "x", "tags": ""})
        assert (answer.status_code, "is no UTF-8" in answer.json()["reason"]) == (400, True), path
    assert all("\ufffd" not in each["name"] for each in api.get("/users").json())
