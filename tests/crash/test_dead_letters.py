"""kill -9 while messages expire, are rejected and are one too many: each is in exactly one queue afterwards.

Everything ends in `dead`, where a consumer acknowledges it. In one life of the broker nothing comes there twice; what
was confirmed and not acknowledged there is found once, in whichever queue, when the last broker is emptied.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from collections.abc import Callable

import aio_pika
import pytest
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aiormq.abc import FieldValue

from tests.broker_process import BrokerProcess
from tests.crash.length import TEST_S_MAX, TIMES
from tests.waiting import pause

ROUNDS = 8 * TIMES
DEAD = "dead"
MARKERS = "markers"
WORK: dict[str, dict[str, FieldValue]] = {
    "rejected": {},
    "expiring": {"x-message-ttl": 30},
    "limited": {"x-max-length": 20},
    "strict": {"x-message-ttl": 30, "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"},
    "failing": {"x-queue-type": "quorum", "x-delivery-limit": 1},
}


class Books:
    """What clients know, over all rounds."""

    def __init__(self) -> None:
        self.confirmed: set[str] = set()
        self.settled: set[str] = set()  # acknowledged in `dead`, and known to be on disk
        self.acked: set[str] = set()
        self.next = 0
        self.faults: list[str] = []


async def connect(broker: BrokerProcess) -> AbstractConnection:
    return await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}/")


async def open_channel(broker: BrokerProcess) -> AbstractChannel:
    """On a connection that ends with the broker."""
    return await (await connect(broker)).channel(publisher_confirms=True)


async def declare(broker: BrokerProcess) -> None:
    connection = await connect(broker)
    channel = await connection.channel()
    exchange = await channel.declare_exchange("dlx", aio_pika.ExchangeType.FANOUT, durable=True)
    await (await channel.declare_queue(DEAD, durable=True)).bind(exchange)
    await channel.declare_queue(MARKERS, durable=True, arguments={"x-max-length": 1})
    for name, arguments in WORK.items():
        await channel.declare_queue(name, durable=True, arguments={"x-dead-letter-exchange": "dlx", **arguments})
    await connection.close()


async def publish(broker: BrokerProcess, books: Books) -> None:
    channel = await open_channel(broker)

    async def one_after_the_other(queue: str) -> None:
        while True:
            name = str(books.next)
            books.next += 1
            message = aio_pika.Message(name.encode().ljust(random.choice([8, 200, 3000])))
            await channel.default_exchange.publish(message, routing_key=queue)
            books.confirmed.add(name)

    await asyncio.gather(*(one_after_the_other(queue) for queue in [*WORK] * 3))


async def refuse(broker: BrokerProcess, queue: str, requeue: bool) -> None:
    channel = await open_channel(broker)
    await channel.set_qos(prefetch_count=20)

    async def on_message(message: AbstractIncomingMessage) -> None:
        await message.reject(requeue=requeue)

    await (await channel.get_queue(queue)).consume(on_message)
    await asyncio.Event().wait()


async def bury(broker: BrokerProcess, books: Books) -> None:
    """Acknowledge what comes to `dead`, and learn by markers which acknowledgements are on disk."""
    channel = await open_channel(broker)
    await channel.set_qos(prefetch_count=50)
    inbox: asyncio.Queue[AbstractIncomingMessage] = asyncio.Queue()
    await (await channel.get_queue(DEAD)).consume(inbox.put)
    seen: set[str] = set()
    acked: list[str] = []
    while True:
        message = await inbox.get()
        name = message.body.decode().strip()
        if name in seen:
            books.faults.append(f"{name} came to {DEAD} twice in one life of the broker")
        if name in books.settled:
            books.faults.append(f"{name} came to {DEAD} after its settlement was on disk")
        if not message.headers or "x-death" not in message.headers:
            books.faults.append(f"{name} does not say why it died")
        seen.add(name)
        await message.ack()
        books.acked.add(name)
        acked.append(name)
        if len(acked) >= 20:
            sent, acked = acked, []
            await channel.default_exchange.publish(aio_pika.Message(b"-"), routing_key=MARKERS)
            books.settled.update(sent)


async def one_round(broker: BrokerProcess, books: Books) -> None:
    """Load until the broker is killed under it."""
    work = [asyncio.ensure_future(publish(broker, books)), asyncio.ensure_future(bury(broker, books))]
    work += [asyncio.ensure_future(refuse(broker, *how)) for how in (("rejected", False), ("failing", True))]
    await asyncio.to_thread(pause, random.uniform(0.3, 0.9))
    early = [task for task in work if task.done()]
    broker.kill9()
    for task in early:
        task.result()  # a client that fell over before the kill is a fault of its own
    await asyncio.wait(work[:2], timeout=5)
    for task in work:
        task.cancel()
    await asyncio.gather(*work, return_exceptions=True)
    await asyncio.to_thread(pause, 0.1)  # for what the clients do at the end of their connections


async def emptied(broker: BrokerProcess) -> Counter[str]:
    """All that any queue still has."""
    connection = await connect(broker)
    channel = await connection.channel()
    found: Counter[str] = Counter()
    quiet = 0
    while quiet < 3:
        count = 0
        for name in [*WORK, DEAD]:
            queue = await channel.get_queue(name)
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                found[message.body.decode().strip()] += 1
                count += 1
        quiet = 0 if count else quiet + 1
        await asyncio.to_thread(pause, 0.1)  # what had not expired before it was looked at does so now
    await connection.close()
    return found


@pytest.mark.timeout(TEST_S_MAX)
@pytest.mark.filterwarnings("ignore")  # clients whose broker is killed leave futures behind
def test_kill9_leaves_every_dead_letter_in_one_place(start_broker: Callable[..., BrokerProcess]) -> None:
    random.seed(20_26)
    # Small files, so that rotation and rewriting into segments are killed too.
    broker = start_broker(wal_octets_max=4 << 20, wal_chunk_octets=1 << 20, segment_octets_max=1 << 20)
    books = Books()
    asyncio.run(declare(broker))
    for _ in range(ROUNDS):
        asyncio.run(one_round(broker, books))
        broker.start()
    gc.collect()  # what the clients left behind is told while nobody minds
    found = asyncio.run(emptied(broker))
    assert not books.faults, books.faults[:10]
    assert [name for name, count in found.items() if count > 1] == []
    assert books.confirmed - books.acked - set(found) == set(), "lost"
    assert books.settled & set(found) == set()
    assert len(books.confirmed) > 100 * ROUNDS
    assert len(books.settled) > 20 * ROUNDS
