"""RabbitMQ's lists over HTTP: pages, filters, orders, columns, and names that no path takes as they are."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pika
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.broker_process import BrokerProcess, running

QUEUES = [f"list-{number:03d}" for number in range(230)]
INVALID_PAGE = "invalid_pagination_parameters"
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40).filter(
    lambda name: len(name.encode()) <= 200 and not name.startswith("amq.")
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("lists"), http="127.0.0.1:0") as broker:
        parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            for name in QUEUES:
                channel.queue_declare(name, durable=True)
            for _ in range(3):
                channel.basic_publish("", QUEUES[7], b"message")
        yield broker


@pytest.fixture(scope="module")
def http(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as client:
        yield client


def listed(http: httpx.Client, **query: object) -> list[str]:
    """Names of the queues that an answer has."""
    answer = http.get("/api/queues", params={key: str(value) for key, value in query.items()})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    return [item["name"] for item in (body["items"] if isinstance(body, dict) else body)]


def test_all_queues_by_name(http: httpx.Client) -> None:
    names = listed(http, name="list-")
    assert names == QUEUES


@pytest.mark.parametrize("size", [1, 7, 100, 229, 230, 500])
def test_pages_together_are_the_list(http: httpx.Client, size: int) -> None:
    found: list[str] = []
    for page in itertools.count(1):
        body = http.get("/api/queues", params={"page": page, "page_size": size, "name": "list-"}).json()
        assert body["page"] == page
        assert body["page_size"] == size
        assert body["filtered_count"] == len(QUEUES)
        assert body["item_count"] == len(body["items"])
        assert body["total_count"] >= body["filtered_count"]
        found += [item["name"] for item in body["items"]]
        if page == body["page_count"]:
            break
    assert found == QUEUES


def test_the_last_comes_first(http: httpx.Client) -> None:
    assert listed(http, name="list-", sort_reverse="true") == QUEUES[::-1]
    assert listed(http, name="list-", sort="name", sort_reverse="true") == QUEUES[::-1]
    assert listed(http, name="list-", page=1, page_size=2, sort="messages", sort_reverse="true")[0] == QUEUES[7]
    assert (
        listed(http, name="list-", page=1, page_size=2, sort="message_stats.publish", sort_reverse="true")[0]
        == QUEUES[7]
    )


def test_an_order_by_what_nothing_has_is_no_error(http: httpx.Client) -> None:
    assert listed(http, name="list-", sort="no.such.field") == QUEUES


def test_names_are_filtered_in_either_case(http: httpx.Client) -> None:
    assert listed(http, name="LIST-00") == QUEUES[:10]
    assert listed(http, name="^LIST-00[0-4]$", use_regex="true") == QUEUES[:5]
    assert listed(http, name="nowhere") == []


def test_a_page_of_nothing(http: httpx.Client) -> None:
    body = http.get("/api/queues", params={"page": 1, "name": "nowhere"}).json()
    assert body["items"] == []
    assert (body["filtered_count"], body["page_count"]) == (0, 0)


def test_only_columns(http: httpx.Client) -> None:
    answer = http.get("/api/queues", params={"name": QUEUES[7], "columns": "name,message_stats.publish,no.such"})
    assert answer.json() == [{"name": QUEUES[7], "message_stats": {"publish": 3}}]
    one = http.get(f"/api/queues/%2F/{QUEUES[7]}", params={"columns": "messages,arguments"})
    assert one.json() == {"messages": 3, "arguments": {}}


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ({"use_regex": "true", "name": "("}, ("name", "'('")),
        ({"use_regex": "maybe"}, ("use_regex", "'maybe'")),
        ({"sort_reverse": "2"}, ("sort_reverse", "'2'")),
        ({"lengths_age": "-1", "lengths_incr": "5"}, ("lengths_age", "'-1'")),
    ],
)
def test_a_bad_value_is_named(http: httpx.Client, query: dict[str, str], named: tuple[str, ...]) -> None:
    answer = http.get("/api/queues", params=query)
    assert answer.status_code == 400
    body = answer.json()
    assert body["error"] == "bad_request"
    for part in named:
        assert part in body["reason"]


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        ("page=0", INVALID_PAGE, "Invalid pagination parameters: page number 0, page size undefined"),
        ("page=1&page_size=501", INVALID_PAGE, "Invalid pagination parameters: page number 1, page size 501"),
        ("page=-1&page_size=0", INVALID_PAGE, "Invalid pagination parameters: page number -1, page size 0"),
        ("page_size=501", INVALID_PAGE, "Invalid pagination parameters: page number undefined, page size 501"),
        ("page=x", "bad_request", "Pagination parameters are invalid: page: 'x'"),
        ("page=1&page_size=1.5", "bad_request", "Pagination parameters are invalid: page_size: '1.5'"),
        ("page=99&name=list-", "page_out_of_range", "Page out of range, page: 99 page size: 100, len: 230"),
    ],
)
def test_a_wrong_page_is_refused_in_the_words_of_rabbitmq(
    http: httpx.Client, query: str, error: str, reason: str
) -> None:
    for path in ("/api/queues", "/api/queues/%2F"):
        answer = http.get(f"{path}?{query}")
        assert (answer.status_code, answer.json()) == (400, {"error": error, "reason": reason})


def test_a_pattern_that_would_take_years_elsewhere(http: httpx.Client) -> None:
    assert listed(http, name="(l+)+(i+)+(l|i|s|t|-|0)*x", use_regex="true") == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=NAMES)
def test_any_name_is_found_by_its_path(http: httpx.Client, broker: BrokerProcess, name: str) -> None:
    made = http.put(f"/api/queues/%2F/{quote(name, safe='')}", json={"durable": True})
    assert made.status_code in {201, 204}, made.text
    path = f"/api/queues/%2F/{quote(name, safe='')}"
    shown = http.get(path)
    assert shown.status_code == 200, shown.text
    assert shown.json()["name"] == name
    bindings = http.get(path + "/bindings").json()
    assert [binding["destination"] for binding in bindings] == [name]
    assert http.delete(path).status_code == 204
    missing = http.get(path)
    assert missing.status_code == 404
    assert name in missing.json()["reason"]
