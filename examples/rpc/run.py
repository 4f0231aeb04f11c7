"""A question over AMQP and its answer, without a queue for answers: direct reply-to."""

from __future__ import annotations

import argparse

import pika
from pika.adapters.blocking_connection import BlockingChannel

REPLIES = "amq.rabbitmq.reply-to"


def serve(channel: BlockingChannel) -> None:
    """Square what is asked."""
    channel.queue_declare("square", durable=True)

    def answer(channel: BlockingChannel, method: object, asked: pika.BasicProperties, body: bytes) -> None:
        properties = pika.BasicProperties(correlation_id=asked.correlation_id)
        channel.basic_publish("", asked.reply_to, b"%d" % int(body) ** 2, properties)
        channel.basic_ack(method.delivery_tag)

    channel.basic_consume("square", answer)


def main(argv: list[str] | None = None) -> None:
    """Serve, ask three questions at once, and print the answers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5672, help="the broker's AMQP port")
    given = parser.parse_args(argv)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", given.port))
    serve(connection.channel())
    client = connection.channel()
    answers: dict[str, int] = {}

    def note(channel: BlockingChannel, method: object, properties: pika.BasicProperties, body: bytes) -> None:
        answers[properties.correlation_id] = int(body)

    client.basic_consume(REPLIES, note, auto_ack=True)
    for number in (3, 4, 12):
        properties = pika.BasicProperties(reply_to=REPLIES, correlation_id=str(number))
        client.basic_publish("", "square", b"%d" % number, properties)
    while len(answers) < 3:
        connection.process_data_events(time_limit=1)
    for number, answer in sorted(answers.items(), key=lambda each: each[1]):
        print(number, "squared is", answer)
    connection.close()


if __name__ == "__main__":
    main()
