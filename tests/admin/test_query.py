"""Queries of queues over HTTP and by operations: rows, pages, rights, and clients that go away or ask too much."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker_process import BrokerProcess
from tests.waiting import until

WAIT_S_MAX = 60
COUNT = 3000


@pytest.fixture(scope="module")
def filled(broker: BrokerProcess, http: httpx.Client) -> str:
    from tests.admin.clients import open_channel

    with open_channel(broker) as channel:
        channel.queue_declare("orders", durable=True)
        for n in range(COUNT):
            channel.basic_publish("", "orders", json.dumps({"n": n, "k": n % 7}).encode())
    until(lambda: asked(http, "orders", select="COUNT(*) AS n")["rows"] == [{"n": COUNT}])
    return "orders"


def asked(http: httpx.Client, queue: str, **query: object) -> dict[str, Any]:
    answer = http.post(f"/queues/%2F/{queue}/query", json=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_groups_and_orders_over_many_messages(http: httpx.Client, filled: str) -> None:
    found = asked(http, filled, select="/k AS k, COUNT(*) AS n, SUM(/n) AS s", group_by="/k", order_by="k DESC")
    assert found["rows"] == [
        {"k": k, "n": len(range(k, COUNT, 7)), "s": sum(range(k, COUNT, 7))} for k in range(6, -1, -1)
    ]
    assert (found["scanned"], found["matched"], found["end"], "next" in found) == (COUNT, COUNT, COUNT, False)
    rows: list[int] = []
    query: dict[str, object] = {"select": "/n", "where": "/k = 3", "limit": 100, "order_by": "/n DESC", "top_n": 250}
    while True:
        page = asked(http, filled, **query)
        rows += [row["/n"] for row in page["rows"]]
        if "next" not in page:
            break
        query |= page["next"]
    assert rows == [n for n in range(COUNT - 1, -1, -1) if n % 7 == 3][:250]


def test_the_operation_says_that_it_is_not_done(http: httpx.Client, filled: str) -> None:
    def operation(**given: object) -> httpx.Response:
        return http.post("/operations/queue.query", json={"queue": filled, **given})

    first = operation(select="COUNT(*) AS n", scan=1000).json()
    assert set(first) == {"running", "scanned", "matched", "end"} and first["scanned"] < COUNT
    answer = first
    while "running" in answer:
        answer = operation(running=first["running"], scan=1000).json()
    assert answer["rows"] == [{"n": COUNT}]
    assert "is not under way" in operation(running=first["running"]).json()["reason"]


def test_what_is_wrong_is_refused_with_its_name(http: httpx.Client, filled: str) -> None:
    for query, status, reason in (
        ({"where": "/n >"}, 400, "filter, position 5"),
        ({"select": "SUM(/n"}, 400, "select, position 7"),
        ({"selct": "/n"}, 400, "did you mean select?"),
        ({"limit": 1001}, 400, "limit"),
        ({"group": "nobody"}, 400, "has no work group 'nobody'"),
    ):
        answer = http.post(f"/queues/%2F/{filled}/query", json=query)
        assert (answer.status_code, reason in answer.text) == (status, True), answer.text
    assert http.post("/queues/%2F/no-such-queue/query", json={}).status_code == 404


def test_who_may_not_read_the_queue_may_not_query_it(http: httpx.Client, filled: str) -> None:
    http.post("/operations/user.add", json={"user": "reader", "password": "r", "tags": ["management"]})
    http.post(
        "/operations/permission.set",
        json={"user": "reader", "vhost": "/", "configure": "", "write": "", "read": "^orders$"},
    )
    http.post("/operations/queue.declare", json={"queue": "secret"})
    statuses = {
        queue: http.post(f"/queues/%2F/{queue}/query", json={"limit": 1}, auth=("reader", "r")).status_code
        for queue in (filled, "secret")
    }
    assert statuses == {filled: 200, "secret": 401}


def test_many_queries_at_once_are_answered_or_refused(http: httpx.Client, broker: BrokerProcess, filled: str) -> None:
    def query(_: int) -> int:
        answer = httpx.post(
            f"{broker.http_url}/api/forebay/queues/%2F/{filled}/query",
            json={"order_by": "/k", "limit": 1000},
            auth=("guest", "guest"),
            timeout=WAIT_S_MAX,
        )
        if answer.status_code != 200:
            assert "8 queries of user 'guest' run already" in answer.text
        return answer.status_code

    with ThreadPoolExecutor(24) as pool:
        statuses = list(pool.map(query, range(24)))
    assert statuses.count(200) >= 8
    assert set(statuses) <= {200, 403, 400, 429}
    assert len(asked(http, filled, limit=5)["rows"]) == 5


def test_clients_that_go_away_midway_leave_nothing_behind(
    http: httpx.Client, broker: BrokerProcess, filled: str, channel: BlockingChannel
) -> None:
    where = urlsplit(broker.http_url)
    body = json.dumps({"order_by": "/k DESC"}).encode()
    head = (
        f"POST /api/forebay/queues/%2F/{filled}/query HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Authorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode()
    for _ in range(20):
        with socket.create_connection((where.hostname or "", where.port or 0)) as line:
            line.sendall(head + body)
    channel.basic_publish("", filled, b"{}")
    until(lambda: http.post(f"/queues/%2F/{filled}/query", json={"limit": 1}).status_code == 200)
    assert channel.queue_declare(filled, passive=True).method.message_count >= COUNT
