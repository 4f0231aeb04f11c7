"""A last-value queue through `kill -9` under load: the latest of each key, patches merged, nothing old comes back."""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path

import pika

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess

KEYS = 5
ROUNDS = 3
PATCH = pika.BasicProperties(headers={"x-merge-patch": True}, delivery_mode=2)


class Publisher(threading.Thread):
    """Publishes patches for each key in turn until its connection breaks; `confirmed` is the last number by key."""

    def __init__(self, broker: BrokerProcess, first: int) -> None:
        super().__init__()
        self.broker = broker
        self.next = first
        self.confirmed: dict[int, int] = {}

    def run(self) -> None:
        with suppress(pika.exceptions.AMQPError, OSError):
            channel = open_channel(self.broker)
            while True:
                key = self.next % KEYS
                body = json.dumps({"k": key, "n": self.next, f"f{self.next % 2}": self.next}).encode()
                channel.basic_publish("", "latest", body, PATCH)
                self.confirmed[key] = self.next
                self.next += 1


def take_some(broker: BrokerProcess, most: int) -> None:
    """Get messages and settle every other one of them; no key goes back."""
    channel = open_channel(broker)
    seen: dict[int, int] = {}
    for number in range(most):
        method, _, body = channel.basic_get("latest")
        if method is None:
            continue
        value = json.loads(body)
        assert value["n"] >= seen.get(value["k"], -1), f"{value} came after {seen[value['k']]}"
        seen[value["k"]] = value["n"]
        if number % 2:
            channel.basic_ack(method.delivery_tag)
    channel.connection.close()


def take_all(broker: BrokerProcess) -> dict[int, dict[str, object]]:
    """Publish one more patch of each key, and return what the queue has by then, by key."""
    channel = open_channel(broker)
    for key in range(KEYS):
        channel.basic_publish("", "latest", json.dumps({"k": key, "last": True}).encode(), PATCH)
    found: dict[int, dict[str, object]] = {}
    while True:
        method, _, body = channel.basic_get("latest", auto_ack=True)
        if method is None:
            return found
        value = json.loads(body)
        assert value["k"] not in found, "one record of each key"
        found[value["k"]] = value


def test_the_latest_of_each_key_after_kills_under_load(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    try:
        channel = open_channel(broker)
        channel.queue_declare("latest", durable=True, arguments={"x-last-value-key": "/k"})
        channel.connection.close()
        confirmed: dict[int, int] = {}
        first = 0
        for _ in range(ROUNDS):
            publisher = Publisher(broker, first)
            publisher.start()
            with suppress(pika.exceptions.AMQPError, OSError):
                take_some(broker, 30)
            broker.kill9()
            publisher.join()
            first = publisher.next
            confirmed.update(publisher.confirmed)
            broker.start()
        found = take_all(broker)
        assert set(found) == set(range(KEYS))
        for key, value in found.items():
            number = value.get("n")  # none if the latest was settled before the last patch came
            assert value["last"] is True
            assert number is None or (isinstance(number, int) and number >= confirmed.get(key, -1)), value
    finally:
        broker.stop()
