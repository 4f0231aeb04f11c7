"""kill -9 while messages go round: none is delivered more often than its queue allows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pika
import pytest
from pika.exceptions import AMQPError

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.crash.length import TEST_S_MAX, TIMES
from tests.waiting import until

ROUNDS: Final = 4 * TIMES
MESSAGES: Final = 300
DELIVERIES: Final = 3
TO_DEAD: Final = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
QUEUES: Final[dict[str, dict[str, object]]] = {
    "counted": {"x-max-deliveries": DELIVERIES, **TO_DEAD},
    "once": {"x-semantics": "at-most-once"},
}


def consume_for_a_while(broker: BrokerProcess, chance: random.Random, seen: dict[str, Counter[bytes]]) -> None:
    """Take messages, give most of them back, and have the broker killed in the middle of it."""
    channel = open_channel(broker)
    channel.basic_qos(prefetch_count=20)
    left = chance.randrange(40, 200)
    with suppress(AMQPError, ConnectionError):
        for name in QUEUES:
            for method, _, body in channel.consume(name, inactivity_timeout=0.2):
                if method is None:
                    break
                seen[name][body] += 1
                left -= 1
                if left == 0:
                    broker.kill9()
                    raise ConnectionError
                if chance.random() < 0.8:
                    channel.basic_nack(method.delivery_tag)
            channel.cancel()
    if left > 0:
        broker.kill9()
    broker.start()


@pytest.mark.timeout(TEST_S_MAX)
def test_kill9_loses_no_count(start_broker: Callable[..., BrokerProcess]) -> None:
    chance = random.Random(20_26)
    broker = start_broker(wal_octets_max=4 << 20, wal_chunk_octets=1 << 20)
    channel = open_channel(broker)
    channel.queue_declare("dead", durable=True)
    for name, arguments in QUEUES.items():
        channel.queue_declare(name, durable=True, arguments=arguments)
        for number in range(MESSAGES):
            channel.basic_publish("", name, b"%d" % number, pika.BasicProperties(delivery_mode=2))
    channel.connection.close()
    seen: dict[str, Counter[bytes]] = {name: Counter() for name in QUEUES}
    for _ in range(ROUNDS):
        consume_for_a_while(broker, chance, seen)
    assert max(seen["counted"].values()) <= DELIVERIES
    assert max(seen["once"].values()) == 1
    channel = open_channel(broker)

    def is_over() -> bool:
        for method, _, body in channel.consume("counted", inactivity_timeout=0.2):
            if method is None:
                break
            seen["counted"][body] += 1
            channel.basic_nack(method.delivery_tag)
        channel.cancel()
        return bool(channel.queue_declare("dead", passive=True).method.message_count == MESSAGES)

    until(is_over, "every message to have been delivered as often as it may be")
    assert max(seen["counted"].values()) <= DELIVERIES
    channel.connection.close()
