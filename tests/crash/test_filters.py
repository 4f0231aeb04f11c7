"""kill -9 while consumers with filters take messages out of the middle of a queue.

A settlement is known to be on disk once a publish that the same connection sent after it is confirmed.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker_process import BrokerProcess

ROUNDS = 2
EACH = 500  # messages published in a round
PARTS = 5  # the last is wanted by nobody


def open_channel(broker: BrokerProcess) -> BlockingChannel:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=20)
    return channel


def work(channel: BlockingChannel, part: int, most: int) -> tuple[list[int], set[int]]:
    """Take what one part's filter wants, at most so many, each third returned at first.

    What came, and what is settled on the disk.
    """
    came: list[int] = []
    settled: set[int] = set()
    returned: set[int] = set()
    wanted = {"x-filter": f"/n % {PARTS} = {part}"}
    for method, _, body in channel.consume("q", arguments=wanted, inactivity_timeout=2):
        if method is None:
            break
        number = json.loads(body)["n"]
        came.append(number)
        if number % 3 == 0 and number not in returned:
            returned.add(number)
            channel.basic_nack(method.delivery_tag)
            continue
        channel.basic_ack(method.delivery_tag)
        settled.add(number)
        if len(settled) == most:
            break
    channel.basic_publish("", "markers", b"")  # its confirm comes after the settlements are written
    return came, settled


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_what_nobody_wanted_is_there_and_what_was_settled_stays_so(
    start_broker: Callable[..., BrokerProcess], queue_type: str
) -> None:
    broker = start_broker()
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True, arguments={"x-queue-type": queue_type})
    channel.queue_declare("markers", durable=True)
    settled: set[int] = set()
    for round in range(ROUNDS):
        publisher = channel.connection.channel()
        for number in range(round * EACH, (round + 1) * EACH):
            publisher.basic_publish("", "q", b'{"n": %d}' % number)
        channel.basic_publish("", "markers", b"")
        for part in range(PARTS - 1):
            came, done = work(open_channel(broker), part, 60)
            assert not settled & set(came), "settled messages came again"
            assert {number % PARTS for number in came} == {part}
            settled |= done
        broker.kill9()
        broker.start()
        channel = open_channel(broker)
    left = sorted(set(range(ROUNDS * EACH)) - settled)
    assert channel.queue_declare("q", passive=True).method.message_count == len(left)
    found = []
    for method, _, body in channel.consume("q", inactivity_timeout=10):
        assert body is not None
        found.append(json.loads(body)["n"])
        channel.basic_ack(method.delivery_tag)
        if len(found) == len(left):
            break
    assert found == left
