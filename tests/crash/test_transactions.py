"""kill -9 in the middle of transactions: of each of them everything is there afterwards, or nothing.

Workers move numbers from the queue `work` to both queues of the exchange `done`, each number in a transaction that
publishes it and acknowledges where it came from.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker_process import BrokerProcess
from tests.waiting import pause

ROUNDS = 10
NUMBERS = 400  # a round cannot use up
WORKERS = 3
PADDING = (8, 200, 3000)
BLOCKS_OF_BODIES = 7  # bodies that together are longer than a block may be


def open_channel(broker: BrokerProcess) -> BlockingChannel:
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)).channel()


def number_of(body: bytes) -> int:
    return int(body.split()[0])


def work(broker: BrokerProcess, committed: set[int], seed: int) -> None:
    """Move numbers until the broker is gone, some of them in one transaction, a few of them back."""
    chance = random.Random(seed)
    try:
        channel = open_channel(broker)
        channel.tx_select()
        while True:
            moved = []
            for _ in range(chance.choice([1, 1, 3])):
                method, _, body = channel.basic_get("work")
                if method is None:
                    break
                moved.append(number_of(body))
                padded = (b"%d " % moved[-1]).ljust(chance.choice(PADDING))
                channel.basic_publish("done", "", padded)
                channel.basic_ack(method.delivery_tag)
            if chance.random() < 0.1:
                channel.tx_rollback()
                channel.basic_recover(requeue=True)
                continue
            channel.tx_commit()
            committed.update(moved)
    except pika.exceptions.AMQPError:
        return


def drain(channel: BlockingChannel, queue: str) -> Counter[int]:
    found: Counter[int] = Counter()
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found[number_of(body)] += 1


@pytest.mark.timeout(300)
def test_kill9_leaves_of_a_transaction_all_or_nothing(start_broker: Callable[..., BrokerProcess]) -> None:
    random.seed(20_26)
    # Small files, so that transactions lie at their ends too.
    broker = start_broker(wal_octets_max=1 << 20, wal_chunk_octets=1 << 18, segment_octets_max=1 << 20)
    moved = 0
    for _ in range(ROUNDS):
        channel = open_channel(broker)
        channel.exchange_declare("done", "fanout", durable=True)
        for queue in ("work", "one", "two"):
            channel.queue_declare(queue, durable=True)
            channel.queue_purge(queue)
        channel.queue_bind("one", "done")
        channel.queue_bind("two", "done")
        channel.tx_select()
        for number in range(NUMBERS):
            channel.basic_publish("", "work", b"%d " % number)
        channel.tx_commit()
        committed: set[int] = set()
        seeds = [random.randrange(1 << 30) for _ in range(WORKERS)]
        workers = [threading.Thread(target=work, args=(broker, committed, seed), daemon=True) for seed in seeds]
        for worker in workers:
            worker.start()
        pause(random.uniform(0.05, 0.5))
        broker.kill9()
        for worker in workers:
            worker.join(20)
            assert not worker.is_alive()
        broker.start()
        channel = open_channel(broker)
        left, one, two = drain(channel, "work"), drain(channel, "one"), drain(channel, "two")
        assert one == two
        assert left + one == Counter(range(NUMBERS)), "every number is in one place, once"
        assert committed <= set(one)
        moved += len(one)
    assert moved, "no transaction was done"


def test_a_commit_of_acknowledgements_alone_is_on_the_disk(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare("q", durable=True)
    channel.tx_select()
    for number in range(4):
        channel.basic_publish("", "q", b"%d " % number)
    channel.tx_commit()
    tags = [channel.basic_get("q")[0].delivery_tag for _ in range(4)]
    channel.basic_ack(tags[0])
    channel.basic_reject(tags[2], requeue=False)
    channel.tx_commit()
    broker.kill9()
    broker.start()
    assert drain(open_channel(broker), "q") == Counter([1, 3])


@pytest.mark.timeout(300)
def test_a_transaction_longer_than_a_block_is_whole_or_gone(start_broker: Callable[..., BrokerProcess]) -> None:
    chance = random.Random(20_26)
    broker = start_broker()
    body = bytes(12 << 20)
    before = 0
    for wait_s in (0.0, 0.02, 0.1, 0.3, None):
        channel = open_channel(broker)
        channel.queue_declare("long", durable=True)
        channel.tx_select()
        for _ in range(BLOCKS_OF_BODIES):
            channel.basic_publish("", "long", body)

        def commit(channel: BlockingChannel = channel) -> None:
            try:
                channel.tx_commit()
            except pika.exceptions.AMQPError:
                return

        thread = threading.Thread(target=commit, daemon=True)
        thread.start()
        if wait_s is None:
            thread.join(60)
        else:
            pause(wait_s + chance.uniform(0, 0.05))
        broker.kill9()
        thread.join(20)
        assert not thread.is_alive()
        broker.start()
        count = open_channel(broker).queue_declare("long", passive=True).method.message_count
        assert count in (before, before + BLOCKS_OF_BODIES)
        assert wait_s is not None or count > before, "it was committed"
        before = count
