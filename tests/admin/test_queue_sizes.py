"""What the messages of a queue take, by the HTTP API: those that are ready, and those that a consumer holds."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pika

from tests.broker_process import BrokerProcess
from tests.waiting import until

PARTS = ("", "_ready", "_unacknowledged")


def test_they_are_shared_out_among_what_is_ready_and_held(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0")
    with (
        pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection,
        httpx.Client(base_url=broker.http_url + "/api", auth=("guest", "guest"), timeout=60) as http,
    ):

        def shares() -> tuple[int, int]:
            """Bytes of what is ready and of what is held."""
            queue = http.get("/queues/%2F/q").raise_for_status().json()
            whole, ready, held = (queue[f"message_bytes{part}"] for part in PARTS)
            assert whole == queue["message_bytes_persistent"] == queue["message_bytes_ram"] >= ready + held
            assert [queue[f"messages{part}_ram"] for part in PARTS] == [queue[f"messages{part}"] for part in PARTS]
            return ready, held

        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        assert shares() == (0, 0)
        channel.tx_select()
        for size in (1000, 2000, 3000, 4000, 5000):
            channel.basic_publish("", "q", bytes(size), pika.BasicProperties(delivery_mode=2))
        channel.tx_commit()
        whole, held = shares()
        assert (15_000 < whole < 16_000, held) == (True, 0)
        for _ in range(2):
            method, _, _ = channel.basic_get("q")
        ready, held = shares()
        assert (3000 < held < 3500, ready + held) == (True, whole)
        (listed,) = http.get("/queues").raise_for_status().json()
        assert (listed["message_bytes_ready"], listed["message_bytes_unacknowledged"]) == (ready, held)
        for _ in range(3):
            channel.basic_get("q")
        assert shares() == (0, whole)
        channel.basic_nack(method.delivery_tag, multiple=True)
        channel.tx_commit()
        ready, held = shares()
        assert (12_000 < held < 12_500, ready + held) == (True, whole)
        channel.close()
        until(lambda: shares() == (whole, 0))
        connection.channel().queue_purge("q")
        until(lambda: shares() == (0, 0))
