"""Queues of a configuration file, in FluxMQ's words, as clients meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pika

from tests.broker_process import BrokerProcess
from tests.waiting import until

WAIT_S = 60


def get(channel: Any, queue: str) -> tuple[Any, bytes]:
    """The next message of a queue, once there is one."""
    found: list[tuple[Any, bytes]] = []

    def is_there() -> bool:
        method, _, body = channel.basic_get(queue)
        if method is not None:
            found.append((method, body))
        return method is not None

    until(is_there, f"a message in {queue}")
    return found[0]


def test_what_fails_too_often_goes_to_the_dead_letters_of_its_queue(start_broker: Callable[..., BrokerProcess]) -> None:
    entry = {
        "name": "tasks",
        "type": "classic",
        "topics": ["jobs/#"],
        "limits": {"max_message_size": 10485760, "max_depth": 100000, "message_ttl": "168h"},
        "retry": {"max_retries": 1, "initial_backoff": "1ms", "max_backoff": "2ms", "multiplier": 2.0},
        "dlq": {"enabled": True, "topic": ""},
    }
    rest = {"name": "mqtt", "topics": ["$queue/#"], "reserved": True}
    broker = start_broker(queues=[entry, rest])
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "jobs.print", b"page", mandatory=True)
    for _ in range(2):
        method, body = get(channel, "tasks")
        assert body == b"page"
        channel.basic_reject(method.delivery_tag, requeue=True)
    method, body = get(channel, "$dlq/tasks")
    assert body == b"page" and method.routing_key == "$dlq/tasks"
    channel.basic_ack(method.delivery_tag)
    channel.basic_publish("", "$queue/nobody/has/it", b"rest", mandatory=True)
    assert get(channel, "mqtt")[1] == b"rest"
    connection.close()
