"""kill -9 under load: what was confirmed is there, what was settled stays settled, order is kept.

A settlement is known to be on disk once a publish that the same connection sent after it is confirmed: the log is
written in the order in which the broker took things in.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractIncomingMessage

from tests.broker_process import BrokerProcess
from tests.crash.length import TEST_S_MAX, TIMES
from tests.waiting import pause

ROUNDS = 10 * TIMES
PUBLISHERS = 20
QUEUE = "work"
MARKERS = "markers"


class Ledger:
    """What clients know, over all rounds."""

    def __init__(self) -> None:
        self.confirmed: set[str] = set()
        self.seen: set[str] = set()
        self.settled: set[str] = set()  # known to be on disk
        self.next_number = [0] * PUBLISHERS
        self.last_seen = [-1] * PUBLISHERS
        self.faults: list[str] = []

    def delivered(self, name: str) -> None:
        if name in self.settled:
            self.faults.append(f"{name} delivered again after its settlement was on disk")
        if name not in self.seen:
            publisher, number = (int(part) for part in name.split(":"))
            if number < self.last_seen[publisher]:
                self.faults.append(f"{name} came for the first time after {publisher}:{self.last_seen[publisher]}")
            self.last_seen[publisher] = number
        self.seen.add(name)


async def connect(broker: BrokerProcess) -> aio_pika.abc.AbstractConnection:
    return await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/")


async def publish(broker: BrokerProcess, ledger: Ledger) -> None:
    """Twenty sequences at once over one channel, each waiting for its confirms."""
    connection = await connect(broker)
    channel = await connection.channel(publisher_confirms=True)

    async def sequence(publisher: int) -> None:
        while True:
            number = ledger.next_number[publisher]
            ledger.next_number[publisher] += 1
            name = f"{publisher}:{number}"
            message = aio_pika.Message(name.encode().ljust(random.choice([8, 200, 3000])))
            await channel.default_exchange.publish(message, routing_key=QUEUE)
            ledger.confirmed.add(name)

    await asyncio.gather(*(sequence(publisher) for publisher in range(PUBLISHERS)))


async def consume(broker: BrokerProcess, ledger: Ledger, until_empty: bool = False) -> None:
    """Ack everything, and learn by markers which acks are on disk."""
    connection = await connect(broker)
    channel = await connection.channel(publisher_confirms=True)
    await channel.set_qos(prefetch_count=100)
    inbox: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    queue = await channel.get_queue(QUEUE)
    await queue.consume(inbox.put)
    acked: list[str] = []
    while True:
        try:
            message = await asyncio.wait_for(inbox.get(), 1.0 if until_empty else None)
        except TimeoutError:
            break
        name = message.body.decode().strip()
        ledger.delivered(name)
        await message.ack()
        acked.append(name)
        if len(acked) >= 50:
            sent, acked = acked, []
            await channel.default_exchange.publish(aio_pika.Message(b"-"), routing_key=MARKERS)
            ledger.settled.update(sent)
    await connection.close()


async def one_round(broker: BrokerProcess, ledger: Ledger) -> None:
    """Load until the broker is killed under it."""
    work = [asyncio.ensure_future(publish(broker, ledger)), asyncio.ensure_future(consume(broker, ledger))]
    await asyncio.to_thread(pause, random.uniform(0.2, 0.8))
    early = [task for task in work if task.done()]
    broker.kill9()
    for task in early:
        task.result()  # a client that fell over before the kill is a fault of its own
    await asyncio.wait(work, timeout=5)
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)


async def declare(broker: BrokerProcess) -> None:
    connection = await connect(broker)
    channel = await connection.channel()
    for name in (QUEUE, MARKERS):
        await channel.declare_queue(name, durable=True)
    await connection.close()


@pytest.mark.timeout(TEST_S_MAX)
@pytest.mark.filterwarnings("ignore")  # clients whose broker is killed leave futures behind
def test_kill9_loses_nothing_confirmed(start_broker: Callable[..., BrokerProcess]) -> None:
    random.seed(20_26)
    # Small files, so that rotation and rewriting into segments are killed too.
    broker = start_broker(wal_octets_max=4 << 20, wal_chunk_octets=1 << 20, segment_octets_max=1 << 20)
    ledger = Ledger()
    asyncio.run(declare(broker))
    for _ in range(ROUNDS):
        asyncio.run(one_round(broker, ledger))
        broker.start()
    asyncio.run(consume(broker, ledger, until_empty=True))
    assert not ledger.faults, ledger.faults[:10]
    assert ledger.confirmed - ledger.seen == set()
    assert len(ledger.confirmed) > 100 * ROUNDS
    assert len(ledger.settled) > 20 * ROUNDS
