"""A request that says more than anybody looks at is refused, on every route of forebay's own API and of the bridge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import httpx
import pytest

from forebay.admin.api import all_routes
from tests.broker_process import BrokerProcess

WAIT_S_MAX: Final = 60
OWN: Final = ("/api/forebay/", "/publish", "/subscribe/", "/ack")
NAMES: Final = {"vhost": "%2F", "offset": "0"}
UNKNOWN: Final = "no-such-name"
RAW: Final = ("/publish/{topic}",)  # the body is the message
LISTS: Final = ("/publish",)


def own_routes() -> list[tuple[str, str]]:
    """Method and path of every route of ours."""
    return sorted(
        (method, route.path_format)
        for route in all_routes().all
        if route.path_format.startswith(OWN)
        for method in route.methods
    )


@pytest.fixture(scope="module")
def http(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=WAIT_S_MAX) as client:
        yield client


def filled(path: str) -> str:
    for part in path.split("/"):
        if part.startswith("{"):
            name = part.strip("{}")
            path = path.replace(part, NAMES.get(name, "some"))
    return path


def refusal(answer: httpx.Response) -> str:
    assert answer.status_code == 400, (answer.request.method, answer.request.url, answer.text)
    return str(answer.json()["reason"])


def test_every_route_refuses_a_parameter_that_it_does_not_know(http: httpx.Client) -> None:
    routes = own_routes()
    assert len(routes) > 100
    for method, path in routes:
        assert UNKNOWN in refusal(http.request(method, filled(path), params={UNKNOWN: "1"}))


def test_every_route_refuses_a_field_that_it_does_not_know(http: httpx.Client) -> None:
    for method, path in own_routes():
        if path not in RAW:
            body = [{UNKNOWN: 1}] if path in LISTS else {UNKNOWN: 1}
            assert UNKNOWN in refusal(http.request(method, filled(path), json=body)), path


def test_a_refusal_says_what_may_have_been_meant(http: httpx.Client) -> None:
    assert "did you mean where?" in refusal(
        http.request("DELETE", "/api/forebay/queues/%2F/some/messages", params={"wher": "/n < 5"})
    )
    said = refusal(http.request("POST", "/api/forebay/queues/%2F/some/move", params={"to": "other"}))
    assert "it is a field of the body" in said
    assert "did you mean offsets?" in refusal(
        http.post("/ack", json={"queue": "some", "offset": [1]}),
    )
    path = "/api/forebay/queues/%2F/some/messages"
    said = refusal(http.request("DELETE", path, json={"wher": "/n < 5"}))
    assert "'wher' is no field of what" in said and "did you mean where?" in said
    assert "no JSON" in refusal(http.post("/ack", content=b"{", headers={"content-type": "application/json"}))
    assert "takes none" in refusal(http.request("DELETE", "/api/forebay/leases/%2F/some/0", content=b"5"))
    assert "more than once" in refusal(http.get("/api/forebay/groups/%2F?queue=a&queue=b"))


def test_nobody_is_told_of_fields_before_a_login(broker: BrokerProcess) -> None:
    answer = httpx.post(f"{broker.http_url}/ack", json={"offset": [1]}, auth=("guest", "wrong"), timeout=WAIT_S_MAX)
    assert answer.status_code == 401, answer.text


def test_a_condition_in_the_query_chooses_what_is_discarded(http: httpx.Client) -> None:
    http.put("/api/queues/%2F/orders", json={"durable": True}).raise_for_status()
    for number in range(20):
        http.post("/publish/$queue/orders", json={"n": number}).raise_for_status()
    path = "/api/forebay/queues/%2F/orders/messages"
    assert http.request("DELETE", path, params={"where": "/n < 5"}).json()["done"] == 5
    assert http.request("DELETE", path, params={"from": 15, "limit": 2}).json()["done"] == 2
    assert "not by both" in refusal(http.request("DELETE", path, params={"where": "/n < 9"}, json={"where": "/n < 9"}))
    assert http.request("DELETE", path, json={}).json()["done"] == 13


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("PUT", "/queues/%2F/slip", {"durabel": True}, "'durabel' is no field: did you mean durable?"),
        ("PUT", "/exchanges/%2F/slip", {"autodelete": True}, "'autodelete' is no field: did you mean auto_delete?"),
        ("PUT", "/users/slip", {"pasword": "x", "tags": ""}, "'pasword' is no field: did you mean password?"),
        (
            "PUT",
            "/policies/%2F/slip",
            {"pattern": "", "definition": {"max-length": 1}, "applyto": "queues"},
            "'applyto' is no field: did you mean apply_to?",
        ),
        (
            "POST",
            "/exchanges/%2F/amq.default/publish",
            {"routing_key": "x", "payload": "x", "payload_encoding": "string", "properties": {"delivery_mod": 2}},
            "properties: 'delivery_mod' is no property: did you mean delivery_mode?",
        ),
        ("GET", "/queues?colums=name", None, "query: 'colums' is no parameter: did you mean columns?"),
    ],
)
def test_a_slip_is_refused_where_rabbitmq_takes_what_it_does_not_know(
    http: httpx.Client, method: str, path: str, body: object, said: str
) -> None:
    assert said in refusal(http.request(method, "/api" + path, json=body))
    assert http.get("/api/queues/%2F/slip").status_code == 404


def test_what_is_like_nothing_says_nothing_to_rabbitmqs_api(http: httpx.Client) -> None:
    body = {"durable": True, "x": 1, "name": "taken", "vhost": "/"}
    assert http.put("/api/queues/%2F/taken", json=body).status_code == 201
    answer = http.get("/api/queues?lengths_age=60&msg_rates_incr=5&use_regex=false&pagination=true&_=1")
    assert answer.status_code == 200
