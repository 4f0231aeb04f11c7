"""Views over one stream through `kill -9` under load: what was confirmed is in each of them, once settled or not."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path

import pika

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess

VIEWS = ["fast", "slow", "idle"]
EVEN = "even"  # takes every second number
ROUNDS = 3
MESSAGES = 400


class Publisher(threading.Thread):
    """Publishes numbers to the stream until its connection breaks; `confirmed` is the last of them."""

    def __init__(self, broker: BrokerProcess, first: int) -> None:
        super().__init__()
        self.broker = broker
        self.next = first
        self.confirmed = first - 1

    def run(self) -> None:
        with suppress(pika.exceptions.AMQPError, OSError):
            channel = open_channel(self.broker)
            while True:
                channel.basic_publish("", "orders", b'{"n": %d}' % self.next)
                self.confirmed = self.next
                self.next += 1


def drain(broker: BrokerProcess, queue: str, most: int) -> list[int]:
    """Get and settle messages one by one; what they were."""
    channel = open_channel(broker)
    found: list[int] = []
    while len(found) < most:
        method, _, body = channel.basic_get(queue)
        if method is None:
            break
        found.append(int(json.loads(body)["n"]))
        channel.basic_ack(method.delivery_tag)
    channel.connection.close()
    return found


def test_every_view_has_what_was_confirmed_after_kills_under_load(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        channel = open_channel(broker)
        channel.queue_declare("orders", durable=True, arguments={"x-queue-type": "stream"})
        for name in VIEWS:
            channel.queue_declare(name, durable=True, arguments={"x-source": "orders"})
        channel.queue_declare(EVEN, durable=True, arguments={"x-source": "orders", "x-filter": "/n % 2 = 0"})
        channel.connection.close()
        seen: dict[str, list[int]] = {name: [] for name in [*VIEWS, EVEN]}
        confirmed = -1
        for _ in range(ROUNDS):
            publisher = Publisher(broker, confirmed + 1)
            publisher.start()
            with suppress(pika.exceptions.AMQPError, OSError):
                seen["fast"] += drain(broker, "fast", MESSAGES)
                seen["slow"] += drain(broker, "slow", 10)
                seen[EVEN] += drain(broker, EVEN, 50)
            broker.kill9()
            publisher.join()
            confirmed = max(confirmed, publisher.confirmed)
            broker.start()
        for name in VIEWS:
            seen[name] += drain(broker, name, 10**6)
            # A publish that was not confirmed may be there twice; one that was is there at least once.
            assert set(range(confirmed + 1)) <= set(seen[name]), name
            assert drain(broker, name, 1) == []
        seen[EVEN] += drain(broker, EVEN, 10**6)
        assert set(seen[EVEN]) == {number for number in seen["idle"] if number % 2 == 0}
        assert seen["idle"] == sorted(seen["idle"]), "in the order of the stream"
        assert set(seen["fast"]) == set(seen["slow"]) == set(seen["idle"])
    finally:
        broker.stop()
