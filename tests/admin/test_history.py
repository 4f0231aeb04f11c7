"""The samples of charts, asked for over HTTP: of the node, a queue, a connection, before and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pika

from tests.broker_process import BrokerProcess, running
from tests.waiting import until

GUEST = ("guest", "guest")


def asked(broker: BrokerProcess, path: str, **query: int) -> dict[str, Any]:
    """The lines of a history."""
    answer = httpx.get(f"{broker.http_url}{path}", params=query, auth=GUEST)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def values(lines: dict[str, Any], name: str) -> list[int | None]:
    return [each["sample"] for each in lines[f"{name}_details"]["samples"]]


def test_samples_outlive_the_broker_and_not_the_queue(tmp_path: Path) -> None:
    orders, gone = "/api/forebay/queues/%2F/orders/samples", "/api/forebay/queues/%2F/gone/samples"
    with running(tmp_path, http="127.0.0.1:0") as broker:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("orders", "gone"):
            channel.queue_declare(queue, durable=True)
            for _ in range(5):
                channel.basic_publish("", queue, b"x" * 100)
        (found,) = httpx.get(f"{broker.http_url}/api/connections", auth=GUEST).json()
        mine = f"/api/forebay/connections/{quote(found['name'], safe='')}/samples"
        until(lambda: 10 in values(asked(broker, mine), "publish"), "ten publishes of the connection")
        octets = values(asked(broker, mine), "recv_oct")[0]
        assert octets is not None and octets > 1000
        channel.basic_get("orders", auto_ack=False)
        channel.basic_reject(1, requeue=False)
        channel.queue_delete("gone")
        connection.close()
        until(lambda: 1 in values(asked(broker, orders), "rejected"), "a rejected message")
        before = asked(broker, orders)["messages_details"]["samples"]
        newest = before[0]["timestamp"]
        only_new = asked(broker, orders, after=newest)["messages_details"]["samples"]
        assert all(each["timestamp"] > newest for each in only_new)
        broker.restart()
        until(lambda: values(asked(broker, "/api/forebay/samples"), "connections"), "a sample")
        after = asked(broker, orders)
        assert [each for each in after["messages_details"]["samples"] if each["timestamp"] <= newest] == before
        assert after["messages_details"]["samples"][0]["timestamp"] > newest
        assert {0, -1} <= set(values(after, "rejected"))  # as many as before, counted down to the stop
        node = asked(broker, "/api/forebay/samples")
        assert -1 in values(node, "rejected")
        assert any(took is not None and took > 0 for took in values(node, "confirm_p99_us"))
        assert all(used is None or used > 1 << 20 for used in values(node, "mem_used"))
        day = asked(broker, "/api/forebay/samples", age=86_400)
        assert day["step_s"] == 300 and values(day, "publish")
        assert httpx.get(f"{broker.http_url}{gone}", auth=GUEST).status_code == 404


def test_more_samples_than_an_answer_has_room_for_are_refused(tmp_path: Path) -> None:
    query = {"msg_rates_age": 86_400, "msg_rates_incr": 60}
    with running(tmp_path, http="127.0.0.1:0") as broker:
        answer = httpx.get(f"{broker.http_url}/api/overview", params=query, auth=GUEST)
    assert answer.status_code == 400
    assert "msg_rates_incr: 60 s over msg_rates_age=86400 s are 1440 samples, not up to 600" in answer.text


def test_a_damaged_history_is_passed_over(tmp_path: Path) -> None:
    with running(tmp_path, http="127.0.0.1:0") as broker:
        broker.stop()
        path = broker.data / "chart-history"
        octets = path.read_bytes()
        path.write_bytes(octets[:-9] + bytes(9))
        broker.start()
        until(lambda: "history of charts is lost" in broker.log_text(), "a line in the log")
        until(lambda: values(asked(broker, "/api/forebay/samples"), "publish"), "a sample")
