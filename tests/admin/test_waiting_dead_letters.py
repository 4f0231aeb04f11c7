"""Dead letters that wait for a route are counted wherever the messages of queues are."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pika

from tests.admin.test_metrics import one, scrape
from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay
from tests.waiting import until

ARGUMENTS = {
    "x-queue-type": "quorum",
    "x-dead-letter-exchange": "nowhere",
    "x-dead-letter-strategy": "at-least-once",
    "x-overflow": "reject-publish",
}
ADDRESS = "127.0.0.1:0"


def test_they_are_counted_everywhere(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http=ADDRESS, prometheus=ADDRESS)
    with (
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection,
        httpx.Client(base_url=broker.http_url, auth=("guest", "guest"), timeout=60) as http,
    ):
        channel = connection.channel()
        channel.exchange_declare("nowhere", "fanout", durable=True)
        channel.queue_declare("q", durable=True, arguments=ARGUMENTS)
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"rejected")
        method, _, _ = channel.basic_get("q")
        channel.basic_reject(method.delivery_tag, requeue=False)

        def told() -> tuple[int, int, int, int]:
            found = http.get("/api/queues/%2F/q").raise_for_status().json()
            return found["messages"], found["messages_ready"], found["messages_dlx"], found["message_bytes_dlx"]

        until(lambda: told() == (1, 0, 1, 8))
        samples = scrape(broker, "/metrics/per-object")
        for name, number in (
            ("rabbitmq_queue_messages", 1),
            ("forebay_queue_dead_letters_waiting", 1),
            ("forebay_queue_dead_letter_bytes_waiting", 8),
        ):
            assert one(samples, name, "/", "q") == number
        (listed,) = Forebay(broker).json("queue", "list")
        assert (listed["queue"], listed["ready"], listed["dead_letters_waiting"]) == ("q", 0, 1)
    broker.stop()
    broker.start()
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        method, properties, body = connection.channel().basic_get("q")
        assert (body, method.redelivered, properties.headers["x-acquired-count"]) == (b"rejected", True, 1)
