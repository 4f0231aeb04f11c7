"""Two workers share a queue of orders; one that fails comes again after a pause, and ends among the dead letters."""

from __future__ import annotations

import argparse
import json

import pika
from pika.adapters.blocking_connection import BlockingChannel

ARGUMENTS = {
    "x-delivery-limit": 2,
    "x-delayed-retry-type": "failed",
    "x-delayed-retry-min": 50,
    "x-dead-letter-exchange": "",
    "x-dead-letter-routing-key": "orders.failed",
}


def declare(channel: BlockingChannel) -> None:
    """The queue of orders, and the one of those that cannot be done."""
    channel.queue_declare("orders.failed", durable=True)
    channel.queue_declare("orders", durable=True, arguments=ARGUMENTS)


def main(argv: list[str] | None = None) -> None:
    """Publish orders, work on them, and tell what came of each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5672, help="the broker's AMQP port")
    given = parser.parse_args(argv)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", given.port))
    channel = connection.channel()
    channel.confirm_delivery()
    declare(channel)
    for number, total in enumerate((20, -1, 30)):
        channel.basic_publish("", "orders", json.dumps({"order": number, "total": total}).encode(), mandatory=True)

    done: dict[str, list[int]] = {"ann": [], "bob": []}
    tries = 0

    def worker(name: str) -> None:
        def work(channel: BlockingChannel, method: object, _: object, body: bytes) -> None:
            nonlocal tries
            order = json.loads(body)
            if order["total"] > 0:
                done[name].append(order["order"])
                channel.basic_ack(method.delivery_tag)
            else:
                tries += 1
                channel.basic_nack(method.delivery_tag, requeue=True)

        channel.basic_consume("orders", work)

    channel.basic_qos(prefetch_count=1)
    for name in done:
        worker(name)
    while sum(map(len, done.values())) < 2 or tries < 3:
        connection.process_data_events(time_limit=1)
    print("done", sorted(done["ann"] + done["bob"]))
    print("tried in vain", tries, "times")
    for _, properties, body in channel.consume("orders.failed", auto_ack=True):
        death = properties.headers["x-death"][0]
        print("failed", json.loads(body)["order"], death["reason"])
        break
    connection.close()


if __name__ == "__main__":
    main()
