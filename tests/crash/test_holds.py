"""A hold that was answered outlives a kill -9, and so does what it holds; what was settled stays settled."""

from __future__ import annotations

from pathlib import Path

import pika

from forebay.client.blocks import BlockClient
from tests.blocks import bodies
from tests.broker_process import BrokerProcess
from tests.waiting import until

ROUNDS = 4
A_ROUND = 300
QUEUE = "q"
LIMIT_S = 60


def connect(broker: BrokerProcess) -> BlockClient:
    return BlockClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "guest")


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%08d" % number + bytes(4000) for number in range(first, end)]


def test_what_is_held_outlives_kills(tmp_path: Path) -> None:
    """Each round consumes everything; small files make housekeeping rewrite what is held meanwhile."""
    broker = BrokerProcess(tmp_path, wal_octets_max=1 << 20, wal_chunk_octets=1 << 20, segment_octets_max=1 << 20)
    broker.start()
    try:
        with connect(broker) as client, pika.BlockingConnection(parameters(broker)) as connection:
            connection.channel().queue_declare(QUEUE, durable=True)
            assert client.hold(QUEUE, "reader", 0, 3600) == (0, 0)
        held = 0
        for turn in range(ROUNDS):
            end = (turn + 1) * A_ROUND
            with pika.BlockingConnection(parameters(broker)) as connection:
                channel = connection.channel()
                channel.confirm_delivery()
                for body in numbers(end - A_ROUND, end):
                    channel.basic_publish("", QUEUE, body)
                while channel.basic_get(QUEUE, auto_ack=True)[0] is not None:
                    pass
            with connect(broker) as client:
                assert bodies(client, QUEUE, held, end) == numbers(held, end)
                if turn == 1:
                    wait_for_segments(broker)
                    held = 2 * A_ROUND - 50
                    assert client.hold(QUEUE, "reader", held, 3600) == (held, held)
                    assert client.hold(QUEUE, "second", held + 10, 3600) == (held + 10, held)
                broker.kill9()
            broker.start()
            with connect(broker) as client:
                start = client.describe(QUEUE).start
                assert start <= held
                assert bodies(client, QUEUE, held, end) == numbers(held, end)
        with connect(broker) as client:
            client.release(QUEUE, "reader")
            assert client.describe(QUEUE).start == held + 10
    finally:
        broker.stop()


def parameters(broker: BrokerProcess) -> pika.ConnectionParameters:
    return pika.ConnectionParameters("127.0.0.1", broker.amqp_port)


def wait_for_segments(broker: BrokerProcess) -> None:
    until(broker.octets_in_segments, "segments of what is held of full files")
